//! No byte is lost and none is repeated, whatever goes wrong in whatever order.

use std::io::Write;

use crate::fake::{AppendFault, CloseFault, FakeCluster, payload};
use client::AppendOptions;
use client::admin::StreamEnd;
use proptest::prelude::*;

fn append_fault() -> impl Strategy<Value = AppendFault> {
    let amounts = (0usize..300_000, 0.0..=1.0f64, 0.0..=1.0f64, any::<bool>());
    let words = prop_oneof![
        Just(""),
        Just("error not-leader: Deposed.\n"),
        Just("error shutting-down: Stopping.\n"),
        Just("error no-quorum: Alone.\n"),
        Just("ack"),
    ];
    prop_oneof![
        6 => (amounts, words).prop_map(|((receive, store, acknowledge, change_leader), last_words)| {
            let store = (receive as f64 * store) as usize;
            AppendFault::Cut {
                receive,
                store,
                acknowledge: (store as f64 * acknowledge) as usize,
                change_leader,
                last_words,
            }
        }),
        1 => Just(AppendFault::DropBefore),
        2 => Just(AppendFault::LoseAnswer),
        2 => Just(AppendFault::Deposed),
        1 => Just(AppendFault::Answer(b"error not-leader: Ask again.\n".to_vec())),
        1 => Just(AppendFault::Answer(b"error no-quorum: Alone.\n".to_vec())),
        1 => Just(AppendFault::Answer(b"stream 1".to_vec())),
    ]
}

fn close_fault() -> impl Strategy<Value = CloseFault> {
    prop_oneof![
        Just(CloseFault::DropBefore),
        Just(CloseFault::LoseAnswer),
        Just(CloseFault::Cut),
        Just(CloseFault::CutInSilence),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_fault_loses_or_repeats_a_byte(
        appends in proptest::collection::vec(append_fault(), 0..7),
        closes in proptest::collection::vec(close_fault(), 0..3),
        pieces in proptest::collection::vec((1usize..100_000, any::<bool>()), 0..12),
        seed in any::<u64>(),
    ) {
        let cluster = FakeCluster::start(3);
        cluster.plan_appends(appends);
        cluster.plan_closes(closes);
        let length = pieces.iter().map(|(count, _)| count).sum();
        let bytes = payload(length, seed);

        let mut appender = cluster.client().append("main", AppendOptions::default()).expect("free");
        let mut rest = &bytes[..];
        for (count, flush) in pieces {
            let (piece, later) = rest.split_at(count);
            appender.write_all(piece).expect("it resumes");
            if flush {
                appender.flush().expect("it resumes");
            }
            rest = later;
        }
        let closed = appender.close().expect("it resumes");

        let truth = cluster.truth();
        let (held, end) = truth.chain(Some(closed.stream)).expect("the chain");
        prop_assert_eq!(held.len(), bytes.len());
        prop_assert!(held == bytes);
        prop_assert_eq!(end, StreamEnd::Closed);
        prop_assert_eq!(closed.position, length as u64);
        prop_assert_eq!(appender.acknowledged(), length as u64);
        // Other outputs are openings that nobody heard of; they hold nothing.
        let (everything, _) = truth.chain(None).expect("all");
        prop_assert_eq!(everything.len(), bytes.len());
    }
}
