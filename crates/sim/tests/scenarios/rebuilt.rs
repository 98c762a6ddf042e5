//! A witness that believes no host: it rebuilds a machine's state from the chosen bytes of the log alone, and holds every
//! shelf to it.
//!
//! ```text
//!  records that nodes write ─ bytes of streams ─┐
//!  views of nodes ─ which of them are chosen ───┴▶ frames 1, 2, 3 … ─▶ rows after each of them
//!                                                                        ║ the same?
//!  shelves ─ after each batch, as a crash left them, as they are shown to readers
//! ```
//!
//! The rows are a map to which the writes of one frame after the other are applied. Records are seen when they are written,
//! so the log is known from its first byte, however much of it is trimmed since. What is held to it:
//!
//! - frames are numbered without a gap, their time never goes back, and the positions of streams mean the same for ever;
//! - a shelf is the state after exactly the frames that its position names, after each batch and after each crash. While a
//!   copy is under way that holds of the rows that are copied, as the copying lemma says (`host::group::copying`);
//! - a replica that calls its state whole, or durable to a position, has it so;
//! - what is trimmed once stood durably in whole states that are a quorum;
//! - what was answered is chosen, once, and a reader is shown the rows of one frame, and no frame older than his question.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use door::Door;
use formats::record::{RecordHeader, RecordKind};
use formats::{LogId, RECORD_HEADER};
use host::{COPY_ROW, Decoder, FILL_ROW, Frame, Host, View};
use node::Node;
use ops::{Op, Time};
use paxos::{LogState, NodeId, Slot, StreamName};
use shelf::{
    Applied, Batch, Figures, Identity, Media, Memory, PageBounds, Shelf, ShelfError, Snapshot,
    Write,
};
use sim::{HostId, World};

use crate::stage::Stage;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Clones are the same witness.
#[derive(Clone)]
pub struct Rebuilt(Arc<Mutex<Known>>);

struct Known {
    name: &'static str,
    seed: u64,
    /// The bytes that nodes wrote, of all logs.
    written: BTreeMap<(LogId, StreamName), Bytes>,
    output: Output,
    /// The shelf of each node that was opened last.
    opened: BTreeMap<usize, Opened>,
    /// The greatest position at which the whole state of each was ever durable.
    stood: BTreeMap<usize, u64>,
    /// Ids are given in the order in which nodes join.
    nodes: BTreeMap<NodeId, usize>,
    trimmed: u64,
    /// By node: the state that its readers were shown last.
    shown: BTreeMap<usize, Moment>,
    /// The contradictions that were seen where nobody may panic: on a lane, in a caller's reply.
    findings: Vec<String>,
    /// A test damages a state on purpose.
    expects_findings: bool,
    compared: u64,
}

struct Opened {
    identity: Identity,
    media: Media,
    shelf: Weak<Witnessed>,
}

/// Bytes of a stream, by their positions.
#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    is_there: Vec<bool>,
}

/// The chosen output of the log.
#[derive(Default)]
struct Output {
    /// Streams in the order in which they were opened, with the positions of the output at which they begin.
    streams: Vec<(StreamName, u64)>,
    /// So many bytes of the last stream are taken.
    taken: u64,
    decoder: Decoder,
    /// The time of the world, and the one at which each frame was first known to be chosen.
    now: Time,
    times: Vec<Time>,
    /// Each frame, and what a shelf says of itself that has applied it last.
    frames: Vec<(Applied, Frame)>,
    /// The state after all of them.
    rows: Moment,
    /// By key: how many of them put it.
    puts: BTreeMap<Vec<u8>, u32>,
}

/// The state after so many frames.
#[derive(Default)]
struct Moment {
    frames: usize,
    rows: Rows,
}

