//! Steps of handing slots over that come late, twice, or in another order: each is refused by what stands in the group's own log.

use std::collections::BTreeMap;
use std::convert::Infallible;

use door::handover::{Change, Piece, Row, Span, Step, Told, take};
use kv::{Page, Rows};

use crate::doors::{GROUPS, Street};
use crate::doorstep::Hand;
use crate::stage::{MS, done};
use resp::Value;

/// The rows of a group.
#[derive(Default)]
struct Group(BTreeMap<Vec<u8>, Vec<u8>>);

impl Rows for Group {
    type Stop = Infallible;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Infallible> {
        let mut all = self.0.range(from.to_vec()..to.to_vec());
        let rows = all.by_ref().take(rows_max);
        let rows = rows.map(|(key, value)| (key.clone(), value.clone()));
        Ok(Page {
            rows: rows.collect(),
            is_last: all.next().is_none(),
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Infallible> {
        self.0.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Infallible> {
        self.0.remove(key);
        Ok(())
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Infallible> {
        self.0.retain(|key, _| !key.starts_with(prefix));
        Ok(())
    }

    fn time_ms(&self) -> u64 {
        0
    }

    fn random(&mut self) -> u64 {
        0
    }
}

const A: u32 = 2;
const B: u32 = 3;
const SPAN: Span = Span { first: 5, last: 9 };

fn piece(wish: u32) -> Piece {
    Piece { span: SPAN, wish }
}

impl Group {
    fn take(&mut self, step: Step) -> Told {
        let Ok(told) = take(self, step);
        told
    }

    fn leave(&mut self, wish: u32) -> Told {
        self.take(Step::Leave {
            piece: piece(wish),
            to: B,
            founds: vec![SPAN],
        })
    }

    /// B begins to copy what A noted under that number.
    fn come(&mut self, changes: u64) {
        let piece = piece(2);
        let from = A;
        let come = Step::Come {
            piece,
            from,
            changes,
        };
        assert_eq!(self.take(come), Told::Done);
    }
}

fn leaving(told: &Told) -> u64 {
    match told {
        Told::Leaving { changes } => *changes,
        other => panic!("{other:?}"),
    }
}

/// A group keeps a slot by a wish, and hears of an earlier one that has it leave.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_wish_that_was_overtaken_takes_no_slot_away() {
    let mut a = Group::default();
    let number = leaving(&a.leave(2));
    let (piece_now, founds) = (piece(3), Vec::new());
    let keep = Step::Keep {
        piece: piece_now,
        founds,
    };
    assert_eq!(a.take(keep), Told::Done);
    assert_eq!(a.leave(2), Told::Superseded);
    let (piece, to, changes) = (piece(2), B, number);
    let freeze = Step::Freeze {
        piece,
        to,
        changes,
        from: 0,
    };
    assert_eq!(a.take(freeze), Told::Superseded);
    assert!(matches!(a.leave(4), Told::Leaving { .. }));
}

/// A group wants to give up a copy of slots that are frozen for it already: it gets them, or nobody would have them.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_is_frozen_for_a_group_is_not_given_up() {
    let (mut a, mut b) = (Group::default(), Group::default());
    let changes = leaving(&a.leave(2));
    b.come(changes);
    let (piece, to) = (piece(2), B);
    let freeze = |changes| Step::Freeze {
        piece,
        to,
        changes,
        from: 0,
    };
    let last = a.take(freeze(changes));
    assert!(matches!(
        last,
        Told::Tail {
            frozen: Some(_),
            is_all: true,
            ..
        }
    ));
    assert_eq!(a.take(freeze(changes)), last, "it is asked for again");
    let told = a.take(Step::Release { piece, to, changes });
    assert_eq!(told, Told::Elsewhere { group: B });
    // Before it is frozen it may be, and is not frozen any more then.
    let mut c = Group::default();
    let changes = leaving(&c.leave(2));
    assert_eq!(c.take(Step::Release { piece, to, changes }), Told::Done);
    let late = c.take(freeze(changes));
    assert_eq!(late, Told::Superseded);
}

/// Pages that come twice, or before the one in front of them.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_page_of_another_place_is_not_taken() {
    let mut b = Group::default();
    b.come(1);
    let page = |after: Option<u8>, slot: u16, rest: u8| Step::TakeRows {
        piece: piece(2),
        after: after.map(|rest| (5, vec![rest])),
        rows: vec![Row {
            slot,
            rest: vec![rest],
            value: vec![1],
        }],
        last: Some((slot, vec![rest])),
        is_last: false,
    };
    assert_eq!(b.take(page(Some(b'k'), 5, b'z')), Told::NotNow);
    assert_eq!(b.take(page(None, 5, b'k')), Told::Done);
    assert_eq!(b.take(page(None, 5, b'k')), Told::NotNow);
    assert_eq!(b.take(page(Some(b'k'), 5, b'z')), Told::Done);
}

/// Changes that come twice, or before others.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn changes_of_another_place_are_not_taken() {
    let mut b = Group::default();
    b.come(1);
    let tail = |from: u64, next: u64, value: u8| Step::TakeTail {
        piece: piece(2),
        from,
        tail: vec![Change::Row {
            slot: 5,
            rest: b"k".to_vec(),
            value: Some(vec![value]),
        }],
        next,
    };
    let own = |from: u64| Step::Own {
        piece: piece(2),
        from,
        tail: Vec::new(),
        used: vec![(5, true)],
    };
    assert_eq!(b.take(own(0)), Told::NotNow, "pages come first");
    let read = Step::TakeRows {
        piece: piece(2),
        after: None,
        rows: Vec::new(),
        last: None,
        is_last: true,
    };
    assert_eq!(b.take(read), Told::Done);
    assert_eq!(b.take(tail(3, 4, 9)), Told::NotNow);
    assert_eq!(b.take(tail(0, 3, 1)), Told::Done);
    assert_eq!(b.take(tail(3, 4, 2)), Told::Done);
    assert_eq!(b.take(tail(0, 3, 1)), Told::NotNow, "it comes twice");
    assert_eq!(b.take(own(3)), Told::NotNow);
    assert_eq!(b.take(own(4)), Told::Done);
    let owns = b.take(Step::Owns { piece: piece(2) });
    assert_eq!(owns, Told::Owns(true));
}

/// A key lives no longer at a group whose leader's clock is slower.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_time_of_a_slot_moves_with_it() {
    for seed in 0..2 {
        let mut street = Street::three(seed);
        let node = street.stage.nodes[0];
        street.stage.world.set_wall_clock(node, 10_000);
        street.pass(1_500 * MS);
        let hand = Hand::at(&mut street, 0, "hand");
        let set = hand.ask(&mut street, "SET {b}k v PX 20000");
        assert_eq!(set, Value::OK);
        let slot = kv::slot_of(b"{b}k");
        let change = format!("change-slots move groups={} slots={slot}", GROUPS[1]);
        assert!(done(&mut street.stage, &change).starts_with("ok "));
        let there = Hand::at(&mut street, 1, "there");
        for _ in 0..100 {
            match there.ask(&mut street, "PTTL {b}k") {
                Value::Integer(left) => {
                    assert!((1..=20_000).contains(&left), "seed {seed}: {left} ms");
                    break;
                }
                _ => street.pass(50 * MS),
            }
        }
        let value = there.ask(&mut street, "GET {b}k");
        assert_eq!(value, Value::bulk("v"), "seed {seed}");
    }
}
