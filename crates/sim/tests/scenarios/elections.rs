//! Elections when nodes die, are cut off in part, and come back.

use paxos::{Role, Term};

use crate::stage::{Look, MS, SECOND, Stage, done};

fn number(term: Option<Term>) -> u32 {
    term.expect("somebody leads").number
}

fn term(look: &Look<'_>) -> Option<Term> {
    look.leads_in(look.leader()?)
}

/// A view change that discards chosen data: the one that knows has to win, or to be asked.
#[test]
fn a_change_of_leader_keeps_what_the_dead_one_had_acknowledged() {
    for seed in 0..10 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let behind = others[seed as usize % 2];
        let mut caller = stage.open(leader, "append main");
        stage.isolate(behind);
        stage.say_and_wait(&mut caller, 60_000);
        // More, that nobody may know of.
        caller.say(&mut stage.world, 30_000);
        stage.crash(leader);
        stage.world.heal_all();
        let read = stage.read_all();
        assert!(read.len() >= 60_000, "only {} are left", read.len());
        assert!(read == caller.content(0..read.len() as u64));
        stage.restart(leader);
        stage.wait_whole(3);
        assert_eq!(stage.read_all(), read);
    }
}

/// One log of a node stands at a time, and a round settles one that is due: each has its turn all the same.
#[test]
fn every_log_is_led_again_after_a_start_of_all_though_each_waits_for_its_turn() {
    const LOGS: usize = 60;
    let limits = replica::Limits {
        standing_logs_max: 1,
        due_logs_max: 1,
        ..sim::workload::small_limits()
    };
    for seed in 0..3 {
        let mut stage = Stage::with_limits(seed, 3, limits.clone());
        stage.add_node();
        stage.add_node();
        stage.wait_whole(3);
        let names: Vec<String> = (0..LOGS).map(|number| format!("log-{number}")).collect();
        for name in &names {
            done(&mut stage, &format!("create-log {name}"));
        }
        let led = |look: &Look<'_>| {
            let leads = |name: &&String| {
                let roles = (0..3).filter_map(|index| look.view_of(index, name));
                roles
                    .filter(|view| matches!(view.role, Role::Leader { .. }))
                    .count()
                    == 1
            };
            names.iter().filter(leads).count()
        };
        stage.wait_within(60 * SECOND, "all to be led", |look| led(look) == LOGS);
        (0..3).for_each(|index| stage.cut_power(index));
        stage.restart(0);
        // Alone it leads nothing, and does not stand.
        stage.pass(5 * SECOND);
        assert_eq!(led(&stage.look()), 0);
        let stood = |look: &Look<'_>, name: &String| {
            let view = look.view_of(0, name).expect("it hosts all");
            view.counts.candidacies
        };
        assert!(names.iter().all(|name| stood(&stage.look(), name) == 0));
        stage.restart(1);
        stage.restart(2);
        stage.wait_within(60 * SECOND, "all to be led again", |look| led(look) == LOGS);
    }
}

#[test]
fn two_nodes_that_cannot_talk_do_not_stop_the_cluster_or_fight_over_it() {
    for (a, b) in [(0, 1), (1, 2), (2, 0)] {
        let mut stage = Stage::three(3);
        stage.cut_both(a, b);
        let chain = stage.add_writer(300_000, 1_000, 50 * MS);
        stage.pass(5 * SECOND);
        let (before, taken) = (term(&stage.look()), chain.borrow().acknowledged);
        assert!(before.is_some(), "{}", stage.look().picture());
        stage.pass(10 * SECOND);
        let picture = stage.look().picture();
        assert_eq!(term(&stage.look()), before, "{a}-{b}\n{picture}");
        let taken = chain.borrow().acknowledged - taken;
        assert!(taken > 150_000, "{a}-{b}: only {taken} bytes\n{picture}");
        stage.world.heal_all();
        stage.wait("all of it", |_| chain.borrow().closed);
        stage.wait_whole(3);
    }
}

#[test]
fn what_is_appended_reaches_a_follower_that_cannot_talk_to_the_leader_by_way_of_the_other() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let cut = others[seed as usize % 2];
        stage.cut_both(leader, cut);
        let chain = stage.add_writer(600_000, 2_000, 20 * MS);
        stage.pass(2 * SECOND);
        for _ in 0..3 {
            let taken = chain.borrow().acknowledged;
            stage.wait_within(3 * SECOND, "it to hear of that", |look| {
                let next = look.next(cut).unwrap_or(0);
                next > taken && look.missing_bytes(cut) < 100_000
            });
        }
        assert_eq!(stage.leader(), leader, "nobody else was elected");
        stage.wait("all of it", |_| chain.borrow().closed);
        stage.wait_within(5 * SECOND, "the cut one to hold all", |look| {
            look.next(cut) == look.next(leader) && look.missing_bytes(cut) == 0
        });
        stage.world.heal_all();
        stage.wait_whole(3);
    }
}

