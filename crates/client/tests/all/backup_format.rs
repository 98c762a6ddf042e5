//! A backup's bytes: whatever is saved comes back, and no change of them goes unseen.

use std::fs;

use client::admin::{StreamEnd, StreamInfo};
use client::backup::{Backup, BackupError, Header, Next, PartReader, PartWriter, Saved, Wrong};
use proptest::prelude::*;

fn saved(counter: usize, trimmed: u64, more: u64, length: u64) -> Saved {
    Saved {
        info: StreamInfo {
            name: format!("1.1.{counter}"),
            label: Some("läbel".to_owned()),
            length: trimmed + more + length,
            trimmed,
            end: StreamEnd::Cut,
            continues: None,
            continued_by: None,
        },
        from: trimmed + more,
    }
}

fn header(streams: Vec<Saved>) -> Header {
    Header {
        cluster: "a cluster".to_owned(),
        log: "main".to_owned(),
        log_id: 7,
        retention: "forever".to_owned(),
        part: 1,
        after: None,
        made_at: "2026-01-01T00:00:00Z".to_owned(),
        streams,
    }
}

fn byte(stream: u64, position: u64) -> u8 {
    (stream.wrapping_mul(31) ^ position.wrapping_mul(2_654_435_761) >> 7) as u8
}

/// A part with these streams, written in pieces of at most so many bytes.
fn part(header: &Header, piece_bytes: u64) -> (Vec<u8>, [u8; 32]) {
    let mut writer = PartWriter::new(Vec::new(), header.clone()).expect("memory");
    while let Some((saved, from, count)) = writer.wants() {
        let counter: u64 = saved.info.name[4..].parse().expect("ours");
        let piece = from..from + count.min(piece_bytes);
        let piece: Vec<u8> = piece.map(|position| byte(counter, position)).collect();
        writer.write(&piece).expect("memory");
    }
    writer.finish().expect("it is whole")
}

/// Every stream's bytes, if all is sound.
fn read(bytes: &[u8]) -> Result<Vec<(usize, u64, Vec<u8>)>, BackupError> {
    let mut reader = PartReader::open(bytes)?;
    let mut streams: Vec<(usize, u64, Vec<u8>)> = Vec::new();
    loop {
        match reader.read_next()? {
            Next::End { .. } => return Ok(streams),
            Next::Piece {
                stream,
                position,
                payload,
            } => match streams.last_mut().filter(|(last, ..)| *last == stream) {
                Some((_, _, bytes)) => bytes.extend_from_slice(&payload),
                None => streams.push((stream, position, payload)),
            },
        }
    }
}

fn drawn() -> impl Strategy<Value = (Header, u64)> {
    let streams = prop::collection::vec((0u64..40, 0u64..40, 0u64..300), 0..5);
    (streams, 1u64..200).prop_map(|(streams, piece)| {
        let streams = streams.into_iter().enumerate();
        let streams = streams.map(|(at, (trimmed, more, length))| saved(at, trimmed, more, length));
        (header(streams.collect()), piece)
    })
}

proptest! {
    #[test]
    fn what_is_saved_comes_back((header, piece) in drawn()) {
        let (bytes, _) = part(&header, piece);
        let found = read(&bytes).expect("it is sound");
        let expected = header.streams.iter().enumerate().filter(|(_, s)| s.from < s.info.length);
        let expected: Vec<_> = expected
            .map(|(at, s)| {
                let bytes = (s.from..s.info.length).map(|position| byte(at as u64, position));
                (at, s.from, bytes.collect::<Vec<u8>>())
            })
            .collect();
        prop_assert_eq!(found, expected);
        let reader = PartReader::open(&bytes[..]).expect("it is sound");
        prop_assert_eq!(reader.header(), &header);
    }

    #[test]
    fn no_change_goes_unseen(
        (header, piece) in drawn(),
        at in any::<prop::sample::Index>(),
        flip in 1u8..=255,
    ) {
        let (bytes, _) = part(&header, piece);
        let mut flipped = bytes.clone();
        let place = at.index(flipped.len());
        flipped[place] ^= flip;
        prop_assert!(read(&flipped).is_err(), "byte {place} was changed");
        prop_assert!(read(&bytes[..place]).is_err(), "it was cut at {place}");
        let mut longer = bytes;
        longer.push(flip);
        prop_assert!(read(&longer).is_err(), "something was added");
    }

    #[test]
    fn any_bytes_are_a_part_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
    }
}

