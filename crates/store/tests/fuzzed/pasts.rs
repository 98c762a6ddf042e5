//! The files of a disk's past: one that is taken is written and read again, nothing damaged is taken, and the
//! memory of a node refuses none that goes on from there.

use formats::LogId;
use formats::past::{FINDINGS_KEPT, Findings, Found, STARTS_KEPT, Start, Told};
use store::past::ends::{self, ENDS_FILE, Ends};
use store::past::found::{self, FOUND_FILE};
use store::past::met::{self, MET_FILE};
use store::past::refused::{self, REFUSED_FILE};
use store::past::starts::{self, STARTS_FILE};
use store::past::{Lacks, Met};

/// `bytes`: a file, tried as each of them as it is and, as the part below the first line, with that line made to fit.
pub fn check(bytes: &[u8]) {
    let begin = bytes.iter().position(|byte| *byte == b'\n');
    let body = begin.map_or(bytes, |end| &bytes[end + 1..]);
    for (name, check) in [
        (STARTS_FILE, check_starts as fn(&[u8])),
        (ENDS_FILE, check_ends),
        (FOUND_FILE, check_found),
        (MET_FILE, check_met),
        (REFUSED_FILE, check_refused),
    ] {
        check(bytes);
        check(&sealed(name, bytes));
        check(&sealed(name, body));
    }
}

fn sealed(name: &str, body: &[u8]) -> Vec<u8> {
    let checksum = crc32c::crc32c(body);
    let first = format!("logberg-{name} 1 crc32c={checksum:08x}\n");
    [first.as_bytes(), body].concat()
}

/// The file as it was taken, with another last byte.
fn damaged(bytes: &[u8]) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    *damaged.last_mut().expect("it has a first line") ^= 1;
    damaged
}

fn check_starts(bytes: &[u8]) {
    let Some(listed) = taken(bytes, starts::parse) else {
        return;
    };
    assert_eq!(starts::parse(&starts::encode(&listed)), Ok(listed.clone()));
    let last = listed.last().map_or(0, |start| start.incarnation);
    for incarnation in [1, last, last.saturating_add(1)] {
        let start = Start {
            incarnation,
            nonce: 7,
        };
        let next = starts::after(listed.clone(), start);
        assert_eq!(next.last(), Some(&start));
        assert!(next.len() <= STARTS_KEPT);
        assert_eq!(starts::parse(&starts::encode(&next)), Ok(next));
    }
}

fn check_ends(bytes: &[u8]) {
    let Some(ends) = taken(bytes, Ends::parse) else {
        return;
    };
    assert_eq!(Ends::parse(&ends.encode()), Ok(ends.clone()));
    for log in (0..4).map(LogId) {
        if let Some(ends::Lost { was, .. }) = ends.lost(ends.incarnation, log, 0) {
            assert_eq!(ends.lost(ends.incarnation, log, was), None);
            assert!(ends.lost(ends.incarnation, log, was - 1).is_some());
            let later = ends.incarnation.wrapping_add(1);
            assert_eq!(ends.lost(later, log, 0), None, "a start came between");
        }
    }
}

fn check_found(bytes: &[u8]) {
    let Some(mut findings) = taken(bytes, found::parse) else {
        return;
    };
    assert_eq!(
        found::parse(&found::encode(&findings)),
        Ok(findings.clone())
    );
    let last = findings.0.last().map_or(0, |found| found.incarnation);
    let Some(next) = last.checked_add(1) else {
        return;
    };
    let before = findings.after(last, LogId(1));
    let ends = [(LogId(1), before)];
    findings.add(next, &ends, |_| false);
    assert!(findings.0.len() <= FINDINGS_KEPT);
    assert_eq!(findings.after(last, LogId(1)), before);
    assert_eq!(findings.after(last, LogId(2)), Default::default());
}

fn check_met(bytes: &[u8]) {
    let Some(all) = taken(bytes, met::parse) else {
        return;
    };
    let again = met::encode(all.iter().map(|(node, met)| (*node, met)));
    assert_eq!(met::parse(&again), Ok(all.clone()));
    for met in all.into_values() {
        check_goes_on(met);
    }
}

/// A node that tells all that is remembered of it, and a start behind it, is admitted, and then is what is
/// remembered. A node that lacks the last start is not.
fn check_goes_on(mut met: Met) {
    let seen = Start {
        incarnation: met.seen.incarnation,
        nonce: met.seen.nonce,
    };
    let Some(later) = seen.incarnation.checked_add(1) else {
        return;
    };
    if met
        .listed
        .is_some_and(|l| l.incarnation >= seen.incarnation && l != seen)
    {
        return; // No node wrote that: it is refused whatever it tells.
    }
    let mut known: Vec<Start> = met.listed.into_iter().chain([seen]).collect();
    known.dedup();
    let next = Start {
        incarnation: later,
        nonce: 9,
    };
    let mut told = Told {
        starts: starts::after(known, next),
        ends: met.ends.iter().map(|(log, end)| (*log, *end)).collect(),
        deleted: Vec::new(),
        found: Findings(vec![Found {
            incarnation: later,
            ends: met.ends.iter().map(|(log, end)| (*log, *end)).collect(),
        }]),
        ..Told::default()
    };
    assert_eq!(met.check(&told), Ok(()));
    let mut less = told.clone();
    let some = less
        .ends
        .iter()
        .position(|(_, end)| *end != Default::default());
    if let Some(some) = some {
        less.found.0[0].ends.remove(some);
        assert!(matches!(met.check(&less), Err(Lacks::End { .. })));
    }
    let mut claim = met.seen;
    (claim.incarnation, claim.nonce) = (next.incarnation, next.nonce);
    assert!(met.take(claim, None, Some(&told), usize::MAX), "it is news");
    assert_eq!(met.check(&told), Ok(()), "it is there still");
    told.starts.retain(|start| *start != next);
    assert_eq!(met.check(&told), Err(Lacks::Start(later)), "an old copy");
}

fn check_refused(bytes: &[u8]) {
    if let Some(said) = taken(bytes, refused::parse) {
        assert_eq!(refused::parse(&refused::encode(&said)), Ok(said));
    }
}

fn taken<T>(bytes: &[u8], parse: impl Fn(&[u8]) -> Result<T, String>) -> Option<T> {
    match parse(bytes) {
        Ok(taken) => {
            assert!(parse(&damaged(bytes)).is_err(), "damage is taken");
            Some(taken)
        }
        Err(why) => {
            assert!(!why.is_empty());
            None
        }
    }
}
