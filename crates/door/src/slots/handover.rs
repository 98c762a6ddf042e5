//! The steps by which slots are handed from one group to another, each a command of one group's machine.
//!
//! ```text
//!  source group                                target group
//!  Leave: changes are noted from now on  ◀────
//!                                        ────▶ Come
//!  Rows, page by page                    ────▶ TakeRows          clients write meanwhile
//!  Tail: what changed since              ────▶ TakeTail          … until little is left
//!  Freeze: nothing is served             ◀────
//!    … and its answer: the last changes  ────▶ Own: served from here on
//!  Gone: the rows are forgotten          ◀──── Owns? yes
//! ```
//!
//! Why the target has what the source had: a row that changes after its page was read is noted, for changes are noted before the first page is read; what
//! was noted comes behind all pages, with the value of then; and behind Freeze nothing changes. Repeated rows do no harm, for the last one wins.
//!
//! ‡ A copy that is not wanted any more is given up only once the source has forgotten the number under which it noted changes: no Freeze that comes late finds
//! that number, so no token is passed to a group that does not wait for it.
//!
//! ‡ Each step looks at what stands in its own group's log, and refuses what does not fit: it may come twice, late, or from somebody who led once. Leave and
//! Freeze are refused once a newer wish is noted; Own follows a chosen Freeze, with all that was noted before it; Gone follows a chosen Own.

use std::collections::BTreeMap;

use kv::{Life, Rows};
use paxos::mutation::{self, Mutation};

use super::changes;
use super::used::{FIRST_EPOCH, Holding, Token, Used, all_used, hold, holdings, used, used_of};
use crate::moving::words::{Change, Frozen, Held, Incoming, Piece, Place, Row, Run, Step, Told};
use crate::moving::words::{Span, decode, encode};
use crate::rows::{SLOTS, tagged};

const COMING: u8 = b'p';
/// Each copy of a slot has so many bits of rounds.
const ROUNDS: u32 = 32;
/// The rows of a page.
const PAGE_ROWS: usize = 4_096;

type Of<R, T = Told> = Result<T, <R as Rows>::Stop>;

/// Takes a step.
pub fn take<R: Rows>(rows: &mut R, step: Step) -> Of<R> {
    if !step.piece().span.is_sound() {
        return Ok(Told::Superseded);
    }
    match step {
        Step::Stand { span } => stand(rows, span),
        Step::Keep { piece, founds } => {
            found(rows, piece.span, &founds)?;
            keep(rows, piece)
        }
        Step::Leave { piece, to, founds } => leave(rows, piece, to, &founds),
        Step::Rows {
            piece,
            to,
            changes,
            after,
            rows_max,
        } => read(rows, piece, (to, changes), after, rows_max as usize),
        Step::Tail {
            piece,
            to,
            changes,
            from,
        } => tail(rows, piece, (to, changes), from),
        Step::Freeze {
            piece,
            to,
            changes,
            from,
        } => freeze(rows, piece, (to, changes), from),
        Step::Gone { piece, to } => gone(rows, piece, to),
        Step::Release { piece, to, changes } => release(rows, piece, (to, changes)),
        Step::Come {
            piece,
            from,
            changes,
        } => come(rows, piece, from, changes),
        Step::TakeRows {
            piece,
            after,
            rows: page,
            last,
            is_last,
        } => take_rows(rows, piece, &after, page, (last, is_last)),
        Step::TakeTail {
            piece,
            from,
            tail,
            next,
        } => take_tail(rows, piece, from, tail, next),
        Step::Own {
            piece,
            from,
            tail,
            used,
        } => own(rows, piece, (from, tail), &used),
        Step::Drop { piece } => drop_piece(rows, piece),
        Step::Owns { piece } => owns(rows, piece),
    }
}

/// Pages of a range, all of it.
fn each_row<R: Rows>(
    rows: &mut R,
    from: &[u8],
    to: &[u8],
    mut act: impl FnMut(&[u8], &[u8]),
) -> Of<R, ()> {
    let mut from = from.to_vec();
    loop {
        let page = rows.range(&from, to, PAGE_ROWS)?;
        for (key, row) in &page.rows {
            act(key, row);
            from = [key, &[0][..]].concat();
        }
        if page.is_last {
            return Ok(());
        }
    }
}

