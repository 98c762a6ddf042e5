//! The auxiliaries among the members of a log, when an active one stays away.
//!
//! ```text
//!   A active   B active   C auxiliary          two copies of every byte; C holds none
//!   A          B silent   C engaged            C takes all that is new: two copies again, at once
//!   A          B away     C active             unmarked: C fetches what it lacks
//!   A          C active   B auxiliary          ‡ marked once A and C hold all of a moment ago
//! ```
//!
//! Where the active members are no quorum (a log of two that was made with an auxiliary) one more becomes active at once.
//!
//! Each step is one legal change, worked out anew from where the log stands, so it does not matter who
//! leads meanwhile. A node that comes back is an auxiliary, and is released from what it still holds.
//!
//! Units:  bytes.
//! Errors: none; where no step is possible yet, none is returned.

use std::cmp::Reverse;
use std::time::Duration;

use paxos::{Change, Configuration, NodeId};

/// A leader's knowledge of a member of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub node: NodeId,
    /// The time for which it has been silent; `None` while it is alive, and for the leader itself.
    pub silent_for: Option<Duration>,
    /// ‡ Active members that form a quorum without it durably hold all bytes chosen up to a moment ago.
    pub is_spared: bool,
    pub free_bytes: u64,
    /// Whether its machine is there to be auxiliary.
    pub stands_in: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The number of members that are to be auxiliary.
    pub auxiliaries: usize,
    /// The silence after which an active member is given up.
    pub away_after: Duration,
    /// The free space below which an auxiliary takes no bytes.
    pub reserve_bytes: u64,
    /// The bytes that an active member holds, of the log and of the state of its guest.
    pub held_bytes: u64,
}

impl Part {
    fn is_alive(&self) -> bool {
        self.silent_for.is_none()
    }
}

/// The next step towards as many auxiliaries as are wanted, none of the active ones away. `parts` are
/// the configuration's members; `first` are those that were to be auxiliary in the beginning.
pub fn next_step(
    configuration: &Configuration,
    parts: &[Part],
    first: &[NodeId],
    rules: Rules,
) -> Option<Change> {
    let is_auxiliary = |part: &&Part| configuration.is_auxiliary(part.node);
    let auxiliaries: Vec<&Part> = parts.iter().filter(is_auxiliary).collect();
    let active: Vec<&Part> = parts.iter().filter(|part| !is_auxiliary(part)).collect();
    // An auxiliary that fills while it stands in for somebody cannot do so for long.
    let fills = auxiliaries
        .iter()
        .any(|part| part.is_alive() && part.free_bytes < 2 * rules.reserve_bytes);
    let away_after = match fills {
        true => rules.away_after / 10,
        false => rules.away_after,
    };
    let is_away = |part: &&&Part| part.silent_for.is_some_and(|silent| silent >= away_after);
    let away: Vec<&&Part> = active.iter().filter(is_away).collect();
    let missing = rules.auxiliaries.saturating_sub(auxiliaries.len());
    let needed = rules.held_bytes.saturating_add(2 * rules.reserve_bytes);
    let is_able = |part: &&&Part| part.is_alive() && part.free_bytes >= needed;
    // ‡ Active members that are no quorum are fewer copies than one has: nothing is released, and no member can say that
    // others hold everything without it. A log may be made so.
    let is_short = !has_active_quorum(configuration);
    if is_short || away.len() > missing {
        // One more of the members that can be reached has to hold everything.
        let mut able: Vec<&&Part> = auxiliaries.iter().filter(is_able).collect();
        able.sort_by_key(|part| (part.stands_in, Reverse(part.free_bytes), part.node));
        return able
            .first()
            .map(|part| Change::UnmarkAuxiliary(part.node))
            .filter(|change| configuration.apply(*change).is_ok());
    }
    let stands_in = |part: &&Part| part.stands_in && part.is_alive();
    if missing == 0 {
        // The node is back from standing in: one that is there for more becomes active, and this one auxiliary.
        let others = auxiliaries.iter().filter(|part| !part.stands_in);
        let back = others.filter(is_able).min_by_key(|part| part.node);
        let back = back.filter(|_| active.iter().any(stands_in));
        return back
            .filter(|_| away.is_empty() && auxiliaries.len() == rules.auxiliaries)
            .map(|part| Change::UnmarkAuxiliary(part.node))
            .filter(|change| configuration.apply(*change).is_ok());
    }
    // There are too few auxiliaries: members that are away are marked first, then those that were meant to
    // be. While one that stands in is not spared yet, no other is marked in its place: it would only be
    // unmarked again.
    let waits = active.iter().any(stands_in);
    let may = |part: &&&Part| part.is_spared && (!waits || part.stands_in || is_away(part));
    let mut spared: Vec<&&Part> = active.iter().filter(may).collect();
    spared.sort_by_key(|part| {
        (
            !is_away(part),
            !part.stands_in,
            !first.contains(&part.node),
            Reverse(part.node),
        )
    });
    let changes = spared.iter().map(|part| Change::MarkAuxiliary(part.node));
    changes.into_iter().find(|change| {
        let next = configuration.apply(*change);
        next.is_ok_and(|next| has_active_quorum(&next))
    })
}

