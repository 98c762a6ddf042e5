//! Tokens in log 0: they say who may do what, and are asked for at every node's door.

use access::{Secret, Token, TokenName};
use formats::hex;
use wire::Verb;

use crate::caller::Caller;
use crate::stage::{LOG, MS, SECOND, Stage};

/// A token of that name; another `draw` is another secret.
pub fn token(name: &str, draw: u8) -> Token {
    Token {
        name: TokenName::new(name).expect("a name"),
        secret: Secret::new([draw; 32]),
    }
}

pub fn sha256(token: &Token) -> String {
    hex(&token.secret.hash().to_bytes())
}

/// One who asks.
#[derive(Clone, Copy)]
pub enum By<'a> {
    Socket,
    Token(&'a Token),
    Ticket(&'a access::TicketText),
    Nobody,
}

/// Says a request, as that one, and hears what comes.
pub fn ask(stage: &mut Stage, index: usize, by: By<'_>, request: &str) -> Caller {
    let caller = stage.dial(index);
    let shown = match by {
        By::Socket => {
            stage.world.network().owners.insert(caller.host);
            String::new()
        }
        By::Token(token) => wire::auth::line(&token.reveal()),
        By::Ticket(ticket) => wire::auth::line(ticket.reveal()),
        By::Nobody => String::new(),
    };
    let line = format!("{shown}logberg/1 {request}\n");
    caller.send(&mut stage.world, line.as_bytes());
    caller
}

/// The answer to a request that ends with one.
pub fn answer(stage: &mut Stage, index: usize, by: By<'_>, request: &str) -> String {
    let caller = ask(stage, index, by, request);
    stage.wait("an answer", |_| caller.is_over() || caller.is_open());
    caller.text()
}

/// The same, asked there again until it is known who leads.
pub fn answered(stage: &mut Stage, index: usize, by: By<'_>, request: &str) -> String {
    for _ in 0..100 {
        let text = answer(stage, index, by, request);
        if !["not-leader", "no-quorum"].contains(&code(&text)) {
            return text;
        }
        stage.pass(100 * MS);
    }
    panic!("node {} does not answer {request}", index + 1);
}

/// Asked of all in turn until somebody does it.
pub fn done(stage: &mut Stage, by: By<'_>, request: &str) -> String {
    for _ in 0..100 {
        for index in 0..stage.nodes.len() {
            let text = answer(stage, index, by, request);
            if !["not-leader", "no-quorum"].contains(&code(&text)) {
                return text;
            }
        }
        stage.pass(100 * MS);
    }
    panic!("nobody does {request}");
}

pub fn put_line(token: &Token, grants: &str) -> String {
    let (name, hash) = (&token.name, sha256(token));
    let grants = wire::encode(grants);
    format!("put-token {name} sha256={hash} grants={grants}")
}

pub fn put(stage: &mut Stage, by: By<'_>, token: &Token, grants: &str) -> String {
    done(stage, by, &put_line(token, grants))
}

/// When the first token was made, in ms since the beginning of 1970.
pub fn made_ms(stage: &mut Stage, by: By<'_>) -> u64 {
    let list = answered(stage, 0, by, "tokens");
    let (_, changed) = list.split_once("\"changed_ms\":").expect("a time");
    let digits: String = changed.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Three nodes of a cluster that asks for tokens, and the one that may all.
pub fn guarded(seed: u64) -> (Stage, Token) {
    let mut stage = Stage::three(seed);
    let root = ask_for_tokens(&mut stage);
    (stage, root)
}

/// Makes a token that may all. All nodes have heard then that tokens are asked for.
pub fn ask_for_tokens(stage: &mut Stage) -> Token {
    let nodes = stage.count();
    let root = token("root", 1);
    let made = put(stage, By::Socket, &root, "all on *");
    assert!(made.starts_with("ok {\"name\":\"root\""), "{made}");
    let on = done(stage, By::Token(&root), "set-auth on");
    assert!(on.starts_with("ok {\"on\":true"), "{on}");
    stage.wait("all to have heard", |look| {
        (0..nodes).all(|index| look.node(index).is_some_and(node::Node::asks_for_tokens))
    });
    root
}

pub fn code(text: &str) -> &str {
    match text.strip_prefix("error ") {
        Some(rest) => rest.split([' ', ':']).next().unwrap_or_default(),
        None => "",
    }
}

/// A request of every verb that is whole.
fn request_of(verb: Verb) -> Option<String> {
    Some(match verb {
        Verb::Append => format!("append {LOG} mode=takeover"),
        Verb::Close => format!("close {LOG} stream=1.1.1 at=0"),
        Verb::Read => format!("read {LOG} stale=1"),
        Verb::Streams => format!("streams {LOG} stale=1"),
        Verb::Trim => format!("trim {LOG} before=@0 plan=1"),
        Verb::Lead => format!("lead {LOG}"),
        Verb::Scrub => format!("scrub {LOG}"),
        Verb::Save => format!("save {LOG}"),
        Verb::Fill => format!("fill {LOG} backup={} time=1 sessions=1", "0".repeat(64)),
        Verb::Status => "status".to_owned(),
        Verb::Metrics => "metrics".to_owned(),
        Verb::Logs => "logs stale=1".to_owned(),
        Verb::CreateLog => format!("create-log {LOG}"),
        Verb::DeleteLog => format!("delete-log nothing-of-{LOG}"),
        Verb::ShowLog => format!("show-log {LOG}"),
        Verb::Retain => format!("retain {LOG} retention=forever"),
        Verb::Members => "members local=1".to_owned(),
        Verb::ChangeMembers => "change-members weight 9 weight=1 plan=1".to_owned(),
        Verb::Slots => "slots".to_owned(),
        Verb::ChangeSlots => "change-slots balance plan=1".to_owned(),
        Verb::Tokens => "tokens".to_owned(),
        Verb::PutToken => format!(
            "put-token other sha256={} grants=read%20on%20log/other",
            "1".repeat(64)
        ),
        Verb::RotateToken => format!("rotate-token none sha256={} overlap=0", "2".repeat(64)),
        Verb::RevokeToken => "revoke-token none".to_owned(),
        Verb::Issuers => "issuers".to_owned(),
        Verb::PutIssuer => format!(
            "put-issuer backend keys=EdDSA:{} grants=read%20on%20log/other",
            "A".repeat(43)
        ),
        Verb::RemoveIssuer => "remove-issuer none".to_owned(),
        Verb::SetAuth => "set-auth on plan=1".to_owned(),
        Verb::Explain => format!("explain read log/{LOG} token=root"),
        Verb::Audit => "audit".to_owned(),
        Verb::Join => format!("join address=nowhere:1 disk={} speaks=1-2", "3".repeat(32)),
        // Both need nothing.
        Verb::WhoAmI | Verb::Peer => return None,
    })
}

/// The grant that a verb needs, as docs/security.md has it.
fn grant_of(verb: Verb) -> &'static str {
    match verb {
        Verb::Append | Verb::Close | Verb::Fill => "append on log/main",
        Verb::Read | Verb::Streams | Verb::Save => "read on log/main",
        Verb::Trim | Verb::Retain => "trim on log/main",
        Verb::Lead | Verb::Scrub => "lead on log/main",
        Verb::CreateLog => "create on log/main",
        Verb::DeleteLog => "delete on log/nothing-of-main",
        Verb::ShowLog => "status on log/main",
        Verb::Status | Verb::Metrics | Verb::Logs | Verb::Members | Verb::Slots => {
            "status on cluster"
        }
        Verb::ChangeMembers | Verb::ChangeSlots => "members on cluster",
        Verb::Tokens
        | Verb::PutToken
        | Verb::RotateToken
        | Verb::RevokeToken
        | Verb::Issuers
        | Verb::PutIssuer
        | Verb::RemoveIssuer
        | Verb::Explain
        | Verb::Audit => "tokens on cluster",
        Verb::SetAuth => "all on *",
        Verb::Join => "join on cluster",
        Verb::WhoAmI | Verb::Peer => "",
    }
}

/// The grants of a token that may do all but what that verb needs.
fn all_but(verb: Verb) -> String {
    let needed = grant_of(verb);
    let all = [
        "append on log/main",
        "read on log/main",
        "trim on log/main",
        "lead on log/main",
        "create on log/main",
        "delete on log/nothing-of-main",
        "status on log/main",
        "status on cluster",
        "members on cluster",
        "tokens on cluster",
        "join on cluster",
    ];
    let others = all.iter().filter(|grant| **grant != needed);
    others.copied().collect::<Vec<_>>().join("\n")
}

/// Every verb, asked by everybody, of the leader and of a follower.
#[cfg_attr(not(feature = "mutations"), test)]
fn every_verb_is_judged_for_everybody_at_leaders_and_followers() {
    let (mut stage, root) = guarded(1);
    let stranger = token("root", 9);
    let (revoked, late) = (token("revoked", 2), token("late", 3));
    let by_root = By::Token(&root);
    put(&mut stage, by_root, &revoked, "all on *");
    done(&mut stage, by_root, "revoke-token revoked");
    let expires = made_ms(&mut stage, by_root) + 10_000;
    let expiring = format!("{} expires={expires}", put_line(&late, "all on *"));
    assert!(done(&mut stage, by_root, &expiring).starts_with("ok "));
    stage.pass(15 * SECOND);
    let mut number = 10;
    for verb in Verb::ALL {
        let Some(request) = request_of(*verb) else {
            continue;
        };
        number += 2;
        let (with, without) = (token("with", number), token("without", number + 1));
        for (token, grants) in [
            (&with, grant_of(*verb).to_owned()),
            (&without, all_but(*verb)),
        ] {
            done(&mut stage, by_root, &format!("revoke-token {}", token.name));
            let made = put(&mut stage, by_root, token, &grants);
            assert!(made.starts_with("ok "), "{verb}: {made}");
        }
        for index in 0..3 {
            let unknown = answer(&mut stage, index, By::Token(&stranger), &request);
            let gone = answer(&mut stage, index, By::Token(&revoked), &request);
            let late = answer(&mut stage, index, By::Token(&late), &request);
            let nobody = answer(&mut stage, index, By::Nobody, &request);
            for text in [&unknown, &gone, &late, &nobody] {
                assert_eq!(code(text), "unauthenticated", "{verb} at {index}: {text}");
            }
            assert_eq!(unknown, gone, "which of both it is, is not told");
            let refused = answer(&mut stage, index, By::Token(&without), &request);
            match verb {
                // They are answered with what the grants touch.
                Verb::Status | Verb::Logs => {
                    assert!(refused.contains("\"name\":\"main\""), "{verb}: {refused}");
                    assert!(!refused.contains("\"name\":\"directory\""), "{refused}");
                }
                _ => assert_eq!(code(&refused), "forbidden", "{verb} at {index}: {refused}"),
            }
            for by in [By::Token(&with), By::Socket] {
                let text = answer(&mut stage, index, by, &request);
                let refused = ["unauthenticated", "forbidden"].contains(&code(&text));
                // `tokens` alone may hand out nothing that it lacks.
                let hands_out = matches!(verb, Verb::PutToken | Verb::PutIssuer);
                let lacks = hands_out && matches!(by, By::Token(_));
                assert!(!refused || lacks, "{verb} at {index}: {text}");
            }
        }
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_first_token_is_made_over_the_socket_of_any_node_and_by_nobody_who_shows_nothing() {
    let mut stage = Stage::three(2);
    let root = token("root", 1);
    for index in 0..3 {
        let request = format!(
            "put-token root sha256={} grants=all%20on%20*",
            sha256(&root)
        );
        let refused = answered(&mut stage, index, By::Nobody, &request);
        assert_eq!(code(&refused), "unauthenticated", "{refused}");
    }
    let on = answered(&mut stage, 0, By::Socket, "set-auth on");
    assert_eq!(code(&on), "refused", "no token may all: {on}");
    // Nodes that do not lead log 0 pass it on.
    for (index, name) in ["root", "second", "third"].into_iter().enumerate() {
        let line = put_line(&token(name, 1), "all on *");
        let made = answer(&mut stage, index, By::Socket, &line);
        assert!(made.starts_with("ok "), "{made}");
    }
    let who = answered(&mut stage, 1, By::Token(&root), "whoami");
    assert!(who.contains("\"principal\":\"token root\""), "{who}");
    let on = answered(&mut stage, 2, By::Socket, "set-auth on");
    assert!(on.starts_with("ok "), "{on}");
    stage.wait("all to have heard", |look| {
        (0..3).all(|index| look.node(index).is_some_and(node::Node::asks_for_tokens))
    });
    let read = answered(&mut stage, 2, By::Nobody, &format!("read {LOG}"));
    assert_eq!(code(&read), "unauthenticated", "{read}");
    // A line that says for whom it asks does so for nobody.
    let request = format!(
        "put-token mine sha256={} grants=all%20on%20* as=socket",
        sha256(&token("mine", 7))
    );
    let lied = done(&mut stage, By::Token(&root), &request);
    assert_eq!(code(&lied), "bad-request", "{lied}");
    let lied = done(&mut stage, By::Nobody, &request);
    assert_eq!(code(&lied), "unauthenticated", "{lied}");
    let audit = done(&mut stage, By::Token(&root), "audit");
    assert!(audit.contains("\"by\":\"socket of node"), "{audit}");
    assert!(audit.contains("tokens are asked for"), "{audit}");
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn writers_and_readers_are_ended_when_their_token_is_revoked_and_others_go_on() {
    let (mut stage, root) = guarded(3);
    let by_root = By::Token(&root);
    let (leader, others) = stage.roles();
    let (ci, web) = (token("ci", 2), token("web", 3));
    put(&mut stage, by_root, &ci, "append,read on log/main");
    put(&mut stage, by_root, &web, "read on log/main");
    let mut writer = ask(&mut stage, leader, By::Token(&ci), &format!("append {LOG}"));
    stage.wait("the stream to open", |_| writer.is_open());
    stage.say_and_wait(&mut writer, 100);
    let follow = format!("read {LOG} follow=1 format=framed");
    let reads = ask(&mut stage, others[0], By::Token(&ci), &follow);
    let goes_on = ask(&mut stage, others[0], By::Token(&web), &follow);
    stage.wait("both to read", |_| {
        reads.heard().len() > 100 && goes_on.heard().len() > 100
    });
    let revoked = done(&mut stage, by_root, "revoke-token ci");
    assert!(revoked.starts_with("ok "), "{revoked}");
    stage.wait_within(5 * SECOND, "the writer and the reader to be ended", |_| {
        writer.is_over() && reads.is_over()
    });
    let text = writer.text();
    assert!(text.contains("error unauthenticated"), "{text}");
    let text = String::from_utf8_lossy(&reads.heard()).into_owned();
    assert!(text.contains("error unauthenticated"), "{text}");
    assert!(!goes_on.is_over(), "another token's reader is left alone");
    assert_eq!(writer.acknowledged(), 100, "what was acknowledged stays");
}

/// ‡ What a crash between `set-auth` and anything written beside log 0 could leave open.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_that_starts_serves_nobody_by_what_may_be_old() {
    let (mut stage, root) = guarded(4);
    let (_, others) = stage.roles();
    let index = others[0];
    let later = token("later", 4);
    stage.isolate(index);
    stage.crash(index);
    stage.restart(index);
    for by in [By::Nobody, By::Token(&root), By::Token(&later)] {
        for request in ["status", "logs stale=1", "metrics"] {
            let text = answer(&mut stage, index, by, request);
            let codes = ["no-quorum", "not-leader"];
            assert!(codes.contains(&code(&text)), "{request}: {text}");
        }
        let read = answer(&mut stage, index, by, &format!("read {LOG} stale=1"));
        assert!(["no-quorum", "not-leader"].contains(&code(&read)), "{read}");
    }
    let socket = answer(&mut stage, index, By::Socket, "status");
    assert!(socket.starts_with("ok "), "{socket}");
    stage.world.heal_all();
    stage.wait_whole(3);
    let text = answered(&mut stage, index, By::Nobody, "status");
    assert_eq!(code(&text), "unauthenticated", "{text}");
    let text = answered(&mut stage, index, By::Token(&root), "status");
    assert!(text.starts_with("ok "), "{text}");
}

#[cfg_attr(not(feature = "mutations"), test)]
fn a_token_that_was_revoked_behind_a_partition_is_good_there_until_it_heals_and_not_after_a_start()
{
    let (mut stage, root) = guarded(5);
    let (_, others) = stage.roles();
    let index = others[0];
    let ci = token("ci", 2);
    put(&mut stage, By::Token(&root), &ci, "read on log/main");
    let read = format!("read {LOG} stale=1");
    let text = answered(&mut stage, index, By::Token(&ci), &read);
    assert_eq!(code(&text), "", "{text}");
    stage.isolate(index);
    let revoked = done(&mut stage, By::Token(&root), "revoke-token ci");
    assert!(revoked.starts_with("ok "), "{revoked}");
    // It cannot know. docs/security.md says so.
    let text = answer(&mut stage, index, By::Token(&ci), &read);
    assert_eq!(code(&text), "", "{text}");
    stage.world.heal_all();
    stage.wait_within(60 * SECOND, "it to hear", |look| {
        look.node(index).is_some_and(|node| !node.knows_token("ci"))
    });
    let text = answered(&mut stage, index, By::Token(&ci), &read);
    assert_eq!(code(&text), "unauthenticated", "{text}");
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn nobody_hands_out_what_he_lacks_then_and_when_it_is_applied() {
    let (mut stage, root) = guarded(6);
    let lead = token("lead", 2);
    let grants = "tokens on cluster\nappend on log/ci-*";
    let made = put(&mut stage, By::Token(&root), &lead, grants);
    assert!(made.starts_with("ok "), "{made}");
    let by = By::Token(&lead);
    for (grants, is_allowed) in [
        ("append on log/ci-7", true),
        ("append on log/*", false),
        ("read on log/ci-7", false),
        ("members on cluster", false),
        ("join on cluster", false),
        ("all on *", false),
        ("tokens on cluster", true),
    ] {
        let other = token("other", 3);
        let made = put(&mut stage, by, &other, grants);
        assert_eq!(made.starts_with("ok "), is_allowed, "{grants}: {made}");
        assert!(is_allowed || code(&made) == "forbidden", "{made}");
        done(&mut stage, by, "revoke-token other");
    }
    // Another's secret is his grants.
    for request in [
        format!("rotate-token root sha256={} overlap=0", "5".repeat(64)),
        "revoke-token root".to_owned(),
        "set-auth off".to_owned(),
    ] {
        let text = done(&mut stage, by, &request);
        assert_eq!(code(&text), "forbidden", "{text}");
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn two_secrets_are_good_for_a_while_and_then_one() {
    let (mut stage, root) = guarded(7);
    let (old, new) = (token("ci", 2), token("ci", 3));
    put(&mut stage, By::Token(&root), &old, "status on cluster");
    let rotate = format!("rotate-token ci sha256={} overlap=20000", sha256(&new));
    let text = done(&mut stage, By::Token(&root), &rotate);
    assert!(text.contains("overlap_until_ms"), "{text}");
    let status = |stage: &mut Stage, token: &Token| answered(stage, 0, By::Token(token), "status");
    assert!(status(&mut stage, &old).starts_with("ok "));
    assert!(status(&mut stage, &new).starts_with("ok "));
    stage.pass(30 * SECOND);
    assert_eq!(code(&status(&mut stage, &old)), "unauthenticated");
    assert!(status(&mut stage, &new).starts_with("ok "));
}
