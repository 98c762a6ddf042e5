//! The exact check for an output that only grows, in the time of sorting.
//!
//! The order in which bytes took effect is known: it is their order in the output, which the reads
//! show. So every operation has its place in one line, and only the moments are to be found:
//!
//! ```text
//!   byte 0 ≤ byte 1 ≤ … ≤ byte ℓ−1 ≤ a read of length ℓ ≤ byte ℓ ≤ …     each within its own interval
//! ```
//!
//! Such moments exist if and only if nothing in this line was completed before something that stands before
//! it was invoked (give each the latest invocation so far). That is asked pair by pair of kinds, so that the
//! culprit can be named:
//!
//! | before | behind | broken, it is called |
//! |---|---|---|
//! | a byte | who saw it | [`Violation::Early`] |
//! | a read of length ℓ | an acknowledged byte at ℓ or above, or who saw one | [`Violation::Stale`] |
//! | a byte | another byte | [`Violation::Reordered`] |
//!
//! Bytes that nobody saw come behind all that was seen, in any order but their chains'. Those of
//! them that were not acknowledged may never take effect.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Action, Extent, Malformed, Operation, check_form};

/// A fact that cannot have been. Numbers are those of operations in the history, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The read left out what was acknowledged, or shown to somebody, before it was invoked.
    Stale { read: usize, known_by: usize },
    /// Seen before its append was invoked.
    Early { seen_by: usize, append: usize },
    /// Acknowledged before what stands before it in the output was invoked.
    Reordered { append: usize, before: usize },
    /// It saw another byte at this position of the output than somebody before.
    Differs { seen_by: usize, position: u64 },
    /// It saw a byte that nobody appended.
    Unwritten {
        seen_by: usize,
        chain: u32,
        position: u64,
    },
    /// It saw a chain's bytes with a gap, or some of them twice.
    OutOfOrder {
        seen_by: usize,
        chain: u32,
        position: u64,
    },
}

impl Violation {
    /// The read or peek that cannot be justified; None where only appends contradict each other.
    pub fn observer(&self) -> Option<usize> {
        match self {
            Self::Stale { read: seen_by, .. }
            | Self::Early { seen_by, .. }
            | Self::Differs { seen_by, .. }
            | Self::Unwritten { seen_by, .. }
            | Self::OutOfOrder { seen_by, .. } => Some(*seen_by),
            Self::Reordered { .. } => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale { read, known_by } => write!(
                f,
                "operation {read} read less than operation {known_by} had shown before it began"
            ),
            Self::Early { seen_by, append } => write!(
                f,
                "operation {seen_by} saw bytes before operation {append}, which appended them, began"
            ),
            Self::Reordered { append, before } => write!(
                f,
                "operation {append} was acknowledged before operation {before}, whose bytes stand before, began"
            ),
            Self::Differs { seen_by, position } => write!(
                f,
                "operation {seen_by} saw another byte at {position} than was seen there before"
            ),
            Self::Unwritten {
                seen_by,
                chain,
                position,
            } => write!(
                f,
                "operation {seen_by} saw byte {position} of chain {chain}, which nobody appended"
            ),
            Self::OutOfOrder {
                seen_by,
                chain,
                position,
            } => write!(
                f,
                "operation {seen_by} saw byte {position} of chain {chain} out of its turn"
            ),
        }
    }
}

/// Everything that cannot have been; nothing if and only if the history is linearizable.
///
/// The observations of the output have to leave no hole: [`Malformed::Unseen`].
pub fn check(history: &[Operation]) -> Result<Vec<Violation>, Malformed> {
    check_form(history)?;
    let mut violations = Vec::new();
    let output = Output::of(history, &mut violations)?;
    let appends = Appends::of(history);
    let (pieces, unseen) = output.pieces(&appends, &mut violations);
    check_times(history, &pieces, &unseen, &mut violations);
    Ok(violations)
}

/// All that was seen of the output, from its beginning on.
struct Output {
    /// The place of each extent in the output, and the operation that saw it first.
    extents: Vec<(u64, Extent, usize)>,
}

