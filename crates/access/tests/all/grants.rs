//! Grants as people write them: read, printed, refused with a sentence.

use logberg_access::{
    Asked, BadGrant, Denied, GRANT_BYTES_MAX, GRANTS_MAX, Grant, Grants, Need, Principal,
    TokenName, decide,
};

fn grant(text: &str) -> Grant {
    text.parse().expect(text)
}

fn grants(texts: &[&str]) -> Grants {
    Grants::parse(texts.iter().copied()).expect("grants")
}

pub fn token(name: &str) -> Principal {
    Principal::Token(TokenName::new(name).expect("a name"))
}

fn need(asked: &Asked) -> Need {
    asked.needs().remove(0)
}

fn denied(texts: &[&str], asked: &Asked) -> Denied {
    let decided = decide(&token("ci"), Some(&grants(texts)), &need(asked));
    decided.expect_err("it is refused")
}

#[test]
fn a_grant_is_printed_as_it_is_to_be_written() {
    for (text, printed) in [
        ("read on log/audit", "read on log/audit"),
        ("append,read on log/ci-*", "read,append on log/ci-*"),
        ("read,read on log/a", "read on log/a"),
        ("read,all on log/a", "all on log/a"),
        ("all on *", "all on *"),
        ("status,tokens on cluster", "status,tokens on cluster"),
        ("read on key/app:*", "read on key/app:*"),
        ("read on key/*", "read on key/*"),
        (
            "read on stream/default/chat/*",
            "read on stream/default/chat/*",
        ),
        ("read on key/a%20b%2a%00", "read on key/a%20b%2A%00"),
        ("read on log/%61", "read on log/a"),
        (
            "read on stream/default/grün",
            "read on stream/default/gr%C3%BCn",
        ),
    ] {
        assert_eq!(grant(text).to_string(), printed);
        assert_eq!(grant(printed).to_string(), printed);
    }
}

#[test]
fn what_is_no_grant_is_refused_with_a_sentence() {
    for (text, part) in [
        ("", "OPERATION,… on RESOURCE"),
        ("read", "OPERATION,… on RESOURCE"),
        ("read log/a", "OPERATION,… on RESOURCE"),
        (" on log/a", "'' is no operation"),
        ("read, append on log/a", "' append' is no operation"),
        ("read, on log/a", "'' is no operation"),
        ("READ on log/a", "'READ' is no operation"),
        ("write on log/a", "'write' is no operation"),
        ("read on ", "is no resource"),
        ("read on logs/a", "is no resource"),
        ("read on log", "is no resource"),
        ("read on log/", "names nothing"),
        ("read on /a", "is no resource"),
        ("read on **", "is no resource"),
        ("read on log/*a", "has a * that is not its end"),
        ("read on log/a**", "has a * that is not its end"),
        ("read on log/a b", "must be written %XX"),
        ("read on log/a ", "must be written %XX"),
        ("read on key/%2", "must be written %XX"),
        ("read on key/%+1", "must be written %XX"),
        ("read on log/a on log/b", "must be written %XX"),
        ("read on log/a\n", "must be written %XX"),
        ("join on log/a", "would allow nothing: join is of cluster"),
        ("append on cluster", "would allow nothing"),
        ("trim on stream/default/a", "trim is of log/"),
        ("create on key/a", "create is of log/ and stream/"),
        ("read,tokens on key/*", "tokens is of cluster"),
    ] {
        let refused = text.parse::<Grant>().expect_err(text).to_string();
        assert!(refused.contains(part), "{text:?}: {refused}");
        assert!(refused.len() < 400, "{refused}");
    }
}

