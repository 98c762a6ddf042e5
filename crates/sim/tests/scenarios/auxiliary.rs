//! A log with an auxiliary: two copies of everything on two of three nodes, whoever fails when.

use std::ops::Range;
use std::time::Duration;

use paxos::{NodeId, Role, StreamName};
use replica::LogView;

use crate::caller::Caller;
use crate::stage::{Look, MS, SECOND, Stage, done};

const CHEAP: &str = "cheap";

/// Three nodes and a log with an auxiliary. The indices of its leader, the other active member and
/// the auxiliary.
struct Cheap {
    stage: Stage,
    leader: usize,
    active: usize,
    auxiliary: usize,
    ids: Vec<NodeId>,
    caller: Caller,
}

/// Node 3 is auxiliary; whichever of the others leads.
fn cheap(seed: u64) -> Cheap {
    let mut stage = Stage::three(seed);
    let directory = stage.look().leader_of("directory").expect("it is well");
    let request = format!("create-log {CHEAP} auxiliary=3");
    let created = stage.call(directory, &request);
    stage.wait("the log to be made", |_| created.is_over());
    assert!(created.text().starts_with("ok "), "{}", created.text());
    stage.wait("a leader", |look| look.leader_of(CHEAP).is_some());
    let ids = (0..3).map(|index| stage.look().node(index).expect("it runs").id());
    let ids: Vec<NodeId> = ids.collect();
    let auxiliary = ids.iter().position(|id| *id == NodeId(3));
    let auxiliary = auxiliary.expect("it joined");
    let leader = stage.look().leader_of(CHEAP).expect("just seen");
    let caller = stage.call(leader, &format!("append {CHEAP}"));
    stage.wait("the stream to open", |_| caller.is_open());
    assert_ne!(leader, auxiliary, "an auxiliary never leads");
    Cheap {
        stage,
        leader,
        active: 3 - leader - auxiliary,
        auxiliary,
        ids,
        caller,
    }
}

impl Look<'_> {
    fn leader_of(&self, log: &str) -> Option<usize> {
        let term = |index: usize| match self.view_of(index, log)?.role {
            Role::Leader { term } => Some(term),
            _ => None,
        };
        (0..3)
            .filter(|index| term(*index).is_some())
            .max_by_key(|index| term(*index))
    }

    fn cheap(&self, index: usize) -> LogView<'_> {
        self.view_of(index, CHEAP).expect("it runs")
    }

    fn stream(&self, index: usize) -> StreamName {
        self.cheap(index)
            .state
            .streams
            .first()
            .expect("it is open")
            .name
    }

    fn holds(&self, index: usize, bytes: Range<u64>) -> bool {
        self.cheap(index).holds(self.stream(index), bytes)
    }

    fn is_marked(&self, index: usize, node: NodeId) -> bool {
        self.cheap(index).state.configuration.is_auxiliary(node)
    }
}

impl Cheap {
    fn say(&mut self, count: u64) {
        self.stage.say_and_wait(&mut self.caller, count);
    }

    /// Appends so many batches of so many bytes. Returns the longest time until one was acknowledged.
    fn load(&mut self, batches: u64, bytes: u64, pause: Duration) -> Duration {
        let mut longest = Duration::ZERO;
        for _ in 0..batches {
            let begin = self.stage.world.now();
            self.say(bytes);
            longest = longest.max(self.stage.world.now() - begin);
            self.stage.pass(pause);
        }
        longest
    }

    fn said(&self) -> u64 {
        self.caller.said
    }

    /// Everything acknowledged can be read at the leader; and the log goes on.
    fn check_kept(&mut self, acknowledged: u64) {
        self.stage
            .wait("a leader", |look| look.leader_of(CHEAP).is_some());
        let mut read = Vec::new();
        for _ in 0..100 {
            let Some(leader) = self.stage.look().leader_of(CHEAP) else {
                self.stage.pass(200 * MS);
                continue;
            };
            let caller = self.stage.call(leader, &format!("read {CHEAP}"));
            self.stage.wait("the end of the read", |_| caller.is_over());
            read = caller.heard();
            if !read.starts_with(b"error ") {
                break;
            }
            self.stage.pass(200 * MS);
        }
        assert!(
            read.len() as u64 >= acknowledged,
            "{} of {acknowledged}",
            read.len()
        );
        let said = self.caller.content(0..self.caller.said);
        assert!(said.starts_with(&read), "other bytes than were sent");
        let leader = self
            .stage
            .look()
            .leader_of(CHEAP)
            .expect("it was read from");
        let mut caller = self
            .stage
            .open(leader, &format!("append {CHEAP} mode=takeover"));
        self.stage.say_and_wait(&mut caller, 1_000);
    }
}

