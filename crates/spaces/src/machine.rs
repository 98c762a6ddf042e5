//! The machine of a space's log: requests on its rows.

use host::{Machine, State, Stop};
use streams::{Answer, Refusal, Request};

use crate::rows::OfState;

/// Every log of the kind `streams` has this machine, on every node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Space;

impl Machine for Space {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let Some(request) = Request::decode(command) else {
            return Err(Stop::refused(
                "a request that this node cannot read: start the same version on all nodes",
            ));
        };
        let answer = streams::execute(&mut OfState(state), &request)?;
        match answer {
            // ‡ Nothing is written on the ground of rows that this program cannot read.
            Answer::Refused(Refusal::Unreadable) => Err(Stop::answered(answer.encode())),
            answer => Ok(answer.encode()),
        }
    }

    /// A name's row has the id of a stream, whose own rows whoever asked for the name reads.
    fn leads_to(&self, key: &[u8], value: &[u8]) -> Vec<Vec<u8>> {
        streams::rows_behind(key, value)
    }

    /// ‡ Streams' ids are never used again, and only their rows are forgotten.
    fn forgets(&self) -> bool {
        true
    }
}
