//! `logberg stream`: named streams, over HTTP.

mod appending;
mod doors;
mod limits;
mod reading;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::{Retention, quantity};

use self::appending::Append;
use self::doors::{Doors, Twice, stream_path};
use self::limits::Limits;
use self::reading::{Read, Tail};
use crate::confirm::confirmed;
use crate::global::Global;

/// The space whose streams are named by their paths alone.
const SPACE: &str = "default";

/// Named streams over HTTP: make, append, read, fork, close, delete
#[derive(Debug, Args)]
#[command(after_help = "\
Nodes serve them where they were started with --http, and `logberg dev` does. Any node takes any
request; where one is silent the next one is asked. What docs/http.md says of streams holds here.

A name is one of the space \"default\"; @SPACE/NAME is one of another, which is made as a log is
(`logberg log create team --kind streams`) and has a leader, limits and backups of its own.

Example:
  logberg stream put chat --type text/plain
  echo hello | logberg stream append chat
  logberg stream read chat
  logberg stream tail chat --http 10.0.0.1:4437,10.0.0.2:4437
  logberg stream put @team/chat --type text/plain")]
pub struct Arguments {
    /// Where nodes serve streams, in the order in which they are asked
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT,…",
        env = "LOGBERG_HTTP_SERVER",
        hide_env_values = true,
        value_delimiter = ',',
        default_value = "127.0.0.1:4437,127.0.0.1:4438,127.0.0.1:4439"
    )]
    http: Vec<String>,
    #[command(subcommand)]
    command: StreamCommand,
}

#[derive(Debug, Subcommand)]
enum StreamCommand {
    /// Make a stream; one that is there as it is asked for is left as it is
    #[command(after_help = "\
Example:
  logberg stream put chat --type text/plain
  logberg stream put jobs/7 --type application/json --ttl 3600 --new
  logberg stream put ticks --retention 1GiB,7d")]
    Put {
        #[arg(value_name = "NAME")]
        name: String,
        /// The type of its bytes; application/octet-stream if not given
        #[arg(long = "type", value_name = "TYPE")]
        media: Option<String>,
        /// It ends so long after it was last read or written
        #[arg(long, value_name = "SECONDS")]
        ttl: Option<u64>,
        /// How much of it stays: its last bytes (1GiB), what was appended since (7d), or both (1GiB,7d)
        #[arg(long, value_name = "SIZE,AGE")]
        retention: Option<Retention>,
        /// Refuse if there is one of this name
        #[arg(long)]
        new: bool,
    },
    Append(Append),
    Read(Read),
    Tail(Tail),
    /// List streams
    #[command(after_help = "\
Example:
  logberg stream ls jobs/ --json
  logberg stream ls @team/                # those of another space")]
    Ls {
        /// Only names that begin so
        #[arg(value_name = "PREFIX", default_value = "")]
        prefix: String,
    },
    /// Make a stream that begins as another one is
    #[command(after_help = "\
Nothing is copied. Without --at it begins at the source's tail.

Example:
  logberg stream fork try-2 --of chat --at 0000000000000001_0000000000000042")]
    Fork {
        #[arg(value_name = "NAME")]
        name: String,
        #[arg(long, value_name = "SOURCE")]
        of: String,
        /// An offset of the source's
        #[arg(long, value_name = "OFFSET")]
        at: Option<String>,
    },
    /// Close a stream: nothing follows, ever
    #[command(after_help = "Example:\n  logberg stream close chat")]
    Close {
        #[arg(value_name = "NAME")]
        name: String,
    },
    Limits(Limits),
    /// Delete a stream, for good
    #[command(after_help = "Example:\n  logberg stream rm chat --yes")]
    Rm {
        #[arg(value_name = "NAME")]
        name: String,
        /// Delete it without asking
        #[arg(long)]
        yes: bool,
    },
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let mut doors = Doors::new(
            self.http,
            global.timeout,
            global.token_file.clone(),
            global.ca.as_deref(),
        );
        match self.command {
            StreamCommand::Put {
                name,
                media,
                ttl,
                retention,
                new,
            } => {
                let ttl = ttl.map(|seconds| seconds.to_string());
                let headers = [
                    ("Content-Type", media),
                    ("Stream-TTL", ttl),
                    ("Logberg-Retention", retention.map(|kept| kept.to_string())),
                    ("If-None-Match", new.then(|| "*".to_owned())),
                ];
                make(&mut doors, &name, &headers, global)
            }
            StreamCommand::Append(append) => append.run(&mut doors, global),
            StreamCommand::Limits(limits) => limits.run(&mut doors, global),
            StreamCommand::Read(read) => read.run(&mut doors, global),
            StreamCommand::Tail(tail) => tail.run(&mut doors, global),
            StreamCommand::Ls { prefix } => list(&mut doors, &prefix, global),
            StreamCommand::Fork { name, of, at } => {
                let headers = [
                    ("Stream-Forked-From", Some(stream_path(&of))),
                    ("Stream-Fork-Offset", at),
                ];
                make(&mut doors, &name, &headers, global)
            }
            StreamCommand::Close { name } => {
                let tail = close(&mut doors, &name)?;
                match global.json {
                    true => show::print_json(&json!({"name": name, "tail": tail, "closed": true})),
                    false => show::print(format_args!("{name} is closed at {tail}")),
                }
            }
            StreamCommand::Rm { name, yes } => {
                confirmed(&format!("this deletes the stream {name}, for good"), yes)?;
                let answer = doors.ask("DELETE", &stream_path(&name), &[], None, Twice::IsTwice)?;
                answer.check(&name)?;
                match global.json {
                    true => show::print_json(&json!({"name": name, "deleted": true})),
                    false => show::print(format_args!("{name} is deleted")),
                }
            }
        }
    }
}