#[test]
fn an_auxiliary_at_rest_holds_no_bytes_and_knows_what_is_chosen() {
    let mut cheap = cheap(0);
    cheap.load(60, 50_000, 20 * MS);
    let (auxiliary, said) = (cheap.auxiliary, cheap.said());
    for index in [cheap.leader, cheap.active] {
        assert!(cheap.stage.look().holds(index, 0..said));
    }
    assert_eq!(cheap.stage.look().cheap(auxiliary).held_bytes(), 0);
    let disk = cheap.stage.look().cheap(auxiliary).disk_bytes();
    assert!(
        disk < said / 10,
        "{disk} bytes on the auxiliary's disk of {said}"
    );
    let leader = cheap.leader;
    let next = cheap.stage.look().cheap(leader).state.next;
    cheap.stage.wait_within(3 * SECOND, "it to know", |look| {
        look.cheap(auxiliary).state.next == next
    });
    // As little as there may be.
    for _ in 0..200 {
        cheap.say(10);
        cheap.stage.pass(2 * SECOND);
    }
    let disk = cheap.stage.look().cheap(auxiliary).disk_bytes();
    assert!(disk < 1 << 20, "{disk} bytes on the auxiliary's disk");
    assert_eq!(cheap.stage.look().cheap(leader).counts.engaged, 0);
    let stale = cheap
        .stage
        .call(auxiliary, &format!("read {CHEAP} stale=1"));
    cheap
        .stage
        .wait_within(SECOND, "an answer", |_| stale.is_over());
    assert!(
        stale.text().starts_with("error not-here"),
        "{}",
        stale.text()
    );
}

#[test]
fn when_the_active_follower_dies_there_are_two_copies_of_every_byte_at_once() {
    for seed in 0..5 {
        let mut cheap = cheap(seed);
        cheap.load(20, 20_000, 10 * MS);
        let held = cheap.said();
        let (leader, active, auxiliary) = (cheap.leader, cheap.active, cheap.auxiliary);
        assert!(cheap.stage.look().holds(active, 0..held));
        cheap.stage.cut_power(active);
        let mut longest = Duration::ZERO;
        for _ in 0..40 {
            longest = longest.max(cheap.load(1, 5_000, 5 * MS));
            let look = cheap.stage.look();
            assert!(look.holds(leader, 0..cheap.said()));
            assert!(look.holds(auxiliary, held..cheap.said()), "one copy only");
        }
        assert!(longest < 500 * MS, "no acknowledgement for {longest:?}");
        assert!(cheap.stage.look().cheap(leader).is_engaged());
        let all = cheap.said();
        cheap.stage.restart(active);
        cheap
            .stage
            .wait("it to catch up and the auxiliary to be released", |look| {
                let back = look
                    .view_of(active, CHEAP)
                    .is_some_and(|view| view.missing().is_empty());
                back && look.holds(active, 0..all)
                    && look.cheap(auxiliary).held_bytes() == 0
                    && !look.cheap(leader).is_engaged()
            });
        cheap
            .stage
            .wait_within(5 * SECOND, "its disk to be as before", |look| {
                look.cheap(auxiliary).disk_bytes() < 100_000
            });
        cheap.load(20, 20_000, 10 * MS);
        assert_eq!(cheap.stage.look().cheap(auxiliary).held_bytes(), 0);
        assert!(!cheap.caller.is_over(), "{}", cheap.caller.text());
        let said = cheap.said();
        cheap.check_kept(said);
    }
}

/// The writer never stops: at no moment do the active members hold everything.
#[test]
fn the_auxiliary_rests_and_drops_what_it_took_while_bytes_flow() {
    for seed in 0..5 {
        let mut cheap = cheap(seed);
        let (leader, active, auxiliary) = (cheap.leader, cheap.active, cheap.auxiliary);
        let flow = |cheap: &mut Cheap, batches: u32| {
            for _ in 0..batches {
                cheap.caller.say(&mut cheap.stage.world, 5_000);
                cheap.stage.pass(2 * MS);
            }
        };
        flow(&mut cheap, 100);
        cheap.stage.cut_power(active);
        flow(&mut cheap, 500);
        assert!(cheap.stage.look().cheap(leader).is_engaged());
        cheap.stage.restart(active);
        let mut batches = 0;
        while cheap.stage.look().cheap(leader).is_engaged() {
            flow(&mut cheap, 50);
            batches += 50;
            assert!(batches < 2_500, "seed {seed}: engaged after five seconds");
        }
        flow(&mut cheap, 1_500);
        let look = cheap.stage.look();
        assert_eq!(look.cheap(leader).counts.engaged, 1, "seed {seed}");
        let held = look.cheap(auxiliary).held_bytes();
        assert_eq!(held, 0, "seed {seed}: {held} bytes on the auxiliary");
        assert!(!cheap.caller.is_over(), "{}", cheap.caller.text());
    }
}

