//! What may happen at each step of handing a slot over: nodes die, are cut off, lose their states; wishes cross each other; clients ask in the
//! middle of it. The steps are seen in the groups' logs, and all is judged as in `moves`.

use resp::Value;

use crate::doors::{GROUPS, Street};
use crate::doorstep::Hand;
use crate::moves::{FROZEN, GONE, LEAVING, Removal, slot_of_tag};
use crate::stage::{MS, SECOND, done};

/// The steps of a slot that goes from the first group to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It is wanted, and nobody has done anything yet.
    Wanted,
    /// The first group notes what changes.
    Leaving,
    /// The second group copies.
    Coming,
    Frozen,
    Owned,
    Gone,
}

const STEPS: [Step; 6] = [
    Step::Wanted,
    Step::Leaving,
    Step::Coming,
    Step::Frozen,
    Step::Owned,
    Step::Gone,
];

/// A tag of the first group, and one of the second.
const TAG: &str = "b";
const BACK: &str = "c";

impl Removal {
    fn is_at(&self, step: Step) -> bool {
        let slot = slot_of_tag(TAG);
        let (source, target) = (self.told_by(0), self.told_by(1));
        let kind = source.token(slot).kind;
        match step {
            Step::Wanted => true,
            Step::Leaving => matches!(kind, LEAVING | FROZEN | GONE),
            Step::Coming => {
                target.rows.keys().any(|key| key.starts_with(b"mp"))
                    || target.token(slot).is_served()
            }
            Step::Frozen => matches!(kind, FROZEN | GONE),
            Step::Owned => target.token(slot).is_served(),
            Step::Gone => kind == GONE,
        }
    }

    fn wait_for(&mut self, step: Step) {
        for _ in 0..20_000 {
            if self.is_at(step) {
                return;
            }
            self.street.pass(MS / 2);
        }
        panic!("the slot does not come to {step:?}");
    }

    fn owner(&self, tag: &str) -> Vec<usize> {
        let slot = slot_of_tag(tag);
        let owns = |group: &usize| self.told_by(*group).token(slot).is_served();
        (0..3).filter(owns).collect()
    }
}

/// Clients write while a slot goes from the first group to the second. When it has come to each step in turn, something happens.
fn at_each_step(seed: u64, happens: impl Fn(&mut Removal)) {
    for (number, step) in STEPS.into_iter().enumerate() {
        let mut removal = Removal::new(seed * 10 + number as u64, 3, 80);
        removal.street.pass(200 * MS);
        removal.send(TAG, 1);
        removal.wait_for(step);
        happens(&mut removal);
        removal.street.pass(300 * MS);
        removal.calm();
        removal.judge();
        assert_eq!(removal.owner(TAG).len(), 1, "{step:?}: one group has it");
    }
}

/// As above, and the slot is where it was to go.
fn at_each_step_it_arrives(seed: u64, happens: impl Fn(&mut Removal)) {
    at_each_step(seed, |removal| {
        happens(removal);
        removal.street.pass(300 * MS);
        removal.calm();
        assert_eq!(removal.owner(TAG), [1]);
    });
}

fn leader(removal: &Removal, group: usize) -> usize {
    removal.street.leader(group).unwrap_or(group)
}