impl Rebuilt {
    /// Watches the log of that name from its first byte on: it is not created yet.
    pub fn watch(stage: &mut Stage, name: &'static str) -> Rebuilt {
        let witness = Rebuilt(Arc::new(Mutex::new(Known {
            name,
            seed: stage.world.seed(),
            written: BTreeMap::new(),
            output: Output::default(),
            opened: BTreeMap::new(),
            stood: BTreeMap::new(),
            nodes: BTreeMap::new(),
            trimmed: 0,
            shown: BTreeMap::new(),
            findings: Vec::new(),
            expects_findings: false,
            compared: 0,
        })));
        let hears = witness.clone();
        stage.world.before_op(move |_, _, op| {
            if let Op::Write { slices, .. } = op {
                let mut known = hears.lock();
                slices.iter().for_each(|slice| known.on_written(slice));
            }
        });
        for (index, host) in stage.nodes.clone().into_iter().enumerate() {
            let sees = witness.clone();
            let mut next = Slot(0);
            stage.world.after_step(move |world| {
                let Some(node) = world.machine::<Node>(host) else {
                    return;
                };
                let mut views = node.log_views();
                if let Some(view) = views.find(|view| view.name == name)
                    && view.state.next != next
                {
                    next = view.state.next;
                    let mut known = sees.lock();
                    known.nodes.insert(node.id(), index);
                    known.output.now = world.now();
                    known.follow(view.id, view.state);
                }
            });
        }
        witness
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shelf over these media, whose every batch is compared. It is compared as it is found, too.
    pub fn open(
        &self,
        node: usize,
        media: &Media,
        identity: Identity,
    ) -> Result<Arc<dyn Shelf>, ShelfError> {
        let shelf = Arc::new(Witnessed {
            node,
            inner: Arc::new(Memory::open(media, identity)?),
            media: media.clone(),
            moment: Mutex::default(),
            witness: self.clone(),
        });
        let opened = Opened {
            identity,
            media: media.clone(),
            shelf: Arc::downgrade(&shelf),
        };
        self.lock().opened.insert(node, opened);
        shelf.compare("as it was opened");
        Ok(shelf)
    }

    /// The frames that are chosen by now.
    pub fn frames(&self) -> u64 {
        self.lock().output.frames.len() as u64
    }

    /// The number of rows after all of them.
    pub fn rows(&self) -> usize {
        self.lock().output.rows.rows.len()
    }

    /// A row of the machine, after all of them.
    pub fn row(&self, key: &str) -> Option<String> {
        let known = self.lock();
        let row = known.output.rows.rows.get(&tagged(key));
        row.map(|row| text(row))
    }

    /// The number of frames that put this row of the machine.
    pub fn times_put(&self, key: &str) -> u32 {
        let known = self.lock();
        known.output.puts.get(&tagged(key)).copied().unwrap_or(0)
    }

    /// Looks at each frame in turn: its number, the values that it put in rows of names (`name/…`), and the machine's rows after it.
    pub fn each_frame(&self, mut look: impl FnMut(u64, &[String], &BTreeMap<String, String>)) {
        let known = self.lock();
        let mut rows = BTreeMap::new();
        let mut moment = Moment::default();
        for (index, (applied, frame)) in known.output.frames.iter().enumerate() {
            moment.go_to(&known.output.frames, index + 1);
            let mut names = Vec::new();
            for write in &frame.writes {
                let key = match write {
                    Write::Put { key, .. } | Write::Delete { key } => key,
                    Write::Forget { prefix } => {
                        let prefix = prefix.strip_prefix(TAG).map(text);
                        let prefix = prefix.expect("the host forgets none of its own");
                        rows.retain(|key: &String, _| !key.starts_with(&prefix));
                        continue;
                    }
                };
                let key_of_machine = key.strip_prefix(TAG).map(text);
                let Some(key_of_machine) = key_of_machine else {
                    continue;
                };
                match moment.rows.get(key) {
                    Some(value) => {
                        let value = text(value);
                        if key_of_machine.starts_with("name/") {
                            names.push(value.clone());
                        }
                        rows.insert(key_of_machine, value);
                    }
                    None => _ = rows.remove(&key_of_machine),
                }
            }
            look(applied.frame, &names, &rows);
        }
    }

    /// All frames that are chosen by now, and the times at which that was first known.
    pub fn all_frames(&self) -> (Vec<Frame>, Vec<Time>) {
        let known = self.lock();
        let frames = known.output.frames.iter();
        let frames = frames.map(|(_, frame)| frame.clone()).collect();
        (frames, known.output.times.clone())
    }

    /// How often a state was compared.
    pub fn compared(&self) -> u64 {
        self.lock().compared
    }

    /// A command is answered now that wrote this entry of a list, or the whole, in this row of the machine.
    pub fn on_answered(&self, key: &str, entry: &str) {
        let row = self.row(key).unwrap_or_default();
        if row.split(',').all(|other| other != entry) {
            let finding = format!("{entry} is answered, and chosen is {key} = {row:?}");
            self.lock().findings.push(finding);
        }
    }

    /// A reader at that node asked when so many frames were chosen, and is shown this.
    pub fn on_shown(&self, node: usize, asked_at: u64, view: &View<'_>) {
        let page = view.prefix(b"", usize::MAX);
        let shown: Rows = page
            .expect("memory does not fail")
            .rows
            .into_iter()
            .collect();
        let mut known = self.lock();
        let mut moment = known.shown.remove(&node).unwrap_or_default();
        let found = known.compare_shown(asked_at, view.frame(), &shown, &mut moment);
        known.shown.insert(node, moment);
        if let Err(what) = found {
            let finding = format!("a reader at node {} was shown {what}", node + 1);
            known.findings.push(finding);
        }
    }

    /// All rows of the machine were saved, as of that frame, by who asked when so many frames were chosen.
    pub fn on_saved(&self, asked_at: u64, frame: u64, rows: &BTreeMap<Vec<u8>, Vec<u8>>) {
        let mut known = self.lock();
        if let Err(what) = known.compare_shown(asked_at, frame, rows, &mut Moment::default()) {
            known.findings.push(format!("saved is {what}"));
        }
    }

    /// The frames that wrote something while a restore was under way, and were no part of it.
    pub fn written_beside_a_restore(&self) -> usize {
        let known = self.lock();
        let mut moment = Moment::default();
        let frames = known.output.frames.iter().enumerate();
        let beside = frames.filter(|(index, (_, frame))| {
            moment.go_to(&known.output.frames, *index);
            let is_of_it = frame.writes.iter().any(|write| match write {
                Write::Put { key, .. } => key == FILL_ROW,
                Write::Delete { .. } | Write::Forget { .. } => false,
            });
            is_open(&moment.rows) && !is_of_it
        });
        beside.count()
    }

    /// The node has crashed: compares what is left of its state.
    pub fn on_crashed(&self, node: usize) {
        self.compare_durable(node, "as a crash left it");
    }

    /// Holds what is said of states to what they are, and panics at all that was found by now.
    pub fn check(&self, stage: &Stage, hosts: &[HostId]) {
        let known = self.lock();
        let seed = known.seed;
        for (index, host) in hosts.iter().enumerate() {
            let Some(opened) = known.opened.get(&index) else {
                continue;
            };
            let name = format!("seed {seed}: node {}", index + 1);
            let mut groups = host_of(&stage.world, *host)
                .into_iter()
                .flat_map(Host::groups);
            let is_whole = groups.any(|group| group.name() == known.name && group.is_whole());
            let shelf = opened.shelf.upgrade();
            assert!(
                !(is_whole && shelf.is_some_and(|shelf| shelf.is_copy())),
                "{name} calls its state whole while it is copied"
            );
            let look = stage.look();
            let stand = look
                .view_of(index, known.name)
                .and_then(|view| view.stand());
            if let Some(stand) = stand.filter(|stand| stand.is_whole) {
                let durable = opened.media.durable().position;
                assert!(
                    durable >= stand.durable && !opened.media.has(COPY_ROW),
                    "{name} says {stand:?}, and durable is {durable}, or a part of a copy"
                );
            }
        }
        assert!(
            known.findings.is_empty() || known.expects_findings,
            "seed {seed}: {}",
            known.findings.join("\n")
        );
    }

    /// From now on a state is wrong on purpose.
    pub fn expect_findings(&self) {
        self.lock().expects_findings = true;
    }

    /// All that was found since, and none is expected any more.
    pub fn take_findings(&self) -> String {
        let mut known = self.lock();
        known.expects_findings = false;
        std::mem::take(&mut known.findings).join("\n")
    }

    /// Whether these nodes have applied all that is chosen, and none copies a state.
    pub fn has_come_to_all(&self, nodes: &[usize]) -> bool {
        let known = self.lock();
        let frames = known.output.frames.len() as u64;
        let has_all = |shelf: &Witnessed| !shelf.is_copy() && shelf.applied().frame == frames;
        nodes.iter().all(|node| {
            let opened = known.opened.get(node);
            let shelf = opened.and_then(|opened| opened.shelf.upgrade());
            shelf.is_some_and(|shelf| has_all(&shelf))
        })
    }

    /// All is calm: these nodes have applied all that is chosen, and what is durable there is a state, too.
    pub fn judge(&self, nodes: &[usize]) {
        let seed = self.lock().seed;
        for node in nodes {
            let name = format!("seed {seed}: node {}", node + 1);
            assert!(
                self.has_come_to_all(&[*node]),
                "{name} has not come to its log's end"
            );
            let opened = self
                .lock()
                .opened
                .get(node)
                .map(|opened| opened.shelf.clone());
            if let Some(shelf) = opened.and_then(|shelf| shelf.upgrade()) {
                shelf.compare("in the end");
            }
            self.compare_durable(*node, "durable in the end");
        }
        let known = self.lock();
        let found = known.findings.join("\n");
        assert!(found.is_empty(), "seed {}: {found}", known.seed);
    }

    fn compare_durable(&self, node: usize, when: &str) {
        let opened = {
            let known = self.lock();
            let opened = known.opened.get(&node);
            opened.map(|opened| (opened.media.clone(), opened.identity))
        };
        // Damaged media are no state, and whoever opens them is told so.
        if let Some((media, identity)) = opened
            && let Ok(shelf) = Memory::open(&media, identity)
        {
            self.compare(node, when, &shelf, &mut Moment::default());
        }
    }

    fn compare(&self, node: usize, when: &str, shelf: &Memory, moment: &mut Moment) {
        let snapshot = shelf.snapshot();
        let page = snapshot.scan(Bound::Unbounded, Bound::Unbounded, ALL);
        let rows: Rows = page
            .expect("memory does not fail")
            .rows
            .into_iter()
            .collect();
        let mut known = self.lock();
        known.compared += 1;
        if let Err(what) = known.compare(snapshot.applied(), rows, moment) {
            let finding = format!("the state of node {}, {when}: {what}", node + 1);
            known.findings.push(finding);
        }
    }

    /// The media of a node hold more than before.
    fn on_flushed(&self, node: usize, media: &Media) {
        if !media.has(COPY_ROW) {
            let mut known = self.lock();
            let stood = known.stood.entry(node).or_default();
            *stood = media.durable().position.max(*stood);
        }
    }
}

/// The host of a node, alone or behind a door.
fn host_of(world: &World, id: HostId) -> Option<&Host> {
    let door = || world.machine::<Door>(id).map(Door::host);
    world.machine::<Host>(id).or_else(door)
}

const ALL: PageBounds = PageBounds {
    rows_max: usize::MAX,
    bytes_max: usize::MAX,
};

impl Known {
    fn on_written(&mut self, slice: &[u8]) {
        let Ok((header, _, _)) = RecordHeader::decode(slice, None) else {
            return;
        };
        let payload = slice.get(RECORD_HEADER..RECORD_HEADER + header.payload_length as usize);
        if let (Some(bytes), Some(payload)) = (header.bytes(), payload)
            && header.kind != RecordKind::Lost
        {
            let stream = (header.log, header.stream);
            let written = self.written.entry(stream).or_default();
            let is_same = written.put(bytes.start as usize, payload);
            let seed = self.seed;
            assert!(
                is_same,
                "seed {seed}: {stream:?} has two bytes in {bytes:?}"
            );
        }
    }