#[test]
fn a_writer_takes_only_what_it_is_owed() {
    let mut writer = PartWriter::new(Vec::new(), header(vec![saved(0, 0, 0, 3)])).expect("memory");
    assert!(writer.write(b"more").is_err());
    assert!(writer.write(b"").is_err());
    writer.write(b"ab").expect("it is owed");
    assert!(writer.finish().is_err(), "a byte is missing");
}

#[test]
fn another_version_is_named() {
    let (mut bytes, _) = part(&header(Vec::new()), 1);
    bytes[8] = 2;
    let error = read(&bytes).expect_err("it is newer");
    assert!(
        matches!(error, BackupError::OtherVersion { found: 2 }),
        "{error}"
    );
    assert!(matches!(read(b"hello"), Err(BackupError::NotABackup)));
}

/// Parts 1 and 2 of one backup in a directory.
fn two_parts() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a place");
    let first = header(vec![saved(0, 0, 0, 100)]);
    let (bytes, identity) = part(&first, 64);
    fs::write(place.path().join("part-000001.lbb"), bytes).expect("room");
    let mut streams = vec![saved(0, 0, 100, 50), saved(1, 0, 0, 7)];
    streams[0].info.trimmed = 20;
    let second = Header {
        part: 2,
        after: Some(identity.iter().map(|byte| format!("{byte:02x}")).collect()),
        ..header(streams)
    };
    fs::write(place.path().join("part-000002.lbb"), part(&second, 64).0).expect("room");
    place
}

fn verify(path: &std::path::Path) -> Result<Header, Wrong> {
    let backup = Backup::open(path).map_err(|error| Wrong::Backup {
        path: path.to_owned(),
        error,
    })?;
    backup.verify(|_| {}).map(|(header, _)| header)
}

#[test]
fn parts_are_read_one_after_the_other() {
    let place = two_parts();
    assert_eq!(verify(place.path()).expect("sound").part, 2);
    let backup = Backup::open(place.path()).expect("two parts");
    let mut seen = Vec::new();
    let read = backup.read(|header, piece, _| {
        seen.push((header.part, piece.stream.to_owned(), piece.position));
        Ok(())
    });
    assert!(read.is_ok());
    let expected = [
        (1, "1.1.0", 0),
        (1, "1.1.0", 64),
        (2, "1.1.0", 100),
        (2, "1.1.1", 0),
    ];
    let expected = expected.map(|(part, stream, at)| (part, stream.to_owned(), at));
    assert_eq!(seen, expected);
}

#[test]
fn a_part_that_is_missing_or_of_another_backup_is_told() {
    let place = two_parts();
    let path = |number: u32| place.path().join(format!("part-00000{number}.lbb"));
    let second = fs::read(path(2)).expect("there");
    // The second alone.
    let alone = verify(&path(2)).expect_err("it is a part");
    assert!(alone.to_string().contains("the parts before it"), "{alone}");
    // A hole.
    fs::rename(path(2), path(3)).expect("ours");
    let hole = verify(place.path()).expect_err("one is missing");
    assert!(
        hole.to_string().contains("part-000002.lbb is missing"),
        "{hole}"
    );
    fs::rename(path(3), path(2)).expect("ours");
    // The first one is another than it was.
    let (other, _) = part(&header(vec![saved(0, 0, 0, 100)]), 10);
    fs::write(path(1), other).expect("room");
    let other = verify(place.path()).expect_err("it is of another backup");
    assert!(other.to_string().contains("does not follow"), "{other}");
    // Unfinished files are none.
    fs::write(
        place.path().join(".part-000003.lbb.1.unfinished"),
        &second[..40],
    )
    .expect("room");
    assert_eq!(
        Backup::open(place.path()).expect("two parts").parts.len(),
        2
    );
}