#[test]
fn an_active_follower_that_stays_away_changes_places_with_the_auxiliary() {
    for seed in 0..3 {
        let mut cheap = cheap(seed);
        let (leader, active, auxiliary) = (cheap.leader, cheap.active, cheap.auxiliary);
        let (active_id, auxiliary_id) = (cheap.ids[active], cheap.ids[auxiliary]);
        cheap.load(20, 20_000, 10 * MS);
        cheap.stage.cut_power(active);
        let away = cheap.stage.world.now();
        cheap.load(200, 2_000, 200 * MS);
        cheap.stage.wait("a new split", |look| {
            look.is_marked(leader, active_id) && !look.is_marked(leader, auxiliary_id)
        });
        let took = cheap.stage.world.now() - away;
        assert!((30 * SECOND..60 * SECOND).contains(&took), "{took:?}");
        let said = cheap.said();
        assert!(
            cheap.stage.look().holds(auxiliary, 0..said),
            "it is one of two copies now"
        );
        assert!(!cheap.caller.is_over(), "{}", cheap.caller.text());
        cheap.stage.restart(active);
        cheap.stage.wait("it to drop what it holds", |look| {
            look.view_of(active, CHEAP)
                .is_some_and(|view| view.held_bytes() == 0)
        });
        cheap.load(20, 20_000, 10 * MS);
        assert_eq!(
            cheap.stage.look().cheap(active).held_bytes(),
            0,
            "it runs cheaply again"
        );
        let said = cheap.said();
        cheap.check_kept(said);
    }
}

/// Two copies of every byte at every time: the auxiliary's is one of them.
#[test]
fn the_auxiliary_stands_in_for_an_active_member_whose_disk_is_full() {
    for seed in 0..3 {
        let mut cheap = cheap(seed);
        let (active, auxiliary) = (cheap.active, cheap.auxiliary);
        cheap.load(10, 10_000, 5 * MS);
        let host = cheap.stage.nodes[active];
        // 2 MiB are the reserve.
        let disk = cheap.stage.world.disk_mut(host);
        disk.faults.capacity_bytes = disk.used_bytes() + (3 << 20) / 2;
        cheap.stage.pass(SECOND);
        let before = cheap.said();
        cheap.load(50, 20_000, 5 * MS);
        let said = cheap.said();
        assert!(cheap.stage.look().holds(auxiliary, before..said));
        assert!(!cheap.stage.look().holds(active, before..said));
        assert!(!cheap.caller.is_over(), "{}", cheap.caller.text());
        cheap.stage.world.disk_mut(host).faults.capacity_bytes = 1 << 40;
        cheap
            .stage
            .wait("it to hold all", |look| look.holds(active, 0..said));
        cheap.stage.wait("the auxiliary to rest", |look| {
            look.cheap(auxiliary).held_bytes() == 0
        });
        cheap.check_kept(said);
    }
}

