//! `ACL` at the door for keys: the table of tokens, as Redis' clients see it.

use resp::Value;

use crate::harness;
use crate::keys::Link;
use crate::tokens::{unix, well};

use harness::{Node, logberg, wait_for};

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) | Value::Verbatim(_, bytes) => {
            String::from_utf8_lossy(bytes).into_owned()
        }
        Value::Simple(text) | Value::Error(text) => text.clone().into_owned(),
        other => panic!("{other:?} is no text"),
    }
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) | Value::Set(items) => items.iter().map(text).collect(),
        other => panic!("{other:?} is no list"),
    }
}

/// A field of a map, which is a list of names and values in RESP 2.
fn field<'a>(value: &'a Value, name: &str) -> &'a Value {
    let Value::Array(items) = value else {
        panic!("{value:?} is no map");
    };
    let pair = items.chunks(2).find(|pair| text(&pair[0]) == name);
    &pair.unwrap_or_else(|| panic!("no {name} in {value:?}"))[1]
}

#[test]
fn acl_tells_the_table_of_tokens_and_changes_nothing() {
    let place = tempfile::tempdir().expect("a place");
    let ip = harness::own_ip();
    let kv = format!("{ip}:6379");
    let arguments = ["--bootstrap", "--voters", "1", "--kv", &kv];
    let mut node = Node::new(place.path().join("n1"), format!("{ip}:7117"), &arguments);
    node.start();
    node.wait_answers();
    let socket = unix(&node);
    let at_socket = |arguments: &[&str]| well(logberg(&socket, arguments));
    let mut anybody = Link::to(&kv).expect("it listens");
    let ask = |link: &mut Link, line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        link.ask(&words).expect("a reply")
    };
    // Nobody is asked for a token: there is one user, who may all.
    assert_eq!(text(&ask(&mut anybody, "ACL WHOAMI")), "default");
    assert_eq!(texts(&ask(&mut anybody, "acl users")), ["default"]);
    assert_eq!(text(&ask(&mut anybody, "ACL DRYRUN default GET a")), "OK");
    let of_default = ask(&mut anybody, "ACL GETUSER default");
    assert_eq!(text(field(&of_default, "keys")), "~*");
    assert_eq!(ask(&mut anybody, "ACL GETUSER ci"), Value::Null);

    let root = at_socket(&["token", "create", "root", "--allow", "all on *"]);
    let create = [
        "token",
        "create",
        "app",
        "--allow",
        "read,append on key/app:*",
    ];
    let more = ["--allow", "read on key/log:*", "--allow", "append on log/x"];
    let app = at_socket(&[&create[..], &more].concat());
    at_socket(&[
        "token",
        "create",
        "short",
        "--allow",
        "read on key/*",
        "--expires",
        "2s",
    ]);
    at_socket(&["auth", "enable", "--wait"]);
    wait_for(
        || {
            text(&ask(&mut anybody, "ACL WHOAMI"))
                .starts_with("NOAUTH")
                .then_some(())
        },
        || node.said(),
    );
    let link_as = |token: &str| {
        let mut link = Link::to(&kv).expect("it listens");
        let said = link.ask(&["AUTH", token.trim()]).expect("a reply");
        assert_eq!(text(&said), "OK");
        link
    };
    let (root_token, app_token) = (root, app);
    let (mut root, mut app) = (link_as(&root_token), link_as(&app_token));

    // Of oneself one is told; of others whoever may see tokens.
    assert_eq!(text(&ask(&mut app, "ACL WHOAMI")), "app");
    let own = ask(&mut app, "ACL GETUSER app");
    assert_eq!(text(field(&own, "keys")), "~app:* %R~log:*");
    assert_eq!(texts(field(&own, "flags")), ["on"]);
    assert!(texts(field(&own, "passwords")).is_empty());
    let grants = [
        "read,append on key/app:*",
        "read on key/log:*",
        "append on log/x",
    ];
    assert_eq!(texts(field(&own, "grants")), grants);
    for line in [
        "ACL GETUSER root",
        "ACL LIST",
        "ACL USERS",
        "ACL LOG",
        "ACL DRYRUN root GET a",
    ] {
        let said = text(&ask(&mut app, line));
        assert!(said.starts_with("NOPERM"), "{line}: {said}");
    }
    assert_eq!(ask(&mut root, "ACL GETUSER nobody"), Value::Null);
    assert_eq!(
        texts(&ask(&mut root, "ACL USERS")),
        ["app", "root", "short"]
    );
    wait_for(
        || {
            let list = texts(&ask(&mut root, "ACL LIST"));
            let is_off = list
                .iter()
                .any(|line| line == "user short off read on key/*");
            is_off.then_some(())
        },
        || node.said(),
    );
    let list = texts(&ask(&mut root, "ACL LIST"));
    assert_eq!(list[1], "user root on all on *");
    let told = at_socket(&["token", "list"]);
    assert!(told.contains(&grants.join("; ")), "{told}");
    assert_eq!(list[0], format!("user app on {}", grants.join("; ")));

    // A dry run says what a command would be told, and does nothing.
    for (line, said) in [
        ("ACL DRYRUN app GET app:1", "OK"),
        ("ACL DRYRUN app SET app:1 x", "OK"),
        ("ACL DRYRUN app SET log:1 x", "may not append to key/log:1"),
        (
            "ACL DRYRUN app COPY log:1 app:1",
            "may not append to key/log:1",
        ),
        ("ACL DRYRUN app FLUSHALL", "may not delete key/*"),
        ("ACL DRYRUN app PING", "OK"),
        ("ACL DRYRUN short GET a", "has expired"),
        ("ACL DRYRUN app NOTHING", "unknown command"),
        ("ACL DRYRUN app GET", "wrong number of arguments"),
        ("ACL DRYRUN nobody GET a", "User 'nobody' not found"),
    ] {
        let told = text(&ask(&mut root, line));
        assert!(told.contains(said), "{line}: {told}");
    }
    let told = text(&ask(&mut app, "SET log:1 x"));
    assert!(
        told.contains("may not append to key/log:1"),
        "it is told so: {told}"
    );

    // The last refusals, alike ones as one.
    for _ in 0..3 {
        ask(&mut app, "FLUSHALL");
    }
    ask(&mut anybody, "AUTH app wrong");
    let log = ask(&mut root, "ACL LOG");
    let Value::Array(entries) = &log else {
        panic!("{log:?}");
    };
    let newest = entries
        .iter()
        .map(|entry| {
            let Value::Integer(count) = field(entry, "count") else {
                panic!("{entry:?}");
            };
            let of = |name| text(field(entry, name));
            (*count, of("reason"), of("object"), of("username"))
        })
        .collect::<Vec<_>>();
    let entry = |count, reason: &str, object: &str, who: &str| {
        (count, reason.to_owned(), object.to_owned(), who.to_owned())
    };
    assert_eq!(
        newest[0],
        entry(1, "auth", "auth", "a token that is not good")
    );
    assert_eq!(newest[1], entry(3, "key", "flushall", "token `app`"));
    assert_eq!(newest[2], entry(1, "key", "set", "token `app`"));
    assert_eq!(text(&ask(&mut root, "ACL LOG RESET")), "OK");
    assert_eq!(ask(&mut root, "ACL LOG 5"), Value::Array(Vec::new()));

    // Categories, and what is not here: the refusal names the command that does it.
    let categories = texts(&ask(&mut app, "ACL CAT"));
    assert!(categories.contains(&"read".to_owned()) && categories.contains(&"hash".to_owned()));
    let hashes = texts(&ask(&mut app, "ACL CAT hash"));
    assert!(hashes.contains(&"hget".to_owned()) && !hashes.contains(&"get".to_owned()));
    assert!(text(&ask(&mut app, "ACL CAT x")).contains("Unknown category"));
    for (line, command) in [
        ("ACL SETUSER app on >word ~* +@all", "logberg token create"),
        ("ACL DELUSER app", "logberg token revoke"),
        ("ACL GENPASS", "logberg token create"),
        ("ACL SAVE", "logberg token"),
    ] {
        for link in [&mut app, &mut root] {
            let said = text(&ask(link, line));
            assert!(
                said.contains(command) && !said.contains("word"),
                "{line}: {said}"
            );
        }
    }
    assert!(text(&ask(&mut root, "ACL NOTHING")).contains("unknown subcommand"));
    assert!(text(&ask(&mut app, "ACL")).contains("wrong number of arguments"));
    assert!(text(&ask(&mut app, "ACL WHOAMI x")).contains("wrong number of arguments"));
    // In a transaction, too.
    assert_eq!(text(&ask(&mut app, "MULTI")), "OK");
    assert_eq!(text(&ask(&mut app, "ACL WHOAMI")), "QUEUED");
    assert_eq!(texts(&ask(&mut app, "EXEC")), ["app"]);
    assert_eq!(
        texts(&ask(&mut root, "ACL USERS")),
        ["app", "root", "short"]
    );
    // ‡ What was queued by one token is not done by another, which may less.
    let mut changed = link_as(&root_token);
    assert_eq!(text(&ask(&mut changed, "MULTI")), "OK");
    assert_eq!(text(&ask(&mut changed, "SET hidden there")), "QUEUED");
    let auth = format!("AUTH {}", app_token.trim());
    assert_eq!(text(&ask(&mut changed, &auth)), "OK");
    assert!(text(&ask(&mut changed, "EXEC")).starts_with("EXECABORT"));
    assert_eq!(text(&ask(&mut changed, "ACL WHOAMI")), "app", "it goes on");
    assert_eq!(text(&ask(&mut changed, "MULTI")), "OK");
    assert_eq!(text(&ask(&mut changed, "DISCARD")), "OK");
    node.kill();
}
