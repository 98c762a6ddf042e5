//! Clients who ask a door for large replies, all at once, one after the other, or without ever reading them.

use std::time::Duration;

use door::Ahead;
use host::Bounds;
use resp::{Decoder, Value};

use crate::caller::Caller;
use crate::doors::Street;
use crate::patrons::request;
use crate::stage::{MS, SECOND};

/// A key of the first group, which the first node leads.
const KEY: &str = "{b}large";
const VALUE_BYTES: usize = 2 << 20;
/// Three of them have room.
const ANSWERS_BYTES: usize = 7 << 20;

/// A street where the key has its value. Its doors have the room that doors have.
fn street(seed: u64) -> Street {
    street_with(2 * seed, ANSWERS_BYTES, 1 << 20)
}

/// … and so much room for large answers, and for commands that wait for it. With an odd seed its doors have next to no room.
fn street_with(seed: u64, large_bytes: usize, aside_bytes: usize) -> Street {
    let bounds = Bounds {
        // In one half of the seeds its rows are fetched each time.
        kept_bytes_max: (8 << 20) * (seed / 2 % 2) as usize,
        answers_bytes_max: [1 << 20, large_bytes],
        aside_bytes_max: aside_bytes,
        ..Bounds::default()
    };
    let ahead = Ahead {
        from_bytes: 64 << 10,
        piece_bytes: 64 << 10,
    };
    let mut street = Street::with(seed, bounds, ahead);
    let setter = dial(&mut street, "setter");
    let value = "v".repeat(VALUE_BYTES);
    say(&mut street, &setter, &["SET", KEY, &value]);
    assert!(wait(&mut street, 10 * SECOND, |_| setter.heard() == b"+OK\r\n"));
    street
}

fn dial(street: &mut Street, name: &str) -> Caller {
    let address = street.place.doors[0].clone();
    Caller::dial(&mut street.stage.world, name, &address)
}

fn say(street: &mut Street, caller: &Caller, words: &[&str]) {
    let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    caller.send(&mut street.stage.world, &request(&words));
}

fn get(street: &mut Street, name: &str, times: usize) -> Caller {
    let caller = dial(street, name);
    (0..times).for_each(|_| say(street, &caller, &["GET", KEY]));
    caller
}

/// Looks each millisecond, and holds what is unread to its bound.
fn wait(street: &mut Street, within: Duration, reached: impl Fn(&Street) -> bool) -> bool {
    let until = street.stage.world.now() + within;
    while !reached(street) {
        if street.stage.world.now() > until {
            return false;
        }
        street.stage.pass(MS);
        let unread = street.figures[0].unread_bytes.get();
        assert!(unread <= ANSWERS_BYTES as u64 + 1_000, "{unread}");
    }
    true
}

fn has(caller: &Caller, values: usize) -> bool {
    let reply = VALUE_BYTES + format!("${VALUE_BYTES}\r\n").len() + 2;
    let heard = caller.heard();
    assert!(heard.len() <= values * reply, "{} bytes", heard.len());
    if heard.len() < values * reply {
        return false;
    }
    let mut rest = &heard[..];
    while let Some((value, length)) = Decoder::new(VALUE_BYTES).next(rest).expect("a reply") {
        assert!(value == Value::bulk("v".repeat(VALUE_BYTES)));
        rest = &rest[length..];
    }
    rest.is_empty()
}

