//! `found`: the ends of the logs that the last starts of this node found. A node that was told something by
//! an earlier start compares it with what the next one found: the present bytes may have been written by a
//! node that forgot.
//!
//! Written after the list of starts, and before anything is said.

use std::path::Path;

use formats::LogId;
use formats::past::{Findings, Found};
use ops::Disk;
use serde::{Deserialize, Serialize};

use super::page::{self, PageEnd};

pub const FOUND_FILE: &str = "found";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    /// ⟨incarnation, ends⟩, in order.
    starts: Vec<(u32, Vec<PageEnd>)>,
}

/// Loads the findings of earlier starts; empty if no program that keeps them has run here.
pub fn load(disk: &mut dyn Disk, directory: &Path) -> Result<Findings, String> {
    let contents = page::read(disk, &directory.join(FOUND_FILE));
    match contents.map_err(|error| error.to_string())? {
        None => Ok(Findings::default()),
        Some(contents) => parse(&contents),
    }
}

pub fn parse(contents: &[u8]) -> Result<Findings, String> {
    let page: Page = page::parse(FOUND_FILE, contents)?;
    let of = |(incarnation, ends): (u32, Vec<PageEnd>)| Found {
        incarnation,
        ends: ends.into_iter().map(page::end).collect(),
    };
    let found: Vec<Found> = page.starts.into_iter().map(of).collect();
    let mut starts = found.windows(2);
    let mut logs = found.iter().flat_map(|found| found.ends.windows(2));
    let in_order = starts.all(|two| two[0].incarnation < two[1].incarnation);
    match in_order && logs.all(|two: &[(LogId, _)]| two[0].0 < two[1].0) {
        true => Ok(Findings(found)),
        false => Err("its starts or its logs are not in order".to_owned()),
    }
}

pub fn encode(findings: &Findings) -> Vec<u8> {
    let of = |found: &Found| {
        let ends = found
            .ends
            .iter()
            .map(|(log, end)| page::page_end(*log, end));
        (found.incarnation, ends.collect())
    };
    let starts = findings.0.iter().map(of).collect();
    page::encode(FOUND_FILE, &Page { starts })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_damage_is_told() {
        let mut findings = Findings::default();
        findings.add(1, &[(LogId(0), Default::default())], |_| false);
        findings.add(4, &[(LogId(3), Default::default())], |_| false);
        let bytes = encode(&findings);
        assert_eq!(parse(&bytes), Ok(findings));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(parse(&damaged).is_err(), "byte {at}");
        }
    }
}
