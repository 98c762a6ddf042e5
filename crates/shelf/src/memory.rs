//! A shelf in memory, over media that lose what was not flushed.

use std::collections::BTreeMap;
use std::io;
use std::iter;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::forgotten::Forgotten;
use super::{
    Applied, Batch, Cursor, Figures, Identity, Page, PageBounds, Pages, Shelf, ShelfError,
    Snapshot, Write,
};

/// What is left when the process is gone, and what happens to it. Clones are the same media.
#[derive(Clone, Default)]
pub struct Media(Arc<Mutex<OnMedia>>);

#[derive(Default)]
struct OnMedia {
    identity: Option<Identity>,
    state: State,
    note: Option<Vec<u8>>,
    is_damaged: bool,
    is_full: bool,
}

impl Media {
    /// From now on flushes fail, and none is begun there; or no more.
    pub fn fill(&self, is_full: bool) {
        self.lock().is_full = is_full;
    }

    /// What is on them is not to be believed any more.
    pub fn damage(&self) {
        self.lock().is_damaged = true;
    }

    /// From now on they hold another row, and nothing tells so.
    pub fn alter(&self, key: &[u8], value: &[u8]) {
        let mut on_media = self.lock();
        on_media.state.rows.insert(key.to_vec(), value.to_vec());
    }

    /// From now on its last frame is another than that of its log: it was put there from another time.
    pub fn change_history(&self) {
        self.lock().state.applied.frame_crc32c ^= 1;
    }

    /// Takes away all that is there.
    pub fn clear(&self) {
        let mut on_media = self.lock();
        *on_media = OnMedia {
            is_full: on_media.is_full,
            ..OnMedia::default()
        };
    }

    /// The place to which a crash takes their shelf back: nowhere, if they are damaged.
    pub fn durable(&self) -> Applied {
        let on_media = self.lock();
        match on_media.is_damaged {
            true => Applied::default(),
            false => on_media.state.applied,
        }
    }

    /// Whether a row of this key is durable.
    pub fn has(&self, key: &[u8]) -> bool {
        self.lock().state.rows.contains_key(key)
    }

