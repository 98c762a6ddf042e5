//! The admission of a node as a peer: its claim, the proof of that, and whether its frames are heard.

use formats::DiskId;
use formats::proof::{Challenge, PublicKey, Signature};
use formats::version::Speaks;
use ops::ConnId;
use paxos::mutation::{self, Mutation};
use store::past::Lacks;
use store::past::met::Seen;
use thiserror::Error;
use wire::Standing;

pub struct Admission {
    /// The connection on which the node speaks.
    incoming: Option<ConnId>,
    /// Its last start that was admitted, by this start of ours or by an earlier one.
    seen: Option<Seen>,
    /// The identity that it claims, on its control connection.
    claim: Option<Seen>,
    /// The words of a greeting that is not proven yet.
    unproven: Option<SaidOfItself>,
    /// The proof of its identity, if its disk has a key.
    proof: Option<Proof>,
    /// Whether its frames are heard.
    entry: Entry,
    /// The start of it that is refused, and why: it hears so when it greets again.
    lacks_start: Option<(Seen, Lacks)>,
    /// The reason why the last claimant to be this node was not it, but an old copy of it.
    old_copy: Option<String>,
}

/// A node's word of itself, in its greeting.
pub struct SaidOfItself {
    pub standing: Standing,
    pub address: String,
    /// Whether the directory knows its disk for that of the node.
    pub is_listed: bool,
    /// The versions that it speaks, on a control connection.
    pub speaks: Option<Speaks>,
    /// The free bytes that its disk keeps for other things than clients' bytes.
    pub reserve_bytes: Option<u64>,
}

/// The means by which a disk with a key proves a start of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub key: PublicKey,
    pub signature: Signature,
    /// The challenge, to be signed by the first frame.
    pub challenge: Challenge,
}

/// Whether a peer's frames are heard on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    Open,
    /// The node is to say first what its disk has been through.
    AwaitsPast,
    /// The node waits until this version of what is known of all stands on our disk.
    AwaitsDisk(u64),
}

/// The reason why a node that greets is not taken for the node whose id it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAdmitted {
    #[error(
        "it has another disk than the node of that id; a node that lost its disk joins anew, with --join and an empty directory"
    )]
    OtherDisk,
    #[error("its incarnation went back; its directory is an old copy and must not be used")]
    WentBack,
    #[error("two processes claim the same start of one node; its directory was copied")]
    Copied,
    #[error(
        "another start of that node is connected and speaks; if it was stopped, this one is heard in a moment"
    )]
    InUse,
    #[error(
        "it says that it is its start number {claimed}, and {known} is the last that this node knows: nobody starts so often; if its directory is sound, restart this node"
    )]
    TooFar { claimed: u32, known: u32 },
    #[error(transparent)]
    Lacks(Lacks),
}

impl NotAdmitted {
    /// Whether the node must not go on: others count on what it forgot.
    pub fn is_old_copy(self) -> bool {
        matches!(
            self,
            NotAdmitted::WentBack | NotAdmitted::Copied | NotAdmitted::Lacks(_)
        )
    }
}

/// The most starts that a node may have made since this one met it last. A start number that is believed is
/// never gone back from, so one that nobody can have come to must not be believed.
const STARTS_MAX: u32 = 1 << 20;
/// The highest start of a node that is met first: far enough from the end that it can start as often as it likes.
const FIRST_INCARNATION_MAX: u32 = 1 << 30;

/// Checks that the claimant may be the node that was met.
fn goes_on_as(seen: Seen, claim: Seen, is_in_use: bool) -> Result<(), NotAdmitted> {
    if claim.disk != seen.disk {
        return Err(NotAdmitted::OtherDisk);
    }
    let anybody = mutation::is(Mutation::OlderStartAdmitted);
    if claim.incarnation < seen.incarnation && !anybody {
        return Err(NotAdmitted::WentBack);
    }
    if claim.incarnation <= seen.incarnation {
        return match claim.nonce == seen.nonce || anybody {
            true => Ok(()),
            false => Err(NotAdmitted::Copied),
        };
    }
    match is_in_use {
        true => Err(NotAdmitted::InUse),
        false => Ok(()),
    }
}