fn stand<R: Rows>(rows: &mut R, span: Span) -> Of<R> {
    let runs = holdings(rows, span);
    let mut coming = Vec::new();
    each_row(rows, &[COMING], &[COMING + 1], |_, row| {
        coming.extend(decode::<Incoming>(row));
    })?;
    let run = |(span, holding): (Span, Holding)| Run {
        span,
        kept: holding.kept,
        token: match holding.token {
            Token::None => Held::None,
            Token::Owned => Held::Owned,
            Token::Leaving { to, wish, changes } => Held::Leaving { to, wish, changes },
            Token::Frozen { to, wish, changes } => Held::Frozen { to, wish, changes },
            Token::Gone { .. } => Held::Gone,
            Token::Coming { wish, .. } => Held::Coming { wish },
        },
    };
    let runs = runs?.into_iter().map(run).collect();
    Ok(Told::Stand { runs, coming })
}

/// Writes down that it has those of its founder's slots of which the log says nothing yet.
fn found<R: Rows>(rows: &mut R, span: Span, founds: &[Span]) -> Of<R, ()> {
    let its = founds
        .iter()
        .filter(|its| span.first <= its.first && its.last <= span.last);
    for its in its {
        hold(rows, *its, |holding| {
            // ‡ Once: a slot that was here and went is not made anew.
            let is_new = holding.token == Token::None && holding.noted == 0;
            match is_new || mutation::is(Mutation::FoundedAgain) {
                true => Holding {
                    noted: FIRST_EPOCH,
                    kept: FIRST_EPOCH,
                    token: Token::Owned,
                    ..Holding::default()
                },
                false => holding,
            }
        })?;
    }
    Ok(())
}

/// It takes note of the wish that it keeps these slots: what it let go for an earlier one is over.
fn keep<R: Rows>(rows: &mut R, piece: Piece) -> Of<R> {
    let Piece { span, wish } = piece;
    for (_, holding) in holdings(rows, span)? {
        if let Token::Leaving { changes, .. } = holding.token
            && holding.noted <= wish
        {
            changes::end(rows, changes)?;
        }
    }
    hold(rows, span, |holding| {
        match holding.token == Token::Owned && holding.noted <= wish {
            true => Holding {
                noted: wish,
                kept: wish,
                ..holding
            },
            false => holding,
        }
    })?;
    let mut runs = holdings(rows, span)?.into_iter();
    let are_kept = runs.all(|(_, holding)| holding.token == Token::Owned && holding.kept >= wish);
    Ok(if are_kept { Told::Done } else { Told::NotNow })
}

fn leave<R: Rows>(rows: &mut R, piece: Piece, to: u32, founds: &[Span]) -> Of<R> {
    let Piece { span, wish } = piece;
    found(rows, span, founds)?;
    let runs = holdings(rows, span)?;
    let mut numbers = Vec::new();
    for (_, holding) in &runs {
        let is_old = holding.noted > wish || holding.epoch >= wish;
        if is_old && !mutation::is(Mutation::FreezeOfOldWish) {
            return Ok(Told::Superseded);
        }
        match holding.token {
            Token::None | Token::Coming { .. } => return Ok(Told::NotNow),
            Token::Frozen { to, .. } | Token::Gone { to, .. } => {
                return Ok(Told::Elsewhere { group: to });
            }
            Token::Owned => {}
            Token::Leaving { changes, .. } => numbers.push(changes),
        }
    }
    let are_its = |number: u64| {
        let changes = number;
        let its = Token::Leaving { to, wish, changes };
        runs.iter().all(|(_, holding)| holding.token == its)
    };
    if let Some(number) = numbers.first().copied()
        && are_its(number)
        && changes::get(rows, number)?.is_some_and(|way| way.span == span)
    {
        return Ok(Told::Leaving { changes: number });
    }
    numbers.dedup();
    for number in numbers {
        changes::end(rows, number)?;
    }
    let changes = changes::begin(rows, span)?;
    hold(rows, span, |holding| Holding {
        noted: wish,
        token: Token::Leaving { to, wish, changes },
        ..holding
    })?;
    Ok(Told::Leaving { changes })
}

/// Whether these slots are on their way to that group under this number; `Some(true)`: and frozen.
fn is_under_way<R: Rows>(
    rows: &mut R,
    piece: Piece,
    (to, number): (u32, u64),
) -> Of<R, Option<bool>> {
    let Some(way) = changes::get(rows, number)? else {
        return Ok(None);
    };
    let wish = piece.wish;
    let changes = number;
    let token = used(rows, piece.span.first)?.holding.token;
    Ok(match way.span == piece.span {
        true if token == Token::Leaving { to, wish, changes } => Some(false),
        true if token == Token::Frozen { to, wish, changes } => Some(true),
        _ => None,
    })
}

