//! The contract of disks, and what is left after a crash.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ops::{BLOCK, Buffer, Completion, FileId, Op, OpenMode, Token};
use sim::{PerMillion, TornBlocks, World};

use crate::support::puppet::{Hand, done, puppet};

const SECOND: Duration = Duration::from_secs(1);
const F: FileId = FileId(1);

fn setup(seed: u64) -> (World, Hand) {
    let mut world = World::new(seed);
    let hand = puppet(&mut world, "a");
    let path = PathBuf::from("/d/e");
    done(hand.ask(
        &mut world,
        Op::CreateDirectory {
            token: Token(0),
            path,
        },
    ))
    .unwrap();
    (world, hand)
}

fn open(mode: OpenMode) -> Op {
    Op::Open {
        token: Token(1),
        file: F,
        path: PathBuf::from("/d/e/f"),
        mode,
    }
}

fn create() -> Op {
    open(OpenMode::Create { size_hint: 50_000 })
}

fn write(block: u64, bytes: &[u8]) -> Op {
    Op::Write {
        token: Token(2),
        file: F,
        offset: block * BLOCK as u64,
        slices: vec![Buffer::holding(bytes).freeze().slice(0..bytes.len())],
    }
}

fn rename(from: &str, to: &str) -> Op {
    Op::Rename {
        token: Token(3),
        from: from.into(),
        to: to.into(),
    }
}

fn write_file(path: &str, contents: &[u8]) -> Op {
    Op::WriteFile {
        token: Token(4),
        path: path.into(),
        contents: contents.to_vec(),
    }
}

fn blocks(byte: u8, count: usize) -> Vec<u8> {
    vec![byte; count * BLOCK]
}

#[test]
fn a_copy_that_is_put_back_holds_what_stood_there_then_and_no_more() {
    let (mut world, hand) = setup(1);
    done(hand.ask(&mut world, create())).unwrap();
    done(hand.ask(&mut world, write(0, &blocks(1, 2)))).unwrap();
    let copy = world.copy_disk(hand.host);
    done(hand.ask(&mut world, write(1, &blocks(2, 2)))).unwrap();
    done(hand.ask(&mut world, write_file("/d/later", b"later"))).unwrap();
    for _ in 0..2 {
        world.crash(hand.host);
        world.put_disk_back(hand.host, &copy);
        assert_eq!(world.disk(hand.host).contents("/d/e/f"), Some(blocks(1, 2)));
        assert_eq!(world.disk(hand.host).contents("/d/later"), None);
        world.restart(hand.host).unwrap();
        done(hand.ask(&mut world, open(OpenMode::ReadWrite))).unwrap();
        done(hand.ask(&mut world, write(0, &blocks(3, 1)))).unwrap();
    }
}

#[test]
fn what_was_written_can_be_read() {
    let (mut world, hand) = setup(1);
    done(hand.ask(&mut world, create())).unwrap();
    done(hand.ask(&mut world, write(0, &blocks(1, 3)))).unwrap();
    done(hand.ask(&mut world, write(1, &blocks(2, 1)))).unwrap();
    let read = |offset| Op::Read {
        token: Token(5),
        file: F,
        offset,
        buffer: Buffer::new(3 * BLOCK),
        range: BLOCK..3 * BLOCK,
    };
    let Completion::Read { buffer, result, .. } = hand.ask(&mut world, read(4096)) else {
        panic!("not a read");
    };
    assert_eq!(result.unwrap(), 2 * BLOCK);
    assert_eq!(buffer[BLOCK..2 * BLOCK], blocks(2, 1));
    assert_eq!(buffer[2 * BLOCK..], blocks(1, 1));
    let Completion::Read { result, .. } = hand.ask(&mut world, read(8192)) else {
        panic!("not a read");
    };
    assert_eq!(
        result.unwrap(),
        BLOCK,
        "fewer bytes are the end of the file"
    );
}