/// Each of them has room in its turn, as others take theirs, and no timer has to pass for it.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn all_who_ask_at_once_for_more_than_a_node_holds_are_answered() {
    for seed in 0..4 {
        let mut street = street(seed);
        let begins = street.stage.world.now();
        let names = (0..8).map(|number| format!("reader{number}"));
        let readers: Vec<Caller> = names.map(|name| get(&mut street, &name, 1)).collect();
        let all = wait(&mut street, 10 * SECOND, |_| {
            readers.iter().all(|reader| has(reader, 1))
        });
        assert!(all, "seed {seed}");
        let took = street.stage.world.now() - begins;
        assert!(took < 100 * MS, "seed {seed}: {took:?}");
        assert_eq!(street.figures[0].clients_closed.get(), 0);
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn all_of_a_pipeline_of_large_replies_are_given() {
    for seed in 0..2 {
        let mut street = street(seed);
        let reader = get(&mut street, "reader", 8);
        assert!(
            wait(&mut street, 10 * SECOND, |_| has(&reader, 8)),
            "seed {seed}"
        );
        assert_eq!(street.figures[0].clients_closed.get(), 0);
    }
}

/// A client that does not read is closed once others wait for what it keeps, and these are answered, as are small replies meanwhile.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn who_asks_for_large_replies_and_reads_none_keeps_nobody_from_his() {
    for seed in 0..2 {
        let mut street = street(seed);
        let idle = get(&mut street, "idle", 8);
        // It has asked, and heard little.
        street.stage.pass(2 * MS);
        street.stage.world.pause(idle.host, 60 * SECOND);
        assert!(!wait(&mut street, 12 * SECOND, |_| false));
        let closed = |street: &Street| street.figures[0].clients_closed.get();
        assert_eq!(closed(&street), 0, "nobody else waits for what it keeps");
        let begins = street.stage.world.now();
        let readers: Vec<Caller> = (0..4)
            .map(|number| get(&mut street, &format!("reader{number}"), 1))
            .collect();
        street.stage.pass(100 * MS);
        let small = dial(&mut street, "small");
        say(&mut street, &small, &["STRLEN", KEY]);
        let length = format!(":{VALUE_BYTES}\r\n");
        assert!(wait(&mut street, SECOND, |_| small.heard() == length.as_bytes()));
        let some = |readers: &[Caller]| readers.iter().filter(|one| has(one, 1)).count();
        assert_eq!(some(&readers), 0, "seed {seed}");
        assert!(
            wait(&mut street, 10 * SECOND, |_| some(&readers) == 4),
            "seed {seed}"
        );
        let took = street.stage.world.now() - begins;
        assert!(took < 6 * SECOND, "{took:?}");
        assert_eq!(closed(&street), 1, "seed {seed}");
    }
}

/// A transaction whose reply has no room changes nothing, and not what it watches itself. It is done once there is room.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_transaction_that_waits_for_room_is_done_once_and_not_refused() {
    let other = "{b}other";
    for seed in 0..2 {
        let mut street = street(seed);
        let idle = get(&mut street, "idle", 3);
        street.stage.pass(2 * MS);
        street.stage.world.pause(idle.host, 60 * SECOND);
        street.stage.pass(SECOND);
        let hand = dial(&mut street, "hand");
        for words in [
            &["WATCH", other][..],
            &["MULTI"],
            &["INCR", other],
            &["GETDEL", KEY],
            &["EXEC"],
            &["GET", other],
            &["EXISTS", KEY],
        ] {
            say(&mut street, &hand, words);
        }
        let beside = dial(&mut street, "beside");
        say(&mut street, &beside, &["EXISTS", KEY, other]);
        assert!(wait(&mut street, SECOND, |_| beside.heard() == b":1\r\n"));
        let queued = "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n";
        street.stage.pass(10 * MS);
        assert_eq!(String::from_utf8(hand.heard()).as_deref(), Ok(queued));
        let value = "v".repeat(VALUE_BYTES);
        let done = format!("*2\r\n:1\r\n${VALUE_BYTES}\r\n{value}\r\n$1\r\n1\r\n:0\r\n");
        let all = wait(&mut street, 12 * SECOND, |_| {
            hand.heard() == [queued, &done].concat().into_bytes()
        });
        assert!(all, "seed {seed}");
    }
}

