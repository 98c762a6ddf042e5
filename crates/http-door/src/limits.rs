//! The limits of a space: told, and changed.

use std::collections::BTreeMap;

use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap};
use letters::DoorNote;
use serde::{Deserialize, Deserializer};
use serde_json::{Value as Json, json};
use streams::{Answer, Change, Limits, LimitsChange, Rates, RatesChange, Request, Usage};

use crate::body::Body;
use crate::fault::Fault;
use crate::read::set;
use crate::serve::Door;
use crate::write::Sent;

/// What stands in the body of a PATCH. A name that is missing changes nothing, and null takes a limit away.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Patch {
    #[serde(deserialize_with = "said")]
    requests_per_s: Change,
    #[serde(deserialize_with = "said")]
    bytes_per_s: Change,
    #[serde(deserialize_with = "said")]
    streams: Change,
    #[serde(deserialize_with = "said")]
    bytes: Change,
    each: PatchOfRates,
    principals: BTreeMap<String, Option<PatchOfRates>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PatchOfRates {
    #[serde(deserialize_with = "said")]
    requests_per_s: Change,
    #[serde(deserialize_with = "said")]
    bytes_per_s: Change,
}

fn said<'de, D: Deserializer<'de>>(from: D) -> Result<Change, D::Error> {
    Option::deserialize(from).map(Some)
}

impl From<PatchOfRates> for RatesChange {
    fn from(patch: PatchOfRates) -> RatesChange {
        RatesChange {
            requests_per_s: patch.requests_per_s,
            bytes_per_s: patch.bytes_per_s,
        }
    }
}

/// ‡ A list would be taken for the values of the names, in their order.
fn has_names(json: &Json) -> bool {
    let is_list = |json: &Json| json.is_array();
    let named = json["principals"].as_object().into_iter().flatten();
    json.is_object()
        && !is_list(&json["each"])
        && !named.into_iter().any(|(_, rates)| is_list(rates))
}

/// Errors: 400.
fn change_in(body: &[u8]) -> Result<LimitsChange, Fault> {
    let wrong = |why: String| {
        let message = format!("this is no change of limits: {why}");
        let remedy =
            "send JSON as GET answers it, with the names that are to change, and null for no limit";
        Fault::new(400, "bad-limits", message, remedy)
    };
    let json: Json = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    if !has_names(&json) {
        return Err(wrong("what has names is an object, and no list".to_owned()));
    }
    let patch: Patch = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
    let named = patch.principals.into_iter();
    Ok(LimitsChange {
        all: RatesChange {
            requests_per_s: patch.requests_per_s,
            bytes_per_s: patch.bytes_per_s,
        },
        each: patch.each.into(),
        named: named
            .map(|(name, rates)| (name, rates.map(RatesChange::from)))
            .collect(),
        streams: patch.streams,
        bytes: patch.bytes,
    })
}

fn shown_rates(rates: &Rates) -> Json {
    json!({"requests_per_s": rates.requests_per_s, "bytes_per_s": rates.bytes_per_s})
}

fn shown(space: &str, limits: &Limits) -> Json {
    let named = limits.named.iter();
    let named: serde_json::Map<String, Json> = named
        .map(|(name, rates)| (name.clone(), shown_rates(rates)))
        .collect();
    json!({
        "space": space,
        "requests_per_s": limits.all.requests_per_s,
        "bytes_per_s": limits.all.bytes_per_s,
        "streams": limits.streams_max(),
        "bytes": limits.bytes,
        "each": shown_rates(&limits.each),
        "principals": named,
    })
}

fn answer(shown: &Json) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{shown}\n")));
    let headers = response.headers_mut();
    set(headers, CONTENT_TYPE, "application/json");
    set(headers, CACHE_CONTROL, "no-store");
    response
}

impl Door {
    pub async fn show_limits(&self, space: &str) -> Result<Response<Body>, Fault> {
        let Usage {
            limits,
            streams,
            bytes,
        } = self.space(space).usage().await?;
        let mut all = shown(space, &limits);
        all["used"] = json!({"streams": streams, "bytes": bytes});
        Ok(answer(&all))
    }

    pub async fn set_limits(
        &self,
        space: &str,
        headers: &HeaderMap,
        sent: Sent<'_>,
    ) -> Result<Response<Body>, Fault> {
        let asker = sent.asker;
        let body = self.take_small(headers, sent).await?;
        let change = change_in(&body)?;
        let limit = Request::Limit(Box::new(change));
        match self.space(space).submit(limit).await?.answer {
            Answer::Limits(limits) => {
                let who = asker.shown.principal();
                let now = shown(space, &limits);
                tracing::info!(target: "audit", %who, from = %asker.from, door = "http", what = "limits of the space are changed", %now);
                if let Some(board) = &self.board {
                    board.note(DoorNote {
                        who,
                        from: asker.from.to_string(),
                        what: format!("the limits of the space {space} are now {now}"),
                    });
                }
                // The other doors look for themselves.
                self.quotas.set(space, *limits);
                Ok(answer(&now))
            }
            Answer::Refused(refusal) => Err(Fault::of(refusal)),
            _ => Err(Fault::unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_missing_changes_nothing_and_null_takes_a_limit_away() {
        let body = br#"{"bytes":1048576,"streams":null,"each":{"requests_per_s":9},"principals":{"ci":{"bytes_per_s":5},"old":null}}"#;
        let change = change_in(body).expect("a change");
        assert_eq!(
            (change.bytes, change.streams),
            (Some(Some(1 << 20)), Some(None))
        );
        assert_eq!(change.all, RatesChange::default());
        assert_eq!(change.each.requests_per_s, Some(Some(9)));
        assert_eq!(change.named["old"], None);
        let ci = change.named["ci"].expect("limits");
        assert_eq!((ci.requests_per_s, ci.bytes_per_s), (None, Some(Some(5))));
        assert_eq!(change_in(b"{}").expect("nothing"), LimitsChange::default());
    }

    #[test]
    fn what_is_no_change_is_refused() {
        for body in [
            &b""[..],
            b"[]",
            b"7",
            br#"{"byte":1}"#,
            br#"{"bytes":-1}"#,
            br#"{"bytes":1.5}"#,
            br#"{"bytes":"1GiB"}"#,
            br#"{"bytes":1,"bytes":2}"#,
            br#"{"each":{"streams":1}}"#,
            br#"{"principals":["ci"]}"#,
            br#"{"each":[5]}"#,
            br#"{"principals":{"ci":[5]}}"#,
        ] {
            let fault = change_in(body).expect_err("it is none");
            assert_eq!((fault.status, fault.code), (400, "bad-limits"));
        }
    }
}
