//! Golden lines: what clients ask.

use wire::change::{Action, Change};
use wire::{
    Ask, BackupId, Before, ConnectionEnd, Format, LINE_BYTES_MAX, LineError, LogKind, Mode,
    NodeIds, StreamPlace,
};

#[test]
fn requests_are_written_as_the_page_says() {
    let place: StreamPlace = "1.2.3@45".parse().unwrap();
    let requests = [
        (
            "logberg/1 append main label=night%20import continues=1.2.3@45 token=7af3 checked=1 mode=takeover\n",
            Ask::Append {
                log: "main".to_owned(),
                label: Some("night import".to_owned()),
                continues: Some(place),
                token: Some("7af3".to_owned()),
                checked: true,
                mode: Mode::TakeOver,
                end: ConnectionEnd::Cut,
            },
        ),
        (
            "logberg/1 close main stream=1.2.3 at=45\n",
            Ask::Close {
                log: "main".to_owned(),
                at: place,
            },
        ),
        (
            "logberg/1 read a%3Db stream=1.2.3 from=7 to=9 follow=1 stale=1 format=framed\n",
            Ask::Read {
                log: "a=b".to_owned(),
                stream: Some(place.stream),
                from: 7,
                to: Some(9),
                follow: true,
                stale: true,
                format: Format::Framed,
            },
        ),
        (
            "logberg/1 trim main before=1.2.3@45 plan=1\n",
            Ask::Trim {
                log: "main".to_owned(),
                before: Before::Stream(place),
                plan: true,
            },
        ),
        (
            "logberg/1 trim main before=slot:4096\n",
            Ask::Trim {
                log: "main".to_owned(),
                before: Before::Slot(4096),
                plan: false,
            },
        ),
        (
            "logberg/1 save bank\n",
            Ask::Save {
                log: "bank".to_owned(),
            },
        ),
        (
            "logberg/1 fill bank backup=0707070707070707070707070707070707070707070707070707070707070707 time=5 sessions=3\n",
            Ask::Fill {
                log: "bank".to_owned(),
                backup: BackupId([7; 32]),
                time_ms: 5,
                sessions: 3,
            },
        ),
        (
            "logberg/1 lead main to=3\n",
            Ask::Lead {
                log: "main".to_owned(),
                to: Some(3),
            },
        ),
        (
            "logberg/1 scrub main start=1 rate=1000\n",
            Ask::Scrub {
                log: "main".to_owned(),
                start: true,
                rate: Some(1000),
            },
        ),
        ("logberg/1 status\n", Ask::Status { fresh: false }),
        ("logberg/1 status fresh=1\n", Ask::Status { fresh: true }),
        ("logberg/1 metrics\n", Ask::Metrics),
        (
            "logberg/1 streams main stale=1\n",
            Ask::Streams {
                log: "main".to_owned(),
                stale: true,
                after: None,
                limit: None,
            },
        ),
        (
            "logberg/1 logs\n",
            Ask::Logs {
                stale: false,
                after: None,
                limit: None,
            },
        ),
        (
            "logberg/1 create-log spare\n",
            Ask::CreateLog {
                name: "spare".to_owned(),
                members: NodeIds::default(),
                auxiliary: NodeIds::default(),
                retention: None,
                min_copies: None,
                kind: LogKind::Bytes,
            },
        ),
        (
            "logberg/1 create-log spare members=1,3,4 auxiliary=3 retention=10GiB,7d min_copies=2 kind=state\n",
            Ask::CreateLog {
                name: "spare".to_owned(),
                members: NodeIds(vec![1, 3, 4]),
                auxiliary: NodeIds(vec![3]),
                retention: Some("10GiB,7d".to_owned()),
                min_copies: Some(2),
                kind: LogKind::State,
            },
        ),
        (
            "logberg/1 delete-log spare\n",
            Ask::DeleteLog {
                name: "spare".to_owned(),
                abandon: false,
            },
        ),
        (
            "logberg/1 show-log spare\n",
            Ask::ShowLog {
                name: "spare".to_owned(),
            },
        ),
        (
            "logberg/1 members\n",
            Ask::Members {
                local: false,
                after: None,
                limit: None,
            },
        ),
        (
            "logberg/1 change-members replace 3 4 plan=1\n",
            Ask::ChangeMembers(Change {
                plan: true,
                ..Change::new(Action::Replace { old: 3, new: 4 })
            }),
        ),
        (
            "logberg/1 change-members weight 3 2 log=main,b force=1 version=7\n",
            Ask::ChangeMembers(Change {
                logs: vec!["main".to_owned(), "b".to_owned()],
                force: true,
                version: Some(7),
                ..Change::new(Action::Weight { node: 3, weight: 2 })
            }),
        ),
        (
            "logberg/1 streams main after=1.4.2 limit=100\n",
            Ask::Streams {
                log: "main".to_owned(),
                stale: false,
                after: Some("1.4.2".parse().unwrap()),
                limit: Some(100),
            },
        ),
        (
            "logberg/1 logs after=412\n",
            Ask::Logs {
                stale: false,
                after: Some(412),
                limit: None,
            },
        ),
        (
            "logberg/1 retain spare retention=10GiB,7d\n",
            Ask::Retain {
                log: "spare".to_owned(),
                retention: Some("10GiB,7d".to_owned()),
                min_copies: None,
            },
        ),
    ];
    for (line, request) in requests {
        assert_eq!(request.to_line(), line);
        assert_eq!(Ask::parse(line.as_bytes()), Ok(request));
    }
}

