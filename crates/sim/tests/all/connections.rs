//! The contract of connections, op by op, over many seeds.

use std::io::ErrorKind;
use std::time::Duration;

use ops::{Completion, ConnId, Op, Slice};
use sim::{PerMillion, Status, World};

use crate::support::puppet::{Hand, pair, puppet, received, sent};

const SECOND: Duration = Duration::from_secs(1);

/// Small buffers, so that everything is felt.
fn world(seed: u64) -> World {
    let mut world = World::new(seed);
    let model = &mut world.network().model;
    model.send_buffer_bytes = 1000;
    model.receive_buffer_bytes = 500;
    model.segment_bytes_max = 300;
    world
}

fn numbered(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i / 7) as u8).collect()
}

fn wait(world: &mut World, seconds: u64) {
    world.run_for(Duration::from_secs(seconds), 1_000_000);
}

fn close(world: &mut World, hand: &Hand, conn: ConnId, flush: bool) {
    hand.give(world, Op::Close { conn, flush });
}

#[test]
fn a_send_completes_when_all_is_with_the_kernel() {
    for seed in 0..50 {
        let mut world = world(seed);
        let ((a, c), (b, d)) = pair(&mut world);
        a.send(&mut world, c, &numbered(1500));
        wait(&mut world, 1);
        sent(a.one()).unwrap();
        a.send(&mut world, c, &numbered(1));
        wait(&mut world, 1);
        assert!(a.heard().is_empty(), "both buffers are full");
        assert_eq!(a.outstanding(&world), 1);
        assert_eq!(b.read(&mut world, d, 400).unwrap(), numbered(400));
        sent(a.one()).unwrap();
    }
}

#[test]
fn bytes_arrive_whole_and_in_order_whatever_the_cuts() {
    for seed in 0..100 {
        let mut world = world(seed);
        world.network().model.losses = PerMillion(100_000);
        let ((a, c), (b, d)) = pair(&mut world);
        let bytes = numbered(20_000);
        for part in bytes.chunks(1 + seed as usize * 97) {
            a.send(&mut world, c, part);
        }
        a.give(&mut world, Op::ShutdownWrite { conn: c });
        let mut seen = Vec::new();
        loop {
            b.receive(&mut world, d, 1 + seed as usize * 13, seed % 2 == 0);
            wait(&mut world, 60);
            let Completion::Received { buffer, result, .. } = b.one() else {
                panic!("not a receive");
            };
            let received = result.unwrap();
            seen.extend_from_slice(&buffer[..received.count]);
            if received.end {
                break;
            }
        }
        assert!(seen == bytes, "seed {seed}");
        assert_eq!(a.outstanding(&world), 0);
    }
}

#[test]
fn a_receive_without_a_buffer_gets_what_came_in_pieces_and_the_end() {
    let (mut with, mut behind, mut pieces) = (0, 0, 0);
    for seed in 0..60 {
        let mut world = world(seed);
        let ((a, c), (b, d)) = pair(&mut world);
        let bytes = numbered(20_000);
        let bytes_max = 1 + seed as usize * 113;
        b.receive_when_there(&mut world, d, bytes_max);
        wait(&mut world, 1);
        assert!(b.heard().is_empty(), "nothing is there");
        a.send(&mut world, c, &bytes);
        a.give(&mut world, Op::ShutdownWrite { conn: c });
        let mut seen = Vec::new();
        loop {
            wait(&mut world, 1);
            let Completion::Received {
                buffer,
                range,
                result,
                ..
            } = b.one()
            else {
                panic!("not a receive");
            };
            let received = result.unwrap();
            assert_eq!(range, 0..received.count);
            let rest = &buffer[range.end..];
            assert!(rest.iter().all(|byte| *byte != 0), "others' bytes");
            seen.extend_from_slice(&buffer[range]);
            pieces += usize::from(received.count < bytes_max);
            if received.end {
                with += usize::from(received.count > 0);
                behind += usize::from(received.count == 0);
                break;
            }
            b.receive_when_there(&mut world, d, bytes_max);
        }
        assert!(seen == bytes, "seed {seed}");
    }
    assert!(
        with > 5 && behind > 5 && pieces > 60,
        "{with} {behind} {pieces}"
    );
}

