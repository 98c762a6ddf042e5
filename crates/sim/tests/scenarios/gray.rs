//! Neither dead nor well: disks that hang or are full, nodes that come back under load.

use std::time::Duration;

use crate::stage::{MS, SECOND, Stage, done};

#[test]
fn a_leader_whose_disk_hangs_hands_over_although_its_heartbeats_go_on() {
    for seed in 0..5 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let chain = stage.add_writer(100_000, 1_000, 20 * MS);
        stage.wait("some of it", |_| chain.borrow().acknowledged > 10_000);
        stage.world.hang_disk(stage.nodes[leader]);
        stage.wait_within(5 * SECOND, "another leader", |look| {
            look.leader().is_some_and(|now| now != leader)
        });
        stage.wait("all of it", |_| chain.borrow().closed);
        assert!(stage.look().node(leader).is_some());
        stage.world.release_disk(stage.nodes[leader]);
        stage.wait_whole(3);
    }
}

/// Nobody could take over; to step down would only cut its clients' streams.
#[test]
fn a_lone_node_waits_for_its_disk() {
    let mut stage = Stage::new(1, 1);
    let mut caller = stage.open(0, "append main");
    stage.say_and_wait(&mut caller, 1_000);
    stage.world.hang_disk(stage.nodes[0]);
    caller.say(&mut stage.world, 1_000);
    stage.pass(5 * SECOND);
    assert!(!caller.is_over(), "{}", caller.text());
    stage.world.release_disk(stage.nodes[0]);
    stage.wait("the acknowledgement", |_| caller.has_all());
}

/// All its writes are done and the next segment's file does not come.
#[test]
fn a_leader_whose_disk_makes_no_files_hands_over() {
    for seed in 0..3 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let chain = stage.add_writer(400_000, 2_000, 10 * MS);
        stage.wait("some of it", |_| chain.borrow().acknowledged > 10_000);
        let disk = stage.world.disk_mut(stage.nodes[leader]);
        let usual = std::mem::replace(&mut disk.model.names_us, 30_000_000..31_000_000);
        stage.wait_within(10 * SECOND, "another leader", |look| {
            look.leader().is_some_and(|now| now != leader)
        });
        stage.world.disk_mut(stage.nodes[leader]).model.names_us = usual;
        stage.wait("all of it", |_| chain.borrow().closed);
        stage.wait_whole(3);
    }
}

#[test]
fn a_block_that_cannot_be_read_is_fetched_from_a_peer() {
    let mut stage = Stage::three(1);
    let leader = stage.leader();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 300_000);
    // Nobody has it in memory any more.
    stage.pass(3 * SECOND);
    assert!(stage.make_unreadable(leader, &caller.content(150_000..150_032)));
    for _ in 0..2 {
        let reader = stage.call(leader, "read main to=300000");
        stage.wait_within(SECOND, "the end of the read", |_| reader.is_over());
        assert!(reader.heard() == caller.content(0..300_000));
    }
    assert_eq!(stage.look().missing_bytes(leader), 0);
}

/// A new leader has to propose again what it alone accepted, and its disk does not give it.
#[test]
fn a_leader_that_cannot_read_what_it_accepted_does_not_wait_for_it_for_ever() {
    let mut met = 0;
    for seed in 0..8 {
        let mut stage = Stage::three(seed);
        let (first, others) = stage.roles();
        let (holder, third) = (others[0], others[1]);
        let mut caller = stage.open(first, "append main");
        stage.say_and_wait(&mut caller, 1_000);
        stage.wait_whole(3);
        stage.world.hang_disk(stage.nodes[first]);
        stage.cut_both(first, third);
        caller.say(&mut stage.world, 5_000);
        stage.pass(30 * MS);
        if !stage.make_unreadable(holder, &caller.content(3_000..3_032)) {
            continue; // The first was busy with its disk, and sent nothing.
        }
        stage.crash(first);
        stage.world.release_disk(stage.nodes[first]);
        stage.world.heal_all();
        stage.wait("the next leader", |look| {
            look.leader().is_some_and(|leader| leader != first)
        });
        met += u32::from(stage.look().leader() == Some(holder));
        stage.restart(first);
        stage.pass(10 * SECOND);
        let leader = stage.leader();
        let mut next = stage.open(leader, "append main mode=takeover");
        stage.say_and_wait(&mut next, 1_000);
        let read = stage.read_all();
        let kept = read.len() - 1_000;
        assert!(kept >= 1_000 && read[..kept] == caller.content(0..kept as u64));
    }
    assert!(met > 0, "it never came to that");
}

