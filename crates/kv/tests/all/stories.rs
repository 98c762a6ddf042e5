//! Commands and their replies, as a person would type and read them: `testdata/*.txt`.
//!
//! ```text
//! # a remark
//! > SET a 1             a command, as a line; what follows is its reply
//! OK
//! @ 3                   from here on in RESP 3
//! + 1500                so many milliseconds pass
//! ```
//!
//! Each story begins on an empty server, with small bounds from the line `@ small` on. `REWRITE=1 cargo test -p kv stories` writes the replies
//! anew: read them before you commit. The example `beside_redis` holds all of them to a Redis.

use std::fs;
use std::path::Path;

use resp::Protocol;

use crate::memory::Memory;
use crate::rows;
use crate::shown::{seen, told, words};

#[test]
fn stories_are_told_as_they_are_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let entries = fs::read_dir(directory).expect("stories");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    assert!(files.len() > 5);
    for file in files {
        let story = fs::read_to_string(&file).expect("a story");
        let again = tell(&story, 0);
        if std::env::var_os("REWRITE").is_some() {
            fs::write(&file, &again).expect("room");
            continue;
        }
        assert_eq!(again, story, "{}", file.display());
        assert_eq!(
            again,
            tell(&story, 4),
            "{}, with rows that are away",
            file.display()
        );
    }
}

fn tell(story: &str, away: u64) -> String {
    let mut memory = Memory::new(7);
    memory.away = away;
    memory.page_rows_max = if away > 0 { 3 } else { usize::MAX };
    let mut told_anew = String::new();
    for line in story.lines() {
        let is_reply = !line.is_empty() && !line.starts_with(['#', '>', '@', '+']);
        if is_reply {
            continue;
        }
        told_anew.push_str(line);
        told_anew.push('\n');
        match line.split_at_checked(2) {
            Some(("> ", command)) => {
                let words = words(command);
                let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                let reply = memory.run(&words).reply;
                told_anew.push_str(&told(&seen(&reply, memory.protocol)));
                told_anew.push('\n');
                rows::check(&memory);
            }
            Some(("@ ", "2")) => memory.protocol = Protocol::Resp2,
            Some(("@ ", "3")) => memory.protocol = Protocol::Resp3,
            Some(("@ ", "small")) => memory = memory.with_small_bounds(),
            Some(("+ ", time)) => memory.time_ms += time.parse::<u64>().expect("milliseconds"),
            _ => {}
        }
    }
    told_anew
}
