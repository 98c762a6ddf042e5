//! States that find no room on their disks, or are nowhere any more: nodes say so, and go on when they can.

use node::health::{self, Code};
use shelf::Media;

use crate::hosts::Theatre;
use crate::stage::{MS, SECOND};

/// A disk takes no more of a follower's state. It applies what its memory bears, says so, and goes on once there is room.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_state_whose_disk_is_full_says_so_until_it_goes_on() {
    let mut theatre = Theatre::three(13);
    let leader = theatre.leader().expect("somebody leads");
    let follower = (leader + 1) % 3;
    let is_told = |theatre: &Theatre| {
        let look = theatre.stage.look();
        let (_, warnings) = look.node(follower).expect("it runs").warnings();
        let codes = warnings.into_iter().map(|(code, _, _)| code);
        codes.into_iter().any(|code| code == Code::StateHalted)
    };
    theatre.models[follower].each(|media| media.fill(true));
    for _ in 0..400 {
        theatre.ask(leader);
        theatre.pass(MS);
    }
    theatre.pass(12 * SECOND);
    assert!(is_told(&theatre));
    theatre.models[follower].each(|media| media.fill(false));
    theatre.pass(30 * SECOND);
    assert!(!is_told(&theatre));
    theatre.judge(13);
}

/// All states of a trimmed log are gone: nothing of it is served, and each node says why.
#[cfg_attr(not(feature = "mutations"), test)]
fn states_that_are_lost_everywhere_are_said_to_be() {
    let mut theatre = Theatre::three(17);
    let leader = theatre.leader().expect("somebody leads");
    let says = |theatre: &Theatre, index: usize| {
        let look = theatre.stage.look();
        let (state, warnings) = look.node(index).expect("it runs").warnings();
        let mut codes = warnings.into_iter().map(|(code, _, _)| code);
        (state, codes.any(|code| code == Code::StateLost))
    };
    theatre.ask_for_days(leader);
    for index in 0..3 {
        theatre.crash(index);
        theatre.models[index].each(Media::clear);
    }
    for index in 0..3 {
        theatre.stage.restart(index);
    }
    theatre.pass(5 * SECOND);
    assert!(
        (0..3).all(|index| !says(&theatre, index).1),
        "they just began"
    );
    theatre.pass(15 * SECOND);
    for index in 0..3 {
        assert_eq!(says(&theatre, index), (health::State::Unavailable, true));
    }
}

/// A state is lost, and its disk has no room for the beginning of another. It begins once there is room, by a copy where the log was
/// trimmed.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_state_that_finds_no_room_to_begin_says_so_and_begins_later() {
    let mut theatre = Theatre::three(16);
    let leader = theatre.leader().expect("somebody leads");
    let follower = (leader + 1) % 3;
    let is_told = |theatre: &Theatre| {
        let look = theatre.stage.look();
        let (_, warnings) = look.node(follower).expect("it runs").warnings();
        let codes = warnings.into_iter().map(|(code, _, _)| code);
        codes.into_iter().any(|code| code == Code::StateHalted)
    };
    theatre.ask_for_days(leader);
    theatre.crash(follower);
    theatre.models[follower].each(Media::clear);
    theatre.models[follower].each(|media| media.fill(true));
    theatre.stage.restart(follower);
    theatre.pass(5 * SECOND);
    assert!(is_told(&theatre));
    theatre.models[follower].each(|media| media.fill(false));
    theatre.pass(30 * SECOND);
    assert!(!is_told(&theatre));
    theatre.shelf(follower).expect("it is whole again");
    theatre.judge(16);
}

/// A disk takes no more of the leader's state. Another node leads, whose disk does.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_leader_whose_states_disk_is_full_hands_over() {
    let mut theatre = Theatre::three(14);
    let leader = theatre.leader().expect("somebody leads");
    theatre.models[leader].each(|media| media.fill(true));
    for _ in 0..400 {
        theatre.ask(leader);
        theatre.pass(MS);
    }
    theatre.pass(12 * SECOND);
    let next = theatre.leader().expect("somebody leads");
    assert_ne!(next, leader);
    let added = theatre.told.lock().unwrap().added.len();
    for _ in 0..100 {
        theatre.ask(next);
        theatre.pass(MS);
    }
    theatre.pass(SECOND);
    assert!(theatre.told.lock().unwrap().added.len() > added + 20);
    theatre.models[leader].each(|media| media.fill(false));
    theatre.pass(30 * SECOND);
    theatre.judge(14);
}