#[test]
fn members_names_who_is_not_heard_where_the_directorys_leader_knows_no_leader_of_a_log() {
    let mut stage = Stage::three(1);
    let (directing, others) = stage.roles();
    let id = stage.look().node(others[0]).expect("it runs").id();
    done(&mut stage, &format!("lead main to={}", id.0));
    let members = |stage: &mut Stage| {
        let caller = stage.call(directing, "members");
        stage.wait("an answer", |_| caller.is_over());
        caller.text()
    };
    let told = members(&mut stage);
    assert!(
        told.starts_with("ok ") && !told.contains("knows of none"),
        "{told}"
    );
    stage.cut_both(directing, others[0]);
    stage.pass(2 * SECOND);
    let told = members(&mut stage);
    let why = format!("knows of none, and does not hear node {}", id.0);
    assert!(told.starts_with("ok ") && told.contains(&why), "{told}");
}

/// The third comes back and is asked by both, which cannot hear each other: it may promise to both.
#[test]
fn two_nodes_that_cannot_talk_do_not_unseat_each_other_for_ever() {
    for seed in 0..100 {
        let mut stage = Stage::three(seed);
        let (third, others) = stage.roles();
        stage.world.network().model.latency_us = 40_000..60_000;
        stage.cut_both(others[0], others[1]);
        stage.crash(third);
        stage.pass(2 * SECOND);
        stage.restart(third);
        stage.pass(3 * SECOND);
        let before = term(&stage.look());
        stage.pass(3 * SECOND);
        let picture = stage.look().picture();
        assert!(before.is_some(), "seed {seed}\n{picture}");
        assert_eq!(term(&stage.look()), before, "seed {seed}\n{picture}");
    }
}

#[test]
fn a_follower_that_hears_nobody_disturbs_nobody() {
    let mut stage = Stage::three(4);
    let (leader, others) = stage.roles();
    let before = term(&stage.look());
    let mut caller = stage.open(leader, "append main");
    // It stands again and again, and everybody hears it.
    stage.cut(leader, others[0]);
    stage.cut(others[1], others[0]);
    for _ in 0..50 {
        stage.say_and_wait(&mut caller, 1_000);
        stage.pass(200 * MS);
    }
    assert_eq!(term(&stage.look()), before);
    stage.world.heal_all();
    stage.wait_whole(3);
    assert_eq!(term(&stage.look()), before, "also not when it hears again");
    assert!(!caller.is_over());
}

#[test]
fn a_leader_that_hears_nobody_is_replaced_although_it_is_heard() {
    one_way_deafness_costs_the_lead(|stage, leader, other| stage.cut(other, leader));
}

#[test]
fn a_leader_that_is_not_heard_is_replaced_although_it_hears() {
    one_way_deafness_costs_the_lead(|stage, leader, other| stage.cut(leader, other));
}

fn one_way_deafness_costs_the_lead(cut: impl Fn(&mut Stage, usize, usize)) {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let chain = stage.add_writer(100_000, 1_000, 20 * MS);
        stage.wait("some of it", |_| chain.borrow().acknowledged > 10_000);
        for other in others {
            cut(&mut stage, leader, other);
        }
        let taken = chain.borrow().acknowledged;
        stage.wait_within(8 * SECOND, "another leader", |look| {
            look.leader().is_some_and(|now| now != leader)
        });
        stage.wait("more of it", |_| {
            chain.borrow().acknowledged > taken + 20_000
        });
        stage.world.heal_all();
        stage.wait("all of it", |_| chain.borrow().closed);
        stage.wait_whole(3);
    }
}

/// Bytes that only the minority holds lose against what the majority chose meanwhile.
#[test]
fn a_deposed_leader_acknowledges_nothing_more_and_its_bytes_lose() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let (old, _) = stage.roles();
        let mut deposed = stage.open(old, "append main");
        stage.say_and_wait(&mut deposed, 2_000);
        stage.isolate(old);
        stage.pass(20 * MS);
        let acknowledged = deposed.acknowledged();
        deposed.say(&mut stage.world, 3_000);
        stage.wait("another leader", |look| {
            look.leader().is_some_and(|now| now != old)
        });
        let new = stage.leader();
        let mut other = stage.open(new, "append main mode=takeover");
        stage.say_and_wait(&mut other, 4_000);
        stage.pass(2 * SECOND);
        assert_eq!(deposed.acknowledged(), acknowledged);
        stage.world.heal_all();
        stage.wait_whole(3);
        assert_eq!(deposed.acknowledged(), acknowledged);
        stage.wait("its client to be told", |_| deposed.is_over());
        let expected = [deposed.content(0..2_000), other.content(0..4_000)].concat();
        assert!(stage.read_all() == expected);
    }
}