/// Of the log with the map.
fn leader_of_map(removal: &Removal) -> usize {
    let look = removal.street.stage.look();
    let leads = |index: &usize| {
        let node = look.node(*index);
        node.is_some_and(|node| {
            let mut views = node.log_views();
            views.any(|view| view.id.0 == 0 && matches!(view.role, paxos::Role::Leader { .. }))
        })
    };
    (0..3).find(leads).unwrap_or(0)
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_leader_of_the_group_that_gives_dies_at_each_step() {
    at_each_step_it_arrives(1, |removal| {
        let leader = leader(removal, 0);
        removal.street.crash(leader);
    });
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_leader_of_the_group_that_takes_dies_at_each_step() {
    for seed in [2, 22, 23] {
        at_each_step_it_arrives(seed, |removal| {
            let leader = leader(removal, 1);
            removal.street.crash(leader);
        });
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_leader_of_the_map_dies_at_each_step() {
    at_each_step_it_arrives(3, |removal| {
        let leader = leader_of_map(removal);
        removal.street.crash(leader);
    });
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn leaders_are_cut_off_at_each_step_and_come_back() {
    for group in 0..2 {
        at_each_step_it_arrives(4 + group as u64, |removal| {
            let leader = leader(removal, group);
            removal.street.stage.isolate(leader);
            removal.street.pass(2 * SECOND);
        });
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn all_nodes_lose_power_at_each_step() {
    at_each_step_it_arrives(6, |removal| {
        (0..3).for_each(|index| removal.street.cut_power(index));
    });
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn leaders_change_places_at_each_step() {
    at_each_step_it_arrives(7, |removal| {
        removal.street.lead(0, 1);
        removal.street.lead(1, 2);
    });
}

/// The replica that leads the group that gives, or the one that takes, has to make its state anew meanwhile.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_state_is_lost_at_each_step() {
    for group in 0..2 {
        at_each_step_it_arrives(8 + group as u64, |removal| {
            let leader = leader(removal, group);
            removal.street.lose(leader);
            removal.street.pass(200 * MS);
            removal.street.stage.restart(leader);
        });
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_slot_is_wanted_back_at_each_step() {
    at_each_step(10, |removal| {
        removal.send(TAG, 0);
        removal.street.pass(300 * MS);
        removal.calm();
        assert_eq!(removal.owner(TAG), [0]);
    });
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_slot_is_wanted_elsewhere_at_each_step_and_versions_are_skipped() {
    for seed in [11, 31, 32, 33, 34, 35, 36, 37] {
        at_each_step(seed, |removal| {
            removal.send(TAG, 0);
            removal.send(TAG, 1);
            removal.send(TAG, 2);
            removal.street.pass(300 * MS);
            removal.calm();
            assert_eq!(removal.owner(TAG), [2]);
        });
    }
}

/// The leader of the group that takes knows the old map only, and wakes when the slot has gone elsewhere.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn who_knows_an_old_map_only_changes_nothing() {
    at_each_step(12, |removal| {
        let old = leader(removal, 1);
        removal.street.stage.isolate(old);
        removal.street.pass(2 * SECOND);
        removal.send(TAG, 2);
        removal.street.pass(2 * SECOND);
        removal.street.stage.world.heal_all();
        removal.street.pass(SECOND);
        removal.calm();
        assert_eq!(removal.owner(TAG), [2]);
    });
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn two_groups_swap_slots_and_both_leaders_die_at_each_step() {
    at_each_step_it_arrives(13, |removal| {
        removal.send(BACK, 0);
        removal.street.pass(20 * MS);
        for group in 0..2 {
            let leader = leader(removal, group);
            if removal
                .street
                .stage
                .world
                .is_running(removal.street.stage.nodes[leader])
            {
                removal.street.crash(leader);
            }
        }
        removal.street.pass(100 * MS);
        removal.calm();
        assert_eq!(removal.owner(BACK), [0]);
    });
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_group_that_takes_leaves_at_each_step_and_joins_again() {
    at_each_step(14, |removal| {
        let name = GROUPS[1];
        removal.want(&format!("leave groups={name}"));
        removal.street.pass(50 * MS);
        removal.want(&format!("join groups={name}"));
    });
    at_each_step(15, |removal| {
        removal.want(&format!("leave groups={}", GROUPS[1]));
        removal.street.pass(300 * MS);
        removal.calm();
        assert_ne!(removal.owner(TAG), [1]);
    });
}

/// A group with slots, or towards which slots are on their way, keeps its log.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_group_that_takes_is_not_deleted_at_any_step() {
    at_each_step(16, |removal| {
        removal.want(&format!("leave groups={}", GROUPS[1]));
        let told = done(
            &mut removal.street.stage,
            &format!("delete-log {}", GROUPS[1]),
        );
        assert!(told.starts_with("error "), "{told}");
    });
}

/// A client of the first group, and one of the second, which nodes 1 and 2 lead.
fn hands(street: &mut Street) -> [Hand; 2] {
    [0, 1].map(|group| Hand::at(street, group, &format!("hand{group}")))
}

fn is_error(value: &Value, begin: &str) -> bool {
    matches!(value, Value::Error(why) if why.starts_with(begin))
}

/// No client but those of the scenario.
fn quiet(seed: u64) -> Removal {
    let mut removal = Removal::new(seed, 0, 0);
    removal.street.pass(200 * MS);
    removal
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_command_in_a_session_is_sent_again_before_in_and_after_a_move() {
    for (number, step) in STEPS.into_iter().enumerate() {
        let mut removal = quiet(200 + number as u64);
        let [here, there] = hands(&mut removal.street);
        let session = match here.ask(&mut removal.street, "ONCE.OPEN {b}n") {
            Value::Integer(session) => session,
            other => panic!("{other:?}"),
        };
        let line = |sequence: u32| format!("ONCE {{b}}n {session} {sequence} INCR {{b}}n");
        let one = Value::Integer(1);
        assert_eq!(here.ask(&mut removal.street, &line(1)), one);
        removal.send(TAG, 1);
        removal.wait_for(step);
        let again = here.ask(&mut removal.street, &line(1));
        assert!(
            again == one || is_error(&again, "MOVED "),
            "{step:?}: {again:?}"
        );
        removal.calm();
        assert_eq!(there.ask(&mut removal.street, &line(1)), one, "{step:?}");
        let two = Value::Integer(2);
        assert_eq!(there.ask(&mut removal.street, &line(2)), two, "{step:?}");
        let late = there.ask(&mut removal.street, &line(1));
        assert!(is_error(&late, "SUPERSEDED"), "{step:?}: {late:?}");
        removal.judge();
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_session_that_expires_while_its_slot_moves_does_nothing_more() {
    for (number, step) in STEPS.into_iter().enumerate() {
        let mut removal = quiet(210 + number as u64);
        let [here, there] = hands(&mut removal.street);
        let session = match here.ask(&mut removal.street, "ONCE.OPEN {b}n") {
            Value::Integer(session) => session,
            other => panic!("{other:?}"),
        };
        let line = |sequence: u32| format!("ONCE {{b}}n {session} {sequence} INCR {{b}}n");
        assert_eq!(here.ask(&mut removal.street, &line(1)), Value::Integer(1));
        removal.send(TAG, 1);
        removal.wait_for(step);
        for index in 0..3 {
            let node = removal.street.stage.nodes[index];
            removal
                .street
                .stage
                .world
                .set_wall_clock(node, 25 * 3_600_000);
        }
        removal.street.pass(2 * SECOND);
        removal.calm();
        for sequence in [1, 2] {
            let told = there.ask(&mut removal.street, &line(sequence));
            assert!(is_error(&told, "NOSESSION"), "{step:?}: {told:?}");
        }
        let value = there.ask(&mut removal.street, "GET {b}n");
        assert_eq!(value, Value::bulk("1"), "{step:?}");
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_transaction_that_meets_a_move_is_done_whole_or_not_at_all() {
    for (number, step) in STEPS.into_iter().enumerate() {
        let mut removal = quiet(220 + number as u64);
        let [here, there] = hands(&mut removal.street);
        for line in ["MULTI", "INCR {b}n", "RPUSH {b}l a b"] {
            here.ask(&mut removal.street, line);
        }
        removal.send(TAG, 1);
        removal.wait_for(step);
        let told = here.ask(&mut removal.street, "EXEC");
        let is_done = matches!(told, Value::Array(_));
        assert!(
            is_done || matches!(told, Value::Error(_)),
            "{step:?}: {told:?}"
        );
        removal.calm();
        let value = there.ask(&mut removal.street, "GET {b}n");
        let length = there.ask(&mut removal.street, "LLEN {b}l");
        let wanted = match is_done {
            true => (Value::bulk("1"), Value::Integer(2)),
            false => (Value::Null, Value::Integer(0)),
        };
        assert_eq!((value, length), wanted, "{step:?}");
    }
}

/// The slot comes back, and nothing was written: a watch does not know that, so it does not hold.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_watch_does_not_outlive_a_move() {
    let mut removal = quiet(230);
    let [here, _] = hands(&mut removal.street);
    here.ask(&mut removal.street, "SET {b}k v");
    here.ask(&mut removal.street, "WATCH {b}k");
    removal.send(TAG, 1);
    removal.calm();
    removal.send(TAG, 0);
    removal.calm();
    for line in ["MULTI", "SET {b}k w"] {
        here.ask(&mut removal.street, line);
    }
    let told = here.ask(&mut removal.street, "EXEC");
    assert!(!matches!(told, Value::Array(_)), "{told:?}");
    let value = here.ask(&mut removal.street, "GET {b}k");
    assert_eq!(value, Value::bulk("v"));
}

/// Some fields of a large hash have been copied when it is deleted.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_is_deleted_while_it_is_copied_does_not_arrive() {
    let mut removal = quiet(240);
    let [here, there] = hands(&mut removal.street);
    let fields: Vec<String> = (0..400).map(|at| format!("field{at} {at:040}")).collect();
    let line = format!("HSET {{b}}hash {}", fields.join(" "));
    let told = here.ask(&mut removal.street, &line);
    assert_eq!(told, Value::Integer(400));
    let slot = slot_of_tag(TAG).to_be_bytes();
    let rows_there = |removal: &Removal| {
        let rows = removal.told_by(1).rows;
        let is_its = |key: &&Vec<u8>| key.starts_with(&[&b"ms"[..], &slot].concat());
        rows.keys().filter(is_its).count()
    };
    removal.send(TAG, 1);
    let mut copied = 0;
    for _ in 0..20_000 {
        copied = rows_there(&removal);
        if copied > 0 {
            break;
        }
        removal.street.pass(MS / 4);
    }
    assert!((1..400).contains(&copied), "{copied} rows have been copied");
    let told = here.ask(&mut removal.street, "DEL {b}hash");
    assert_eq!(told, Value::Integer(1));
    removal.calm();
    assert_eq!(removal.owner(TAG), [1]);
    // One row is the slot's own.
    let left = rows_there(&removal);
    assert!(left <= 1, "{left} rows of a hash that is not there");
    removal.judge();
    let told = there.ask(&mut removal.street, "EXISTS {b}hash");
    assert_eq!(told, Value::Integer(0));
}

/// A word of one node to another comes late, and all of them twice.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_groups_say_to_each_other_is_lost_and_late() {
    at_each_step_it_arrives(24, |removal| {
        let (from, to) = (leader(removal, 0), leader(removal, 1));
        removal.street.stage.cut(from, to);
        removal.street.pass(700 * MS);
        removal.street.stage.world.heal_all();
        removal.street.stage.cut(to, from);
        removal.street.pass(700 * MS);
        removal.street.stage.world.heal_all();
    });
}

/// Clocks are 20 s apart, on either side.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn clocks_are_apart_at_each_step() {
    for (number, ahead) in [20_000, -20_000].into_iter().enumerate() {
        at_each_step_it_arrives(25 + number as u64, |removal| {
            let node = removal.street.stage.nodes[leader(removal, 1)];
            removal.street.stage.world.set_wall_clock(node, ahead);
        });
    }
}
