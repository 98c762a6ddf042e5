//! Work that takes time: done on other threads, on lanes, and what comes of it.
//!
//! ‡ The host's own thread never touches a shelf: at the end of a flush and of a compaction a shelf may let everybody wait.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use formats::Mark;
use ops::{Lane, Work};
use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use shelf::{
    Applied, Batch, Cursor, Identity, Page, PageBounds, Row, Shelf, ShelfError, Snapshot, Write,
};

use crate::filling;
use crate::group::{COPY_ROW, Saved, Sum};
use crate::intake::Load;
use crate::machine::Machine;
use crate::piece::{Answer, Question};
use crate::state::{Fetched, Key, Missing, RANGE_BYTES_MAX, View, machines, row_of_machine};

/// Rows are looked up for commands, and pieces for other nodes.
pub const READERS: [Lane; 2] = [Lane(1), Lane(2)];
/// Callers look at the state. They take as long as they like, so commands wait for other lanes.
pub const LOOKERS: [Lane; 2] = [Lane(5), Lane(6)];
/// Frames are applied.
pub const APPLY: Lane = Lane(3);
/// Shelves are opened, flushed and removed.
pub const UPKEEP: Lane = Lane(4);
/// Shelves are compacted, which may take minutes: nobody waits for it.
pub const COMPACT: Lane = Lane::background(8);
/// States are summed up, to be compared.
pub const COMPARE: Lane = Lane::background(7);
/// Pages are read for backups.
pub const SAVE: Lane = Lane::background(9);

const PIECE_ROWS_MAX: usize = 16_384;
/// So many bytes of rows are fetched at a time, and so many of pages: what is beyond that is asked for again.
const FETCHED_BYTES_MAX: usize = 8 << 20;
/// … and so many of rows that these lead to.
const NEXT_BYTES_MAX: usize = 1 << 20;
/// The pages of a range that is read on are doubled so often.
const PAGES_DOUBLED_MAX: u32 = 12;

/// Where shelves are.
pub trait Shelves: Send + Sync {
    /// The shelf of that log, an empty one if there is none.
    fn open(&self, identity: Identity) -> Result<Arc<dyn Shelf>, ShelfError>;

    /// Puts a damaged one aside, so that there is none.
    fn put_aside(&self, identity: Identity) -> Result<PathBuf, ShelfError>;

    /// Removes it, for its log is gone.
    fn remove(&self, identity: Identity) -> Result<(), ShelfError>;
}

/// A caller's look at the state, on a lane of lookers: he is given a view, or the reason why there is none.
pub struct Look(Looking);

enum Looking {
    Once(Box<Looks>),
    /// This client is to be given all of it, page by page.
    Held(u64),
}

