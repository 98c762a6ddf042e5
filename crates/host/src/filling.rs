//! Filling: an empty state is given the rows of a backup, step by step, by commands of the host's own.
//!
//! ```text
//!  'r'    version u8 (1) │ 1 open, 2 ended │ next page u64 │ backup 32      little-endian
//!
//!  Begin ─▶ nothing written yet? ─▶ open, 0 ─ Page 0 ─▶ open, 1 ─ … ─ Page n ─▶ open, n + 1 ─ End ─▶ ended
//! ```
//!
//! ‡ The mark stands in the log and in the state like every row, and each step writes it in the frame of its rows. So all replicas know
//! at each position how far a restore has come, a step that is asked for again finds that it was done, and whoever leads next goes on.
//!
//! ‡ While it is open no command is executed and no reader sees the state: a part of the rows is no state that the machine ever had.
//!
//! ‡ Only a machine is filled whose log has no frame. One that has no row may have given numbers to sessions, or have forgotten a prefix,
//! below which nothing may be written ever again.
//!
//! ‡ Sessions do not come along. Their numbers do: the next session's is above all that the saved machine ever gave, so a late command
//! of an old session finds none of its number.

use letters::{Fill, Step};

use crate::machine::Outcome;
use crate::sessions;
use crate::state::{State, Stop};

/// The row of the mark. It begins with no letter that other rows have.
pub const ROW: &[u8] = b"r";

const VERSION: u8 = 1;
const OPEN: u8 = 1;
const ENDED: u8 = 2;

/// What all are told while it is open.
pub const IS_OPEN: &str = "a restore of this machine was begun and has not ended: run `logberg restore` with the same backup again, which goes on, or delete the log";

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark {
    is_open: bool,
    next: u64,
    backup: [u8; 32],
}

impl Mark {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, if self.is_open { OPEN } else { ENDED }];
        bytes.extend_from_slice(&self.next.to_le_bytes());
        bytes.extend_from_slice(&self.backup);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Mark> {
        let (head, backup) = bytes.split_first_chunk::<10>()?;
        let [VERSION, state @ (OPEN | ENDED), next @ ..] = *head else {
            return None;
        };
        Some(Mark {
            is_open: state == OPEN,
            next: u64::from_le_bytes(next),
            backup: backup.try_into().ok()?,
        })
    }
}

/// Whether a restore is open, by the row of the mark. One of a newer program is.
pub fn is_open(row: Option<&[u8]>) -> bool {
    next_page(row).is_some()
}

/// The page that an open restore goes on with, by the row of the mark.
pub(crate) fn next_page(row: Option<&[u8]>) -> Option<u64> {
    match Mark::decode(row?) {
        Some(mark) => mark.is_open.then_some(mark.next),
        None => Some(0),
    }
}

/// The outcome of any other command while a restore is open.
///
/// A mark that has to be fetched first is fetched with what the command asks for itself, and is looked at when that is here.
pub(crate) fn refuses(state: &mut State<'_>) -> Option<Outcome> {
    let row = state.get_row(ROW).ok()?;
    is_open(row.as_deref()).then(|| Outcome::NotNow(IS_OPEN.to_owned()))
}

/// The answer to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filled {
    /// All pages below this one are in the state.
    Next(u64),
    /// Something was written there already.
    NotEmpty,
    /// It was filled from this very backup, to its end, and may have been written since.
    Before,
    /// It does not follow what was done, or is of another restore.
    NotNext(&'static str),
}

const NOT_NEXT: [&str; 3] = [
    IS_OPEN,
    "no restore of this backup is open: begin again",
    "a page is missing before this one",
];

impl Filled {
    fn outcome(&self) -> Outcome {
        let (kind, number) = match self {
            Filled::Next(next) => (0, *next),
            Filled::NotEmpty => (1, 0),
            Filled::Before => (3, 0),
            Filled::NotNext(why) => {
                let place = NOT_NEXT.iter().position(|known| known == why);
                (2, place.unwrap_or_default() as u64)
            }
        };
        Outcome::Chosen([&[kind][..], &number.to_le_bytes()].concat())
    }

    pub fn decode(answer: &[u8]) -> Option<Filled> {
        let (kind, number) = answer.split_first()?;
        let number = u64::from_le_bytes(number.try_into().ok()?);
        match kind {
            0 => Some(Filled::Next(number)),
            1 => Some(Filled::NotEmpty),
            3 => Some(Filled::Before),
            _ => Some(Filled::NotNext(NOT_NEXT.get(number as usize)?)),
        }
    }
}

/// A backup's time is at most so far ahead of its leader's clock: the log's time never goes back, and what has a deadline would go by it.
const AHEAD_MAX_MS: u64 = 24 * 60 * 60 * 1000;
/// No log gives so many sessions.
const SESSIONS_MAX: u64 = 1 << 48;