/// Whether the members that are not auxiliary can decide by themselves.
pub fn has_active_quorum(configuration: &Configuration) -> bool {
    configuration.is_quorum(|node| !configuration.is_auxiliary(node))
}

#[cfg(test)]
mod tests {
    use paxos::Member;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const RULES: Rules = Rules {
        auxiliaries: 1,
        away_after: Duration::from_secs(30),
        reserve_bytes: 1_000,
        held_bytes: 100_000,
    };

    fn configuration(count: u32, auxiliary: &[u32]) -> Configuration {
        let members = (1..=count).map(|node| Member {
            node: NodeId(node),
            weight: 1,
            auxiliary: auxiliary.contains(&node),
        });
        Configuration::new(members).unwrap()
    }

    /// All alive, with much space; nobody holds everything.
    fn parts(count: u32) -> Vec<Part> {
        let part = |node| Part {
            node: NodeId(node),
            silent_for: None,
            is_spared: false,
            free_bytes: 1_000_000,
            stands_in: false,
        };
        (1..=count).map(part).collect()
    }

    fn next(configuration: &Configuration, parts: &[Part]) -> Option<Change> {
        next_step(configuration, parts, &[NodeId(3)], RULES)
    }

    #[test]
    fn nothing_is_done_while_all_are_there_or_soon_back() {
        let marked = configuration(3, &[3]);
        let mut parts = parts(3);
        assert_eq!(next(&marked, &parts), None);
        parts[1].silent_for = Some(29 * SECOND);
        assert_eq!(next(&marked, &parts), None);
        parts[1].silent_for = None;
        parts[2].silent_for = Some(90 * SECOND);
        assert_eq!(next(&marked, &parts), None, "it holds nothing anyway");
    }

    #[test]
    fn an_active_member_that_stays_away_changes_places_with_an_auxiliary() {
        let mut parts = parts(3);
        parts[1].silent_for = Some(30 * SECOND);
        let unmark = Change::UnmarkAuxiliary(NodeId(3));
        assert_eq!(next(&configuration(3, &[3]), &parts), Some(unmark));
        let between = configuration(3, &[]);
        assert_eq!(
            next(&between, &parts),
            None,
            "until the others hold everything"
        );
        parts[1].is_spared = true;
        let mark = Change::MarkAuxiliary(NodeId(2));
        assert_eq!(next(&between, &parts), Some(mark));
        assert_eq!(next(&configuration(3, &[2]), &parts), None);
        parts[1].silent_for = None;
        assert_eq!(
            next(&configuration(3, &[2]), &parts),
            None,
            "nor when it is back"
        );
    }

    #[test]
    fn one_that_came_back_before_it_was_marked_is_one_of_many() {
        let mut parts = parts(3);
        parts.iter_mut().for_each(|part| part.is_spared = true);
        let mark = Change::MarkAuxiliary(NodeId(3));
        assert_eq!(
            next(&configuration(3, &[]), &parts),
            Some(mark),
            "the one it was meant to be"
        );
    }

    #[test]
    fn an_auxiliary_that_fills_is_not_waited_for_as_long() {
        let rules = Rules {
            auxiliaries: 2,
            ..RULES
        };
        let marked = configuration(5, &[4, 5]);
        let mut parts = parts(5);
        parts[1].silent_for = Some(3 * SECOND);
        assert_eq!(next_step(&marked, &parts, &[], rules), None);
        parts[3].free_bytes = 1_999;
        let unmark = Change::UnmarkAuxiliary(NodeId(5));
        assert_eq!(next_step(&marked, &parts, &[], rules), Some(unmark));
    }

    #[test]
    fn an_auxiliary_without_room_for_the_log_is_not_given_it() {
        let mut parts = parts(3);
        parts[1].silent_for = Some(60 * SECOND);
        parts[2].free_bytes = 101_999;
        assert_eq!(next(&configuration(3, &[3]), &parts), None);
    }