#[test]
fn a_receive_without_a_buffer_holds_up_those_behind_it_and_none_before() {
    let mut world = world(3);
    let ((a, c), (b, d)) = pair(&mut world);
    b.receive(&mut world, d, 2, true);
    b.receive_when_there(&mut world, d, 1);
    b.receive(&mut world, d, 3, true);
    b.receive_when_there(&mut world, d, 9);
    a.send(&mut world, c, b"aabccc");
    wait(&mut world, 1);
    let seen: Vec<Vec<u8>> = b
        .heard()
        .into_iter()
        .map(|completion| match completion {
            Completion::Received { buffer, range, .. } => buffer[range].to_vec(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [b"aa".to_vec(), b"b".to_vec(), b"ccc".to_vec()]);
    b.give(
        &mut world,
        Op::Close {
            conn: d,
            flush: false,
        },
    );
    wait(&mut world, 1);
    let error = received(b.one()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
}

#[test]
fn receives_that_are_not_whole_are_cut_short_at_random() {
    let mut short = 0;
    for seed in 0..50 {
        let mut world = world(seed);
        let ((a, c), (b, d)) = pair(&mut world);
        a.send(&mut world, c, &numbered(300));
        wait(&mut world, 1);
        b.receive(&mut world, d, 300, false);
        wait(&mut world, 1);
        short += usize::from(received(b.one()).unwrap().count < 300);
    }
    assert!((3..40).contains(&short), "{short} of 50");
}

#[test]
fn a_whole_receive_may_be_larger_than_the_kernels_buffer() {
    let mut world = world(1);
    let ((a, c), (b, d)) = pair(&mut world);
    b.receive(&mut world, d, 9000, true);
    a.send(&mut world, c, &numbered(8999));
    wait(&mut world, 5);
    assert!(b.heard().is_empty(), "one byte is missing");
    a.send(&mut world, c, b"!");
    wait(&mut world, 5);
    let received = received(b.one()).unwrap();
    assert_eq!((received.count, received.end), (9000, false));
}

#[test]
fn receives_complete_in_the_order_in_which_they_were_given() {
    let mut world = world(2);
    let ((a, c), (b, d)) = pair(&mut world);
    for length in [1, 2, 3] {
        b.receive(&mut world, d, length, true);
    }
    a.send(&mut world, c, b"abbccc");
    wait(&mut world, 1);
    let seen: Vec<Vec<u8>> = b
        .heard()
        .into_iter()
        .map(|completion| match completion {
            Completion::Received { buffer, range, .. } => buffer[range].to_vec(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(seen, [b"a".to_vec(), b"bb".to_vec(), b"ccc".to_vec()]);
}

#[test]
fn after_a_shutdown_one_side_still_hears_the_other() {
    for seed in 0..50 {
        let mut world = world(seed);
        let ((a, c), (b, d)) = pair(&mut world);
        a.send(&mut world, c, &numbered(700));
        a.give(&mut world, Op::ShutdownWrite { conn: c });
        let heard = b.read(&mut world, d, 5000).unwrap();
        assert_eq!(heard, numbered(700), "the end comes behind all sends");
        a.heard();
        b.send(&mut world, d, &numbered(900));
        assert_eq!(a.read(&mut world, c, 900).unwrap(), numbered(900));
        a.send(&mut world, c, b"too late");
        wait(&mut world, 1);
        assert!(sent(a.one()).is_err());
    }
}

#[test]
fn a_close_with_flush_delivers_the_sends_given_before() {
    for seed in 0..50 {
        let mut world = world(seed);
        let ((a, c), (b, d)) = pair(&mut world);
        a.send(&mut world, c, &numbered(5000));
        a.receive(&mut world, c, 10, false);
        close(&mut world, &a, c, true);
        wait(&mut world, 1);
        let error = received(a.one()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
        b.receive(&mut world, d, 6000, true);
        wait(&mut world, 5);
        let received = received(b.one()).unwrap();
        assert_eq!((received.count, received.end), (5000, true));
        sent(a.one()).unwrap();
        assert_eq!(world.open_connections(a.host), 0);
    }
}

#[test]
fn a_close_without_flush_ends_what_was_asked_for_with_errors() {
    let mut world = world(3);
    let ((a, c), (b, d)) = pair(&mut world);
    a.send(&mut world, c, &numbered(5000));
    a.receive(&mut world, c, 10, false);
    wait(&mut world, 1);
    close(&mut world, &a, c, false);
    wait(&mut world, 1);
    let heard = a.heard();
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert_eq!(a.outstanding(&world), 0);
    let seen = b.read(&mut world, d, 6000).unwrap();
    assert_eq!(seen, numbered(1500), "what the kernels held");
}

#[test]
fn ops_on_a_closed_connection_complete_with_errors() {
    let mut world = world(4);
    let ((a, c), _) = pair(&mut world);
    close(&mut world, &a, c, true);
    a.send(&mut world, c, b"x");
    a.receive(&mut world, c, 1, false);
    wait(&mut world, 1);
    let kinds: Vec<ErrorKind> = a.heard().into_iter().map(kind).collect();
    assert_eq!(kinds, [ErrorKind::ConnectionAborted; 2]);
}

fn kind(completion: Completion) -> ErrorKind {
    match completion {
        Completion::Sent { result, .. } | Completion::Connected { result, .. } => {
            result.unwrap_err().kind()
        }
        Completion::Received { result, .. } => result.unwrap_err().kind(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_close_with_bytes_unread_is_a_reset() {
    let mut world = world(5);
    let ((a, c), (b, d)) = pair(&mut world);
    a.send(&mut world, c, b"unread");
    wait(&mut world, 1);
    sent(a.one()).unwrap();
    close(&mut world, &b, d, false);
    a.receive(&mut world, c, 1, false);
    wait(&mut world, 1);
    assert_eq!(kind(a.one()), ErrorKind::ConnectionReset);
}

#[test]
fn who_sends_to_a_closed_end_is_reset() {
    let mut world = world(6);
    let ((a, c), (b, d)) = pair(&mut world);
    close(&mut world, &b, d, false);
    let nothing = a.read(&mut world, c, 10).unwrap();
    assert!(nothing.is_empty(), "a clean end");
    a.send(&mut world, c, b"hello?");
    wait(&mut world, 1);
    sent(a.one()).unwrap();
    a.send(&mut world, c, b"hello?");
    wait(&mut world, 1);
    assert_eq!(kind(a.one()), ErrorKind::ConnectionReset);
}

fn connect(world: &mut World, hand: &Hand, conn: u64, address: &str) {
    let conn = ConnId(conn);
    let address = address.to_owned();
    hand.give(world, Op::Connect { conn, address });
}

#[test]
fn a_connect_is_refused_or_times_out_or_is_given_up() {
    let mut world = world(7);
    let a = puppet(&mut world, "a");
    let b = puppet(&mut world, "b");
    for (address, refusal) in [
        ("b:1", ErrorKind::ConnectionRefused),
        ("nobody:1", ErrorKind::Other),
        ("b", ErrorKind::InvalidInput),
    ] {
        connect(&mut world, &a, 2, address);
        wait(&mut world, 1);
        assert_eq!(kind(a.one()), refusal, "{address}");
    }
    world.cut(b.host, a.host);
    connect(&mut world, &a, 4, "b:1");
    wait(&mut world, 4);
    assert!(a.heard().is_empty());
    wait(&mut world, 2);
    assert_eq!(kind(a.one()), ErrorKind::TimedOut);
    connect(&mut world, &a, 6, "b:1");
    wait(&mut world, 1);
    close(&mut world, &a, ConnId(6), true);
    wait(&mut world, 1);
    assert_eq!(kind(a.one()), ErrorKind::ConnectionAborted);
    wait(&mut world, 60);
    assert!(a.heard().is_empty(), "completed once");
}

#[test]
fn two_cannot_listen_at_one_address() {
    let mut world = world(8);
    let a = puppet(&mut world, "a");
    for address in ["a:1", "0.0.0.0:1", "elsewhere:2"] {
        let address = address.to_owned();
        a.give(&mut world, Op::Listen { address });
    }
    wait(&mut world, 1);
    let kinds: Vec<ErrorKind> = a
        .heard()
        .into_iter()
        .map(|completion| match completion {
            Completion::ListenFailed { error, .. } => error.kind(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, [ErrorKind::AddrInUse, ErrorKind::AddrNotAvailable]);
}

/// Both ends send a little; what has been heard since by each.
fn exchange(world: &mut World, ends: [(&Hand, ConnId); 2]) -> [Vec<Completion>; 2] {
    for (hand, conn) in ends {
        hand.receive(world, conn, 4, true);
        hand.send(world, conn, b"ping");
    }
    wait(world, 2);
    ends.map(|(hand, _)| hand.heard())
}

fn hears_bytes(heard: &[Completion]) -> bool {
    heard
        .iter()
        .any(|c| matches!(c, Completion::Received { result: Ok(_), .. }))
}

#[test]
fn a_cut_path_holds_bytes_in_its_direction_until_it_heals() {
    for seed in 0..50 {
        let mut world = world(seed);
        let ((a, c), (b, d)) = pair(&mut world);
        world.cut(a.host, b.host);
        let [at_a, at_b] = exchange(&mut world, [(&a, c), (&b, d)]);
        assert!(hears_bytes(&at_a), "b to a is whole");
        assert!(!hears_bytes(&at_b));
        wait(&mut world, 8);
        world.heal(a.host, b.host);
        wait(&mut world, 1);
        assert!(hears_bytes(&b.heard()), "sent again");
        let [at_a, at_b] = exchange(&mut world, [(&a, c), (&b, d)]);
        assert!(hears_bytes(&at_a) && hears_bytes(&at_b));
    }
}

#[test]
fn unacknowledged_bytes_fail_a_connection_that_stays_cut() {
    let mut world = world(9);
    let ((a, c), (b, d)) = pair(&mut world);
    world.cut(a.host, b.host);
    exchange(&mut world, [(&a, c), (&b, d)]);
    wait(&mut world, 14);
    a.receive(&mut world, c, 1, false);
    b.receive(&mut world, d, 1, false);
    wait(&mut world, 1);
    // b's bytes arrived, but it never heard of that.
    let at_a: Vec<_> = a.heard().into_iter().map(kind).collect();
    assert_eq!(at_a, [ErrorKind::TimedOut]);
    let at_b: Vec<_> = b.heard().into_iter().map(kind).collect();
    assert_eq!(at_b, [ErrorKind::TimedOut; 2]);
}

#[test]
fn an_idle_connection_survives_any_cut() {
    let mut world = world(10);
    let ((a, c), (b, d)) = pair(&mut world);
    world.cut_both(a.host, b.host);
    wait(&mut world, 100);
    world.heal_all();
    let [at_a, at_b] = exchange(&mut world, [(&a, c), (&b, d)]);
    assert!(hears_bytes(&at_a) && hears_bytes(&at_b));
}

#[test]
fn peers_of_a_killed_process_hear_an_end_or_a_reset() {
    let (mut ends, mut resets) = (0, 0);
    for seed in 0..50 {
        let mut world = world(seed);
        let ((a, c), (b, _)) = pair(&mut world);
        a.receive(&mut world, c, 10, false);
        wait(&mut world, 1);
        world.crash(b.host);
        assert_eq!(world.status(b.host), Status::Crashed);
        wait(&mut world, 1);
        match received(a.one()) {
            Ok(received) => {
                assert_eq!((received.count, received.end), (0, true));
                ends += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset);
                resets += 1;
            }
        }
    }
    assert!(ends > 5 && resets > 5);
}

#[test]
fn a_machine_that_vanished_is_silent_until_it_is_back() {
    let mut world = world(11);
    let ((a, c), (b, _)) = pair(&mut world);
    a.receive(&mut world, c, 10, false);
    world.crash_silently(b.host);
    wait(&mut world, 100);
    assert!(a.heard().is_empty(), "nobody told it");
    a.send(&mut world, c, b"still there?");
    wait(&mut world, 5);
    sent(a.one()).unwrap();
    world.restart(b.host).unwrap();
    wait(&mut world, 5);
    assert_eq!(kind(a.one()), ErrorKind::ConnectionReset);
}

#[test]
fn a_paused_process_hears_later_what_its_kernel_took() {
    let mut world = world(12);
    let ((a, c), (b, d)) = pair(&mut world);
    b.receive(&mut world, d, 4, true);
    wait(&mut world, 1);
    world.pause(b.host, 10 * SECOND);
    a.send(&mut world, c, &numbered(5000));
    wait(&mut world, 9);
    assert!(b.heard().is_empty() && a.heard().is_empty());
    wait(&mut world, 2);
    assert!(hears_bytes(&b.heard()));
}

#[test]
fn a_reset_on_the_way_fails_both_ends() {
    let mut world = world(13);
    let ((a, c), (b, d)) = pair(&mut world);
    a.receive(&mut world, c, 1, false);
    b.receive(&mut world, d, 1, false);
    a.send(&mut world, c, &numbered(5000));
    wait(&mut world, 1);
    b.heard();
    b.receive(&mut world, d, 5000, true);
    wait(&mut world, 1);
    world.reset(a.host, c);
    wait(&mut world, 1);
    for hand in [&a, &b] {
        let heard = hand.heard();
        assert!(
            !heard.is_empty() && hand.outstanding(&world) == 0,
            "{heard:?}"
        );
    }
}

#[test]
fn empty_slices_and_sends_are_nothing_special() {
    let mut world = world(14);
    let ((a, c), (b, d)) = pair(&mut world);
    let slices = ["", "a", "", "b"].map(|s| Slice::copied_from(s.as_bytes()));
    let slices = slices.to_vec();
    a.give(&mut world, Op::Send { conn: c, slices });
    let slices = Vec::new();
    a.give(&mut world, Op::Send { conn: c, slices });
    assert_eq!(b.read(&mut world, d, 2).unwrap(), b"ab");
    assert_eq!(a.heard().len(), 2);
}

#[test]
fn time_passes_although_nothing_happens() {
    let mut world = world(15);
    puppet(&mut world, "a");
    let before = world.now();
    wait(&mut world, 3);
    assert_eq!(world.now(), before + 3 * SECOND);
}
