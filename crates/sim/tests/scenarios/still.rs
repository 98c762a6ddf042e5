//! Hosts that stand still while their node goes on: another node leads.

use std::time::Duration;

use ops::Lane;

use crate::hosts::Theatre;
use crate::stage::{MS, SECOND};

/// The lane of a host on which frames are applied.
const APPLY: Lane = Lane(3);
/// Longer than anybody waits here.
const STILL: Duration = Duration::from_secs(60);

/// Whoever leads is asked for so long. Returns the number of additions that were answered.
fn ask_the_leader(theatre: &mut Theatre, duration: Duration) -> usize {
    let before = theatre.told.lock().unwrap().added.len();
    let until = theatre.stage.world.now() + duration;
    while theatre.stage.world.now() < until {
        if let Some(leader) = theatre.leader() {
            theatre.ask(leader);
        }
        theatre.pass(20 * MS);
    }
    theatre.told.lock().unwrap().added.len() - before
}

/// Something of the leader's host stands still. After a while another node leads, and answers; in the end nothing is lost.
fn another_leads(seed: u64, after: Duration, stand_still: impl FnOnce(&mut Theatre, usize)) {
    let mut theatre = Theatre::three(seed);
    let leader = theatre.leader().expect("somebody leads");
    assert!(
        ask_the_leader(&mut theatre, SECOND) > 3,
        "seed {seed}: it answers"
    );
    stand_still(&mut theatre, leader);
    ask_the_leader(&mut theatre, after);
    let next = theatre.leader();
    assert!(
        next.is_some_and(|next| next != leader),
        "seed {seed}: {leader} led, and now {next:?}"
    );
    let answered = ask_the_leader(&mut theatre, 2 * SECOND);
    assert!(answered > 10, "seed {seed}: {answered} were answered");
    theatre.pass(STILL);
    ask_the_leader(&mut theatre, 4 * SECOND);
    theatre.pass(10 * SECOND);
    theatre.judge(seed);
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_leader_whose_host_stands_still_hands_over() {
    for seed in 0..4 {
        another_leads(seed, 6 * SECOND, |theatre, leader| {
            let host = theatre.hosts[leader];
            theatre.stage.world.pause(host, STILL);
        });
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_leader_whose_shelf_takes_nothing_hands_over() {
    for seed in 0..4 {
        another_leads(seed, 9 * SECOND, |theatre, leader| {
            let host = theatre.hosts[leader];
            theatre.stage.world.hold_lane(host, APPLY, STILL);
        });
    }
}
