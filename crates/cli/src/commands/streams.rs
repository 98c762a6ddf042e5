//! `logberg streams`: what was written into a log, and by how many writers.

use anyhow::Result;
use clap::Args;
use client::admin::{StreamEnd, StreamInfo};
use client::{Part, StreamName};

use crate::global::Global;
use terminal::show;
use wire::quantity;

/// List the streams of a log, in the order of their opening
#[derive(Debug, Args)]
#[command(after_help = "\
A stream that continues another is the same writer's, after it lost its leader.

A list that is long is not of one moment: what is listed last may have been chosen since the first was.

Example:
  logberg streams main
  logberg streams main --limit 100
  logberg streams main --limit 100 --after 1.4.2")]
pub struct Arguments {
    #[arg(value_name = "LOG")]
    log: String,
    /// Only those that were opened after this one
    #[arg(long, value_name = "STREAM")]
    after: Option<StreamName>,
    /// At most so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let Self { log, after, limit } = self;
        let streams = global.client().streams_part(&log, Part { after, limit })?;
        if global.json {
            return show::print_json(&streams);
        }
        let headings = [
            "STREAM",
            "BYTES",
            "",
            "END",
            "CONTINUES",
            "CONTINUED BY",
            "LABEL",
        ];
        let mut table = show::table(&headings);
        for stream in streams {
            table.add_row([
                stream.name.as_str().into(),
                show::number(stream.length),
                size(&stream).into(),
                end(stream.end).into(),
                stream
                    .continues
                    .map_or_else(String::new, |c| format!("{} at {}", c.stream, c.at))
                    .into(),
                stream.continued_by.unwrap_or_default().into(),
                show::printable(&stream.label.unwrap_or_default()).into(),
            ]);
        }
        show::print(show::lines(&table))
    }
}

fn size(stream: &StreamInfo) -> String {
    match stream.trimmed {
        0 => quantity::shown(stream.length),
        trimmed => format!(
            "{}, {} trimmed",
            quantity::shown(stream.length),
            quantity::shown(trimmed)
        ),
    }
}

fn end(end: StreamEnd) -> &'static str {
    match end {
        StreamEnd::Open => "open",
        StreamEnd::Closed => "closed",
        StreamEnd::Cut => "cut",
    }
}
