//! What a group keeps of its slots: whether it owns them, and in which life each is.
//!
//! ```text
//! 'o' block u16 → run *run       of 128 slots beside each other, from the first on
//! run           = last slot u16 │ epoch u32 │ base u64 │ noted u32 │ kept u32 │ token u8 │ group u32 │ wish u32 │ changes u64
//! 'u' slot u16  → round u64 │ has had keys u8 │ epoch u32       of slots that were written to
//! 'k' slot u16  → the same                                      of those that have had keys in this round
//! ```
//!
//! The numbers of blocks and slots are big-endian, others little-endian. Few blocks have more than one run, so slots that move together cost a row or two.
//!
//! ```text
//!  None, Owned ──leave──▶ Leaving ──freeze──▶ Frozen ──gone──▶ Gone ──come──▶ Coming ──own──▶ Owned …
//!           ▲               │                                   ▲               │
//!           └──── keep ─────┘                                   └──── drop ─────┘
//! ```
//!
//! ‡ A slot's owner is a token that lies in one group's log. It is passed on between `Frozen` there and `Owned` here; a group that does not have it
//! executes nothing.

use std::collections::BTreeMap;

use kv::{Life, Rows};
use paxos::mutation::{self, Mutation};

use crate::moving::words::Span;

const BLOCK: u8 = b'o';
const USED: u8 = b'u';
const WITH_KEYS: u8 = b'k';
/// The slots of a block.
const BLOCK_SLOTS: u16 = 128;

/// The epoch of slots that were given out when nobody had any.
pub const FIRST_EPOCH: u32 = 1;

/// Whose a slot is, as its group knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Token {
    /// The log says nothing of it: its founder has it, and nobody else.
    #[default]
    None,
    Owned,
    /// It is served here, while `to` copies it for that wish. What changes meanwhile is noted under `changes`.
    Leaving {
        to: u32,
        wish: u32,
        changes: u64,
    },
    /// It is on its way to `to`: nobody serves it.
    Frozen {
        to: u32,
        wish: u32,
        changes: u64,
    },
    /// `to` has it, or had it since.
    Gone {
        to: u32,
        wish: u32,
    },
    /// It is being copied from `from` for that wish.
    Coming {
        from: u32,
        wish: u32,
    },
}

/// How a group holds a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The version of the map for which it came here.
    pub epoch: u32,
    /// The first round of it: copies that begin anew have later ones.
    pub base: u64,
    /// ‡ The latest version of the map that the group has taken note of for this slot: what is asked for the sake of an earlier one is refused.
    pub noted: u32,
    /// ‡ The latest one by which the group was to have the slot: it lets it go for a later one only. Others are told this one.
    pub kept: u32,
    pub token: Token,
}

/// A slot of which the log says nothing. Its founder, by the map, has it: it is the only group that can have written there.
impl Default for Holding {
    fn default() -> Holding {
        Holding {
            epoch: FIRST_EPOCH,
            base: 0,
            noted: 0,
            kept: 0,
            token: Token::None,
        }
    }
}

/// Of what a damaged row says nothing follows, for nobody.
const DAMAGED: Holding = Holding {
    epoch: 0,
    base: 0,
    noted: u32::MAX,
    kept: 0,
    token: Token::None,
};

/// What a group keeps of one slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub holding: Holding,
    pub round: u64,
    /// A key was put there in this round.
    pub has_keys: bool,
}

/// Slots beside each other that are held alike.
pub type Run = (Span, Holding);

impl Token {
    pub fn is_served(&self) -> bool {
        matches!(self, Token::Owned | Token::Leaving { .. })
    }

    fn parts(&self) -> (u8, u32, u32, u64) {
        match *self {
            Token::None => (0, 0, 0, 0),
            Token::Owned => (1, 0, 0, 0),
            Token::Leaving { to, wish, changes } => (2, to, wish, changes),
            Token::Frozen { to, wish, changes } => (3, to, wish, changes),
            Token::Gone { to, wish } => (4, to, wish, 0),
            Token::Coming { from, wish } => (5, from, wish, 0),
        }
    }