type Looks = dyn FnOnce(Result<&View<'_>, String>) + Send;

impl Look {
    pub fn new(look: impl FnOnce(Result<&View<'_>, String>) + Send + 'static) -> Look {
        Look(Looking::Once(Box::new(look)))
    }

    pub(crate) fn held(client: u64) -> Look {
        Look(Looking::Held(client))
    }

    /// Looks, if there is something to be seen. Returns the client who is to be given all of it.
    fn at(self, snapshot: Result<&dyn Snapshot, &str>) -> Option<u64> {
        match self.0 {
            Looking::Once(look) => match snapshot {
                Ok(snapshot) => look(Ok(&View(snapshot))),
                Err(why) => look(Err(why.to_owned())),
            },
            Looking::Held(client) => return Some(client),
        }
        None
    }

    /// Says why there is no look. Returns the client who is to be told so.
    #[must_use]
    pub(crate) fn not(self, why: &str) -> Option<u64> {
        self.at(Err(why))
    }
}

/// The end of a job.
pub(crate) enum Came {
    Opened(Result<Opened, ShelfError>),
    Applied {
        bytes: u64,
        /// The memory of all that is not flushed: more than what was said in the log, where rows are short or many are deleted at a time.
        unflushed_bytes: u64,
        result: Result<Applied, ShelfError>,
        /// How far a restore has come, if that changed: the page that it goes on with, or none.
        filling: Option<Option<u64>>,
        /// All rows as they are after it, if a mark is taken there.
        marked: Option<Result<Cursor, ShelfError>>,
    },
    /// One more page is summed up, of the mark at that position.
    Summed {
        position: u64,
        sum: Result<Box<Sum>, ShelfError>,
    },
    Fetched {
        fetch: u64,
        result: Result<Rows, ShelfError>,
    },
    Looked {
        /// The clients who are to be given all rows, and the beginning of that.
        held: Vec<(u64, Result<Box<Saved>, String>)>,
    },
    /// A page of them is read.
    PageRead {
        client: u64,
        page: Result<Box<Saved>, ShelfError>,
    },
    /// And the memory of what is not flushed still.
    Flushed(Result<Applied, ShelfError>, u64),
    Compacted(Result<(), ShelfError>),
    LookedAfter(Result<(), ShelfError>),
    Removed(Result<(), ShelfError>),
    /// An answer to another node's host.
    PieceRead {
        to: NodeId,
        request: u64,
        bytes: Vec<u8>,
    },
    /// The first piece of a copy is on a new shelf.
    BegunAnew(Result<(Arc<dyn Shelf>, Applied), ShelfError>),
    /// A later one is on the shelf: so many bytes.
    PieceTaken(Result<(Applied, u64), ShelfError>),
    /// The copy is exact, its row is gone, and that is durable; and the page that a restore goes on with, if one is open.
    Copied(Result<(Applied, Option<u64>), ShelfError>),
}

pub(crate) struct Opened {
    pub shelf: Arc<dyn Shelf>,
    /// The row of a copy that is not exact yet.
    pub copying: Option<Vec<u8>>,
    /// The last mark that was taken of it.
    pub mark: Option<Mark>,
    /// The page that a restore goes on with, if one is open.
    pub filling: Option<u64>,
}

/// A piece that is to be taken.
pub(crate) struct Taking {
    pub work: Work,
    /// On another shelf than there is.
    pub begins_anew: bool,
}

/// Rows and pages, all as of one position.
pub(crate) struct Rows {
    pub applied: Applied,
    pub rows: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    pub pages: BTreeMap<Key, Fetched>,
}

impl std::fmt::Debug for Came {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Came::Opened(_) => "Opened",
            Came::Applied { .. } => "Applied",
            Came::Summed { .. } => "Summed",
            Came::Fetched { .. } => "Fetched",
            Came::Looked { .. } => "Looked",
            Came::PageRead { .. } => "PageRead",
            Came::Flushed(..) => "Flushed",
            Came::Compacted(_) => "Compacted",
            Came::LookedAfter(_) => "LookedAfter",
            Came::Removed(_) => "Removed",
            Came::PieceRead { .. } => "PieceRead",
            Came::BegunAnew(_) => "BegunAnew",
            Came::PieceTaken(_) => "PieceTaken",
            Came::Copied(_) => "Copied",
        })
    }
}

/// A shelf that was given up. ‡ Nothing is done to its directory before nothing writes there any more.
pub(crate) struct GivenUp(pub Option<Arc<dyn Shelf>>);

impl GivenUp {
    fn close(self) {
        if let Some(shelf) = self.0 {
            shelf.close();
        }
    }
}

/// Puts a shelf aside that turned out to be damaged, and opens another.
pub(crate) fn reopen(shelves: &Arc<dyn Shelves>, identity: Identity, old: GivenUp) -> Work {
    let shelves = shelves.clone();
    Work::new(move || {
        old.close();
        let opened = shelves.put_aside(identity).and_then(|aside| {
            tracing::error!("the damaged state is in {} now", aside.display());
            shelves.open(identity)
        });
        Came::Opened(opened.map(|shelf| Opened {
            shelf,
            copying: None,
            mark: None,
            filling: None,
        }))
    })
}

/// Opens a shelf. A damaged one is put aside: its log is applied from the beginning again, or the state is copied.
pub(crate) fn open(shelves: &Arc<dyn Shelves>, identity: Identity) -> Work {
    let shelves = shelves.clone();
    Work::new(move || {
        let opened = match shelves.open(identity) {
            Err(ShelfError::Damaged { path, what }) => match shelves.put_aside(identity) {
                Ok(aside) => {
                    tracing::error!(
                        "the state in {} is damaged ({what}); it was put aside, to {}, and is made anew: from the log, or by a copy of another replica's",
                        path.display(),
                        aside.display()
                    );
                    shelves.open(identity)
                }
                Err(error) => Err(error),
            },
            opened => opened,
        };
        Came::Opened(opened.and_then(|shelf| {
            let copying = shelf.get(COPY_ROW)?;
            let mark = shelf.note().as_deref().and_then(mark_of);
            let filling = filling_of(&*shelf)?;
            Ok(Opened {
                shelf,
                copying,
                mark,
                filling,
            })
        }))
    })
}

fn filling_of(shelf: &dyn Shelf) -> Result<Option<u64>, ShelfError> {
    let row = shelf.get(filling::ROW)?;
    Ok(filling::next_page(row.as_deref()))
}

