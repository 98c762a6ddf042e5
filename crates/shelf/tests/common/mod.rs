//! What tests look for below a shelf's directory.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory of its tree.
pub fn tree_of(directory: &Path) -> PathBuf {
    let entries = fs::read_dir(directory).expect("a directory");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    let is_tree = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("tree-"))
    };
    paths.find(is_tree).expect("a tree")
}
