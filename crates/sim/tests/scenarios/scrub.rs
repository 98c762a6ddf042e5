//! Rot that nobody has read yet, and replicas that differ: the scrubber finds both.

use std::path::Path;
use std::time::Duration;

use formats::record::RecordHeader;
use formats::{RECORD_HEADER, digest};
use ops::BLOCK;

use crate::caller::Caller;
use crate::stage::{LOG, MS, SECOND, Stage};

const BYTES: u64 = 600_000;

/// Three nodes with several sealed segments, of which nobody has anything in memory any more.
fn three(seed: u64) -> (Stage, Caller) {
    let mut stage = Stage::three(seed);
    let caller = fill(&mut stage, BYTES);
    (stage, caller)
}

fn fill(stage: &mut Stage, bytes: u64) -> Caller {
    let leader = stage.leader();
    let mut caller = stage.open(leader, &format!("append {LOG}"));
    for _ in 0..bytes / 20_000 {
        stage.say_and_wait(&mut caller, 20_000);
    }
    stage.wait_whole(3);
    stage.pass(3 * SECOND);
    caller
}

impl Stage {
    /// One bit of these bytes, where they stand on a node's disk.
    fn rot(&mut self, index: usize, bytes: &[u8]) {
        let (path, at) = self.place_of(index, bytes).expect("it holds them");
        assert!(self.world.corrupt(self.nodes[index], path, at + 3));
        assert!(
            self.place_of(index, bytes).is_none(),
            "they stood there once"
        );
    }

    /// The answer to `scrub`.
    fn scrub(&mut self, index: usize, keys: &str) -> String {
        let space = if keys.is_empty() { "" } else { " " };
        let caller = self.call(index, &format!("scrub {LOG}{space}{keys}"));
        self.wait("an answer", |_| caller.is_over());
        caller.text()
    }

    /// Until the leader has led so many passes to their end, it says what the last one came to.
    fn wait_scrubbed(&mut self, passes: u64) -> String {
        let leader = self.leader();
        self.wait("the scrub to end", |look| {
            look.counts(leader)
                .is_some_and(|counts| counts.scrub_passes >= passes)
        });
        let said = self.scrub(leader, "");
        let (_, last) = said.split_once("\"last\":").expect("there is a last one");
        last.to_owned()
    }

    fn check_holds(&mut self, index: usize, caller: &Caller) {
        let reader = self.call(index, &format!("read {LOG} stale=1"));
        self.wait("the end of the read", |_| reader.is_over());
        assert!(
            reader.heard() == caller.content(0..BYTES),
            "node {index} gives other bytes"
        );
    }
}

fn says(report: &str, key: &str, value: u64) -> bool {
    report.contains(&format!("\"{key}\":{value},"))
}

#[test]
fn rot_that_nobody_has_read_is_found_by_a_scrub_and_repaired() {
    for seed in 0..4 {
        let (mut stage, caller) = three(seed);
        let (leader, others) = stage.roles();
        let victim = [leader, others[0]][seed as usize % 2];
        // In two records, both in segments that are sealed.
        let pieces = [50_000..50_032, 250_000..250_032].map(|range| caller.content(range));
        for bytes in &pieces {
            stage.rot(victim, bytes);
        }
        // Somebody reads at that node all the while: what it gives is right as far as it goes.
        let reader = stage.call(victim, &format!("read {LOG} stale=1 from=200000"));
        let begun = stage.scrub(leader, "start=1");
        assert!(begun.contains("\"asked\":true"), "{begun}");
        let report = stage.wait_scrubbed(1);
        assert!(says(&report, "damaged", 1), "{report}");
        assert!(says(&report, "repaired", 1), "{report}");
        assert!(says(&report, "different", 0), "{report}");
        assert!(says(&report, "unchecked_bytes", 0), "{report}");
        assert!(says(&report, "bytes", BYTES), "{report}");
        assert!(says(&report, "compared_bytes", BYTES), "{report}");
        stage.wait("the repair to be counted", |look| {
            let counts = look.counts(victim).unwrap_or_default();
            counts.scrub_repaired == counts.scrub_damaged
        });
        let counts = stage.look().counts(victim).expect("it runs");
        // The reader may have met one of them before the scrub did.
        assert!((1..=2).contains(&counts.scrub_damaged), "{counts:?}");
        for bytes in &pieces {
            assert!(stage.place_of(victim, bytes).is_some(), "not written again");
        }
        stage.wait("the end of the read", |_| reader.is_over());
        let heard = reader.heard();
        let right = caller.content(200_000..BYTES);
        assert!(right.starts_with(&heard) || heard.starts_with(b"error "));
        for index in 0..3 {
            assert_eq!(stage.look().missing_bytes(index), 0);
            stage.check_holds(index, &caller);
        }
        // The next pass finds nothing.
        stage.scrub(leader, "start=1");
        let report = stage.wait_scrubbed(2);
        assert!(says(&report, "damaged", 0), "{report}");
        assert!(says(&report, "compared_bytes", BYTES), "{report}");
    }
}

