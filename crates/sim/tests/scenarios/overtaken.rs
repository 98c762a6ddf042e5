//! A new leader holds a later wish, does not know yet that it is chosen, and acts by the one before: what it
//! proposes comes behind the later wish, and has no effect.
//!
//! ```text
//!   the leader that died    … narrow ……………… bytes, forever (chosen)
//!   the next one            … narrow ……………… bytes, forever (held), trim by narrow
//! ```

use replica::LogView;

use crate::stage::{LOG, SECOND, Stage, done};

/// Asked until it is granted.
fn granted(stage: &mut Stage, request: &str) {
    let answer = done(stage, request);
    assert!(answer.starts_with("ok "), "{request}: {answer}");
}

fn wish_of(view: &LogView<'_>) -> u64 {
    view.state.wish.as_ref().map_or(0, |wish| wish.number.count)
}

/// Asks for something that the log chooses, and runs to the step at which its leader knows that and nobody
/// else does; then the power of all three is gone. Two come back, one leads, and the other's disk takes
/// nothing for a while. True if the one that leads knew of the earlier wish only when it began.
fn overtake(stage: &mut Stage, request: &str) -> bool {
    let (leader, others) = stage.roles();
    let look = stage.look();
    let before = wish_of(&look.view_of(leader, LOG).expect("it leads"));
    let directs = (0..3).find(|index| {
        let view = look.view_of(*index, node::directory::DIRECTORY_NAME);
        view.is_some_and(|view| matches!(view.role, paxos::Role::Leader { .. }))
    });
    let _asked = stage.call(directs.unwrap_or(leader), request);
    stage.wait("the leader to know it chosen", |look| {
        let view = look.view_of(leader, LOG);
        view.is_some_and(|view| wish_of(&view) > before)
    });
    for index in 0..3 {
        stage.cut_power(index);
    }
    for index in [others[0], others[1]] {
        stage.restart(index);
    }
    stage.wait("another leader", |look| look.leader().is_some());
    let next = stage.look().leader().expect("just seen");
    let other = others[0] + others[1] - next;
    let host = stage.nodes[other];
    stage.world.hang_disk(host);
    let look = stage.look();
    let knows = wish_of(&look.view_of(next, LOG).expect("it leads"));
    stage.pass(2 * SECOND);
    stage.world.release_disk(host);
    stage.pass(2 * SECOND);
    stage.restart(leader);
    stage.wait("all three", |look| {
        let wishes = (0..3).map(|index| look.view_of(index, LOG).map(|view| wish_of(&view)));
        wishes.into_iter().all(|wish| wish > Some(before))
    });
    stage.pass(5 * SECOND);
    knows == before
}

/// The forgotten part of the output, by the node that knows most.
fn forgotten(stage: &Stage) -> u64 {
    let look = stage.look();
    let views = (0..3).filter_map(|index| look.view_of(index, LOG));
    let of = |view: LogView<'_>| {
        let streams = view.state.streams.iter();
        let forgotten = streams.map(|stream| stream.trimmed.0);
        forgotten.sum::<u64>()
    };
    views.map(of).max().unwrap_or_default()
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_retention_that_a_later_wish_overtook_trims_nothing() {
    let mut overtaken = 0;
    for seed in 0..16 {
        let mut stage = Stage::three(seed);
        granted(&mut stage, &format!("retain {LOG} retention=20kB"));
        stage.pass(SECOND);
        let leader = stage.leader();
        let mut writer = stage.open(leader, &format!("append {LOG}"));
        stage.say_and_wait(&mut writer, 100_000);
        let before = forgotten(&stage);
        let held = overtake(&mut stage, &format!("retain {LOG} retention=forever"));
        let after = forgotten(&stage);
        // It was trimmed while that was wanted.
        if held && before == 0 {
            overtaken += 1;
            assert_eq!(after, 0, "seed {seed}: all of it was to stay for ever");
        }
    }
    println!("overtaken: {overtaken} of 16");
    assert!(overtaken > 0);
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_step_of_weights_that_a_later_wish_overtook_is_not_taken() {
    let mut overtaken = 0;
    for seed in 0..16 {
        let mut stage = Stage::three(seed);
        let fourth = stage.add_node();
        stage.wait("it to be one of them", |look| {
            let node = look.node(fourth);
            node.is_some_and(|node| node.id().0 > 0) && look.view_of(fourth, LOG).is_some()
        });
        let id = stage.look().node(fourth).expect("it runs").id();
        stage.pass(SECOND);
        let leader = stage.leader();
        let mut writer = stage.open(leader, &format!("append {LOG}"));
        stage.say_and_wait(&mut writer, 20_000);
        stage.pass(SECOND);
        // A silent node is given no weight.
        stage.cut_both(leader, fourth);
        stage.pass(3 * SECOND);
        let weight = format!("change-members weight {}", id.0);
        granted(&mut stage, &format!("{weight} 1 log={LOG} force=1"));
        let era = |stage: &Stage| (0..3).filter_map(|index| stage.look().era(index)).max();
        let before = era(&stage);
        if overtake(&mut stage, &format!("{weight} 0 log={LOG} force=1")) {
            overtaken += 1;
            assert_eq!(era(&stage), before, "seed {seed}: nobody wants a step");
        }
    }
    println!("overtaken: {overtaken} of 16");
    assert!(overtaken > 0);
}