/// Refuses a step that says what no backup says. `wall_ms`: the leader's clock.
pub(crate) fn check(step: &Step, wall_ms: Option<u64>) -> Result<(), String> {
    let &Step::End {
        time_ms, sessions, ..
    } = step
    else {
        return Ok(());
    };
    if sessions > SESSIONS_MAX {
        return Err(format!(
            "the backup ends with session {sessions}, and no log has given so many: take another backup"
        ));
    }
    let ahead = wall_ms.map_or(0, |now| time_ms.saturating_sub(now));
    if ahead > AHEAD_MAX_MS {
        return Err(format!(
            "the backup's time is {} hours ahead of the clock of the node that leads the log: set that clock right, and restore again, which goes on",
            ahead / 3_600_000
        ));
    }
    Ok(())
}

/// Takes a step.
///
/// Errors: rows have to be fetched; or a row is too long.
pub(crate) fn execute(state: &mut State<'_>, fill: &Fill) -> Result<Outcome, Stop> {
    let Fill { backup, step } = fill;
    let row = state.get_row(ROW)?;
    let mark = match row.as_deref().map(Mark::decode) {
        None => None,
        Some(Some(mark)) => Some(mark),
        Some(None) => {
            return Err(Stop::refused(
                "a newer program began to restore this machine: start that one",
            ));
        }
    };
    let open = mark.as_ref().filter(|mark| mark.is_open);
    let ended = mark.as_ref().filter(|mark| !mark.is_open);
    let is_before = ended.is_some_and(|mark| mark.backup == *backup);
    let own = open.filter(|mark| mark.backup == *backup);
    let filled = match (step, own) {
        (Step::Begin, Some(mark)) => Filled::Next(mark.next),
        (Step::Begin, None) if open.is_some() => Filled::NotNext(IS_OPEN),
        (Step::Begin, None) if is_before => Filled::Before,
        (Step::Begin, None) if !state.is_of_new_log() => Filled::NotEmpty,
        (Step::Begin, None) => set(state, backup, true, 0),
        (Step::Page { number, .. }, Some(mark)) if *number < mark.next => Filled::Next(mark.next),
        (Step::Page { number, rows }, Some(mark)) if *number == mark.next => {
            let rows = formats::rows::decode(rows, None);
            for (key, value) in rows.map_err(|error| Stop::refused(error.to_string()))? {
                state.put(key, value)?;
            }
            set(state, backup, true, number + 1)
        }
        (
            Step::End {
                pages, sessions, ..
            },
            Some(mark),
        ) if *pages == mark.next => {
            sessions::begin_at(state, *sessions)?;
            set(state, backup, false, *pages)
        }
        // Its answer was lost.
        (Step::End { pages, .. }, None)
            if is_before && ended.is_some_and(|mark| mark.next == *pages) =>
        {
            Filled::Next(*pages)
        }
        (Step::Page { .. } | Step::End { .. }, Some(_)) => Filled::NotNext(NOT_NEXT[2]),
        (Step::Page { .. } | Step::End { .. }, None) => Filled::NotNext(NOT_NEXT[1]),
    };
    Ok(filled.outcome())
}

fn set(state: &mut State<'_>, backup: &[u8; 32], is_open: bool, next: u64) -> Filled {
    let mark = Mark {
        is_open,
        next,
        backup: *backup,
    };
    state.write_beside(ROW.to_vec(), mark.encode());
    Filled::Next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        for is_open in [true, false] {
            let mark = Mark {
                is_open,
                next: 1 << 40,
                backup: [7; 32],
            };
            let bytes = mark.encode();
            assert_eq!(is_open, super::is_open(Some(&bytes)));
            assert_eq!(Mark::decode(&bytes[1..]), None);
            assert_eq!(Mark::decode(&bytes), Some(mark));
        }
        assert!(super::is_open(Some(b"\x02 a newer program's")));
        assert!(!super::is_open(None));
    }

    #[test]
    fn an_end_that_no_backup_has_is_refused() {
        let end = |time_ms, sessions| Step::End {
            pages: 1,
            sessions,
            time_ms,
        };
        let now = Some(1_000_000_000_000);
        for (step, is_fine) in [
            (Step::Begin, true),
            (end(0, 1), true),
            (end(1_000_000_000_000 + AHEAD_MAX_MS, SESSIONS_MAX), true),
            (end(1_000_000_000_000 + AHEAD_MAX_MS + 1, 1), false),
            (end(u64::MAX, 1), false),
            (end(0, u64::MAX), false),
        ] {
            assert_eq!(check(&step, now).is_ok(), is_fine, "{step:?}");
        }
    }

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let not_next = NOT_NEXT.map(Filled::NotNext);
        for filled in [Filled::Next(9), Filled::NotEmpty, Filled::Before]
            .into_iter()
            .chain(not_next)
        {
            let Outcome::Chosen(answer) = filled.outcome() else {
                panic!("an answer is chosen")
            };
            assert_eq!(Filled::decode(&answer), Some(filled));
        }
        assert_eq!(Filled::decode(&[]), None);
    }
}