    /// A node takes this for chosen.
    fn follow(&mut self, log: LogId, state: &LogState) {
        let Known {
            seed,
            output,
            written,
            ..
        } = self;
        let first = state.streams_trimmed.count as usize;
        let begins = output.begin_of(first);
        assert_eq!(
            begins,
            Some(state.streams_trimmed.bytes),
            "seed {seed}: {first} streams were trimmed, and nobody was seen to choose them so"
        );
        for (index, stream) in (first..).zip(&state.streams) {
            if index == output.streams.len() {
                output.begin(stream.name);
            }
            let (name, begin) = output.streams[index];
            assert_eq!(
                name, stream.name,
                "seed {seed}: stream {index} has two names"
            );
            let is_last_here = index + 1 == first + state.streams.len();
            if index + 1 < output.streams.len() {
                let end = output.streams[index + 1].1;
                let length = stream.length.0;
                assert!(
                    begin + length == end || is_last_here && begin + length < end,
                    "seed {seed}: {name} has {length} bytes, and another had {}",
                    end - begin
                );
            } else if stream.length.0 > output.taken {
                let of_stream = written.get(&(log, name));
                let bytes = of_stream.and_then(|bytes| bytes.get(output.taken..stream.length.0));
                let Some(bytes) = bytes else {
                    panic!(
                        "seed {seed}: {name} is chosen to {}, and nobody wrote that",
                        stream.length
                    );
                };
                output.take(*seed, name, bytes);
            }
        }
        self.check_trim(state);
    }

