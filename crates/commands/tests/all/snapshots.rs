//! Snapshots in parts: the same bytes however they are made, and no state out of parts that are not one
//! snapshot's, in their order.

use crate::bank::Bank;
use commands::{
    Applied, Frame, Halted, Layout, Misplaced, Replica, SessionBounds, StateMachine, Unknown,
};
use proptest::prelude::*;
use proptest::sample::Index;

const PART_BYTES: usize = 1 << 20;
const PART_HEADER_BYTES: usize = 16;
const ANSWER: &[u8] = b"1";

/// A bank whose snapshots have no checksum of the whole.
#[derive(Default)]
struct Plain(Bank);

impl StateMachine for Plain {
    type Place = <Bank as StateMachine>::Place;
    type Restoring = <Bank as StateMachine>::Restoring;

    const LAYOUT: Layout = Layout::Plain;

    fn apply(&mut self, command: &[u8]) -> Result<Vec<u8>, Unknown> {
        self.0.apply(command)
    }

    fn snapshot(&self, at: &mut Self::Place, into: &mut Vec<u8>) -> bool {
        self.0.snapshot(at, into)
    }

    fn restore(into: &mut Self::Restoring, bytes: &[u8]) -> Result<(), Unknown> {
        Bank::restore(into, bytes)
    }

    fn restored(&mut self, snapshot: Self::Restoring) -> Result<(), Unknown> {
        self.0.restored(snapshot)
    }
}

type Accounts = Vec<(usize, u64)>;

/// A replica with accounts whose names are so long.
fn replica<M: StateMachine + Default>(accounts: &Accounts) -> Replica<M> {
    let mut replica = Replica::new(M::default(), SessionBounds::default());
    replica.push(&Frame::OpenSession { time: 7 }.encode().unwrap());
    for (n, (length, of)) in accounts.iter().enumerate() {
        let deposit = format!("deposit {n:03}{} {of}", "x".repeat(*length));
        replica.push(&commands::encode(deposit.as_bytes()).unwrap());
    }
    let once = Frame::Session {
        client: 1,
        sequence: 5,
        time: 9,
        command: b"deposit ada 1",
    };
    replica.push(&once.encode().unwrap());
    while replica.apply_next().unwrap().is_some() {}
    replica
}

fn empty<M: StateMachine + Default>() -> Replica<M> {
    let mut replica = Replica::new(M::default(), SessionBounds::default());
    replica.skip();
    replica
}

fn state<M: StateMachine>(machine: &M) -> Vec<u8> {
    let (mut at, mut state) = (M::Place::default(), Vec::new());
    while machine.snapshot(&mut at, &mut state) {}
    state
}

/// The format, written down once more: all at once.
fn expected<M: StateMachine>(replica: &Replica<M>, accounts: &Accounts) -> Vec<Vec<u8>> {
    let mut content = Vec::new();
    let applied = accounts.len() as u64 + 2;
    for number in [applied, 9, 1, 1, 1, 5, 9, ANSWER.len() as u64] {
        content.extend(number.to_le_bytes());
    }
    content.extend(ANSWER);
    let state = state(&**replica);
    content.extend((state.len() as u64).to_le_bytes());
    content.extend(state);
    let mut bytes = match M::LAYOUT {
        Layout::Plain => vec![1],
        Layout::Checked => [&[2][..], &crc32c::crc32c(&content).to_le_bytes()].concat(),
    };
    bytes.extend(content);
    in_parts(&bytes)
}

fn in_parts(bytes: &[u8]) -> Vec<Vec<u8>> {
    let chunks = bytes.chunks(PART_BYTES);
    let parts = chunks.len() as u32;
    let frames = (0..)
        .zip(chunks)
        .map(|(part, bytes)| Frame::SnapshotPart { part, parts, bytes });
    frames.map(|frame| frame.encode().unwrap()).collect()
}

/// The results of the frames.
fn take<M: StateMachine>(
    replica: &mut Replica<M>,
    frames: &[Vec<u8>],
) -> Result<Vec<Applied>, Halted> {
    let mut all = Vec::new();
    for frame in frames {
        replica.push(frame);
        while let Some(applied) = replica.apply_next()? {
            all.push(applied);
        }
    }
    Ok(all)
}

fn restored(frames: &[Vec<u8>], was_equal: bool) -> Applied {
    let bytes = frames
        .iter()
        .map(|f| (f.len() - PART_HEADER_BYTES) as u64)
        .sum();
    Applied::Snapshot { was_equal, bytes }
}

