//! `logberg streams`: what was written into a log, and by how many writers.

use anyhow::Result;
use clap::Args;
use client::admin::{StreamEnd, StreamInfo};

use crate::arguments::Global;
use terminal::{quantity, show};

/// List the streams of a log, in the order of their opening
#[derive(Debug, Args)]
#[command(after_help = "\
A stream that continues another is the same writer's, after it lost its leader.

Example:
  logberg streams main")]
pub struct Arguments {
    #[arg(value_name = "LOG")]
    log: String,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let streams = global.client().streams(&self.log)?;
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
