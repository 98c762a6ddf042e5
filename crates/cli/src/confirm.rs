//! Acts that nobody can take back: they are said first, and done where somebody says yes.

use std::io::{self, IsTerminal};

use anyhow::Result;
use terminal::exit::Failure;

/// Asks on a terminal; elsewhere `--yes` is asked for. `what`: the act, as a sentence without its end.
///
/// Errors: nobody said yes; nothing was done.
pub fn confirmed(what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        let sentence = format!("{what}: say --yes if that is meant; nothing was done");
        return Err(Failure::usage(sentence).into());
    }
    eprint!("{what}. Go on? [y/N] ");
    let mut typed = String::new();
    io::stdin().read_line(&mut typed)?;
    match typed.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::usage("nothing was done".to_owned()).into()),
    }
}