fn read<R: Rows>(
    rows: &mut R,
    piece: Piece,
    way: (u32, u64),
    after: Option<Place>,
    rows_max: usize,
) -> Of<R> {
    if is_under_way(rows, piece, way)?.is_none() {
        return Ok(Told::Superseded);
    }
    let Span { first, last } = piece.span;
    let from = match &after {
        None => [&[SLOTS][..], &first.to_be_bytes()].concat(),
        Some((slot, rest)) => {
            let life = used(rows, *slot)?.life(*slot);
            [&[SLOTS][..], &life.prefix(), rest, &[0]].concat()
        }
    };
    let to = [&[SLOTS][..], &(last + 1).to_be_bytes()].concat();
    let page = rows.range(&from, &to, rows_max.clamp(1, PAGE_ROWS))?;
    let slots = page.rows.iter();
    let used = used_of(rows, slots.filter_map(|(key, _)| Some(parted(key)?.0)))?;
    let (mut found, mut place) = (Vec::new(), after);
    for (key, value) in page.rows {
        let Some((slot, prefix, rest)) = parted(&key) else {
            continue;
        };
        let its = used.get(&slot).map(|used| used.life(slot).prefix());
        if its.is_some_and(|its| its == prefix) {
            place = Some((slot, rest.to_vec()));
            let rest = rest.to_vec();
            found.push(Row { slot, rest, value });
        }
    }
    Ok(Told::Rows {
        rows: found,
        last: place,
        is_last: page.is_last,
        is_loaded: false,
    })
}

/// The slot of a row's key, its life, and the rest.
fn parted(key: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (prefix, rest) = key.get(1..)?.split_at_checked(Life::BYTES)?;
    Some((u16::from_be_bytes(*prefix.first_chunk()?), prefix, rest))
}

fn tail<R: Rows>(rows: &mut R, piece: Piece, way: (u32, u64), from: u64) -> Of<R> {
    let Some(is_frozen) = is_under_way(rows, piece, way)? else {
        return Ok(Told::Superseded);
    };
    let Some(under_way) = changes::get(rows, way.1)? else {
        return Ok(Told::Superseded);
    };
    let frozen = match is_frozen {
        true => {
            let all = all_used(rows, piece.span)?;
            let used = all.iter().map(|(slot, used)| (*slot, used.has_keys));
            Some(Frozen {
                time_ms: rows.time_ms(),
                used: used.collect(),
            })
        }
        false => None,
    };
    let (tail, next, is_all) = changes::tail(rows, way.1, under_way, from)?;
    Ok(Told::Tail {
        tail,
        next,
        is_all,
        frozen,
    })
}

/// The answer has the changes that are left: whoever waits for these slots waits for no further question.
fn freeze<R: Rows>(rows: &mut R, piece: Piece, (to, changes): (u32, u64), from: u64) -> Of<R> {
    let Piece { span, wish } = piece;
    match is_under_way(rows, piece, (to, changes))? {
        None => return Ok(Told::Superseded),
        Some(true) => return tail(rows, piece, (to, changes), from),
        Some(false) => {}
    }
    let its = Token::Leaving { to, wish, changes };
    let fits = |holding: &Holding| {
        let is_latest = holding.noted == wish || mutation::is(Mutation::FreezeOfOldWish);
        holding.token == its && is_latest
    };
    if !holdings(rows, span)?
        .iter()
        .all(|(_, holding)| fits(holding))
    {
        return Ok(Told::Superseded);
    }
    hold(rows, span, |holding| Holding {
        token: Token::Frozen { to, wish, changes },
        ..holding
    })?;
    tail(rows, piece, (to, changes), from)
}

/// The slots leave with all rows.
fn remove<R: Rows>(rows: &mut R, span: Span) -> Of<R, ()> {
    for (slot, used) in all_used(rows, span)? {
        rows.forget(&tagged(&used.life(slot).prefix()))?;
        Used::remove(rows, slot)?;
    }
    Ok(())
}