#[test]
fn a_node_that_catches_up_does_not_stop_the_appends_of_the_others() {
    let mut stage = Stage::three(1);
    let (leader, others) = stage.roles();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 1_000);
    stage.crash(others[0]);
    for _ in 0..60 {
        stage.say_and_wait(&mut caller, 100_000);
    }
    stage.restart(others[0]);
    let (mut longest, mut during) = (Duration::ZERO, 0);
    // It gives way to them: with appends that never pause it takes its time.
    while !stage.look().is_whole(3) && during < 300 {
        let begin = stage.world.now();
        stage.say_and_wait(&mut caller, 10_000);
        longest = longest.max(stage.world.now() - begin);
        during += 1;
    }
    assert!(during > 3, "it was whole at once");
    stage.wait_whole(3);
    assert!(longest < 100 * MS, "a stall of {longest:?}");
    assert!(!caller.is_over());
}

#[test]
fn two_of_three_may_restart_under_load_together_or_one_after_the_other() {
    for seed in 0..6 {
        let mut stage = Stage::three(seed);
        let chain = stage.add_writer(300_000, 2_000, 20 * MS);
        stage.add_reader(&chain, false);
        for round in 0..6 {
            stage.pass(500 * MS);
            let (leader, others) = stage.roles();
            let pair = match round % 3 {
                0 => [others[0], others[1]],
                1 => [leader, others[1]],
                _ => [others[0], leader],
            };
            for (index, lag) in pair.into_iter().zip([0, (seed % 3) * 300]) {
                stage.pass(Duration::from_millis(lag));
                match round % 2 {
                    0 => stage.crash(index),
                    _ => stage.cut_power(index),
                }
            }
            stage.pass(200 * MS);
            for (index, lag) in pair.into_iter().zip([0, (seed % 2) * 700]) {
                stage.pass(Duration::from_millis(lag));
                stage.restart(index);
            }
        }
        stage.wait("all of it", |_| chain.borrow().closed);
        stage.wait_whole(3);
    }
}

/// Full, stays full over a restart, and has room again.
fn fill(stage: &mut Stage, victims: &[usize]) {
    let chain = stage.add_writer(1_500_000, 10_000, 20 * MS);
    stage.wait("some of it", |_| chain.borrow().acknowledged > 100_000);
    let room = 2_500_000;
    for index in victims {
        let disk = stage.world.disk_mut(stage.nodes[*index]);
        disk.faults.capacity_bytes = disk.used_bytes() + room;
    }
    stage.pass(5 * SECOND);
    let taken = chain.borrow().acknowledged;
    let full = victims.iter().any(|index| {
        let disk = stage.world.disk(stage.nodes[*index]);
        disk.free_bytes() < room
    });
    assert!(full, "nobody felt it");
    for index in victims {
        stage.crash(*index);
        stage.restart(*index);
    }
    stage.pass(5 * SECOND);
    let picture = stage.look().picture();
    assert!(
        taken < 1_500_000 || victims.len() == 1,
        "it was never full\n{picture}"
    );
    for index in victims {
        stage
            .world
            .disk_mut(stage.nodes[*index])
            .faults
            .capacity_bytes = 1 << 40;
    }
    stage.wait("all of it", |_| chain.borrow().closed);
    stage.wait_whole(3);
    let kept = stage.read_all().len() as u64;
    assert_eq!(kept, 1_500_000);
}

#[test]
fn a_full_disk_on_all_nodes_refuses_appends_until_there_is_room_also_over_a_restart() {
    let mut stage = Stage::three(1);
    fill(&mut stage, &[0, 1, 2]);
}

