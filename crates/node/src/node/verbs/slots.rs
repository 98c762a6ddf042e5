//! `slots`, `change-slots`.

use slots::{Change, Map, Part, Span};
use wire::change_slots::{ChangeSlots, SlotsVerb};
use wire::told::{SlotsChanged, SlotsGroup, SlotsMove, SlotsPart, SlotsTold};
use wire::{LogKind, Refusal};

use super::awaiting::{Answer, Commands, Want, perhaps_done};
use crate::directory::{Command, Directory};
use crate::greeting::Caller;
use crate::node::Node;

struct Slots {
    version: Option<u32>,
}

impl Want for Slots {
    fn answer(&mut self, node: &mut Node, _: &mut Commands) -> Answer {
        match told(&node.cluster.directory, self.version) {
            Ok(told) if told.moving.is_empty() => Answer::List(wire::ok(&told)),
            Ok(told) => Answer::List(wire::ok(&SlotsTold {
                under_way: node.slots_under_way(),
                ..told
            })),
            Err(refusal) => Answer::Line(refusal.encode()),
        }
    }
}

struct Changes {
    asked: ChangeSlots,
    /// The answer, once it is proposed.
    proposed: Option<(Change, SlotsChanged)>,
    /// The end of this version of the map was proposed.
    dropped: Option<u32>,
}

impl Want for Changes {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_change_slots(self, commands)
    }

    fn on_late(&self, _: &Node, refusal: Refusal) -> Refusal {
        match self.proposed.is_some() || self.dropped.is_some() {
            true => perhaps_done("look with `logberg kv map`"),
            false => refusal,
        }
    }
}

impl Node {
    /// `slots [version=N]`
    pub(super) fn tell_slots_map(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        request.check()?;
        let version = request.parsed("version")?;
        self.tell_fresh(caller, Slots { version })
    }

    /// `change-slots join|leave|move|balance [groups=NAME,…] [slots=0-99,…] [plan=1] [version=N]`
    pub(super) fn change_slots(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        request.check()?;
        let asked = ChangeSlots::read(request)?;
        let changes = Changes {
            asked,
            proposed: None,
            dropped: None,
        };
        self.await_directory(caller, changes)
    }

    /// Answers once the directory has the change.
    fn answer_change_slots(&mut self, changes: &mut Changes, commands: &mut Commands) -> Answer {
        let directory = &self.cluster.directory;
        if let Some((change, told)) = &changes.proposed {
            let is_so = directory.slots.changed(change).as_ref() == Ok(&*directory.slots);
            return match is_so && directory.slots.version() > told.before {
                true => Answer::Line(wire::ok(told).into_bytes()),
                false if !self.logs.can_direct() => Answer::Wait,
                false if !self.cluster.has_applied_its_own(&self.logs) => Answer::Wait,
                false => Answer::Line(overtaken().encode()),
            };
        }
        if !self.logs.can_direct() {
            return Answer::Wait;
        }
        if changes.asked.verb == SlotsVerb::Drop {
            return self.answer_drop_slots(changes, commands);
        }
        let worked = work_out(directory, &changes.asked);
        let (change, told) = match worked {
            Ok(worked) => worked,
            Err(refusal) => return Answer::Line(refusal.encode()),
        };
        if changes.asked.plan || told.version == told.before {
            return Answer::Line(wire::ok(&told).into_bytes());
        }
        commands.push(Command::ChangeSlots {
            change: change.clone(),
            expects: Some(told.before),
        });
        changes.proposed = Some((change, told));
        Answer::Wait
    }
}

