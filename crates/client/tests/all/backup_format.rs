//! A backup's bytes: whatever is saved comes back, and no change of them goes unseen.

use std::fs;

use client::admin::{Continues, StreamEnd, StreamInfo};
use client::backup::{
    Backup, BackupError, Header, MachineKind, Next, PartReader, PartWriter, Saved, Wrong,
};
use proptest::prelude::*;
use wire::told::Saving;

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
        min_copies: 2,
        part: 1,
        after: None,
        made_at: "2026-01-01T00:00:00Z".to_owned(),
        streams,
        state: None,
        kind: MachineKind::State,
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

fn header_of_rows(position: u64) -> Header {
    let state = Saving {
        position,
        frame: 3,
        time_ms: 1_700_000_000_000,
        sessions: 5,
    };
    Header {
        state: Some(state),
        ..header(Vec::new())
    }
}

/// A part with these pages.
fn part_of_rows(header: &Header, pages: &[Vec<u8>]) -> (Vec<u8>, [u8; 32]) {
    let mut writer = PartWriter::new(Vec::new(), header.clone()).expect("memory");
    for page in pages {
        writer.write_rows(page).expect("it rises");
    }
    writer.finish().expect("it is whole")
}

/// Rows that rise, in pages.
fn pages() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..20);
    let rows = prop::collection::btree_map(bytes(), bytes(), 0..12);
    (rows, 1usize..5).prop_map(|(rows, count)| {
        let rows: Vec<(Vec<u8>, Vec<u8>)> = rows.into_iter().collect();
        let page = |rows: &[(Vec<u8>, Vec<u8>)]| {
            let mut page = Vec::new();
            for (key, value) in rows {
                wire::rows::push(&mut page, key, value);
            }
            page
        };
        rows.chunks(count).map(page).collect()
    })
}

proptest! {
    #[test]
    fn rows_come_back(pages in pages()) {
        let header = header_of_rows(9);
        let (bytes, identity) = part_of_rows(&header, &pages);
        let mut reader = PartReader::open(&bytes[..]).expect("it is sound");
        prop_assert_eq!(reader.header(), &header);
        let mut found = Vec::new();
        let end = loop {
            match reader.read_next().expect("it is sound") {
                Next::Piece { payload, .. } => found.push(payload),
                end => break end,
            }
        };
        let rows = pages.iter().map(|page| wire::rows::decode(page, None).map_or(0, |rows| rows.len()));
        let expected = Next::End {
            identity,
            bytes: pages.iter().map(|page| page.len() as u64).sum(),
            rows: rows.sum::<usize>() as u64,
        };
        prop_assert_eq!(end, expected);
        prop_assert_eq!(found, pages);
    }

    #[test]
    fn no_change_of_rows_goes_unseen(
        pages in pages(),
        at in any::<prop::sample::Index>(),
        flip in 1u8..=255,
    ) {
        let (bytes, _) = part_of_rows(&header_of_rows(9), &pages);
        let mut flipped = bytes.clone();
        let place = at.index(flipped.len());
        flipped[place] ^= flip;
        prop_assert!(read(&flipped).is_err(), "byte {place} was changed");
        prop_assert!(read(&bytes[..place]).is_err(), "it was cut at {place}");
        let mut longer = bytes;
        longer.push(flip);
        prop_assert!(read(&longer).is_err(), "something was added");
    }
}

#[test]
fn rows_rise_over_all_pages_and_are_of_a_machine() {
    let page = |key: &[u8]| {
        let mut page = Vec::new();
        wire::rows::push(&mut page, key, b"value");
        page
    };
    let mut writer = PartWriter::new(Vec::new(), header_of_rows(9)).expect("memory");
    assert!(writer.write(b"bytes of a stream").is_err());
    assert!(writer.write_rows(b"no page").is_err());
    writer.write_rows(&page(b"b")).expect("the first");
    assert!(writer.write_rows(&page(b"b")).is_err());
    assert!(writer.write_rows(&page(b"a")).is_err());
    writer.write_rows(&page(b"c")).expect("it rises");
    assert_eq!(writer.rows(), 2);
    let streams = header(vec![saved(0, 0, 0, 3)]);
    let mut writer = PartWriter::new(Vec::new(), streams).expect("memory");
    assert!(writer.write_rows(&page(b"b")).is_err());
}

/// ‡ A program that knows machines alone would fill one of somebody's own with them.
#[test]
fn keys_are_of_another_version_than_other_rows() {
    let keys = Header {
        kind: MachineKind::Kv,
        ..header_of_rows(9)
    };
    let (bytes, _) = part_of_rows(&keys, &[]);
    assert_eq!(bytes[8..12], [3, 0, 0, 0]);
    let streams = Header {
        kind: MachineKind::Streams,
        ..header_of_rows(9)
    };
    let (space, _) = part_of_rows(&streams, &[]);
    assert_eq!(space[8..12], [4, 0, 0, 0]);
    let reader = PartReader::open(&space[..]).expect("it is sound");
    assert_eq!(reader.header(), &streams);
    let reader = PartReader::open(&bytes[..]).expect("it is sound");
    assert_eq!(reader.header(), &keys);
    // Streams have no machine.
    let streams = Header {
        kind: MachineKind::Kv,
        ..header(Vec::new())
    };
    let (bytes, _) = part(&streams, 1);
    let read = PartReader::open(&bytes[..]);
    assert!(matches!(read, Err(BackupError::Damaged { .. })));
}