    fn of_parts((kind, group, wish, changes): (u8, u32, u32, u64)) -> Option<Token> {
        Some(match kind {
            0 => Token::None,
            1 => Token::Owned,
            2 => Token::Leaving {
                to: group,
                wish,
                changes,
            },
            3 => Token::Frozen {
                to: group,
                wish,
                changes,
            },
            4 => Token::Gone { to: group, wish },
            5 => Token::Coming { from: group, wish },
            _ => return None,
        })
    }
}

fn key_of(tag: u8, number: u16) -> [u8; 3] {
    let [high, low] = number.to_be_bytes();
    [tag, high, low]
}

fn block_of(slot: u16) -> Span {
    let first = slot / BLOCK_SLOTS * BLOCK_SLOTS;
    let last = first + BLOCK_SLOTS - 1;
    Span { first, last }
}

const RUN_BYTES: usize = 2 + 4 + 8 + 4 + 4 + 1 + 4 + 4 + 8;

fn encode_runs(runs: &[Run]) -> Vec<u8> {
    let mut row = Vec::with_capacity(RUN_BYTES * runs.len());
    for (span, holding) in runs {
        let (kind, group, wish, changes) = holding.token.parts();
        row.extend_from_slice(&span.last.to_le_bytes());
        row.extend_from_slice(&holding.epoch.to_le_bytes());
        row.extend_from_slice(&holding.base.to_le_bytes());
        row.extend_from_slice(&holding.noted.to_le_bytes());
        row.extend_from_slice(&holding.kept.to_le_bytes());
        row.push(kind);
        row.extend_from_slice(&group.to_le_bytes());
        row.extend_from_slice(&wish.to_le_bytes());
        row.extend_from_slice(&changes.to_le_bytes());
    }
    row
}

fn decode_run(bytes: &[u8]) -> Option<(u16, Holding)> {
    let (last, rest) = bytes.split_first_chunk()?;
    let (epoch, rest) = rest.split_first_chunk()?;
    let (base, rest) = rest.split_first_chunk()?;
    let (noted, rest) = rest.split_first_chunk()?;
    let (kept, rest) = rest.split_first_chunk()?;
    let (kind, rest) = rest.split_first()?;
    let (group, rest) = rest.split_first_chunk()?;
    let (wish, rest) = rest.split_first_chunk()?;
    let changes = u64::from_le_bytes(*rest.first_chunk()?);
    let number = u32::from_le_bytes;
    let holding = Holding {
        epoch: number(*epoch),
        base: u64::from_le_bytes(*base),
        noted: number(*noted),
        kept: number(*kept),
        token: Token::of_parts((*kind, number(*group), number(*wish), changes))?,
    };
    Some((u16::from_le_bytes(*last), holding))
}

/// The runs of a block; one that makes no sense is nobody's.
fn decode_runs(block: Span, row: &[u8]) -> Vec<Run> {
    let (mut runs, mut first) = (Vec::new(), block.first);
    for bytes in row.chunks(RUN_BYTES) {
        match decode_run(bytes) {
            Some((last, holding)) if first <= last && last <= block.last => {
                runs.push((Span { first, last }, holding));
                first = last + 1;
            }
            _ => break,
        }
    }
    if first <= block.last {
        let last = block.last;
        let holding = if row.is_empty() {
            Holding::default()
        } else {
            DAMAGED
        };
        runs.push((Span { first, last }, holding));
    }
    runs
}

fn block<R: Rows>(rows: &mut R, block: Span) -> Result<Vec<Run>, R::Stop> {
    let row = rows.get(&key_of(BLOCK, block.first / BLOCK_SLOTS))?;
    Ok(decode_runs(block, row.as_deref().unwrap_or_default()))
}

