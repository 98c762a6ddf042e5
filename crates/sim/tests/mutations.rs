//! The simulator sees broken rules: some of those that show soon, within few seeds each. The whole
//! list takes longer: `logberg-lab sim --mutations`, docs/mutations.md.

use paxos::mutation::Mutation;
use sim::mutations::{Broken, Search, first_violation};

/// Twice as many as most of them take: a change of the workload moves them among the seeds.
const SEEDS: u64 = 48;

/// One of each kind: promises, acceptances, choosing, disks, names, writers, readers, deletions,
/// versions, wishes, members, the directory's answers, logs that have ended, clients.
const SOON: [Mutation; 21] = [
    Mutation::PromiseBeforeDurable,
    Mutation::BoundSlotPromisedFree,
    Mutation::AckBeforeDurability,
    Mutation::ChosenWithoutAQuorum,
    Mutation::CheckpointWithoutAcceptances,
    Mutation::StreamNumberReused,
    Mutation::AcknowledgedWhenProposed,
    Mutation::MissingBytesAreAnEnd,
    Mutation::DeletedLogResurrected,
    Mutation::NewerVersionBeforeAgreed,
    Mutation::VersionRaisedTooEarly,
    Mutation::OlderWishTakesEffect,
    Mutation::HoldsBelowNotAsked,
    Mutation::DirectoryAnsweredWithoutBarrier,
    Mutation::BarrierAnsweredWithoutRound,
    Mutation::BarrierNotReached,
    Mutation::SealedLogTakesStreams,
    Mutation::OkBeforeTheLogHeard,
    Mutation::ResumedOneByteLate,
    Mutation::EarlierStreamsCounted,
    Mutation::ReadOnPastItsPlace,
];

fn unseen(asserts: bool) -> Vec<Mutation> {
    let search = Search {
        seeds: 0..SEEDS,
        repeats: 1,
        asserts,
        jobs: 2,
    };
    let unseen = |mutation: &Mutation| search.look_for(*mutation).first().is_none();
    SOON.into_iter().filter(unseen).collect()
}

#[test]
fn who_breaks_no_rule_is_not_accused() {
    let _nothing = Broken::new(None, true);
    let violation = first_violation(0..3, 2);
    assert!(violation.is_none(), "{violation:?}");
}

#[test]
fn a_broken_rule_is_seen() {
    assert_eq!(unseen(true), [], "nobody noticed within {SEEDS} seeds");
}

#[test]
fn a_broken_rule_is_seen_from_outside_too() {
    assert_eq!(unseen(false), [], "nobody noticed within {SEEDS} seeds");
}