    fn lock(&self) -> MutexGuard<'_, OnMedia> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Default)]
struct State {
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    forgotten: Forgotten,
    applied: Applied,
}

/// The rows of a shelf as a map. A crash is to drop it: what was flushed is found by the next one over its media.
pub struct Memory {
    media: Media,
    state: Mutex<Arc<State>>,
}

impl Memory {
    pub fn open(media: &Media, identity: Identity) -> Result<Memory, ShelfError> {
        let mut on_media = media.lock();
        let path = || PathBuf::from("memory");
        if on_media.is_damaged {
            return Err(ShelfError::Damaged {
                path: path(),
                what: "its media were damaged".to_owned(),
            });
        }
        if on_media.is_full && on_media.identity.is_none() {
            return Err(ShelfError::Io {
                path: path(),
                source: io::Error::from(io::ErrorKind::StorageFull),
            });
        }
        let found = *on_media.identity.get_or_insert(identity);
        if found != identity {
            return Err(ShelfError::AnotherLog {
                path: path(),
                found,
                expected: identity,
            });
        }
        Ok(Memory {
            state: Mutex::new(Arc::new(on_media.state.clone())),
            media: media.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Arc<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf for Memory {
    fn apply(&self, batch: &Batch, applied: Applied) -> Result<(), ShelfError> {
        batch.check()?;
        let mut state = self.lock();
        if applied.position < state.applied.position {
            return Err(ShelfError::GoesBack {
                now: state.applied.position,
                asked: applied.position,
            });
        }
        let mut next = State::clone(&state);
        for write in batch.writes() {
            match write {
                Write::Put { key, .. } if next.forgotten.covers(key) => {
                    return Err(ShelfError::Forgotten);
                }
                Write::Put { key, value } => _ = next.rows.insert(key.clone(), value.clone()),
                Write::Delete { key } => _ = next.rows.remove(key),
                Write::Forget { prefix } => {
                    next.forgotten.add(prefix, 0);
                    next.rows.retain(|key, _| !key.starts_with(prefix));
                }
            }
        }
        next.applied = applied;
        *state = Arc::new(next);
        Ok(())
    }

    fn applied(&self) -> Applied {
        self.lock().applied
    }

    fn durable(&self) -> Applied {
        self.media.lock().state.applied
    }

    fn snapshot(&self) -> Box<dyn Snapshot + '_> {
        Box::new(Arc::clone(&self.lock()))
    }

    fn flush(&self) -> Result<Applied, ShelfError> {
        let state = self.lock();
        let mut on_media = self.media.lock();
        if on_media.is_full {
            return Err(ShelfError::Io {
                path: PathBuf::from("memory"),
                source: io::Error::from(io::ErrorKind::StorageFull),
            });
        }
        on_media.state = State::clone(&state);
        Ok(state.applied)
    }

    fn compact(&self) -> Result<(), ShelfError> {
        let durable = self.media.lock().state.forgotten.clone();
        let mut state = self.lock();
        for prefix in durable.before(u64::MAX) {
            Arc::make_mut(&mut state).forgotten.remove(prefix);
        }
        Ok(())
    }

    fn keep_note(&self, note: &[u8]) -> Result<(), ShelfError> {
        self.media.lock().note = Some(note.to_vec());
        Ok(())
    }

    fn note(&self) -> Option<Vec<u8>> {
        self.media.lock().note.clone()
    }

    fn figures(&self) -> Figures {
        let state = self.lock();
        let on_media = self.media.lock();
        Figures {
            unflushed_bytes: state.bytes().abs_diff(on_media.state.bytes()),
            disk_bytes: on_media.state.bytes(),
            forgotten: state.forgotten.len() as u64,
        }
    }
}

impl State {
    fn bytes(&self) -> u64 {
        let rows = self.rows.iter();
        let bytes = rows.map(|(key, value)| key.len() + value.len());
        bytes.sum::<usize>() as u64
    }

    fn page<'a>(
        &self,
        rows: impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)>,
        max: PageBounds,
    ) -> Page {
        let mut page = Page {
            rows: Vec::new(),
            applied: self.applied,
            is_last: true,
        };
        let mut bytes = 0;
        for (key, value) in rows {
            bytes += key.len() + value.len();
            if super::is_full(&page, bytes, max) {
                page.is_last = false;
                break;
            }
            page.rows.push((key.clone(), value.clone()));
        }
        page
    }
}

impl Snapshot for Arc<State> {
    fn applied(&self) -> Applied {
        self.applied
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, ShelfError> {
        Ok(self.rows.get(key).cloned())
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError> {
        Ok(match super::is_empty_range(from, to) {
            true => self.page(iter::empty(), max),
            false => self.page(self.rows.range::<[u8], _>((from, to)), max),
        })
    }

    fn scan_back(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        max: PageBounds,
    ) -> Result<Page, ShelfError> {
        Ok(match super::is_empty_range(from, to) {
            true => self.page(iter::empty(), max),
            false => self.page(self.rows.range::<[u8], _>((from, to)).rev(), max),
        })
    }

    fn cursor(&self, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Result<Cursor, ShelfError> {
        Ok(Box::new(Following {
            state: self.clone(),
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
        }))
    }
}

struct Following {
    state: Arc<State>,
    from: Bound<Vec<u8>>,
    to: Bound<Vec<u8>>,
}

impl Pages for Following {
    fn applied(&self) -> Applied {
        self.state.applied
    }

    fn next_page(&mut self, max: PageBounds) -> Result<Page, ShelfError> {
        let from = self.from.as_ref().map(Vec::as_slice);
        let to = self.to.as_ref().map(Vec::as_slice);
        let page = self.state.scan(from, to, max)?;
        if let Some((key, _)) = page.rows.last() {
            self.from = Bound::Excluded(key.clone());
        }
        Ok(page)
    }
}
