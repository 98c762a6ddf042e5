//! A state from another time beside a log.

use crate::hosts::Theatre;
use crate::stage::{MS, SECOND};

/// A follower's state was put there from another time, in which as many frames of the same lengths came to other rows. Its position and
/// its frame's number fit the log, and its last frame does not. It takes nothing, and is made anew. Once it would have been believed: then
/// it led.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_state_of_another_history_is_made_anew() {
    let mut theatre = Theatre::three(21);
    let leader = theatre.leader().expect("somebody leads");
    let victim = (leader + 1) % 3;
    let ask = |theatre: &mut Theatre, index: usize| {
        for _ in 0..100 {
            theatre.ask(index);
            theatre.pass(5 * MS);
        }
    };
    ask(&mut theatre, leader);
    theatre.pass(3 * SECOND);
    theatre.crash(victim);
    theatre.models[victim].each(|media| {
        media.alter(b"zz", b"1");
        media.change_history();
    });
    theatre.witness.expect_findings();
    theatre.stage.restart(victim);
    theatre.pass(5 * SECOND);
    theatre.witness.take_findings();
    ask(&mut theatre, leader);
    theatre.pass(5 * SECOND);
    theatre.judge(21);
}