    #[test]
    fn without_an_auxiliary_that_is_alive_there_is_nobody_to_take_its_place() {
        let mut parts = parts(3);
        parts[1].silent_for = Some(60 * SECOND);
        parts[2].silent_for = Some(60 * SECOND);
        assert_eq!(next(&configuration(3, &[3]), &parts), None);
    }

    #[test]
    fn as_many_are_unmarked_as_stay_away() {
        let rules = Rules {
            auxiliaries: 2,
            ..RULES
        };
        let mut parts = parts(5);
        parts[0].silent_for = Some(60 * SECOND);
        parts[3].free_bytes = 500_000;
        let step = |auxiliary: &[u32], parts: &[Part]| {
            next_step(
                &configuration(5, auxiliary),
                parts,
                &[NodeId(4), NodeId(5)],
                rules,
            )
        };
        assert_eq!(
            step(&[4, 5], &parts),
            Some(Change::UnmarkAuxiliary(NodeId(5))),
            "most space"
        );
        assert_eq!(step(&[4], &parts), None);
        parts[1].silent_for = Some(60 * SECOND);
        assert_eq!(step(&[4], &parts), Some(Change::UnmarkAuxiliary(NodeId(4))));
        parts[0].is_spared = true;
        assert_eq!(step(&[], &parts), Some(Change::MarkAuxiliary(NodeId(1))));
    }

    #[test]
    fn an_auxiliary_becomes_active_where_the_active_members_are_no_quorum() {
        let one_of_two = Rules {
            auxiliaries: 0,
            ..RULES
        };
        let marked = configuration(2, &[2]);
        let step = |parts: &[Part]| next_step(&marked, parts, &[NodeId(2)], one_of_two);
        let mut parts = parts(2);
        let unmark = Change::UnmarkAuxiliary(NodeId(2));
        assert_eq!(step(&parts), Some(unmark));
        parts[1].free_bytes = 101_999;
        assert_eq!(step(&parts), None, "it has no room for the log");
        parts[1].free_bytes = 1_000_000;
        parts[1].silent_for = Some(SECOND);
        assert_eq!(step(&parts), None, "it cannot be filled");
        let active = next_step(&configuration(2, &[]), &parts, &[NodeId(2)], one_of_two);
        assert_eq!(active, None, "and stays active");
    }

    #[test]
    fn one_that_stands_in_is_auxiliary_again_once_the_others_are_back() {
        let mut parts = parts(3);
        parts[2].stands_in = true;
        // Node 3 took the place of node 2, which is back now.
        let marked = configuration(3, &[2]);
        parts[1].silent_for = Some(SECOND);
        assert_eq!(next(&marked, &parts), None);
        parts[1].silent_for = None;
        let unmark = Change::UnmarkAuxiliary(NodeId(2));
        assert_eq!(next(&marked, &parts), Some(unmark));
        let between = configuration(3, &[]);
        parts[1].is_spared = true;
        parts[0].is_spared = true;
        assert_eq!(
            next(&between, &parts),
            None,
            "until node 2 holds everything"
        );
        parts[2].is_spared = true;
        let mark = Change::MarkAuxiliary(NodeId(3));
        assert_eq!(next(&between, &parts), Some(mark));
        assert_eq!(next(&configuration(3, &[3]), &parts), None);
    }

    #[test]
    fn one_that_stands_in_is_the_last_to_become_active() {
        let rules = Rules {
            auxiliaries: 2,
            ..RULES
        };
        let mut parts = parts(5);
        parts[0].silent_for = Some(60 * SECOND);
        parts[3].stands_in = true;
        parts[3].free_bytes = 9_000_000;
        let unmark = Change::UnmarkAuxiliary(NodeId(5));
        assert_eq!(
            next_step(&configuration(5, &[4, 5]), &parts, &[], rules),
            Some(unmark)
        );
    }

    #[test]
    fn no_step_makes_the_auxiliaries_a_quorum() {
        let members = [(1, 2, false), (2, 2, false), (3, 1, true)];
        let members = members.map(|(node, weight, auxiliary)| Member {
            node: NodeId(node),
            weight,
            auxiliary,
        });
        let heavy = Configuration::new(members).unwrap();
        let rules = Rules {
            auxiliaries: 2,
            ..RULES
        };
        let mut parts = parts(3);
        parts.iter_mut().for_each(|part| part.is_spared = true);
        assert_eq!(next_step(&heavy, &parts, &[], rules), None);
    }
}
