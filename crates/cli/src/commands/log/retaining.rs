//! How much of a log is kept: what a new bound deletes is said first, and asked for.

use anyhow::Result;
use client::admin::LogStatus;
use client::{AdminError, Client};
use serde::Serialize;
use terminal::show;
use wire::{Retention, quantity};

use crate::confirm::confirmed;
use crate::global::Global;

/// How a bound that deletes something is set.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub plan: bool,
    pub yes: bool,
}

#[derive(Serialize)]
struct Planned<'a> {
    name: &'a str,
    retention: String,
    min_copies: u32,
    plan: bool,
    deletes_bytes: Option<u64>,
}

/// Says what goes, and asks, where something does. False: that is all that was wanted.
///
/// Errors: nobody said yes; nothing was done.
pub fn agreed(
    global: &Global,
    client: &Client,
    name: &str,
    retention: Retention,
    how: How,
) -> Result<bool> {
    let seen = if retention.is_forever() {
        None
    } else {
        look(client, name)
    };
    let kept = seen.as_ref().map(|log| log.output_bytes);
    let before = match client.log(name) {
        Err(error @ AdminError::UnknownLog { .. }) => return Err(error.into()),
        before => before.ok(),
    };
    let before: Option<Retention> = before.and_then(|log| log.retention.parse().ok());
    let over = kept.zip(retention.max_bytes);
    let over = over.map(|(kept, most)| kept.saturating_sub(most));
    let is_shorter = retention.max_age_s.is_some_and(|age| {
        let before = before.as_ref().and_then(|before| before.max_age_s);
        before.is_none_or(|before| age < before)
    });
    let by_age = is_shorter && kept.is_some_and(|kept| kept > 0);
    if how.plan && global.json {
        show::print_json(&Planned {
            name,
            retention: retention.to_string(),
            min_copies: seen.as_ref().map_or(0, |log| log.min_copies),
            plan: true,
            deletes_bytes: over.or((seen.is_some() && !by_age).then_some(0)),
        })?;
        return Ok(false);
    }
    let mut goes = Vec::new();
    // ‡ Nobody tells what is there: that is no reason to delete it unasked.
    if seen.is_none() && !retention.is_forever() {
        goes.push(format!("what {name} holds beyond {retention}"));
    }
    if let Some(over) = over.filter(|over| *over > 0) {
        goes.push(format!("about {} of {name}", quantity::shown(over)));
    }
    if by_age {
        let age = Retention {
            max_bytes: None,
            ..retention
        };
        goes.push(format!("what is older than {age}"));
    }
    let goes = goes.join(", and ");
    match (how.plan, goes.is_empty()) {
        (true, true) => show::print(format_args!("this would delete nothing now"))?,
        (true, false) => show::print(format_args!("this would delete {goes}, for good"))?,
        (false, true) => {}
        (false, false) => confirmed(&format!("this deletes {goes}, for good"), how.yes)?,
    }
    Ok(!how.plan)
}

/// The log as some node sees it: what it says may be a little old, and needs no leader.
fn look(client: &Client, name: &str) -> Option<LogStatus> {
    let of = |logs: Vec<LogStatus>| logs.into_iter().find(|log| log.name == name);
    if let Some(found) = client.status().ok().and_then(|status| of(status.logs)) {
        return Some(found);
    }
    let all = client.statuses().ok()?;
    all.into_iter().find_map(|status| of(status.logs))
}
