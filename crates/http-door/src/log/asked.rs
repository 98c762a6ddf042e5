//! Headers of requests about logs.

use hyper::HeaderMap;
use streams::{Expected, Offset};

use super::contract::Place;
use crate::fault::Fault;
use crate::headers::{
    CLOSED, CONTINUES, EXPIRES_AT, FORK_OFFSET, FORK_SUB_OFFSET, FORKED_FROM, PRODUCER_EPOCH,
    PRODUCER_ID, PRODUCER_SEQ, SEQUENCE, TTL, check_encoding, expected, integer, text,
};
use crate::query::is_stream;

/// The end that an append to a log expects.
pub fn expected_end(headers: &HeaderMap) -> Result<Option<Offset>, Fault> {
    match expected(headers)? {
        None => Ok(None),
        Some(Expected::At(offset)) => Ok(Some(offset)),
        Some(Expected::Of { .. }) => Err(Fault::bad_header(
            "If-Match",
            "send the ETag of an answer about this log",
        )),
    }
}

/// The place at which an append to a log goes on.
pub fn continues(headers: &HeaderMap) -> Result<Option<Place>, Fault> {
    let Some(said) = text(headers, &CONTINUES)? else {
        return Ok(None);
    };
    let remedy = "send a place as HEAD tells it, NAME@POSITION, such as 1.4.2@1000000";
    let bad = || Fault::bad_header("Logberg-Continues", remedy);
    let (stream, position) = said.split_once('@').ok_or_else(bad)?;
    if !is_stream(stream) {
        return Err(bad());
    }
    Ok(Some(Place {
        stream: stream.to_owned(),
        position: integer(&CONTINUES, position)?,
    }))
}

/// Errors: a header asks for what a log does not do, and whoever sent it may rely on it.
pub fn check_for_log(headers: &HeaderMap) -> Result<(), Fault> {
    check_encoding(headers)?;
    let unknown = [
        &CLOSED,
        &TTL,
        &EXPIRES_AT,
        &FORKED_FROM,
        &FORK_OFFSET,
        &FORK_SUB_OFFSET,
        &SEQUENCE,
        &PRODUCER_ID,
        &PRODUCER_EPOCH,
        &PRODUCER_SEQ,
    ];
    match unknown.into_iter().find(|name| headers.contains_key(*name)) {
        None => Ok(()),
        Some(name) => Err(Fault::new(
            400,
            "bad-header",
            format!("a log knows no {name}, which is of named streams"),
            "leave it away, or use a stream below /v1/stream/",
        )),
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn an_append_to_a_log_goes_on_at_a_place_and_has_no_producer() {
        let of = |value| continues(&headers(&[("logberg-continues", value)]));
        let place = Place {
            stream: "1.4.2".to_owned(),
            position: 10,
        };
        assert_eq!(of("1.4.2@10"), Ok(Some(place)));
        for bad in [
            "", "1.4.2", "1.4.2@", "1.4@10", "1.4.2@-1", "01.4.2@1", "@1",
        ] {
            assert!(of(bad).is_err(), "{bad:?}");
        }
        assert!(check_for_log(&headers(&[("producer-id", "p")])).is_err());
        assert!(check_for_log(&headers(&[("stream-closed", "true")])).is_err());
        assert!(check_for_log(&headers(&[("content-encoding", "gzip")])).is_err());
        assert!(check_for_log(&headers(&[("content-type", "text/plain")])).is_ok());
        let read = headers(&[("if-match", "\"7:0:42\"")]);
        assert!(expected_end(&read).is_err());
    }
}
