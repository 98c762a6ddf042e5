//! Clients' certificates: what is granted to their names, and for how long. And nodes that say whose they were shown.

use ops::ClientCertificate;

use crate::caller::Caller;
use crate::stage::{LOG, SECOND, Stage};
use crate::tokens::{By, answered, code, done, guarded, made_ms, token};

/// A node that says whose certificate it was shown.
pub struct Node<'a> {
    /// The name in its own one.
    shown: &'a str,
    says: &'a str,
}

/// The caller, by the handshake.
pub enum Comes<'a> {
    Client(&'a str, u64),
    Node(Node<'a>),
    /// Somebody who says what nodes say.
    Nobody(&'a str),
}

pub fn ask(stage: &mut Stage, index: usize, comes: &Comes<'_>, request: &str) -> Caller {
    let caller = stage.dial(index);
    let network = stage.world.network();
    let line = match comes {
        Comes::Client(name, until_ms) => {
            let (name, until_ms) = ((*name).to_owned(), *until_ms);
            let certificate = ClientCertificate { name, until_ms };
            network.clients.insert(caller.host, certificate);
            String::new()
        }
        Comes::Node(Node { shown, says }) => {
            let shown = (*shown).to_owned();
            network.certificates.insert(caller.host, shown);
            (*says).to_owned()
        }
        Comes::Nobody(says) => (*says).to_owned(),
    };
    let line = format!("{line}logberg/1 {request}\n");
    caller.send(&mut stage.world, line.as_bytes());
    caller
}

pub fn said(stage: &mut Stage, index: usize, comes: &Comes<'_>, request: &str) -> String {
    for _ in 0..100 {
        let caller = ask(stage, index, comes, request);
        stage.wait("an answer", |_| caller.is_over() || caller.is_open());
        let text = String::from_utf8_lossy(&caller.heard()).into_owned();
        if !["not-leader", "no-quorum"].contains(&code(&text)) {
            return text;
        }
        stage.pass(SECOND / 10);
    }
    panic!("node {} does not answer {request}", index + 1);
}

pub fn bind(stage: &mut Stage, by: By<'_>, name: &str, grants: &str) {
    let grants = wire::encode(grants);
    let bound = done(
        stage,
        by,
        &format!("put-token {name} certificate=1 grants={grants}"),
    );
    assert!(bound.contains("\"by_certificate\":true"), "{bound}");
}

pub const NEVER: u64 = u64::MAX;
const FOLLOW: &str = "follow=1 format=framed";

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_certificate_is_nobodys_until_its_name_is_bound_and_again_once_it_has_ended() {
    let (mut stage, root) = guarded(21);
    let by_root = By::Token(&root);
    let (leader, others) = stage.roles();
    let made_ms = made_ms(&mut stage, by_root);
    let alice = Comes::Client("alice", NEVER);
    let read = format!("read {LOG} stale=1");
    let refused = said(&mut stage, leader, &alice, &read);
    assert_eq!(code(&refused), "unauthenticated", "{refused}");
    assert!(refused.contains("bind-certificate alice"), "{refused}");
    let who = said(&mut stage, leader, &alice, "whoami");
    assert!(
        who.contains("\"principal\":\"anonymous\",\"certificate\":\"alice\""),
        "{who}"
    );
    bind(&mut stage, by_root, "alice", "read,append on log/main");
    // ‡ Also at a node that has not heard of it yet: that asks before it refuses.
    for index in 0..3 {
        let who = said(&mut stage, index, &alice, "whoami");
        assert!(who.contains("\"principal\":\"certificate alice\""), "{who}");
        let text = said(&mut stage, index, &alice, "status");
        assert!(text.starts_with("ok "), "what it may see of it: {text}");
        let text = said(
            &mut stage,
            index,
            &alice,
            &format!("trim {LOG} before=@0 plan=1"),
        );
        assert_eq!(code(&text), "forbidden", "{text}");
    }
    // Two that follow, of which one certificate ends in a minute; and a writer.
    let follow = format!("read {LOG} {FOLLOW}");
    let mut writer = ask(&mut stage, leader, &alice, &format!("append {LOG}"));
    stage.wait("the stream to open", |_| writer.is_open());
    stage.say_and_wait(&mut writer, 100);
    let goes_on = ask(&mut stage, others[0], &alice, &follow);
    let ends = Comes::Client("alice", made_ms + 60_000);
    let ended = ask(&mut stage, others[0], &ends, &follow);
    stage.wait("both to read", |_| {
        ended.heard().len() > 100 && goes_on.heard().len() > 100
    });
    stage.pass(70 * SECOND);
    let text = String::from_utf8_lossy(&ended.heard()).into_owned();
    assert!(
        ended.is_over(),
        "a reader goes on though its certificate has ended"
    );
    assert!(text.contains("certificate alice has expired"), "{text}");
    assert!(!goes_on.is_over(), "the other one holds still");
    let late = said(&mut stage, leader, &ends, &read);
    assert_eq!(code(&late), "unauthenticated", "{late}");
    // A renewed one is the same client's.
    let renewed = said(
        &mut stage,
        leader,
        &Comes::Client("alice", NEVER - 1),
        &read,
    );
    assert_ne!(code(&renewed), "unauthenticated", "{renewed}");
    let revoked = done(&mut stage, by_root, "revoke-token alice");
    assert!(revoked.starts_with("ok "), "{revoked}");
    stage.wait_within(5 * SECOND, "the writer and the reader to be ended", |_| {
        writer.is_over() && goes_on.is_over()
    });
    assert_eq!(writer.acknowledged(), 100, "what was acknowledged stays");
    let audit = done(&mut stage, by_root, "audit");
    assert!(audit.contains("the certificate alice: "), "{audit}");
}

/// ‡ What a door was shown it says to other nodes, which believe nodes alone: those whose name is bound now.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn whose_certificate_was_shown_is_believed_of_nodes_that_are_members_alone() {
    let mut stage = Stage::named(22);
    let root = token("root", 1);
    crate::tokens::put(&mut stage, By::Socket, &root, "all on *");
    let by_root = By::Token(&root);
    done(&mut stage, by_root, "set-auth on");
    bind(&mut stage, by_root, "alice", "read on log/main");
    let says = wire::auth::certificate_line("alice", NEVER);
    let of_a_node = |shown| {
        let says = says.as_str();
        Comes::Node(Node { shown, says })
    };
    let (read, trim) = (
        format!("read {LOG} stale=1"),
        format!("trim {LOG} before=@0 plan=1"),
    );
    for index in 0..3 {
        let who = said(&mut stage, index, &of_a_node("node2"), "whoami");
        assert!(who.contains("\"principal\":\"certificate alice\""), "{who}");
        let text = said(&mut stage, index, &of_a_node("node2"), &trim);
        assert_eq!(
            code(&text),
            "forbidden",
            "a node asks for no more than its client may: {text}"
        );
        for stranger in [of_a_node("node9"), Comes::Nobody(&says)] {
            let text = said(&mut stage, index, &stranger, &read);
            assert_eq!(code(&text), "unauthenticated", "node {}: {text}", index + 1);
        }
        // ‡ Nor of a client by its own certificate.
        let caller = stage.dial(index);
        let certificate = ClientCertificate {
            name: "mallory".to_owned(),
            until_ms: NEVER,
        };
        stage
            .world
            .network()
            .clients
            .insert(caller.host, certificate);
        caller.send(
            &mut stage.world,
            format!("{says}logberg/1 {read}\n").as_bytes(),
        );
        stage.wait("an answer", |_| caller.is_over());
        assert_eq!(code(&caller.text()), "unauthenticated", "{}", caller.text());
        // One whose certificate has ended since he showed it.
        let ended = wire::auth::certificate_line("alice", 1);
        let says = ended.as_str();
        let ended = Comes::Node(Node {
            shown: "node2",
            says,
        });
        let text = said(&mut stage, index, &ended, &read);
        assert_eq!(code(&text), "unauthenticated", "{text}");
    }
    let text = answered(&mut stage, 0, by_root, "audit");
    assert!(text.contains("the certificate alice: "), "{text}");
}

/// ‡ It hands out what it has, and nothing after it was revoked; and a token of its name is no way to it.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_certificate_hands_out_what_was_granted_to_it() {
    let (mut stage, root) = guarded(23);
    let by_root = By::Token(&root);
    bind(
        &mut stage,
        by_root,
        "lead",
        "tokens on cluster\nread on log/a*",
    );
    let lead = Comes::Client("lead", NEVER);
    let (leader, _) = stage.roles();
    let put = |name: &str, grants: &str| {
        let sha256 = crate::tokens::sha256(&token(name, 3));
        format!(
            "put-token {name} sha256={sha256} grants={}",
            wire::encode(grants)
        )
    };
    let mut at = leader;
    let mut lead_says = |stage: &mut Stage, request: &str| loop {
        let caller = ask(stage, at, &lead, request);
        stage.wait("an answer", |_| caller.is_over() || caller.is_open());
        let text = caller.text();
        if !["not-leader", "no-quorum"].contains(&code(&text)) {
            return text;
        }
        at = (at + 1) % 3;
        stage.pass(SECOND / 10);
    };
    let made = lead_says(&mut stage, &put("ab", "read on log/ab"));
    assert!(made.contains("\"by\":\"certificate lead\""), "{made}");
    let more = lead_says(&mut stage, &put("b", "read on log/b"));
    assert_eq!(code(&more), "forbidden", "{more}");
    let same = done(&mut stage, by_root, &put("lead", "all on *"));
    assert_eq!(code(&same), "exists", "{same}");
    let secret = crate::tokens::sha256(&token("lead", 4));
    let rotated = format!("rotate-token lead sha256={secret} overlap=0");
    let rotated = done(&mut stage, by_root, &rotated);
    assert_eq!(code(&rotated), "bad-request", "{rotated}");
    let as_token = answered(&mut stage, leader, By::Token(&token("lead", 4)), "whoami");
    assert_eq!(code(&as_token), "unauthenticated", "{as_token}");
    done(&mut stage, by_root, "revoke-token lead");
    stage.wait("all to have heard", |look| {
        (0..3).all(|index| {
            look.node(index)
                .is_some_and(|node| !node.knows_token("lead"))
        })
    });
    let late = lead_says(&mut stage, &put("ac", "read on log/ac"));
    assert_eq!(code(&late), "unauthenticated", "{late}");
}
