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
use terminal::exit::{Failure, Kind};

/// Read a stream and those that continue it, or all of a log
#[derive(Debug, Args)]
#[command(after_help = "\
The bytes go to standard output and are checked before. Unless --from-node is given, what is read is
all that was chosen when the read began. How the read ended is said on standard error, if it did not
end at a clean end (with --json: always, as an object).

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
    /// Wait for more until the stream is closed
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
        let from = self.from.unwrap_or(named);
        if let Some(to) = self.to
            && from > to
        {
            return Err(Failure::usage(format!("--from {from} lies behind --to {to}")).into());
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
                Err(ReadError::Trimmed { from }) if self.left && from > options.from => {
                    options.from = from;
                    options.to = options.to.map(|to| to.max(from));
                }
                reader => break reader?,
            }
        };
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
        let (end, position) = (reader.end().unwrap_or(ReadEnd::Open), reader.position());
        if global.json {
            let end = end.to_string();
            eprintln!(
                "{}",
                serde_json::json!({ "end": end, "position": position })
            );
        } else if end == ReadEnd::Cut {
            eprintln!(
                "logberg: at {position} the stream was cut: its writer vanished or was superseded"
            );
        } else if let Some(to) = self.to
            && end != ReadEnd::To
        {
            let what = match end {
                ReadEnd::Closed => "the stream was closed",
                _ => "nothing more was written so far",
            };
            eprintln!("logberg: at {position} {what}: that is before --to {to}");
        }
        Ok(())
    }
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
