//! Replicas that were given the same log in different ways are alike.

use crate::bank::{self, Bank};
use commands::{
    Applied, Batch, Frame, Halted, NoFrame, Once, Replica, SessionBounds, StateMachine, Torn,
};
use proptest::prelude::*;

const BOUNDS: SessionBounds = SessionBounds {
    sessions_max: 3,
    idle_max: 50,
};

fn replica() -> Replica<Bank> {
    Replica::new(Bank::default(), BOUNDS)
}

fn apply(replica: &mut Replica<Bank>, bytes: &[u8]) -> Vec<Applied> {
    replica.push(bytes);
    std::iter::from_fn(|| replica.apply_next().ok().flatten()).collect()
}

fn encode(command: &str) -> Vec<u8> {
    commands::encode(command.as_bytes()).unwrap()
}

/// All parts.
fn snapshot(replica: &Replica<Bank>) -> Option<Vec<u8>> {
    Some(replica.snapshot()?.flatten().collect())
}

fn state(bank: &Bank) -> Vec<u8> {
    let (mut at, mut state) = (None, Vec::new());
    while bank.snapshot(&mut at, &mut state) {}
    state
}

fn restored(was_equal: bool, frames: &[u8]) -> Applied {
    let parts = frames.len().div_ceil((1 << 20) + 16) as u64;
    let bytes = frames.len() as u64 - 16 * parts;
    Applied::Snapshot { was_equal, bytes }
}

fn session(client: u64, sequence: u64, time: u64, command: &str) -> Vec<u8> {
    let frame = Frame::Session {
        client,
        sequence,
        time,
        command: command.as_bytes(),
    };
    frame.encode().unwrap()
}

#[test]
fn a_transfer_asked_for_twice_happens_once_also_after_a_snapshot() {
    let mut bank = replica();
    let mut batch = Batch::default();
    batch.command(b"deposit ada 100").unwrap();
    batch.push(&Frame::OpenSession { time: 1 }).unwrap();
    apply(&mut bank, &batch.take());
    assert!(batch.is_empty());
    let transfer = session(1, 1, 2, "transfer ada bob 30");
    let first = apply(&mut bank, &transfer);
    assert_eq!(first, apply(&mut bank, &transfer));
    let mut restored = replica();
    restored.skip();
    apply(&mut restored, &snapshot(&bank).unwrap());
    assert_eq!(first, apply(&mut restored, &transfer));
    assert_eq!(
        first,
        [Applied::Once {
            client: 1,
            sequence: 1,
            outcome: Once::Answered(b"70".to_vec())
        }]
    );
}

#[test]
fn what_is_left_of_a_trimmed_log_begins_with_a_snapshot() {
    let mut bank = replica();
    bank.skip();
    assert_eq!(snapshot(&bank), None);
    assert_eq!(apply(&mut bank, &encode("deposit ada 1")), []);
    assert_eq!(bank.halted(), Some(&Halted::Headless));
}

#[test]
fn an_unknown_command_or_frame_halts_a_replica_for_good() {
    for bytes in [
        encode("rob the bank"),
        Frame::Unknown { kind: 9 }.encode().unwrap(),
    ] {
        let mut bank = replica();
        assert_eq!(apply(&mut bank, &bytes), []);
        assert!(bank.halted().is_some());
        assert_eq!(apply(&mut bank, &encode("deposit ada 1")), []);
        assert_eq!(snapshot(&bank), None);
    }
}

#[test]
fn a_snapshot_torn_by_the_end_of_its_stream_is_none() {
    let mut bank = replica();
    // More than one part.
    let name = "x".repeat(2 << 20);
    apply(&mut bank, &encode(&format!("deposit {name} 1")));
    let all = snapshot(&bank).unwrap();
    let mut other = replica();
    other.skip();
    assert_eq!(apply(&mut other, &all[..all.len() - 1]), []);
    assert!(other.end_of_stream().is_some());
    assert_eq!(apply(&mut other, &all), [restored(false, &all)]);
    assert_eq!(snapshot(&other), Some(all));
}

