//! Runs a check on every file of a target's corpus. The tests of the crates that own the parsers
//! include this file.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

pub fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let directory = corpus.join(target);
    let entries = fs::read_dir(&directory).expect("every target has a corpus");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} is empty", directory.display());
    for file in files {
        let bytes = fs::read(&file).expect("a readable file");
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(&bytes))) {
            eprintln!("on the bytes of {}", file.display());
            resume_unwind(panic);
        }
    }
}
