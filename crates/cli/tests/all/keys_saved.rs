//! Keys that are saved and brought back: what clients read then is what was there.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use resp::Value;

use crate::keys::{Client, Keys, keys_status, start};

fn plain(path: &Path) -> &str {
    path.to_str().expect("text")
}

fn fails(keys: &Keys, arguments: &[&str], code: i32, part: &str) {
    let output = keys.run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(part), "{said}");
}

fn number(value: Value) -> i64 {
    match value {
        Value::Integer(number) => number,
        other => panic!("{other:?}"),
    }
}

/// Keys of all kinds in all slots, some of which were deleted and made anew.
fn write(client: &mut Client) {
    for at in 0..60 {
        let key = |kind: &str| format!("{kind}:{at}");
        let value = at.to_string();
        client.told(&["SET", &key("string"), &value]);
        client.told(&["SET", &key("mortal"), &value, "PX", "100000000"]);
        client.told(&["SET", &key("short"), &value, "PX", "3000"]);
        client.told(&["HSET", &key("hash"), "field", &value, "other", "x"]);
        client.told(&["RPUSH", &key("list"), "a", &value, "c"]);
        client.told(&["SADD", &key("set"), "a", &value]);
        client.told(&["ZADD", &key("sorted"), "2", "two", "1", &value]);
        // It takes rows of its own, and so did the one before it.
        let large = "y".repeat(3_000);
        client.told(&["RPUSH", &key("gone"), &large, &large]);
        client.told(&["DEL", &key("gone")]);
        client.told(&["RPUSH", &key("gone"), &large, &value]);
    }
    // A slot in its second life.
    client.told(&["SET", "{again}a", "1"]);
}

fn read(client: &mut Client) -> Vec<Value> {
    let mut values = Vec::new();
    for at in 0..60 {
        let key = |kind: &str| format!("{kind}:{at}");
        for words in [
            &["GET", &key("string")][..],
            &["GET", &key("mortal")],
            &["HGETALL", &key("hash")],
            &["LRANGE", &key("list"), "0", "-1"],
            &["SMISMEMBER", &key("set"), "a", &at.to_string(), "z"],
            &["ZRANGE", &key("sorted"), "0", "-1", "WITHSCORES"],
            &["LRANGE", &key("gone"), "0", "-1"],
            &["TYPE", &key("sorted")],
            &["PEXPIRETIME", &key("mortal")],
            &["PEXPIRETIME", &key("string")],
        ] {
            values.push(client.told(words));
        }
    }
    values.push(client.told(&["GET", "{again}a"]));
    values
}

fn counted(client: &mut Client) -> i64 {
    client.each(&["DBSIZE"]).into_iter().map(number).sum()
}

