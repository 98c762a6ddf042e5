//! A node's directory, if there is one: whether a start would take it for what it was, and find it whole.

use std::path::Path;

use linux::LinuxDisk;
use store::past::own::Own;
use store::{Lacks, Manifest, ReadOffline};
use wire::quantity;

use super::finding::Finding;

const CHECK: &str = "directory's past";
const FILES: &str = "directory's files";

pub(super) fn checks(directory: &Path) -> Vec<Finding> {
    let disk = &mut LinuxDisk::new();
    let manifest = match Manifest::load(disk, directory) {
        Ok(Some(manifest)) => manifest,
        // A place without a node has no past.
        Ok(None) => return Vec::new(),
        Err(error) => {
            let change = "no node starts from this directory before that is settled";
            return vec![Finding::must(FILES, error.to_string(), change)];
        }
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
        // What cannot be read at all is told with the files.
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
    // A running node writes to its files meanwhile.
    if Manifest::lock(disk, directory).is_ok() {
        findings.extend(files(disk, directory, &manifest));
    }
    findings
}

/// What a start would find damaged, or refuse.
fn files(disk: &mut LinuxDisk, directory: &Path, manifest: &Manifest) -> Vec<Finding> {
    let verify = || format!("logberg verify {}", directory.display());
    let mut findings = Vec::new();
    for log in &manifest.logs {
        let output = match ReadOffline::open(disk, directory, log.id) {
            Ok((output, _)) => output,
            Err(error) => {
                let found = format!("log {}: {error}", log.name);
                findings.push(Finding::must(FILES, found, verify()));
                continue;
            }
        };
        findings.extend(output.report().corruptions.iter().map(|one| {
            let (file, from, what) = (one.path.display(), one.from, one.what());
            let found = format!("log {}: {file} is damaged at byte {from}: {what}", log.name);
            Finding::must(FILES, found, verify())
        }));
        let lacks = output.lacks();
        findings.extend(lacks.map(|lacks| lacking(&log.name, lacks, directory)));
    }
    if findings.is_empty() {
        let found = "a start finds no damage in them; `logberg verify` reads every record";
        findings.push(Finding::ok(FILES, found));
    }
    findings
}

/// Bytes that are agreed on and in none of the files.
fn lacking(log: &str, lacks: Lacks, directory: &Path) -> Finding {
    let Lacks {
        bytes,
        stream,
        from,
    } = lacks;
    let found = format!(
        "log {log}: {} of agreed bytes are in none of the files, from byte {from} of stream {stream} on",
        quantity::shown(bytes)
    );
    let change = format!(
        "look for files that were lost (logberg verify {}); if there are none, start the node: it fetches from its peers what they hold",
        directory.display()
    );
    Finding::better(FILES, found, change)
}