pub(crate) fn apply(shelf: &Arc<dyn Shelf>, load: Load) -> Work {
    let shelf = shelf.clone();
    Work::new(move || {
        if mutation::is(Mutation::AppliedApart) {
            _ = shelf.apply(&Batch::default(), load.applied);
        }
        let applied = shelf.apply(&load.batch, load.applied);
        let is_marked = load.is_marked && applied.is_ok();
        let of_filling = load
            .batch
            .writes()
            .iter()
            .rev()
            .find_map(|write| match write {
                Write::Put { key, value } if key == filling::ROW => {
                    Some(filling::next_page(Some(value)))
                }
                _ => None,
            });
        Came::Applied {
            bytes: load.bytes,
            unflushed_bytes: shelf.figures().unflushed_bytes,
            filling: of_filling.filter(|_| applied.is_ok()),
            result: applied.map(|()| load.applied),
            // ‡ Before anything else is applied.
            marked: is_marked.then(|| {
                let snapshot = shelf.snapshot();
                snapshot.cursor(Bound::Unbounded, Bound::Unbounded)
            }),
        }
    })
}

/// ‡ A mark outlives the process: a state that starts again is as wrong as it was.
pub(crate) fn sum_up(shelf: &Arc<dyn Shelf>, mut sum: Box<Sum>, page_bytes: usize) -> Work {
    let shelf = shelf.clone();
    Work::new(move || {
        let position = sum.position();
        let added = sum.add_page(page_bytes);
        if added.is_ok()
            && let Some(mark) = sum.whole()
            && let Err(error) = shelf.keep_note(&note_of(&mark))
        {
            tracing::warn!(%error, "the mark of a state is forgotten when its node stops");
        }
        Came::Summed {
            position,
            sum: added.map(|()| sum),
        }
    })
}

/// A mark as a shelf's note: version, and its parts.
fn note_of(mark: &Mark) -> Vec<u8> {
    let mut note = vec![1];
    note.extend_from_slice(&mark.position.to_le_bytes());
    note.extend_from_slice(&mark.rows.to_le_bytes());
    note.extend_from_slice(&mark.crc32c.to_le_bytes());
    note
}

fn mark_of(note: &[u8]) -> Option<Mark> {
    let (version, rest) = note.split_first()?;
    let (position, rest) = rest.split_first_chunk()?;
    let (rows, crc32c) = rest.split_first_chunk()?;
    (*version == 1).then_some(Mark {
        position: u64::from_le_bytes(*position),
        rows: u64::from_le_bytes(*rows),
        crc32c: u32::from_le_bytes(crc32c.try_into().ok()?),
    })
}

pub(crate) fn fetch(
    shelf: &Arc<dyn Shelf>,
    machine: &Arc<dyn Machine>,
    fetch: u64,
    missing: Missing,
) -> Work {
    let (shelf, machine) = (shelf.clone(), machine.clone());
    Work::new(move || {
        let snapshot = shelf.snapshot();
        let result = rows(&*snapshot, missing).and_then(|mut rows| {
            add_next(&*snapshot, &*machine, &mut rows)?;
            Ok(rows)
        });
        Came::Fetched { fetch, result }
    })
}

/// Adds the rows that those lead to. ‡ Of the same snapshot: a call reads all of them as of one position.
fn add_next(
    snapshot: &dyn Snapshot,
    machine: &dyn Machine,
    rows: &mut Rows,
) -> Result<(), ShelfError> {
    let mut next = Vec::new();
    for (key, value) in &rows.rows {
        let (Some(key), Some(value)) = (row_of_machine(key), value) else {
            continue;
        };
        // A machine that panics is fetched for as one that foresees nothing.
        let led = catch_unwind(AssertUnwindSafe(|| machine.leads_to(key, value)));
        next.extend(led.unwrap_or_default());
    }
    let mut bytes = 0;
    for key in next.into_iter().map(|key| machines(&key)) {
        if bytes >= NEXT_BYTES_MAX {
            break;
        }
        if let Entry::Vacant(entry) = rows.rows.entry(key) {
            let value = snapshot.get(entry.key())?;
            bytes += entry.key().len() + value.as_ref().map_or(0, Vec::len);
            entry.insert(value);
        }
    }
    Ok(())
}

