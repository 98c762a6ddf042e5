//! A ticket: the claims that make it good, and its grants.

use access::{Grants, TicketText};
use tickets::{Audience, BadTicket, Claims, PublicKey, SigningKey, Ticket, check, sign};

const CLUSTER: &str = "01234567-89ab-cdef-0123-456789abcdef";
/// In seconds.
const NOW: u64 = 1_900_000_000;

pub fn key(draw: u8) -> SigningKey {
    SigningKey::of_seed(&[draw; 32]).expect("a key")
}

pub fn claims() -> Claims {
    Claims {
        iss: "backend".to_owned(),
        sub: "alice".to_owned(),
        aud: Audience::One(CLUSTER.to_owned()),
        iat: NOW,
        exp: NOW + 3_600,
        nbf: None,
        allow: vec!["read on stream/default/chat/42".to_owned()],
    }
}

fn signed(change: impl FnOnce(&mut Claims)) -> TicketText {
    let mut claims = claims();
    change(&mut claims);
    sign(&claims, &key(1)).expect("a ticket")
}

pub fn checked_at(text: &TicketText, now_ms: u64) -> Result<Ticket, BadTicket> {
    let keys: [PublicKey; 2] = [key(2).public(), key(1).public()];
    check(text, CLUSTER, now_ms, |name| {
        (name == "backend").then_some(&keys[..])
    })
}

fn checked(text: &TicketText) -> Result<Ticket, BadTicket> {
    checked_at(text, NOW * 1000)
}

#[test]
fn a_ticket_is_good_in_its_cluster_and_its_time() {
    let ticket = checked(&signed(|_| {})).expect("it is good");
    assert_eq!(ticket.name(), "backend/alice");
    assert_eq!(ticket.expires_ms, (NOW + 3_600) * 1000);
    let text = signed(|_| {});
    let last = (NOW + 3_600) * 1000;
    assert!(checked_at(&text, last - 1).is_ok());
    assert_eq!(checked_at(&text, last), Err(BadTicket::Expired));
    // A clock that goes before ours by less than a minute.
    assert!(checked_at(&text, (NOW - 60) * 1000).is_ok());
    assert_eq!(checked_at(&text, (NOW - 61) * 1000), Err(BadTicket::Early));
    let several = signed(|c| c.aud = Audience::Several(vec!["x".to_owned(), CLUSTER.to_owned()]));
    assert!(checked(&several).is_ok());
}

type Change = fn(&mut Claims);

#[test]
fn whatever_else_it_says_is_refused_by_its_reason() {
    let table: [(Change, BadTicket); 18] = [
        (
            |c| c.aud = Audience::One("other".to_owned()),
            BadTicket::Audience,
        ),
        (
            |c| c.aud = Audience::Several(Vec::new()),
            BadTicket::Audience,
        ),
        (
            |c| c.aud = Audience::One(String::new()),
            BadTicket::Audience,
        ),
        (|c| c.exp = NOW + 24 * 3_600 + 1, BadTicket::Long),
        (|c| c.exp = NOW, BadTicket::Long),
        (|c| c.exp = 0, BadTicket::Long),
        (|c| c.exp = u64::MAX, BadTicket::Claims),
        (|c| c.iat = u64::MAX, BadTicket::Claims),
        (|c| (c.iat, c.exp) = (NOW + 61, NOW + 62), BadTicket::Early),
        (|c| c.nbf = Some(NOW + 61), BadTicket::Early),
        (|c| c.sub.clear(), BadTicket::Subject),
        (|c| c.sub = "a b".to_owned(), BadTicket::Subject),
        (|c| c.sub = "a\nerror".to_owned(), BadTicket::Subject),
        (|c| c.sub = "ä".to_owned(), BadTicket::Subject),
        (|c| c.sub = "a".repeat(129), BadTicket::Subject),
        (|c| c.allow.clear(), BadTicket::Grants),
        (
            |c| c.allow = vec!["read log/a".to_owned()],
            BadTicket::Grants,
        ),
        (
            |c| c.allow = vec!["read on log/a".to_owned(); 17],
            BadTicket::Grants,
        ),
    ];
    for (number, (change, expected)) in table.into_iter().enumerate() {
        let text = signed(change);
        assert_eq!(checked(&text), Err(expected), "line {number}");
        assert!(!expected.to_string().contains("backend"));
    }
    for name in ["other", "", "Backend", "backend/x"] {
        let text = signed(|c| c.iss = name.to_owned());
        assert_eq!(checked(&text), Err(BadTicket::NotSigned), "{name}");
    }
    let by_another = sign(&claims(), &key(3)).expect("a ticket");
    assert_eq!(checked(&by_another), Err(BadTicket::NotSigned));
}

/// ‡ Cut to the issuer's, however it is said.
#[test]
fn a_ticket_allows_what_both_allow() {
    let issuer = Grants::parse(["read,append on stream/default/chat/*", "all on log/ci-*"]);
    let issuer = issuer.expect("grants");
    for (said, expected) in [
        (
            "read on stream/default/chat/42",
            "read on stream/default/chat/42",
        ),
        (
            "all on stream/default/chat/42",
            "read,append on stream/default/chat/42",
        ),
        (
            "all on stream/default/*",
            "read,append on stream/default/chat/*",
        ),
        ("delete on stream/default/chat/42", ""),
        ("read on stream/default/other", ""),
        (
            "all on *",
            "read,append on stream/default/chat/*; all on log/ci-*",
        ),
        ("read on log/*", "read on log/ci-*"),
        ("read on key/*", ""),
        ("tokens,members on cluster", ""),
    ] {
        let text = signed(|c| c.allow = vec![said.to_owned()]);
        let ticket = checked(&text).expect("it is good");
        let within = ticket.within(&issuer);
        let mut cut: Vec<String> = within.iter().map(ToString::to_string).collect();
        let mut wanted: Vec<&str> = expected.split("; ").filter(|g| !g.is_empty()).collect();
        cut.sort();
        wanted.sort_unstable();
        assert_eq!(cut, wanted, "{said}");
    }
}

#[test]
fn it_is_good_as_long_as_its_issuer_has_the_key_that_signed_it() {
    let ticket = checked(&signed(|_| {})).expect("it is good");
    let keys = [key(2).public(), key(1).public()];
    assert!(ticket.is_good(&keys, NOW * 1000));
    assert!(!ticket.is_good(&keys[..1], NOW * 1000));
    assert!(!ticket.is_good(&keys, ticket.expires_ms));
}