    /// All that is trimmed once stood in whole, durable states that are a quorum.
    fn check_trim(&mut self, state: &LogState) {
        let trimmed = replica::forgotten_bytes(state);
        if trimmed <= self.trimmed {
            return;
        }
        self.trimmed = trimmed;
        let configuration = &state.configuration;
        let stood = |node: NodeId| {
            let index = self.nodes.get(&node);
            let stood = index.and_then(|index| self.stood.get(index));
            stood.is_some_and(|stood| *stood >= trimmed)
        };
        let is_held =
            configuration.is_quorum(|node| stood(node) && !configuration.is_auxiliary(node));
        assert!(
            is_held,
            "seed {}: the log is trimmed to {trimmed}, and states stood durably at {:?} alone",
            self.seed, self.stood
        );
    }

    /// Errors: a sentence about how this is not the state that it says it is.
    fn compare(&self, applied: Applied, mut rows: Rows, moment: &mut Moment) -> Result<(), String> {
        let frames = &self.output.frames;
        let count = self.output.count_at(applied.position)?;
        let expected = count
            .checked_sub(1)
            .map_or(Applied::default(), |last| frames[last].0);
        if applied != expected {
            return Err(format!("it says {applied:?}, and stands at {expected:?}"));
        }
        moment.go_to(frames, count);
        match rows.remove(COPY_ROW) {
            None => same(&moment.rows, &rows, applied),
            Some(row) => self.compare_copy(count, &row, &rows, &moment.rows),
        }
    }

