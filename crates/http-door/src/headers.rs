//! The protocol's headers, read and written.

use hyper::HeaderMap;
use hyper::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH,
    TRANSFER_ENCODING,
};
use jiff::Timestamp;
use streams::{Expected, ForkFrom, Lifetime, MediaType, Offset, Place, Producer, Retention};

use crate::fault::Fault;
use crate::name::Name;
use crate::route::STREAMS;

pub const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
pub const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
pub const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
pub const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
pub const TTL: HeaderName = HeaderName::from_static("stream-ttl");
pub const EXPIRES_AT: HeaderName = HeaderName::from_static("stream-expires-at");
pub const SEQUENCE: HeaderName = HeaderName::from_static("stream-seq");
pub const FORKED_FROM: HeaderName = HeaderName::from_static("stream-forked-from");
pub const FORK_OFFSET: HeaderName = HeaderName::from_static("stream-fork-offset");
pub const FORK_SUB_OFFSET: HeaderName = HeaderName::from_static("stream-fork-sub-offset");
pub const SSE_ENCODING: HeaderName = HeaderName::from_static("stream-sse-data-encoding");
pub const PRODUCER_ID: HeaderName = HeaderName::from_static("producer-id");
pub const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
pub const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");
/// Seconds for which this producer may ask again.
pub const PRODUCER_KEPT: HeaderName = HeaderName::from_static("logberg-producer-kept");
/// `true`: other bytes under the last number are refused.
pub const CHECK_BODY: HeaderName = HeaderName::from_static("logberg-check-body");
pub const PRODUCER_EXPECTED: HeaderName = HeaderName::from_static("producer-expected-seq");
pub const PRODUCER_RECEIVED: HeaderName = HeaderName::from_static("producer-received-seq");
pub const OUTCOME: HeaderName = HeaderName::from_static("logberg-outcome");

/// Of a log: a place, NAME@POSITION, at which a chain of streams goes on.
pub const CONTINUES: HeaderName = HeaderName::from_static("logberg-continues");
/// Of a log: the first stream of a chain, and of HEAD its bytes.
pub const STREAM: HeaderName = HeaderName::from_static("logberg-stream");
/// Of a log: the first byte that was not trimmed.
pub const RETENTION: HeaderName = HeaderName::from_static("logberg-retention");
pub const FIRST_OFFSET: HeaderName = HeaderName::from_static("logberg-first-offset");

/// Headers that a browser's program may send: by name, for `*` would leave `Authorization` out.
pub const ASKED: &str = "Authorization, Content-Type, If-Match, If-None-Match, If-Range, Last-Event-ID, Logberg-Check-Body, Logberg-Continues, Logberg-Producer-Kept, Logberg-Retention, Producer-Epoch, Producer-Id, Producer-Seq, Range, Stream-Closed, Stream-Expires-At, Stream-Fork-Offset, Stream-Fork-Sub-Offset, Stream-Forked-From, Stream-Seq, Stream-TTL";
/// Headers that a browser's program may see.
pub const EXPOSED: &str = "Accept-Ranges, Content-Range, ETag, Location, Logberg-Continues, Logberg-First-Offset, Logberg-Outcome, Logberg-Retention, Logberg-Stream, Producer-Epoch, Producer-Expected-Seq, Producer-Received-Seq, Producer-Seq, Retry-After, Stream-Closed, Stream-Cursor, Stream-Expires-At, Stream-Next-Offset, Stream-SSE-Data-Encoding, Stream-TTL, Stream-Up-To-Date";

/// Numbers that JavaScript holds exactly.
const INTEGER_MAX: u64 = (1 << 53) - 1;
const ID_BYTES_MAX: usize = 256;

/// The value of a header that stands once, as text.
pub fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Fault::bad_header(name.as_str(), "send it once"));
    }
    let text = value.to_str();
    text.map(|text| Some(text.trim()))
        .map_err(|_| Fault::bad_header(name.as_str(), "send it in ASCII"))
}

