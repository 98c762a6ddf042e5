//! Tokens whose time is over, that were revoked, or that were never what they seem: nobody takes them, and nobody refuses good ones.

use crate::stage::{LOG, MS, SECOND, Stage};
use crate::tokens::{
    By, answer, answered, ask, code, done, guarded, made_ms, put, put_line, token,
};

/// The node that leads log 0, and another.
fn director(stage: &mut Stage, root: By<'_>) -> (usize, usize) {
    for _ in 0..100 {
        for index in 0..3 {
            if answer(stage, index, root, "set-auth on plan=1").starts_with("ok ") {
                return (index, (index + 1) % 3);
            }
        }
        stage.pass(100 * MS);
    }
    panic!("nobody leads log 0");
}

/// Both wait for the same round, so that the leader finds the maker's grants in force when it looks.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_its_maker_lost_before_it_was_applied_is_not_handed_out() {
    let (mut stage, root) = guarded(11);
    let by_root = By::Token(&root);
    for number in 0..6 {
        let lead = token(&format!("lead-{number}"), 20 + number);
        let other = token(&format!("other-{number}"), 60 + number);
        let grants = "tokens on cluster\nappend on log/ci-*";
        let made = put(&mut stage, by_root, &lead, grants);
        assert!(made.starts_with("ok "), "{made}");
        let (leader, _) = director(&mut stage, by_root);
        stage.isolate(leader);
        let revoke = format!("revoke-token {}", lead.name);
        let revoked = ask(&mut stage, leader, by_root, &revoke);
        stage.pass(20 * MS);
        let request = put_line(&other, "append on log/ci-7");
        let handed = ask(&mut stage, leader, By::Token(&lead), &request);
        stage.pass(20 * MS);
        stage.world.heal_all();
        stage.wait("both answers", |_| revoked.is_over() && handed.is_over());
        let text = revoked.text();
        assert!(text.starts_with("ok "), "{text}");
        let text = handed.text();
        assert!(
            text.starts_with("error "),
            "what was lost was handed out: {text}"
        );
        let list = done(&mut stage, by_root, "tokens");
        let is_there = list.contains(&format!("\"name\":\"{}\"", other.name));
        assert!(!is_there, "what was lost was handed out: {list}");
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_token_expires_by_the_later_clock_though_a_node_was_set_back() {
    let (mut stage, root) = guarded(12);
    let by_root = By::Token(&root);
    let (_, index) = director(&mut stage, by_root);
    let host = stage.nodes[index];
    stage.world.set_wall_clock(host, -3_600_000);
    stage.crash(index);
    stage.restart(index);
    stage.wait_whole(3);
    let short = token("short", 2);
    let expires = made_ms(&mut stage, by_root) + 60_000;
    let line = format!(
        "{} expires={expires}",
        put_line(&short, "status on cluster")
    );
    let made = done(&mut stage, by_root, &line);
    assert!(made.starts_with("ok "), "{made}");
    let text = answered(&mut stage, index, By::Token(&short), "status");
    assert!(text.starts_with("ok "), "{text}");
    stage.pass(70 * SECOND);
    // Log 0's time goes on with what is asked of it.
    put(&mut stage, by_root, &token("later", 3), "status on cluster");
    stage.wait("all to have heard", |look| {
        (0..3).all(|index| {
            look.node(index)
                .is_some_and(|node| node.knows_token("later"))
        })
    });
    for index in 0..3 {
        let text = answered(&mut stage, index, By::Token(&short), "status");
        assert_eq!(code(&text), "unauthenticated", "node {}: {text}", index + 1);
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_secret_whose_hash_begins_alike_is_another() {
    let first = |draw: u8| token("ci", draw).secret.hash().to_bytes()[0];
    let pairs = (0..=255).flat_map(|a| (0..a).map(move |b| (a, b)));
    let mut alike = pairs.filter(|(a, b)| first(*a) == first(*b));
    let (good, bad) = alike.next().expect("256 draws have two of them");
    let (mut stage, root) = guarded(13);
    put(
        &mut stage,
        By::Token(&root),
        &token("ci", good),
        "status on cluster",
    );
    for index in 0..3 {
        let text = answered(&mut stage, index, By::Token(&token("ci", good)), "status");
        assert!(text.starts_with("ok "), "{text}");
        let text = answered(&mut stage, index, By::Token(&token("ci", bad)), "status");
        assert_eq!(code(&text), "unauthenticated", "{text}");
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_that_lags_denies_no_token_that_was_just_made() {
    let (mut stage, root) = guarded(14);
    let by_root = By::Token(&root);
    let (_, index) = director(&mut stage, by_root);
    let later = token("later", 2);
    stage.isolate(index);
    let made = put(&mut stage, by_root, &later, "status on cluster");
    assert!(made.starts_with("ok "), "{made}");
    let asks = ask(&mut stage, index, By::Token(&later), "status");
    stage.pass(100 * MS);
    stage.world.heal_all();
    stage.wait("an answer", |_| asks.is_over());
    let text = asks.text();
    let is_honest = text.starts_with("ok ") || ["no-quorum", "not-leader"].contains(&code(&text));
    assert!(is_honest, "{text}");
    let text = answered(&mut stage, index, By::Token(&later), "status");
    assert!(text.starts_with("ok "), "{text}");
}

/// It goes on as long as its node cannot know, and not longer.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_revoked_tokens_reader_goes_on_at_a_node_that_is_cut_off_until_that_hears() {
    let (mut stage, root) = guarded(15);
    let by_root = By::Token(&root);
    let (_, index) = director(&mut stage, by_root);
    let ci = token("ci", 2);
    put(&mut stage, by_root, &ci, "read on log/main");
    let follow = format!("read {LOG} follow=1 format=framed stale=1");
    let reader = ask(&mut stage, index, By::Token(&ci), &follow);
    stage.wait("it to read", |_| !reader.heard().is_empty());
    stage.isolate(index);
    let revoked = done(&mut stage, by_root, "revoke-token ci");
    assert!(revoked.starts_with("ok "), "{revoked}");
    stage.pass(5 * SECOND);
    assert!(
        !reader.is_over(),
        "its node cannot know: docs/security.md says so"
    );
    stage.world.heal_all();
    stage.wait_within(60 * SECOND, "it to hear", |look| {
        look.node(index).is_some_and(|node| !node.knows_token("ci"))
    });
    stage.wait_within(2 * SECOND, "the reader to be ended", |_| reader.is_over());
    let text = String::from_utf8_lossy(&reader.heard()).into_owned();
    assert!(text.contains("error unauthenticated"), "{text}");
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_of_last_week_takes_no_token_that_was_revoked_since() {
    let (mut stage, root) = guarded(16);
    let by_root = By::Token(&root);
    let (_, index) = director(&mut stage, by_root);
    let ci = token("ci", 2);
    put(
        &mut stage,
        by_root,
        &ci,
        "read on log/main\nstatus on cluster",
    );
    stage.wait("all to have heard", |look| {
        (0..3).all(|index| look.node(index).is_some_and(|node| node.knows_token("ci")))
    });
    stage.crash(index);
    stage.pass(600 * SECOND);
    let revoked = done_by_others(&mut stage, index, by_root, "revoke-token ci");
    assert!(revoked.starts_with("ok "), "{revoked}");
    stage.isolate(index);
    stage.restart(index);
    // Its disk has the token still, and nobody tells it otherwise.
    for request in ["status".to_owned(), format!("read {LOG} stale=1")] {
        let text = answer(&mut stage, index, By::Token(&ci), &request);
        let is_refused = ["no-quorum", "not-leader"].contains(&code(&text));
        assert!(is_refused, "{request}: {text}");
    }
    stage.world.heal_all();
    for request in ["status".to_owned(), format!("read {LOG} stale=1")] {
        let text = answered(&mut stage, index, By::Token(&ci), &request);
        assert_eq!(code(&text), "unauthenticated", "{request}: {text}");
    }
}

/// As `done`, while that node does not run.
fn done_by_others(stage: &mut Stage, dead: usize, by: By<'_>, request: &str) -> String {
    for _ in 0..100 {
        for index in (0..3).filter(|index| *index != dead) {
            let text = answer(stage, index, by, request);
            if !["not-leader", "no-quorum"].contains(&code(&text)) {
                return text;
            }
        }
        stage.pass(100 * MS);
    }
    panic!("nobody does {request}");
}

/// They hold hashes, addresses and grants.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn no_grant_shows_the_bytes_of_log_0() {
    let (mut stage, root) = guarded(17);
    let by_root = By::Token(&root);
    let reads = token("reads", 2);
    put(&mut stage, by_root, &reads, "read on log/*");
    for index in 0..3 {
        for by in [by_root, By::Token(&reads)] {
            let text = answered(&mut stage, index, by, "read directory stale=1");
            assert_eq!(code(&text), "forbidden", "{text}");
        }
        let text = answered(
            &mut stage,
            index,
            By::Token(&reads),
            &format!("read {LOG} stale=1"),
        );
        assert_eq!(code(&text), "", "{text}");
    }
}