#[test]
fn an_unknown_key_is_refused() {
    assert_eq!(
        Ask::parse(b"logberg/1 append main colour=red"),
        Err(LineError::UnknownKey("colour".to_owned()))
    );
}

#[test]
fn another_version_is_told_apart_from_nonsense() {
    assert_eq!(
        Ask::parse(b"logberg/2 status"),
        Err(LineError::OtherVersion("logberg/2".to_owned()))
    );
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_with_what_it_is_to_be() {
    for (line, sentence) in [
        (
            "append main mode=gently",
            "mode is refuse, wait or takeover",
        ),
        ("append main end=soon", "end is cut or fin"),
        (
            "append main continues=1.2@3",
            "a place in a stream is written NAME@POSITION, such as 1.4.2@1000000",
        ),
        ("read main format=xml", "format is raw or framed"),
        ("read main from=-1", "\"-1\" is no value for from"),
        ("read main stale=yes", "\"yes\" is no value for stale"),
        ("streams main limit=0", "limit is 1 or more"),
        ("trim main", "the line lacks before"),
        (
            "trim main before=x",
            "a place is @BYTES of the log's output, STREAM, STREAM@BYTES or slot:N, such as @1000000 or 1.4.2@1000000",
        ),
        (
            "create-log a members=1,,2",
            "members is node ids with commas between them",
        ),
        ("change-members weight 0 1", "\"0\" is no node's id"),
        (
            "change-members weight 1 -1",
            "\"-1\" is no weight: say 0, 1, 2 …",
        ),
        ("change-members address 1 here", "an address is HOST:PORT"),
        ("append", "the line lacks the log's name"),
        ("append a b", "the line has too many words"),
    ] {
        let refused = Ask::parse(format!("logberg/1 {line}").as_bytes());
        let refused = refused.expect_err(line);
        assert_eq!(refused.to_string(), sentence, "{line}");
    }
}

#[test]
fn what_is_no_change_of_members_is_told_which_there_are() {
    for line in [
        "",
        " grow 1",
        " add",
        " remove 1 2",
        " weight 1",
        " replace 1",
    ] {
        let line = format!("logberg/1 change-members{line}");
        let refused = Ask::parse(line.as_bytes()).expect_err(&line).to_string();
        assert!(refused.starts_with("say add ID, remove ID"), "{refused}");
    }
}

#[test]
fn a_line_over_the_limit_is_refused() {
    let line = format!(
        "logberg/1 append main label={}\n",
        "x".repeat(LINE_BYTES_MAX)
    );
    assert_eq!(Ask::parse(line.as_bytes()), Err(LineError::TooLong));
}
