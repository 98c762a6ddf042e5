//! The states of machines' logs are carried over with them.

use std::path::Path;

use anyhow::Result;
use formats::{ClusterId, LogId};
use node::rescue::{Copied, Standing};
use serde::Serialize;
use shelf::{Identity, Settings, Shelf, Tree};
use terminal::exit::{Failure, Kind};
use terminal::quantity;

/// The fate of one log's state.
#[derive(Debug, Serialize)]
pub struct CarriedState {
    pub log: String,
    /// None is carried over, for this reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
}

/// Carries over the states that are whole, and lets each log go on where its state stands.
pub fn carry(
    copied: &mut Copied,
    was: ClusterId,
    (old, into): (&Path, &Path),
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<CarriedState>> {
    let mut states = Vec::new();
    for (id, log) in copied.machines() {
        let clusters = (was, copied.cluster());
        let stands = one(id, clusters, (old, into), progress)?;
        let (lost, standing) = match stands {
            Ok(position) => (None, copied.stand(id, position)),
            Err(why) => (Some(why), None),
        };
        states.push(CarriedState {
            log,
            lost,
            standing,
        });
    }
    Ok(states)
}

/// Where the state of this log stands, which is carried over; or why there is none.
fn one(
    log: LogId,
    (was, is): (ClusterId, ClusterId),
    (old, into): (&Path, &Path),
    progress: &mut dyn FnMut(u64),
) -> Result<Result<u64, String>> {
    let place = |of: &Path| of.join(shelf::STATES).join(shelf::directory_of(log.0));
    let (from, to) = (place(old), place(into));
    if !from.exists() {
        return Ok(Err("there is none in this directory".to_owned()));
    }
    let identity = |cluster: ClusterId| Identity {
        cluster: cluster.0,
        log: log.0,
    };
    let failed = |error: shelf::ShelfError| {
        let sentence = format!("the state of a log cannot be carried over: {error}");
        Failure::new(Kind::Failure, sentence)
    };
    let carried = shelf::carry(&from, &to, identity(was), identity(is), progress);
    let opened = match carried {
        Err(error @ shelf::ShelfError::Io { .. }) => return Err(failed(error).into()),
        Err(error) => Err(error),
        Ok(()) => Tree::open(&to, identity(is), Settings::default()),
    };
    let stands = opened.and_then(|tree| {
        let copying = tree.get(host::COPY_ROW)?;
        Ok((tree.applied().position, copying.is_some()))
    });
    let why = match stands {
        Ok((position, false)) => return Ok(Ok(position)),
        Ok((_, true)) => "it was being copied from another node, and is not whole".to_owned(),
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

/// For people.
pub fn remark(state: &CarriedState) -> String {
    let CarriedState {
        log,
        lost,
        standing,
    } = state;
    match (lost, standing) {
        (Some(why), _) => format!(
            "{log}: NO STATE is carried over: {why}. Its machine begins with what is left of the log, if that goes back to the beginning; else recover from a survivor that has its state"
        ),
        (None, Some(Standing::Within { above })) => format!(
            "{log}: its state is carried over, and {} of the log above it",
            quantity::shown(*above)
        ),
        (None, Some(Standing::Ahead)) => format!(
            "{log}: its state is carried over; it stands ahead of what this node knows of the log, which goes on behind it"
        ),
        (None, Some(Standing::Behind { lost })) => format!(
            "{log}: its state is carried over, and the log goes on behind it; {} of the log between it and what is left are LOST, with all above",
            quantity::shown(*lost)
        ),
        (None, None) => format!("{log}: its state is carried over"),
    }
}
