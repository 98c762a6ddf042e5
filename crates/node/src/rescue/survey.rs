//! One log as a survivor has it: read as a whole, with the holes in it.

use std::ops::Range;
use std::path::Path;

use ops::Disk;
use paxos::{AcceptedRun, LogState, OutputPlace, Slot, StreamName, StreamPosition, Value};
use store::{Holdings, Manifest, ManifestLog, OfflineError, ReadOffline, Store, StoreConfig};

use super::{Damaged, Hole, HolesOf, Kept, RescueError, RescuedLog};

/// The greatest id of a member or an owner here.
pub(super) fn greatest_node(state: &LogState) -> u32 {
    let members = state.configuration.members().iter().map(|m| m.node.0);
    let owners = state.sequences.keys().map(|node| node.0);
    let given = state.next_node_id.0.saturating_sub(1);
    members.chain(owners).max().unwrap_or(0).max(given)
}

pub(super) fn log(
    disk: &mut dyn Disk,
    directory: &Path,
    manifest: &Manifest,
    listed: &ManifestLog,
    hears: &mut dyn FnMut(StreamName, &[u8]),
) -> Result<RescuedLog, RescueError> {
    let path = directory.join(formats::segment::directory_name(listed.id));
    let config = StoreConfig::new(path, manifest.identity, listed.id, 0);
    let failed = |error| RescueError::Replay {
        log: listed.id,
        error,
    };
    let (store, report, checkpoint) = Store::replay_only(config, disk).map_err(failed)?;
    let mut state = checkpoint.state;
    let known_chosen = state.next;
    // A trim may be among what was accepted: the end of the output tells, not its length.
    let end_of = |state: &LogState| replica::forgotten_bytes(state) + replica::output_bytes(state);
    let known_end = end_of(&state);
    let behind = state.take_for_chosen(&checkpoint.accepted);
    let accepted_end = checkpoint.accepted.iter().map(|run| run.slots.end).max();
    let beyond = held_from(state.next, &checkpoint.accepted, store.holdings());
    let above = state.next.max(accepted_end.unwrap_or(Slot(0)));
    let above = above.max(report.learn_past.unwrap_or(Slot(0)));
    let damaged = report.corruptions.iter().map(|one| Damaged {
        file: one.path.clone(),
        offset: one.from,
        what: one.what(),
    });
    let damaged = damaged.collect();
    let mut output = ReadOffline::new(&store, report, &state);
    let (mut holes, mut hidden) = (HolesOf::new(), None);
    loop {
        match output.next(disk) {
            Ok(Some(piece)) => hears(piece.stream, &piece.bytes),
            Ok(None) => break,
            Err(error @ OfflineError::Hidden { .. }) => {
                hidden = Some(error.to_string());
                break;
            }
            Err(error) => match output.skip() {
                Some((stream, range)) => {
                    add(holes.entry(stream).or_default(), range, error.to_string());
                }
                None => break,
            },
        }
    }
    let all_bytes = replica::output_bytes(&state);
    let lacking = holes.values().flatten();
    let lacking: u64 = lacking.map(|(range, _)| range.end - range.start).sum();
    let longest = longest_part(&state, &holes);
    let kept = (!holes.is_empty()).then(|| longest.clone()).flatten();
    let carried_bytes = match &kept {
        Some(part) => part.bytes,
        None => all_bytes - lacking,
    };
    let listed_holes = holes.iter().flat_map(|(stream, holes)| {
        holes.iter().map(|(range, why)| Hole {
            stream: stream.to_string(),
            from: range.start,
            to: range.end,
            why: why.clone(),
        })
    });
    Ok(RescuedLog {
        id: listed.id.0,
        name: listed.name.clone(),
        kind: listed.kind,
        begins_at: replica::forgotten_bytes(&state),
        ends_at: end_of(&state),
        first_unchosen: known_chosen.0,
        carried_bytes,
        unsure_bytes: end_of(&state).saturating_sub(known_end),
        unknown_before: behind.map(|slot| slot.0),
        holes: listed_holes.collect(),
        left_bytes: all_bytes - lacking - carried_bytes + beyond,
        hidden,
        damaged,
        kept: kept.map(|part| Kept {
            from: shown(part.from),
            to: shown(part.to),
            between: (part.from, part.to),
        }),
        state,
        promised: checkpoint.promised,
        above,
    })
}