fn gone<R: Rows>(rows: &mut R, piece: Piece, to: u32) -> Of<R> {
    let Piece { span, wish } = piece;
    let mut numbers = Vec::new();
    for (run, holding) in holdings(rows, span)? {
        let Token::Frozen {
            to: frozen_to,
            wish: frozen_for,
            changes,
        } = holding.token
        else {
            continue;
        };
        if (frozen_to, frozen_for) != (to, wish) {
            continue;
        }
        numbers.push(changes);
        remove(rows, run)?;
        hold(rows, run, |holding| Holding {
            token: Token::Gone { to, wish },
            ..holding
        })?;
    }
    numbers.dedup();
    for number in numbers {
        changes::forget(rows, number)?;
    }
    Ok(Told::Done)
}

fn release<R: Rows>(rows: &mut R, piece: Piece, (to, number): (u32, u64)) -> Of<R> {
    let Piece { span, wish } = piece;
    let is_its = |token: Token| match token {
        Token::Frozen {
            to: other,
            wish: of,
            ..
        }
        | Token::Gone {
            to: other,
            wish: of,
        } => (other, of) == (to, wish),
        _ => false,
    };
    // ‡ Frozen for it already: it gets them, and passes them on.
    let runs = holdings(rows, span)?;
    let is_passed_on = runs.iter().any(|(_, holding)| is_its(holding.token));
    if is_passed_on && !mutation::is(Mutation::ReleaseOfFrozen) {
        return Ok(Told::Elsewhere { group: to });
    }
    // ‡ A freeze under this number that comes late finds nothing.
    changes::end(rows, number)?;
    Ok(Told::Done)
}

fn place_of(span: Span) -> Vec<u8> {
    [&[COMING], &span.first.to_be_bytes()[..]].concat()
}

fn incoming<R: Rows>(rows: &mut R, piece: Piece) -> Of<R, Option<Incoming>> {
    let row = rows.get(&place_of(piece.span))?;
    let found = row.and_then(|row| decode::<Incoming>(&row));
    Ok(found.filter(|found| found.piece == piece))
}

fn come<R: Rows>(rows: &mut R, piece: Piece, from: u32, changes: u64) -> Of<R> {
    let Piece { span, wish } = piece;
    if let Some(known) = incoming(rows, piece)? {
        return Ok(match (known.from, known.changes) == (from, changes) {
            true => Told::Done,
            false => Told::NotNow,
        });
    }
    for (_, holding) in holdings(rows, span)? {
        if holding.noted > wish {
            return Ok(Told::Superseded);
        }
        if !matches!(holding.token, Token::None | Token::Gone { .. }) {
            return Ok(Told::NotNow);
        }
    }
    hold(rows, span, |holding| Holding {
        epoch: wish,
        // ‡ A life that was forgotten never begins again.
        base: match holding.epoch == wish {
            true => ((holding.base >> ROUNDS) + 1) << ROUNDS,
            false => 0,
        },
        noted: wish,
        kept: 0,
        token: Token::Coming { from, wish },
    })?;
    let begun = Incoming {
        piece,
        from,
        changes,
        after: None,
        is_read: false,
        tail: 0,
        bytes: 0,
    };
    rows.put(&place_of(span), &encode(&begun))?;
    Ok(Told::Done)
}

fn take_rows<R: Rows>(
    rows: &mut R,
    piece: Piece,
    after: &Option<Place>,
    page: Vec<Row>,
    (last, is_last): (Option<Place>, bool),
) -> Of<R> {
    let known = incoming(rows, piece)?;
    let is_next = |known: &Incoming| {
        !known.is_read && (known.after == *after || mutation::is(Mutation::PagesInAnyOrder))
    };
    let Some(known) = known.filter(is_next) else {
        return Ok(Told::NotNow);
    };
    let mut bytes = known.bytes;
    let page = page.into_iter().filter(|row| piece.span.has(row.slot));
    let page: Vec<Row> = page.collect();
    let used = touched(rows, page.iter().map(|row| row.slot))?;
    for Row { slot, rest, value } in page {
        let Some(used) = used.get(&slot) else {
            continue;
        };
        let life = used.life(slot);
        bytes += (rest.len() + value.len()) as u64;
        let key = [&life.prefix()[..], &rest].concat();
        rows.put(&tagged(&key), &value)?;
    }
    let taken = Incoming {
        after: last,
        is_read: is_last,
        bytes,
        ..known
    };
    rows.put(&place_of(piece.span), &encode(&taken))?;
    Ok(Told::Done)
}

