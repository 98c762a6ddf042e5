//! The whole table: every request of every door, what it needs, and who may do it.

use logberg_access::{Asked, Grants, Operation, Principal, decide};
use wire::Verb;

use crate::grants::token;

/// ‡ A verb without a line does not compile.
fn asked(verb: Verb) -> Asked<'static> {
    match verb {
        Verb::Append => Asked::Append("a"),
        Verb::Close => Asked::Close("a"),
        Verb::Read => Asked::Read("a"),
        Verb::Streams => Asked::Streams("a"),
        Verb::Trim => Asked::Trim("a"),
        Verb::Lead => Asked::Lead("a"),
        Verb::Scrub => Asked::Scrub("a"),
        Verb::Save => Asked::Save("a"),
        Verb::Fill => Asked::Fill("a"),
        Verb::Status => Asked::Status,
        Verb::Metrics => Asked::Metrics,
        Verb::Logs => Asked::Logs,
        Verb::CreateLog => Asked::CreateLog("a"),
        Verb::DeleteLog => Asked::DeleteLog("a"),
        Verb::ShowLog => Asked::ShowLog("a"),
        Verb::Retain => Asked::Retain("a"),
        Verb::Members => Asked::Members,
        Verb::ChangeMembers => Asked::ChangeMembers,
        Verb::Slots => Asked::Slots,
        Verb::ChangeSlots => Asked::ChangeSlots,
        Verb::Tokens => Asked::Tokens,
        Verb::PutToken => Asked::PutToken,
        Verb::RotateToken => Asked::RotateToken,
        Verb::RevokeToken => Asked::RevokeToken,
        Verb::Issuers => Asked::Issuers,
        Verb::PutIssuer => Asked::PutIssuer,
        Verb::RemoveIssuer => Asked::RemoveIssuer,
        Verb::SetAuth => Asked::SetAuth,
        Verb::WhoAmI => Asked::WhoAmI,
        Verb::Explain => Asked::Explain,
        Verb::Audit => Asked::Audit,
        Verb::Join => Asked::Join,
        Verb::Peer => Asked::Peer,
    }
}

fn needs(asked: &Asked) -> String {
    let needs: Vec<String> = asked.needs().iter().map(ToString::to_string).collect();
    needs.join("; ")
}

#[test]
fn every_verb_needs_what_is_written_here() {
    let lines: Vec<String> = Verb::ALL
        .iter()
        .map(|verb| format!("{verb}: {}", needs(&asked(*verb))))
        .collect();
    assert_eq!(
        lines,
        [
            "append: append on log/a",
            "close: append on log/a",
            "read: read on log/a",
            "streams: read on log/a",
            "trim: trim on log/a",
            "lead: lead on log/a",
            "scrub: lead on log/a",
            "save: read on log/a",
            "fill: append on log/a",
            "status: status on cluster",
            "metrics: status on cluster",
            "logs: status on cluster",
            "create-log: create on log/a",
            "delete-log: delete on log/a",
            "show-log: status on log/a",
            "retain: trim on log/a",
            "members: status on cluster",
            "change-members: members on cluster",
            "slots: status on cluster",
            "change-slots: members on cluster",
            "tokens: tokens on cluster",
            "put-token: tokens on cluster",
            "rotate-token: tokens on cluster",
            "revoke-token: tokens on cluster",
            "issuers: tokens on cluster",
            "put-issuer: tokens on cluster",
            "remove-issuer: tokens on cluster",
            "set-auth: members on *",
            "whoami: ",
            "explain: tokens on cluster",
            "audit: tokens on cluster",
            "join: join on cluster",
            "peer: ",
        ]
    );
}