#[test]
fn a_full_disk_on_a_majority_loses_nothing_also_over_a_restart() {
    let mut stage = Stage::three(2);
    let (_, others) = stage.roles();
    fill(&mut stage, &others);
}

#[test]
fn a_full_disk_on_one_node_loses_nothing_also_over_a_restart() {
    let mut stage = Stage::three(4);
    let (_, others) = stage.roles();
    fill(&mut stage, &others[..1]);
}

/// The memory of a peer's start must be durable before the peer is heard: that is small, and the reserve has room.
#[test]
fn who_starts_anew_is_heard_by_nodes_whose_disks_are_at_their_reserve() {
    let mut stage = Stage::three(7);
    let (leader, others) = stage.roles();
    for index in &others {
        let disk = stage.world.disk_mut(stage.nodes[*index]);
        disk.faults.capacity_bytes = disk.used_bytes() + 200_000;
    }
    stage.pass(3 * SECOND);
    for _ in 0..4 {
        stage.crash(leader);
        stage.pass(SECOND);
        stage.restart(leader);
        stage.wait_whole(3);
    }
    let caller = stage.call(leader, "append main");
    stage.wait("the refusal", |_| caller.is_over());
    assert!(!caller.text().starts_with("ok "), "{}", caller.text());
}

/// `verify` finds nothing wrong with such a directory, for nothing is.
#[test]
fn a_node_that_finds_no_room_at_its_start_says_that_the_disk_is_full() {
    let mut stage = Stage::three(8);
    let (_, others) = stage.roles();
    let index = others[0];
    let host = stage.nodes[index];
    stage.crash(index);
    let disk = stage.world.disk_mut(host);
    disk.faults.capacity_bytes = disk.used_bytes();
    let why = stage.world.restart(host).unwrap_err().to_string();
    assert!(why.contains("the disk of /data is full"), "{why}");
    assert!(why.contains("free space there"), "{why}");
    stage.world.disk_mut(host).faults.capacity_bytes = 1 << 40;
    stage.restart(index);
    stage.wait_whole(3);
}

/// The reserve is 2 MiB.
fn leave_room(stage: &mut Stage, index: usize, bytes: u64) {
    let disk = stage.world.disk_mut(stage.nodes[index]);
    disk.faults.capacity_bytes = disk.used_bytes() + bytes;
}

fn give_room(stage: &mut Stage, index: usize) {
    let disk = stage.world.disk_mut(stage.nodes[index]);
    disk.faults.capacity_bytes = 1 << 40;
}

fn status(stage: &mut Stage, index: usize) -> String {
    let status = stage.call(index, "status");
    stage.wait("the status", |_| status.is_over());
    status.text()
}

fn address(index: usize) -> String {
    format!("node{}:7000", index + 1)
}

#[test]
fn a_full_follower_is_left_behind_while_appends_go_on_and_comes_back_by_itself() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let (leader, others) = stage.roles();
        let full = others[seed as usize % 2];
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 100_000);
        leave_room(&mut stage, full, 2_000_000);
        stage.pass(SECOND);
        let used = stage.world.disk(stage.nodes[full]).used_bytes();
        for _ in 0..10 {
            stage.say_and_wait(&mut caller, 400_000);
        }
        let grew = stage.world.disk(stage.nodes[full]).used_bytes() - used;
        assert!(grew < 500_000, "{grew} bytes went there");
        let told = status(&mut stage, leader);
        let sentence = format!("at {} is almost full", address(full));
        assert!(
            told.contains(&sentence) && !told.contains("are refused"),
            "{told}"
        );
        // It has to bear a restart, and the loss of the leader would be that of a quorum: it lacks bytes.
        stage.cut_power(full);
        stage.restart(full);
        stage.say_and_wait(&mut caller, 400_000);
        assert!(!stage.look().stopped(full));
        give_room(&mut stage, full);
        stage.wait_whole(3);
        stage.say_and_wait(&mut caller, 100_000);
        caller.half_close(&mut stage.world);
        stage.wait("the end", |_| caller.is_over());
        assert!(stage.read_all() == caller.content(0..4_600_000));
    }
}

