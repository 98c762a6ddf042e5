//! Why a request was refused, as its asker is told.

use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, RETRY_AFTER,
};
use hyper::{Response, StatusCode};
use serde_json::json;
use streams::{Place, Refusal};

use crate::body::Body;
use crate::headers::{self, etag_of_tail};

/// An answer that is an error: `{"error":{"code","message","remedy"}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub status: u16,
    pub code: &'static str,
    pub message: String,
    pub remedy: String,
    pub headers: Vec<(HeaderName, String)>,
}

impl Fault {
    pub fn new(
        status: u16,
        code: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Fault {
        Fault {
            status,
            code,
            message: message.into(),
            remedy: remedy.into(),
            headers: Vec::new(),
        }
    }

    /// From a sentence that says what is wrong, and behind a colon or a semicolon what helps.
    pub fn sentence(status: u16, code: &'static str, sentence: &str) -> Fault {
        let cut = sentence.rfind("; ").or_else(|| sentence.rfind(": "));
        let (message, remedy) = match cut {
            Some(at) => (&sentence[..at], &sentence[at + 2..]),
            None => (sentence, ""),
        };
        Fault::new(status, code, message, remedy)
    }

    pub fn header(mut self, name: HeaderName, value: impl ToString) -> Fault {
        self.headers.push((name, value.to_string()));
        self
    }

    pub fn method(allowed: &str) -> Fault {
        let remedy = format!("ask with one of {allowed}");
        Fault::new(405, "bad-method", "nothing is asked for so here", remedy).header(ALLOW, allowed)
    }

    pub fn bad_header(name: &str, remedy: impl Into<String>) -> Fault {
        Fault::new(
            400,
            "bad-header",
            format!("the header {name} makes no sense"),
            remedy,
        )
    }

    /// Nothing was done, and may be in a moment.
    pub fn not_now(why: impl Into<String>) -> Fault {
        Fault::new(
            503,
            "not-now",
            why,
            "ask again in a moment: nothing was done",
        )
        .header(RETRY_AFTER, 1)
    }

    /// ‡ Nobody says that it was not done.
    pub fn unknown() -> Fault {
        let message = "what became of the request is not known: it was done, or never will be";
        let remedy = "read the stream before you ask again, or append with Producer-Id, Producer-Epoch and Producer-Seq: then asking again is safe";
        let fault = Fault::new(503, "unknown-outcome", message, remedy);
        fault.header(headers::OUTCOME, "unknown")
    }

    pub fn not_found() -> Fault {
        Fault::new(
            404,
            "not-found",
            "there is no such stream",
            "make it with PUT, or look for its name at /v1/list/default",
        )
    }

    pub fn no_space(name: &str) -> Fault {
        Fault::new(
            404,
            "no-space",
            format!("there is no space of streams named {name}"),
            format!("have it made: logberg log create {name} --kind streams"),
        )
    }

    pub fn deleted() -> Fault {
        Fault::new(
            410,
            "deleted",
            "the stream was deleted; its bytes stay for the streams that were forked from it",
            "read those, or delete them to free the name",
        )
    }

    pub fn of(refusal: Refusal) -> Fault {
        let conflict = |code, message: &str, remedy: &str| Fault::new(409, code, message, remedy);
        match refusal {
            Refusal::NotFound => Fault::not_found(),
            Refusal::Deleted => Fault::deleted(),
            Refusal::Differs => conflict(
                "differs",
                "a stream of this name is there, and was made otherwise, or is closed or open otherwise, or is deleted and held by its forks",
                "HEAD tells how it is; choose another name, or ask for what is there",
            ),
            Refusal::Exists => Fault::new(
                412,
                "exists",
                "a stream of this name is there",
                "leave If-None-Match away to have it as it is",
            ),
            Refusal::SourceNotFound => Fault::new(
                404,
                "no-source",
                "there is no stream to be forked at Stream-Forked-From",
                "name one that is there, as /v1/stream/NAME",
            ),
            Refusal::SourceDeleted => conflict(
                "source-deleted",
                "the stream at Stream-Forked-From was deleted",
                "fork one of its forks",
            ),
            Refusal::ForkOffset => Fault::new(
                400,
                "bad-fork-offset",
                "Stream-Fork-Offset is no offset of that stream, behind its tail, or before what is left of it",
                "use one that reading that stream gave you: HEAD tells where it begins",
            ),
            Refusal::ForkSub => Fault::new(
                400,
                "bad-fork-sub-offset",
                "Stream-Fork-Sub-Offset is behind the end of the append at Stream-Fork-Offset",
                "use a smaller one, or the offset behind that append",
            ),
            Refusal::ForkMedia => conflict(
                "content-type",
                "a fork has the content type of its source",
                "leave Content-Type away",
            ),
            Refusal::ForkDepth => conflict(
                "fork-depth",
                "a fork of a fork of … of a stream has the bytes of 64 streams at most",
                "fork an earlier one",
            ),
            Refusal::Closed(place) => Fault::new(
                409,
                "closed",
                "the stream is closed: nothing is appended to it any more",
                "make another one, or fork it",
            )
            .header(headers::CLOSED, "true")
            .at(&place),
            Refusal::Media { is } => Fault::new(
                409,
                "content-type",
                format!("the stream is of the type {}", is.as_str()),
                "append bytes of that type, and say so in Content-Type",
            ),
            Refusal::StaleEpoch { current } => Fault::new(
                403,
                "stale-epoch",
                format!("this producer has begun epoch {current}"),
                "end this one, or begin a greater epoch at Producer-Seq 0",
            )
            .header(headers::PRODUCER_EPOCH, current),
            Refusal::EpochBegins => Fault::new(
                400,
                "bad-epoch",
                "a new epoch of a producer begins with Producer-Seq 0",
                "send Producer-Seq: 0 first",
            ),
            Refusal::Gap { expected, received } => Fault::new(
                409,
                "sequence-gap",
                format!("Producer-Seq {expected} comes next, not {received}"),
                "send what is missing first",
            )
            .header(headers::PRODUCER_EXPECTED, expected)
            .header(headers::PRODUCER_RECEIVED, received),
            Refusal::Unexpected(place) => Fault::new(
                412,
                "unexpected-tail",
                "the stream's tail is not the one in If-Match: others have appended",
                "read on from your offset, and decide again",
            )
            .header(ETAG, etag_of_tail(&place))
            .at(&place),
            Refusal::Sequence { last } => Fault::new(
                409,
                "sequence",
                format!(
                    "Stream-Seq is not greater than {last:?}, the last one of this stream, byte by byte"
                ),
                "send a greater one",
            ),
            Refusal::ManyProducers => Fault::new(
                429,
                "many-producers",
                format!(
                    "the stream remembers {} producers of this token, all used within 7 days",
                    streams::PRODUCERS_MAX
                ),
                "let a producer keep its Producer-Id, and count Producer-Epoch up when it starts",
            )
            .header(RETRY_AFTER, 3_600),
            Refusal::OtherBody { sequence } => Fault::new(
                409,
                "other-body",
                format!("this producer appended other bytes under its number {sequence}"),
                "send the same input in the same pieces, or count Producer-Epoch up for another one",
            ),
            Refusal::ManyStreams => Fault::new(
                429,
                "many-streams",
                format!("the space has {} streams, and no limit says that there may be more", streams::STREAMS_USUAL),
                "delete some, make streams with Stream-TTL, or have a limit said: logberg stream limits --streams N",
            )
            .header(RETRY_AFTER, 60),
            Refusal::StreamsLimit { streams } => Fault::new(
                429,
                "many-streams",
                format!("the space may have {streams} streams, and has them"),
                "delete some, make streams with Stream-TTL, or have the limit changed: logberg stream limits",
            )
            .header(RETRY_AFTER, 60),
            Refusal::ManyBytes { bytes } => Fault::new(
                429,
                "many-bytes",
                format!("the space may keep {bytes} bytes, and this append would be more"),
                "delete streams, make them with Stream-TTL, or have the limit changed: logberg stream limits",
            )
            .header(RETRY_AFTER, 60),
            Refusal::BadLimits(why) => Fault::sentence(400, "bad-limits", &why),
            Refusal::NotJson(why) => Fault::sentence(400, "bad-json", &why),
            Refusal::EmptyBody => Fault::empty_body(),
            Refusal::Full => Fault::new(
                413,
                "full",
                "the stream has 10^16 bytes",
                "go on in another one",
            ),
            Refusal::Unreadable => Fault::new(
                500,
                "unreadable",
                "this program cannot read what another version of it wrote",
                "start the newest version that this cluster has had on every node",
            ),
        }
    }

    pub fn empty_body() -> Fault {
        Fault::new(
            400,
            "empty-body",
            "an append has no bytes",
            "send some, or Stream-Closed: true to close the stream",
        )
    }

    pub fn empty_log_body() -> Fault {
        let remedy = "send some: an empty append leaves nothing behind";
        Fault::new(400, "empty-body", "an append has no bytes", remedy)
    }

    fn at(self, place: &Place) -> Fault {
        self.header(headers::NEXT_OFFSET, place.tail)
    }

    /// The answer. Whoever asked by HEAD gets no body.
    pub fn into_response(self) -> Response<Body> {
        let error =
            json!({"error": {"code": self.code, "message": self.message, "remedy": self.remedy}});
        let mut response = Response::new(Body::from(format!("{error}\n")));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_cut_before_what_helps() {
        let fault = Fault::sentence(400, "x", "a is b: it is not: choose c");
        assert_eq!(
            (&*fault.message, &*fault.remedy),
            ("a is b: it is not", "choose c")
        );
        let fault = Fault::sentence(400, "x", "not JSON: at line 1; send JSON");
        assert_eq!(fault.remedy, "send JSON");
    }
}