pub(crate) fn rows(snapshot: &dyn Snapshot, missing: Missing) -> Result<Rows, ShelfError> {
    let mut rows = Rows {
        applied: snapshot.applied(),
        rows: BTreeMap::new(),
        pages: BTreeMap::new(),
    };
    let mut bytes = 0;
    for key in missing.keys {
        if rows.rows.contains_key(&key) {
            continue;
        }
        if bytes >= FETCHED_BYTES_MAX {
            break;
        }
        let value = snapshot.get(&key)?;
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        rows.rows.insert(key, value);
    }
    let mut bytes = 0;
    let pages_max = 1 << missing.rounds.min(PAGES_DOUBLED_MAX);
    for (key, rows_max) in missing.ranges {
        let mut next = Some(key);
        let mut pages = 0;
        while bytes < FETCHED_BYTES_MAX
            && let Some(key) = next.take()
        {
            pages += 1;
            let page = Arc::new(read(snapshot, &key, rows_max)?);
            let row_bytes = |(key, value): &Row| key.len() + value.len();
            bytes += page.rows.iter().map(row_bytes).sum::<usize>();
            // A command that reads long rows to the end of a page mostly reads on.
            let is_cut = page.rows.len() < rows_max && !page.is_last;
            next = key.behind(&page).filter(|_| is_cut || pages < pages_max);
            rows.pages.insert(key, Fetched { page, rows_max });
        }
    }
    Ok(rows)
}

fn read(snapshot: &dyn Snapshot, key: &Key, rows_max: usize) -> Result<Page, ShelfError> {
    let (from, to) = key.span();
    let bounds = PageBounds {
        rows_max,
        bytes_max: RANGE_BYTES_MAX.max(rows_max),
    };
    let from = from.as_ref().map(Vec::as_slice);
    let to = to.as_ref().map(Vec::as_slice);
    match key.is_back {
        true => snapshot.scan_back(from, to, bounds),
        false => snapshot.scan(from, to, bounds),
    }
}

pub(crate) fn look(shelf: &Arc<dyn Shelf>, looks: Vec<Look>) -> Work {
    let shelf = shelf.clone();
    Work::new(move || {
        let snapshot = shelf.snapshot();
        // ‡ A part of a backup's rows is shown to nobody.
        let seen = match snapshot.get(filling::ROW) {
            Ok(mark) if !filling::is_open(mark.as_deref()) => Ok(&*snapshot),
            Ok(_) => Err(filling::IS_OPEN.to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let mut held = Vec::new();
        for look in looks {
            // A caller's panic is his own: others wait for their turn.
            let seen = seen.as_ref().map(|snapshot| *snapshot as &dyn Snapshot);
            let seen = seen.map_err(String::as_str);
            match catch_unwind(AssertUnwindSafe(|| look.at(seen))) {
                Ok(Some(client)) => held.push((client, Saved::begin(&*snapshot))),
                Ok(None) => {}
                Err(_) => tracing::error!("a reader panicked, and has no answer"),
            }
        }
        Came::Looked { held }
    })
}

pub(crate) fn read_page(client: u64, mut saved: Box<Saved>, page_bytes: usize) -> Work {
    Work::new(move || {
        let page = saved.read_page(page_bytes).map(|()| saved);
        Came::PageRead { client, page }
    })
}

pub(crate) fn flush(shelf: &Arc<dyn Shelf>) -> Work {
    let shelf = shelf.clone();
    Work::new(move || {
        let result = shelf.flush();
        Came::Flushed(result, shelf.figures().unflushed_bytes)
    })
}

pub(crate) fn compact(shelf: &Arc<dyn Shelf>) -> Work {
    let shelf = shelf.clone();
    Work::new(move || Came::Compacted(shelf.compact()))
}

pub(crate) fn look_after(shelf: &Arc<dyn Shelf>) -> Work {
    let shelf = shelf.clone();
    Work::new(move || Came::LookedAfter(shelf.look_after()))
}

/// Reads a piece of the state for another node's host.
pub(crate) fn read_piece(
    shelf: &Arc<dyn Shelf>,
    to: NodeId,
    request: u64,
    question: Question,
    bytes_max: usize,
) -> Work {
    let shelf = shelf.clone();
    Work::new(move || {
        let snapshot = shelf.snapshot();
        let answer = match piece(&*snapshot, question, bytes_max) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::warn!(%error, "a piece of a state cannot be read for another node");
                Answer::NotHere
            }
        };
        let bytes = answer.encode();
        Came::PieceRead { to, request, bytes }
    })
}

