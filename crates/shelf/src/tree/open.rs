//! From a directory to a shelf.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lsm_tree::compaction::filter::{CompactionFilter, Context, Factory, ItemAccessor, Verdict};
use lsm_tree::config::PinningPolicy;
use lsm_tree::{
    AbstractTree, AnyTree, Cache, Config, DescriptorTable, Guard, SequenceNumberCounter,
};

use super::cursor::Discarded;
use super::guarded::Guarded;
use super::pace::{Pace, Paced};
use super::room::Room;
use super::snapshots::{Published, Snapshots};
use super::unflushed::Unflushed;
use super::writeback::Writeback;
use super::{APPLIED, Durable, FORGOTTEN, ROW, Settings, Tree, Writer, lock};
use crate::forgotten::Forgotten;
use crate::{Applied, Identity, ShelfError};

/// What a compaction drops on its way.
#[derive(Default)]
pub(super) struct Droppable(Mutex<Arc<Forgotten>>);

impl Droppable {
    pub fn set(&self, forgotten: Arc<Forgotten>) {
        *lock(&self.0) = forgotten;
    }

    fn get(&self) -> Arc<Forgotten> {
        lock(&self.0).clone()
    }
}

struct Dropping {
    forgotten: Arc<Forgotten>,
    paced: Paced,
    writeback: Writeback,
}

impl CompactionFilter for Dropping {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        let value = item.value()?;
        let bytes = (item.key().len() + value.len()) as u64;
        self.writeback.count(bytes)?;
        self.paced.count(bytes)?;
        Ok(match item.key().split_first() {
            Some((&ROW, key)) if self.forgotten.covers(key) => Verdict::Destroy,
            _ => Verdict::Keep,
        })
    }
}

impl std::panic::RefUnwindSafe for Droppable {}

struct Drops {
    droppable: Arc<Droppable>,
    pace: Arc<Pace>,
    room: Arc<Room>,
    tables: PathBuf,
}

impl Factory for Drops {
    fn name(&self) -> &str {
        "forgotten"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Dropping {
            forgotten: self.droppable.get(),
            paced: Paced::at(&self.pace, &self.room),
            writeback: Writeback::behind(&self.tables),
        })
    }
}

