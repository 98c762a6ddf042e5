//! Moments at the doors of nodes: a leader that dies between a choice and its reply, one that was deposed and does not know, a clock that is
//! slower at the next leader, connections that end while their commands wait.

use std::time::Duration;

use door::Door;
use host::Group;
use resp::{Decoder, Value};

use crate::caller::Caller;
use crate::doors::{GROUPS, Street};
use crate::patrons::{Words, is_refusal, request};
use crate::stage::{MS, SECOND};

/// A key of the first group, which the first node leads.
const KEY: &str = "{b}k";
const GROUP: usize = 0;
/// One of the second group.
const OTHER: &str = "{c}k";

/// A client whose every word is written in the scenario.
pub struct Hand {
    caller: Caller,
    node: usize,
}

fn words(line: &str) -> Words {
    line.split(' ')
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

impl Hand {
    pub fn at(street: &mut Street, node: usize, name: &str) -> Hand {
        let address = street.place.doors[node].clone();
        let caller = Caller::dial(&mut street.stage.world, name, &address);
        Hand { caller, node }
    }

    fn say(&self, street: &mut Street, line: &str) {
        self.caller
            .send(&mut street.stage.world, &request(&words(line)));
    }

    fn heard(&self) -> Vec<Value> {
        let heard = self.caller.heard();
        let (mut rest, mut values) = (&heard[..], Vec::new());
        while let Ok(Some((value, length))) = Decoder::new(1 << 20).next(rest) {
            values.push(value);
            rest = &rest[length..];
        }
        values
    }

    /// Says this, and waits for the reply.
    pub fn ask(&self, street: &mut Street, line: &str) -> Value {
        let before = self.heard().len();
        self.say(street, line);
        for _ in 0..4_000 {
            if let Some(value) = self.heard().get(before) {
                return value.clone();
            }
            assert!(
                !self.caller.is_over(),
                "node {} hangs up at {line}",
                self.node + 1
            );
            street.pass(2 * MS);
        }
        panic!("node {} says nothing to {line}", self.node + 1);
    }
}

/// Asks whichever node leads, until it is done.
fn done(street: &mut Street, name: &str, key_group: usize, line: &str) -> Value {
    for attempt in 0..200 {
        if let Some(leader) = street.leader(key_group)
            && street.stage.world.is_running(street.doors[leader])
        {
            let hand = Hand::at(street, leader, &format!("{name}{attempt}"));
            let value = hand.ask(street, line);
            if !matches!(&value, Value::Error(why) if is_refusal(why)) {
                return value;
            }
        }
        street.pass(50 * MS);
    }
    panic!("nobody does {line}");
}

fn group(street: &Street, node: usize, group: usize) -> Option<&Group> {
    let door = street.stage.world.machine::<Door>(street.doors[node])?;
    door.host().groups().find(|one| one.name() == GROUPS[group])
}

fn leads(street: &Street, node: usize) -> bool {
    group(street, node, GROUP).is_some_and(Group::is_leading)
}

fn wait(street: &mut Street, what: &str, reached: impl Fn(&Street) -> bool) {
    for _ in 0..20_000 {
        if reached(street) {
            return;
        }
        street.pass(Duration::from_micros(500));
    }
    panic!("waited in vain for {what}");
}

fn number(value: i64) -> Value {
    Value::bulk(value.to_string())
}

/// What is chosen is done, though the leader that could have said so is gone: the connection ends without a word, and the next leader shows it.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_was_chosen_and_not_answered_is_there() {
    let mut unanswered = 0;
    for seed in 0..6 {
        let mut street = Street::three(seed);
        let hand = Hand::at(&mut street, 0, "hand");
        assert_eq!(
            hand.ask(&mut street, &format!("INCR {KEY}")),
            Value::Integer(1)
        );
        let (_, _, witness) = street.place.groups[GROUP].clone();
        let before = witness.frames();
        hand.say(&mut street, &format!("INCR {KEY}"));
        while witness.frames() == before {
            street.stage.pass(Duration::from_micros(20));
        }
        street.crash(0);
        wait(&mut street, "the line to end", |_| hand.caller.is_over());
        // Now and then the answer is faster than the crash.
        unanswered += u32::from(hand.heard().len() == 1);
        let found = done(&mut street, "next", GROUP, &format!("GET {KEY}"));
        assert_eq!(found, number(2), "seed {seed}");
    }
    assert!(unanswered >= 3, "{unanswered} of 6");
}

