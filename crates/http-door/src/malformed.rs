//! Whatever a request is made of, it is understood or refused: with a status below 500 and what helps, and without a panic.

use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method};
use proptest::prelude::*;
use streams::{Offset, Producer};

use crate::fault::Fault;
use crate::headers;
use crate::log;
use crate::query::{List, LogQuery, Query};
use crate::route::Route;

/// Bytes, and words of the protocol that are cut, joined and bent.
fn text() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec![
        "-1",
        "now",
        "0000000000000001_0000000000000042",
        "9999999999999999_9999999999999999",
        "00000000000000010_000000000000042",
        "true",
        "*",
        "\"",
        "W/\"1:0:5\"",
        "\"1:0:5:c\"",
        "9007199254740991",
        "9007199254740992",
        "18446744073709551616",
        "-0",
        "+1",
        "00",
        "2030-01-31T12:00:00Z",
        "-009999-01-01T00:00:00Z",
        "/v1/stream/",
        "/v1/stream/@team/",
        "@team/",
        "@",
        "1GiB,7d",
        "0B",
        "http://h/v1/stream/a",
        "%2F",
        "%",
        "%ff",
        "..",
        "a/b",
        "application/json",
        "text/plain; charset=",
        ",",
        " ",
    ]);
    let piece =
        prop_oneof![4 => word.prop_map(str::to_owned), 1 => "\\PC{0,6}", 1 => "[0-9_:-]{0,20}"];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn asked() -> impl Strategy<Value = HeaderMap> {
    let name = prop::sample::select(headers::ASKED.split(", ").collect::<Vec<_>>());
    let edge = || prop::sample::select(vec!["7", "9007199254740991", "9007199254740992"]);
    let number = move || prop_oneof![3 => edge().prop_map(str::to_owned), 1 => text()];
    // Of three that are drawn apart hardly any are a producer's.
    let producer = prop::option::of((text(), number(), number()));
    let others = prop::collection::vec((name, text()), 0..8);
    (producer, others).prop_map(|(producer, mut pairs)| {
        if let Some((id, epoch, sequence)) = producer {
            pairs.retain(|(name, _)| !name.starts_with("Producer-"));
            pairs.push(("Producer-Id", id));
            pairs.push(("Producer-Epoch", epoch));
            pairs.push(("Producer-Seq", sequence));
        }
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            let name: HeaderName = name.parse().expect("a header");
            if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                map.append(name, value);
            }
        }
        map
    })
}

fn check<T>(understood: Result<T, Fault>) -> Option<T> {
    match understood {
        Ok(understood) => Some(understood),
        Err(fault) => {
            assert!((400..500).contains(&fault.status), "{fault:?}");
            assert!(
                !fault.message.is_empty() && !fault.remedy.is_empty(),
                "{fault:?}"
            );
            // It can be sent.
            let status = fault.status;
            assert_eq!(fault.into_response().status(), status);
            None
        }
    }
}

proptest! {
    #[test]
    fn headers_are_understood_or_refused(asked in asked()) {
        check(headers::media(&asked));
        check(headers::check_encoding(&asked));
        check(headers::lifetime(&asked));
        check(headers::fork(&asked, "default"));
        check(headers::retention(&asked));
        check(headers::sequence(&asked));
        check(headers::expected(&asked));
        headers::has(&asked, "\"1:0:5\"");
        log::check_headers(&asked).into_iter().for_each(|checked| _ = check(checked));
        if let Some(Some(Producer { id, epoch, sequence, kept_ms, .. })) = check(headers::producer(&asked)) {
            prop_assert!((1..=256).contains(&id.len()));
            prop_assert!(epoch < 1 << 53 && sequence < 1 << 53, "JavaScript has no such number");
            prop_assert!(kept_ms.is_none_or(|ms| ms <= streams::PRODUCER_KEPT_MS));
        }
    }

    #[test]
    fn queries_are_understood_or_refused(pairs in prop::collection::vec((text(), text()), 0..5), raw in text()) {
        let names = ["offset", "live", "cursor", "stale", "all", "encoding", "stream", "prefix", "after", "limit"];
        let pairs = pairs.iter().enumerate();
        let named = pairs.map(|(at, (name, value))| format!("{}={value}", names[(at + name.len()) % names.len()]));
        let query = named.collect::<Vec<_>>().join("&");
        for query in [&query, &raw] {
            if let Some(Query { from: streams::From::At(offset), .. }) = check(Query::parse(query)) {
                prop_assert_eq!(offset.to_string().parse::<Offset>(), Ok(offset));
            }
            check(LogQuery::parse(query));
            if let Some(list) = check(List::parse(query)) {
                prop_assert!((1..=1_000).contains(&list.limit));
            }
        }
    }

    #[test]
    fn addresses_are_understood_or_refused(name in text(), is_stream in any::<bool>()) {
        let address = if is_stream { format!("/v1/stream/{name}") } else { name.clone() };
        check(Route::of(&Method::POST, &format!("/v1/log/{name}")));
        for method in [Method::GET, Method::PUT, Method::PATCH] {
            if let Some(Route::Read(name)) = check(Route::of(&method, &address)) {
                // A name has one address: encoded again it is the same stream.
                let whole = name.to_string();
                let parts = whole.split('/');
                let encoded = parts.map(|part| percent_encoding::utf8_percent_encode(part, percent_encoding::NON_ALPHANUMERIC).to_string());
                let again = format!("/v1/stream/{}", encoded.collect::<Vec<_>>().join("/"));
                prop_assert_eq!(Route::of(&method, &again), Ok(Route::Read(name)));
            }
        }
    }
}