    /// ‡ Each row behind the cursor is the original's as of some position between the applied one and the greatest at which
    /// a piece was read. `now`: the state at the applied one, after so many frames.
    fn compare_copy(
        &self,
        count: usize,
        row: &[u8],
        rows: &Rows,
        now: &Rows,
    ) -> Result<(), String> {
        let Some(([1, read_at @ .., is_read, has_cursor], cursor)) = row.split_first_chunk::<11>()
        else {
            return Err(format!("its copy's row makes no sense: {row:?}"));
        };
        let until = self.output.count_at(u64::from_le_bytes(*read_at))?;
        let is_behind = |key: &&Vec<u8>| *is_read == 1 || *has_cursor == 1 && key[..] <= *cursor;
        let later = &self.output.frames[count..until.max(count)];
        let put_later = later.iter().flat_map(|(_, frame)| &frame.writes);
        let put_later = put_later.filter_map(|write| match write {
            Write::Put { key, .. } => Some(key),
            Write::Delete { .. } | Write::Forget { .. } => None,
        });
        let keys = rows.keys().chain(now.keys()).chain(put_later);
        for key in keys.filter(is_behind).collect::<BTreeSet<_>>() {
            let found = rows.get(key);
            let is_of_later = |(_, frame): &(Applied, Frame)| effect(frame, key) == Some(found);
            if found != now.get(key) && !later.iter().any(is_of_later) {
                return Err(format!(
                    "its copy has {} as {}, and from frame {count} to {until} it was {} first, and never that",
                    text(key),
                    told(found),
                    told(now.get(key))
                ));
            }
        }
        Ok(())
    }

