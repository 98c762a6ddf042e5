//! The kernel tells whether a file can still be written to.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ops::BLOCK;
use uring::is_still;

fn new_file() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, vec![1; BLOCK]).unwrap();
    (directory, path)
}

/// Returns `None` where this file system does not tell.
fn ask(path: &Path) -> Option<bool> {
    match is_still(&File::open(path).unwrap()) {
        Ok(is_still) => Some(is_still),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            println!("no leases here");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_file_is_still_once_nobody_has_it_open_to_write() {
    let (_directory, path) = new_file();
    if ask(&path).is_none() {
        return;
    }
    let reader = File::open(&path).unwrap();
    assert_eq!(ask(&path), Some(true), "who reads changes nothing");
    let writer = File::options().write(true).open(&path).unwrap();
    let other = writer.try_clone().unwrap();
    assert_eq!(ask(&path), Some(false));
    drop(writer);
    assert_eq!(ask(&path), Some(false));
    drop(other);
    assert_eq!(ask(&path), Some(true));
    // It was given back: nobody waits who opens it to write.
    let since = Instant::now();
    drop(File::options().write(true).open(&path).unwrap());
    assert!(since.elapsed() < Duration::from_secs(5));
    drop(reader);
}
