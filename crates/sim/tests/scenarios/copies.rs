//! A host that copies a state, beside a node that says what a test wants, when it wants.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use formats::{LogId, Stand};
use host::{Bounds, COPY_ROW, Frame, Host, HostConfig, Machine, Shelves, State, Stop};
use letters::{News, ToHost, ToNode, Wish};
use ops::{Completion, Letter, Machine as _, MachineId, Op, Slice, Time, Token, Work};
use paxos::StreamName;
use shelf::{Applied, Batch, Identity, Media, Memory, Shelf, ShelfError, Write};

const LOG: LogId = LogId(5);
const CLUSTER: [u8; 16] = [7; 16];
const KEYS: [&str; 3] = ["ma", "mm", "mz"];

struct Nothing;

impl Machine for Nothing {
    fn execute(&self, _: &mut State<'_>, _: &[u8]) -> Result<Vec<u8>, Stop> {
        Ok(Vec::new())
    }
}

struct One(Media);

impl Shelves for One {
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError> {
        Ok(Arc::new(Memory::open(&self.0, identity)?))
    }

    fn put_aside(&self, _: Identity) -> Result<PathBuf, ShelfError> {
        self.0.clear();
        Ok("aside".into())
    }

    fn remove(&self, _: Identity) -> Result<(), ShelfError> {
        self.0.clear();
        Ok(())
    }
}

fn applied(position: u64) -> Applied {
    Applied {
        position,
        frame: position / 10,
        ..Applied::default()
    }
}

/// An answer: these rows, as they were read at this position. `mz` is the last.
fn piece(question: &[u8], keys: &[&str], read_at: u64) -> Vec<u8> {
    let mut bytes = vec![1, 1];
    bytes.extend((question.len() as u32).to_le_bytes());
    bytes.extend(question);
    bytes.extend(applied(read_at).encode());
    bytes.push(u8::from(keys.ends_with(&["mz"])));
    for key in keys {
        bytes.extend((key.len() as u32).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.push(b'v');
    }
    bytes
}

struct Stage {
    host: Host,
    now: Time,
    attached: u64,
    asked: Vec<(u64, Vec<u8>)>,
    stand: Option<Stand>,
    /// Nothing is done once a state was begun anew: it waits here.
    holds_back: bool,
    held_back: Vec<(Token, Work)>,
}

impl Stage {
    /// A host whose shelf is on these media, and opened.
    fn over(media: &Media) -> Stage {
        let machine: Arc<dyn Machine> = Arc::new(Nothing);
        let config = HostConfig {
            others: None,
            machines: BTreeMap::from([("m".to_owned(), machine)]),
            shelves: Arc::new(One(media.clone())),
            bounds: Bounds {
                flush_after: Duration::ZERO,
                ..Bounds::default()
            },
            seed: 1,
        };
        let mut stage = Stage {
            host: Host::new(config, Time::ZERO),
            now: Time::ZERO,
            attached: 0,
            asked: Vec::new(),
            stand: None,
            holds_back: false,
            held_back: Vec::new(),
        };
        stage.tell(News::Appeared {
            own: paxos::NodeId(1),
            name: "m".to_owned(),
            cluster: CLUSTER,
            is_auxiliary: false,
        });
        stage
    }

    fn tell(&mut self, what: News) {
        let letter = Letter::new(ToHost {
            log: LOG,
            attached: self.attached,
            what,
        });
        let from = MachineId::NODE;
        let delivered = Completion::Delivered { from, letter };
        self.host.handle(self.now, delivered);
        self.pass(20);
    }

    /// Lets so many milliseconds pass. Work is done at once.
    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            self.host.on_time(self.now);
            let mut done = Vec::new();
            if !self.holds_back {
                let late = self.held_back.drain(..);
                done.extend(late.map(|(token, work)| (token, work.perform())));
            }
            while let Some(op) = self.host.poll_op() {
                match op {
                    Op::Run { token, work, .. } if self.is_held_back() => {
                        self.held_back.push((token, work));
                    }
                    Op::Run { token, work, .. } => done.push((token, work.perform())),
                    Op::Post { letter, .. } => self.hear(letter),
                    _ => {}
                }
            }
            for (token, result) in done {
                let ran = Completion::Ran { token, result };
                self.host.handle(self.now, ran);
            }
            self.now += Duration::from_millis(1);
        }
    }

    fn hear(&mut self, letter: Letter) {
        let letter: ToNode = letter.open().expect("hosts write such letters");
        match letter.what {
            Wish::Attach { number, .. } => self.attached = number,
            Wish::AskPiece { request, bytes } => self.asked.push((request, bytes)),
            Wish::Stands(stand) => self.stand = Some(stand),
            _ => {}
        }
    }

    fn is_held_back(&self) -> bool {
        self.holds_back && self.host.groups().any(|group| group.generation() > 0)
    }

    /// Answers the last question with these rows, as they were read at this position.
    fn answer(&mut self, keys: &[&str], read_at: u64) {
        let (request, question) = self.asked.pop().expect("it asks");
        let bytes = piece(&question, keys, read_at);
        self.tell(News::Piece { request, bytes });
    }

    fn is_whole(&self) -> bool {
        self.host.groups().all(|group| group.is_whole())
    }
}

