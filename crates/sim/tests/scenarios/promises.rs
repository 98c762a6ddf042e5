//! The promises of the documents to an operator that nothing else holds the program to.

use node::health::{Code, State};
use paxos::NodeId;
use replica::Limits;
use sim::workload::small_limits;

use crate::stage::{LOG, Look, MS, SECOND, Stage};

const ALL: [usize; 3] = [0, 1, 2];

/// Three nodes that vote and are whole, and know it of each other.
fn three(seed: u64, limits: Limits) -> Stage {
    let mut stage = Stage::with_limits(seed, 3, limits);
    stage.add_node();
    stage.add_node();
    stage.wait_whole(3);
    stage.pass(SECOND);
    stage
}

fn id(stage: &Stage, index: usize) -> NodeId {
    stage.look().node(index).expect("it runs").id()
}

fn state(look: &Look<'_>, index: usize) -> State {
    look.node(index).expect("it runs").warnings().0
}

fn warnings(look: &Look<'_>, index: usize) -> Vec<(Code, NodeId, bool)> {
    let node = look.node(index);
    node.map_or_else(Vec::new, |node| node.warnings().1)
}

/// Whether the warning holds, or held a moment ago.
fn shows(look: &Look<'_>, index: usize, code: Code) -> bool {
    let mut warnings = warnings(look, index).into_iter();
    warnings.any(|(found, _, _)| found == code)
}

/// Until each of these nodes shows that it is so now.
fn wait_said(stage: &mut Stage, by: &[usize], code: Code, about: NodeId) {
    stage.wait_within(30 * SECOND, code.name(), |look| {
        let says = |index: &usize| warnings(look, *index).contains(&(code, about, true));
        by.iter().all(says)
    });
}

/// Until none of these nodes shows it any more, which is ten seconds after it was so.
fn wait_gone(stage: &mut Stage, by: &[usize], code: Code) {
    let what = format!("{} to go", code.name());
    stage.wait_within(30 * SECOND, &what, |look| {
        !by.iter().any(|index| shows(look, *index, code))
    });
}

/// The leader's answer to one request.
fn asked(stage: &mut Stage, request: &str) -> String {
    let leader = stage.leader();
    let caller = stage.call(leader, request);
    stage.wait("an answer", |_| caller.is_over());
    caller.text()
}

/// Asks every node in turn, until the directory's leader does it.
fn done(stage: &mut Stage, request: &str) {
    for _ in 0..100 {
        for index in 0..stage.nodes.len() {
            let caller = stage.call(index, request);
            stage.wait("an answer", |_| caller.is_over());
            let text = caller.text();
            if text.starts_with("ok ") {
                return;
            }
            let later = ["error not-leader", "error no-quorum", "error shutting"];
            let is_later = later.iter().any(|word| text.starts_with(word));
            assert!(text.is_empty() || is_later, "{request}: {text}");
        }
        stage.pass(100 * MS);
    }
    panic!("nobody does {request}");
}