pub fn integer(name: &HeaderName, text: &str) -> Result<u64, Fault> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text
        .parse()
        .ok()
        .filter(|number| is_plain && *number <= INTEGER_MAX);
    let remedy = "send a whole number in digits, from 0 to 2^53 - 1";
    number.ok_or_else(|| Fault::bad_header(name.as_str(), remedy))
}

pub fn media(headers: &HeaderMap) -> Result<Option<MediaType>, Fault> {
    let Some(said) = text(headers, &CONTENT_TYPE)? else {
        return Ok(None);
    };
    if said.is_empty() {
        return Ok(None);
    }
    let media = MediaType::new(said);
    let remedy = "send a media type, as text/plain or application/json";
    media
        .map(Some)
        .ok_or_else(|| Fault::bad_header("Content-Type", remedy))
}

/// Errors: the body is packed.
pub fn check_encoding(headers: &HeaderMap) -> Result<(), Fault> {
    let is_chunked = |encoding: &HeaderValue| {
        let text = encoding.to_str().unwrap_or_default();
        text.trim().eq_ignore_ascii_case("chunked")
    };
    if !headers.get_all(TRANSFER_ENCODING).iter().all(is_chunked) {
        return Err(Fault::new(
            501,
            "transfer-encoding",
            "the body is packed, by Transfer-Encoding",
            "send it chunked and nothing else, or with its Content-Length",
        ));
    }
    match headers
        .get(CONTENT_ENCODING)
        .is_none_or(|encoding| encoding == "identity")
    {
        true => Ok(()),
        false => Err(Fault::new(
            415,
            "content-encoding",
            "the body is packed, by Content-Encoding",
            "send it as it is: what a stream holds is the bytes of its body",
        )),
    }
}

