//! A scenario written down: what a seed drew, or what was left of it after shrinking.
//!
//! A script says everything, so that it stays what it was when seeds draw something else. The code
//! it runs changes all the same, and with it what happens in which order: a script that showed a
//! mistake need not show it again after unrelated changes.

use thiserror::Error;

use super::Violation;
use crate::scenario::Scenario;

/// Why a text is no script.
#[derive(Debug, Error)]
#[error("not a script of the simulator: {0}")]
pub struct NoScript(#[from] toml::de::Error);

/// As TOML, with what it showed as a comment.
pub fn write(scenario: &Scenario, shows: Option<&Violation>) -> String {
    let mut text = String::new();
    if let Some(violation) = shows {
        for line in violation.to_string().lines().take(COMMENT_LINES_MAX) {
            text.push_str(&format!("# {line}\n"));
        }
    }
    text + &toml::to_string(scenario).expect("a scenario is tables of numbers and names")
}

pub fn read(text: &str) -> Result<Scenario, NoScript> {
    Ok(toml::from_str(text)?)
}

const COMMENT_LINES_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        for seed in 0..50 {
            let mut scenario = super::super::draw(seed);
            if seed % 2 == 0 {
                scenario.swarm.only_turns = Some([1, seed].into());
                scenario.harm_steps_max = Some(5);
            }
            assert_eq!(read(&write(&scenario, None)).unwrap(), scenario);
        }
        assert!(read("seed = 1\nrain = true\n").is_err());
    }
}