#[test]
fn appends_are_refused_below_the_reserve_and_taken_again_once_trims_made_twice_as_much_room() {
    let mut stage = three(1, small_limits());
    let leader = stage.leader();
    let mut writer = stage.open(leader, &format!("append {LOG}"));
    for _ in 0..70 {
        stage.say_and_wait(&mut writer, 50_000);
    }
    stage.wait_whole(3);
    let reserve = small_limits().disk_reserve_bytes;
    let nodes = stage.nodes.clone();
    let least = |look: &Look<'_>| {
        let free = nodes.iter().map(|host| look.world.disk(*host).free_bytes());
        free.min().expect("there are three")
    };
    // The leader's at last: before it knew of the others it would hand over to one of them.
    for index in (0..3).filter(|index| *index != leader).chain([leader]) {
        let disk = stage.world.disk_mut(nodes[index]);
        disk.faults.capacity_bytes = disk.used_bytes() + reserve - 300_000;
        stage.pass(SECOND);
    }
    stage.wait_within(3 * SECOND, "the writer to be told", |_| writer.is_over());
    let told = writer.text();
    assert!(told.contains("error full ") && writer.has_all(), "{told}");
    for index in ALL {
        let full = id(&stage, index);
        wait_said(&mut stage, &ALL, Code::DiskFull, full);
    }
    let look = stage.look();
    let is_degraded = |index: &usize| state(&look, *index) == State::Degraded;
    assert!(ALL.iter().all(is_degraded));
    let append = format!("append {LOG} mode=takeover");
    let refused = asked(&mut stage, &append);
    assert!(refused.starts_with("error full "), "{refused}");

    // More than the reserve is free then, and not twice as much.
    let name = writer.stream();
    let trimmed = asked(&mut stage, &format!("trim {LOG} before={name}@1000000"));
    assert!(trimmed.contains("\"bytes\":1000000,"), "{trimmed}");
    stage.wait_within(5 * SECOND, "some room", |look| least(look) > reserve);
    stage.pass(3 * SECOND);
    let room = least(&stage.look());
    assert!((reserve..2 * reserve).contains(&room), "{room} are free");
    let refused = asked(&mut stage, &append);
    assert!(refused.starts_with("error full "), "{refused}");

    let trimmed = asked(&mut stage, &format!("trim {LOG} before={name}@3200000"));
    assert!(trimmed.contains("\"bytes\":2200000,"), "{trimmed}");
    wait_gone(&mut stage, &ALL, Code::DiskFull);
    let leader = stage.leader();
    let mut next = stage.open(leader, &append);
    stage.say_and_wait(&mut next, 50_000);
    stage.wait_whole(3);
    let mut left = writer.content(3_200_000..3_500_000);
    left.extend(next.content(0..50_000));
    for index in ALL {
        let read = format!("read {LOG} stale=1 from=3200000");
        let reader = stage.call(index, &read);
        stage.wait("the end of the read", |_| reader.is_over());
        assert!(reader.heard() == left, "node {index} gives other bytes");
    }
}

#[test]
fn a_disk_whose_writes_take_half_a_second_is_called_slow_by_all_as_long_as_they_do() {
    let mut stage = three(2, small_limits());
    let (_, others) = stage.roles();
    let host = stage.nodes[others[0]];
    let slow = id(&stage, others[0]);
    let chain = stage.add_writer(300_000, 1_000, 20 * MS);
    stage.wait("some of it", |_| chain.borrow().acknowledged > 10_000);
    assert!(!shows(&stage.look(), others[0], Code::DiskSlow));
    let disk = stage.world.disk_mut(host);
    let usual = std::mem::replace(&mut disk.model.write_us, 400_000..500_000);
    wait_said(&mut stage, &ALL, Code::DiskSlow, slow);
    assert!(!shows(&stage.look(), others[0], Code::DiskStalled));
    stage.world.disk_mut(host).model.write_us = usual;
    stage.wait("all of it", |_| chain.borrow().closed);
    wait_gone(&mut stage, &ALL, Code::DiskSlow);
}

#[test]
fn a_log_of_one_or_two_voters_says_so_until_those_that_join_have_their_votes() {
    let mut stage = Stage::new(3, 3);
    // Those that were asked for may be on the way.
    stage.pass(9 * SECOND);
    assert!(!shows(&stage.look(), 0, Code::FewCopies));
    wait_said(&mut stage, &[0], Code::FewCopies, NodeId(0));
    stage.add_node();
    stage.wait_whole(2);
    stage.pass(SECOND);
    wait_said(&mut stage, &[0, 1], Code::FewCopies, NodeId(0));
    stage.add_node();
    stage.wait_whole(3);
    wait_gone(&mut stage, &ALL, Code::FewCopies);
}