#[test]
fn keys_that_were_saved_are_read_again_from_another_cluster() {
    let directory = tempfile::tempdir().expect("a directory");
    let backup = directory.path().join("backup");
    let one = start(&directory.path().join("one"));
    fails(
        &one,
        &["kv", "backup", "--to", plain(&backup)],
        5,
        "is no directory",
    );
    fs::create_dir(&backup).expect("there is room");
    one.logberg(&["kv", "init"]);
    let mut client = one.client();
    client.told(&["SET", "{again}b", "1"]);
    client.each(&["FLUSHALL"]);
    write(&mut client);
    let had = read(&mut client);
    let saved = one.logberg(&["kv", "backup", "--to", plain(&backup)]);
    assert_eq!(saved.as_array().map(Vec::len), Some(3), "{saved}");
    // A key that is written since is in the next part.
    client.told(&["SET", "string:0", "later"]);
    client.told(&["DEL", "{again}a"]);
    let count = counted(&mut client);
    let saved = one.logberg(&["kv", "backup", "--to", plain(&backup)]);
    let parts = saved.as_array().expect("groups").iter();
    let paths: Vec<&str> = parts.filter_map(|part| part["path"].as_str()).collect();
    assert!(
        paths.iter().any(|path| path.ends_with("part-000002.lbb")),
        "{saved}"
    );
    let group = backup.join("kv-2-of-3");
    one.logberg(&["backup", "verify", plain(&group)]);
    // Nothing is put upon keys.
    fails(
        &one,
        &["kv", "restore", plain(&backup)],
        4,
        "logberg kv drop",
    );
    drop((one, client));

    let two = start(&directory.path().join("two"));
    // Each group goes into the one of its slots.
    let to_another = ["restore", plain(&group), "--log", "kv-1-of-3"];
    fails(&two, &to_another, 4, "restore to the group of that name");
    let missing = directory.path().join("missing");
    fs::create_dir(&missing).expect("there is room");
    fails(
        &two,
        &["kv", "restore", plain(&missing)],
        5,
        "nobody knows which group had which slots",
    );
    fs::copy(backup.join("map.json"), missing.join("map.json")).expect("there is room");
    fs::create_dir(missing.join("kv-1-of-3")).expect("there is room");
    fails(
        &two,
        &["kv", "restore", plain(&missing)],
        5,
        "kv-2-of-3 is not in",
    );
    two.logberg(&["kv", "init", "--groups", "3"]);
    let mut client = two.client();
    // A client that watched a key that comes with a backup sees that it changed.
    let mut watcher = client.link_for("string:1");
    let begun = Instant::now();
    // The node may not have heard of the map yet.
    while watcher.ask(&["WATCH", "string:1"]).expect("a reply") != Value::OK {
        assert!(begun.elapsed() < Duration::from_secs(20), "it is served");
        thread::sleep(Duration::from_millis(50));
    }
    let restored = two.logberg(&["kv", "restore", plain(&backup)]);
    assert_eq!(restored.as_array().map(Vec::len), Some(3), "{restored}");
    assert_eq!(watcher.ask(&["MULTI"]).expect("a reply"), Value::OK);
    watcher.ask(&["GET", "string:1"]).expect("a reply");
    assert_eq!(watcher.ask(&["EXEC"]).expect("a reply"), Value::NullArray);

    let has = read(&mut client);
    let later: Vec<(usize, &Value)> = has
        .iter()
        .enumerate()
        .filter(|(at, value)| **value != had[*at])
        .collect();
    // The two that were changed before the second part.
    assert_eq!(later.len(), 2, "{later:?}");
    assert_eq!(later[0], (0, &Value::bulk("later")));
    assert_eq!(later[1], (had.len() - 1, &Value::Null));
    let begun = Instant::now();
    while client.told(&["EXISTS", "short:7"]) != Value::Integer(0) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "its time does not pass"
        );
        thread::sleep(Duration::from_millis(50));
    }
    assert!(counted(&mut client) <= count);

    // It lives on: what is written takes no place of what was there, also where a key or a slot begins anew.
    for words in [
        &["DEL", "gone:3"][..],
        &["RPUSH", "gone:3", "1", "2"],
        &["HSET", "hash:3", "field", "new"],
    ] {
        client.told(words);
    }
    let list = Value::Array(vec![Value::bulk("1"), Value::bulk("2")]);
    assert_eq!(client.told(&["LRANGE", "gone:3", "0", "-1"]), list);
    client.each(&["FLUSHALL"]);
    assert_eq!(counted(&mut client), 0);
    write(&mut client);
    two.cluster.kill_all().expect("all die");
    for node in 1..=3 {
        two.cluster.restart(node).expect("it starts");
    }
    two.cluster
        .wait_ready(Duration::from_secs(30))
        .expect("it is ready");
    let again = read(&mut client);
    let is_time = |at: usize| at % 10 == 8;
    for (at, value) in again.iter().enumerate().filter(|(at, _)| !is_time(*at)) {
        assert_eq!(*value, had[at], "{at}");
    }
    fails(
        &two,
        &["kv", "restore", plain(&backup)],
        4,
        "all groups were filled from",
    );
    goes_on_after_the_first_group(&directory.path().join("three"), &backup);
}

/// A restore that was killed behind its first group goes on with the others, and leaves what was written to that one.
fn goes_on_after_the_first_group(at: &Path, backup: &Path) {
    let three = start(at);
    three.logberg(&["kv", "init", "--groups", "3"]);
    let first = backup.join("kv-1-of-3");
    three.logberg(&["restore", plain(&first)]);
    let mut client = three.client();
    // Its slot is of the first group.
    client.told(&["SET", "b", "written since"]);
    let restored = three.logberg(&["kv", "restore", plain(backup)]);
    let before = |at: usize| restored[at]["filled_before"] == true;
    assert!(before(0) && !before(1) && !before(2), "{restored}");
    assert_eq!(client.told(&["GET", "b"]), Value::bulk("written since"));
    assert_eq!(client.told(&["GET", "string:1"]), Value::bulk("1"));
    keys_status(&three);
}