impl Node {
    /// Answers once the directory has no map, and all groups are to end.
    fn answer_drop_slots(&self, changes: &mut Changes, commands: &mut Commands) -> Answer {
        let map = &self.cluster.directory.slots;
        let moves = |part: &Part| SlotsMove {
            first: part.span.first(),
            last: part.span.last(),
            from: Some(self.cluster.directory.name_of_group(part.group)),
            to: String::new(),
        };
        if map.version() > 0 && !changes.asked.plan {
            let expects = map.version();
            if changes.dropped.is_some() && !self.cluster.has_applied_its_own(&self.logs) {
                return Answer::Wait;
            }
            // Once for each version: another change may have come first.
            if changes.dropped.replace(expects) != Some(expects) {
                commands.push(Command::DropSlots { expects });
            }
            return Answer::Wait;
        }
        let told = SlotsChanged {
            before: map.version(),
            version: 0,
            slots: map.wanted().iter().map(|part| part.span.count()).sum(),
            moves: map.wanted().iter().map(moves).collect(),
        };
        Answer::Line(wire::ok(&told).into_bytes())
    }
}

fn overtaken() -> Refusal {
    Refusal::new(
        "refused",
        "the slots were not changed, since another change of the map came before it: look at the new plan, and ask again",
    )
}

/// The group of this name.
fn group_named(directory: &Directory, name: &str) -> Result<u32, Refusal> {
    let id = directory.log_by_name(name);
    let entry = id.and_then(|id| directory.logs.get(&id));
    match (id, entry) {
        (Some(id), Some(entry)) if entry.kind == LogKind::Kv => Ok(id.0),
        (Some(_), Some(entry)) => Err(Refusal::new(
            "refused",
            format!(
                "{name} is a log of kind {}, and no group of keys: make one with `logberg kv join`",
                entry.kind
            ),
        )),
        _ => Err(Refusal::new(
            "unknown-log",
            format!(
                "there is no group {name}: `logberg kv status` lists them, and `logberg kv join` makes one"
            ),
        )),
    }
}

/// ‡ Changes count on from there, and a count that began anew would hide all keys.
const ADOPTED_MAX: u32 = u32::MAX / 2;

fn work_out(directory: &Directory, asked: &ChangeSlots) -> Result<(Change, SlotsChanged), Refusal> {
    let map = &directory.slots;
    if let Some(version) = asked.version
        && asked.verb != SlotsVerb::Adopt
        && version != map.version()
    {
        return Err(Refusal::new(
            "refused",
            format!(
                "the map has version {} by now, and not {version}: look at the new plan, and ask again",
                map.version()
            ),
        ));
    }
    let groups: Vec<u32> = asked
        .groups
        .iter()
        .map(|name| group_named(directory, name))
        .collect::<Result<_, _>>()?;
    let first = groups.first().copied().unwrap_or_default();
    let change = match asked.verb {
        SlotsVerb::Join => Change::Join { groups },
        SlotsVerb::Leave => Change::Leave { group: first },
        SlotsVerb::Move => {
            let spans = asked.slots.as_deref().unwrap_or_default().split(',');
            let spans = spans.filter(|text| !text.is_empty()).map(str::parse);
            let spans: Result<Vec<Span>, _> = spans.collect();
            let refuse = |error: slots::NoSpan| Refusal::new("bad-request", error.to_string());
            let (spans, group) = (spans.map_err(refuse)?, first);
            Change::Move { spans, group }
        }
        SlotsVerb::Balance => Change::Balance,
        SlotsVerb::Drop => return Err(overtaken()),
        SlotsVerb::Adopt if asked.version > Some(ADOPTED_MAX) => {
            let sentence = format!("a map that is brought back has a version up to {ADOPTED_MAX}");
            return Err(Refusal::new("bad-request", sentence));
        }
        SlotsVerb::Adopt => Change::Adopt {
            version: asked.version.unwrap_or_default(),
            parts: parts_of(directory, asked.slots.as_deref().unwrap_or_default())?,
        },
    };
    let refuse = |why: slots::Refused| {
        let name = |group: u32| directory.name_of_group(group);
        let sentence = match why {
            slots::Refused::NotIn(group) => format!(
                "{} has not joined: let it join first (logberg kv join {})",
                name(group),
                name(group)
            ),
            why => why.to_string(),
        };
        Refusal::new("refused", sentence)
    };
    let after = map.changed(&change).map_err(refuse)?;
    let moves = moves_between(directory, map, &after);
    let slots = moves.iter().map(|one| u32::from(one.last - one.first) + 1);
    let told = SlotsChanged {
        before: map.version(),
        version: after.version(),
        slots: slots.sum(),
        moves,
    };
    Ok((change, told))
}

