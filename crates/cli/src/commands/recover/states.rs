//! The states of machines' logs are carried over with them.

use std::path::Path;

use anyhow::Result;
use formats::{ClusterId, LogId};
use node::rescue::{Copied, Rescue, Standing};
use serde::Serialize;
use shelf::{Identity, Settings, Shelf, ShelfError, Tree};
use terminal::exit::{Failure, Kind};
use wire::quantity;

use crate::states::FoundState;

/// The fate of one log's state.
#[derive(Debug, Serialize)]
pub struct CarriedState {
    #[serde(skip)]
    id: LogId,
    pub log: String,
    /// The log's output before this position is in states alone.
    pub log_begins_at: u64,
    /// None is carried over, for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

impl CarriedState {
    /// Nothing of it is left, and the log's beginning, from which it could be made anew, is not either.
    pub fn is_lost_for_good(&self) -> bool {
        self.lost.is_some() && self.log_begins_at > 0
    }
}

/// The fate of each state in the old directory, if all were carried over. Reads all of them.
///
/// Errors: one cannot be read now. It is not given up for that.
pub fn survey(
    rescue: &Rescue,
    old: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<CarriedState>> {
    let mut states = Vec::new();
    for (id, log) in rescue.machines() {
        let mut logs = rescue.logs.iter();
        let log_begins_at = logs.find(|of| of.id == id.0).map_or(0, |of| of.begins_at);
        let from = place(old, id);
        let (lost, standing) = match from.exists() {
            false => (Some("there is none in this directory".to_owned()), None),
            true => {
                let found = FoundState::read((id, &from), rescue.lost_cluster(), progress);
                let found = found.map_err(cannot)?;
                let stands_at = found.stands_at;
                (
                    found.unfit,
                    stands_at.and_then(|at| rescue.standing(id, at)),
                )
            }
        };
        states.push(CarriedState {
            id,
            log,
            log_begins_at,
            lost,
            standing,
        });
    }
    Ok(states)
}

fn cannot(error: ShelfError) -> Failure {
    let sentence = format!("the state of a log cannot be carried over: {error}");
    Failure::new(Kind::Failure, sentence)
}

/// Carries over the states that are whole, and lets each log go on where its state stands.
pub fn carry(
    states: Vec<CarriedState>,
    copied: &mut Copied,
    was: ClusterId,
    (old, into): (&Path, &Path),
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<CarriedState>> {
    let mut carried = Vec::new();
    for state in states {
        let id = state.id;
        let stands = match state.lost {
            Some(why) => Err(why),
            None => one(id, (was, copied.cluster()), (old, into), progress)?,
        };
        let (lost, standing) = match stands {
            Ok(position) => (None, copied.stand(id, position)),
            Err(why) => (Some(why), None),
        };
        carried.push(CarriedState {
            lost,
            standing,
            ..state
        });
    }
    Ok(carried)
}

fn place(of: &Path, log: LogId) -> std::path::PathBuf {
    of.join(shelf::STATES).join(shelf::directory_of(log.0))
}

/// Where the state of this log stands, which is carried over; or why there is none.
fn one(
    log: LogId,
    (was, is): (ClusterId, ClusterId),
    (old, into): (&Path, &Path),
    progress: &mut dyn FnMut(u64),
) -> Result<Result<u64, String>> {
    let (from, to) = (place(old, log), place(into, log));
    let identity = |cluster: ClusterId| Identity {
        cluster: cluster.0,
        log: log.0,
    };
    let carried = shelf::carry(&from, &to, identity(was), identity(is), progress);
    let opened = match carried {
        Err(error @ ShelfError::Io { .. }) => return Err(cannot(error).into()),
        Err(error) => Err(error),
        Ok(()) => Tree::open(&to, identity(is), Settings::default()),
    };
    let stands = opened.and_then(|tree| {
        // The copy is read, too: nobody else has what a block of it held that was damaged on the way.
        let mut before = 0;
        tree.verify(&mut |bytes| {
            progress(bytes - before);
            before = bytes;
        })?;
        Ok(tree.applied().position)
    });
    let why = match stands {
        Ok(position) => return Ok(Ok(position)),
        Err(error @ ShelfError::Io { .. }) => return Err(cannot(error).into()),
        Err(error) => error.to_string(),
    };
    match std::fs::remove_dir_all(&to) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let path = to.display();
            let sentence = format!("{path} is to be removed, and cannot be: {error}");
            Err(Failure::new(Kind::Failure, sentence).into())
        }
        _ => Ok(Err(why)),
    }
}

/// For people: what became of it, or would.
pub fn remark(state: &CarriedState, is_done: bool) -> String {
    let CarriedState {
        log,
        log_begins_at,
        lost,
        standing,
        ..
    } = state;
    let is_carried = match is_done {
        true => "is carried over",
        false => "can be carried over",
    };
    match (lost, standing) {
        (Some(why), _) if *log_begins_at == 0 => format!(
            "{log}: NO STATE {is_carried}: {why}. Its machine makes it anew from the log, which is left from its beginning"
        ),
        (Some(why), _) => format!(
            "{log}: NO STATE {is_carried}: {why}. Its log was trimmed up to byte {log_begins_at}, so all that the machine had is LOST here, and nothing of it is served: recover from a survivor that has its state, or restore a backup"
        ),
        (None, Some(Standing::Within { above_bytes })) => format!(
            "{log}: its state {is_carried}, and {} of the log above it",
            quantity::shown(*above_bytes)
        ),
        (None, Some(Standing::Ahead)) => format!(
            "{log}: its state {is_carried}; it stands ahead of what this node knows of the log, which goes on behind it"
        ),
        (None, Some(Standing::Behind { lost_bytes })) => format!(
            "{log}: its state {is_carried}, and the log goes on behind it; {} of the log between it and what is left are LOST, with all above",
            quantity::shown(*lost_bytes)
        ),
        (None, None) => format!("{log}: its state {is_carried}"),
    }
}
