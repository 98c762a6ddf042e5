//! A process that may open no more files for now: work that needs one waits, and nothing is lost.

use ops::Time;
use paxos::{Slot, StreamPosition};

use crate::kernel::Random;
use crate::kernel::script::{Truth, new_store, read, settle, stream};

#[test]
fn a_segment_that_cannot_be_opened_for_now_is_asked_for_again() {
    let (mut store, mut kernel) = new_store(5);
    let (mut truth, mut random) = (Truth::default(), Random(7));
    let mut now = 0;
    for round in 0..400 {
        if round % 5 == 0 {
            kernel.refuse_opens = 3;
        }
        if store.wants_roll() {
            store.roll(&truth.checkpoint(), truth.context());
        }
        truth.append(&mut store, &mut random);
        for _ in 0..8 {
            settle(&mut store, &mut kernel, Time::from_micros(now));
            now += 60_000;
            store.on_time(Time::from_micros(now));
        }
        truth.watch(&mut store);
        assert!(!store.has_failed());
        assert_eq!(truth.durable_tag, truth.tags.len() as u64, "round {round}");
        let before = truth.length.saturating_sub(10_000);
        store.trim(Slot(0), &|name| match name == stream(1) {
            true => StreamPosition(before),
            false => StreamPosition(u64::MAX),
        });
    }
    assert!(kernel.refused_opens > 20, "{}", kernel.refused_opens);
    assert!(kernel.reused > 5, "{} used files", kernel.reused);
    let mut at = truth.length.saturating_sub(10_000);
    while at < truth.length {
        at += read(&mut store, &mut kernel, stream(1), at).unwrap();
    }
}

#[test]
fn few_files_stay_open_when_nobody_reads() {
    let (mut store, mut kernel) = new_store(5);
    let (mut truth, mut random) = (Truth::default(), Random(3));
    for _ in 0..400 {
        if store.wants_roll() {
            store.roll(&truth.checkpoint(), truth.context());
        }
        truth.append(&mut store, &mut random);
        settle(&mut store, &mut kernel, Time::ZERO);
        truth.watch(&mut store);
    }
    let mut at = 0;
    while at < truth.length {
        at += read(&mut store, &mut kernel, stream(1), at).unwrap();
    }
    settle(&mut store, &mut kernel, Time::ZERO);
    // These are the file that is written, perhaps the next one, and two.
    assert!(kernel.open_files() <= 4, "{}", kernel.open_files());
}