/// ‡ What comes of a slot is noted with its first row, so that it can be forgotten.
fn touched<R: Rows>(
    rows: &mut R,
    slots: impl IntoIterator<Item = u16>,
) -> Of<R, BTreeMap<u16, Used>> {
    let all = used_of(rows, slots)?;
    for (slot, used) in &all {
        used.save(rows, *slot)?;
    }
    Ok(all)
}

/// Writes what changed at the source.
fn write<R: Rows>(rows: &mut R, span: Span, tail: Vec<Change>) -> Of<R, u64> {
    let mut bytes = 0;
    let slots = tail.iter().map(Change::slot);
    let mut all = touched(rows, slots.filter(|slot| span.has(*slot)))?;
    for change in tail {
        let slot = change.slot();
        let Some(used) = all.get_mut(&slot) else {
            continue;
        };
        let prefix = used.life(slot).prefix();
        let key = |rest: &[u8]| tagged(&[&prefix[..], rest].concat());
        match change {
            Change::Row {
                rest,
                value: Some(value),
                ..
            } => {
                bytes += (rest.len() + value.len()) as u64;
                rows.put(&key(&rest), &value)?;
            }
            Change::Row {
                rest, value: None, ..
            } => rows.delete(&key(&rest))?,
            Change::Forget { rest, .. } => rows.forget(&key(&rest))?,
            Change::Whole { .. } => {
                rows.forget(&key(&[]))?;
                used.round += 1;
                used.save(rows, slot)?;
            }
        }
    }
    Ok(bytes)
}

/// Changes may be taken between pages: what comes of a row later is never older.
fn is_next_tail(known: &Incoming, from: u64) -> bool {
    known.tail == from || mutation::is(Mutation::TailsInAnyOrder)
}

fn take_tail<R: Rows>(
    rows: &mut R,
    piece: Piece,
    from: u64,
    tail: Vec<Change>,
    next: u64,
) -> Of<R> {
    let known = incoming(rows, piece)?;
    let Some(known) = known.filter(|known| is_next_tail(known, from)) else {
        return Ok(Told::NotNow);
    };
    let bytes = known.bytes + write(rows, piece.span, tail)?;
    let taken = Incoming {
        tail: next,
        bytes,
        ..known
    };
    rows.put(&place_of(piece.span), &encode(&taken))?;
    Ok(Told::Done)
}

fn own<R: Rows>(
    rows: &mut R,
    piece: Piece,
    (from, tail): (u64, Vec<Change>),
    used_there: &[(u16, bool)],
) -> Of<R> {
    let known = incoming(rows, piece)?;
    // ‡ All rows came, and all changes of them before the last.
    if !known.is_some_and(|known| known.is_read && is_next_tail(&known, from)) {
        return Ok(Told::NotNow);
    }
    write(rows, piece.span, tail)?;
    let used_there = used_there.iter().filter(|(slot, _)| piece.span.has(*slot));
    let all = used_of(rows, used_there.clone().map(|(slot, _)| *slot))?;
    for (slot, has_keys) in used_there.copied() {
        if let Some(used) = all.get(&slot).copied() {
            Used { has_keys, ..used }.save(rows, slot)?;
        }
    }
    hold(rows, piece.span, |holding| Holding {
        kept: piece.wish,
        token: Token::Owned,
        ..holding
    })?;
    rows.delete(&place_of(piece.span))?;
    Ok(Told::Done)
}

fn drop_piece<R: Rows>(rows: &mut R, piece: Piece) -> Of<R> {
    let Some(known) = incoming(rows, piece)? else {
        return Ok(Told::Done);
    };
    remove(rows, piece.span)?;
    let (to, wish) = (known.from, piece.wish);
    hold(rows, piece.span, |holding| Holding {
        token: Token::Gone { to, wish },
        ..holding
    })?;
    rows.delete(&place_of(piece.span))?;
    Ok(Told::Done)
}

fn owns<R: Rows>(rows: &mut R, piece: Piece) -> Of<R> {
    let wish = piece.wish;
    let had = |holding: &Holding| {
        let passed_on = match holding.token {
            // ‡ One that dropped them says so with the wish itself.
            Token::Gone { wish: since, .. } => since > wish,
            Token::Owned | Token::Leaving { .. } | Token::Frozen { .. } => true,
            Token::None | Token::Coming { .. } => false,
        };
        match holding.epoch == wish {
            true => passed_on,
            // It came back since.
            false => holding.epoch > wish,
        }
    };
    let runs = holdings(rows, piece.span)?;
    Ok(Told::Owns(runs.iter().all(|(_, holding)| had(holding))))
}
