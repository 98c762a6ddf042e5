//! The bytes of every frame and record, kept under `testdata/`. A change of them is a change of the
//! format: `UPDATE_GOLDEN=1 cargo test -p logberg-formats golden` rewrites them, to be read before commit.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use paxos::*;

use crate::frame::{Told, *};
use crate::past::{Findings, Found};
use crate::proof::{Seal, SealedEnd, Signature};
use crate::record::*;
use crate::segment::{Birth, Predecessor, SegmentHeader};
use crate::version::{FIRST, Speaks};
use crate::{ClusterId, DiskId, Identity, LogId, codec};

fn check(name: &str, bytes: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("testdata/{name}.hex"));
    let mut hex = String::new();
    for line in bytes.chunks(16) {
        for (at, byte) in line.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(hex, "{space}{byte:02x}").expect("a string takes every byte");
        }
        hex.push('\n');
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("testdata is writable");
        std::fs::write(&path, &hex).expect("testdata is writable");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(hex, golden, "the bytes of {name} changed");
}

fn told() -> Told {
    Told {
        by: NodeId(2),
        code: 8,
        about: NodeId(2),
        with: NodeId(0),
        log: LogId(7),
        logs: 3,
        amount: 1_600_000,
        is_active: true,
    }
}

fn stream() -> StreamName {
    StreamName {
        owner: NodeId(3),
        sequence: StreamSequence {
            incarnation: 2,
            counter: 9,
        },
    }
}

fn term() -> Term {
    Term {
        era: Era(1),
        number: 7,
        owner: NodeId(2),
    }
}

fn slots() -> SlotRange {
    SlotRange::new(Slot(1000), Slot(1005))
}

fn content() -> Value {
    Value::Content {
        stream: stream(),
        offset: Offset(4),
    }
}

fn open_stream() -> Action {
    Action::OpenStream(OpenStream {
        stream: stream(),
        label: "näme".to_owned(),
        metadata: vec![1, 2, 3],
        continues: Some((StreamName::default(), StreamPosition(77))),
    })
}

fn actions() -> Vec<(&'static str, Action)> {
    let reconfigure = |change| Action::Reconfigure {
        from: Era(4),
        change,
        by: By::Unsaid,
    };
    vec![
        ("generate-node-id", Action::GenerateNodeId),
        ("increment", reconfigure(Change::Increment(NodeId(1)))),
        ("decrement", reconfigure(Change::Decrement(NodeId(1)))),
        ("multiply", reconfigure(Change::Multiply(2))),
        ("divide", reconfigure(Change::Divide(3))),
        ("mark", reconfigure(Change::MarkAuxiliary(NodeId(5)))),
        ("unmark", reconfigure(Change::UnmarkAuxiliary(NodeId(5)))),
        ("open-stream", open_stream()),
        (
            "close-stream",
            Action::CloseStream {
                stream: stream(),
                at: StreamPosition(12),
            },
        ),
        (
            "cut-stream",
            Action::CutStream {
                stream: stream(),
                at: StreamPosition(12),
            },
        ),
        (
            "trim",
            Action::Trim {
                before: Slot(500),
                by: By::Unsaid,
            },
        ),
        (
            "trim-by-hand",
            Action::Trim {
                before: Slot(500),
                by: By::Hand,
            },
        ),
        (
            "trim-by-wish",
            Action::Trim {
                before: Slot(500),
                by: By::Wish(wish().number),
            },
        ),
        (
            "increment-by-wish",
            Action::Reconfigure {
                from: Era(4),
                change: Change::Increment(NodeId(1)),
                by: By::Wish(wish().number),
            },
        ),
        ("wish", Action::Wish(Arc::new(wish()))),
    ]
}

fn wish() -> Wish {
    Wish {
        number: WishNumber {
            rescues: 1,
            count: 7,
        },
        max_bytes: Some(1_000_000),
        max_age_s: None,
        weights: vec![(NodeId(1), 1), (NodeId(4), 2)],
        auxiliaries: vec![NodeId(4)],
        sealed: false,
        min_copies: 0,
    }
}