#[test]
fn a_group_goes_into_no_cluster_that_spreads_slots_otherwise() {
    let directory = tempfile::tempdir().expect("a directory");
    let keys = start(&directory.path().join("nodes"));
    keys.logberg(&["kv", "init", "--groups", "2"]);
    let mut client = keys.client();
    client.told(&["SET", "a", "1"]);
    let file = directory.path().join("first.lbb");
    keys.logberg(&["backup", "kv-1-of-2", "--to", plain(&file)]);
    fails(&keys, &["kv", "drop"], 2, "--yes");
    let plan = keys.logberg(&["kv", "drop", "--plan"]);
    assert_eq!(plan["slots"], 16_384, "{plan}");
    assert_eq!(client.told(&["GET", "a"]), Value::bulk("1"));
    keys.logberg(&["kv", "drop", "--yes"]);
    let begun = Instant::now();
    while keys_status(&keys)["groups"]
        .as_array()
        .is_some_and(|groups| !groups.is_empty())
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "the groups end");
        thread::sleep(Duration::from_millis(50));
    }
    keys.logberg(&["kv", "init", "--groups", "3"]);
    fails(
        &keys,
        &["restore", plain(&file)],
        4,
        "this cluster has no group kv-1-of-2",
    );
    // A machine of somebody's own is not filled with it either.
    let other = ["restore", plain(&file), "--log", "bank"];
    fails(&keys, &other, 4, "restore to the group of that name");
}

/// The groups end in a moment.
fn wait_dropped(keys: &Keys) {
    let begun = Instant::now();
    while keys_status(keys)["groups"]
        .as_array()
        .is_some_and(|groups| !groups.is_empty())
    {
        assert!(begun.elapsed() < Duration::from_secs(30), "the groups end");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_map_of_many_parts_is_brought_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let backup = directory.path().join("backup");
    fs::create_dir(&backup).expect("there is room");
    let keys = start(&directory.path().join("nodes"));
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    write(&mut client);
    let every_other: Vec<String> = (0..1_200).step_by(2).map(|slot| slot.to_string()).collect();
    let slots = every_other.iter().map(String::as_str);
    let arguments: Vec<&str> = ["kv", "move", "--to", "kv-3-of-3"]
        .into_iter()
        .chain(slots)
        .collect();
    keys.logberg(&arguments);
    let had = read(&mut client);
    let map = keys.logberg(&["kv", "map"])["wanted"].clone();
    assert!(map.as_array().is_some_and(|parts| parts.len() > 1_200));
    keys.logberg(&["kv", "backup", "--to", plain(&backup)]);
    keys.logberg(&["kv", "drop", "--yes"]);
    wait_dropped(&keys);

    // As if a restore was killed once all groups were filled: nobody else's map fits them, and the next one goes on.
    for group in ["kv-1-of-3", "kv-2-of-3", "kv-3-of-3"] {
        keys.logberg(&["log", "create", group, "--kind", "kv"]);
        keys.logberg(&["restore", plain(&backup.join(group))]);
    }
    fails(
        &keys,
        &["kv", "init"],
        4,
        "a restore stopped before its end",
    );
    keys.logberg(&["kv", "restore", plain(&backup)]);
    assert_eq!(keys.logberg(&["kv", "map"])["wanted"], map);
    assert_eq!(read(&mut client), had);
}

/// Parts that came after the map was saved fit no map: they are left alone.
#[test]
fn a_backup_that_stopped_between_two_groups_spoils_none_before_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let backup = directory.path().join("backup");
    fs::create_dir(&backup).expect("there is room");
    let keys = start(&directory.path().join("nodes"));
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    write(&mut client);
    keys.logberg(&["kv", "move", "0-100", "--to", "kv-2-of-3"]);
    let had = read(&mut client);
    let map = keys.logberg(&["kv", "map"])["wanted"].clone();
    keys.logberg(&["kv", "backup", "--to", plain(&backup)]);

    keys.logberg(&["kv", "move", "200-5460", "--to", "kv-3-of-3"]);
    let first = backup.join("kv-1-of-3");
    keys.logberg(&["backup", "kv-1-of-3", "--to", plain(&first)]);
    assert!(first.join("part-000002.lbb").exists());
    keys.logberg(&["kv", "drop", "--yes"]);
    keys.logberg(&["kv", "restore", plain(&backup)]);
    assert_eq!(keys.logberg(&["kv", "map"])["wanted"], map);
    assert_eq!(read(&mut client), had);

    // Groups that are dropped are gone when the command ends, and a half restore is dropped as well.
    keys.logberg(&["kv", "drop", "--yes"]);
    keys.logberg(&["kv", "init"]);
    keys.logberg(&["kv", "drop", "--yes"]);
    keys.logberg(&["log", "create", "kv-1-of-3", "--kind", "kv"]);
    keys.logberg(&["restore", plain(&first)]);
    fails(&keys, &["kv", "init"], 4, "logberg kv drop");
    keys.logberg(&["kv", "drop", "--yes"]);
    keys.logberg(&["kv", "init"]);

    let map_path = backup.join("map.json");
    let sound = fs::read_to_string(&map_path).expect("it is there");
    for (old, new) in [
        ("\"last\": 100,", "\"last\": 101,"),
        ("\"part\": 1,", "\"part\": 0,"),
        ("sha256", "sha257"),
        ("\"parts\"", "\"pasts\""),
    ] {
        assert!(sound.contains(old), "{old}: {sound}");
        fs::write(&map_path, sound.replacen(old, new, 1)).expect("there is room");
        fails(&keys, &["kv", "restore", plain(&backup)], 6, "is damaged");
    }
    fs::write(&map_path, sound).expect("there is room");

    fs::remove_file(first.join("part-000002.lbb")).expect("it is there");
    fs::remove_file(first.join("part-000001.lbb")).expect("it is there");
    keys.logberg(&["kv", "drop", "--yes"]);
    fails(&keys, &["kv", "restore", plain(&backup)], 5, "part");
}

