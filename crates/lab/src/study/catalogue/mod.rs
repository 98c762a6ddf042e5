//! Every table, figure and claim of the three papers: what was published, and the command that looks at it here.
//!
//! One list: `logberg-lab list` and `show` print it, docs/lab.md is made of it, and a test holds each command to the program.

mod checks;
mod mex;
mod ramp;
mod zcp;

use clap::ValueEnum;
use serde::Serialize;

pub use checks::{Check, Expectation, Verdict, all as checks, check};

/// The papers, by the short names of the commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Paper {
    /// Zero-copy Paxos (2017)
    Zcp,
    /// The RAM-ified Part-Time Parliament (2016)
    Ramp,
    /// A sharded key/value store on Paxos (6.824, 2014)
    Mex,
}

/// One table, figure, variable or claim.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// `R22`
    pub id: &'static str,
    /// The subject, and the published numbers in brackets where they are few.
    pub what: &'static str,
    #[serde(flatten)]
    pub here: Here,
}

/// The state of a row here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Here {
    /// This command measures it.
    Have { command: &'static str },
    /// Nothing will.
    NotBuilt { why: &'static str },
}

const fn have(id: &'static str, what: &'static str, command: &'static str) -> Row {
    let here = Here::Have { command };
    Row { id, what, here }
}

const fn not_built(id: &'static str, what: &'static str, why: &'static str) -> Row {
    let here = Here::NotBuilt { why };
    Row { id, what, here }
}

impl Paper {
    pub const ALL: [Paper; 3] = [Paper::Zcp, Paper::Ramp, Paper::Mex];

    pub fn title(self) -> &'static str {
        match self {
            Paper::Zcp => "Zero-copy Paxos (Turner 2017)",
            Paper::Ramp => "The RAM-ified Part-Time Parliament (2016)",
            Paper::Mex => "A sharded key/value store on Paxos (6.824, 2014)",
        }
    }

    /// The setting of its measurements, beside which ours are to be read.
    pub fn setting(self) -> &'static str {
        match self {
            Paper::Zcp => {
                "Two i3.large machines and a third that was disconnected; 16 rates from 5 to 220 MB/s by 8 sizes from 1 to 1000 B, 92 cells; one client on the leader's machine; 15 s of warm-up and 45 s measured."
            }
            Paper::Ramp => {
                "N processes on one host; a proposal each second; the time from prepare to learning at the proposer; means of about ten. Its disk was never synced, and its megabyte never crossed the network."
            }
            Paper::Mex => {
                "Twelve machines; PutHash of some ten bytes; one client for latency, 35 clients for ten seconds for the system's throughput."
            }
        }
    }

    pub fn rows(self) -> &'static [Row] {
        match self {
            Paper::Zcp => zcp::ROWS,
            Paper::Ramp => ramp::ROWS,
            Paper::Mex => mex::ROWS,
        }
    }
}

impl Here {
    pub fn word(self) -> &'static str {
        match self {
            Here::Have { .. } => "have",
            Here::NotBuilt { .. } => "not to be built",
        }
    }

    pub fn command(self) -> Option<&'static str> {
        match self {
            Here::Have { command } => Some(command),
            Here::NotBuilt { .. } => None,
        }
    }

    /// Why nothing will measure it.
    pub fn remark(self) -> Option<&'static str> {
        match self {
            Here::Have { .. } => None,
            Here::NotBuilt { why } => Some(why),
        }
    }
}

/// A row and its paper, by its id in letters of any case.
pub fn row(id: &str) -> Option<(Paper, &'static Row)> {
    let mut all = Paper::ALL
        .into_iter()
        .flat_map(|paper| paper.rows().iter().map(move |row| (paper, row)));
    all.find(|(_, row)| row.id.eq_ignore_ascii_case(id))
}

/// The part of docs/lab.md that the rows and checks are.
pub fn markdown() -> String {
    let mut lines = Vec::new();
    for paper in Paper::ALL {
        lines.push(format!("### {}\n", paper.title()));
        lines.push(format!("{}\n", paper.setting()));
        lines.push("| | what was measured or claimed | here |\n|---|---|---|".to_owned());
        for row in paper.rows() {
            let command = row.here.command().map(|command| format!("`{command}`"));
            let remark = row.here.remark();
            let here = match row.here {
                Here::Have { .. } => command.unwrap_or_default(),
                Here::NotBuilt { .. } => {
                    format!("{}: {}", row.here.word(), remark.unwrap_or_default())
                }
            };
            lines.push(format!("| {} | {} | {here} |", row.id, row.what));
        }
        lines.push(String::new());
    }
    lines.push("### Checks\n".to_owned());
    lines.push(
        "| row | check | published | expected here | the paper's claim |\n|---|---|---|---|---|"
            .to_owned(),
    );
    for check in checks() {
        lines.push(format!(
            "| {} | {} | {} | {} | {} |",
            check.row,
            check.claim,
            check.published,
            check.expected(),
            check.must.sentence()
        ));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Lab;
    use clap::CommandFactory;

    #[test]
    fn every_row_of_the_papers_is_there_once() {
        for (paper, letter, count) in [
            (Paper::Zcp, 'Z', 28),
            (Paper::Ramp, 'R', 28),
            (Paper::Mex, 'M', 31),
        ] {
            let ids: Vec<String> = paper.rows().iter().map(|row| row.id.to_owned()).collect();
            let wanted: Vec<String> = (1..=count)
                .map(|number| format!("{letter}{number}"))
                .collect();
            assert_eq!(ids, wanted);
        }
        assert_eq!(
            row("r22").map(|(paper, row)| (paper, row.id)),
            Some((Paper::Ramp, "R22"))
        );
        assert!(row("R29").is_none());
    }

    /// A row's command is understood as it is typed.
    #[test]
    fn every_command_of_a_row_exists() {
        for row in Paper::ALL.into_iter().flat_map(Paper::rows) {
            let Some(command) = row.here.command() else {
                continue;
            };
            let Some(words) = command.strip_prefix("logberg-lab ") else {
                let elsewhere = ["logberg bench ", "cargo run --release -p logberg-paxos "];
                assert!(
                    elsewhere.iter().any(|begin| command.starts_with(begin)),
                    "{command}"
                );
                continue;
            };
            let words = std::iter::once("logberg-lab").chain(words.split(' '));
            let parsed = Lab::command().try_get_matches_from(words);
            assert!(
                parsed.is_ok(),
                "{}: {command}: {}",
                row.id,
                parsed.unwrap_err()
            );
        }
    }

    #[test]
    fn every_check_is_of_a_row_and_can_come_out_either_way() {
        for check in checks() {
            assert!(row(check.row).is_some(), "{}", check.row);
            assert!(check.low < check.high, "{}: {}", check.row, check.claim);
        }
    }

    #[test]
    fn the_page_is_made_of_the_catalogue() {
        let page = include_str!("../../../../../docs/lab.md");
        let (_, rest) = page
            .split_once("<!-- catalogue -->\n")
            .expect("its beginning");
        let (shown, _) = rest
            .split_once("<!-- end of the catalogue -->")
            .expect("its end");
        assert!(
            shown.trim() == markdown().trim(),
            "print it anew with: logberg-lab list --markdown"
        );
    }
}