#[test]
fn opens_say_what_is_wrong() {
    let (mut world, hand) = setup(2);
    let error = done(hand.ask(&mut world, open(OpenMode::Read))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let close = |file| Op::CloseFile {
        token: Token(6),
        file,
    };
    let error = done(hand.ask(&mut world, close(F))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "there is no such file");
    done(hand.ask(&mut world, create())).unwrap();
    done(hand.ask(&mut world, close(F))).unwrap();
    let error = done(hand.ask(&mut world, create())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(done(hand.ask(&mut world, write(0, &blocks(1, 1)))).is_err());
    assert!(done(hand.ask(&mut world, rename("/d/e/f", "/nowhere/f"))).is_err());
}

#[test]
fn an_open_and_its_writes_may_be_given_at_once() {
    for seed in 0..50 {
        let (mut world, hand) = setup(seed);
        hand.give(&mut world, create());
        for block in 0..10 {
            hand.give(&mut world, write(block, &blocks(block as u8, 1)));
        }
        let file = F;
        hand.give(
            &mut world,
            Op::CloseFile {
                token: Token(9),
                file,
            },
        );
        world.run_for(SECOND, 10_000);
        let heard = hand.heard();
        assert_eq!(heard.len(), 12);
        assert!(matches!(
            heard[11],
            Completion::Done {
                token: Token(9),
                result: Ok(())
            }
        ));
        let contents = world.disk(hand.host).contents("/d/e/f").unwrap();
        assert_eq!(contents.len(), 10 * BLOCK);
        assert_eq!(contents[9 * BLOCK], 9);
    }
}

/// The state of each of three blocks after a crash in the middle of overwriting them.
fn torn(seed: u64, rule: TornBlocks) -> Vec<&'static str> {
    let (mut world, hand) = setup(seed);
    world.disk_mut(hand.host).model.torn = rule;
    done(hand.ask(&mut world, create())).unwrap();
    let (old, mut new) = (blocks(1, 4), blocks(1, 3));
    for half in new.chunks_exact_mut(BLOCK) {
        half[..BLOCK / 2].fill(2);
    }
    done(hand.ask(&mut world, write(0, &old))).unwrap();
    hand.give(&mut world, write(1, &new));
    world.run_for(Duration::from_micros(40), 100);
    world.crash(hand.host);
    let contents = world.disk(hand.host).contents("/d/e/f").unwrap();
    assert_eq!(
        contents[..BLOCK],
        old[..BLOCK],
        "completed, and not written to"
    );
    let states = contents[BLOCK..].chunks(BLOCK).map(|block| {
        if block == &old[..BLOCK] {
            "old"
        } else if block == &new[..BLOCK] {
            "new"
        } else if block[BLOCK / 2..] == old[..BLOCK / 2] {
            "mixed"
        } else if block.iter().all(|byte| *byte == 0) {
            "zero"
        } else {
            "garbage"
        }
    });
    states.collect()
}

#[test]
fn an_unfinished_write_leaves_every_block_old_new_or_bad() {
    let outcomes =
        |rule| -> BTreeSet<Vec<&str>> { (0..300).map(|seed| torn(seed, rule)).collect() };
    let kept = outcomes(TornBlocks::KeepSectors);
    let kinds: BTreeSet<&str> = kept.iter().flatten().copied().collect();
    assert_eq!(kinds, BTreeSet::from(["mixed", "new", "old"]));
    assert!(kept.contains(&vec!["old", "old", "new"]), "in any order");
    let lost = outcomes(TornBlocks::LoseBlocks);
    let kinds: BTreeSet<&str> = lost.iter().flatten().copied().collect();
    assert_eq!(
        kinds,
        BTreeSet::from(["garbage", "mixed", "new", "old", "zero"])
    );
}

#[test]
fn a_name_is_there_or_not_when_its_op_was_in_flight() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let (mut world, hand) = setup(seed);
        done(hand.ask(&mut world, write_file("/d/e/m", b"old"))).unwrap();
        done(hand.ask(&mut world, write_file("/d/e/r", b"moved"))).unwrap();
        hand.give(&mut world, create());
        hand.give(&mut world, write_file("/d/e/m", b"new"));
        hand.give(&mut world, rename("/d/e/r", "/d/e/s"));
        world.run_for(Duration::from_micros(50), 100);
        world.crash(hand.host);
        let disk = world.disk(hand.host);
        let replaced = disk.contents("/d/e/m").unwrap();
        assert!(replaced == b"old" || replaced == b"new");
        let [from, to] = ["/d/e/r", "/d/e/s"].map(|path| disk.contents(path).is_some());
        assert_ne!(from, to, "a rename is atomic");
        let aside = disk.contents("/d/e/.m.new").is_some();
        seen.insert((replaced, from, disk.contents("/d/e/f").is_some(), aside));
    }
    assert_eq!(seen.len(), 12, "every combination: {seen:?}");
}

