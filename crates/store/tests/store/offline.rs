//! Whole directories: the manifest, the offline check, and a log's output read back from its disk.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::record::{RecordHeader, RecordKind};
use formats::{
    BATCH_BUFFER, DiskId, LogId, LogKind, PAYLOAD_BYTES_MAX, RECORD_HEADER, Speaks, codec, digest,
};
use ops::{BLOCK, Buffer, DirectoryEntry, Disk, Op, Time, Token};
use paxos::{
    Action, Checkpoint, Configuration, Digest, Era, LogState, NodeId, Offset, OpenStream,
    PromisedTerm, Slot, SlotRange, StreamPosition, Term, Value,
};
use store::{
    Manifest, ManifestError, ManifestLog, NewRecord, OfflineError, ReadOffline, RecordContext,
    Store, StoreEvent, verify,
};

use crate::kernel::script::{byte, config, content, first_checkpoint, reach, settle, stream};
use crate::kernel::{EIO, Kernel, MemoryDisk, Random};

fn manifest() -> Manifest {
    Manifest {
        version: 1,
        identity: config(0, 1).identity,
        incarnation: 3,
        deleted: [1, 2, 3, 5].map(LogId).into(),
        logs: vec![ManifestLog {
            id: LogId(7),
            name: "orders".to_owned(),
            kind: LogKind::Bytes,
        }],
    }
}

fn data() -> &'static Path {
    Path::new("/data")
}