fn state() -> LogState {
    let member = |node, weight, auxiliary| Member {
        node: NodeId(node),
        weight,
        auxiliary,
    };
    let members = [member(1, 1, false), member(2, 1, false), member(4, 1, true)];
    LogState {
        next: Slot(1000),
        era: Era(1),
        era_start: Slot(8),
        configuration: Configuration::new(members).expect("it is legal"),
        next_node_id: NodeId(5),
        sequences: [(NodeId(3), stream().sequence)].into(),
        streams: vec![StreamState {
            name: stream(),
            label: "label".to_owned(),
            metadata: vec![9],
            continues: None,
            chain: Some((StreamName::default(), StreamPosition(70))),
            continued_by: Some(StreamName::default()),
            opened: Slot(20),
            length: StreamPosition(979),
            trimmed: StreamPosition(5),
            end: StreamEnd::Cut,
        }],
        streams_trimmed: StreamsTrimmed {
            count: 6,
            bytes: 80,
        },
        current: Some(stream()),
        trimmed: Slot(26),
        wish: None,
    }
}

fn finishing() -> Finishing {
    Finishing {
        term: Term {
            era: Era(0),
            ..term()
        },
        below: Slot(1004),
    }
}

fn checkpoint() -> Checkpoint {
    let run = |start: u64, end: u64, value| AcceptedRun {
        slots: SlotRange::new(Slot(start), Slot(end)),
        term: AcceptedTerm(term()),
        value,
    };
    Checkpoint {
        promised: PromisedTerm(term()),
        finishing: Some(finishing()),
        state: state(),
        accepted: vec![
            run(1000, 1005, content()),
            run(1005, 1006, Value::NoOp),
            run(1006, 1007, Value::Action(Arc::new(open_stream()))),
        ],
    }
}

fn messages() -> Vec<(&'static str, Message)> {
    let promised = PromisedTerm(term());
    vec![
        (
            "seek-votes",
            Message::SeekVotes {
                first_unchosen: Slot(1000),
                promised,
                missing_bytes: true,
            },
        ),
        (
            "offer-vote",
            Message::OfferVote {
                promised,
                missing_bytes: false,
            },
        ),
        (
            "offer-catch-up",
            Message::OfferCatchUp {
                first_unchosen: Slot(1000),
            },
        ),
        (
            "request-state",
            Message::RequestState {
                first_unchosen: Slot(1000),
                streams_known: 3,
            },
        ),
        ("state", Message::State(Arc::new(state()))),
        ("prepare", Message::Prepare { term: term() }),
        (
            "promise",
            Message::Promise(Promise {
                term: term(),
                from: Slot(1000),
                runs: checkpoint().accepted,
            }),
        ),
        (
            "refuse",
            Message::Refuse {
                refused: Term::default(),
                promised,
            },
        ),
        (
            "accepted",
            Message::Accepted {
                term: term(),
                slots: slots(),
                digest: Digest(0xdead_beef),
            },
        ),
        (
            "leader-status",
            Message::LeaderStatus {
                term: term(),
                proposed_up_to: Slot(1005),
                chosen_up_to: Slot(1003),
                finishing: None,
            },
        ),
        (
            "leader-status-after-a-casting-vote",
            Message::LeaderStatus {
                term: term(),
                proposed_up_to: Slot(1005),
                chosen_up_to: Slot(1003),
                finishing: Some(finishing()),
            },
        ),
        (
            "follower-status",
            Message::FollowerStatus {
                promised,
                accepted_term: AcceptedTerm(term()),
                accepted_up_to: Slot(1005),
                first_unchosen: Slot(1000),
                missing_bytes: 44,
            },
        ),
        (
            "confirm",
            Message::Confirm {
                term: term(),
                round: 8,
            },
        ),
        (
            "confirmed",
            Message::Confirmed {
                term: term(),
                round: 8,
            },
        ),
        (
            "ask-barrier",
            Message::AskBarrier {
                term: term(),
                number: ask_number(),
            },
        ),
        (
            "barrier",
            Message::Barrier {
                term: term(),
                number: ask_number(),
                slot: Slot(1005),
            },
        ),
        (
            "release",
            Message::Release {
                era: Era(3),
                below: Slot(990),
            },
        ),
        (
            "released",
            Message::Released {
                era: Era(3),
                below: Slot(985),
            },
        ),
    ]
}

fn ask_number() -> AskNumber {
    AskNumber {
        incarnation: 3,
        count: 8,
    }
}

fn check_control(name: &str, frame: &Frame) {
    let bytes = encode_control(frame.since(), frame);
    let prefix = bytes[..CONTROL_PREFIX].try_into().expect("it has a prefix");
    let prefix = decode_control_prefix(Speaks::ALL, prefix).expect("it is sound");
    let decoded = decode_control_body(&prefix, &bytes[CONTROL_PREFIX..]);
    assert_eq!(decoded.as_ref(), Ok(frame));
    check(&format!("frames/{name}"), &bytes);
}