/// A client of a session sends again what was chosen and not answered, at the next leader, after all nodes died, and once more for good measure: it is done once,
/// and hears each time what it came to.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_a_session_sends_again_is_done_once() {
    for seed in 0..4 {
        let mut street = Street::three(seed);
        let hand = Hand::at(&mut street, 0, "hand");
        let Value::Integer(session) = hand.ask(&mut street, &format!("ONCE.OPEN {KEY}")) else {
            panic!("seed {seed}: no session")
        };
        let add = |sequence: u64| format!("ONCE {KEY} {session} {sequence} INCRBY {KEY} 5");
        assert_eq!(hand.ask(&mut street, &add(1)), Value::Integer(5));
        let (_, _, witness) = street.place.groups[GROUP].clone();
        let before = witness.frames();
        hand.say(&mut street, &add(2));
        while witness.frames() == before {
            street.stage.pass(Duration::from_micros(20));
        }
        street.crash(0);
        for attempt in 0..2 {
            let again = done(&mut street, &format!("again{attempt}"), GROUP, &add(2));
            assert_eq!(again, Value::Integer(10), "seed {seed}");
        }
        for node in [1, 2] {
            street.crash(node);
        }
        for node in 0..3 {
            street.stage.restart(node);
        }
        let again = done(&mut street, "later", GROUP, &add(2));
        assert_eq!(again, Value::Integer(10), "seed {seed}");
        let next = done(&mut street, "next", GROUP, &add(3));
        assert_eq!(next, Value::Integer(15), "seed {seed}");
        let late = done(&mut street, "late", GROUP, &add(2));
        assert!(
            matches!(&late, Value::Error(why) if why.starts_with("SUPERSEDED ")),
            "seed {seed}: {late:?}"
        );
    }
}

/// A row of one state of keys is another on its disk, and no checksum says so. The replicas' marks do.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_state_of_keys_that_differs_is_told_of() {
    let mut street = Street::three(3);
    let days = |street: &mut Street, name: &str| {
        let hand = Hand::at(street, 0, name);
        for _ in 0..60 {
            hand.ask(street, &format!("INCR {KEY}"));
            street.pass(50 * MS);
        }
        street.pass(3 * SECOND);
    };
    days(&mut street, "before");
    let (differ, compared) = street.comparison(GROUP);
    assert!(differ.is_empty() && compared > 2, "{differ:?}, {compared}");
    street.crash(1);
    street.alter(GROUP, 1);
    let (_, _, witness) = street.place.groups[GROUP].clone();
    witness.expect_findings();
    street.stage.restart(1);
    days(&mut street, "after");
    let victim = street.stage.look().node(1).map(|node| node.id());
    assert_eq!(street.comparison(GROUP).0, [victim.expect("it runs")]);
    assert!(witness.take_findings().contains("zz"));
}

/// A leader that another has followed, and that does not know, shows nothing: a read in flight is answered by who leads.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_deposed_leader_answers_no_read() {
    for seed in 0..4 {
        let mut street = Street::three(seed);
        let hand = Hand::at(&mut street, 0, "hand");
        assert_eq!(hand.ask(&mut street, &format!("SET {KEY} 1")), Value::OK);
        street.stage.isolate(0);
        wait(&mut street, "another leader", |street| {
            leads(street, 1) || leads(street, 2)
        });
        // What is asked while two believe to lead.
        hand.say(&mut street, &format!("GET {KEY}"));
        let next = if leads(&street, 1) { 1 } else { 2 };
        let other = Hand::at(&mut street, next, "other");
        assert_eq!(other.ask(&mut street, &format!("SET {KEY} 2")), Value::OK);
        hand.say(&mut street, &format!("GET {KEY}"));
        street.pass(SECOND);
        street.stage.world.heal_all();
        wait(&mut street, "both replies", |_| {
            hand.heard().len() == 3 || hand.caller.is_over()
        });
        for value in &hand.heard()[1..] {
            let is_refused = matches!(value, Value::Error(why) if is_refusal(why));
            assert!(is_refused || *value == number(2), "seed {seed}: {value:?}");
        }
    }
}