#[test]
fn scrubs_run_by_themselves_and_no_faster_than_they_may() {
    let limits = replica::Limits {
        scrub_bytes_per_second: 1_000_000,
        // The first comes after a minute.
        scrub_interval: 24 * 60 * SECOND,
        ..sim::workload::small_limits()
    };
    let mut stage = Stage::with_limits(3, 3, limits);
    stage.add_node();
    stage.add_node();
    stage.wait_whole(3);
    let bytes = 2_500_000;
    let caller = fill(&mut stage, bytes);
    let (leader, others) = stage.roles();
    let before = stage.look().counts(leader).expect("it runs");
    assert_eq!((before.scrub_passes, before.scrub_bytes), (0, 0));
    stage.rot(others[1], &caller.content(300_000..300_032));
    stage.wait("a pass to begin", |look| {
        look.counts(leader).expect("it runs").scrub_bytes > 0
    });
    let begun = stage.world.now();
    stage.wait("it to end", |look| {
        look.counts(leader).expect("it runs").scrub_passes == 1
    });
    let took = stage.world.now() - begun;
    let read = stage.look().counts(leader).expect("it runs").scrub_bytes;
    assert_eq!(read, bytes);
    // Each MiB is read at once and then paid for; the first was read by then.
    let least = bytes - 2 * (1 << 20);
    assert!(
        took.as_micros() >= u128::from(least),
        "{took:?} for {read} bytes"
    );
    let counts = stage.look().counts(others[1]).expect("it runs");
    assert_eq!((counts.scrub_damaged, counts.scrub_repaired), (1, 1));
    let reader = stage.call(others[1], &format!("read {LOG} stale=1"));
    stage.wait("the end of the read", |_| reader.is_over());
    assert!(reader.heard() == caller.content(0..bytes));
}

/// Puts other content into the record that holds these bytes, with checksums that are right: what no
/// disk does, and a mistake in a program might.
fn forge(stage: &mut Stage, index: usize, bytes: &[u8]) -> Vec<u8> {
    let (path, at) = stage.place_of(index, bytes).expect("it holds them");
    let host = stage.nodes[index];
    let contents = stage.world.disk(host).contents(&path).expect("it is there");
    let blocks = (0..=at / BLOCK as u64)
        .rev()
        .map(|block| block as usize * BLOCK);
    let found = blocks.filter_map(|start| {
        let (header, _, salt) = RecordHeader::decode(&contents[start..], None).ok()?;
        Some((start, header, salt))
    });
    let (start, header, salt) = found.into_iter().next().expect("a record holds them");
    let mut record = contents[start..start + header.total_length()].to_vec();
    record[at as usize - start] ^= 0x20;
    let payload = &record[RECORD_HEADER..RECORD_HEADER + header.payload_length as usize];
    let header = RecordHeader {
        digest: digest(payload),
        ..header
    };
    header.encode(salt, &mut record);
    let path: &Path = &path;
    assert!(stage.world.overwrite(host, path, start as u64, &record));
    record
}

#[test]
fn different_bytes_with_right_checksums_are_told_and_left_as_they_are() {
    let (mut stage, caller) = three(5);
    let (leader, others) = stage.roles();
    let forged = forge(&mut stage, others[0], &caller.content(100_000..100_032));
    stage.scrub(leader, "start=1");
    let report = stage.wait_scrubbed(1);
    assert!(says(&report, "different", 1), "{report}");
    assert!(says(&report, "damaged", 0), "{report}");
    let said = stage.scrub(leader, "");
    let (_, differences) = said.split_once("\"differences\":[{").expect("it is named");
    for node in 1..=3 {
        assert!(differences.contains(&format!("\"{node}\":\"")), "{said}");
    }
    stage.pass(SECOND); // warnings are looked for a few times a second
    let status = stage.call(leader, "status");
    stage.wait("an answer", |_| status.is_over());
    assert!(
        status.text().contains("nodes hold different bytes of main")
            && status.text().contains("replicas-differ"),
        "{}",
        status.text()
    );
    stage.pass(10 * SECOND);
    assert!(
        stage.place_of(others[0], &forged).is_some(),
        "nobody knows that it was wrong"
    );
    // It is told by every pass, until it is so no more.
    stage.scrub(leader, "start=1");
    assert!(says(&stage.wait_scrubbed(2), "different", 1));
}

