//! Readers of what is on disk alone.

use crate::caller::Caller;
use crate::stage::{MS, SECOND, Stage};

/// More than may read at once: of one log three, of all four.
const MANY: usize = 8;

/// One node, which holds 100 bytes of `main` on its disk and no more in memory.
fn cold() -> (Stage, Vec<u8>) {
    let mut stage = Stage::new(1, 1);
    let mut writer = stage.open(0, "append main");
    stage.say_and_wait(&mut writer, 100);
    stage.pass(3 * SECOND);
    (stage, writer.content(0..100))
}

fn signs(reader: &Caller) -> usize {
    let heard = reader.heard();
    let text = String::from_utf8_lossy(&heard);
    text.matches("data 0 0 00000000\n").count()
}

#[test]
fn who_waits_for_missing_bytes_hears_of_life_and_then_that_they_are_not_here() {
    let (mut stage, content) = cold();
    assert!(stage.make_unreadable(0, &content));
    let reader = stage.call(0, "read main format=framed");
    stage.wait("its end", |_| reader.is_over());
    let text = reader.text();
    assert!(text.contains("\nerror not-here"), "{text}");
    assert!(signs(&reader) >= 8, "{text}");
    // In a raw answer they would be taken for bytes.
    let raw = stage.call(0, "read main");
    stage.wait("its end", |_| raw.is_over());
    assert!(raw.text().starts_with("error not-here"), "{}", raw.text());
}

/// A reader of raw bytes learns nothing but from how they end.
#[test]
fn a_raw_answer_that_cannot_go_on_does_not_end_as_if_it_were_whole() {
    let mut stage = Stage::new(1, 1);
    let mut writer = stage.open(0, "append main");
    for _ in 0..3 {
        stage.say_and_wait(&mut writer, 10_000);
    }
    stage.pass(3 * SECOND);
    let whole = stage.call(0, "read main");
    stage.wait("its end", |_| whole.is_over());
    assert!(whole.heard() == writer.content(0..30_000) && !whole.is_broken());
    stage.pass(3 * SECOND);
    assert!(stage.make_unreadable(0, &writer.content(20_000..20_032)));
    let raw = stage.call(0, "read main");
    stage.wait("its end", |_| raw.is_over());
    assert!(
        raw.heard() == writer.content(0..20_000),
        "{} bytes",
        raw.heard().len()
    );
    assert!(raw.is_broken(), "it looks whole");
}

#[test]
fn many_readers_of_one_log_leave_reads_from_disk_to_those_of_another() {
    let (mut stage, content) = cold();
    let created = stage.call(0, "create-log other");
    stage.wait("the log", |_| created.is_over());
    assert!(created.text().starts_with("ok "), "{}", created.text());
    let mut writer = stage.open(0, "append other");
    stage.say_and_wait(&mut writer, 100);
    stage.pass(3 * SECOND);
    assert!(stage.make_unreadable(0, &content));
    let host = stage.nodes[0];
    stage.world.hang_disk(host);
    let of_main = [(); MANY].map(|_| stage.call(0, "read main format=framed stale=1"));
    stage.pass(3 * SECOND);
    let before = stage.world.disk(host).ops_in_flight();
    let of_other = stage.call(0, "read other format=framed stale=1");
    stage.pass(100 * MS);
    let after = stage.world.disk(host).ops_in_flight();
    assert!(after > before, "{after} ops, and {before} before");
    // Longer than bytes are waited for that were looked for, and are not there.
    stage.pass(11 * SECOND);
    let waiting = of_main.iter().filter(|reader| signs(reader) >= 8).count();
    assert!(waiting >= MANY - 4, "{waiting} heard that they wait");
    stage.world.release_disk(host);
    stage.wait_within(SECOND, "the other log's bytes", |_| of_other.is_over());
    assert!(of_other.heard().ends_with(b"end 100 open\n"));
    stage.pass(5 * SECOND);
    assert!(of_main.iter().all(|reader| !reader.is_over()));
    stage.wait("their ends", |_| of_main.iter().all(Caller::is_over));
    for reader in &of_main {
        assert!(
            reader.text().contains("\nerror not-here"),
            "{}",
            reader.text()
        );
    }
}

/// Nothing is sent to them that would find it out.
#[test]
fn followers_of_a_quiet_log_that_vanish_leave_no_connection_behind() {
    let (mut stage, _) = cold();
    let host = stage.nodes[0];
    let before = stage.world.open_connections(host);
    for says_more in [false, true] {
        let mut reader = stage.call(0, "read main follow=1");
        stage.wait("the bytes", |_| reader.heard().len() == 100);
        match says_more {
            true => reader.say(&mut stage.world, 1),
            false => reader.half_close(&mut stage.world),
        }
        stage.pass(30 * SECOND);
        assert_eq!(stage.world.open_connections(host), before + 1);
        assert!(!reader.is_over());
        reader.reset(&mut stage.world);
        stage.wait("it to be noticed", |look| {
            look.world.open_connections(host) == before
        });
    }
}