/// A line asks for a read and for a write behind it, and its leader is deposed before it can answer. Where the write is chosen all the same, the
/// read is what it was before: it is not done again behind the write, nor sent elsewhere to be.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_read_is_not_done_behind_a_write_that_its_line_asked_for_later() {
    // The order of what arrives when the network heals shows it in one of five.
    let chosen = (0..32)
        .filter(|seed| is_chosen_behind_a_read(*seed))
        .count();
    assert!(chosen > 0, "no write is chosen");
}

/// Whether the write is chosen that was asked for behind a read.
fn is_chosen_behind_a_read(seed: u64) -> bool {
    let mut street = Street::three(seed);
    let hand = Hand::at(&mut street, 0, "hand");
    assert_eq!(hand.ask(&mut street, &format!("SET {KEY} 1")), Value::OK);
    // The others hear the leader, and it hears nothing of them.
    street.stage.cut(1, 0);
    street.stage.cut(2, 0);
    let lines = [format!("GET {KEY}"), format!("SET {KEY} 2")];
    let lines = lines.map(|line| request(&words(&line))).concat();
    hand.caller.send(&mut street.stage.world, &lines);
    street.pass(20 * MS);
    // Their words on the way are lost with them, and what they took is on their disks.
    for other in [1, 2] {
        street.crash(other);
        street.stage.restart(other);
    }
    street.stage.isolate(0);
    wait(&mut street, "another leader", |street| {
        leads(street, 1) || leads(street, 2)
    });
    street.stage.world.heal_all();
    wait(&mut street, "both replies", |_| {
        hand.heard().len() == 3 || hand.caller.is_over()
    });
    let heard = hand.heard();
    let chosen = heard.get(2) == Some(&Value::OK);
    if chosen {
        assert_eq!(heard[1], number(1), "seed {seed}");
    }
    chosen
}

/// What others did while they led spoils a transaction that watched before.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_watch_does_not_outlive_its_leader() {
    for seed in 0..2 {
        let mut street = Street::three(seed);
        done(&mut street, "first", GROUP, &format!("SET {KEY} 1"));
        let hand = Hand::at(&mut street, 0, "hand");
        assert_eq!(hand.ask(&mut street, &format!("WATCH {KEY}")), Value::OK);
        assert_eq!(hand.ask(&mut street, &format!("GET {KEY}")), number(1));
        street.lead(GROUP, 1);
        done(&mut street, "second", GROUP, &format!("SET {KEY} 2"));
        street.lead(GROUP, 0);
        wait(&mut street, "the first to lead", |street| leads(street, 0));
        hand.ask(&mut street, "MULTI");
        hand.ask(&mut street, &format!("SET {KEY} 3"));
        assert_eq!(
            hand.ask(&mut street, "EXEC"),
            Value::NullArray,
            "seed {seed}"
        );
        let found = done(&mut street, "third", GROUP, &format!("GET {KEY}"));
        assert_eq!(found, number(2));
    }
}

/// Keys of a group are watched where it is led, and spoil no transaction of another group: it is refused.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_transaction_stands_on_no_watch_of_another_group() {
    let mut street = Street::three(3);
    street.lead(1, 0);
    wait(&mut street, "the first to lead two", |street| {
        group(street, 0, 1).is_some_and(Group::is_leading)
    });
    let hand = Hand::at(&mut street, 0, "hand");
    assert_eq!(hand.ask(&mut street, &format!("WATCH {KEY}")), Value::OK);
    hand.ask(&mut street, "MULTI");
    hand.ask(&mut street, &format!("SET {OTHER} 1"));
    let refused = hand.ask(&mut street, "EXEC");
    assert!(
        matches!(&refused, Value::Error(why) if why.starts_with("CROSSSLOT")),
        "{refused:?}"
    );
    assert_eq!(hand.ask(&mut street, &format!("GET {OTHER}")), Value::Null);
}