/// With more weight it would be needed: the change waits for room, and says so.
#[test]
fn a_full_node_is_given_no_weight_before_it_has_room() {
    let mut stage = Stage::three(5);
    let (leader, others) = stage.roles();
    let full = others[0];
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 100_000);
    leave_room(&mut stage, full, 2_000_000);
    stage.pass(2 * SECOND);
    let node = stage.look().node(full).expect("it runs").id();
    let asked = crate::stage::done(
        &mut stage,
        &format!("change-members weight {} 2 log=main", node.0),
    );
    assert!(asked.starts_with("ok "), "{asked}");
    stage.pass(5 * SECOND);
    assert_eq!(stage.look().weight(leader, node), 1);
    let asked = stage.call(leader, "members local=1");
    stage.wait("an answer", |_| asked.is_over());
    let told = asked.text();
    let waits = format!("the disk of node {} is full: free space there", node.0);
    assert!(told.contains(&waits), "{told}");
    stage.say_and_wait(&mut caller, 100_000);
    give_room(&mut stage, full);
    stage.wait_within(10 * SECOND, "the weight", |look| {
        look.weight(leader, node) == 2
    });
}

#[test]
fn a_leader_whose_disk_is_full_hands_over_and_stands_back_while_others_have_room() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let (full, others) = stage.roles();
        let chain = stage.add_writer(4_000_000, 20_000, 20 * MS);
        stage.wait("some of it", |_| chain.borrow().acknowledged > 100_000);
        leave_room(&mut stage, full, 2_000_000);
        stage.wait_within(2 * SECOND, "another leader", |look| {
            look.leader().is_some_and(|now| now != full)
        });
        stage.wait("more", |_| chain.borrow().acknowledged > 1_000_000);
        // The new leader gets as full: the third one leads.
        let second = stage.leader();
        stage.cut_power(second);
        stage.pass(3 * SECOND);
        stage.restart(second);
        stage.wait("all of it", |_| chain.borrow().closed);
        assert!(!stage.look().stopped(full));
        assert!(others.contains(&stage.leader()));
        give_room(&mut stage, full);
        stage.wait_whole(3);
    }
}

/// Each log by what it needs: the leader is told of disks, and they are others'.
#[test]
fn a_refusal_for_want_of_room_names_the_nodes_whose_disks_are_full_and_no_other_log_is_refused() {
    let mut stage = Stage::three(6);
    let (leader, others) = stage.roles();
    let (full, third) = (others[0], others[1]);
    let ids = |a: usize, b: usize| format!("{},{}", a + 1, b + 1);
    done(
        &mut stage,
        &format!("create-log pair members={}", ids(leader, full)),
    );
    done(
        &mut stage,
        &format!("create-log apart members={}", ids(leader, third)),
    );
    stage.pass(3 * SECOND);
    leave_room(&mut stage, full, 1_000_000);
    stage.pass(3 * SECOND);
    let refused = done(&mut stage, "append pair");
    assert!(refused.starts_with("error full "), "{refused}");
    assert!(
        refused.contains(&address(full)) && !refused.contains(&address(third)),
        "{refused}"
    );
    let told = status(&mut stage, leader);
    assert!(told.contains("appends to pair are refused"), "{told}");
    for log in ["main", "apart"] {
        let taken = done(&mut stage, &format!("append {log}"));
        assert!(taken.starts_with("stream "), "{taken}");
    }
    // The log of three has no majority with room either now.
    leave_room(&mut stage, third, 1_000_000);
    stage.pass(3 * SECOND);
    let refused = done(&mut stage, "append main");
    assert!(refused.starts_with("error full "), "{refused}");
    for index in [full, third] {
        assert!(refused.contains(&address(index)), "{refused}");
    }
    assert!(!refused.contains(&address(leader)), "{refused}");
    for index in [full, third] {
        give_room(&mut stage, index);
    }
    stage.pass(3 * SECOND);
    let taken = done(&mut stage, "append pair");
    assert!(taken.starts_with("stream "), "{taken}");
}