/// Others hold much, so that a client that reads later is not read after little. Once they have read it goes on, and has not to read for that.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_client_that_reads_later_goes_on_once_others_have_read() {
    for seed in 0..2 {
        let mut street = street_with(2 * seed, 33 << 20, 1 << 20);
        let others: Vec<Caller> = (0..6)
            .map(|number| get(&mut street, &format!("other{number}"), 1))
            .collect();
        // It is known then how large replies are: one is made at a time.
        let late = get(&mut street, "late", 1);
        street.stage.pass(SECOND);
        let door = street.doors[0];
        for other in &others {
            street.stage.world.cut(door, other.host);
            (0..7).for_each(|_| say(&mut street, other, &["GET", KEY]));
        }
        street.stage.world.cut(door, late.host);
        street.stage.pass(SECOND);
        (0..3).for_each(|_| say(&mut street, &late, &["GET", KEY]));
        say(&mut street, &late, &["SET", "{b}mark", "1"]);
        street.stage.pass(SECOND);
        let mut answers = Vec::new();
        for number in 0..2 {
            let witness = dial(&mut street, &format!("witness{number}"));
            say(&mut street, &witness, &["EXISTS", "{b}mark"]);
            street.stage.pass(100 * MS);
            answers.push(String::from_utf8(witness.heard()).expect("a number"));
            for other in &others {
                street.stage.world.heal(door, other.host);
            }
            street.stage.pass(2 * SECOND);
        }
        assert_eq!(answers, [":0\r\n", ":1\r\n"], "seed {seed}");
        assert!(others.iter().all(|other| has(other, 8)));
        assert_eq!(street.figures[0].clients_closed.get(), 0);
    }
}

/// A client that has begun a request is judged though nothing of it is received: it is on him to read before.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn who_begins_a_request_and_reads_nothing_keeps_nobody_from_his() {
    let mut street = street_with(1, ANSWERS_BYTES, 1 << 20);
    let idle = dial(&mut street, "idle");
    let get = request(&[b"GET".to_vec(), KEY.into()].into());
    let begun = b"*3\r\n$3\r\nSET\r\n$4\r\n{b}x\r\n$900\r\nabc";
    let all = [&get[..], begun].concat();
    street.stage.pass(100 * MS);
    street.stage.world.cut(street.doors[0], idle.host);
    idle.send(&mut street.stage.world, &all);
    street.stage.pass(SECOND);
    // Bytes come that were asked for before it had too much unread: from now on little is received.
    idle.send(&mut street.stage.world, &[b'd'; 600]);
    street.stage.pass(5 * SECOND);
    assert_eq!(street.figures[0].clients_closed.get(), 0);
    let other = dial(&mut street, "other");
    let set = [&b"SET"[..], b"{b}y", &[b'y'; 900]].map(<[u8]>::to_vec);
    let set = request(&set.into());
    other.send(&mut street.stage.world, &set[..500]);
    street.stage.pass(100 * MS);
    other.send(&mut street.stage.world, &set[500..]);
    assert!(wait(&mut street, 4 * SECOND, |_| other.heard() == b"+OK\r\n"));
    assert_eq!(street.figures[0].clients_closed.get(), 1);
}

/// Commands that wait for readers have all places of their group. Others' small ones go on, one after the other.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn small_commands_go_on_where_all_places_of_a_group_are_taken() {
    let mut street = street_with(1, ANSWERS_BYTES, 0);
    let door = street.doors[0];
    let idle = dial(&mut street, "idle");
    street.stage.pass(100 * MS);
    street.stage.world.cut(door, idle.host);
    (0..3).for_each(|_| say(&mut street, &idle, &["GET", KEY]));
    street.stage.pass(SECOND);
    let waiting: Vec<Caller> = (0..5)
        .map(|number| get(&mut street, &format!("waiting{number}"), 1))
        .collect();
    street.stage.pass(SECOND);
    let small = dial(&mut street, "small");
    // Nobody knows of a GET that its reply is short.
    (0..3).for_each(|_| say(&mut street, &small, &["GET", "{b}nothing"]));
    street.stage.pass(SECOND);
    assert_eq!(String::from_utf8(small.heard()), Ok("$-1\r\n".repeat(3)));
    assert!(waiting.iter().all(|one| one.heard().is_empty()));
    street.stage.world.heal(door, idle.host);
    let all = || waiting.iter().all(|one| has(one, 1));
    assert!(wait(&mut street, 10 * SECOND, |_| all()));
}