/// Up to some four parts.
fn accounts() -> impl Strategy<Value = Accounts> {
    let length = prop_oneof![3 => 1usize..300, 1 => 100_000usize..900_000];
    proptest::collection::vec((length, any::<u64>()), 0..8)
}

fn three_parts() -> Accounts {
    vec![(700_000, 1), (700_000, 2), (700_000, 3)]
}

fn is_as_expected<M: StateMachine + Default>(accounts: &Accounts) {
    let whole = replica::<M>(accounts);
    let frames: Vec<Vec<u8>> = whole.snapshot().unwrap().collect();
    assert!(frames == expected(&whole, accounts), "other bytes");
    assert!(
        frames
            .iter()
            .all(|frame| frame.len() <= PART_BYTES + PART_HEADER_BYTES)
    );
    let mut late = empty::<M>();
    assert_eq!(take(&mut late, &frames), Ok(vec![restored(&frames, false)]));
    assert!(state(&*late) == state(&*whole), "another state");
    let mut same = replica::<M>(accounts);
    assert_eq!(take(&mut same, &frames), Ok(vec![restored(&frames, true)]));
    let mut other = replica::<M>(&vec![(1, 1)]);
    other.push(&commands::encode(b"deposit eve 1").unwrap());
    other.apply_next().unwrap();
    assert_eq!(
        take(&mut other, &frames),
        Ok(vec![restored(&frames, false)])
    );
}

#[test]
fn a_command_between_parts_halts_a_replica() {
    let frames: Vec<Vec<u8>> = replica::<Bank>(&three_parts())
        .snapshot()
        .unwrap()
        .collect();
    for mut late in [empty::<Bank>(), replica(&three_parts())] {
        let before = state(&*late);
        let command = commands::encode(b"deposit ada 1").unwrap();
        let mixed = [
            frames[0].clone(),
            command,
            frames[1].clone(),
            frames[2].clone(),
        ];
        let expected = 1;
        let halted = Halted::Misplaced(Misplaced::Interrupted { expected });
        assert_eq!(take(&mut late, &mixed), Err(halted));
        assert!(state(&*late) == before);
    }
}

#[test]
fn a_snapshot_goes_on_where_it_was_left_unless_something_was_applied() {
    let mut bank = replica::<Bank>(&three_parts());
    let all: Vec<Vec<u8>> = bank.snapshot().unwrap().collect();
    assert_eq!(all.len(), 3);
    let mut mark = bank.snapshot().unwrap().mark();
    let mut resumed = Vec::new();
    for _ in 0..3 {
        let mut snapshot = bank.resume(mark).unwrap();
        resumed.extend(snapshot.next());
        mark = snapshot.mark();
    }
    assert!(resumed == all);
    assert_eq!(bank.resume(mark.clone()).unwrap().next(), None);
    bank.push(&commands::encode(b"deposit ada 1").unwrap());
    bank.apply_next().unwrap();
    assert!(bank.resume(mark).is_none());
}

#[test]
fn lengths_that_cannot_be_halt_a_replica_at_once() {
    let head = |sessions: u64| {
        let numbers = [0, 0, 0, sessions].into_iter();
        let numbers: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        [&[1][..], &numbers].concat()
    };
    let numbers =
        |numbers: &[u64]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
    for claimed in [u64::MAX, 1 << 62, 1 << 41] {
        for content in [
            [head(1), numbers(&[1, 1, 1, claimed])].concat(),
            [head(0), numbers(&[claimed])].concat(),
        ] {
            // More is to come, or so it says.
            let first = Frame::SnapshotPart {
                part: 0,
                parts: 1000,
                bytes: &content,
            };
            let mut late = empty::<Bank>();
            let took = take(&mut late, &[first.encode().unwrap()]);
            assert!(
                matches!(took, Err(Halted::Snapshot(_))),
                "{claimed}: {took:?}"
            );
        }
        let mut late = empty::<Bank>();
        let took = take(&mut late, &in_parts(&head(claimed)));
        assert!(
            matches!(took, Err(Halted::Snapshot(_))),
            "{claimed}: {took:?}"
        );
    }
}