#[test]
fn a_scrub_goes_on_without_a_node_that_is_away_and_says_what_it_compared() {
    let (mut stage, caller) = three(6);
    let (leader, others) = stage.roles();
    stage.crash(others[0]);
    stage.pass(2 * SECOND);
    stage.rot(leader, &caller.content(400_000..400_032));
    stage.scrub(leader, "start=1");
    let report = stage.wait_scrubbed(1);
    assert!(
        says(&report, "damaged", 1) && says(&report, "repaired", 1),
        "{report}"
    );
    assert!(says(&report, "compared_bytes", BYTES), "{report}");
    // With nobody to compare with, and nobody to repair from.
    stage.crash(others[1]);
    stage.pass(300 * MS);
    let said = stage.scrub(leader, "start=1");
    assert!(
        said.starts_with("ok ") || said.starts_with("error "),
        "{said}"
    );
    stage.restart(others[0]);
    stage.restart(others[1]);
    stage.wait_whole(3);
    let leader = stage.leader();
    let before = stage.look().counts(leader).expect("it runs").scrub_passes;
    stage.scrub(leader, "start=1");
    let report = stage.wait_scrubbed(before + 1);
    assert!(says(&report, "unchecked_bytes", 0), "{report}");
    for index in 0..3 {
        stage.check_holds(index, &caller);
    }
}

#[test]
fn who_does_not_lead_begins_no_scrub() {
    let (mut stage, _) = three(7);
    let (_, others) = stage.roles();
    let said = stage.scrub(others[0], "start=1");
    assert!(said.starts_with("error not-leader"), "{said}");
    let said = stage.scrub(others[0], "");
    assert!(said.contains("\"leads\":false"), "{said}");
}

/// A header says all of an acceptance but its bytes. So a replica that lost some bytes knows what it
/// accepted, and votes; and no two replicas wait for each other to learn what both still know.
#[test]
fn bytes_that_rot_on_several_nodes_keep_no_log_from_its_next_leader() {
    for seed in 0..12 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let mut caller = stage.open(leader, &format!("append {LOG}"));
        for _ in 0..3 {
            stage.say_and_wait(&mut caller, 5_000);
            stage.pass(10 * MS);
        }
        stage.wait_whole(3);
        // With and without a moment of rest, in which it is written down what is chosen.
        stage.pass(if seed % 2 == 0 {
            Duration::ZERO
        } else {
            3 * SECOND
        });
        let rotten = 1 + (seed as usize / 2) % 3;
        for index in 0..rotten {
            let from = 5_000 * index as u64 + 1_000;
            stage.rot(index, &caller.content(from..from + 32));
        }
        for index in 0..3 {
            stage.crash(index);
        }
        // One of those that lost nothing stays away, if the others have all bytes.
        let back = if rotten == 1 { 2 } else { 3 };
        for index in 0..back {
            stage.restart(index);
        }
        let expected = caller.content(0..caller.said);
        assert!(stage.read_all() == expected, "seed {seed}");
        stage.wait_whole(back);
    }
}

#[test]
fn a_node_alone_goes_on_after_rot_and_says_which_bytes_are_lost() {
    for seed in 0..6 {
        let mut stage = Stage::new(seed, 1);
        let leader = stage.leader();
        let mut caller = stage.open(leader, &format!("append {LOG}"));
        for _ in 0..3 {
            stage.say_and_wait(&mut caller, 5_000);
        }
        stage.pass(SECOND);
        stage.rot(0, &caller.content(6_000..6_032));
        stage.crash(0);
        stage.restart(0);
        let leader = stage.leader();
        let mut more = stage.open(leader, &format!("append {LOG} mode=takeover"));
        stage.say_and_wait(&mut more, 5_000);
        let over = stage.call(leader, &format!("read {LOG} from=6000"));
        stage.wait("the loss to be told", |look| {
            look.missing_bytes(0) > 0 && look.picture().contains("BytesLost")
        });
        stage.wait("the read over them to end", |_| over.is_over());
        let said = over.text();
        assert!(said.starts_with("error not-here position=6000"), "{said}");
        let before = stage.call(leader, &format!("read {LOG} stale=1 to=5000"));
        stage.wait("the bytes before", |_| before.is_over());
        assert!(
            before.heard() == caller.content(0..5_000),
            "seed {seed}: {}",
            before.text()
        );
    }
}