/// `0-99:NAME:SINCE,…`
fn parts_of(directory: &Directory, text: &str) -> Result<Vec<Part>, Refusal> {
    let part = |text: &str| {
        let mut words = text.split(':');
        let span = words.next().and_then(|span| span.parse().ok());
        let name = words.next();
        let since = words.next().and_then(|since| since.parse().ok());
        let (Some(span), Some(name), Some(since)) = (span, name, since) else {
            let sentence = format!("{text:?} is no part of a map: say 0-99:NAME:SINCE");
            return Err(Refusal::new("bad-request", sentence));
        };
        let group = group_named(directory, name)?;
        Ok(Part { span, group, since })
    };
    text.split(',').map(part).collect()
}

/// The slots that another group is to have than before.
fn moves_between(directory: &Directory, before: &Map, after: &Map) -> Vec<SlotsMove> {
    let mut moves: Vec<SlotsMove> = Vec::new();
    for slot in 0..slots::SLOTS {
        let group = |map: &Map| map.wanted_at(slot).map(|part| part.group);
        let (from, to) = (group(before), group(after));
        let Some(to) = to.filter(|to| Some(*to) != from) else {
            continue;
        };
        let from = from.map(|from| directory.name_of_group(from));
        let to = directory.name_of_group(to);
        match moves.last_mut() {
            Some(last) if last.last + 1 == slot && (&last.from, &last.to) == (&from, &to) => {
                last.last = slot;
            }
            _ => moves.push(SlotsMove {
                first: slot,
                last: slot,
                from,
                to,
            }),
        }
    }
    moves
}

fn told(directory: &Directory, version: Option<u32>) -> Result<SlotsTold, Refusal> {
    let map = &directory.slots;
    let part = |part: &Part| SlotsPart {
        first: part.span.first(),
        last: part.span.last(),
        group: directory.name_of_group(part.group),
        since: part.since,
    };
    let (first_version, last_version) = (map.versions().next(), map.versions().last());
    let of = |parts: &[Part]| parts.iter().map(part).collect();
    if let Some(version) = version.filter(|version| *version != map.version()) {
        let Some(wanted) = map.at(version) else {
            return Err(Refusal::new(
                "refused",
                format!(
                    "version {version} of the map is not known: there is version 1, and up to 1,000 of the latest, of which this is {}",
                    map.version()
                ),
            ));
        };
        return Ok(SlotsTold {
            version,
            wanted: of(wanted),
            first_version: first_version.unwrap_or_default(),
            last_version: last_version.unwrap_or_default(),
            ..SlotsTold::default()
        });
    }
    let groups = directory.groups().map(|(id, entry)| SlotsGroup {
        id: u64::from(id.0),
        name: entry.name.clone(),
        joined: map.groups().contains(&id.0),
        wanted: map.slots_of(id.0),
        served: map.served_by(id.0),
    });
    let moving = map.moving().into_iter().map(|moving| SlotsMove {
        first: moving.span.first(),
        last: moving.span.last(),
        from: moving.from.map(|group| directory.name_of_group(group)),
        to: directory.name_of_group(moving.to),
    });
    Ok(SlotsTold {
        version: map.version(),
        groups: groups.collect(),
        wanted: of(map.wanted()),
        served: of(map.served()),
        moving: moving.collect(),
        under_way: Vec::new(),
        first_version: first_version.unwrap_or_default(),
        last_version: last_version.unwrap_or_default(),
    })
}
