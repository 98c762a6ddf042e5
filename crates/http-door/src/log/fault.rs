//! Why a log did not do what it was asked, as its asker is told.

use hyper::header::{RETRY_AFTER, WWW_AUTHENTICATE};

use super::contract::{NoLog, Place};
use crate::fault::Fault;
use crate::headers;

impl Fault {
    pub fn no_log() -> Fault {
        Fault::new(
            404,
            "not-found",
            "there is no such log",
            "make it with PUT, or look for its name with `logberg log list`",
        )
    }

    pub fn other_kind(log: &str, kind: &str) -> Fault {
        Fault::new(
            409,
            "other-kind",
            format!("the log {log} is of kind {kind}: its bytes are a machine's"),
            "name another log; named streams are below /v1/stream/",
        )
    }

    pub fn unknown_outcome(message: &str) -> Fault {
        let remedy = "HEAD tells what the log holds, and where a broken append goes on";
        let fault = Fault::new(503, "unknown-outcome", message, remedy);
        fault.header(headers::OUTCOME, "unknown")
    }

    /// `continues`: the place at which an append was to go on.
    pub fn of_log(why: NoLog, continues: Option<&Place>) -> Fault {
        let conflict = |code, message: &str, remedy: &str| Fault::new(409, code, message, remedy);
        match why {
            NoLog::Unknown => Fault::no_log(),
            NoLog::Exists => Fault::new(
                412,
                "exists",
                "a log of this name is there",
                "leave If-None-Match away to have it as it is, and append with POST",
            ),
            NoLog::Busy => conflict(
                "busy",
                "the log has a writer, and has one at a time",
                "ask again when it has ended, or append to another log",
            )
            .header(RETRY_AFTER, 10),
            NoLog::Superseded => conflict(
                "superseded",
                "another writer took the log over; what was acknowledged before stays",
                "HEAD tells what the log holds",
            ),
            NoLog::Continues { length, by } => continued(length, by.as_deref(), continues),
            NoLog::UnknownStream => Fault::new(
                404,
                "no-stream",
                "the log has no such stream, or not any more",
                "`logberg streams` lists those there are",
            ),
            NoLog::Trimmed { from: None } => Fault::new(
                410,
                "trimmed",
                "all bytes of that stream were trimmed",
                "read the log from the beginning of what is left, with offset=-1",
            ),
            NoLog::Trimmed { from: Some(from) } => Fault::new(
                410,
                "trimmed",
                format!("the bytes before position {from} were trimmed"),
                "read from the beginning of what is left, with offset=-1",
            ),
            NoLog::PastEnd { length } => Fault::new(
                400,
                "bad-offset",
                format!("the offset is behind the end, which is at {length}"),
                "use one that an answer had in Stream-Next-Offset",
            ),
            NoLog::Full(why) => Fault::new(507, "full", why, "free space there, or trim logs"),
            NoLog::Unauthenticated(why) => {
                let remedy = "send a token that is good: Authorization: Bearer TOKEN";
                let fault = Fault::new(401, "unauthenticated", why, remedy);
                fault.header(WWW_AUTHENTICATE, "Bearer")
            }
            NoLog::Forbidden(why) => {
                let remedy = "ask with another token, or for what this one may";
                Fault::new(403, "forbidden", why, remedy)
            }
            NoLog::Bad(why) => {
                let mut fault = Fault::sentence(400, "bad-request", &why);
                if fault.remedy.is_empty() {
                    "send it so".clone_into(&mut fault.remedy);
                }
                fault
            }
            NoLog::Refused(why) => {
                let remedy = "do what the sentence says, and ask again";
                Fault::new(409, "refused", why, remedy)
            }
            NoLog::NotNow(why) => Fault::not_now(why),
            NoLog::NotKnown(why) => Fault::unknown_outcome(&why),
            NoLog::Damaged(why) => {
                let remedy = "read it again, and look after the disk and the network of that node";
                Fault::new(500, "damaged", why, remedy)
            }
        }
    }
}

fn continued(length: u64, by: Option<&str>, continues: Option<&Place>) -> Fault {
    let of = continues.map_or("the stream", |place| &place.stream);
    let fault = |remedy| {
        let message = format!("{of} cannot be continued there");
        Fault::new(409, "continues", message, remedy)
    };
    match by {
        Some(by) => fault(format!("it was continued by {by}: go on behind that one")),
        None => {
            let fault = fault(format!("it has {length} bytes: go on there"));
            fault.header(headers::CONTINUES, format!("{of}@{length}"))
        }
    }
}