#[test]
fn a_list_of_grants_has_bounds() {
    let longest = |more: usize| format!("read on log/{}", "a".repeat(GRANT_BYTES_MAX - 12 + more));
    assert!(longest(0).parse::<Grant>().is_ok());
    assert_eq!(longest(1).parse::<Grant>(), Err(BadGrant::Long));
    // Each of these letters is three bytes longer when it is printed.
    let grows = format!("read on log/{}", "ü".repeat(400));
    assert_eq!(grows.parse::<Grant>(), Err(BadGrant::Long));
    let many = |count| Grants::parse(std::iter::repeat_n("read on log/a", count));
    assert!(many(GRANTS_MAX).is_ok());
    assert_eq!(many(GRANTS_MAX + 1), Err(BadGrant::Many));
    assert_eq!(many(0), Err(BadGrant::None));
}

#[test]
fn a_refusal_says_what_would_be_allowed() {
    let ci = &["append on log/ci-*"];
    assert_eq!(
        denied(ci, &Asked::Append("audit")).to_string(),
        "token `ci` may append to log/ci-*, not to log/audit"
    );
    assert_eq!(
        denied(ci, &Asked::Read("ci-1")).to_string(),
        "token `ci` may not read log/ci-1, only append"
    );
    assert_eq!(
        denied(ci, &Asked::ChangeMembers).to_string(),
        "token `ci` may not change members and settings"
    );
    assert_eq!(
        denied(&["all on *"], &Asked::Read("directory")).to_string(),
        "log 0 is read by nodes and over the admin socket alone, and token `ci` may not"
    );
    let many: Vec<String> = (0..9).map(|n| format!("read on log/a{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(
        denied(&many, &Asked::Read("b")).to_string(),
        "token `ci` may read log/a0, log/a1, log/a2, log/a3 and more, not log/b"
    );
}

#[test]
fn a_thing_that_no_grant_touches_is_not_told_from_one_that_is_not_there() {
    let ci = &["append on log/ci-*"];
    assert!(denied(ci, &Asked::Read("secret")).hides_the_place());
    assert!(!denied(ci, &Asked::Read("ci-1")).hides_the_place());
}

#[test]
fn who_shows_nothing_is_asked_for_a_token() {
    let need = need(&Asked::Read("a"));
    let denied = decide(&Principal::Anonymous, None, &need).expect_err("no");
    assert!(denied.is_for_want_of_a_token());
    assert_eq!(denied.to_string(), "to read log/a needs a token");
    // Grants that are not its own help nobody.
    let all = grants(&["all on *"]);
    assert!(decide(&Principal::Anonymous, Some(&all), &need).is_err());
    assert!(decide(&token("ci"), None, &need).is_err());
}

#[test]
fn nobody_hands_out_more_than_he_has() {
    for (own, others, exceeded) in [
        (
            &["all on *"][..],
            &["all on *", "join on cluster"][..],
            None,
        ),
        (
            &["tokens on cluster", "read on log/a*"],
            &["read on log/ab"],
            None,
        ),
        (
            &["tokens on cluster", "read on log/a*"],
            &["read on log/a*"],
            None,
        ),
        (&["tokens on cluster"], &["tokens on cluster"], None),
        (&["read,append on log/a"], &["append on log/a"], None),
        (
            &["read on log/a", "append on log/*"],
            &["append,read on log/a"],
            None,
        ),
        (&["all on log/*"], &["all on log/a"], None),
        (
            &["read on log/a*"],
            &["read on log/*"],
            Some("read on log/*"),
        ),
        (
            &["read on log/a"],
            &["read on log/a*"],
            Some("read on log/a*"),
        ),
        (
            &["read on log/a"],
            &["append on log/a"],
            Some("append on log/a"),
        ),
        (&["read on log/a"], &["all on log/a"], Some("all on log/a")),
        (
            &["read on log/*"],
            &["read on stream/log/a"],
            Some("read on stream/log/a"),
        ),
        (&["read on *"], &["all on log/a"], Some("all on log/a")),
        (&["read on log/*"], &["read on *"], Some("read on *")),
        (
            &["all on cluster"],
            &["members on cluster"],
            Some("members on cluster"),
        ),
        (
            &["join,tokens on cluster"],
            &["join on cluster"],
            Some("join on cluster"),
        ),
        (
            &["all on cluster"],
            &["all on cluster"],
            Some("all on cluster"),
        ),
        (&["all on cluster"], &["status on cluster"], None),
        (&["tokens on cluster"], &["all on *"], Some("all on *")),
    ] {
        let others = grants(others);
        let found = grants(own).exceeded_by(&others).map(ToString::to_string);
        assert_eq!(found.as_deref(), exceeded, "{own:?} hands out {others}");
    }
}

/// No sentence has a resource where a thing belongs: "the tokens of cluster", "members of *".
#[test]
fn what_is_of_the_cluster_is_said_so() {
    let all = [
        Asked::Status,
        Asked::Logs,
        Asked::Lead("directory"),
        Asked::ShowLog("directory"),
        Asked::ChangeMembers,
        Asked::ChangeSlots,
        Asked::Tokens,
        Asked::RevokeToken,
        Asked::SetAuth,
        Asked::Audit,
        Asked::Join,
        Asked::ServerStatus,
        Asked::ServerSettings,
        Asked::AdminMetrics,
    ];
    let owners = [
        &["read on log/a"][..],
        &["status on log/a", "lead on log/a"],
        &["read on *"],
    ];
    for asked in &all {
        for grants in owners {
            let said = denied(grants, asked).to_string();
            for odd in ["of cluster", "of *", "join cluster", "not cluster"] {
                assert!(!said.contains(odd), "{asked:?}: {said}");
            }
            assert!(said.starts_with("token `ci` may not "), "{said}");
        }
    }
    for (asked, said) in [
        (Asked::Tokens, "token `ci` may not see and change tokens"),
        (Asked::SetAuth, "token `ci` may not do all there is"),
        (Asked::Join, "token `ci` may not join the cluster"),
    ] {
        assert_eq!(denied(&["read on log/a"], &asked).to_string(), said);
    }
    let some = denied(&["status on cluster"], &Asked::Audit).to_string();
    assert_eq!(
        some,
        "token `ci` may not see and change tokens, only status"
    );
}

#[test]
fn a_stream_has_a_space_and_a_path() {
    let form = |text: &str| text.parse::<Grant>().expect("it is read").check_form();
    for whole in [
        "read on stream/default/x",
        "read on stream/default/x/*",
        "read on stream/default/*",
        "read on stream/*",
        "read on log/x",
        "read on key/x",
        "all on *",
    ] {
        assert_eq!(form(whole), Ok(()), "{whole}");
    }
    for part in [
        "stream/x",
        "stream/x*",
        "stream/default/",
        "stream//x",
        "stream//*",
    ] {
        let error = form(&format!("read on {part}"))
            .expect_err(part)
            .to_string();
        assert!(error.contains("stream/SPACE/PATH"), "{part}: {error}");
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn what_may_be_read_of_a_space_is_a_few_beginnings_of_paths() {
    let of = |texts: &[&str], space: &str| {
        let grants = Grants::parse(texts.iter().copied()).expect("grants");
        let paths = grants.readable_in(space).into_iter();
        let shown = paths.map(|(path, is_prefix)| if is_prefix { path + "*" } else { path });
        shown.collect::<Vec<_>>()
    };
    let chat = &[
        "read on stream/default/chat/*",
        "read on stream/default/chat/42",
        "all on stream/default/a",
        "append on stream/default/b",
        "read on stream/team/x*",
        "read on log/*",
        "read on stream/default/%C3%BC*",
    ];
    assert_eq!(of(chat, "default"), ["a", "chat/*", "\u{fc}*"]);
    assert_eq!(of(chat, "team"), ["x*"]);
    assert!(of(chat, "tea").is_empty());
    assert_eq!(of(&["read on stream/*"], "any"), ["*"]);
    assert_eq!(of(&["all on *", "read on stream/any/a"], "any"), ["*"]);
    assert!(of(&["append on log/ci-*"], "default").is_empty());
    // It ends within a character.
    assert_eq!(of(&["read on stream/default/a%C3*"], "default"), ["a*"]);
}
