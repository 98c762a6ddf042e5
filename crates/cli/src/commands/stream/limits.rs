//! The limits of the space, shown and changed.

use anyhow::Result;
use clap::Args;
use serde_json::{Map, Value as Json, json};
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::quantity;

use super::SPACE;
use super::doors::{Doors, Twice, encoded};
use crate::global::Global;

/// Show or change how much the space may hold, and be asked for each second
#[derive(Debug, Args)]
#[command(after_help = "\
Without an option for a limit they are shown, with what is used. The limits are of the space, and so the
same at every node. Rates are counted by each node for what is asked of its own door: a second's worth may
come at once, and what comes beyond is refused (429) with the seconds to wait. Streams and bytes are counted
in the space; bytes by blocks of 4,096 of each stream. \"none\" takes a limit away.

Example:
  logberg stream limits
  logberg stream limits --keep 100GiB --streams 50000
  logberg stream limits --each --requests 200 --bytes 10MiB        # each token that has none of its own
  logberg stream limits --principal ci --requests 2000
  logberg stream limits --principal ci --like-all
  logberg stream limits --space team --streams 1000")]
pub struct Limits {
    /// The space whose limits they are
    #[arg(long, value_name = "SPACE", default_value = SPACE)]
    space: String,
    /// Requests a second
    #[arg(long, value_name = "N|none", value_parser = number)]
    requests: Option<Limit>,
    /// Bytes of bodies a second, both ways
    #[arg(long, value_name = "BYTES|none", value_parser = bytes)]
    bytes: Option<Limit>,
    /// Streams that there may be
    #[arg(long, value_name = "N|none", value_parser = number, conflicts_with_all = ["each", "principal"])]
    streams: Option<Limit>,
    /// Bytes that may be kept
    #[arg(long, value_name = "BYTES|none", value_parser = bytes, conflicts_with_all = ["each", "principal"])]
    keep: Option<Limit>,
    /// The rates are of each token that has no limits of its own, and not of all together
    #[arg(long, conflicts_with = "principal")]
    each: bool,
    /// The rates are of this token
    #[arg(long, value_name = "TOKEN")]
    principal: Option<String>,
    /// This token has no limits of its own any more
    #[arg(long, requires = "principal", conflicts_with_all = ["requests", "bytes"])]
    like_all: bool,
}

/// `None`: there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit(Option<u64>);

const NONE: &str = "none";

fn number(text: &str) -> Result<Limit, String> {
    match text.parse::<u64>() {
        _ if text == NONE => Ok(Limit(None)),
        Ok(number) if number > 0 => Ok(Limit(Some(number))),
        _ => Err("say a number from 1 on, or none".to_owned()),
    }
}

fn bytes(text: &str) -> Result<Limit, String> {
    if text == NONE {
        return Ok(Limit(None));
    }
    match quantity::bytes(text)? {
        0 => Err("say 1 byte or more, or none".to_owned()),
        bytes => Ok(Limit(Some(bytes))),
    }
}

impl Limits {
    /// The change, as a node wants to hear it. `None`: nothing is to change.
    fn change(&self) -> Option<Json> {
        let said = |pairs: &[(&str, Option<Limit>)]| {
            let said = pairs.iter().filter_map(|(name, limit)| {
                let Limit(limit) = (*limit)?;
                Some(((*name).to_owned(), json!(limit)))
            });
            said.collect::<Map<_, _>>()
        };
        let rates = [
            ("requests_per_s", self.requests),
            ("bytes_per_s", self.bytes),
        ];
        let kept = [("streams", self.streams), ("bytes", self.keep)];
        let has_rates = self.requests.is_some() || self.bytes.is_some();
        match &self.principal {
            Some(name) if self.like_all => Some(json!({"principals": {name: null}})),
            Some(name) if has_rates => Some(json!({"principals": {name: said(&rates)}})),
            None if self.each && has_rates => Some(json!({"each": said(&rates)})),
            None if !self.each => {
                let said = said(&[rates, kept].concat());
                (!said.is_empty()).then_some(Json::Object(said))
            }
            _ => None,
        }
    }

