//! Terms that nobody can have prepared, said in a cluster that works: it goes on as before.

use paxos::*;

use crate::world::*;

/// Three voters, one of which leads.
fn led(seed: u64) -> (World, Term) {
    let mut world = World::new(seed, &[(1, 1), (2, 1), (3, 1)], 3);
    world.until("a leader", 10_000_000, |w| w.leader().is_some());
    world.run(500_000);
    let leads = term(&world).expect("nothing happens to it");
    (world, leads)
}

fn term(world: &World) -> Option<Term> {
    let leader = world.nodes[world.leader()?].engine.as_ref()?;
    match leader.role() {
        Role::Leader { term } => Some(term),
        _ => None,
    }
}

fn say(world: &mut World, from: NodeId, term: Term) {
    for to in (1..=3).map(NodeId).filter(|to| *to != from) {
        let at = world.now + 100;
        world.net.push(Flight {
            at,
            from,
            to,
            message: Message::Prepare { term },
        });
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_stranger_deposes_nobody() {
    for seed in 0..10 {
        let (mut world, leads) = led(seed);
        for more in 1..10 {
            let number = leads.number + more;
            let stranger = NodeId(99);
            let owner = [stranger, NodeId(1 + more % 3)][more as usize % 2];
            say(
                &mut world,
                stranger,
                Term {
                    number,
                    owner,
                    ..leads
                },
            );
            world.run(100_000);
        }
        assert_eq!(term(&world), Some(leads), "seed {seed}");
        world.check_agreement();
    }
}

/// Nobody can lead above the highest number there is.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_member_that_says_the_highest_number_wedges_nobody() {
    for seed in 0..10 {
        let (mut world, leads) = led(seed);
        let (liar, number) = (NodeId(1 + leads.owner.0 % 3), u32::MAX);
        let owner = liar;
        say(
            &mut world,
            liar,
            Term {
                number,
                owner,
                ..leads
            },
        );
        world.run(1_000_000);
        // Its lie is over, and somebody else is to lead.
        let old = world.index(leads.owner);
        world.crash(old);
        world.until("another leader", 20_000_000, |w| w.leader().is_some());
        let at = world.leader().expect("just seen");
        let slot = world.propose(at, Action::GenerateNodeId);
        let slot = slot.expect("it leads");
        world.until("an action to be chosen", 5_000_000, |w| {
            w.chosen_told > slot
        });
        world.check_agreement();
    }
}
