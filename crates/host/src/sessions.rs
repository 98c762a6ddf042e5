//! Sessions: commands that are executed once, however often they are asked for.
//!
//! ```text
//!  's' 'n'                       next number u64 │ sessions u64
//!  's' 'i' number                last sequence u64 │ last used u64 │ 0 answer, 1 refusal │ bytes
//!  's' 't' last used, number     nothing: the order in which sessions are forgotten      numbers in keys are big-endian
//! ```
//!
//! ‡ A session's number is drawn by the log: a late copy of a command of a session that was forgotten finds none of its number,
//! and is not executed again.

use letters::Step;

use crate::filling;
use crate::machine::{Command, Machine, Outcome};
use crate::state::{Key, State, Stop, Why};

/// Sessions that are remembered. With one more the one that was unused for longest is forgotten.
pub const SESSIONS_MAX: u64 = 10_000;
/// A session's place in the order is as old as this at most.
const USED_EACH_MS: u64 = 60_000;
/// An answer that is longer is not kept, so a session's command may not have it.
pub const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The row of numbers.
pub(crate) const NUMBERS: &[u8] = b"sn";

/// Executes a command: of a session, of none, or of the host's own.
///
/// Errors: rows have to be fetched.
pub(crate) fn execute(
    machine: &dyn Machine,
    state: &mut State<'_>,
    command: &Command,
) -> Result<Outcome, Stop> {
    if let Command::Fill(fill) = command {
        if matches!(fill.step, Step::End { .. }) {
            // ‡ Rows came that no command wrote.
            machine.begins();
        }
        return filling::execute(state, fill);
    }
    if let Some(refusal) = filling::refuses(state) {
        return Ok(refusal);
    }
    match command {
        // Above.
        Command::Fill(_) => Ok(Outcome::Unknown),
        Command::Plain(command) | Command::NotBefore { command, .. } => {
            let answer = machine.execute(state, command)?;
            Ok(Outcome::Chosen(answer))
        }
        Command::OpenSession => open(state),
        Command::Once {
            session,
            sequence,
            command,
        } => once(machine, state, *session, *sequence, command),
    }
}

fn open(state: &mut State<'_>) -> Result<Outcome, Stop> {
    let numbers = state.get_row(NUMBERS)?.unwrap_or_default();
    let (number, mut count) = (number_at(&numbers, 0).max(1), number_at(&numbers, 8));
    if count >= SESSIONS_MAX {
        let oldest = Key {
            from: b"st".to_vec(),
            to: Some(b"su".to_vec()),
            is_back: false,
        };
        for (key, _) in state.rows_of(oldest, 1)?.rows {
            // Without its tag the key is 't' and two numbers.
            let forgotten = key.get(9..).unwrap_or_default();
            state.write([b"si", forgotten].concat(), None)?;
            state.write([b"s", &key[..]].concat(), None)?;
            count -= 1;
        }
    }
    let time = state.time_ms();
    state.write(NUMBERS.to_vec(), Some(two(number + 1, count + 1)))?;
    state.write(row_of(number), Some([&two(0, time)[..], &[0]].concat()))?;
    state.write(place_of(time, number), Some(Vec::new()))?;
    Ok(Outcome::Chosen(number.to_le_bytes().to_vec()))
}

/// The number that the next session would have, in these bytes of the row of [`NUMBERS`].
pub(crate) fn next_number(row: Option<&[u8]>) -> u64 {
    number_at(row.unwrap_or_default(), 0).max(1)
}

/// The next session has this number, or a greater one.
pub(crate) fn begin_at(state: &mut State<'_>, number: u64) -> Result<(), Stop> {
    let numbers = state.get_row(NUMBERS)?.unwrap_or_default();
    let (next, count) = (number_at(&numbers, 0), number_at(&numbers, 8));
    state.write(NUMBERS.to_vec(), Some(two(next.max(number), count)))
}

fn once(
    machine: &dyn Machine,
    state: &mut State<'_>,
    session: u64,
    sequence: u64,
    command: &[u8],
) -> Result<Outcome, Stop> {
    let Some(row) = state.get_row(&row_of(session))? else {
        return Ok(Outcome::NoSession);
    };
    let (last, used) = (number_at(&row, 0), number_at(&row, 8));
    if sequence < last || sequence == 0 {
        return Ok(Outcome::Superseded);
    }
    if sequence == last {
        let answer = row.get(17..).unwrap_or_default().to_vec();
        return Ok(match row.get(16) {
            Some(0) => Outcome::Chosen(answer),
            _ => Outcome::Refused(String::from_utf8_lossy(&answer).into_owned()),
        });
    }
    let answer = machine.execute(state, command)?;
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(Stop::refused(format!(
            "the answer has {} bytes, and a session keeps at most {ANSWER_BYTES_MAX}",
            answer.len()
        )));
    }
    note(state, session, (sequence, used), 0, &answer)?;
    Ok(Outcome::Chosen(answer))
}

/// Remembers that a session's command was refused; what it wrote is not in this state.
pub(crate) fn note_refusal(
    state: &mut State<'_>,
    command: &Command,
    why: &str,
) -> Result<(), Stop> {
    let Command::Once {
        session, sequence, ..
    } = command
    else {
        return Ok(());
    };
    let row = state.get_row(&row_of(*session))?.unwrap_or_default();
    let why = why.as_bytes();
    let kept = &why[..why.len().min(ANSWER_BYTES_MAX)];
    note(state, *session, (*sequence, number_at(&row, 8)), 1, kept)
}

fn note(
    state: &mut State<'_>,
    session: u64,
    (sequence, used): (u64, u64),
    kind: u8,
    answer: &[u8],
) -> Result<(), Stop> {
    let time = state.time_ms();
    let moves = time >= used + USED_EACH_MS;
    let used_now = if moves { time } else { used };
    if moves {
        state.write(place_of(used, session), None)?;
        state.write(place_of(time, session), Some(Vec::new()))?;
    }
    let row = [&two(sequence, used_now)[..], &[kind], answer].concat();
    state.write(row_of(session), Some(row))
}

fn row_of(session: u64) -> Vec<u8> {
    [b"si", &session.to_be_bytes()[..]].concat()
}

fn place_of(used_ms: u64, session: u64) -> Vec<u8> {
    [b"st", &used_ms.to_be_bytes()[..], &session.to_be_bytes()].concat()
}

fn two(first: u64, second: u64) -> Vec<u8> {
    [first.to_le_bytes(), second.to_le_bytes()].concat()
}

fn number_at(bytes: &[u8], at: usize) -> u64 {
    let number = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
    number.map_or(0, u64::from_le_bytes)
}

/// The refusal in an execution's end, if it was one.
pub(crate) fn refusal(stop: Stop) -> Option<String> {
    match stop.0 {
        Why::Refused(why) => Some(why),
        Why::Missing | Why::Answered(_) | Why::Later => None,
    }
}