/// ‡ A stream that is made twice might be raised from the dead: somebody may have deleted it in between.
fn make(
    doors: &mut Doors,
    name: &str,
    headers: &[(&'static str, Option<String>)],
    global: &Global,
) -> Result<()> {
    let headers = headers.iter().filter_map(|(name, value)| {
        let value = value.clone()?;
        Some((*name, value))
    });
    let headers: Vec<(&str, String)> = headers.collect();
    let answer = doors.ask(
        "PUT",
        &stream_path(name),
        &headers,
        Some(&[]),
        Twice::IsTwice,
    )?;
    answer.check(name)?;
    let (is_new, tail) = (answer.status == 201, answer.tail());
    match global.json {
        true => show::print_json(&json!({"name": name, "tail": tail, "made": is_new})),
        false if is_new => show::print(format_args!("{name} is made, its tail is {tail}")),
        false => show::print(format_args!("{name} is there already, its tail is {tail}")),
    }
}

/// Closes a stream; it may be closed already. Returns its tail.
fn close(doors: &mut Doors, name: &str) -> Result<String> {
    let headers = [("Stream-Closed", "true".to_owned())];
    let answer = doors.ask(
        "POST",
        &stream_path(name),
        &headers,
        Some(&[]),
        Twice::IsOnce,
    )?;
    answer.check(name)?;
    Ok(answer.tail())
}

/// The space that stands before a name, and the rest of it.
fn in_space(name: &str) -> (&str, &str) {
    match name.strip_prefix('@') {
        None => (SPACE, name),
        Some(rest) => rest.split_once('/').unwrap_or((rest, "")),
    }
}

fn list(doors: &mut Doors, prefix: &str, global: &Global) -> Result<()> {
    let mut all: Vec<Json> = Vec::new();
    let mut after: Option<String> = None;
    let (space, prefix) = in_space(prefix);
    loop {
        let mut path = format!("/v1/list/{space}?prefix={}", doors::encoded(prefix));
        if let Some(after) = &after {
            path += &format!("&after={}", doors::encoded(after));
        }
        let answer = doors.ask("GET", &path, &[], None, Twice::IsOnce)?;
        answer.check(space)?;
        let page: Json = serde_json::from_slice(&answer.body).map_err(|_| {
            Failure::new(Kind::Corrupt, "a node answered with a list that is no JSON")
        })?;
        all.extend(page["streams"].as_array().cloned().unwrap_or_default());
        after = page["after"].as_str().map(str::to_owned);
        if after.is_none() {
            break;
        }
    }
    if global.json {
        return show::print_json(&all);
    }
    let text = |value: &Json| show::printable(value.as_str().unwrap_or_default());
    let rows = all.iter().map(|stream| {
        let bytes = quantity::shown(stream["bytes"].as_u64().unwrap_or_default());
        let is_closed = stream["closed"].as_bool().unwrap_or_default();
        let closed = if is_closed { "closed" } else { "open" };
        vec![
            text(&stream["name"]),
            bytes,
            text(&stream["tail"]),
            closed.to_owned(),
        ]
    });
    show::print(show::rows(&["STREAM", "BYTES", "TAIL", ""], rows.collect()))
}