impl Admission {
    pub fn new() -> Admission {
        Admission {
            incoming: None,
            seen: None,
            claim: None,
            unproven: None,
            proof: None,
            entry: Entry::Open,
            lacks_start: None,
            old_copy: None,
        }
    }

    pub fn incoming(&self) -> Option<ConnId> {
        self.incoming
    }

    pub fn claim(&self) -> Option<Seen> {
        self.claim
    }

    pub fn proof(&self) -> Option<Proof> {
        self.proof
    }

    pub fn entry(&self) -> Entry {
        self.entry
    }

    /// The reason why the last claimant to be this node was an old copy of it.
    pub fn old_copy(&self) -> Option<&str> {
        self.old_copy.as_deref()
    }

    /// The disk that the node said it has.
    pub fn disk(&self) -> Option<DiskId> {
        self.claim.or(self.seen).map(|seen| seen.disk)
    }

    /// Whether its frames are heard, as this start.
    pub fn is_open_as(&self, claim: Seen) -> bool {
        self.claim == Some(claim) && self.entry == Entry::Open
    }

    /// Recalls the start that an earlier start of ours met.
    pub fn recall(&mut self, known: Option<Seen>) {
        self.seen = self.seen.or(known);
    }

    /// ‡ Another disk, a lower incarnation, or an equal one with another nonce is somebody else.
    ///
    /// `is_listed`: the directory says that the node of this id has this disk, which is the only proof there is.
    /// Without it (this node has not read so far) a claim holds until one comes that is listed.
    /// `is_in_use`: the node that was admitted last is there and speaks.
    pub fn admit(&self, claim: Seen, is_listed: bool, is_in_use: bool) -> Result<(), NotAdmitted> {
        let anybody = mutation::is(Mutation::EmptyDiskKeepsItsId);
        let before = self.seen.filter(|_| !anybody);
        match before {
            Some(before) if before.disk != claim.disk && is_listed => {}
            Some(before) => goes_on_as(before, claim, is_in_use)?,
            None => {}
        }
        let known = before.filter(|before| before.disk == claim.disk);
        let known = known.map_or(0, |before| before.incarnation);
        let limit = match before {
            Some(_) => known.saturating_add(STARTS_MAX),
            None => FIRST_INCARNATION_MAX,
        };
        if claim.incarnation > limit && !anybody {
            let (claimed, known) = (claim.incarnation, known);
            return Err(NotAdmitted::TooFar { claimed, known });
        }
        if let Some((refused, lacks)) = self.lacks_start
            && refused == claim
        {
            return Err(NotAdmitted::Lacks(lacks));
        }
        Ok(())
    }

    /// Notes that the last claimant to be this node was an old copy of it.
    pub fn call_old(&mut self, why: &NotAdmitted) {
        self.old_copy = Some(why.to_string());
    }

    /// Refuses this start of the node, which lacks what an earlier one told.
    pub fn refuse(&mut self, claim: Seen, lacks: Lacks) {
        self.lacks_start = Some((claim, lacks));
        self.old_copy = Some(lacks.to_string());
    }

    /// Notes that the node greeted on a control connection, and is to say what its disk has been through.
    /// Returns its connection of before.
    pub fn on_greeted(
        &mut self,
        conn: ConnId,
        claim: Seen,
        proof: Option<Proof>,
    ) -> Option<ConnId> {
        self.claim = Some(claim);
        self.proof = proof;
        self.entry = Entry::AwaitsPast;
        self.incoming.replace(conn)
    }

    /// Notes the end of a connection. True if the node spoke there.
    pub fn on_ended(&mut self, conn: ConnId) -> bool {
        self.incoming
            .take_if(|incoming| *incoming == conn)
            .is_some()
    }

    /// Keeps the node's word, which counts once it is proven.
    pub fn keep_unproven(&mut self, said: SaidOfItself) {
        self.unproven = Some(said);
    }