#[test]
fn votes_that_would_be_lost_with_one_zone_are_told_until_one_is_given_to_another_zone() {
    let mut stage = three(4, small_limits());
    let (leader, others) = stage.roles();
    let ids = ALL.map(|index| id(&stage, index));
    for (index, zone) in [(leader, "b"), (others[0], "a")] {
        let request = format!("change-members zone {} {zone}", ids[index]);
        done(&mut stage, &request);
    }
    stage.pass(SECOND);
    let look = stage.look();
    let is_said = |index: &usize| shows(&look, *index, Code::ZoneAtRisk);
    assert!(!ALL.iter().any(is_said));
    let (old, stays) = (ids[others[0]], ids[others[1]]);
    done(&mut stage, &format!("change-members zone {stays} a"));
    wait_said(&mut stage, &ALL, Code::ZoneAtRisk, old.min(stays));

    let fourth = stage.add_node();
    stage.wait("it to join", |look| {
        let now = look.node(fourth).map(|node| node.id());
        now.is_some_and(|now| now != NodeId(0))
    });
    let new = id(&stage, fourth);
    done(&mut stage, &format!("change-members zone {new} c"));
    let replace = format!("change-members replace {old} {new}");
    done(&mut stage, &replace);
    let left = [leader, others[1], fourth];
    wait_gone(&mut stage, &left, Code::ZoneAtRisk);
    let look = stage.look();
    let weights = [old, new].map(|node| look.weight(leader, node));
    assert_eq!(weights, [0, 1]);
}

#[test]
fn a_node_that_was_removed_says_so_itself_and_comes_back_as_another_with_an_empty_directory() {
    let mut stage = three(5, small_limits());
    let leader = stage.leader();
    // Not the first: it would make a cluster of its own.
    let gone = if leader == 2 { 1 } else { 2 };
    let others = [leader, 3 - leader - gone];
    let old = id(&stage, gone);
    done(&mut stage, &format!("change-members remove {old}"));
    wait_said(&mut stage, &[gone], Code::Removed, old);
    wait_said(&mut stage, &others, Code::FewCopies, NodeId(0));
    let look = stage.look();
    assert_eq!(state(&look, gone), State::Unavailable);
    let is_said = |index: &usize| shows(&look, *index, Code::Removed);
    assert!(!others.iter().any(is_said));
    let refused = stage.call(gone, &format!("append {LOG}"));
    stage.wait("an answer", |_| refused.is_over());
    let refused = refused.text();
    assert!(refused.starts_with("error shutting-down"), "{refused}");

    stage.crash(gone);
    stage.world.lose_disk(stage.nodes[gone]);
    stage.restart(gone);
    stage.wait("it to join anew", |look| {
        let now = look.node(gone).map(|node| node.id());
        now.is_some_and(|now| now != NodeId(0) && now != old)
    });
    let new = id(&stage, gone);
    done(&mut stage, &format!("change-members add {new}"));
    stage.wait_whole(3);
    assert!(!shows(&stage.look(), gone, Code::Removed));
    wait_gone(&mut stage, &ALL, Code::FewCopies);
}

#[test]
fn a_node_with_hardly_a_connection_left_is_known_to_all_until_the_crowd_is_gone() {
    const CONNECTIONS: usize = 40;
    let limits = Limits {
        connections_max: CONNECTIONS,
        ..small_limits()
    };
    let mut stage = three(6, limits);
    // One after the other: of those that come in one moment more are refused than would have to be.
    let mut crowd = Vec::new();
    for _ in 0..CONNECTIONS {
        crowd.push(stage.call(1, "read main stale=1 follow=1"));
        stage.pass(5 * MS);
    }
    wait_said(&mut stage, &ALL, Code::ConnectionsCrowded, NodeId(0));
    let status = stage.call(1, "status");
    stage.wait("an answer", |_| status.is_over());
    let status = status.text();
    assert!(status.contains("\"connections-crowded\""), "{status}");
    for caller in &crowd {
        stage.world.crash(caller.host);
    }
    wait_gone(&mut stage, &ALL, Code::ConnectionsCrowded);
}

/// The bytes read by scrubs of all logs, whichever nodes lead them.
fn scrubbed(look: &Look<'_>) -> u64 {
    let nodes = ALL.iter().filter_map(|index| look.node(*index));
    let views = nodes.flat_map(|node| node.log_views());
    views.map(|view| view.counts.scrub_bytes).sum()
}

