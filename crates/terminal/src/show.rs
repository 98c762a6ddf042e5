//! Output for people and for machines. Everything goes through [`print`], because `println!`
//! panics when its reader goes away.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use comfy_table::presets::NOTHING;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, Table};
use serde::Serialize;

use crate::exit::{Failure, Kind};

/// Writes `text` and a line's end to standard output.
///
/// Errors: what cannot be written, for a disk is full, say, is in the error, with a code of its own: what the text says
/// was done, and whoever takes the error for a failure does it twice.
pub fn print(text: impl std::fmt::Display) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(),
        _ => {
            let text = text.to_string();
            let sentence =
                format!("standard output cannot be written ({error}); the answer was: {text}");
            Failure::new(Kind::Unsaid, sentence).into()
        }
    })
}

/// Writes a value as one line of JSON.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(serde_json::to_string(value)?)
}

fn no_colour() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

pub fn colours_on_stderr() -> bool {
    io::stderr().is_terminal() && !no_colour()
}

/// A table with a heading and no lines, which survives `awk` and a narrow terminal.
pub fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    if no_colour() || !io::stdout().is_terminal() {
        table.force_no_tty();
    }
    table.set_header(
        headings
            .iter()
            .map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)),
    );
    if let Some(first) = table.column_mut(0) {
        first.set_padding((0, 1));
    }
    table
}

/// Makes a stranger's text, such as a label, printable: it is not to tell the terminal what to do.
pub fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(shown).collect()
}

/// A number's cell.
pub fn number(value: impl ToString) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

/// A table of which the first column is text and the others are numbers, as lines.
pub fn rows(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = table(headings);
    for row in rows {
        let cells = row.into_iter().enumerate().map(|(at, text)| match at {
            0 => Cell::new(text),
            _ => number(text),
        });
        table.add_row(cells.collect::<Vec<_>>());
    }
    lines(&table)
}

/// Lines of a table end with padding; what is copied from a terminal should not.
pub fn lines(table: &Table) -> String {
    let lines: Vec<String> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}