    pub fn take_unproven(&mut self) -> Option<SaidOfItself> {
        self.unproven.take()
    }

    /// Admits the node, which is the one it says. Its frames are heard once that stands on our disk.
    pub fn on_admitted(&mut self, claim: Seen, entry: Entry) {
        self.seen = Some(claim);
        self.old_copy = None;
        self.entry = entry;
    }

    /// Opens the entry once this version stands on our disk. Returns the connection that is heard from now on.
    pub fn open(&mut self, version: u64) -> Option<ConnId> {
        match self.entry {
            Entry::AwaitsDisk(awaited) if awaited <= version => {
                self.entry = Entry::Open;
                self.incoming
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(disk: u8, incarnation: u32, nonce: u64) -> Seen {
        Seen {
            disk: DiskId([disk; 16]),
            incarnation,
            nonce,
        }
    }

    fn admit(
        peer: &mut Admission,
        claim: Seen,
        is_listed: bool,
        in_use: bool,
    ) -> Result<(), NotAdmitted> {
        peer.admit(claim, is_listed, in_use)?;
        peer.seen = Some(claim);
        Ok(())
    }

    #[test]
    fn a_peer_with_another_disk_an_older_start_or_a_copy_is_refused() {
        let mut peer = Admission::new();
        let mut admit = |seen: Seen| admit(&mut peer, seen, true, false);
        assert_eq!(admit(seen(1, 4, 9)), Ok(()));
        assert_eq!(admit(seen(1, 4, 9)), Ok(()), "the same start again");
        assert_eq!(admit(seen(1, 3, 1)), Err(NotAdmitted::WentBack));
        assert_eq!(admit(seen(1, 4, 8)), Err(NotAdmitted::Copied));
        assert_eq!(admit(seen(1, 5, 8)), Ok(()), "the next start");
    }

    #[test]
    fn only_the_disk_that_the_directory_lists_takes_a_name_from_who_has_it() {
        let mut peer = Admission::new();
        assert_eq!(
            admit(&mut peer, seen(1, 4, 9), false, false),
            Ok(()),
            "not read yet"
        );
        let other = admit(&mut peer, seen(2, 5, 1), false, false);
        assert_eq!(other, Err(NotAdmitted::OtherDisk));
        assert_eq!(
            admit(&mut peer, seen(2, 3, 1), true, true),
            Ok(()),
            "it is the real one"
        );
        let former = admit(&mut peer, seen(1, 6, 9), false, false);
        assert_eq!(former, Err(NotAdmitted::OtherDisk));
    }

    #[test]
    fn a_name_in_use_is_not_taken_over_by_a_higher_number() {
        let mut peer = Admission::new();
        assert_eq!(admit(&mut peer, seen(1, 4, 9), true, false), Ok(()));
        let taken = admit(&mut peer, seen(1, 5, 1), true, true);
        assert_eq!(taken, Err(NotAdmitted::InUse));
        assert_eq!(
            admit(&mut peer, seen(1, 4, 9), true, true),
            Ok(()),
            "it is itself"
        );
        assert_eq!(
            admit(&mut peer, seen(1, 5, 1), true, false),
            Ok(()),
            "it fell silent"
        );
    }

    #[test]
    fn nobody_starts_four_billion_times() {
        let mut peer = Admission::new();
        assert!(admit(&mut peer, seen(1, u32::MAX, 1), true, false).is_err());
        assert_eq!(admit(&mut peer, seen(1, 700, 1), true, false), Ok(()));
        let claimed = u32::MAX;
        let far = admit(&mut peer, seen(1, claimed, 2), true, false);
        assert_eq!(
            far,
            Err(NotAdmitted::TooFar {
                claimed,
                known: 700
            })
        );
        assert_eq!(
            admit(&mut peer, seen(1, 701, 3), true, false),
            Ok(()),
            "the real one"
        );
        let long = admit(&mut peer, seen(1, 701 + STARTS_MAX, 4), true, false);
        assert_eq!(long, Ok(()), "it was away for long");
    }
}