#[test]
fn a_part_of_no_snapshot_halts_a_replica() {
    for (part, parts) in [(0, 0), (1, 1), (7, 3)] {
        let bytes = &[1];
        let frame = Frame::SnapshotPart { part, parts, bytes };
        let mut late = empty::<Bank>();
        let took = take(&mut late, &[frame.encode().unwrap()]);
        let halted = Halted::Misplaced(Misplaced::Number { part, parts });
        assert_eq!(took, Err(halted));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_bytes_are_those_of_the_format(accounts in accounts()) {
        is_as_expected::<Bank>(&accounts);
        is_as_expected::<Plain>(&accounts);
    }

    /// Each part comes one to three times.
    #[test]
    fn repeated_parts_change_nothing(times in proptest::collection::vec(1usize..4, 3)) {
        let whole = replica::<Bank>(&three_parts());
        let frames: Vec<Vec<u8>> = whole.snapshot().unwrap().collect();
        let repeated: Vec<Vec<u8>> = frames.iter().zip(&times)
            .flat_map(|(frame, times)| vec![frame.clone(); *times])
            .collect();
        for (mut late, was_equal) in [(empty::<Bank>(), false), (replica(&three_parts()), true)] {
            prop_assert_eq!(take(&mut late, &repeated), Ok(vec![restored(&frames, was_equal)]));
            prop_assert!(state(&*late) == state(&*whole));
        }
    }

    /// Drawn parts, in any order: there is a state only if parts 0, 1, 2 came so, perhaps repeated, after
    /// a part 0 that began them; anything else halts.
    #[test]
    fn parts_in_another_order_are_no_snapshot(order in proptest::collection::vec(0usize..3, 0..7)) {
        let whole = replica::<Plain>(&three_parts());
        let frames: Vec<Vec<u8>> = whole.snapshot().unwrap().collect();
        let drawn: Vec<Vec<u8>> = order.iter().map(|n| frames[*n].clone()).collect();
        let (mut next, mut wholes, mut last, mut is_sound) = (0, 0, None, true);
        for n in &order {
            match *n {
                0 => next = 1,
                again if Some(again) == last => continue,
                in_order if in_order == next => next += 1,
                _ => is_sound = false,
            }
            if !is_sound {
                break;
            }
            last = Some(*n);
            if next == 3 {
                (next, wholes) = (0, wholes + 1);
            }
        }
        let mut late = empty::<Plain>();
        let took = take(&mut late, &drawn);
        match is_sound {
            true => prop_assert_eq!(took.map(|all| all.len()), Ok(wholes)),
            false => prop_assert!(
                matches!(took, Err(Halted::Misplaced(Misplaced::Order { .. }))),
                "{:?}", took
            ),
        }
        prop_assert!(wholes == 0 || state(&*late) == state(&*whole));
    }

    /// A part of another snapshot that is just as long.
    #[test]
    fn a_foreign_part_makes_no_state(at in 1usize..3) {
        let whole = replica::<Bank>(&three_parts());
        let mut frames: Vec<Vec<u8>> = whole.snapshot().unwrap().collect();
        let foreign = replica::<Bank>(&vec![(700_000, 1), (700_000, 7), (700_000, 9)]);
        let foreign: Vec<Vec<u8>> = foreign.snapshot().unwrap().collect();
        prop_assert_eq!(frames.len(), foreign.len());
        frames[at] = foreign[at].clone();
        for mut late in [empty::<Bank>(), replica(&three_parts())] {
            let before = state(&*late);
            let took = take(&mut late, &frames);
            prop_assert!(matches!(took, Err(Halted::Snapshot(_))), "{:?}", took);
            prop_assert!(state(&*late) == before);
        }
        let longer: Accounts = [three_parts(), three_parts()].concat();
        let longer: Vec<Vec<u8>> = replica::<Bank>(&longer).snapshot().unwrap().collect();
        let took = take(&mut empty::<Bank>(), &[frames[0].clone(), longer[1].clone()]);
        prop_assert!(matches!(took, Err(Halted::Misplaced(Misplaced::Foreign { .. }))), "{:?}", took);
    }

    #[test]
    fn a_flipped_bit_makes_no_state(bit in any::<Index>()) {
        let whole = replica::<Plain>(&three_parts());
        let mut bytes: Vec<u8> = whole.snapshot().unwrap().flatten().collect();
        let bit = bit.index(8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut late = empty::<Plain>();
        let took = take(&mut late, &[bytes]);
        let torn = late.end_of_stream();
        match took {
            Ok(applied) => prop_assert!(applied.is_empty() && torn.is_some()),
            Err(halted) => prop_assert!(matches!(halted, Halted::Broken(_)), "{:?}", halted),
        }
        prop_assert!(state(&*late) == state(&*empty::<Plain>()));
    }
}