#[test]
fn at_a_scrub_rate_of_zero_no_scrub_runs_but_one_that_is_asked_for() {
    const BYTES: u64 = 100_000;
    for scrub_rate in [1_000_000, 0] {
        let limits = Limits {
            scrub_bytes_per_second: scrub_rate,
            // The first comes after a second.
            scrub_interval: 24 * SECOND,
            ..small_limits()
        };
        let mut stage = three(7, limits);
        let leader = stage.leader();
        let mut writer = stage.open(leader, &format!("append {LOG}"));
        stage.say_and_wait(&mut writer, BYTES);
        stage.pass(30 * SECOND);
        let read = scrubbed(&stage.look());
        assert_eq!(read > 0, scrub_rate > 0, "{read} bytes by themselves");
        if scrub_rate > 0 {
            continue;
        }
        let answer = asked(&mut stage, &format!("scrub {LOG} start=1"));
        assert!(answer.contains("\"asked\":true"), "{answer}");
        stage.wait_within(10 * SECOND, "the scrub to end", |look| {
            let counts = look.counts(leader).unwrap_or_default();
            counts.scrub_passes == 1
        });
        stage.pass(30 * SECOND);
        let counts = stage.look().counts(leader).expect("it runs");
        assert_eq!((counts.scrub_passes, counts.scrub_bytes), (1, BYTES));
        assert_eq!(scrubbed(&stage.look()), BYTES);
    }
}

/// An operator asks for zones while others make logs, which change the members' version, too. A change that is refused
/// was not made.
#[test]
fn a_change_of_members_beside_new_logs_is_made_and_told_or_neither() {
    for seed in 0..4 {
        let mut stage = three(seed, Limits::default());
        let leader = stage.leader();
        for number in 0..40 {
            let before = stage.call(leader, &format!("create-log before{number}"));
            let zone = format!("change-members zone 1 zone{number} force=1");
            let zone = stage.call(leader, &zone);
            let after = stage.call(leader, &format!("create-log after{number}"));
            for caller in [&before, &zone, &after] {
                stage.wait("an answer", |_| caller.is_over());
            }
            let members = asked(&mut stage, "members");
            let is_so = members.contains(&format!("\"zone\":\"zone{number}\""));
            let told = zone.text().starts_with("ok ");
            assert_eq!(told, is_so, "seed {seed}: {}: {members}", zone.text());
            assert!(told, "nobody else changes zones: {}", zone.text());
        }
    }
}

/// A log that was just made is on its way to the other nodes' disks: a fresh status of theirs lists it all the same.
#[test]
fn a_fresh_status_on_any_node_lists_a_log_as_soon_as_its_creation_was_answered() {
    for seed in 0..4 {
        let mut stage = three(seed, Limits::default());
        for number in 0..10 {
            let name = format!("new{number}");
            let created = asked(&mut stage, &format!("create-log {name}"));
            assert!(created.starts_with("ok "), "{created}");
            let asked = ALL.map(|index| stage.call(index, "status fresh=1"));
            for status in asked {
                stage.wait("an answer", |_| status.is_over());
                let text = status.text();
                let lists = text.contains(&format!("\"name\":\"{name}\""));
                assert!(lists, "seed {seed}: {text}");
            }
        }
    }
}

/// It goes by names no more, and its name is not free: the list says why.
#[test]
fn a_log_that_cannot_agree_to_its_end_is_listed_as_being_deleted() {
    let mut stage = three(1, Limits::default());
    let leader = stage.leader();
    let away = (leader + 1) % 3;
    let node = id(&stage, away);
    let created = asked(&mut stage, &format!("create-log away members={}", node.0));
    assert!(created.starts_with("ok "), "{created}");
    stage.crash(away);
    stage.pass(2 * SECOND);
    let deleted = asked(&mut stage, "delete-log away");
    assert!(deleted.starts_with("error not-in-force"), "{deleted}");
    let listed = asked(&mut stage, "logs");
    let entry = "\"name\":\"away\",\"retention\":\"forever\",\"deleting\":true}";
    assert!(listed.contains(entry), "{listed}");
    stage.restart(away);
    stage.wait_whole(3);
    stage.pass(2 * SECOND);
    let listed = asked(&mut stage, "logs");
    assert!(!listed.contains("away"), "{listed}");
}