/// Adds a run, as a part of the one before it where that is held alike.
fn push(runs: &mut Vec<Run>, (span, holding): Run) {
    match runs.last_mut() {
        Some((before, same)) if *same == holding && before.last + 1 == span.first => {
            before.last = span.last;
        }
        _ => runs.push((span, holding)),
    }
}

/// The runs of these slots.
pub fn holdings<R: Rows>(rows: &mut R, span: Span) -> Result<Vec<Run>, R::Stop> {
    let (mut runs, mut stopped) = (Vec::new(), None);
    let blocks = (span.first / BLOCK_SLOTS)..=(span.last / BLOCK_SLOTS);
    for number in blocks {
        // ‡ Those that are not here are asked for together.
        match block(rows, block_of(number * BLOCK_SLOTS)) {
            Ok(of_block) => {
                for (of, holding) in of_block {
                    let (first, last) = (of.first.max(span.first), of.last.min(span.last));
                    if first <= last {
                        push(&mut runs, (Span { first, last }, holding));
                    }
                }
            }
            Err(stop) => stopped = stopped.or(Some(stop)),
        }
    }
    stopped.map_or(Ok(runs), Err)
}

/// Holds these slots otherwise from now on.
pub fn hold<R: Rows>(
    rows: &mut R,
    span: Span,
    as_now: impl Fn(Holding) -> Holding,
) -> Result<(), R::Stop> {
    let blocks = (span.first / BLOCK_SLOTS)..=(span.last / BLOCK_SLOTS);
    for number in blocks {
        let of = block_of(number * BLOCK_SLOTS);
        let before = block(rows, of)?;
        let mut after = Vec::new();
        for (run, holding) in &before {
            let parts = [
                (run.first, run.last.min(span.first.saturating_sub(1)), false),
                (run.first.max(span.first), run.last.min(span.last), true),
                (run.first.max(span.last + 1), run.last, false),
            ];
            for (first, last, is_its) in parts {
                let is_there = first <= last && (is_its || !span.has(first));
                if is_there {
                    let holding = if is_its { as_now(*holding) } else { *holding };
                    push(&mut after, (Span { first, last }, holding));
                }
            }
        }
        if after != before {
            rows.put(&key_of(BLOCK, number), &encode_runs(&after))?;
        }
    }
    Ok(())
}

fn holding<R: Rows>(rows: &mut R, slot: u16) -> Result<Holding, R::Stop> {
    let runs = block(rows, block_of(slot))?;
    let run = runs.iter().find(|(span, _)| span.has(slot));
    Ok(run.map_or(Holding::default(), |(_, holding)| *holding))
}

/// What the group keeps of this slot.
pub fn used<R: Rows>(rows: &mut R, slot: u16) -> Result<Used, R::Stop> {
    let holding = holding(rows, slot);
    let row = rows.get(&key_of(USED, slot));
    Ok(Used::of(holding?, row?.as_deref()))
}

/// The same of several: what is not in memory of them is fetched together.
pub fn used_of<R: Rows>(
    rows: &mut R,
    slots: impl IntoIterator<Item = u16>,
) -> Result<BTreeMap<u16, Used>, R::Stop> {
    let (mut found, mut stopped) = (BTreeMap::new(), None);
    for slot in slots {
        if found.contains_key(&slot) {
            continue;
        }
        match used(rows, slot) {
            Ok(used) => drop(found.insert(slot, used)),
            Err(stop) => stopped = stopped.or(Some(stop)),
        }
    }
    stopped.map_or(Ok(found), Err)
}