/// mexos' PersistencePartition: the restarted majority may not have forgotten.
#[test]
fn a_majority_that_restarts_remembers_while_the_minority_holds_another_value() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let (old, others) = stage.roles();
        let mut minority = stage.open(old, "append main");
        stage.say_and_wait(&mut minority, 1_000);
        stage.isolate(old);
        minority.say(&mut stage.world, 5_000);
        stage.wait("another leader", |look| {
            look.leader().is_some_and(|now| now != old)
        });
        let new = stage.leader();
        let mut majority = stage.open(new, "append main mode=takeover");
        stage.say_and_wait(&mut majority, 5_000);
        for index in &others {
            stage.cut_power(*index);
        }
        stage.world.heal_all();
        stage.pass(50 * MS);
        for index in &others {
            stage.restart(*index);
        }
        stage.wait_whole(3);
        let expected = [minority.content(0..1_000), majority.content(0..5_000)].concat();
        assert!(stage.read_all() == expected);
    }
}

#[test]
fn two_candidates_that_stand_at_once_end_in_one_leader_soon() {
    for seed in 0..20 {
        let mut stage = Stage::three(seed);
        let (leader, _) = stage.roles();
        let before = number(term(&stage.look()));
        // Both followers hear of it in the same moment.
        stage.crash(leader);
        stage.wait_within(2 * SECOND, "another leader", |look| look.leader().is_some());
        stage.pass(5 * SECOND);
        let terms = number(term(&stage.look())) - before;
        assert!(terms <= 5, "seed {seed}: {terms} terms for one election");
    }
}

#[test]
fn a_node_that_returns_after_long_unseats_nobody() {
    let mut stage = Stage::three(5);
    let (leader, others) = stage.roles();
    let before = term(&stage.look());
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 1_000);
    for silently in [false, true] {
        match silently {
            true => stage.cut_power(others[0]),
            false => stage.crash(others[0]),
        }
        for _ in 0..20 {
            stage.say_and_wait(&mut caller, 5_000);
            stage.pass(500 * MS);
        }
        stage.restart(others[0]);
        stage.wait_whole(3);
        stage.pass(2 * SECOND);
        assert_eq!(term(&stage.look()), before);
    }
    assert!(!caller.is_over());
}

#[test]
fn a_minority_stuck_at_a_later_term_is_healed() {
    let mut healed = 0;
    for seed in 0..10 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let before = term(&stage.look()).expect("somebody leads");
        stage.world.pause(stage.nodes[leader], 900 * MS);
        let promises_later = |look: &Look<'_>, index: usize| {
            look.promised(index)
                .is_some_and(|promised| promised.0 > before)
        };
        stage.wait("somebody to prepare", |look| {
            others.iter().any(|index| promises_later(look, *index))
        });
        // Just now only one of them knows of the later term. It is cut off, and starts again, so
        // that nothing but its promise is left of it.
        let stuck = others.iter().find(|i| promises_later(&stage.look(), **i));
        let stuck = *stuck.expect("just seen");
        stage.isolate(stuck);
        stage.pass(50 * MS);
        stage.crash(stuck);
        stage.restart(stuck);
        stage.pass(3 * SECOND);
        let leads = term(&stage.look()).expect("two are enough");
        healed += u32::from(leads < stage.look().promised(stuck).expect("it runs").0);
        stage.world.heal_all();
        stage.wait_whole(3);
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 1_000);
        stage.wait_whole(3);
    }
    assert!(healed > 0, "nobody was ever stuck");
}

#[test]
fn an_idle_cluster_elects_nobody_and_writes_nothing() {
    let mut stage = Stage::three(6);
    let (leader, _) = stage.roles();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 1_000);
    stage.pass(3 * SECOND);
    let state = |stage: &Stage| {
        let look = stage.look();
        let used = |index: usize| stage.world.disk(stage.nodes[index]).used_bytes();
        let nodes = (0..3).map(|i| (look.promised(i), look.next(i), used(i)));
        (term(&look), nodes.collect::<Vec<_>>())
    };
    let before = state(&stage);
    let steps = stage.world.steps();
    stage.pass(120 * SECOND);
    assert_eq!(state(&stage), before);
    // Heartbeats of three nodes, each way, 20 a second: some 15 events each.
    let steps = (stage.world.steps() - steps) / 120;
    assert!(steps < 2_000, "{steps} steps in an idle second");
}