fn piece(
    snapshot: &dyn Snapshot,
    question: Question,
    bytes_max: usize,
) -> Result<Answer, ShelfError> {
    if snapshot.applied().position < question.from {
        return Ok(Answer::NotHere);
    }
    let after = question.after.clone();
    let after = after.as_deref();
    let from = after.map_or(Bound::Unbounded, Bound::Excluded);
    let bounds = PageBounds {
        rows_max: PIECE_ROWS_MAX,
        bytes_max,
    };
    let page = snapshot.scan(from, Bound::Unbounded, bounds)?;
    Ok(Answer::Piece { to: question, page })
}

/// ‡ Removes whatever shelf there is, and begins another with the first piece of a copy.
pub(crate) fn begin_anew(
    shelves: &Arc<dyn Shelves>,
    identity: Identity,
    old: GivenUp,
    (batch, applied): (Batch, Applied),
) -> Work {
    let shelves = shelves.clone();
    Work::new(move || {
        old.close();
        let begun = shelves.remove(identity).and_then(|()| {
            let shelf = shelves.open(identity)?;
            shelf.apply(&batch, applied)?;
            Ok((shelf, applied))
        });
        Came::BegunAnew(begun)
    })
}

/// Takes a later piece: the log stays applied as far as it was.
pub(crate) fn take_piece(
    shelf: &Arc<dyn Shelf>,
    batch: Batch,
    applied: Applied,
    bytes: u64,
) -> Work {
    let shelf = shelf.clone();
    Work::new(move || {
        let taken = shelf.apply(&batch, applied);
        Came::PieceTaken(taken.map(|()| (applied, bytes)))
    })
}

/// ‡ Ends a copy, and makes that durable. Nothing else is applied meanwhile.
pub(crate) fn end_copy(shelf: &Arc<dyn Shelf>, applied: Applied) -> Work {
    let shelf = shelf.clone();
    let mut batch = Batch::default();
    batch.delete(COPY_ROW);
    Work::new(move || {
        let ended = shelf.apply(&batch, applied);
        let durable = ended.and_then(|()| shelf.flush());
        Came::Copied(durable.and_then(|durable| Ok((durable, filling_of(&*shelf)?))))
    })
}

pub(crate) fn remove(shelves: &Arc<dyn Shelves>, identity: Identity, old: GivenUp) -> Work {
    let shelves = shelves.clone();
    Work::new(move || {
        old.close();
        Came::Removed(shelves.remove(identity))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{State, Stop};
    use shelf::{Media, Memory};

    /// Each row has the key of the next one; one panics.
    struct Chain;

    impl Machine for Chain {
        fn execute(&self, _: &mut State<'_>, _: &[u8]) -> Result<Vec<u8>, Stop> {
            Ok(Vec::new())
        }

        fn leads_to(&self, key: &[u8], value: &[u8]) -> Vec<Vec<u8>> {
            assert_ne!(key, b"bad");
            vec![value.to_vec(), b"none".to_vec()]
        }
    }

    #[test]
    fn rows_that_a_row_leads_to_are_fetched_with_it_and_those_behind_them_are_not() {
        let identity = Identity {
            cluster: [1; 16],
            log: 1,
        };
        let shelf = Memory::open(&Media::default(), identity).expect("it opens");
        let mut batch = Batch::default();
        for (key, value) in [("a", "b"), ("b", "c"), ("c", "d"), ("bad", "c")] {
            batch.put(machines(key.as_bytes()), value);
        }
        // The host's own rows lead nowhere.
        batch.put(*b"x", *b"c");
        shelf.apply(&batch, Applied::default()).expect("it applies");
        let shelf: Arc<dyn Shelf> = Arc::new(shelf);
        let fetched = |keys: &[&[u8]]| {
            let snapshot = shelf.snapshot();
            let missing = Missing {
                keys: keys.iter().map(|key| key.to_vec()).collect(),
                ..Missing::default()
            };
            let mut rows = rows(&*snapshot, missing).expect("it reads");
            add_next(&*snapshot, &Chain, &mut rows).expect("it reads");
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
            let rows = rows.rows.into_iter();
            rows.map(|(key, value)| (text(key), value.map(text)))
                .collect::<Vec<_>>()
        };
        let row = |key: &str, value: Option<&str>| (key.to_owned(), value.map(str::to_owned));
        let (b, none) = (row("mb", Some("c")), row("mnone", None));
        assert_eq!(fetched(&[b"ma"]), [row("ma", Some("b")), b, none]);
        assert_eq!(fetched(&[b"mno"]), [row("mno", None)]);
        assert_eq!(fetched(&[b"x"]), [row("x", Some("c"))]);
        assert_eq!(fetched(&[b"mbad"]), [row("mbad", Some("c"))]);
    }
}