impl Output {
    fn of(history: &[Operation], violations: &mut Vec<Violation>) -> Result<Self, Malformed> {
        let mut seen = Vec::new();
        let mut length_max = 0;
        for (index, operation) in history.iter().enumerate() {
            let Some(observation) = operation.observation() else {
                continue;
            };
            length_max = length_max.max(observation.length);
            let mut at = observation.from;
            for extent in observation.seen {
                seen.push((at, *extent, index));
                at += extent.count();
            }
        }
        // The longer of two that begin together comes first: the other shows nothing new.
        seen.sort_by_key(|(at, extent, index)| (*at, u64::MAX - extent.count(), *index));
        let mut output = Self {
            extents: Vec::new(),
        };
        for (at, extent, index) in seen {
            output.add(at, extent, index, violations)?;
        }
        match output.end() < length_max {
            true => Err(Malformed::Unseen(output.end())),
            false => Ok(output),
        }
    }

    fn end(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |(at, extent, _)| at + extent.count())
    }

    fn add(
        &mut self,
        at: u64,
        extent: Extent,
        index: usize,
        violations: &mut Vec<Violation>,
    ) -> Result<(), Malformed> {
        let known = self.end();
        if at > known {
            return Err(Malformed::Unseen(known));
        }
        if let Some(position) = self.first_difference(at, extent) {
            violations.push(Violation::Differs {
                seen_by: index,
                position,
            });
        }
        let old = (known - at).min(extent.count());
        let new = Extent {
            from: extent.from + old,
            ..extent
        };
        if new.count() == 0 {
            return Ok(());
        }
        match self.extents.last_mut() {
            Some((_, last, _)) if last.chain == new.chain && last.to == new.from => {
                last.to = new.to;
            }
            _ => self.extents.push((known, new, index)),
        }
        Ok(())
    }

    /// Compares with what is known already.
    fn first_difference(&self, at: u64, extent: Extent) -> Option<u64> {
        let end = at + extent.count();
        let first = self
            .extents
            .partition_point(|(known_at, known, _)| known_at + known.count() <= at);
        for (known_at, known, _) in &self.extents[first..] {
            if *known_at >= end {
                break;
            }
            let from = at.max(*known_at);
            let here = extent.from + (from - at);
            let there = known.from + (from - known_at);
            if extent.chain != known.chain || here != there {
                return Some(from);
            }
        }
        None
    }

    /// Cuts what was seen at the borders of appends. The second result: the appends, or rests of
    /// them, of which nobody saw anything.
    fn pieces(
        &self,
        appends: &Appends,
        violations: &mut Vec<Violation>,
    ) -> (Vec<Piece>, Vec<Vec<Piece>>) {
        let mut pieces = Vec::new();
        let mut reached: BTreeMap<u32, u64> = BTreeMap::new();
        for (at, extent, seen_by) in &self.extents {
            let (chain, seen_by) = (extent.chain, *seen_by);
            let position = reached.entry(chain).or_default();
            if *position != extent.from {
                let position = extent.from;
                violations.push(Violation::OutOfOrder {
                    seen_by,
                    chain,
                    position,
                });
            }
            *position = extent.to.max(*position);
            let covered = appends.cut(*extent, &mut pieces, *at);
            if covered < extent.to {
                violations.push(Violation::Unwritten {
                    seen_by,
                    chain,
                    position: covered,
                });
            }
        }
        let mut unseen = Vec::new();
        for (chain, all) in &appends.chains {
            let from = reached.get(chain).copied().unwrap_or(0);
            let to = all.last().map_or(0, |append| append.to);
            if from < to {
                let mut rest = Vec::new();
                let chain = *chain;
                appends.cut(Extent { chain, from, to }, &mut rest, self.end());
                unseen.push(rest);
            }
        }
        (pieces, unseen)
    }
}

/// Bytes of one append that stand together in the output.
#[derive(Clone, Copy)]
struct Piece {
    /// The position after the last of them.
    end: u64,
    append: usize,
    invoked: u64,
    completed: Option<u64>,
}

