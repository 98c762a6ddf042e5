//! `logberg read`: a chain of streams, or a whole log, to standard output.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;

use anyhow::{Context, Result};
use clap::Args;
use client::{Client, ReadEnd, ReadError, ReadOptions};
use wire::StreamPlace;

use crate::global::Global;
use crate::places;
use terminal::exit::{Failure, Kind, Said};

/// Read a stream and those that continue it, or all of a log
#[derive(Debug, Args)]
#[command(after_help = "\
The bytes go to standard output and are checked before. Unless --from-node is given, what is read is
all that was chosen when the read began. How the read ended is said on standard error, if it did not
end at a clean end (with --json: always, as an object).

A named stream whose writer vanished, or was superseded, is cut: the read says at which byte, and ends with
exit code 11. --follow ends there too, 10 seconds after the writer went. If the writer comes back, what it
appends is read from that byte on.

Without STREAM and --from, a log whose beginning was trimmed is read from its oldest byte on, and standard
error says which that is. Otherwise trimmed bytes are refused with exit code 7.

Example:
  logberg read main > everything
  logberg read main --left > what-was-not-trimmed
  logberg read main 1.4.2 --from 1M --to 2M
  logberg read main 1.4.2@1M
  logberg read main --follow | grep error")]
pub struct Arguments {
    #[arg(value_name = "LOG")]
    log: String,
    /// The stream to begin with, or a position of it; without it, all streams of the log one after the other
    #[arg(value_name = "STREAM[@BYTES]", value_parser = places::in_stream)]
    stream: Option<StreamPlace>,
    /// The first position, in bytes: of the stream, if one is named, else of the log's output
    #[arg(long, value_name = "[@]BYTES", value_parser = places::position)]
    from: Option<u64>,
    /// Begin with the first byte that was not trimmed, if that lies behind --from
    #[arg(long)]
    left: bool,
    /// The position after the last
    #[arg(long, value_name = "[@]BYTES", value_parser = places::position)]
    to: Option<u64>,
    /// Wait for more until the stream is closed or cut
    #[arg(long, short)]
    follow: bool,
    /// Read what this node knows to be chosen, which may be less than there is
    #[arg(long, value_name = "ID")]
    from_node: Option<u64>,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let named = self.stream.as_ref().map_or(0, |place| place.position);
        if let Some(from) = self.from
            && named > 0
        {
            let sentence = format!(
                "the stream is named with a position, @{named}, and --from says {from}: say one of them"
            );
            return Err(Failure::usage(sentence).into());
        }
        // A read of the whole log without a range wants whatever is left.
        let any = self.left || self.from.is_none() && self.stream.is_none();
        let of_stream = self.stream.is_some();
        let from = self.from.unwrap_or(named);
        if let Some(to) = self.to
            && from > to
        {
            return Err(Failure::usage(format!("--from {from} is greater than --to {to}")).into());
        }
        let client = global.client();
        let server = self
            .from_node
            .map(|id| address_of(&client, id))
            .transpose()?;
        let mut options = ReadOptions {
            stream: self.stream.map(|place| place.stream),
            from,
            to: self.to,
            follow: self.follow,
            stale: false,
            server,
        };
        let mut reader = loop {
            match client.read(&self.log, options.clone()) {
                Err(ReadError::Trimmed { from })
                    if any && from > options.from && (self.left || !ends_before(self.to, from)) =>
                {
                    options.from = from;
                    options.to = options.to.map(|to| to.max(from));
                }
                reader => break reader?,
            }
        };
        if options.from > from && !global.json {
            let begin = options.from;
            eprintln!("logberg: bytes before {begin} were trimmed; reading from {begin} on");
        }
        // The standard library's handle looks for the last line's end in each chunk, writes what
        // stands before it and then the rest.
        let stdout = io::stdout().as_fd().try_clone_to_owned();
        let mut out = File::from(stdout.context("cannot use standard output")?);
        loop {
            let bytes = reader.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            let count = bytes.len();
            out.write_all(bytes)?;
            reader.consume(count);
        }
        let end = reader.end().unwrap_or(ReadEnd::Open);
        self.say_end(global, end, reader.position(), of_stream);
        match end {
            // All of it was said.
            ReadEnd::Cut if of_stream => Err(Said(Kind::Cut).into()),
            _ => Ok(()),
        }
    }

    /// Says on standard error how the read ended, if not at a clean end.
    fn say_end(&self, global: &Global, end: ReadEnd, position: u64, of_stream: bool) {
        if global.json {
            let end = end.to_string();
            let end = serde_json::json!({ "end": end, "position": position });
            return eprintln!("{end}");
        }
        let before = match self.to {
            Some(to) if end != ReadEnd::To => format!("; that is before --to {to}"),
            _ => String::new(),
        };
        let what = match (end, of_stream) {
            (ReadEnd::Cut, true) => "the stream was cut: its writer vanished or was superseded",
            (ReadEnd::Cut, false) => {
                "the last stream was cut: its writer vanished or was superseded"
            }
            (ReadEnd::Open, true) => "the stream is open: nothing more was written so far",
            (ReadEnd::Open, false) if self.to.is_some() => "nothing more was written so far",
            (ReadEnd::Closed, _) if self.to.is_some() => "the stream was closed",
            (ReadEnd::Closed | ReadEnd::Open | ReadEnd::To, _) => return,
        };
        eprintln!("logberg: at {position} {what}{before}");
    }
}

fn ends_before(to: Option<u64>, from: u64) -> bool {
    to.is_some_and(|to| to <= from)
}

fn address_of(client: &Client, id: u64) -> Result<String> {
    let nodes = client.status()?.nodes;
    if let Some(node) = nodes.iter().find(|node| node.id == id) {
        return Ok(node.address.clone());
    }
    let known: Vec<_> = nodes.iter().map(|node| node.id.to_string()).collect();
    let sentence = format!("there is no node {id}; the nodes are {}", known.join(", "));
    Err(Failure::new(Kind::NotFound, sentence).into())
}