impl Tree {
    /// Opens the shelf in the directory, or makes one there.
    ///
    /// Errors: see [`ShelfError`]. A damaged one may be [put aside](Tree::put_aside).
    pub fn open(
        directory: &Path,
        identity: Identity,
        settings: Settings,
    ) -> Result<Tree, ShelfError> {
        let is_whole = identity.claim(directory)?;
        let guarded = Arc::new(Guarded::new(directory.to_owned()));
        let io = |source| guarded.failed(lsm_tree::Error::Io(source));
        let there = trees(directory).map_err(io)?;
        let path = match (is_whole, &there[..]) {
            // The crate makes a new tree where it finds none.
            (true, [path]) if path.join(FIRST_FILE).exists() => path.clone(),
            (true, []) => return Err(guarded.damage("its tree is gone".to_owned())),
            (true, [_]) => return Err(guarded.damage("its tree has no beginning".to_owned())),
            (true, _) => return Err(guarded.damage("it has more than one tree".to_owned())),
            (false, there) => {
                for path in there {
                    fs::remove_dir_all(path).map_err(io)?;
                }
                directory.join(new_name())
            }
        };
        let sequence = SequenceNumberCounter::default();
        let droppable = Arc::new(Droppable::default());
        let pace = Arc::new(Pace::new(settings.compact_bytes_per_second));
        let room = Arc::new(Room::new(directory, &settings));
        let cache = Arc::new(Cache::with_capacity_bytes(settings.cache_bytes));
        let files = Arc::new(DescriptorTable::new(settings.files_max));
        let visible = SequenceNumberCounter::default();
        let opened = guarded.run(|| {
            let factory: Arc<dyn Factory> = Arc::new(Drops {
                droppable: droppable.clone(),
                pace: pace.clone(),
                room: room.clone(),
                tables: tables_of(&path),
            });
            let config = Config::new(&path, sequence.clone(), visible)
                .use_cache(cache)
                .use_descriptor_table(Some(files))
                // In one block the filter of a table of small rows has megabytes: more than the cache takes, and each lookup reads it.
                .filter_block_partitioning_policy(PinningPolicy::all(true))
                .index_block_partitioning_policy(PinningPolicy::all(true))
                .with_compaction_filter_factory(Some(factory));
            let tree = config.open().map_err(|error| guarded.failed(error))?;
            let next = tree.get_highest_seqno().map_or(0, |highest| highest + 1);
            sequence.fetch_max(next);
            found(&guarded, &tree, sequence.get()).map(|found| (tree, found))
        });
        let (tree, durable) = opened?;
        if !is_whole {
            Identity::seal(directory).map_err(io)?;
        }
        droppable.set(durable.forgotten.clone());
        let snapshots = Snapshots::default();
        snapshots.publish(Published {
            version: sequence.get(),
            applied: durable.applied,
            forgotten: durable.forgotten.clone(),
        });
        Ok(Tree {
            directory: directory.to_owned(),
            files: path,
            settings,
            tree,
            sequence,
            snapshots,
            droppable,
            writer: Mutex::new(Writer {
                applied: durable.applied,
                forgotten: durable.forgotten.clone(),
            }),
            flushing: Mutex::new(()),
            compacting: Mutex::new(()),
            pace,
            room,
            is_closed: AtomicBool::new(false),
            left_over: Mutex::default(),
            durable: Mutex::new(durable),
            unflushed: Unflushed::default(),
            sealed: Mutex::default(),
            drained_bytes: AtomicU64::new(0),
            rotated: AtomicU64::new(0),
            discarded: Discarded::default(),
            guarded,
        })
    }
}

/// The file of the crate that says which others count.
pub(super) const FIRST_FILE: &str = "current";

/// Where the crate has its tables, each named by its number.
pub(super) fn tables_of(tree: &Path) -> PathBuf {
    tree.join("tables")
}

/// The name of a tree's directory: this, and a number.
const TREE: &str = "tree-";

/// Greater than those of all trees that this process had.
static NUMBER: AtomicU64 = AtomicU64::new(1);

/// ‡ No two trees of a process share a name. Whoever lets go of a tree late, such as a reader of a state that was removed, removes
/// tables that were merged, by their names; and a tree that was begun in the same place has tables with the same numbers.
fn new_name() -> String {
    format!("{TREE}{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

fn trees(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut trees = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(number) = name.to_string_lossy().strip_prefix(TREE) {
            let number: u64 = number.parse().unwrap_or_default();
            NUMBER.fetch_max(number.saturating_add(1), Ordering::Relaxed);
            trees.push(entry.path());
        }
    }
    Ok(trees)
}

/// What a tree says of itself.
fn found(guarded: &Guarded, tree: &AnyTree, version: u64) -> Result<Durable, ShelfError> {
    let failed = |error| guarded.failed(error);
    let applied = match tree.get(APPLIED, version).map_err(failed)? {
        Some(bytes) => Applied::decode(&bytes)
            .ok_or_else(|| guarded.damage("it does not say how far it is applied".to_owned()))?,
        None if tree.first_key_value(version, None).is_none() => Applied::default(),
        None => {
            let what = "it has rows and does not say how far it is applied";
            return Err(guarded.damage(what.to_owned()));
        }
    };
    let mut forgotten = Forgotten::default();
    for item in tree.prefix([FORGOTTEN], version, None) {
        let key = item.key().map_err(failed)?;
        forgotten.add(key.get(1..).unwrap_or_default(), 0);
    }
    Ok(Durable {
        applied,
        forgotten: Arc::new(forgotten),
    })
}