#[test]
fn every_other_request_needs_what_is_written_here() {
    let (space, path) = ("default", "chat/42");
    for (asked, expected) in [
        (
            Asked::CreateStream {
                space,
                path,
                is_filled: false,
                source: None,
            },
            "create on stream/default/chat/42",
        ),
        (
            Asked::CreateStream {
                space,
                path,
                is_filled: true,
                source: Some("old"),
            },
            "create on stream/default/chat/42; append on stream/default/chat/42; read on stream/default/old",
        ),
        (
            Asked::AppendStream { space, path },
            "append on stream/default/chat/42",
        ),
        (
            Asked::ReadStream { space, path },
            "read on stream/default/chat/42",
        ),
        (
            Asked::DeleteStream { space, path },
            "delete on stream/default/chat/42",
        ),
        (Asked::ListStreams { space }, "read on stream/default/*"),
        (Asked::ShowLimits { space }, "status on cluster"),
        (Asked::SetLimits { space }, "members on cluster"),
        (Asked::DescribeHttp, ""),
        (Asked::Connection, ""),
        (
            Asked::ReadKeys(vec![b"a", b"b c"]),
            "read on key/a; read on key/b%20c",
        ),
        (Asked::WriteKeys(vec![b"a*"]), "append on key/a%2A"),
        (Asked::ScanKeys(b"app:"), "read on key/app:*"),
        (Asked::CountKeys, "read on key/*"),
        (Asked::FlushKeys, "delete on key/*"),
        (Asked::ServerStatus, "status on cluster"),
        (Asked::ServerSettings, "members on cluster"),
        (Asked::AdminMetrics, "status on cluster"),
        (Asked::Health, ""),
    ] {
        assert_eq!(needs(&asked), expected, "{asked:?}");
    }
}

/// Each verb is allowed by a grant of exactly what it needs, by `all`, and by no grant of another operation, on
/// another log, or of another kind.
#[test]
fn a_verb_is_allowed_by_the_grant_that_it_needs_and_by_no_other() {
    let ci = token("ci");
    let allows = |grant: &str, verb: Verb| {
        let grants = Grants::parse([grant]).ok()?;
        let needs = asked(verb).needs();
        Some(
            needs
                .iter()
                .all(|need| decide(&ci, Some(&grants), need).is_ok()),
        )
    };
    let free = [Verb::Peer, Verb::WhoAmI];
    for verb in Verb::ALL.iter().filter(|verb| !free.contains(verb)) {
        let needed = asked(*verb).needs().remove(0);
        for place in [
            "log/a",
            "log/a*",
            "log/*",
            "log/b",
            "log/a/",
            "log/ab*",
            "cluster",
            "*",
            "stream/default/a",
            "key/a",
        ] {
            let needed_on = needed.place.to_string();
            let is_there = match needed_on.as_str() {
                "*" => place == "*",
                "cluster" => matches!(place, "cluster" | "*"),
                _ => matches!(place, "log/a" | "log/a*" | "log/*" | "*"),
            };
            for operation in Operation::ALL {
                let Some(allowed) = allows(&format!("{operation} on {place}"), *verb) else {
                    continue;
                };
                let expected = is_there && *operation == needed.operation;
                assert_eq!(allowed, expected, "{verb}: {operation} on {place}");
            }
            assert_eq!(allows(&format!("all on {place}"), *verb), Some(is_there));
        }
    }
}

#[test]
fn nodes_and_the_socket_may_all_and_who_shows_nothing_may_greet() {
    for verb in Verb::ALL {
        for need in asked(*verb).needs() {
            assert!(decide(&Principal::Node(1), None, &need).is_ok());
            assert!(decide(&Principal::Socket, None, &need).is_ok());
            assert!(decide(&Principal::Anonymous, None, &need).is_err());
        }
    }
    assert!(asked(Verb::Peer).needs().is_empty());
}

/// ‡ Log 0 holds hashes, addresses and grants: no grant covers its bytes.
#[test]
fn the_bytes_of_log_0_are_granted_to_nobody() {
    let everything = Grants::parse(["all on *", "read on log/*", "read on log/directory"]);
    let everything = everything.expect("grants");
    let may = |asked: Asked| {
        let needs = asked.needs();
        let root = token("root");
        needs
            .iter()
            .all(|need| decide(&root, Some(&everything), need).is_ok())
    };
    for of_bytes in [
        Asked::Read("directory"),
        Asked::Streams("directory"),
        Asked::Append("directory"),
        Asked::Trim("directory"),
        Asked::DeleteLog("directory"),
        Asked::Save("directory"),
    ] {
        assert!(!may(of_bytes.clone()), "{of_bytes:?}");
    }
    assert!(may(Asked::Lead("directory")));
    assert!(may(Asked::ShowLog("directory")));
    let lead = Asked::Lead("directory").needs();
    assert_eq!(lead[0].to_string(), "lead on cluster");
}