/// The slots of these that were written to since they came here.
pub fn all_used<R: Rows>(rows: &mut R, span: Span) -> Result<Vec<(u16, Used)>, R::Stop> {
    let runs = holdings(rows, span);
    let (mut from, to) = (
        key_of(USED, span.first).to_vec(),
        key_of(USED, span.last + 1),
    );
    let mut found = Vec::new();
    loop {
        let page = rows.range(&from, &to, usize::from(span.last - span.first) + 1)?;
        for (key, row) in &page.rows {
            if let Some(slot) = key.last_chunk() {
                found.push((u16::from_be_bytes(*slot), row.clone()));
            }
            from = [key, &[0][..]].concat();
        }
        if page.is_last {
            break;
        }
    }
    let runs = runs?;
    let of = |(slot, row): (u16, Vec<u8>)| {
        let (_, holding) = runs.iter().find(|(span, _)| span.has(slot))?;
        let is_its = read(&row).is_some_and(|(round, _, epoch)| holding.has(epoch, round));
        is_its.then(|| (slot, Used::of(*holding, Some(&row))))
    };
    Ok(found.into_iter().filter_map(of).collect())
}

/// The first slots from this one on that are served and have had keys, so many at most.
pub fn served_from<R: Rows>(
    rows: &mut R,
    slot: u16,
    slots_max: usize,
) -> Result<Vec<(u16, Used)>, R::Stop> {
    let (mut from, mut found) = (key_of(WITH_KEYS, slot).to_vec(), Vec::new());
    loop {
        let page = rows.range(&from, &[WITH_KEYS + 1], slots_max)?;
        let mut stopped = None;
        for (key, row) in &page.rows {
            from = [key, &[0][..]].concat();
            let Some(slot) = key.last_chunk().map(|slot| u16::from_be_bytes(*slot)) else {
                continue;
            };
            match holding(rows, slot) {
                Ok(holding) => {
                    let used = Used::of(holding, Some(row));
                    // Nobody but its founder writes where the log says nothing.
                    let is_served = holding.token.is_served() || holding.token == Token::None;
                    if (is_served || mutation::is(Mutation::FrozenSlotsExpire)) && used.has_keys {
                        found.push((slot, used));
                    }
                }
                Err(stop) => stopped = stopped.or(Some(stop)),
            }
        }
        if let Some(stop) = stopped {
            return Err(stop);
        }
        if page.is_last || found.len() >= slots_max {
            found.truncate(slots_max);
            return Ok(found);
        }
    }
}

impl Holding {
    /// Whether a row of this epoch and round is of the life in which it is held now.
    fn has(&self, epoch: u32, round: u64) -> bool {
        epoch == self.epoch && round >= self.base
    }
}

/// Round, whether it had keys, epoch. A row of 9 bytes was written before slots moved, in the first epoch.
fn read(row: &[u8]) -> Option<(u64, bool, u32)> {
    let (round, rest) = row.split_first_chunk()?;
    let (has_keys, rest) = rest.split_first()?;
    let epoch = match rest.first_chunk() {
        Some(epoch) => u32::from_le_bytes(*epoch),
        None => FIRST_EPOCH,
    };
    Some((u64::from_le_bytes(*round), *has_keys == 1, epoch))
}

impl Used {
    fn of(holding: Holding, row: Option<&[u8]>) -> Used {
        let read = row.and_then(read);
        let its = read.filter(|(round, _, epoch)| holding.has(*epoch, *round));
        let (round, has_keys, _) = its.unwrap_or((holding.base, false, holding.epoch));
        Used {
            holding,
            round,
            has_keys,
        }
    }

    /// ‡ The slots with keys stand in rows of their own: who looks for them does not go through all those that were emptied.
    pub fn save<R: Rows>(&self, rows: &mut R, slot: u16) -> Result<(), R::Stop> {
        let mut row = self.round.to_le_bytes().to_vec();
        row.push(u8::from(self.has_keys));
        row.extend_from_slice(&self.holding.epoch.to_le_bytes());
        rows.put(&key_of(USED, slot), &row)?;
        match self.has_keys {
            true => rows.put(&key_of(WITH_KEYS, slot), &row),
            false => rows.delete(&key_of(WITH_KEYS, slot)),
        }
    }