#[test]
fn golden_past() {
    let start = |incarnation, nonce| crate::past::Start { incarnation, nonce };
    let end = crate::past::End {
        promised: PromisedTerm(term()),
        accepted_up_to: Slot(1 << 33),
    };
    let told = crate::past::Told {
        starts: vec![start(4, 1 << 63), start(7, 2)],
        ends: vec![(LogId(0), Default::default()), (LogId(7), end)],
        deleted: vec![(1, 3), (9, 9)],
        seals: vec![Seal([0x5e; 16]), Seal([0xa1; 16])],
        answer: Some(Signature([0x51; 64])),
        found: Findings(vec![
            Found {
                incarnation: 4,
                ends: vec![(LogId(0), Default::default()), (LogId(7), end)],
            },
            Found {
                incarnation: 7,
                ends: vec![(LogId(7), Default::default())],
            },
        ]),
        kept: vec![SealedEnd {
            start: start(3, 5),
            log: LogId(7),
            end,
            seal: Seal([0x0c; 16]),
        }],
    };
    check_control("control_past", &Frame::Past(told));
}

#[test]
fn golden_control_frames() {
    let log = LogId(7);
    for (name, message) in messages() {
        check_control(name, &Frame::Engine { log, message });
    }
    let statuses = messages()
        .into_iter()
        .filter(|(name, _)| name.ends_with("-status"));
    check_control(
        "heartbeat",
        &Frame::Heartbeat(Heartbeat {
            round: 12,
            answers: 11,
            entries: statuses.map(|(_, message)| (log, message)).collect(),
            free_bytes: 1 << 40,
            disk_version: 1,
            members_version: 9,
            parted: vec![(log, NodeId(3))],
            warnings: Some(vec![told()]),
        }),
    );
    check_control(
        "fetch-bytes",
        &Frame::FetchBytes(FetchBytes {
            log,
            request: 5,
            stream: stream(),
            from: StreamPosition(10),
            to: StreamPosition(20),
        }),
    );
    check_control(
        "bytes-not-here",
        &Frame::BytesNotHere(BytesNotHere {
            log,
            request: 5,
            stream: stream(),
            from: StreamPosition(10),
        }),
    );
    check_control(
        "ask-digest",
        &Frame::AskDigest(AskDigest {
            log,
            request: 6,
            stream: stream(),
            from: StreamPosition(10),
            to: StreamPosition(10 + PIECE_BYTES_MAX),
        }),
    );
    for (name, found) in [
        ("tell-digest", Examined::Digest(Digest(0x1234_5678))),
        ("tell-digest-not-here", Examined::NotHere),
        ("tell-digest-damaged", Examined::Damaged),
    ] {
        let request = 6;
        let told = TellDigest {
            log,
            request,
            found,
        };
        check_control(name, &Frame::TellDigest(told));
    }
    check_control("leads", &Frame::Leads(vec![log, LogId(9)]));
    for (name, last) in [("part", false), ("part-last", true)] {
        let bytes = vec![1, 2, 3];
        check_control(name, &Frame::Part(Part { log, last, bytes }));
    }
}

#[test]
fn golden_data_frames() {
    let propose = |slots, value, digest, payload: &[u8]| {
        let proposal = Proposal {
            term: term(),
            slots,
            value,
            digest,
            chosen_up_to: Slot(990),
        };
        let header = ProposeHeader::new(LogId(7), &proposal, payload.len());
        assert_eq!(header.proposal(Speaks::THIS, payload), Ok(proposal));
        DataHeader::Propose(header)
    };
    let action = open_stream();
    let encoded = codec::encode(FIRST, &action);
    let one = SlotRange::new(Slot(1000), Slot(1001));
    let frames: [(&str, DataHeader, &[u8]); 5] = [
        (
            "propose-content",
            propose(slots(), content(), crate::digest(b"bytes"), b"bytes"),
            b"bytes",
        ),
        (
            "propose-held-content",
            propose(slots(), content(), crate::digest(b"bytes"), b""),
            b"",
        ),
        (
            "propose-no-op",
            propose(slots(), Value::NoOp, Digest(0), b""),
            b"",
        ),
        (
            "propose-action",
            propose(
                one,
                Value::Action(Arc::new(action)),
                crate::digest(&encoded),
                &encoded,
            ),
            &encoded,
        ),
        (
            "bytes",
            DataHeader::Bytes(BytesHeader {
                log: LogId(7),
                request: 5,
                stream: stream(),
                position: StreamPosition(10),
                digest: crate::digest(b"bytes"),
                payload_length: 5,
            }),
            b"bytes",
        ),
    ];
    for (name, header, payload) in frames {
        let bytes = header.encode(FIRST);
        assert_eq!(
            DataHeader::decode(Speaks::THIS, &bytes).as_ref(),
            Ok(&header)
        );
        assert!(header.payload_is_right(payload));
        check(&format!("frames/{name}"), &[&bytes, payload].concat());
    }
}