/// ‡ A program that knows streams alone would make an empty log of them.
#[test]
fn a_table_of_streams_that_contradicts_itself_is_damage() {
    for of in ["1.1.1", "1.1.2"] {
        let mut streams = vec![saved(1, 0, 5, 5), saved(2, 0, 5, 5)];
        let of = of.to_owned();
        streams[0].info.continues = Some(Continues { stream: of, at: 0 });
        let (bytes, _) = part(&header(streams), 5);
        let error = read(&bytes).expect_err("a stream goes on from an earlier one");
        assert!(error.to_string().contains("contradicts itself"), "{error}");
    }
}

#[test]
fn rows_are_of_another_version_than_streams() {
    let (bytes, _) = part_of_rows(&header_of_rows(9), &[]);
    assert_eq!(bytes[8..12], [2, 0, 0, 0]);
    let (bytes, _) = part(&header(Vec::new()), 1);
    assert_eq!(bytes[8..12], [1, 0, 0, 0]);
    // The version says one, and the header the other, with a checksum that is right.
    for (header, version) in [(header_of_rows(9), 1), (header(Vec::new()), 2)] {
        let (mut bytes, _) = part(&header, 1);
        bytes[8] = version;
        let length = u32::from_le_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) as usize;
        let checksum = crc32c::crc32c(&[&bytes[..16], &bytes[20..20 + length]].concat());
        bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
        let error = read(&bytes).expect_err("it contradicts itself");
        assert!(error.to_string().contains("contradicts itself"), "{error}");
    }
}

/// Each part has all rows, and they follow each other all the same.
#[test]
fn parts_of_rows_follow_each_other() {
    let place = tempfile::tempdir().expect("a place");
    let put = |number: u32, bytes: &[u8]| {
        let name = format!("part-00000{number}.lbb");
        fs::write(place.path().join(name), bytes).expect("room");
    };
    let (bytes, identity) = part_of_rows(&header_of_rows(9), &[]);
    put(1, &bytes);
    let second = |state: Header| Header {
        part: 2,
        after: Some(identity.iter().map(|byte| format!("{byte:02x}")).collect()),
        ..state
    };
    put(2, &part_of_rows(&second(header_of_rows(20)), &[]).0);
    let newest = verify(place.path()).expect("sound");
    assert_eq!(newest.state.map(|state| state.position), Some(20));
    put(2, &part_of_rows(&second(header_of_rows(8)), &[]).0);
    let back = verify(place.path()).expect_err("it goes back");
    assert!(back.to_string().contains("another history"), "{back}");
    put(2, &part(&second(header(Vec::new())), 1).0);
    let mixed = verify(place.path()).expect_err("it is of streams");
    assert!(mixed.to_string().contains("a machine's rows"), "{mixed}");
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
    bytes[8] = 5;
    let json = 20..20 + u32::from_le_bytes(bytes[12..16].try_into().expect("four")) as usize;
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes[..16]), &bytes[json]);
    bytes[16..20].copy_from_slice(&checksum.to_le_bytes());
    let error = read(&bytes).expect_err("it is newer");
    assert!(
        matches!(error, BackupError::OtherVersion { found: 5 }),
        "{error}"
    );
    assert!(matches!(read(b"hello"), Err(BackupError::NotABackup)));
}

/// A damaged backup is never taken for no backup, or for another program's.
#[test]
fn whatever_byte_is_damaged_it_is_called_damage() {
    let (bytes, _) = part(&header(vec![saved(0, 0, 0, 100)]), 64);
    let is_damage = |bytes: &[u8], what: &str| {
        let error = read(bytes).expect_err("it is damaged");
        assert!(
            matches!(
                error,
                BackupError::Damaged { .. } | BackupError::Unfinished { .. }
            ),
            "{what}: {error}"
        );
    };
    for at in 0..bytes.len() {
        for flip in [1, 0x80, 0xff] {
            let mut flipped = bytes.clone();
            flipped[at] ^= flip;
            is_damage(&flipped, &format!("byte {at} by {flip}"));
        }
        is_damage(&bytes[..at], &format!("cut at {at}"));
    }
    // Several bytes at its beginning: the file's name says what it was.
    let place = tempfile::tempdir().expect("a place");
    for (name, damage) in [("saved.lbb", true), ("notes.txt", false)] {
        let path = place.path().join(name);
        let zeroed = [&[0; 512][..], &bytes[30..]].concat();
        fs::write(&path, zeroed).expect("room");
        let backup = Backup::open(&path).expect("a file");
        let wrong = backup.verify(|_| ()).expect_err("its beginning is gone");
        let called = wrong.to_string().contains("damaged");
        assert_eq!(called, damage, "{name}: {wrong}");
    }
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