/// A key that is watched and expires has changed, though nobody took it away yet.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_watched_key_that_expires_has_changed() {
    let mut street = Street::three(4);
    let hand = Hand::at(&mut street, 0, "hand");
    for round in 0..10 {
        assert_eq!(
            hand.ask(&mut street, &format!("SET {KEY} 1 PX 400")),
            Value::OK
        );
        assert_eq!(hand.ask(&mut street, &format!("WATCH {KEY}")), Value::OK);
        hand.ask(&mut street, "MULTI");
        hand.ask(&mut street, &format!("SET {KEY} {round}"));
        street.pass(450 * MS);
        assert_eq!(
            hand.ask(&mut street, "EXEC"),
            Value::NullArray,
            "round {round}"
        );
        // One that was not there is not missed.
        assert_eq!(hand.ask(&mut street, &format!("WATCH {KEY}")), Value::OK);
        hand.ask(&mut street, "MULTI");
        hand.ask(&mut street, &format!("SET {KEY} {round}"));
        assert_eq!(
            hand.ask(&mut street, "EXEC"),
            Value::Array(vec![Value::OK]),
            "round {round}"
        );
    }
}

/// What a reader took for gone is not shown again by a leader with a slower clock.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_expired_stays_gone_though_the_next_clock_is_slower() {
    let mut gone = 0;
    for seed in 0..4 {
        let mut street = Street::three(seed);
        let hand = Hand::at(&mut street, 0, "hand");
        for other in [1, 2] {
            let node = street.stage.nodes[other];
            street.stage.world.set_wall_clock(node, -20_000);
        }
        street.pass(2 * SECOND);
        // Between two looks for expired keys: a reader is the first to take it for gone.
        let deadline = 330 + 20 * seed;
        assert_eq!(
            hand.ask(&mut street, &format!("SET {KEY} 1 PX {deadline}")),
            Value::OK
        );
        for _ in 0..1_000 {
            if hand.ask(&mut street, &format!("GET {KEY}")) == Value::Null {
                gone += 1;
                break;
            }
        }
        street.crash(0);
        let found = done(&mut street, "next", GROUP, &format!("GET {KEY}"));
        assert_eq!(found, Value::Null, "seed {seed}");
    }
    assert_eq!(gone, 4);
}

/// The commands of a pipeline do not wait for their rows one after the other. ‡ What was fetched for one of them early hides nothing that those before
/// it wrote.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_rows_of_a_pipeline_are_fetched_together() {
    let mut street = Street::three(0);
    for key in 0..20 {
        let line = format!("SET {KEY}{key} {key}");
        assert_eq!(
            done(&mut street, &format!("set{key}-"), GROUP, &line),
            Value::OK
        );
    }
    street.crash(0);
    wait(&mut street, "another leader", |street| {
        leads(street, 1) || leads(street, 2)
    });
    let next = if leads(&street, 1) { 1 } else { 2 };
    let fetches = |street: &Street| group(street, next, GROUP).map_or(0, Group::fetches);
    let before = fetches(&street);
    let hand = Hand::at(&mut street, next, "hand");
    let lines = (0..20).flat_map(|key| [format!("INCR {KEY}{key}"), format!("GET {KEY}{key}")]);
    let pipeline: Vec<u8> = lines.flat_map(|line| request(&words(&line))).collect();
    hand.caller.send(&mut street.stage.world, &pipeline);
    wait(&mut street, "all replies", |_| hand.heard().len() == 40);
    let expected = (0..20).flat_map(|key| [Value::Integer(key + 1), number(key + 1)]);
    assert_eq!(hand.heard(), expected.collect::<Vec<Value>>());
    let fetched = fetches(&street) - before;
    assert!((1..=6).contains(&fetched), "{fetched} fetches");
}

/// Many keys whose deadline has passed are taken away one look after the other, and not some of them every 100 ms.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn many_keys_expire_as_fast_as_they_are_looked_for() {
    let mut street = Street::three(0);
    let hand = Hand::at(&mut street, 0, "hand");
    let lines = (0..1_000).map(|key| request(&words(&format!("SET {KEY}{key} 1 PX 3000"))));
    let pipeline = lines.collect::<Vec<_>>().concat();
    hand.caller.send(&mut street.stage.world, &pipeline);
    wait(&mut street, "all replies", |_| hand.heard().len() == 1_000);
    assert_eq!(hand.ask(&mut street, "DBSIZE"), Value::Integer(1_000));
    street.pass(3_400 * MS);
    // Six hundred would be here if each look of 100 ms took a hundred.
    assert_eq!(hand.ask(&mut street, "DBSIZE"), Value::Integer(0));
}

