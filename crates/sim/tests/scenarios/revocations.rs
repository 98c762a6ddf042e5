//! Drawn worlds in which one of several credentials is revoked while a node is cut off, and perhaps starts again meanwhile.

use access::Token;

use crate::certificates::{Comes, NEVER, bind};
use crate::stage::{LOG, SECOND, Stage};
use crate::tickets_shown::Backend;
use crate::tokens::{By, answer, answered, ask_for_tokens, code, guarded, put, token};

/// A small generator: the same worlds each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

/// One that shows something.
enum Shows<'a> {
    Bearer(By<'a>),
    Certificate(Comes<'a>),
}

fn told(stage: &mut Stage, index: usize, shows: &Shows<'_>, request: &str) -> String {
    match shows {
        Shows::Bearer(by) => answer(stage, index, *by, request),
        Shows::Certificate(comes) => {
            let caller = crate::certificates::ask(stage, index, comes, request);
            stage.wait("an answer", |_| caller.is_over() || caller.is_open());
            String::from_utf8_lossy(&caller.heard()).into_owned()
        }
    }
}

fn is_unknowing(text: &str) -> bool {
    ["no-quorum", "not-leader"].contains(&code(text))
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_is_revoked_while_a_node_is_cut_off_is_refused_there_once_it_hears() {
    for seed in 50..62 {
        let mut draw = Draw(seed);
        let (mut stage, root) = guarded(seed);
        let by_root = By::Token(&root);
        let backend = Backend::of(&mut stage, by_root, "read on log/main");
        let ticket = backend.ticket(1, "read on log/main", 7_200);
        let ci = token("ci", 2);
        put(&mut stage, by_root, &ci, "read on log/main");
        bind(&mut stage, by_root, "alice", "read on log/main");
        let all = [
            Shows::Bearer(By::Token(&ci)),
            Shows::Certificate(Comes::Client("alice", NEVER)),
            Shows::Bearer(By::Ticket(&ticket)),
        ];
        let read = format!("read {LOG} stale=1");
        for index in 0..3 {
            for shows in &all {
                let text = told(&mut stage, index, shows, &read);
                assert!(
                    code(&text).is_empty() || is_unknowing(&text),
                    "seed {seed}: {text}"
                );
            }
        }
        let chosen = usize::try_from(draw.below(3)).expect("few");
        let revoke = [
            "revoke-token ci",
            "revoke-token alice",
            "remove-issuer backend",
        ][chosen];
        let index = usize::try_from(draw.below(3)).expect("few");
        let starts_again = draw.below(2) == 1;
        stage.isolate(index);
        if starts_again {
            stage.crash(index);
            stage.pass(SECOND * u32::try_from(1 + draw.below(20)).expect("few"));
        }
        let revoked = by_others(&mut stage, index, by_root, revoke);
        assert!(revoked.starts_with("ok "), "seed {seed}: {revoked}");
        if starts_again {
            stage.restart(index);
        }
        let text = told(&mut stage, index, &all[chosen], &read);
        match starts_again {
            // ‡ Its disk has last week's list.
            true => assert!(
                is_unknowing(&text),
                "seed {seed}: served by an old list: {text}"
            ),
            // It goes by its old list, and does not deny what it does not know of.
            false => assert!(code(&text).is_empty() || is_unknowing(&text), "{text}"),
        }
        // `--wait` asks just this, and names that node.
        let who = answer(&mut stage, index, by_root, "whoami");
        assert!(
            is_unknowing(&who),
            "seed {seed}: it cannot have heard: {who}"
        );
        stage.world.heal_all();
        stage.wait_whole(3);
        for index in 0..3 {
            let who = answered(&mut stage, index, by_root, "whoami");
            assert!(who.starts_with("ok "), "seed {seed}: {who}");
            for (number, shows) in all.iter().enumerate() {
                let text = told(&mut stage, index, shows, &read);
                match number == chosen {
                    true => assert_eq!(code(&text), "unauthenticated", "seed {seed}: {text}"),
                    false => assert_eq!(code(&text), "", "seed {seed}: {text}"),
                }
            }
        }
    }
}

/// Asked of all but that one, until somebody does it.
fn by_others(stage: &mut Stage, but: usize, by: By<'_>, request: &str) -> String {
    for _ in 0..300 {
        for index in (0..3).filter(|index| *index != but) {
            let text = answer(stage, index, by, request);
            if !is_unknowing(&text) {
                return text;
            }
        }
        stage.pass(SECOND / 10);
    }
    panic!("nobody does {request}");
}

/// The read that asks nobody, which that node serves for now.
fn reads_stale(stage: &mut Stage, index: usize, token: &Token) -> String {
    let read = format!("read {LOG} stale=1");
    let text = answered(stage, index, By::Token(token), &read);
    assert_eq!(code(&text), "", "{text}");
    read
}

/// ‡ Such a read asks nobody, so what was revoked meanwhile would read there for ever.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_that_is_cut_off_for_a_minute_takes_no_new_reads_that_ask_nobody() {
    let (mut stage, root) = guarded(71);
    let by_root = By::Token(&root);
    let ci = token("ci", 2);
    put(&mut stage, by_root, &ci, "read on log/main");
    let (_, others) = stage.roles();
    let index = others[0];
    let read = reads_stale(&mut stage, index, &ci);
    stage.isolate(index);
    stage.pass(40 * SECOND);
    let text = answer(&mut stage, index, By::Token(&ci), &read);
    assert_eq!(code(&text), "", "less than a minute: {text}");
    stage.pass(30 * SECOND);
    let text = answer(&mut stage, index, By::Token(&ci), &read);
    assert_eq!(
        code(&text),
        "no-quorum",
        "it reads on what may be revoked: {text}"
    );
    for request in [format!("streams {LOG} stale=1"), "logs stale=1".to_owned()] {
        let text = answer(&mut stage, index, By::Token(&ci), &request);
        assert_eq!(code(&text), "no-quorum", "{request}: {text}");
    }
    let text = answer(&mut stage, index, By::Socket, &read);
    assert_eq!(code(&text), "", "whoever may read the disk may: {text}");
    stage.world.heal_all();
    stage.wait_whole(3);
    let text = answered(&mut stage, index, By::Token(&ci), &read);
    assert_eq!(code(&text), "", "{text}");
}

/// ‡ Nodes without a vote in log 0 know no more than this one does of what is agreed there.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_beside_others_that_do_not_vote_is_cut_off_all_the_same() {
    let mut stage = Stage::three(72);
    for _ in 0..2 {
        stage.add_node();
    }
    // One that asks to join once more, since it did not hear the answer, would need a token.
    stage.wait("the two to have joined", |look| {
        (3..5).all(|index| look.view_of(index, LOG).is_some())
    });
    let root = ask_for_tokens(&mut stage);
    let ci = token("ci", 2);
    put(&mut stage, By::Token(&root), &ci, "read on log/main");
    let (leader, others) = stage.roles();
    assert!(leader < 3, "one of those that vote leads");
    let index = others.into_iter().find(|other| *other < 3);
    let index = index.expect("it follows");
    let read = reads_stale(&mut stage, index, &ci);
    for voter in (0..3).filter(|voter| *voter != index) {
        for other in [index, 3, 4] {
            stage.cut_both(voter, other);
        }
    }
    stage.pass(80 * SECOND);
    let text = answer(&mut stage, index, By::Token(&ci), &read);
    assert_eq!(code(&text), "no-quorum", "{text}");
}

/// ‡ Others are forgiven what they did not say to a process that stood still; what it knows is as old as it is.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_that_stood_still_asks_before_it_serves_what_asks_nobody() {
    for (seed, still, silent) in [(73, 80, 0), (74, 40, 30)] {
        let (mut stage, root) = guarded(seed);
        let ci = token("ci", 2);
        put(&mut stage, By::Token(&root), &ci, "read on log/main");
        let (_, others) = stage.roles();
        let index = others[0];
        let read = reads_stale(&mut stage, index, &ci);
        stage.isolate(index);
        stage.world.pause(stage.host_of(index), still * SECOND);
        stage.pass((still + silent) * SECOND + SECOND);
        let text = answer(&mut stage, index, By::Token(&ci), &read);
        assert!(is_unknowing(&text), "{still} s and {silent} s: {text}");
    }
}