/// A log with a chosen output of that length, in a node's directory.
fn node_directory(length: u64, batch_max: u64) -> (MemoryDisk, LogState) {
    let mut disk = MemoryDisk::default();
    disk.directories.insert("/data".into());
    manifest().save(&mut disk, data()).unwrap();
    let configuration = Configuration::equal([NodeId(1), NodeId(2), NodeId(3)]).unwrap();
    let term = Term {
        era: Era(0),
        number: 1,
        owner: NodeId(1),
    };
    let mut state = LogState::new(configuration);
    let checkpoint = |state: &LogState| Checkpoint {
        promised: PromisedTerm(term),
        finishing: None,
        state: state.clone(),
        accepted: Vec::new(),
    };
    let mut store = Store::create(config(1, 1), &checkpoint(&state));
    let mut kernel = Kernel::new(disk);
    let mut random = Random(length);
    let mut tag = 0;
    let mut append = |store: &mut Store, state: &mut LogState, slots, value: Value, payload| {
        let digest = match (&value, &payload) {
            (Value::Action(action), _) => {
                digest(&codec::encode(formats::version::FIRST, &**action))
            }
            (_, Some(payload)) => {
                let payload: &Buffer = payload;
                digest(&payload[RECORD_HEADER..][..SlotRange::len(&slots) as usize])
            }
            _ => Digest(0),
        };
        let context = RecordContext {
            promised: PromisedTerm(term),
            first_unchosen: state.next,
        };
        if store.wants_roll() {
            store.roll(&checkpoint(state), context);
        }
        let record = NewRecord::Accept {
            term,
            slots,
            value: value.clone(),
            digest,
            payload,
        };
        tag += 1;
        store.append(record, context, tag);
        state.apply(slots, &value);
        settle(store, &mut kernel, Time::ZERO);
    };
    let open = Action::OpenStream(OpenStream {
        stream: stream(1),
        label: String::new(),
        metadata: Vec::new(),
        continues: None,
    });
    let first = SlotRange::new(Slot(0), Slot(1));
    append(
        &mut store,
        &mut state,
        first,
        Value::Action(Arc::new(open)),
        None,
    );
    let mut at = 0;
    while at < length {
        let count = (1 + random.below(batch_max)).min(length - at);
        let slots = SlotRange::new(Slot(1 + at), Slot(1 + at + count));
        let value = Value::Content {
            stream: stream(1),
            offset: Offset(1),
        };
        let payload = content(stream(1), at..at + count);
        append(&mut store, &mut state, slots, value, Some(payload));
        at += count;
    }
    // The next record alone knows what is chosen.
    let last = SlotRange::new(state.next, Slot(state.next.0 + 1));
    append(&mut store, &mut state.clone(), last, Value::NoOp, None);
    store.close();
    while !store.is_closed() {
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    (kernel.disk, state)
}

#[test]
fn a_nodes_output_is_read_back_from_its_own_disk() {
    for length in [0, 1, 5_000, 700_000] {
        let (mut disk, state) = node_directory(length, 9_000);
        // A segment that was being born stays where it is.
        let torn = PathBuf::from("/data/log-7/0000000000000099.seg");
        let before = disk.files.clone();
        let (mut output, checkpoint) = ReadOffline::open(&mut disk, data(), LogId(7)).unwrap();
        assert!(!disk.files.contains_key(&torn));
        assert_eq!(checkpoint.state, state);
        let mut at = 0;
        while let Some(piece) = output.next(&mut disk).unwrap() {
            assert_eq!(piece.position, StreamPosition(at));
            for found in piece.bytes {
                assert_eq!(found, byte(stream(1), at));
                at += 1;
            }
        }
        assert_eq!(at, length);
        assert!(disk.files == before, "looking changes nothing");
    }
}

#[test]
fn reading_back_stops_at_rot_and_says_where() {
    let (mut disk, _) = node_directory(100_000, 9_000);
    let first = PathBuf::from("/data/log-7/0000000000000001.seg");
    disk.files.get_mut(&first).unwrap()[4 * 4096 + 1000] ^= 1;
    let (mut output, _) = ReadOffline::open(&mut disk, data(), LogId(7)).unwrap();
    let error = loop {
        match output.next(&mut disk) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the rot was not noticed"),
            Err(error) => break error,
        }
    };
    let said = error.to_string();
    let again = output.next(&mut disk).unwrap_err();
    assert_eq!(again.to_string(), said, "an error does not pass");
    match error {
        OfflineError::Corrupt {
            path,
            offset,
            stream: of,
            position,
            ..
        } => {
            assert_eq!((path, of), (first, stream(1)));
            assert!(offset <= 4 * 4096 + 1000 && said.contains(&format!("byte {offset}")));
            assert!(
                said.contains(&format!("byte {position} of stream")),
                "{said}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// A disk that counts the bytes read of segments.
struct CountingDisk {
    disk: MemoryDisk,
    bytes: u64,
    reads: u64,
}

impl Disk for CountingDisk {
    fn list(&mut self, directory: &Path) -> io::Result<Vec<DirectoryEntry>> {
        self.disk.list(directory)
    }
    fn read_at(&mut self, path: &Path, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let count = self.disk.read_at(path, offset, into)?;
        self.bytes += count as u64;
        self.reads += 1;
        assert_eq!(offset % 4096, 0);
        Ok(count)
    }
    fn settle(&mut self, path: &Path) -> io::Result<()> {
        self.disk.settle(path)
    }
    fn is_still(&mut self, path: &Path) -> bool {
        self.disk.is_still(path)
    }
    fn write_file(&mut self, path: &Path, contents: &[u8]) -> io::Result<()> {
        self.disk.write_file(path, contents)
    }
    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        self.disk.create_directory(path)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn lock(&mut self, path: &Path) -> io::Result<()> {
        self.disk.lock(path)
    }
    fn free_space(&mut self, path: &Path) -> io::Result<u64> {
        self.disk.free_space(path)
    }
    fn random(&mut self) -> io::Result<[u8; 16]> {
        self.disk.random()
    }
    fn write_path(&mut self, directory: &Path) -> String {
        self.disk.write_path(directory)
    }
}

/// Reads to the end or the error, and checks every byte on the way.
fn read_to_the_end(output: &mut ReadOffline, disk: &mut dyn Disk) -> (u64, Option<OfflineError>) {
    let mut at = 0;
    loop {
        match output.next(disk) {
            Ok(None) => return (at, None),
            Err(error) => return (at, Some(error)),
            Ok(Some(piece)) => {
                assert_eq!(piece.position, StreamPosition(at));
                for found in piece.bytes {
                    assert_eq!(found, byte(stream(1), at));
                    at += 1;
                }
            }
        }
    }
}

#[test]
fn the_output_is_read_once_and_in_large_pieces() {
    let (disk, _) = node_directory(8_000_000, PAYLOAD_BYTES_MAX as u64);
    let segments = disk
        .files
        .iter()
        .filter(|(path, _)| path.extension().is_some());
    let all: usize = segments.map(|(_, contents)| contents.len()).sum();
    let mut disk = CountingDisk {
        disk,
        bytes: 0,
        reads: 0,
    };
    let (mut output, _) = ReadOffline::open(&mut disk, data(), LogId(7)).unwrap();
    assert!(output.report().segments > 20);
    (disk.bytes, disk.reads) = (0, 0);
    let (count, error) = read_to_the_end(&mut output, &mut disk);
    assert!(error.is_none());
    assert_eq!(count, 8_000_000);
    // Each segment's records are read at once, and its index.
    let segments = output.report().segments as u64;
    assert!(disk.reads <= 2 * segments, "{} for {segments}", disk.reads);
    let most = all as u64 * 5 / 4;
    assert!(disk.bytes <= most, "{} read of {all}", disk.bytes);
}

/// The directory of a node that was away and fetched the first half while the second was appended: from
/// segment to segment both go on.
fn caught_up_directory(length: u64, piece: u64) -> MemoryDisk {
    let mut disk = MemoryDisk::default();
    disk.directories.insert("/data".into());
    manifest().save(&mut disk, data()).unwrap();
    let (_, state) = node_directory(length, PAYLOAD_BYTES_MAX as u64);
    let checkpoint = Checkpoint {
        promised: PromisedTerm::default(),
        finishing: None,
        state,
        accepted: Vec::new(),
    };
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: checkpoint.state.next,
    };
    let mut store = Store::create(config(1, 1), &checkpoint);
    let mut kernel = Kernel::new(disk);
    let half = length / 2;
    let starts = (0..half).step_by(piece as usize);
    for (tag, from) in starts.flat_map(|from| [from, half + from]).enumerate() {
        let limit = if from < half { half } else { length };
        let range = from..(from + piece).min(limit);
        let length = (range.end - range.start) as usize;
        let buffer = content(stream(1), range);
        if store.wants_roll() {
            store.roll(&checkpoint, context);
        }
        let record = NewRecord::Bytes {
            stream: stream(1),
            position: StreamPosition(from),
            length,
            digest: digest(&buffer[RECORD_HEADER..][..length]),
            buffer,
        };
        store.append(record, context, tag as u64);
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    store.close();
    while !store.is_closed() {
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    kernel.disk
}

#[test]
fn overlapping_segments_do_not_have_their_indexes_read_for_every_record() {
    let disk = caught_up_directory(4_000_000, 9_000);
    let mut disk = CountingDisk {
        disk,
        bytes: 0,
        reads: 0,
    };
    let (mut output, _) = ReadOffline::open(&mut disk, data(), LogId(7)).unwrap();
    let segments = output.report().segments as u64;
    assert!(
        segments > 16,
        "more than there are indexes in memory: {segments}"
    );
    let files = disk.disk.files.values();
    let all: usize = files.map(|contents| contents.len()).sum();
    disk.bytes = 0;
    let (count, error) = read_to_the_end(&mut output, &mut disk);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(count, 4_000_000);
    // The output comes to each segment twice, once for either half.
    assert!(disk.bytes <= 3 * all as u64, "{} read of {all}", disk.bytes);
}

#[test]
fn damage_among_the_newest_records_is_no_shorter_output() {
    let (disk, _) = node_directory(700_000, 9_000);
    let newest = disk.files.keys().rfind(|path| path.extension().is_some());
    let newest = newest.unwrap().clone();
    let used = disk.files[&newest]
        .chunks(4096)
        .rposition(|block| block.iter().any(|byte| *byte != 0))
        .unwrap();
    let (mut hidden, mut whole) = (0, 0);
    // The last record is one that nothing acknowledged.
    for block in 1..used {
        let mut disk = disk.clone();
        disk.files.get_mut(&newest).unwrap()[block * 4096 + 50] ^= 1;
        let (mut output, _) = match ReadOffline::open(&mut disk, data(), LogId(7)) {
            Ok(opened) => opened,
            Err(error) => panic!("block {block}: {error}"),
        };
        let (count, error) = read_to_the_end(&mut output, &mut disk);
        let report = output.report();
        match error {
            Some(error) => {
                hidden += 1;
                let said = error.to_string();
                assert!(said.contains(newest.to_str().unwrap()), "{said}");
                assert!(said.contains("damaged at byte"), "{said}");
                assert!(!matches!(error, OfflineError::NotHeld { .. }), "{said}");
                assert!(output.next(&mut disk).is_err(), "an error does not pass");
            }
            None => {
                whole += 1;
                assert_eq!(count, 700_000, "block {block}: {report:?}");
            }
        }
    }
    assert!(hidden > 3, "{hidden} hidden, {whole} whole");
}

#[test]
fn a_node_that_has_yet_to_learn_what_damage_hid_returns_no_shorter_output() {
    let (mut disk, _) = node_directory(100_000, 9_000);
    // The file created ahead is empty.
    let is_written = |contents: &[u8]| contents.iter().any(|byte| *byte != 0);
    let mut segments = disk.files.iter_mut();
    let newest =
        segments.rfind(|(path, contents)| path.extension().is_some() && is_written(contents));
    let (_, contents) = newest.unwrap();
    let used = contents.chunks(4096).rposition(is_written).unwrap();
    // This is the last acceptance, before the records of closing.
    contents[(used - 1) * 4096 + 50] ^= 1;
    let (mut store, report, checkpoint) = Store::replay(config(2, 1), &mut disk).unwrap();
    assert_eq!(report.corruptions.len(), 1);
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: checkpoint.state.next,
    };
    store.roll(&checkpoint, context);
    let mut kernel = Kernel::new(disk);
    settle(&mut store, &mut kernel, Time::ZERO);
    store.close();
    while !store.is_closed() {
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    let mut disk = kernel.disk;
    let (mut output, _) = ReadOffline::open(&mut disk, data(), LogId(7)).unwrap();
    assert_eq!(output.report().corruptions, [], "it is behind a checkpoint");
    assert_eq!(output.report().learn_past, report.learn_past);
    let (_, error) = read_to_the_end(&mut output, &mut disk);
    let last = disk.files.keys().rfind(|path| path.extension().is_some());
    match error {
        Some(OfflineError::Hidden {
            path,
            offset,
            known,
            learn_past,
            ..
        }) => {
            assert_eq!(Some(&path), last);
            assert!(offset > 0 && known < learn_past);
        }
        other => panic!("{other:?}"),
    }
}

/// A record that rotted after its segment's index was written, and whose bytes a later record holds.
#[test]
fn what_was_repaired_is_no_damage_to_the_check_of_a_directory() {
    let (mut disk, _) = node_directory(700_000, 9_000);
    let mut found = None;
    for (path, contents) in disk.files.iter_mut() {
        let is_segment = path.extension().is_some_and(|extension| extension == "seg");
        for block in contents.chunks_mut(4096).filter(|_| is_segment) {
            let Ok((header, _, _)) = RecordHeader::decode(block, None) else {
                continue;
            };
            if found.is_none() && header.kind == RecordKind::Accept && header.bytes().is_some() {
                block[RECORD_HEADER] ^= 1;
                found = Some(header);
            }
        }
    }
    let rotten = found.expect("an acceptance of bytes");
    let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
    assert_eq!(report.problems.len(), 1, "{:?}", report.problems);
    let (mut store, _, checkpoint) = Store::replay(config(2, 1), &mut disk).unwrap();
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: checkpoint.state.next,
    };
    store.roll(&checkpoint, context);
    let bytes = rotten.bytes().unwrap();
    let buffer = content(rotten.stream, bytes.clone());
    let length = (bytes.end - bytes.start) as usize;
    let record = NewRecord::Bytes {
        stream: rotten.stream,
        position: StreamPosition(bytes.start),
        length,
        digest: digest(&buffer[RECORD_HEADER..][..length]),
        buffer,
    };
    store.append(record, context, 1);
    let mut kernel = Kernel::new(disk);
    settle(&mut store, &mut kernel, Time::ZERO);
    store.close();
    while !store.is_closed() {
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    let report = verify(&mut kernel.disk, data(), &mut |_, _| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert!(report.logs[0].rested);
    let repaired: u64 = report.logs.iter().map(|log| log.repaired).sum();
    assert_eq!(repaired, 1);
}

#[test]
fn a_segment_missing_in_the_middle_is_said_to_be_missing() {
    let (disk, _) = node_directory(700_000, 9_000);
    let segments = disk.files.keys().filter(|path| path.extension().is_some());
    let segments: Vec<PathBuf> = segments.cloned().collect();
    assert!(segments.len() > 4);
    for (at, gone) in segments.iter().enumerate().skip(1).take(segments.len() - 2) {
        let mut disk = disk.clone();
        disk.files.remove(gone);
        let opened = ReadOffline::open(&mut disk, data(), LogId(7));
        let said = opened.err().unwrap().to_string();
        assert!(
            said.contains(&format!("segment {} is missing", at + 1)),
            "{said}"
        );
        let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
        let [problem] = &report.problems[..] else {
            panic!("the others are sound: {:?}", report.problems);
        };
        assert!(problem.missing);
        assert_eq!(&problem.file, gone);
        assert!(
            problem
                .what
                .contains(&format!("segment {} is missing", at + 1))
        );
    }
    let mut disk = disk;
    disk.files.remove(&segments[1]);
    disk.files.remove(&segments[2]);
    let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
    let what = &report.problems[0].what;
    assert!(what.contains("segments 2 to 3 are missing"), "{what}");
}

#[test]
fn a_sound_directory_is_verified_to_the_last_record() {
    let (mut disk, state) = node_directory(500_000, 20_000);
    disk.files.insert("/data/log-7/notes".into(), vec![1]);
    let mut last = (0, 0);
    let report = verify(&mut disk, data(), &mut |done, all| last = (done, all)).unwrap();
    assert!(report.is_sound(), "{:?}", report.problems);
    assert_eq!(last.0, last.1);
    assert_eq!(report.unknown, [PathBuf::from("/data/log-7/notes")]);
    let log = &report.logs[0];
    assert_eq!(log.name.as_deref(), Some("orders"));
    assert_eq!(log.held_bytes, 500_000);
    assert_eq!(log.streams[0].held, [(0, 500_000)]);
    assert_eq!(log.accepted_terms, ["0.1.1"]);
    assert_eq!(log.first_unchosen, state.next.0);
    assert!(log.torn_tail.is_none());
    assert!(
        serde_json::to_string(&report)
            .unwrap()
            .contains("\"held\":[[0,500000]]")
    );
}

#[test]
fn verify_finds_every_bad_block_that_recovery_would_not_read() {
    let (disk, _) = node_directory(200_000, 9_000);
    let mut found = 0;
    let mut harmless = 0;
    let segments = disk.files.keys().filter(|path| path.extension().is_some());
    for path in segments {
        let blocks = disk.files[path].len() / 4096;
        for block in 0..blocks {
            let mut disk = disk.clone();
            disk.files.get_mut(path).unwrap()[block * 4096 + 150] ^= 1;
            let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
            match report.is_sound() {
                true => harmless += 1,
                false => {
                    found += 1;
                    assert!(report.problems.iter().any(|problem| &problem.file == path));
                }
            }
        }
    }
    // Harmless are only blocks that no record uses, and the last record, which nothing acknowledged.
    assert!(
        found > 40 && harmless < found,
        "{found} found, {harmless} harmless"
    );
}

#[test]
fn a_listed_log_without_its_directory_is_a_lost_disk() {
    let mut disk = MemoryDisk::default();
    disk.directories.insert("/data".into());
    manifest().save(&mut disk, data()).unwrap();
    let error = Manifest::load(&mut disk, data()).unwrap_err();
    assert!(matches!(error, ManifestError::LostLog { .. }));
    assert!(error.to_string().contains("join again as a new one"));
    let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
    assert!(!report.is_sound());
}

#[test]
fn a_manifest_comes_back_and_damage_is_not_taken_for_a_new_directory() {
    let mut disk = MemoryDisk::default();
    assert!(Manifest::load(&mut disk, data()).unwrap().is_none());
    disk.create_directory(Path::new("/data/log-7")).unwrap();
    let missing = Manifest::load(&mut disk, data()).unwrap_err();
    assert!(matches!(missing, ManifestError::Missing(_)));
    match manifest().write(data(), Token(1)) {
        Op::WriteFile { path, contents, .. } => disk.write_file(&path, &contents).unwrap(),
        other => panic!("{other:?}"),
    }
    assert_eq!(Manifest::load(&mut disk, data()).unwrap(), Some(manifest()));

    let path = PathBuf::from("/data/manifest");
    let sound = disk.files[&path].clone();
    for at in 0..sound.len() {
        disk.files.get_mut(&path).unwrap()[at] ^= 1;
        let error = Manifest::load(&mut disk, data()).unwrap_err();
        let refused = matches!(
            error,
            ManifestError::Damaged { .. } | ManifestError::Version { .. }
        );
        assert!(refused, "byte {at}: {error}");
        disk.files.get_mut(&path).unwrap().truncate(at);
        assert!(Manifest::load(&mut disk, data()).is_err());
        disk.files.insert(path.clone(), sound.clone());
    }
}

#[test]
fn golden_manifest() {
    let golden = include_str!("../../testdata/manifest");
    assert_eq!(String::from_utf8(manifest().encode()).unwrap(), golden);
}

#[test]
fn a_manifest_of_a_newer_program_says_what_to_start() {
    let newer = Manifest {
        version: 3,
        ..manifest()
    };
    let path = Path::new("manifest");
    let error = Manifest::parse(Speaks::THIS, &newer.encode(), path).unwrap_err();
    let sentence = error.to_string();
    assert!(sentence.contains("start a newer program"), "{sentence}");
    let speaks = "1-3".parse().unwrap();
    let read = Manifest::parse(speaks, &newer.encode(), path).unwrap();
    assert_eq!(read, newer);
}

#[test]
fn many_segments_are_read_with_few_files_and_indexes() {
    let (disk, _) = node_directory(8_000_000, PAYLOAD_BYTES_MAX as u64);
    let mut disk = disk;
    let (mut store, report, checkpoint) = Store::replay(config(2, 1), &mut disk).unwrap();
    assert!(report.segments > 20, "{}", report.segments);
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: checkpoint.state.next,
    };
    store.roll(&checkpoint, context);
    let mut kernel = Kernel::new(disk);
    let mut random = Random(3);
    let mut asked = 0;
    let mut answered = 0;
    for _ in 0..2_000 {
        for _ in 0..random.below(40) {
            let position = random.below(8_000_000);
            let buffer = Buffer::new(BATCH_BUFFER);
            store.read(
                position,
                stream(1),
                StreamPosition(position),
                buffer,
                reach(1),
            );
            asked += 1;
        }
        while let Some(op) = store.poll_op() {
            kernel.submit(op);
        }
        assert!(
            kernel.open_files() <= 16 + 2,
            "for reading, and for writing"
        );
        for _ in 0..random.below(60) {
            if let Some(completion) = kernel.complete_any(&mut random) {
                store.on_completion(Time::ZERO, completion);
            }
        }
        while let Some(event) = store.poll_event() {
            if let StoreEvent::Read {
                ticket,
                buffer,
                result,
            } = event
            {
                let payload = &buffer[result.unwrap().payload];
                assert_eq!(payload[0], byte(stream(1), ticket));
                answered += 1;
            }
        }
        if asked > 3_000 {
            break;
        }
    }
    settle(&mut store, &mut kernel, Time::ZERO);
    while let Some(event) = store.poll_event() {
        answered += u64::from(matches!(event, StoreEvent::Read { .. }));
    }
    assert_eq!(asked, answered);
}

#[test]
fn another_disk_of_the_same_node_is_refused() {
    let (mut disk, _) = node_directory(10, 10);
    let mut copied = manifest();
    copied.identity.disk = DiskId([0xaa; 16]);
    copied.save(&mut disk, data()).unwrap();
    let error = ReadOffline::open(&mut disk, data(), LogId(7))
        .err()
        .unwrap();
    assert!(error.to_string().contains("another disk"), "{error}");
}

/// Every block is lost in every way: the check of a directory says of the start what the start does.
#[test]
fn verify_and_the_start_agree_on_every_damaged_block() {
    let (disk, _) = node_directory(120_000, 9_000);
    let segments = disk.files.keys().filter(|path| path.extension().is_some());
    let segments: Vec<PathBuf> = segments.cloned().collect();
    let mut refused = 0;
    let mut damaged = 0;
    for path in &segments {
        for block in 0..disk.files[path].len() / BLOCK {
            for way in 0..4 {
                let mut disk = disk.clone();
                let contents = disk.files.get_mut(path).unwrap();
                match way {
                    0 => contents[block * BLOCK..][..BLOCK].fill(0),
                    1 => contents[block * BLOCK + 9] ^= 1,
                    2 => contents.truncate(block * BLOCK),
                    _ => {
                        _ = disk
                            .unreadable
                            .insert((path.clone(), (block * BLOCK) as u64))
                    }
                }
                let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
                damaged += u64::from(!report.is_sound());
                match Store::replay(config(9, 1), &mut disk) {
                    Ok((store, recovered, _)) => {
                        assert!(report.starts(), "{:?}", report.problems);
                        let log = &report.logs[0];
                        assert_eq!(
                            Some(log.learn_past).filter(|l| *l > 0),
                            recovered.learn_past.map(|s| s.0)
                        );
                        assert_eq!(log.promised, recovered.promised.0.to_string());
                        // An index vouches for what is rotten below it.
                        assert!(log.held_bytes <= store.holdings().bytes());
                    }
                    Err(error) => {
                        refused += 1;
                        let [problem] = &report.problems[..] else {
                            panic!("{error}: {:?}", report.problems);
                        };
                        assert!(problem.refused);
                        let said = error.to_string();
                        assert!(said.contains(&problem.what), "{said} / {}", problem.what);
                    }
                }
            }
        }
    }
    assert!(refused > 0 && damaged > 20, "{refused} {damaged}");
}

/// The newest segment that is written to.
fn newest_segment(disk: &MemoryDisk) -> PathBuf {
    let is_written = |contents: &[u8]| contents.iter().any(|byte| *byte != 0);
    let mut segments = disk.files.iter();
    let newest =
        segments.rfind(|(path, contents)| path.extension().is_some() && is_written(contents));
    newest.expect("there is one").0.clone()
}

/// A start from the directory, which is stopped again: it seals what was there.
fn start_and_stop(mut disk: MemoryDisk, salt_seed: u64) -> MemoryDisk {
    let (mut store, _, checkpoint) = Store::replay(config(salt_seed, 1), &mut disk).unwrap();
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: checkpoint.state.next,
    };
    store.roll(&checkpoint, context);
    let mut kernel = Kernel::new(disk);
    settle(&mut store, &mut kernel, Time::ZERO);
    store.close();
    while !store.is_closed() {
        settle(&mut store, &mut kernel, Time::ZERO);
    }
    kernel.disk
}

/// The first block is in no other place, and all else of the segment can be read without it.
#[test]
fn a_first_block_that_rots_is_damage_until_the_next_start_has_sealed_its_segment() {
    let (disk, _) = node_directory(100_000, 9_000);
    let newest = newest_segment(&disk);
    for at in (0..BLOCK).step_by(13) {
        let mut disk = disk.clone();
        disk.files.get_mut(&newest).unwrap()[at] ^= 1 << (at % 8);
        let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
        let [problem] = &report.problems[..] else {
            panic!("byte {at}: {:?}", report.problems);
        };
        assert_eq!((&problem.file, problem.offset), (&newest, 0));
        assert!(report.starts() && report.logs[0].torn_tail.is_none());
        if at % 64 == 0 {
            let mut disk = start_and_stop(disk, 2);
            let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
            assert!(report.is_sound(), "byte {at}: {:?}", report.problems);
            assert_eq!(report.logs[0].repaired, 1, "byte {at}");
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(256))]

    /// The check of a directory, a start, and what reads a stopped node's output (`recover`, `doctor`) judge by
    /// one function.
    #[test]
    fn every_judge_says_the_same_of_a_bit_that_flips(
        length in 0u64..200_000,
        at in proptest::prelude::any::<proptest::sample::Index>(),
        bit in 0u32..8,
        starts in 0u64..3,
    ) {
        let (mut disk, _) = node_directory(length, 9_000);
        for start in 0..starts {
            disk = start_and_stop(disk, 2 + start);
        }
        let newest = newest_segment(&disk);
        let contents = disk.files.get_mut(&newest).unwrap();
        let at = at.index(contents.len());
        contents[at] ^= 1 << bit;
        let told = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
        let read = ReadOffline::open(&mut disk, data(), LogId(7));
        match Store::replay(config(9, 1), &mut disk) {
            Ok((_, started, _)) => {
                proptest::prop_assert!(told.starts(), "{:?}", told.problems);
                let places: Vec<_> = told.problems.iter().map(|one| (&one.file, one.offset)).collect();
                let found = started.corruptions.iter().map(|one| (&one.path, one.from));
                proptest::prop_assert_eq!(places, found.collect::<Vec<_>>());
                let torn = told.logs[0].torn_tail.as_ref();
                let torn = torn.map(|place| (place.file.clone(), place.offset));
                // A file that was made ahead, and in which nothing stands, is put aside without a word.
                if started.quarantined.is_empty() {
                    proptest::prop_assert_eq!(&torn, &started.torn);
                }
                let (output, _) = read.expect("a start can read it");
                proptest::prop_assert_eq!(&output.report().corruptions, &started.corruptions);
                if at < BLOCK {
                    proptest::prop_assert!(!told.is_sound() && torn.is_none());
                }
            }
            Err(error) => {
                proptest::prop_assert!(!told.starts(), "{error}");
                proptest::prop_assert!(read.is_err());
            }
        }
    }
}

#[test]
fn the_first_segments_missing_with_bytes_that_nobody_trimmed_is_a_problem() {
    let (mut disk, _) = node_directory(300_000, 9_000);
    disk.files
        .remove(Path::new("/data/log-7/0000000000000001.seg"));
    let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
    assert!(report.starts() && !report.is_sound());
    let problem = &report.problems[0];
    assert!(
        problem.missing && problem.what.contains("not trimmed: 0.."),
        "{problem:?}"
    );
    assert_eq!(report.logs[0].lacks[0].held[0].0, 0);
}

/// A cut between two records leaves nothing half written: only the mark of rest is gone.
#[test]
fn a_cut_tail_is_not_called_a_log_at_rest() {
    let (disk, _) = node_directory(20_000, 9_000);
    let report = verify(&mut disk.clone(), data(), &mut |_, _| {}).unwrap();
    assert!(report.logs[0].rested);
    let written = |block: &[u8]| block.iter().any(|byte| *byte != 0);
    let is_segment = |path: &Path| path.extension().is_some_and(|e| e == "seg");
    let mut segments = disk.files.iter().filter(|(path, _)| is_segment(path));
    let newest = segments.rfind(|(_, bytes)| written(bytes)).unwrap();
    let newest = newest.0.clone();
    let last = disk.files[&newest]
        .chunks(BLOCK)
        .rposition(written)
        .unwrap();
    for cut in [last, last - 1] {
        let mut disk = disk.clone();
        disk.files.get_mut(&newest).unwrap().truncate(cut * BLOCK);
        let report = verify(&mut disk, data(), &mut |_, _| {}).unwrap();
        assert!(report.starts() && !report.logs[0].rested);
    }
}

/// A successor's head is written to the same disk.
#[test]
fn a_disk_that_gives_no_head_back_gets_one_successor_and_not_one_with_each_check() {
    let mut disk = MemoryDisk::default();
    disk.directories.insert("/data".into());
    manifest().save(&mut disk, data()).unwrap();
    let checkpoint = first_checkpoint();
    let context = RecordContext {
        promised: checkpoint.promised,
        first_unchosen: checkpoint.state.next,
    };
    let mut store = Store::create(config(1, 1), &checkpoint);
    let mut kernel = Kernel::new(disk);
    settle(&mut store, &mut kernel, Time::ZERO);
    let mut rolls = Vec::new();
    for second in 1..10 {
        // The disk is well for a moment, and then no more.
        kernel.fail_reads = (second != 5).then_some(EIO);
        let now = Time::from_micros(second * 1_000_000);
        store.check_head(now);
        settle(&mut store, &mut kernel, now);
        if store.wants_roll() {
            rolls.push(second);
            store.roll(&checkpoint, context);
            settle(&mut store, &mut kernel, now);
        }
    }
    assert_eq!(rolls, [1, 6], "the seconds in which a segment was begun");
}

/// All that a start needs stands there, and nobody reads it before.
#[test]
fn a_rotten_head_of_the_only_segment_has_a_successor_before_a_start_needs_it() {
    for (streams, at) in [(0, 100), (0, BLOCK + 100), (90, BLOCK + 9_000)] {
        let mut disk = MemoryDisk::default();
        disk.directories.insert("/data".into());
        manifest().save(&mut disk, data()).unwrap();
        let mut checkpoint = first_checkpoint();
        for counter in 0..streams {
            let open = Action::OpenStream(OpenStream {
                stream: stream(counter + 1),
                label: "a label of some length, so that the checkpoint has several blocks "
                    .repeat(3),
                metadata: Vec::new(),
                continues: None,
            });
            let next = checkpoint.state.next;
            let slots = SlotRange::new(next, Slot(next.0 + 1));
            checkpoint
                .state
                .apply(slots, &Value::Action(Arc::new(open)));
        }
        let context = RecordContext {
            promised: checkpoint.promised,
            first_unchosen: checkpoint.state.next,
        };
        let mut store = Store::create(config(1, 1), &checkpoint);
        let mut kernel = Kernel::new(disk);
        settle(&mut store, &mut kernel, Time::ZERO);
        store.check_head(Time::from_micros(1));
        settle(&mut store, &mut kernel, Time::from_micros(1));
        assert!(!store.wants_roll(), "a sound head");

        let only = Path::new("/data/log-7/0000000000000001.seg");
        kernel.disk.files.get_mut(only).expect("a segment")[at] ^= 1;
        let report = verify(&mut kernel.disk.clone(), data(), &mut |_, _| {}).unwrap();
        assert!(!report.is_sound());

        store.check_head(Time::from_micros(2_000_000));
        settle(&mut store, &mut kernel, Time::from_micros(2_000_001));
        assert!(store.wants_roll(), "{streams} streams, byte {at}");
        store.roll(&checkpoint, context);
        assert!(!store.wants_roll(), "once");
        store.close();
        while !store.is_closed() {
            settle(&mut store, &mut kernel, Time::from_micros(2_000_002));
        }
        let report = verify(&mut kernel.disk, data(), &mut |_, _| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.problems);
    }
}