/// Rows that a transaction and a WATCH lack are fetched together, however many keys they have.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_rows_of_a_transaction_are_fetched_together() {
    let mut street = Street::three(0);
    street.crash(0);
    street.stage.restart(0);
    street.lead(GROUP, 0);
    let fetches = |street: &Street| group(street, 0, GROUP).map_or(0, Group::fetches);
    let before = fetches(&street);
    let hand = Hand::at(&mut street, 0, "hand");
    let keys: Vec<String> = (0..300).map(|key| format!("{KEY}{key}")).collect();
    assert_eq!(
        hand.ask(&mut street, &format!("WATCH {}", keys.join(" "))),
        Value::OK
    );
    hand.ask(&mut street, "MULTI");
    for key in &keys {
        hand.ask(&mut street, &format!("INCR {key}"));
    }
    let counts = Value::Array(vec![Value::Integer(1); keys.len()]);
    assert_eq!(hand.ask(&mut street, "EXEC"), counts);
    let fetched = fetches(&street) - before;
    // One of each key would be hundreds.
    assert!((1..=20).contains(&fetched), "{fetched} fetches");
}

/// A command that waits for a leader is dropped with its connection: its client asks elsewhere.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_held_command_is_dropped_with_its_connection() {
    let mut led = 0;
    for seed in 0..8 {
        let mut street = Street::three(seed);
        street.crash(0);
        let nobody_is_known = |street: &Street| {
            let is_none =
                |node| group(street, node, GROUP).is_some_and(|group| group.leader().is_none());
            (1..3).all(is_none)
        };
        wait(&mut street, "nobody to be known", nobody_is_known);
        let hands = [1, 2].map(|node| Hand::at(&mut street, node, &format!("hand{node}")));
        for hand in &hands {
            hand.say(&mut street, &format!("INCR {KEY}"));
        }
        street.pass(2 * MS);
        // A node knows who is to lead a moment before that one does.
        let is_held = nobody_is_known(&street) && !leads(&street, 1) && !leads(&street, 2);
        for hand in &hands {
            assert!(hand.heard().is_empty() || !is_held);
            hand.caller.half_close(&mut street.stage.world);
        }
        street.pass(5 * MS);
        let is_held = is_held && !leads(&street, 1) && !leads(&street, 2);
        let found = done(&mut street, "next", GROUP, &format!("GET {KEY}"));
        if is_held {
            led += 1;
            assert_eq!(found, Value::Null, "seed {seed}");
        }
    }
    assert!(led > 3, "{led} were held");
}

/// A leader hears nothing more, and what it says arrives: what it executed is chosen by another. It does not know, and says nothing.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_nobody_here_knows_ends_the_line_without_a_word() {
    let mut done_unheard = 0;
    for seed in 0..6 {
        let mut street = Street::three(seed);
        let hand = Hand::at(&mut street, 0, "hand");
        assert_eq!(hand.ask(&mut street, &format!("SET {KEY} 1")), Value::OK);
        for other in 1..3 {
            street.stage.cut(other, 0);
        }
        hand.say(&mut street, &format!("INCR {KEY}"));
        wait(&mut street, "a reply, or none", |_| {
            hand.heard().len() == 2 || hand.caller.is_over()
        });
        let found = done_elsewhere(&mut street);
        let is_done = found == number(2);
        done_unheard += u32::from(is_done && hand.caller.is_over());
        match hand.heard().get(1) {
            None => {}
            Some(Value::Error(why)) if is_refusal(why) => assert!(!is_done, "seed {seed}: {why}"),
            Some(value) => assert!(
                is_done && *value == Value::Integer(2),
                "seed {seed}: {value:?}"
            ),
        }
    }
    assert!(done_unheard > 2, "{done_unheard} were done unheard");
}

/// The value of the key, by the others.
fn done_elsewhere(street: &mut Street) -> Value {
    wait(street, "another leader", |street| {
        leads(street, 1) || leads(street, 2)
    });
    let next = if leads(street, 1) { 1 } else { 2 };
    Hand::at(street, next, "elsewhere").ask(street, &format!("GET {KEY}"))
}