    pub fn run(self, doors: &mut Doors, global: &Global) -> Result<()> {
        let path = format!("/v1/limits/{}", encoded(&self.space));
        let change = self.change();
        if change.is_none() && (self.each || self.principal.is_some()) {
            let sentence =
                "say which limit: --requests N, --bytes BYTES, or --like-all for a token";
            return Err(Failure::usage(sentence).into());
        }
        if let Some(change) = change {
            let headers = [("Content-Type", "application/json".to_owned())];
            let body = change.to_string();
            let answer = doors.ask(
                "PATCH",
                &path,
                &headers,
                Some(body.as_bytes()),
                Twice::IsTwice,
            )?;
            answer.check("limits")?;
        }
        let answer = doors.ask("GET", &path, &[], None, Twice::IsOnce)?;
        answer.check("limits")?;
        let limits: Json = serde_json::from_slice(&answer.body).map_err(|_| {
            let sentence = "a node answered with limits that are no JSON";
            Failure::new(Kind::Corrupt, sentence)
        })?;
        match global.json {
            true => show::print_json(&limits),
            false => show::print(shown(&limits)),
        }
    }
}

fn shown(limits: &Json) -> String {
    let number = |value: &Json| value.as_u64().map(|number| number.to_string());
    let bytes = |value: &Json| value.as_u64().map(quantity::shown);
    let limit = |shown: Option<String>| shown.unwrap_or_else(|| NONE.to_owned());
    let used = &limits["used"];
    let kept = format!(
        "{} of {} stream(s), {} of {} kept",
        limit(number(&used["streams"])),
        limit(number(&limits["streams"])),
        limit(bytes(&used["bytes"])),
        limit(bytes(&limits["bytes"])),
    );
    let row = |who: &str, rates: &Json| {
        let who = show::printable(who);
        let requests = limit(number(&rates["requests_per_s"]));
        vec![who, requests, limit(bytes(&rates["bytes_per_s"]))]
    };
    let named = limits["principals"].as_object().into_iter().flatten();
    let mut rows = vec![row("all together", limits), row("each", &limits["each"])];
    rows.extend(named.map(|(name, rates)| row(&format!("token {name}"), rates)));
    let headings = ["AT EACH NODE", "REQUESTS A SECOND", "BYTES A SECOND"];
    format!("{kept}\n{}", show::rows(&headings, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Limits {
        Limits {
            space: SPACE.to_owned(),
            requests: None,
            bytes: None,
            streams: None,
            keep: None,
            each: false,
            principal: None,
            like_all: false,
        }
    }

    #[test]
    fn a_change_names_what_was_said_and_nothing_else() {
        assert_eq!(none().change(), None);
        let limits = Limits {
            requests: Some(Limit(Some(7))),
            keep: Some(Limit(None)),
            ..none()
        };
        let expected = json!({"requests_per_s": 7, "bytes": null});
        assert_eq!(limits.change(), Some(expected));
        let limits = Limits {
            bytes: Some(Limit(Some(9))),
            each: true,
            ..none()
        };
        assert_eq!(limits.change(), Some(json!({"each": {"bytes_per_s": 9}})));
        let limits = Limits {
            principal: Some("ci".to_owned()),
            like_all: true,
            ..none()
        };
        assert_eq!(limits.change(), Some(json!({"principals": {"ci": null}})));
        let limits = Limits {
            each: true,
            ..none()
        };
        assert_eq!(limits.change(), None);
    }

    #[test]
    fn a_limit_is_a_quantity_or_none() {
        assert_eq!(number("5"), Ok(Limit(Some(5))));
        assert_eq!(number("none"), Ok(Limit(None)));
        assert_eq!(bytes("1KiB"), Ok(Limit(Some(1_024))));
        for wrong in ["0", "-1", "many", ""] {
            assert!(number(wrong).is_err() && bytes(wrong).is_err(), "{wrong}");
        }
    }
}
