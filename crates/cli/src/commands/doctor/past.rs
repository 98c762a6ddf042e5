//! A node's directory and its own past, if there is one: whether a start would take it for what it was.

use std::path::Path;

use linux::LinuxDisk;
use store::past::own::Own;
use store::{Manifest, ReadOffline};

use super::finding::Finding;

const CHECK: &str = "directory's past";

pub(super) fn checks(directory: &Path) -> Vec<Finding> {
    let disk = &mut LinuxDisk::new();
    // A place without a node has no past; a start tells what else is wrong with a manifest.
    let Ok(Some(manifest)) = Manifest::load(disk, directory) else {
        return Vec::new();
    };
    let own = match Own::load(disk, directory, &manifest) {
        Ok(own) => own,
        Err(trouble) => {
            let change = "start no node from this directory before that is settled";
            return vec![Finding::must(CHECK, trouble.to_string(), change)];
        }
    };
    let mut findings = Vec::new();
    for log in manifest.logs.iter().filter(|log| own.has_noted(log.id)) {
        // A start and `logberg verify` tell what cannot be read at all.
        let Ok((output, _)) = ReadOffline::open(disk, directory, log.id) else {
            continue;
        };
        if let Some(lost) = own.lost(log.id, output.report().last_record) {
            let found = format!("log {}: {lost}", log.name);
            let change = format!("logberg verify {}", directory.display());
            findings.push(Finding::must(CHECK, found, change));
        }
    }
    if findings.is_empty() {
        let found =
            "its files are as new as they were when its node was stopped, as far as they say";
        findings.push(Finding::ok(CHECK, found));
    }
    findings
}
