//! Streams are read, to their tail or on and on.

use std::io::{self, Write};

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value as Json, json};
use terminal::exit::{Failure, Kind};

use super::doors::{Answer, Doors, Twice, encoded, stream_path};
use crate::global::Global;

/// Read a stream to its tail
#[derive(Debug, Args)]
#[command(after_help = "\
Bytes are written as they are; of JSON each message is a line. With --json each answer is a line:
the offset behind it (`next`), whether the stream is closed there, and its bytes as `text`, or as
`base64` if they are no UTF-8.

Example:
  logberg stream read chat > chat.txt
  logberg stream read chat --from 0000000000000001_0000000000000042 --json")]
pub struct Read {
    #[arg(value_name = "NAME")]
    name: String,
    /// Where to begin: an offset, -1 for the beginning, or now for the tail
    #[arg(
        long,
        value_name = "OFFSET",
        default_value = "-1",
        allow_hyphen_values = true
    )]
    from: String,
}

/// Follow a stream until it is closed
#[derive(Debug, Args)]
#[command(after_help = "\
It writes as `logberg stream read` does, and waits for more. If a node goes away it goes on at another,
where it stood.

Example:
  logberg stream tail chat
  logberg stream tail chat --from -1")]
pub struct Tail {
    #[arg(value_name = "NAME")]
    name: String,
    /// Where to begin: an offset, -1 for the beginning, or now for the tail
    #[arg(
        long,
        value_name = "OFFSET",
        default_value = "now",
        allow_hyphen_values = true
    )]
    from: String,
}

impl Read {
    pub fn run(self, doors: &mut Doors, global: &Global) -> Result<()> {
        follow(doors, &self.name, self.from, false, global)
    }
}

impl Tail {
    pub fn run(self, doors: &mut Doors, global: &Global) -> Result<()> {
        follow(doors, &self.name, self.from, true, global)
    }
}

fn follow(doors: &mut Doors, name: &str, from: String, waits: bool, global: &Global) -> Result<()> {
    let (mut at, mut cursor, mut is_live) = (from, None::<String>, false);
    loop {
        let mut path = format!("{}?offset={}", stream_path(name), encoded(&at));
        if is_live {
            path += "&live=long-poll";
        }
        if let Some(cursor) = &cursor {
            path += &format!("&cursor={}", encoded(cursor));
        }
        let answer = doors.ask("GET", &path, &[], None, Twice::IsOnce)?;
        answer.check(name)?;
        write(&answer, global)?;
        let is_at_tail = answer.status == 204 || answer.header("stream-up-to-date") == Some("true");
        let is_over = is_at_tail && (answer.is_closed() || !waits);
        if is_over {
            return Ok(());
        }
        let next = answer.header("stream-next-offset").ok_or_else(|| {
            Failure::new(
                Kind::Corrupt,
                "a node answered a read without the offset behind it",
            )
        })?;
        at = next.to_owned();
        cursor = answer.header("stream-cursor").map(str::to_owned);
        is_live = is_at_tail;
    }
}

fn write(answer: &Answer, global: &Global) -> Result<()> {
    let mut out = io::stdout().lock();
    if global.json {
        let mut line = json!({"next": answer.tail(), "closed": answer.is_closed()});
        match std::str::from_utf8(&answer.body) {
            Ok(text) => line["text"] = Json::from(text),
            Err(_) => line["base64"] = Json::from(STANDARD.encode(&answer.body)),
        }
        if !answer.body.is_empty() {
            writeln!(out, "{line}")?;
        }
    } else if is_json(answer.header("content-type")) && !answer.body.is_empty() {
        let messages = streams::json::messages(&answer.body).map_err(|_| {
            Failure::new(
                Kind::Corrupt,
                "a node answered with messages that are no JSON",
            )
        })?;
        out.write_all(&messages)?;
    } else {
        out.write_all(&answer.body)?;
    }
    out.flush()?;
    Ok(())
}

pub fn is_json(media: Option<&str>) -> bool {
    let essence = media.and_then(|media| media.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}
