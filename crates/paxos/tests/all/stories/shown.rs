//! The events of a world, in the words of a story.

use paxos::*;

use super::words::{bytes, left_open, said, valued};
use crate::world::{Seen, World};

/// The lines for what was seen. A message to several nodes is one line.
pub fn lines(seen: &[Seen], quietly: bool) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut last: Option<(NodeId, NodeId, &Message)> = None;
    for seen in seen {
        if quietly && !is_news(seen) {
            continue;
        }
        if let Seen::Sent {
            from,
            to,
            message,
            lost: false,
        } = seen
        {
            let before = last.replace((*from, *to, message));
            if before.is_some_and(|(f, t, m)| f == *from && t != *to && m == message)
                && let Some(line) = lines.last_mut()
                && let Some((head, tail)) = line.split_once("  ")
            {
                *line = format!("{head} {to}  {tail}");
                continue;
            }
        }
        let Some(line) = line(seen) else {
            continue;
        };
        if !matches!(seen, Seen::Sent { .. }) {
            last = None;
        }
        lines.push(line);
    }
    lines
}

/// Whether an event is told of a step that is passed over quickly.
fn is_news(seen: &Seen) -> bool {
    match seen {
        Seen::Did { output, .. } => matches!(
            output,
            Output::Role(_)
                | Output::Chosen { .. }
                | Output::StateInstalled
                | Output::ReadReady(_)
                | Output::ReadsFailed
                | Output::Release { .. }
        ),
        Seen::Failed(_) => true,
        _ => false,
    }
}

fn line(seen: &Seen) -> Option<String> {
    match seen {
        Seen::Did {
            node,
            output,
            finishing,
            waits,
        } => did(*node, output, *finishing, *waits),
        Seen::Sent {
            from,
            to,
            message,
            lost,
        } => {
            let arrow = if *lost { "-x" } else { "->" };
            Some(format!("{from} {arrow} {to}  {}", said(message)))
        }
        Seen::Received {
            from,
            to,
            message,
            down,
        } => {
            let down = if *down { ", which is down" } else { "" };
            Some(format!("{to} <- {from}{down}  {}", said(message)))
        }
        Seen::Durable { node, up_to } => Some(format!("{node} disk: durable up to #{}", up_to.0)),
        Seen::Failed(why) => Some(why.clone()),
    }
}

fn did(node: NodeId, output: &Output, finishing: Option<Finishing>, waits: bool) -> Option<String> {
    let text = match output {
        Output::Persist { record, what } => {
            let what = match what {
                Persist::Promise { term } => {
                    let open = finishing.map(|f| format!(", {}", left_open(f)));
                    format!("promised {}{}", term.0, open.unwrap_or_default())
                }
                Persist::Accept {
                    term, slots, value, ..
                } => format!("accepted {slots} in {term}: {}", valued(value, *slots)),
                Persist::State => String::from("the state of a peer"),
            };
            format!("disk: #{} {what}", record.0)
        }
        Output::Send { to, message, after } if waits => {
            format!("waits for #{}, then -> {to}  {}", after.0, said(message))
        }
        Output::Send { .. } | Output::Replicate(_) => return None, // seen when they are under way
        Output::Permit(None) => String::from("permit: closed"),
        Output::Permit(Some(permit)) => {
            let slots = SlotRange::new(permit.next, permit.limit);
            match &permit.content {
                PermitContent::Free => format!("permit: {slots} in {}", permit.term),
                PermitContent::Bound {
                    stream,
                    position,
                    holders,
                } => {
                    let holders: Vec<String> = holders.iter().map(NodeId::to_string).collect();
                    format!(
                        "permit: {slots} in {}, bound to {}, held by {}",
                        permit.term,
                        bytes(*stream, position.0, slots.len()),
                        holders.join(" ")
                    )
                }
            }
        }
        Output::Applied { slot, outcome } => format!("applies slot {slot}: {}", came(outcome)),
        Output::Chosen { up_to } => format!("knows chosen: all below {up_to}"),
        Output::Release { below } => format!("drops its bytes below {below}"),
        Output::StateInstalled => String::from("takes a peer's state in place of slots"),
        Output::Contradicted { by, .. } => format!("is contradicted by {by}"),
        Output::Role(role) => role_of(*role),
        Output::ReadReady(read) => format!("may answer read {}", read.0),
        Output::ReadsFailed => String::from("fails the reads that wait"),
        Output::Note(note) => noted(note),
    };
    Some(format!("{node} {text}"))
}