/// Media of a shelf on which a crash interrupted a copy: rows up to `mm`, at position 100.
fn interrupted() -> Media {
    let media = Media::default();
    let identity = Identity {
        cluster: CLUSTER,
        log: LOG.0,
    };
    let shelf = Memory::open(&media, identity).unwrap();
    let mut row = vec![1];
    row.extend(100_u64.to_le_bytes());
    row.extend([0, 1]);
    row.extend(b"mm");
    let mut batch = Batch::default();
    batch.put("ma", "v").put("mm", "v").put(COPY_ROW, row);
    shelf.apply(&batch, applied(100)).unwrap();
    shelf.flush().unwrap();
    media
}

/// The log was trimmed beyond that copy: another asks for its first piece.
fn begun_anew() -> (Media, Stage) {
    let media = interrupted();
    let mut stage = Stage::over(&media);
    stage.tell(News::Skipped { to: 500 });
    stage.pass(3_000);
    (media, stage)
}

/// The log was trimmed beyond an interrupted copy, so another begins. The answer to the first one's question comes late.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_answer_to_an_earlier_copys_question_is_none_to_this_one() {
    let media = interrupted();
    let mut stage = Stage::over(&media);
    let (request, question) = stage.asked.pop().expect("the copy goes on");
    stage.tell(News::Skipped { to: 500 });
    let bytes = piece(&question, &["mz"], 600);
    stage.tell(News::Piece { request, bytes });
    assert!(!stage.is_whole());
    stage.pass(3_000);
    stage.answer(&KEYS, 600);
    stage.pass(200);
    assert!(stage.is_whole());
    assert!(KEYS.iter().all(|key| media.has(key.as_bytes())));
}

/// The disk takes no more when a copy ends: a crash would leave less than the whole.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_copy_is_whole_once_its_end_is_durable() {
    let (media, mut stage) = begun_anew();
    stage.answer(&KEYS[..2], 600);
    stage.pass(100);
    assert_eq!(media.durable().position, 600, "a part is flushed");
    media.fill(true);
    stage.answer(&KEYS[2..], 600);
    stage.pass(3_000);
    assert!(!stage.is_whole());
    assert!(stage.stand.is_some_and(|stand| !stand.is_whole));
    media.fill(false);
    stage.pass(3_000);
    assert!(stage.is_whole());
    let stand = stage.stand.expect("it was told");
    assert!(stand.is_whole && stand.durable == 600, "{stand:?}");
    assert!(!media.has(COPY_ROW) && media.durable().position == 600);
}

/// The last rows were read at a later position than the first: until the log has come there, they are of no one moment.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_copy_is_whole_once_the_log_has_come_to_its_last_piece() {
    let (media, mut stage) = begun_anew();
    stage.answer(&KEYS[..2], 600);
    stage.pass(100);
    let next = Frame {
        number: 61,
        time_ms: 0,
        writes: vec![Write::Put {
            key: b"ma".to_vec(),
            value: b"w".to_vec(),
        }],
    };
    let next = next.encode();
    stage.answer(&KEYS[2..], 600 + next.len() as u64);
    stage.pass(3_000);
    assert!(!stage.is_whole());
    stage.tell(News::Bytes {
        stream: StreamName::default(),
        at: 600,
        position: 0,
        bytes: Slice::copied_from(&next),
    });
    stage.pass(100);
    assert!(stage.is_whole());
    assert_eq!(media.durable().position, 600 + next.len() as u64);
}

/// The end of a copy takes long, and the log is trimmed beyond it meanwhile: another begins, and is not whole because the first
/// one ended.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn the_end_of_a_copy_that_was_overtaken_is_not_that_of_the_next() {
    let (_, mut stage) = begun_anew();
    stage.answer(&KEYS[..2], 600);
    stage.pass(100);
    stage.holds_back = true;
    stage.answer(&KEYS[2..], 600);
    // One step of work at a time: the last piece is taken, and its end is held back.
    stage.holds_back = false;
    stage.pass(1);
    stage.holds_back = true;
    stage.pass(3_000);
    assert!(!stage.is_whole() && !stage.held_back.is_empty());
    stage.tell(News::Skipped { to: 900 });
    stage.holds_back = false;
    stage.pass(1_000);
    assert!(!stage.is_whole());
    stage.answer(&KEYS, 900);
    stage.pass(3_000);
    assert!(stage.is_whole());
}