/// A command about all groups is answered with what all of them say.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_command_of_all_groups_is_answered_by_all_of_them() {
    let mut street = Street::three(5);
    for group in 1..3 {
        street.lead(group, 0);
    }
    wait(&mut street, "the first to lead all", |street| {
        (0..3).all(|one| group(street, 0, one).is_some_and(Group::is_leading))
    });
    let hand = Hand::at(&mut street, 0, "hand");
    for tag in ["b", "c", "a"] {
        assert_eq!(
            hand.ask(&mut street, &format!("SET {{{tag}}}k 1")),
            Value::OK
        );
    }
    assert_eq!(hand.ask(&mut street, "DBSIZE"), Value::Integer(3));
    assert!(matches!(
        hand.ask(&mut street, "FLUSHALL"),
        Value::Simple(_)
    ));
    assert_eq!(hand.ask(&mut street, "DBSIZE"), Value::Integer(0));
    // In a pipeline, too.
    for line in [
        "SET {b}k 1",
        "SET {c}k 1",
        "FLUSHALL",
        "SET {a}k 1",
        "DBSIZE",
    ] {
        hand.say(&mut street, line);
    }
    wait(&mut street, "all replies", |_| hand.heard().len() == 11);
    assert_eq!(hand.heard().last(), Some(&Value::Integer(1)));
}

/// WATCH waits for a leader as commands do.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn who_watches_waits_for_a_leader() {
    let mut street = Street::three(6);
    street.crash(0);
    wait(&mut street, "nobody to be known", |street| {
        (1..3).all(|node| group(street, node, GROUP).is_some_and(|group| group.leader().is_none()))
    });
    let hands = [1, 2].map(|node| Hand::at(&mut street, node, &format!("hand{node}")));
    for hand in &hands {
        hand.say(&mut street, &format!("WATCH {KEY}"));
    }
    wait(&mut street, "a reply of each", |_| {
        hands.iter().all(|hand| hand.heard().len() == 1)
    });
    let replies: Vec<Value> = hands.iter().flat_map(Hand::heard).collect();
    let is_moved = |value: &Value| matches!(value, Value::Error(why) if why.starts_with("MOVED "));
    assert!(
        replies.contains(&Value::OK) && replies.iter().any(is_moved),
        "{replies:?}"
    );
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_that_is_cut_off_takes_no_move_back() {
    const CANCEL: &str = "CLUSTER CANCELSLOTMIGRATIONS";
    let mut street = Street::three(5);
    let hand = Hand::at(&mut street, 2, "operator");
    assert_eq!(hand.ask(&mut street, CANCEL), Value::OK);
    street.stage.isolate(2);
    // Moves may have begun since, of which this node has not heard.
    match hand.ask(&mut street, CANCEL) {
        Value::Error(why) => assert!(why.contains("nothing was changed"), "{why}"),
        other => panic!("a node that hears nobody says {other:?}"),
    }
    street.stage.world.heal_all();
    assert_eq!(hand.ask(&mut street, CANCEL), Value::OK);
}

/// The reserve is 2 MiB.
fn leave_room(street: &mut Street, bytes: u64) {
    for index in 0..2 {
        let disk = street.stage.world.disk_mut(street.stage.nodes[index]);
        disk.faults.capacity_bytes = disk.used_bytes() + bytes;
    }
    street.pass(3 * SECOND);
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn full_disks_take_what_frees_room_of_half_of_their_reserve() {
    let mut street = Street::three(6);
    for key in ["{b}1", "{b}2", "{b}3"] {
        let set = format!("SET {key} value");
        assert_eq!(done(&mut street, key, GROUP, &set), Value::OK);
    }
    let ask = |street: &mut Street, name: &str, line: &str| {
        let leader = street.leader(GROUP).expect("it is led");
        Hand::at(street, leader, name).ask(street, line)
    };
    let is_full = |value: &Value| matches!(value, Value::Error(why) if why.contains("reserve"));
    // With two of three full nobody can do without them.
    leave_room(&mut street, 1_700_000);
    let told = ask(&mut street, "writes", "SET {b}4 value");
    assert!(is_full(&told), "{told:?}");
    let told = ask(&mut street, "frees", "DEL {b}1");
    assert_eq!(told, Value::Integer(1), "what frees room is done");
    leave_room(&mut street, 700_000);
    let told = ask(&mut street, "frees too late", "DEL {b}2");
    assert!(is_full(&told), "{told:?}");
    leave_room(&mut street, 1 << 40);
    for (name, line) in [("frees again", "DEL {b}2"), ("reads", "EXISTS {b}3")] {
        assert_eq!(ask(&mut street, name, line), Value::Integer(1));
    }
}