pub fn role_of(role: Role) -> String {
    match role {
        Role::Candidate => String::from("is a candidate"),
        Role::Follower { leader, term } => format!("follows {leader} in {term}"),
        Role::Leader { term } => format!("leads in {term}"),
    }
}

fn noted(note: &Note) -> String {
    match note {
        Note::StandingForElection { term } => format!("stands for election in {term}"),
        Note::HandsOver { from, term } => format!("hears that {from} hands over, to {term}"),
        Note::SteppedDown { term, reason } => format!("stepped down from {term}: {reason:?}"),
        Note::PhaseOneAgain { term } => format!("does phase 1 again, in {term}"),
        Note::CastingVote { term } => format!("casts its vote for {term}"),
        Note::Refused { by, term } => format!("is refused by {by}, which promised {term}"),
        Note::DigestMismatch { by, slots } => format!("hears of other bytes in {slots} of {by}"),
        Note::Ignored { from, reason } => format!("ignores that of {from}: {reason:?}"),
    }
}

fn came(outcome: &Outcome) -> String {
    match outcome {
        Outcome::NodeId(node) => format!("node id {node} is given"),
        Outcome::Opened(stream) => format!("stream {stream} is opened"),
        Outcome::Closed { stream, at } => format!("stream {stream} is closed at {at}"),
        Outcome::Reconfigured { era } => format!("era {} begins", era.0),
        Outcome::Trimmed { before } => format!("slots below {before} are forgotten"),
        other => format!("{other:?}"),
    }
}

/// All replicas, one letter for each slot:
///
/// ```text
/// 1 leads in 0.1.1     Oaaaaa|aa     chosen, as far as it knows | accepted
/// 2 follows 1 in 0.1.1 Oaaa|--aa     a hole
/// ```
pub fn drawing(world: &World) -> Vec<String> {
    let heads: Vec<String> = world
        .nodes
        .iter()
        .map(|node| head(world, node.id))
        .collect();
    let width = heads.iter().map(String::len).max().unwrap_or(0);
    let rows = world.nodes.iter().zip(heads).map(|(node, head)| {
        let letters = node.engine.as_ref().map(|e| letters(world, e));
        format!("{head:width$}  {}", letters.unwrap_or_default())
            .trim_end()
            .to_string()
    });
    rows.collect()
}

fn head(world: &World, node: NodeId) -> String {
    let at = world.index(node);
    let Some(engine) = &world.nodes[at].engine else {
        return format!("{node} is down");
    };
    let configuration = &engine.state().configuration;
    let mut head = format!("{node} {}", role_of(engine.role()));
    head += &match configuration.weight(node) {
        0 => String::from(", no vote"),
        1 => String::new(),
        weight => format!(", {weight} votes"),
    };
    if configuration.has_auxiliaries() {
        if configuration.is_auxiliary(node) {
            head += ", auxiliary";
        }
        if engine.is_engaged() {
            head += ", with its auxiliaries";
        }
        head += &format!(", {} bytes on disk", world.bytes_on_disk(at));
    }
    match world.records_to_write(at) {
        0 => head,
        count => format!("{head}, {count} to write"),
    }
}

fn letters(world: &World, engine: &Engine) -> String {
    let state = engine.state();
    let mut letters: String = (0..state.next.0)
        .map(|slot| match slot < state.trimmed.0 {
            true => '_',
            false => letter(&world.truth[slot as usize]),
        })
        .collect();
    letters.push('|');
    let accepted = engine.accepted();
    let end = accepted.iter().map(|run| run.slots.end.0).max();
    for slot in state.next.0..end.unwrap_or(0) {
        let run = accepted.iter().find(|run| run.slots.contains(Slot(slot)));
        letters.push(run.map_or('-', |run| letter(&run.value)));
    }
    letters
}

/// The letter of a byte's writer: node 1's bytes are `a`.
fn letter(value: &Value) -> char {
    match value {
        Value::NoOp => '.',
        Value::Content { stream, .. } => (b'a' + (stream.owner.0 as u8 - 1) % 26) as char,
        Value::Action(action) => match &**action {
            Action::GenerateNodeId => 'N',
            Action::Reconfigure { .. } => 'R',
            Action::OpenStream(_) => 'O',
            Action::CloseStream { .. } => 'C',
            Action::CutStream { .. } => 'X',
            Action::Trim { .. } => 'T',
            Action::Wish(_) => 'W',
        },
    }
}