/// The bytes that are accepted in this slot or a later one and held here.
fn held_from(slot: Slot, accepted: &[AcceptedRun], holdings: &Holdings) -> u64 {
    let held = accepted.iter().map(|run| {
        let Value::Content { stream, offset } = run.value else {
            return 0;
        };
        let at = |slot: Slot| StreamPosition(slot.0.saturating_sub(offset.0));
        let bytes = at(run.slots.start.max(slot))..at(run.slots.end.max(slot));
        let held = holdings.held(stream, bytes);
        held.map(|held| held.end.0 - held.start.0).sum()
    });
    held.sum()
}

fn shown(place: OutputPlace) -> String {
    format!("{}@{}", place.stream, place.position)
}

/// Adds a hole. Holes that touch are one, for the first's reason.
fn add(holes: &mut Vec<(Range<u64>, String)>, range: Range<u64>, why: String) {
    match holes.last_mut() {
        Some((last, _)) if last.end == range.start => last.end = range.end,
        _ => holes.push((range, why)),
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    from: OutputPlace,
    to: OutputPlace,
    bytes: u64,
}

/// The longest part of the output in which nothing is missing; of two equal ones the later. `None` for a log
/// without streams.
fn longest_part(state: &LogState, holes: &HolesOf) -> Option<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for stream in &state.streams {
        let mut from = stream.trimmed.0;
        // There is no hole where one stream ends and the next begins.
        if parts.is_empty() {
            parts.push(Part::at(stream.name, from));
        }
        for (hole, _) in holes.get(&stream.name).into_iter().flatten() {
            extend(&mut parts, stream.name, from..hole.start);
            parts.push(Part::at(stream.name, hole.end));
            from = hole.end;
        }
        extend(&mut parts, stream.name, from..stream.length.0);
    }
    parts.into_iter().max_by_key(|part| part.bytes)
}

fn extend(parts: &mut [Part], stream: StreamName, bytes: Range<u64>) {
    if let Some(last) = parts.last_mut() {
        last.bytes += bytes.end - bytes.start;
        last.to = place(stream, bytes.end);
    }
}

fn place(stream: StreamName, position: u64) -> OutputPlace {
    OutputPlace {
        stream,
        position: StreamPosition(position),
    }
}

impl Part {
    fn at(stream: StreamName, position: u64) -> Part {
        Part {
            from: place(stream, position),
            to: place(stream, position),
            bytes: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paxos::{
        Action, Configuration, NodeId, Offset, OpenStream, SlotRange, StreamSequence, Value,
    };

    fn name(counter: u32) -> StreamName {
        StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        }
    }

    /// Two streams of 100 bytes.
    fn two() -> LogState {
        let mut state = LogState::new(Configuration::equal([NodeId(1)]).unwrap());
        for counter in [1, 2] {
            let open = OpenStream {
                stream: name(counter),
                label: String::new(),
                metadata: Vec::new(),
                continues: None,
            };
            let slot = state.next;
            let action = Value::Action(Action::OpenStream(open).into());
            state.apply(SlotRange::new(slot, Slot(slot.0 + 1)), &action);
            let (stream, offset) = (name(counter), Offset(slot.0 + 1));
            let bytes = SlotRange::new(state.next, Slot(state.next.0 + 100));
            state.apply(bytes, &Value::Content { stream, offset });
        }
        state
    }

    fn longest(holes: &[(u32, Range<u64>)]) -> (OutputPlace, OutputPlace, u64) {
        let mut all = HolesOf::new();
        for (counter, range) in holes {
            add(
                all.entry(name(*counter)).or_default(),
                range.clone(),
                String::new(),
            );
        }
        let part = longest_part(&two(), &all).expect("there are streams");
        (part.from, part.to, part.bytes)
    }

    #[test]
    fn the_longest_part_goes_over_the_ends_of_streams_and_over_no_hole() {
        let at = |counter, position| place(name(counter), position);
        assert_eq!(longest(&[]), (at(1, 0), at(2, 100), 200));
        assert_eq!(longest(&[(1, 10..20)]), (at(1, 20), at(2, 100), 180));
        assert_eq!(longest(&[(2, 90..100)]), (at(1, 0), at(2, 90), 190));
        let both = longest(&[(1, 10..20), (2, 60..70)]);
        assert_eq!(both, (at(1, 20), at(2, 60), 140));
        let touching = longest(&[(1, 90..95), (1, 95..100)]);
        assert_eq!(touching, (at(1, 100), at(2, 100), 100));
        assert_eq!(longest(&[(1, 0..100), (2, 0..100)]).2, 0);
    }

    #[test]
    fn ids_of_members_and_owners_are_not_given_again() {
        let mut state = two();
        assert_eq!(greatest_node(&state), 1);
        state.next_node_id = NodeId(8);
        assert_eq!(greatest_node(&state), 7);
    }
}