/// Appends without a pause, so that no two members ever hold all that is chosen.
fn flow_until(cheap: &mut Cheap, within: Duration, reached: impl Fn(&Look<'_>) -> bool) -> bool {
    let end = cheap.stage.world.now() + within;
    while cheap.stage.world.now() < end {
        if reached(&cheap.stage.look()) {
            return true;
        }
        cheap.caller.say(&mut cheap.stage.world, 300);
        cheap.stage.pass(Duration::from_micros(150));
    }
    false
}

#[test]
fn who_replaces_the_auxiliary_becomes_auxiliary_while_bytes_flow() {
    for seed in 0..3 {
        let mut cheap = cheap(seed);
        let leader = cheap.leader;
        let new = cheap.stage.add_node();
        cheap
            .stage
            .wait("it to join", |look| look.node(new).is_some());
        cheap.stage.pass(3 * SECOND);
        let id = cheap.stage.look().node(new).expect("it runs").id();
        done(
            &mut cheap.stage,
            &format!("change-members replace 3 {}", id.0),
        );
        let replaced = flow_until(&mut cheap, 20 * SECOND, |look| {
            let configuration = &look.cheap(leader).state.configuration;
            let weight = |node| configuration.member(node).map_or(0, |m| m.weight);
            weight(id) > 0 && weight(NodeId(3)) == 0 && configuration.is_auxiliary(id)
        });
        let configuration = &cheap.stage.look().cheap(leader).state.configuration.clone();
        assert!(replaced, "{configuration:?}");
        // It is released, and holds little beside what flows.
        let rests = flow_until(&mut cheap, 10 * SECOND, |look| {
            look.cheap(new).held_bytes() < 200_000
        });
        assert!(rests, "{}", cheap.stage.look().cheap(new).held_bytes());
        let acknowledged = cheap.caller.acknowledged();
        cheap.check_kept(acknowledged);
    }
}

/// Up to which moment of the story the world is as in [`kill_the_leader`].
#[derive(Clone, Copy, Debug)]
enum Phase {
    Engaged,
    Returning,
    Unmarked,
    Split,
    BackAsAuxiliary,
}

/// The active follower fails, and at some later moment the leader too, for ever: nothing is lost.
fn kill_the_leader(seed: u64, phase: Phase) {
    let mut cheap = cheap(seed);
    let (leader, active, auxiliary) = (cheap.leader, cheap.active, cheap.auxiliary);
    let (active_id, auxiliary_id) = (cheap.ids[active], cheap.ids[auxiliary]);
    cheap.load(30, 20_000, 5 * MS);
    cheap.stage.cut_power(active);
    cheap.load(30, 5_000, 5 * MS);
    let mut others_back = false;
    match phase {
        Phase::Engaged => {}
        Phase::Returning => {
            cheap.load(100, 20_000, 5 * MS);
            cheap.stage.restart(active);
            others_back = true;
            // It knows what is chosen, and has not fetched it.
            cheap.stage.wait("it to be back", |look| {
                let view = look.view_of(active, CHEAP);
                view.is_some_and(|view| view.state.next.0 > 1_000_000)
            });
        }
        Phase::Unmarked => cheap.stage.wait("the auxiliary to be unmarked", |look| {
            !look.is_marked(leader, auxiliary_id)
        }),
        Phase::Split | Phase::BackAsAuxiliary => {
            cheap.stage.wait("a new split", |look| {
                look.is_marked(leader, active_id) && !look.is_marked(leader, auxiliary_id)
            });
            if let Phase::BackAsAuxiliary = phase {
                cheap.load(10, 5_000, 5 * MS);
                cheap.stage.restart(active);
                others_back = true;
                cheap.stage.wait("it to drop what it holds", |look| {
                    look.view_of(active, CHEAP)
                        .is_some_and(|view| view.held_bytes() == 0)
                });
            }
        }
    }
    let acknowledged = cheap.caller.acknowledged();
    cheap.stage.cut_power(leader);
    if !others_back {
        cheap.stage.pass(2 * SECOND);
        cheap.stage.restart(active);
    }
    cheap.stage.wait("another leader", |look| {
        let led = look.leader_of(CHEAP);
        led.is_some_and(|index| index != leader)
    });
    cheap.check_kept(acknowledged);
    let led = cheap.stage.look().leader_of(CHEAP).expect("just read from");
    let marked = match phase {
        Phase::Engaged | Phase::Returning => auxiliary,
        _ => active,
    };
    if let Phase::Split | Phase::BackAsAuxiliary = phase {
        assert_ne!(led, marked, "an auxiliary never leads");
    }
}

#[test]
fn nothing_is_lost_when_the_leader_dies_too_while_the_auxiliary_stands_in() {
    for seed in 0..4 {
        kill_the_leader(seed, Phase::Engaged);
        kill_the_leader(seed, Phase::Returning);
    }
}

#[test]
fn nothing_is_lost_when_the_leader_dies_too_during_or_after_a_new_split() {
    for seed in 0..2 {
        kill_the_leader(seed, Phase::Unmarked);
        kill_the_leader(seed, Phase::Split);
        kill_the_leader(seed, Phase::BackAsAuxiliary);
    }
}

#[test]
fn an_auxiliary_whose_disk_fills_takes_no_more_and_the_writer_is_told() {
    let mut cheap = cheap(3);
    let (leader, active, auxiliary) = (cheap.leader, cheap.active, cheap.auxiliary);
    cheap.load(10, 10_000, 5 * MS);
    let host = cheap.stage.nodes[auxiliary];
    // 2 MiB are the reserve.
    let disk = cheap.stage.world.disk_mut(host);
    disk.faults.capacity_bytes = disk.used_bytes() + (3 << 20) / 2;
    cheap.stage.pass(SECOND);
    // At rest it is nobody's concern.
    cheap.load(20, 20_000, 5 * MS);
    let acknowledged = cheap.caller.acknowledged();
    cheap.stage.cut_power(active);
    cheap.caller.say(&mut cheap.stage.world, 10_000);
    cheap
        .stage
        .wait("the writer to be told", |_| cheap.caller.is_over());
    assert!(
        cheap.caller.text().contains("error full"),
        "{}",
        cheap.caller.text()
    );
    assert_eq!(cheap.stage.look().cheap(auxiliary).held_bytes(), 0);
    cheap.stage.pass(60 * SECOND);
    let marked = cheap.stage.look().is_marked(leader, NodeId(3));
    assert!(marked, "it has no room for the log");
    assert!(cheap.stage.look().cheap(auxiliary).stopped.is_none());
    cheap.stage.restart(active);
    cheap.stage.pass(5 * SECOND);
    cheap.check_kept(acknowledged);
}