    fn compare_shown(
        &self,
        asked_at: u64,
        frame: u64,
        shown: &Rows,
        moment: &mut Moment,
    ) -> Result<(), String> {
        let frames = &self.output.frames;
        if frame < asked_at {
            return Err(format!(
                "frame {frame}, and {asked_at} were chosen before he asked"
            ));
        }
        let Some(before) = (frame as usize).checked_sub(1) else {
            return same(&Rows::new(), shown, Applied::default());
        };
        let Some((applied, _)) = frames.get(before) else {
            return Err(format!("frame {frame}, and {} are chosen", frames.len()));
        };
        moment.go_to(frames, frame as usize);
        if is_open(&moment.rows) {
            return Err(format!("frame {frame}, a part of a backup's rows"));
        }
        let of_machine = moment.rows.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix(TAG)?;
            Some((key.to_vec(), value.clone()))
        });
        same(&of_machine.collect(), shown, *applied)
    }
}

impl Bytes {
    /// False if other bytes stood there.
    fn put(&mut self, at: usize, bytes: &[u8]) -> bool {
        let end = at + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
            self.is_there.resize(end, false);
        }
        let there = self.bytes[at..end]
            .iter_mut()
            .zip(&mut self.is_there[at..end]);
        let mut is_same = true;
        for ((there, is_there), byte) in there.zip(bytes) {
            is_same &= !*is_there || *there == *byte;
            (*there, *is_there) = (*byte, true);
        }
        is_same
    }

    fn get(&self, range: Range<u64>) -> Option<&[u8]> {
        let range = range.start as usize..range.end as usize;
        let is_there = self.is_there.get(range.clone())?;
        is_there.iter().all(|is| *is).then(|| &self.bytes[range])
    }
}

impl Output {
    /// The position at which the stream of that number begins, or will.
    fn begin_of(&self, index: usize) -> Option<u64> {
        let known = self.streams.get(index).map(|(_, begin)| *begin);
        let next = (index == self.streams.len()).then(|| self.end());
        known.or(next)
    }

    fn end(&self) -> u64 {
        self.streams
            .last()
            .map_or(0, |(_, begin)| begin + self.taken)
    }

    /// A frame that the stream before did not end never will be.
    fn begin(&mut self, name: StreamName) {
        let begin = self.end();
        self.streams.push((name, begin));
        self.taken = 0;
        self.decoder.clear();
    }

    fn take(&mut self, seed: u64, name: StreamName, bytes: &[u8]) {
        self.decoder.push(bytes);
        self.taken += bytes.len() as u64;
        loop {
            let frame = self.decoder.next_frame();
            let frame =
                frame.unwrap_or_else(|why| panic!("seed {seed}: before {}: {why}", self.end()));
            let Some(frame) = frame else {
                return;
            };
            let last = self.frames.last().map(|(applied, _)| *applied);
            let last = last.unwrap_or_default();
            assert_eq!(frame.number, last.frame + 1, "seed {seed}: after {last}");
            assert!(
                frame.time_ms >= last.time_ms,
                "seed {seed}: time goes back after {last}"
            );
            for write in &frame.writes {
                if let Write::Put { key, .. } = write {
                    *self.puts.entry(key.clone()).or_default() += 1;
                }
            }
            let sequence = name.sequence;
            let parts = [name.owner.0, sequence.incarnation, sequence.counter, 0];
            let mut stream = [0; 16];
            for (part, bytes) in parts.iter().zip(stream.chunks_mut(4)) {
                bytes.copy_from_slice(&part.to_le_bytes());
            }
            let bytes = frame.encode();
            let checksum = bytes[4..8].try_into().expect("it is in the header");
            let applied = Applied {
                position: self.end() - self.decoder.waiting() as u64,
                stream,
                frame: frame.number,
                time_ms: frame.time_ms,
                frame_bytes: bytes.len() as u32,
                frame_crc32c: u32::from_le_bytes(checksum),
            };
            self.frames.push((applied, frame));
            self.times.push(self.now);
            self.rows.go_to(&self.frames, self.frames.len());
        }
    }

