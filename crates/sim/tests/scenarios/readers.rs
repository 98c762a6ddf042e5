//! Readers of what is on disk alone.

use crate::caller::Caller;
use crate::stage::{SECOND, Stage};

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
