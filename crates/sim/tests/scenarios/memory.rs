//! The memory for bytes on their way, and logs that share it.

use paxos::Role;
use replica::Limits;
use sim::workload::small_limits;

use crate::stage::{LOG, Look, MS, SECOND, Stage};

/// The bytes of all rings together, and of the only one that is used.
const RINGS_BYTES: u64 = 64 << 10;
/// The number of busy logs that leave each of them less than `LOG` holds when it has gone idle.
const OTHERS: usize = 7;

fn ring_share(look: &Look<'_>, index: usize) -> u64 {
    look.node(index).expect("it runs").ring_share()
}

/// The number of times that this node did not propose at once what a writer of the log had sent.
fn held(look: &Look<'_>, index: usize) -> u64 {
    let view = look.view_of(index, LOG).expect("it is hosted");
    view.counts.held_by_followers
}

/// Between the moment at which its share shrinks and the next look at the log itself there are up to
/// 20 ms. Bytes that come then find more in memory than the share allows; what was chosen goes, and if
/// that is all, nothing is under way any more that would take up the bytes later.
#[test]
fn a_log_whose_share_shrank_while_it_was_idle_takes_the_next_bytes() {
    for seed in 0..4 {
        let limits = Limits {
            ring_bytes_max: RINGS_BYTES,
            all_rings_bytes_max: RINGS_BYTES,
            ..small_limits()
        };
        let mut stage = Stage::with_limits(seed, 3, limits);
        stage.add_node();
        stage.add_node();
        stage.wait_whole(3);
        let leader = stage.leader();
        // The others are led where `LOG` is: nobody else hosts them.
        let id = stage.look().node(leader).expect("it runs").id();
        let mut others = Vec::new();
        for number in 0..OTHERS {
            let name = format!("other{number}");
            let request = format!("create-log {name} members={id}");
            let caller = stage.call(leader, &request);
            stage.wait("the log", |_| caller.is_over());
            assert!(caller.text().starts_with("ok "), "{}", caller.text());
            stage.wait("its leader", |look| {
                let view = look.view_of(leader, &name);
                view.is_some_and(|view| matches!(view.role, Role::Leader { .. }))
            });
            others.push(stage.open(leader, &format!("append {name}")));
        }
        let mut writer = stage.open(leader, &format!("append {LOG}"));
        let mut was_held = false;
        for _ in 0..8 {
            // Until nobody holds anything any more.
            stage.pass(2 * SECOND);
            assert_eq!(ring_share(&stage.look(), leader), RINGS_BYTES);
            // As much as stays in memory for readers, and more.
            for _ in 0..8 {
                stage.say_and_wait(&mut writer, 100);
            }
            stage.pass(200 * MS);
            for other in &mut others {
                other.say(&mut stage.world, 100);
            }
            stage.wait("the others to be busy", |_| {
                others.iter().all(|other| other.has_all())
            });
            stage.wait("a small share", |look| {
                ring_share(look, leader) <= RINGS_BYTES / (OTHERS as u64 + 1)
            });
            let before = held(&stage.look(), leader);
            writer.say(&mut stage.world, 100);
            stage.wait_within(10 * SECOND, "the acknowledgement", |_| writer.has_all());
            was_held = held(&stage.look(), leader) > before;
            if was_held {
                break;
            }
        }
        assert!(was_held, "seed {seed}: the share was never too small");
    }
}