#[test]
fn damage_halts_a_replica_for_good_and_says_where() {
    let mut bank = replica();
    let first = encode("deposit ada 1");
    let mut second = encode("deposit bob 2");
    second[12] ^= 1;
    assert_eq!(apply(&mut bank, &[first.clone(), second].concat()).len(), 1);
    let halted = bank.apply_next().unwrap_err();
    assert!(matches!(
        halted,
        Halted::Broken(broken) if broken.position == first.len() as u64 && broken.why == NoFrame::Checksum
    ));
    assert_eq!(
        halted.to_string(),
        "what the log holds is damaged: the stream is broken at byte 21: the checksum of the frame there is wrong"
    );
    assert_eq!(bank.halted(), Some(&halted));
    assert!(snapshot(&bank).is_none());
    let before = state(&bank);
    assert_eq!(bank.end_of_stream(), None);
    bank.skip();
    assert_eq!(apply(&mut bank, &first), []);
    assert_eq!(bank.apply_next(), Err(halted));
    assert_eq!(state(&bank), before);
}

#[test]
fn a_frame_torn_by_the_end_of_its_stream_is_told_and_halts_nothing() {
    let mut bank = replica();
    let frame = encode("deposit ada 1");
    apply(&mut bank, &[&frame[..], &frame[..9]].concat());
    let torn = Torn {
        position: frame.len() as u64,
        bytes: 9,
    };
    assert_eq!(bank.end_of_stream(), Some(torn));
    assert_eq!(apply(&mut bank, &frame).len(), 1);
    assert_eq!(bank.halted(), None);
}

#[test]
fn the_example_runs() {
    bank::main().unwrap();
}

fn steps() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let name = || prop_oneof![Just("ada"), Just("bob"), Just("eve")];
    let step = prop_oneof![
        (name(), 0u64..9).prop_map(|(to, n)| encode(&format!("deposit {to} {n}"))),
        (0u64..99).prop_map(|time| Frame::OpenSession { time }.encode().unwrap()),
        (1u64..6, 0u64..6, 0u64..99, name(), name(), 0u64..9).prop_map(
            |(client, sequence, time, from, to, n)| {
                session(client, sequence, time, &format!("transfer {from} {to} {n}"))
            }
        ),
    ];
    proptest::collection::vec(step, 0..40)
}

proptest! {
    #[test]
    fn a_replica_that_began_at_a_snapshot_is_like_all_others(steps in steps(), at in 0usize..40, torn in 0usize..9) {
        let mut whole = replica();
        let mut late = replica();
        let mut answers = Vec::new();
        for (n, step) in steps.iter().enumerate() {
            if n == at.min(steps.len() - 1) {
                // A leader died in the middle of a frame, and its successor begins with a snapshot.
                prop_assert_eq!(apply(&mut whole, &step[..torn.min(step.len() - 1)]), []);
                prop_assert_eq!(whole.end_of_stream().is_some(), torn.min(step.len() - 1) > 0);
                let all = snapshot(&whole).unwrap();
                prop_assert_eq!(apply(&mut whole, &all), [restored(true, &all)]);
                late.skip();
                prop_assert_eq!(apply(&mut late, &all), [restored(false, &all)]);
                answers.clear();
            }
            answers.extend(apply(&mut whole, step));
            if n >= at.min(steps.len() - 1) {
                apply(&mut late, step);
            }
        }
        prop_assert!(whole.halted().is_none());
        if !steps.is_empty() {
            prop_assert_eq!(snapshot(&whole), snapshot(&late));
            prop_assert_eq!(state(&whole), state(&late));
        }
    }

    #[test]
    fn no_bytes_make_a_replica_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), frames in proptest::collection::vec((0u8..16, proptest::collection::vec(any::<u8>(), 0..60)), 0..8)) {
        apply(&mut replica(), &bytes);
        let mut bank = replica();
        bank.skip();
        for (kind, body) in frames {
            // With a right checksum, so that the body is looked at.
            let mut crc = crc32c::crc32c(&[kind]);
            if kind == 0 { crc = 0; }
            let crc = crc32c::crc32c_append(crc, &body);
            let mut frame = (u32::from(kind) << 28 | body.len() as u32).to_le_bytes().to_vec();
            frame.extend(crc.to_le_bytes());
            frame.extend(body);
            apply(&mut bank, &frame);
        }
    }
}