#[test]
fn what_completed_survives_any_crash() {
    for seed in 0..50 {
        let (mut world, hand) = setup(seed);
        done(hand.ask(&mut world, create())).unwrap();
        done(hand.ask(&mut world, write(0, &blocks(7, 2)))).unwrap();
        done(hand.ask(&mut world, rename("/d/e", "/d/quarantined"))).unwrap();
        done(hand.ask(&mut world, write(2, &blocks(8, 1)))).unwrap();
        world.crash_silently(hand.host);
        let contents = world.disk(hand.host).contents("/d/quarantined/f").unwrap();
        assert_eq!(contents, [blocks(7, 2), blocks(8, 1)].concat());
        let names = world.with_disk(hand.host, |disk| disk.list(Path::new("/d")));
        assert_eq!(names.unwrap()[0].name, "quarantined");
    }
}

#[test]
fn after_a_failed_write_the_file_takes_no_more() {
    let (mut world, hand) = setup(3);
    done(hand.ask(&mut world, create())).unwrap();
    world.disk_mut(hand.host).faults.write_errors = PerMillion(1_000_000);
    assert!(done(hand.ask(&mut world, write(0, &blocks(1, 1)))).is_err());
    world.disk_mut(hand.host).faults.write_errors = PerMillion(0);
    assert!(done(hand.ask(&mut world, write(0, &blocks(1, 1)))).is_err());
    assert_eq!(world.disk(hand.host).failed_changes(), 2);
    let again = Op::Open {
        token: Token(1),
        file: FileId(2),
        path: "/d/e/f".into(),
        mode: OpenMode::ReadWrite,
    };
    done(hand.ask(&mut world, again)).unwrap();
}

#[test]
fn a_broken_disk_fails_until_it_is_repaired() {
    let (mut world, hand) = setup(4);
    world.disk_mut(hand.host).faults.broken = true;
    for _ in 0..5 {
        assert!(done(hand.ask(&mut world, write_file("/d/x", b"x"))).is_err());
    }
    let refused = world.with_disk(hand.host, |disk| disk.write_file(Path::new("/d/x"), b"x"));
    assert!(refused.is_err());
    world.disk_mut(hand.host).faults.broken = false;
    done(hand.ask(&mut world, write_file("/d/x", b"x"))).unwrap();
}

#[test]
fn a_full_disk_says_so_and_honours_its_capacity() {
    let (mut world, hand) = setup(5);
    done(hand.ask(&mut world, create())).unwrap();
    world.disk_mut(hand.host).faults.capacity_bytes = 4 * BLOCK as u64;
    done(hand.ask(&mut world, write(0, &blocks(1, 3)))).unwrap();
    let path = PathBuf::from("/d");
    let Completion::Space { result, .. } = hand.ask(
        &mut world,
        Op::FreeSpace {
            token: Token(7),
            path,
        },
    ) else {
        panic!("not space");
    };
    assert_eq!(result.unwrap(), BLOCK as u64);
    let error = done(hand.ask(&mut world, write(3, &blocks(1, 2)))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(world.disk(hand.host).used_bytes() <= 4 * BLOCK as u64);
}

#[test]
fn a_hanging_disk_completes_everything_once_it_is_released() {
    let (mut world, hand) = setup(6);
    done(hand.ask(&mut world, create())).unwrap();
    world.hang_disk(hand.host);
    hand.give(&mut world, write(0, &blocks(1, 1)));
    hand.give(&mut world, write(1, &blocks(1, 1)));
    world.run_for(100 * SECOND, 10_000);
    assert!(hand.heard().is_empty());
    world.release_disk(hand.host);
    world.run_for(SECOND, 10_000);
    assert_eq!(hand.heard().len(), 2);
    assert_eq!(world.disk(hand.host).ops_in_flight(), 0);
}

#[test]
fn a_flipped_bit_is_seen_by_readers() {
    let (mut world, hand) = setup(8);
    done(hand.ask(&mut world, write_file("/d/x", &[0; 10]))).unwrap();
    assert!(world.corrupt(hand.host, "/d/x", 3));
    assert!(!world.corrupt(hand.host, "/d/x", 10));
    let contents = world.disk(hand.host).contents("/d/x").unwrap();
    assert_eq!(contents[3].count_ones(), 1);
    world.crash(hand.host);
    world.lose_disk(hand.host);
    assert!(world.disk(hand.host).files().is_empty());
}