    /// The slot leaves: nothing is kept of it.
    pub fn remove<R: Rows>(rows: &mut R, slot: u16) -> Result<(), R::Stop> {
        rows.delete(&key_of(USED, slot))?;
        rows.delete(&key_of(WITH_KEYS, slot))
    }

    pub fn life(&self, slot: u16) -> Life {
        Life {
            slot,
            epoch: self.holding.epoch,
            round: self.round,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::convert::Infallible;

    use kv::Page;

    use super::*;

    #[derive(Default)]
    struct Map(BTreeMap<Vec<u8>, Vec<u8>>);

    impl Rows for Map {
        type Stop = Infallible;

        fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Infallible> {
            Ok(self.0.get(key).cloned())
        }

        fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Infallible> {
            let mut all = self.0.range(from.to_vec()..to.to_vec());
            let rows = all.by_ref().take(rows_max);
            let rows = rows
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            let is_last = all.next().is_none();
            Ok(Page { rows, is_last })
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

    #[test]
    fn every_holding_comes_back_as_it_was() {
        let (to, from, wish, changes) = (7, 8, 9, 10);
        for token in [
            Token::None,
            Token::Owned,
            Token::Leaving { to, wish, changes },
            Token::Frozen { to, wish, changes },
            Token::Gone { to, wish },
            Token::Coming { from, wish },
        ] {
            let holding = Holding {
                epoch: 3,
                base: 1 << 40,
                noted: 4,
                kept: 2,
                token,
            };
            let block = block_of(200);
            let row = encode_runs(&[(block, holding)]);
            assert_eq!(decode_runs(block, &row), [(block, holding)]);
            for end in 1..row.len() {
                let whole = [(block, DAMAGED)];
                assert_eq!(decode_runs(block, &row[..end]), whole, "it is nobody's");
            }
        }
    }

    #[test]
    fn runs_are_held_as_single_slots_would_be() {
        let mut rows = Map::default();
        let mut naive = vec![Holding::default(); usize::from(kv::SLOTS)];
        let mut seed = 7u64;
        let mut below = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % bound
        };
        for round in 0..200 {
            let first = below(u64::from(kv::SLOTS)) as u16;
            let last = (u64::from(first) + below(400)).min(16_383) as u16;
            let (first, last) = if round % 9 == 0 {
                (first / 128 * 128, 16_383)
            } else {
                (first, last)
            };
            let noted = below(3) as u32;
            let as_now = |before: Holding| Holding { noted, ..before };
            let Ok(()) = hold(&mut rows, Span { first, last }, as_now);
            for slot in first..=last {
                let at = &mut naive[usize::from(slot)];
                *at = as_now(*at);
            }
            let Ok(runs) = holdings(&mut rows, Span::ALL);
            let mut next = 0;
            for (span, holding) in &runs {
                assert_eq!(span.first, next);
                assert!(
                    span.slots()
                        .all(|slot| naive[usize::from(slot)] == *holding)
                );
                next = span.last + 1;
            }
            assert_eq!(next, kv::SLOTS);
            assert!(
                runs.windows(2).all(|two| two[0].1 != two[1].1),
                "alike is one run"
            );
        }
    }

    #[test]
    fn what_another_life_had_is_not_seen() {
        let mut rows = Map::default();
        // As it was written before slots moved.
        let Ok(()) = rows.put(&key_of(USED, 5), &[5, 0, 0, 0, 0, 0, 0, 0, 1]);
        let at = |rows: &mut Map, epoch: u32, base: u64| {
            let span = Span { first: 5, last: 5 };
            let Ok(()) = hold(rows, span, |before| Holding {
                epoch,
                base,
                ..before
            });
            let Ok(used) = used(rows, 5);
            (used.round, used.has_keys)
        };
        assert_eq!(at(&mut rows, 1, 0), (5, true));
        assert_eq!(at(&mut rows, 2, 0), (0, false));
        assert_eq!(at(&mut rows, 1, 1 << 32), (1 << 32, false));
    }
}
