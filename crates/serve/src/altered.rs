//! A node that the lab alters serves no directory but one that it made: what is written there was never meant to last.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use anyhow::{Context, Result};
use node::config::ALTERED_FILE;
use terminal::exit::{Failure, Kind};

/// A directory that is not there, or empty, is made and marked.
///
/// Errors: somebody else made it.
pub fn check(directory: &Path) -> Result<()> {
    let mark = directory.join(ALTERED_FILE);
    if mark.exists() {
        return Ok(());
    }
    let cannot = || format!("cannot read {}", directory.display());
    let is_empty = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == ErrorKind::NotFound => true,
        Err(error) => return Err(error).with_context(cannot),
    };
    if !is_empty {
        let sentence = format!(
            "{} was not made by a node that the lab alters, and such a node serves no other: name an empty directory with --data, or leave --carry, --time-scale and --phase-one out",
            directory.display()
        );
        return Err(Failure::new(Kind::Refused, sentence).into());
    }
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .and_then(|()| fs::write(&mark, ""));
    made.with_context(|| format!("cannot write {}", mark.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_was_made_for_it_is_served_again_and_no_other() {
        let place = tempfile::tempdir().expect("a place");
        let own = place.path().join("own");
        check(&own).expect("made");
        fs::write(own.join("manifest"), "").expect("room");
        check(&own).expect("marked");
        let other = place.path().join("other");
        fs::create_dir(&other).expect("room");
        fs::write(other.join("manifest"), "").expect("room");
        let refused = check(&other).expect_err("somebody else's").to_string();
        assert!(refused.contains("name an empty directory"), "{refused}");
    }
}