pub fn closes(headers: &HeaderMap) -> bool {
    let closed = headers.get(&CLOSED).and_then(|value| value.to_str().ok());
    closed.is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

pub fn lifetime(headers: &HeaderMap) -> Result<Lifetime, Fault> {
    let ttl = text(headers, &TTL)?;
    let until = text(headers, &EXPIRES_AT)?;
    match (ttl, until) {
        (None, None) => Ok(Lifetime::Endless),
        (Some(_), Some(_)) => Err(Fault::new(
            400,
            "bad-header",
            "both Stream-TTL and Stream-Expires-At are there",
            "send one of them",
        )),
        (Some(ttl), None) => {
            let is_padded = ttl.len() > 1 && ttl.starts_with('0');
            let remedy = "send whole seconds in digits, without zeros before them";
            match integer(&TTL, ttl) {
                Ok(seconds) if !is_padded => Ok(Lifetime::Idle { seconds }),
                _ => Err(Fault::bad_header("Stream-TTL", remedy)),
            }
        }
        (None, Some(until)) => {
            let remedy = "send a time by RFC 3339, as 2030-01-31T12:00:00Z, before 9999-12-30; or leave it out for a stream that stays";
            let bad = || Fault::bad_header("Stream-Expires-At", remedy);
            let time: Timestamp = until.parse().map_err(|_| bad())?;
            let ms = u64::try_from(time.as_millisecond()).map_err(|_| bad())?;
            Ok(Lifetime::Until { ms })
        }
    }
}

/// How much of a stream is to stay.
pub fn retention(headers: &HeaderMap) -> Result<Retention, Fault> {
    let Some(said) = text(headers, &RETENTION)? else {
        return Ok(Retention::default());
    };
    let bad = |why: wire::BadRetention| {
        let why = why.to_string();
        Fault::sentence(400, "bad-header", &format!("Logberg-Retention {why}"))
    };
    let retention: wire::Retention = said.parse().map_err(bad)?;
    Ok(Retention {
        bytes: retention.max_bytes,
        age_ms: retention
            .max_age_s
            .map(|seconds| seconds.saturating_mul(1_000)),
    })
}

/// A retention as it is written in a header.
pub fn shown(retention: Retention) -> wire::Retention {
    wire::Retention {
        max_bytes: retention.bytes,
        max_age_s: retention.age_ms.map(|ms| ms / 1_000),
    }
}

/// A time as it is written in a header.
pub fn rfc3339(ms: u64) -> Option<String> {
    let ms = i64::try_from(ms).ok()?;
    let time = Timestamp::from_millisecond(ms).ok()?;
    Some(time.to_string())
}

/// The source of a fork in this space.
pub fn fork(headers: &HeaderMap, space: &str) -> Result<Option<ForkFrom>, Fault> {
    let offset = text(headers, &FORK_OFFSET)?;
    let sub = text(headers, &FORK_SUB_OFFSET)?;
    let Some(source) = text(headers, &FORKED_FROM)? else {
        return match (offset, sub) {
            (None, None) => Ok(None),
            _ => Err(Fault::new(
                400,
                "bad-header",
                "Stream-Fork-Offset and Stream-Fork-Sub-Offset say where a fork begins, and of what is not said",
                "send Stream-Forked-From too",
            )),
        };
    };
    let remedy = "send the path of the stream's address, as /v1/stream/NAME";
    let name = source.strip_prefix(STREAMS);
    let name = name.ok_or_else(|| Fault::bad_header("Stream-Forked-From", remedy))?;
    let source = Name::in_address(name)?;
    if source.space != space {
        let remedy = "fork it within its own space, or read it and append what it has";
        return Err(Fault::bad_header("Stream-Forked-From", remedy));
    }
    let source = source.path;
    let offset = match offset {
        None => None,
        // Nothing of it.
        Some("-1") => Some(Offset {
            lineage: 0,
            position: 0,
        }),
        Some("now") => None,
        Some(offset) => {
            let remedy = "send an offset that an answer had in Stream-Next-Offset";
            let parsed = offset.parse::<Offset>();
            Some(parsed.map_err(|_| Fault::bad_header("Stream-Fork-Offset", remedy))?)
        }
    };
    let sub = match sub {
        None => 0,
        Some(sub) => integer(&FORK_SUB_OFFSET, sub)?,
    };
    if sub > 0 && offset.is_none() {
        return Err(Fault::new(
            400,
            "bad-header",
            "Stream-Fork-Sub-Offset is counted from an offset that is not said",
            "send Stream-Fork-Offset too",
        ));
    }
    Ok(Some(ForkFrom {
        source,
        offset,
        sub,
    }))
}

pub fn sequence(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let sequence = text(headers, &SEQUENCE)?;
    match sequence.is_some_and(|sequence| sequence.len() > ID_BYTES_MAX) {
        true => Err(Fault::bad_header("Stream-Seq", "send at most 256 bytes")),
        false => Ok(sequence.map(str::to_owned)),
    }
}

pub fn producer(headers: &HeaderMap) -> Result<Option<Producer>, Fault> {
    let id = text(headers, &PRODUCER_ID)?;
    let epoch = text(headers, &PRODUCER_EPOCH)?;
    let sequence = text(headers, &PRODUCER_SEQ)?;
    let (id, epoch, sequence) = match (id, epoch, sequence) {
        (None, None, None) => return Ok(None),
        (Some(id), Some(epoch), Some(sequence)) => (id, epoch, sequence),
        _ => {
            return Err(Fault::new(
                400,
                "bad-header",
                "some of Producer-Id, Producer-Epoch and Producer-Seq are missing",
                "send all three, or none",
            ));
        }
    };
    if id.is_empty() || id.len() > ID_BYTES_MAX {
        return Err(Fault::bad_header("Producer-Id", "send 1 to 256 characters"));
    }
    Ok(Some(Producer {
        id: id.to_owned(),
        epoch: integer(&PRODUCER_EPOCH, epoch)?,
        sequence: integer(&PRODUCER_SEQ, sequence)?,
        kept_ms: kept_ms(headers)?,
        is_compared: text(headers, &CHECK_BODY)? == Some("true"),
    }))
}

/// For how long a producer wants to be remembered.
fn kept_ms(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(said) = text(headers, &PRODUCER_KEPT)? else {
        return Ok(None);
    };
    let ms = integer(&PRODUCER_KEPT, said)?.saturating_mul(1_000);
    Ok(Some(ms.min(streams::PRODUCER_KEPT_MS)))
}

/// The tail that an append expects: an offset, or the tag of a read.
pub fn expected(headers: &HeaderMap) -> Result<Option<Expected>, Fault> {
    let Some(said) = text(headers, &IF_MATCH)? else {
        return Ok(None);
    };
    let remedy = "send one offset in quotes, as If-Match: \"OFFSET\", or the ETag of an answer";
    let bad = || Fault::bad_header("If-Match", remedy);
    let tag = said.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let tag = tag.ok_or_else(bad)?;
    if let Ok(offset) = tag.parse() {
        return Ok(Some(Expected::At(offset)));
    }
    let mut parts = tag.split(':');
    let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
    match (number(), number(), number()) {
        (Some(id), Some(_), Some(position)) => Ok(Some(Expected::Of { id, position })),
        _ => Err(bad()),
    }
}

/// Whether a stream is to be made only if there is none.
pub fn must_be_new(headers: &HeaderMap) -> bool {
    headers.get(IF_NONE_MATCH).is_some_and(|value| value == "*")
}

/// Whether the asker has this already.
pub fn has(headers: &HeaderMap, etag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    tags.any(|tag| tag.trim().trim_start_matches("W/") == etag)
}

/// The tag of bytes that were read.
pub fn etag(place: &Place, from: Offset, to: Offset, is_last: bool) -> String {
    let closed = if is_last { ":c" } else { "" };
    format!("\"{}:{}:{}{closed}\"", place.id, from.position, to.position)
}

/// The tag of a stream's tail, for whoever appends only if it is still there.
pub fn etag_of_tail(place: &Place) -> String {
    format!("\"{}\"", place.tail)
}

#[cfg(test)]
mod tests {

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.map(pair).collect()
    }

    #[test]
    fn a_lifetime_is_seconds_or_a_time() {
        let of = |name, value| lifetime(&headers(&[(name, value)]));
        assert_eq!(
            of("stream-ttl", "3600"),
            Ok(Lifetime::Idle { seconds: 3_600 })
        );
        assert_eq!(of("stream-ttl", "0"), Ok(Lifetime::Idle { seconds: 0 }));
        for bad in [
            "",
            "+1",
            "01",
            "1.0",
            "1e3",
            "-1",
            "99999999999999999999",
            "abc",
        ] {
            assert!(of("stream-ttl", bad).is_err(), "{bad:?}");
        }
        let noon = Ok(Lifetime::Until {
            ms: 1_893_499_200_000,
        });
        assert_eq!(of("stream-expires-at", "2030-01-01T12:00:00Z"), noon);
        assert_eq!(of("stream-expires-at", "2030-01-01T13:00:00+01:00"), noon);
        assert_eq!(
            rfc3339(1_893_499_200_000).as_deref(),
            Some("2030-01-01T12:00:00Z")
        );
        for bad in ["", "not-a-timestamp", "2030-01-01", "1969-01-01T00:00:00Z"] {
            assert!(of("stream-expires-at", bad).is_err(), "{bad:?}");
        }
        let both = [
            ("stream-ttl", "1"),
            ("stream-expires-at", "2030-01-01T12:00:00Z"),
        ];
        assert!(lifetime(&headers(&both)).is_err());
    }

    #[test]
    fn a_producer_says_three_things() {
        let of = |id, epoch, sequence| {
            producer(&headers(&[
                ("producer-id", id),
                ("producer-epoch", epoch),
                ("producer-seq", sequence),
            ]))
        };
        assert!(of("p", "0", "9007199254740991").is_ok_and(|producer| producer.is_some()));
        for (id, epoch, sequence) in [
            ("", "0", "0"),
            ("p", "-1", "0"),
            ("p", "0", "1.5"),
            ("p", "0x1", "0"),
            ("p", "0", "9007199254740992"),
            ("p", "1e3", "0"),
        ] {
            assert!(of(id, epoch, sequence).is_err(), "{id} {epoch} {sequence}");
        }
        assert!(producer(&headers(&[("producer-id", "p")])).is_err());
        assert_eq!(producer(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn the_expected_tail_is_an_offset_or_the_tag_of_a_read() {
        let of = |value| expected(&headers(&[("if-match", value)]));
        let offset = Offset {
            lineage: 7,
            position: 42,
        };
        assert_eq!(
            of("\"0000000000000007_0000000000000042\""),
            Ok(Some(Expected::At(offset)))
        );
        let read = Ok(Some(Expected::Of {
            id: 7,
            position: 42,
        }));
        assert_eq!(of("\"7:0:42\""), read);
        assert_eq!(of("\"7:0:42:c\""), read);
        for bad in ["*", "7:0:42", "\"7\"", "\"a:b:c\"", "\"1:2\", \"3:4\""] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_retention_is_a_size_an_age_or_both() {
        let of = |said| retention(&headers(&[("logberg-retention", said)]));
        let found = of("1GiB,7d").expect("a retention");
        assert_eq!(
            (found.bytes, found.age_ms),
            (Some(1 << 30), Some(604_800_000))
        );
        assert_eq!(shown(found).to_string(), "1GiB,7d");
        assert_eq!(of("forever"), Ok(Retention::default()));
        assert_eq!(retention(&HeaderMap::new()), Ok(Retention::default()));
        for wrong in ["", "7", "7d,8d", "0B", "1GiB 7d", "99999999999999999999d"] {
            let fault = of(wrong).expect_err("it is none");
            assert_eq!((fault.status, fault.code), (400, "bad-header"), "{wrong}");
            assert!(!fault.remedy.is_empty(), "{wrong}");
        }
    }

    #[test]
    fn a_fork_names_its_source_by_the_path_of_its_address() {
        let of = |pairs: &[_]| fork(&headers(pairs), "default");
        let source = ("stream-forked-from", "/v1/stream/a%20b");
        let found = of(&[source, ("stream-fork-offset", "-1")]).expect("a fork");
        let found = found.expect("a fork");
        assert_eq!(found.source.as_str(), "a b");
        assert_eq!(found.offset.map(|offset| offset.position), Some(0));
        assert!(of(&[("stream-forked-from", "a")]).is_err());
        let elsewhere = [("stream-forked-from", "/v1/stream/@team/a")];
        assert!(of(&elsewhere).is_err());
        let found = fork(&headers(&elsewhere), "team").expect("it is of that space");
        assert_eq!(found.expect("a fork").source.as_str(), "a");
        assert!(of(&[("stream-fork-sub-offset", "0")]).is_err());
        assert!(of(&[source, ("stream-fork-sub-offset", "1")]).is_err());
        assert!(of(&[source, ("stream-fork-sub-offset", "0")]).is_ok());
        assert!(of(&[source, ("stream-fork-offset", "x")]).is_err());
    }

    #[test]
    fn every_header_of_the_protocol_may_be_sent_and_seen_by_browsers() {
        let lists = |list: &str, name: &HeaderName| {
            list.split(", ")
                .any(|listed| listed.eq_ignore_ascii_case(name.as_str()))
        };
        for name in [
            TTL,
            EXPIRES_AT,
            CLOSED,
            SEQUENCE,
            FORKED_FROM,
            FORK_OFFSET,
            FORK_SUB_OFFSET,
            PRODUCER_ID,
            PRODUCER_EPOCH,
            PRODUCER_SEQ,
            RETENTION,
        ] {
            assert!(lists(ASKED, &name), "{name}");
        }
        for name in [
            NEXT_OFFSET,
            UP_TO_DATE,
            CLOSED,
            CURSOR,
            TTL,
            EXPIRES_AT,
            SSE_ENCODING,
            PRODUCER_EPOCH,
            PRODUCER_SEQ,
            PRODUCER_EXPECTED,
            PRODUCER_RECEIVED,
            OUTCOME,
            CONTINUES,
            STREAM,
            FIRST_OFFSET,
            RETENTION,
        ] {
            assert!(lists(EXPOSED, &name), "{name}");
        }
    }
}