/// A backup of everything has the map of slots with the groups; and each part of a group's has all of its rows.
#[test]
fn slots_that_moved_come_back_with_a_backup_of_everything_and_are_told_of_without() {
    let directory = tempfile::tempdir().expect("a directory");
    let all = directory.path().join("all");
    fs::create_dir(&all).expect("there is room");
    let keys = start(&directory.path().join("nodes"));
    keys.logberg(&["kv", "init"]);
    let mut client = keys.client();
    write(&mut client);
    keys.logberg(&["backup", "--all", "--to", plain(&all)]);
    keys.logberg(&["kv", "move", "0-3000", "--to", "kv-3-of-3"]);
    client.told(&["SET", "late", "1"]);
    let had = read(&mut client);
    keys.logberg(&["backup", "--all", "--to", plain(&all)]);
    let older = all.join("kv-1-of-3").join("part-000001.lbb");
    let mut bytes = fs::read(&older).expect("it is there");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&older, bytes).expect("there is room");
    keys.logberg(&["kv", "drop", "--yes"]);
    keys.logberg(&["kv", "restore", plain(&all)]);
    assert_eq!(read(&mut client), had);
    let status = keys.run(&["kv", "status"]);
    assert_eq!(status.status.code(), Some(0));
    fails(
        &keys,
        &["backup", "verify", plain(&all.join("kv-1-of-3"))],
        6,
        "part-000001",
    );

    // One by one they go where their names say, and not where their keys are.
    keys.logberg(&["kv", "drop", "--yes"]);
    keys.logberg(&["kv", "init"]);
    for group in ["kv-1-of-3", "kv-2-of-3", "kv-3-of-3"] {
        let newest = all.join(group).join("part-000002.lbb");
        // Nothing was written to some of them since the first.
        let part = match newest.exists() {
            true => newest,
            false => all.join(group).join("part-000001.lbb"),
        };
        keys.logberg(&["restore", plain(&part), "--log", group]);
    }
    let begun = Instant::now();
    loop {
        let output = keys.run(&["kv", "status"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.code() == Some(3) && said.contains("serves nothing of its slots 0-3000") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{said}");
        thread::sleep(Duration::from_millis(100));
    }
    keys.logberg(&["kv", "move", "0-3000", "--to", "kv-3-of-3"]);
    assert_eq!(read(&mut client), had);
}