/// A new leader needs bytes that only one node has, and that node dies for good before it sends them.
/// They are given up; and what the leader misses otherwise must not wait for them.
#[test]
fn bytes_that_were_given_up_keep_no_others_waiting() {
    let mut met = 0;
    for seed in 0..40 {
        let mut stage = Stage::three(seed);
        let (first, others) = stage.roles();
        let (holder, next) = (others[0], others[1]);
        let mut caller = stage.open(first, "append main");
        stage.say_and_wait(&mut caller, 40_000);
        stage.wait_whole(3);
        // Accepted by the holder alone.
        stage.world.hang_disk(stage.nodes[first]);
        stage.cut_both(first, next);
        caller.say(&mut stage.world, 5_000);
        stage.pass(30 * MS);
        stage.crash(first);
        stage.world.release_disk(stage.nodes[first]);
        stage.wait("the next leader", |look| {
            look.leader().is_some_and(|leader| leader != first)
        });
        if stage.look().leader() != Some(next) {
            continue;
        }
        stage.crash(holder);
        stage.world.heal_all();
        stage.restart(first);
        stage.pass(10 * SECOND);
        let gave_up = stage.look().counts(next).expect("it runs");
        if stage.look().leader() != Some(next) || gave_up.bytes_unavailable == 0 {
            continue; // The first had written them before it died.
        }
        met += 1;
        // Rot in old bytes: found by a reader, and fetched from the other.
        let place = stage.place_of(next, &caller.content(10_000..10_032));
        let (path, at) = place.expect("it holds them");
        assert!(stage.world.corrupt(stage.nodes[next], path, at));
        let reader = stage.call(next, "read main to=40000");
        stage.wait("the end of the read", |_| reader.is_over());
        let counts = stage.look().counts(next).expect("it runs");
        assert!(counts.ranges_lost > 0);
        assert!(reader.heard() == caller.content(0..40_000));
        assert_eq!(stage.look().missing_bytes(next), 0);
    }
    assert!(met > 0, "it never came to that");
}

/// Bytes that a new leader lacks and has to propose again come to it once.
#[test]
fn bytes_that_a_new_leader_lacks_are_fetched_once() {
    let mut met = 0;
    for seed in 0..12 {
        let mut stage = Stage::three(seed);
        let (first, others) = stage.roles();
        let next = others[1];
        let mut caller = stage.open(first, "append main");
        stage.say_and_wait(&mut caller, 40_000);
        stage.wait_whole(3);
        // Accepted by the other follower alone.
        stage.world.hang_disk(stage.nodes[first]);
        stage.cut_both(first, next);
        caller.say(&mut stage.world, 5_000);
        stage.pass(30 * MS);
        stage.crash(first);
        stage.wait("the next leader", |look| {
            look.leader().is_some_and(|leader| leader != first)
        });
        stage.pass(2 * SECOND);
        let counts = stage.look().counts(next).expect("it runs");
        if stage.look().leader() != Some(next) || counts.bytes_fetched == 0 {
            continue;
        }
        met += 1;
        let fetched = counts.bytes_fetched;
        assert!(
            fetched <= 5_000,
            "seed {seed}: {fetched} bytes where 5000 were lacking"
        );
    }
    assert!(met > 0, "it never came to that");
}

/// The lead goes to nobody who stops as well.
#[test]
fn nodes_that_all_stop_at_once_do_not_hand_the_lead_around() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let (leader, _) = stage.roles();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 1_000);
        stage.wait_whole(3);
        let before = number(term(&stage.look()));
        for node in stage.nodes.clone() {
            stage.world.stop(node);
        }
        stage.wait("the nodes to stop", |look| {
            (0..3).all(|index| look.node(index).is_none())
        });
        for index in 0..3 {
            stage.restart(index);
        }
        stage.wait_whole(3);
        let after = number(term(&stage.look()));
        assert!(after <= before + 4, "{before} became {after}: seed {seed}");
    }
}

/// Thousands of logs that start together share a disk: each promise waits for all the others. A candidate that gave
/// its election up meanwhile would add one more promise to that queue, and none would ever be the last.
#[test]
fn promises_that_take_long_to_write_delay_an_election_and_do_not_end_it() {
    for seed in 0..20 {
        let mut stage = Stage::three(seed);
        let (leader, _) = stage.roles();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 20_000);
        stage.wait_whole(3);
        let quick = stage.world.disk(stage.nodes[0]).model.clone();
        for index in 0..3 {
            stage.crash(index);
            let host = stage.nodes[index];
            stage.world.disk_mut(host).model.write_us = 2_000_000..4_000_000;
        }
        for index in 0..3 {
            stage.restart(index);
        }
        stage.wait_within(40 * SECOND, "a leader", |look| look.leader().is_some());
        for host in stage.nodes.clone() {
            stage.world.disk_mut(host).model = quick.clone();
        }
        let expected = caller.content(0..caller.said);
        let read = stage.read_all();
        assert!(read == expected, "seed {seed}: other bytes than were sent");
    }
}