/// Each chain's appends, in order.
struct Appends {
    chains: BTreeMap<u32, Vec<Append>>,
}

struct Append {
    from: u64,
    to: u64,
    index: usize,
    invoked: u64,
    completed: Option<u64>,
}

impl Appends {
    fn of(history: &[Operation]) -> Self {
        let mut chains: BTreeMap<u32, Vec<Append>> = BTreeMap::new();
        for (index, operation) in history.iter().enumerate() {
            if let Action::Append { chain, from, to } = operation.action {
                chains.entry(chain).or_default().push(Append {
                    from,
                    to,
                    index,
                    invoked: operation.invoked,
                    completed: operation.completed,
                });
            }
        }
        for appends in chains.values_mut() {
            appends.sort_by_key(|append| append.from);
        }
        Self { chains }
    }

    /// Adds the pieces of `extent`, which stands at `at`; returns up to where there are any.
    fn cut(&self, extent: Extent, pieces: &mut Vec<Piece>, at: u64) -> u64 {
        let Some(appends) = self.chains.get(&extent.chain) else {
            return extent.from;
        };
        let mut covered = extent.from;
        let first = appends.partition_point(|append| append.to <= extent.from);
        for append in &appends[first..] {
            if append.from >= extent.to {
                break;
            }
            covered = append.to.min(extent.to);
            pieces.push(Piece {
                end: at + (covered - extent.from),
                append: append.index,
                invoked: append.invoked,
                completed: append.completed,
            });
        }
        covered
    }
}

/// A time, and whose it is.
type Mark = (u64, usize);

fn check_times(
    history: &[Operation],
    pieces: &[Piece],
    unseen: &[Vec<Piece>],
    violations: &mut Vec<Violation>,
) {
    // The latest invocation among the bytes up to and including each piece.
    let mut invoked: Vec<Mark> = Vec::with_capacity(pieces.len());
    let mut latest: Mark = (0, 0);
    for piece in pieces {
        check_order(piece, &mut latest, violations);
        invoked.push(latest);
    }
    for rest in unseen {
        let mut latest = latest;
        for piece in rest {
            check_order(piece, &mut latest, violations);
        }
    }

    // When it was first known that the output is longer than so much: (length, time, by whom).
    let mut known: Vec<(u64, Mark)> = Vec::new();
    for piece in pieces {
        known.extend(
            piece
                .completed
                .map(|time| (piece.end, (time, piece.append))),
        );
    }
    for piece in unseen.iter().flatten() {
        known.extend(piece.completed.map(|time| (u64::MAX, (time, piece.append))));
    }
    for (index, operation) in history.iter().enumerate() {
        if let Some(observation) = operation.observation() {
            known.push((observation.length, (observation.completed, index)));
        }
    }
    known.sort_unstable();
    for index in (1..known.len()).rev() {
        known[index - 1].1 = known[index - 1].1.min(known[index].1);
    }

    for (index, operation) in history.iter().enumerate() {
        let Some(observation) = operation.observation() else {
            continue;
        };
        let length = observation.length;
        if length > 0 && !pieces.is_empty() {
            let last = pieces.partition_point(|piece| piece.end < length);
            let (time, append) = invoked[last.min(pieces.len() - 1)];
            if observation.completed < time {
                violations.push(Violation::Early {
                    seen_by: index,
                    append,
                });
            }
        }
        if let Action::Read { .. } = operation.action {
            let longer = known.partition_point(|(known, _)| *known <= length);
            if let Some((_, (time, known_by))) = known.get(longer)
                && *time < operation.invoked
            {
                let (read, known_by) = (index, *known_by);
                violations.push(Violation::Stale { read, known_by });
            }
        }
    }
}

/// `latest`: the latest invocation of what stands before the piece.
fn check_order(piece: &Piece, latest: &mut Mark, violations: &mut Vec<Violation>) {
    *latest = (*latest).max((piece.invoked, piece.append));
    if piece
        .completed
        .is_some_and(|completed| completed < latest.0)
    {
        let (append, before) = (piece.append, latest.1);
        violations.push(Violation::Reordered { append, before });
    }
}
