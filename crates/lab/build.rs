//! Tells the lab the commit that it is built of, so that a run can say which program it measured.
//!
//! A build for development has none: it would be built anew at every commit, and nobody measures with it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let Some(directory) = git(&["rev-parse", "--absolute-git-dir"]) else {
        return;
    };
    for changes in ["HEAD", "packed-refs", "refs/heads"] {
        let path = Path::new(&directory).join(changes);
        if path.exists() {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    println!("cargo:rerun-if-changed=..");
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        let is_changed =
            git(&["status", "--porcelain", "--", ".."]).is_none_or(|all| !all.is_empty());
        let mark = if is_changed { " with changes" } else { "" };
        println!("cargo:rustc-env=LOGBERG_COMMIT={commit}{mark}");
    }
}

/// Git's answer. `None`: there is no git, or no repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