    /// The number of frames that end at or before this position.
    ///
    /// Errors: none of them ends there.
    fn count_at(&self, position: u64) -> Result<usize, String> {
        let found = self
            .frames
            .binary_search_by_key(&position, |(applied, _)| applied.position);
        match (found, position) {
            (Ok(last), _) => Ok(last + 1),
            (Err(_), 0) => Ok(0),
            (Err(_), _) => Err(format!(
                "no frame of {} ends at {position}",
                self.frames.len()
            )),
        }
    }
}

impl Moment {
    fn go_to(&mut self, frames: &[(Applied, Frame)], count: usize) {
        if count < self.frames {
            *self = Moment::default();
        }
        for (_, frame) in &frames[self.frames..count] {
            for write in &frame.writes {
                match write {
                    Write::Put { key, value } => _ = self.rows.insert(key.clone(), value.clone()),
                    Write::Delete { key } => _ = self.rows.remove(key),
                    Write::Forget { prefix } => self.rows.retain(|key, _| !key.starts_with(prefix)),
                }
            }
        }
        self.frames = count;
    }
}

/// Whether a restore is under way after these frames.
fn is_open(rows: &Rows) -> bool {
    let mark = rows.get(FILL_ROW);
    mark.is_some_and(|mark| mark.get(1) == Some(&1))
}

/// The value that a frame gives this key, if it says anything of it.
fn effect<'a>(frame: &'a Frame, key: &[u8]) -> Option<Option<&'a Vec<u8>>> {
    frame.writes.iter().rev().find_map(|write| match write {
        Write::Put { key: put, value } => (put == key).then_some(Some(value)),
        Write::Delete { key: deleted } => (deleted == key).then_some(None),
        Write::Forget { prefix } => key.starts_with(prefix).then_some(None),
    })
}

/// Errors: the first key that is not the same.
fn same(expected: &Rows, found: &Rows, applied: Applied) -> Result<(), String> {
    let keys = expected.keys().chain(found.keys()).collect::<BTreeSet<_>>();
    let differs = |key: &&&Vec<u8>| expected.get(**key) != found.get(**key);
    match keys.iter().find(differs) {
        None => Ok(()),
        Some(key) => Err(format!(
            "at {applied} {} is {}, and the log makes it {}",
            text(key),
            told(found.get(*key)),
            told(expected.get(*key))
        )),
    }
}

/// The keys of a machine's rows begin so, which the machine does not see.
const TAG: &[u8] = b"m";

fn tagged(key: &str) -> Vec<u8> {
    [TAG, key.as_bytes()].concat()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn told(value: Option<&Vec<u8>>) -> String {
    value.map_or("absent".to_owned(), |value| format!("{:?}", text(value)))
}

/// A shelf that is compared after each batch.
struct Witnessed {
    node: usize,
    inner: Arc<Memory>,
    media: Media,
    moment: Mutex<Moment>,
    witness: Rebuilt,
}

impl Witnessed {
    fn is_copy(&self) -> bool {
        let row = self.inner.get(COPY_ROW).expect("memory does not fail");
        row.is_some()
    }

    fn compare(&self, when: &str) {
        let mut moment = self.moment.lock().unwrap_or_else(PoisonError::into_inner);
        self.witness
            .compare(self.node, when, &self.inner, &mut moment);
    }
}

impl Shelf for Witnessed {
    fn apply(&self, batch: &Batch, applied: Applied) -> Result<(), ShelfError> {
        self.inner.apply(batch, applied)?;
        self.compare("after a batch");
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.inner.applied()
    }

    fn durable(&self) -> Applied {
        self.inner.durable()
    }

    fn snapshot(&self) -> Box<dyn Snapshot + '_> {
        self.inner.snapshot()
    }

    fn flush(&self) -> Result<Applied, ShelfError> {
        let durable = self.inner.flush()?;
        self.witness.on_flushed(self.node, &self.media);
        Ok(durable)
    }

    fn compact(&self) -> Result<(), ShelfError> {
        self.inner.compact()
    }

    fn figures(&self) -> Figures {
        self.inner.figures()
    }

    fn keep_note(&self, note: &[u8]) -> Result<(), ShelfError> {
        self.inner.keep_note(note)
    }

    fn note(&self) -> Option<Vec<u8>> {
        self.inner.note()
    }
}
