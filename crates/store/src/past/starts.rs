//! `starts`: the last starts of this node. Each tells peers which ones came before it, so that a peer that
//! met one of them sees whether this directory is its continuation.
//!
//! Written after the manifest that counts the start, and before anything is said: so its last start is never above
//! the manifest's.

use std::path::Path;

use ops::Disk;
use serde::{Deserialize, Serialize};

use formats::past::{STARTS_KEPT, Start};

use super::page;

pub const STARTS_FILE: &str = "starts";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    /// ⟨incarnation, nonce⟩, in order.
    starts: Vec<(u32, u64)>,
}

/// Loads the earlier starts; empty if no program that keeps them has run here.
pub fn load(disk: &mut dyn Disk, directory: &Path) -> Result<Vec<Start>, String> {
    let contents = page::read(disk, &directory.join(STARTS_FILE));
    match contents.map_err(|error| error.to_string())? {
        None => Ok(Vec::new()),
        Some(contents) => parse(&contents),
    }
}

pub fn parse(contents: &[u8]) -> Result<Vec<Start>, String> {
    let page: Page = page::parse(STARTS_FILE, contents)?;
    let start = |(incarnation, nonce)| Start { incarnation, nonce };
    let starts: Vec<Start> = page.starts.into_iter().map(start).collect();
    let mut pairs = starts.windows(2);
    match pairs.all(|two| two[0].incarnation < two[1].incarnation) {
        true => Ok(starts),
        false => Err("its starts are not in order".to_owned()),
    }
}

/// The list with one start more. A start of a higher number said nothing: its manifest was never written.
pub fn after(mut starts: Vec<Start>, start: Start) -> Vec<Start> {
    starts.retain(|before| before.incarnation < start.incarnation);
    starts.push(start);
    let more = starts.len().saturating_sub(STARTS_KEPT);
    starts.drain(..more);
    starts
}

pub fn encode(starts: &[Start]) -> Vec<u8> {
    let starts = starts.iter().map(|start| (start.incarnation, start.nonce));
    let starts = starts.collect();
    page::encode(STARTS_FILE, &Page { starts })
}
