//! `logberg leader`: showing the leader of each log, and moving it.

use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use client::Client;
use client::leader::Moved;

use crate::global::Global;
use terminal::show;

mod balance;

use balance::Move;

/// Show who leads which log, move a leader, spread them over the nodes
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: LeaderCommand,
}

#[derive(Debug, Subcommand)]
enum LeaderCommand {
    /// Show who leads which log
    #[command(after_help = "Example:\n  logberg leader show --json")]
    Show,
    /// Let another node lead a log
    #[command(after_help = "\
The leader stops taking appends, waits until its successor holds everything, and hands over; writers go on
there by themselves. Without --to the most suitable node is taken. A node that is silent, far behind,
auxiliary or no member is refused (exit code 4; 5 if there is no such node), and nothing is changed.
The pause is what the old leader saw of it.

Examples:
  logberg leader move main --to 3
  logberg leader move main")]
    Move {
        #[arg(value_name = "LOG")]
        log: String,
        /// The node that is to lead
        #[arg(long, value_name = "ID")]
        to: Option<u64>,
    },
    /// Spread the leaders of all logs over the nodes that can lead
    #[command(after_help = "\
Each node leads as many logs as the others, or more in proportion to its weight. Moves as few as possible,
one after the other; where all is even nothing moves. The directory counts for next to nothing.

Examples:
  logberg leader balance --plan
  logberg leader balance")]
    Balance {
        /// Say what would be moved, and do nothing
        #[arg(long)]
        plan: bool,
    },
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            LeaderCommand::Show => show_leaders(&client, global.json),
            LeaderCommand::Move { log, to } => {
                let moved = client.move_leader(&log, to)?;
                match global.json {
                    true => show::print_json(&moved),
                    false => show::print(sentence(&moved)),
                }
            }
            LeaderCommand::Balance { plan } => balance(&client, plan, global.json),
        }
    }
}

fn sentence(moved: &Moved) -> String {
    let pause = match moved.pause_ms {
        Some(ms) => format!(", after a pause of {ms:.1} ms"),
        None => String::new(),
    };
    format!("node {} leads {}{pause}", moved.to, moved.log)
}

fn show_leaders(client: &Client, json: bool) -> Result<()> {
    let leaders = client.leaders()?;
    if json {
        return show::print_json(&leaders);
    }
    let mut table = show::table(&["LOG", "LEADER", "TERM", "WEIGHT"]);
    for log in leaders {
        let leader = log
            .leader
            .map_or("none".to_owned(), |node| node.to_string());
        table.add_row([
            log.log.into(),
            show::number(leader),
            log.term.into(),
            show::number(log.weight),
        ]);
    }
    show::print(show::lines(&table))
}

fn balance(client: &Client, plan: bool, json: bool) -> Result<()> {
    let moves = balance::plan(&client.leaders()?);
    if plan {
        return match json {
            true => show::print_json(&moves),
            false => show::print(planned(&moves)),
        };
    }
    let mut done = Vec::new();
    for (index, Move { log, to, .. }) in moves.iter().enumerate() {
        if index > 0 {
            std::thread::sleep(BETWEEN_MOVES);
        }
        let moved = client.move_leader(log, Some(*to))?;
        if !json {
            show::print(sentence(&moved))?;
        }
        done.push(moved);
    }
    match json {
        true => show::print_json(&done),
        false if done.is_empty() => show::print(planned(&moves)),
        false => Ok(()),
    }
}

/// The writers of one log have found their new leader before those of the next look for theirs.
const BETWEEN_MOVES: Duration = Duration::from_millis(100);

fn planned(moves: &[Move]) -> String {
    let lines = moves.iter().map(|m| {
        let Move { log, from, to } = m;
        format!("{log} would move from node {from} to node {to}")
    });
    match moves {
        [] => "the leaders are spread evenly; nothing to move".to_owned(),
        _ => lines.collect::<Vec<_>>().join("\n"),
    }
}