/// A node that was away fetches no more than its disk has room for, and goes on once there is more. It would
/// stop if it could not write, and then no trim would help it.
#[test]
fn a_disk_without_room_for_what_was_missed_stops_no_replica() {
    let mut stage = Stage::three(5);
    let (leader, others) = stage.roles();
    let away = others[0];
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 10_000);
    stage.crash(away);
    for _ in 0..8 {
        stage.say_and_wait(&mut caller, 500_000);
    }
    let disk = stage.world.disk_mut(stage.nodes[away]);
    disk.faults.capacity_bytes = disk.used_bytes() + 3_000_000;
    stage.restart(away);
    stage.pass(20 * SECOND);
    assert!(!stage.look().stopped(away), "{}", stage.look().picture());
    assert!(stage.look().missing_bytes(away) > 0);
    let disk = stage.world.disk_mut(stage.nodes[away]);
    disk.faults.capacity_bytes = 1 << 40;
    stage.wait_whole(3);
}

#[test]
fn who_sends_more_than_may_be_unchosen_is_held_without_spinning() {
    let mut stage = Stage::three(3);
    let (leader, others) = stage.roles();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 1_000);
    for index in &others {
        stage.world.hang_disk(stage.nodes[*index]);
    }
    // W is 256 KiB here.
    caller.say(&mut stage.world, 2_000_000);
    stage.pass(500 * MS);
    let steps = stage.world.steps();
    stage.pass(500 * MS);
    let steps = stage.world.steps() - steps;
    assert!(steps < 2_000, "{steps} steps in half a second of waiting");
    assert_eq!(caller.acknowledged(), 1_000);
    let proposed = stage.look().node(leader).map(|node| {
        let mut views = node.log_views();
        let view = views.find(|view| view.name == "main").expect("it leads");
        view.state.next.0
    });
    assert!(proposed < Some(10_000), "nothing of it is chosen");
    for index in &others {
        stage.world.release_disk(stage.nodes[*index]);
    }
    stage.wait("all of it", |_| caller.has_all());
    assert!(stage.read_all() == caller.content(0..caller.said));
}

/// A log of many streams over a slow line: to send its state takes longer than a silence that counts.
#[test]
fn a_state_that_takes_long_to_send_holds_up_no_heartbeat() {
    let limits = replica::Limits {
        heartbeat_interval: 10 * MS,
        peer_timeout: 60 * MS,
        part_bytes: 1 << 10,
        ..sim::workload::small_limits()
    };
    let mut stage = Stage::with_limits(1, 3, limits);
    stage.add_node();
    stage.add_node();
    stage.wait_whole(3);
    let (leader, others) = stage.roles();
    let behind = others[0];
    stage.crash(behind);
    let request = format!("append main mode=takeover label={}", "a".repeat(250));
    for _ in 0..400 {
        stage.open(leader, &request);
    }
    // Nobody has the proposals in memory any more.
    stage.pass(3 * SECOND);
    let model = &mut stage.world.network().model;
    model.bytes_per_us = 1;
    model.send_buffer_bytes = 4 << 10;
    stage.restart(behind);
    stage.wait_within(2 * SECOND, "the nodes to be whole", |look| look.is_whole(3));
}

#[test]
fn a_start_passes_over_a_block_that_the_device_does_not_give() {
    let mut stage = Stage::three(1);
    let (leader, others) = stage.roles();
    let mut caller = stage.open(leader, "append main");
    stage.say_and_wait(&mut caller, 100_000);
    stage.wait_whole(3);
    stage.pass(SECOND);
    let index = others[0];
    stage.crash(index);
    // In the newest segment, all of which a start reads.
    assert!(stage.make_unreadable(index, &caller.content(90_000..90_032)));
    stage.restart(index);
    let look = stage.look();
    assert!(look.next(index) < look.next(leader), "it forgot nothing");
    stage.wait_whole(3);
    for other in [leader, others[1]] {
        stage.crash(other);
    }
    let read = stage.call(index, "read main stale=1 to=100000");
    stage.wait("the end of the read", |_| read.is_over());
    assert!(read.heard() == caller.content(0..100_000));
}