#[test]
fn golden_actions() {
    for (name, action) in actions() {
        let bytes = codec::encode(FIRST, &action);
        assert_eq!(codec::decode::<Action>(Speaks::THIS, &bytes), Ok(action));
        check(&format!("actions/{name}"), &bytes);
    }
}

#[test]
fn golden_records() {
    let base = RecordHeader {
        log: LogId(7),
        number: 42,
        watermark: 40,
        chain: 0x0102_0304,
        promised: PromisedTerm(term()),
        first_unchosen: Slot(1000),
        accepted_up_to: Slot(1005),
        learn_past: Slot(3),
        ..RecordHeader::default()
    };
    let encoded_checkpoint = codec::encode(FIRST, &checkpoint());
    let encoded_action = codec::encode(FIRST, &open_stream());
    let accept = |value, slots| RecordHeader {
        kind: RecordKind::Accept,
        value,
        term: term(),
        slots,
        ..base
    };
    let of_stream = |header| RecordHeader {
        stream: stream(),
        position: StreamPosition(996),
        ..header
    };
    let of_kind = |kind| RecordHeader { kind, ..base };
    let one = SlotRange::new(Slot(1000), Slot(1001));
    let records: [(&str, RecordHeader, &[u8]); 10] = [
        (
            "checkpoint",
            of_kind(RecordKind::Checkpoint),
            &encoded_checkpoint,
        ),
        ("promise", of_kind(RecordKind::Promise), &encoded_checkpoint),
        ("state", of_kind(RecordKind::State), &encoded_checkpoint),
        ("accept-no-op", accept(ValueKind::NoOp, slots()), b""),
        (
            "accept-content",
            of_stream(accept(ValueKind::Content, slots())),
            b"bytes",
        ),
        (
            "accept-held-content",
            of_stream(accept(ValueKind::Content, slots())),
            b"",
        ),
        (
            "accept-action",
            accept(ValueKind::Action, one),
            &encoded_action,
        ),
        ("bytes", of_stream(of_kind(RecordKind::Bytes)), b"bytes"),
        (
            "lost",
            RecordHeader {
                slots: SlotRange::new(Slot(0), Slot(5)),
                ..of_stream(of_kind(RecordKind::Lost))
            },
            b"",
        ),
        ("idle", base, b""),
    ];
    for (name, header, payload) in records {
        let header = RecordHeader {
            payload_length: payload.len() as u32,
            digest: crate::digest(payload),
            ..header
        };
        let mut bytes = vec![0; RECORD_HEADER];
        let checksum = header.encode(0x1122_3344_5566_7788, &mut bytes);
        bytes.extend_from_slice(payload);
        let decoded = RecordHeader::decode(&bytes, Some(0x1122_3344_5566_7788));
        assert_eq!(decoded, Ok((header, checksum, 0x1122_3344_5566_7788)));
        check(&format!("records/{name}"), &bytes);
    }
}

#[test]
fn golden_segment_header() {
    let header = SegmentHeader {
        version: FIRST,
        identity: Identity {
            cluster: ClusterId(*b"cluster-cluster-"),
            node: NodeId(3),
            disk: DiskId(*b"disk-disk-disk--"),
        },
        log: LogId(7),
        number: 2,
        salt: 0x1122_3344_5566_7788,
        predecessor: Predecessor {
            last_record: 41,
            end: 1 << 20,
            checksum: 0x0102_0304,
        },
        birth: Birth {
            in_used_file: true,
            second: 1_800_000_000,
            first_unchosen: Slot(900),
        },
    };
    let block = header.encode();
    assert_eq!(SegmentHeader::decode(Speaks::THIS, &block), Ok(header));
    assert!(block[112..].iter().all(|byte| *byte == 0));
    check("segment-header", &block[..112]);
}
