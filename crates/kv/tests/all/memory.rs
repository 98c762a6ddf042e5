//! Rows in memory. They can be away at first, as rows on a disk are; and they watch that nothing is done below what was forgotten.

use std::collections::{BTreeMap, BTreeSet};

use kv::{Bounds, Context, Executed, Life, Page, Prepared, Rows, SLOTS, execute};
use resp::{Protocol, Value};

/// Rows, as many commands see them one after the other.
pub struct Memory {
    pub rows: BTreeMap<Vec<u8>, Vec<u8>>,
    forgotten: BTreeSet<Vec<u8>>,
    pub lives: Vec<Life>,
    pub time_ms: u64,
    pub bounds: Bounds,
    pub protocol: Protocol,
    /// The value of the next commands, which went ahead of them.
    pub prepared: Option<Prepared>,
    /// So many of eight rows and ranges are away when they are first asked for.
    pub away: u64,
    /// The rows of a page, as a bound in bytes makes them few.
    pub page_rows_max: usize,
    seed: u64,
    /// A fetch takes so long.
    pub fetch_ms: u64,
    /// How often a command was executed anew.
    pub again: u64,
}

/// A row or a range has to be fetched.
#[derive(Debug)]
pub struct Away;

impl Memory {
    pub fn new(seed: u64) -> Memory {
        let life = |slot| Life {
            slot,
            epoch: 1,
            round: 1,
        };
        Memory {
            rows: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            lives: (0..SLOTS).map(life).collect(),
            time_ms: 1_700_000_000_000,
            bounds: Bounds::default(),
            protocol: Protocol::Resp2,
            prepared: None,
            away: 0,
            page_rows_max: usize::MAX,
            seed,
            fetch_ms: 0,
            again: 0,
        }
    }

    /// Everything that can be in rows, is; strings of more than a few bytes lie in chunks.
    pub fn with_small_bounds(mut self) -> Memory {
        self.bounds.packed_bytes_max = 40;
        self.bounds.packed_members_max = 4;
        self.bounds.inline_bytes_max = 30;
        self
    }

    pub fn run(&mut self, words: &[&[u8]]) -> Executed {
        let mut here = BTreeSet::new();
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        loop {
            let mut view = View {
                memory: self,
                own: BTreeMap::new(),
                forgotten: Vec::new(),
                here: &mut here,
                random: self.seed,
            };
            let context = Context {
                bounds: self.bounds,
                prepared: self.prepared,
                ..Context::new(self.protocol, &self.lives)
            };
            let result = execute(&mut view, &context, words);
            let (own, forgotten) = (view.own, view.forgotten);
            match result {
                Ok(executed) => {
                    let wrote = !own.is_empty() || !forgotten.is_empty();
                    assert_eq!(executed.wrote, wrote);
                    self.write(own, forgotten);
                    for life in &executed.flushed {
                        self.lives[usize::from(life.slot)] = *life;
                    }
                    return executed;
                }
                Err(Away) => {
                    self.again += 1;
                    self.time_ms += self.fetch_ms;
                }
            }
        }
    }

    /// Works off what is due in a slot; returns the keys.
    #[allow(dead_code, reason = "the comparison with Redis has no use for it")]
    pub fn take_expired(&mut self, life: Life) -> Vec<Vec<u8>> {
        self.on_slot(|view| kv::take_expired(view, life, 1000))
    }

    /// Does something with a slot as a whole, until all its rows are here.
    pub fn on_slot<T>(&mut self, act: impl Fn(&mut View) -> Result<T, kv::Halt<Away>>) -> T {
        let mut here = BTreeSet::new();
        loop {
            let mut view = View {
                memory: self,
                own: BTreeMap::new(),
                forgotten: Vec::new(),
                here: &mut here,
                random: self.seed,
            };
            let acted = act(&mut view);
            match acted {
                Ok(done) => {
                    let (own, forgotten) = (view.own, view.forgotten);
                    self.write(own, forgotten);
                    return done;
                }
                Err(kv::Halt::Stop(Away)) => {
                    self.again += 1;
                    self.time_ms += self.fetch_ms;
                }
                Err(kv::Halt::Unknown(words)) => panic!("{words}"),
            }
        }
    }

    #[allow(dead_code, reason = "the comparison with Redis has no use for it")]
    pub fn reply(&mut self, line: &str) -> Value {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.run(&words).reply
    }

    fn write(&mut self, own: BTreeMap<Vec<u8>, Option<Vec<u8>>>, forgotten: Vec<Vec<u8>>) {
        for prefix in forgotten {
            self.rows.retain(|key, _| !key.starts_with(&prefix));
            self.forgotten.insert(prefix);
        }
        for (key, value) in own {
            match value {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
    }

    fn is_forgotten(&self, key: &[u8]) -> bool {
        // A prefix is a life, or a life with a tag and an id.
        let lengths = [Life::BYTES, Life::BYTES + 9];
        let mut prefixes = lengths.iter().filter_map(|length| key.get(..*length));
        prefixes.any(|prefix| self.forgotten.contains(prefix))
    }
}

/// Rows, as one command sees them.
pub struct View<'a> {
    memory: &'a Memory,
    own: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    forgotten: Vec<Vec<u8>>,
    here: &'a mut BTreeSet<Vec<u8>>,
    random: u64,
}

impl View<'_> {
    /// Whether this is here; it is the next time.
    fn fetch(&mut self, what: &[u8]) -> Result<(), Away> {
        let hash = what.iter().fold(self.memory.seed, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let is_away = (hash >> 40) % 8 < self.memory.away;
        if is_away && self.here.insert(what.to_vec()) {
            return Err(Away);
        }
        Ok(())
    }

    fn check(&self, key: &[u8]) {
        let is_own = self.forgotten.iter().any(|prefix| key.starts_with(prefix));
        assert!(
            !is_own && !self.memory.is_forgotten(key),
            "{key:?} was forgotten"
        );
    }

    fn merged(&self, from: &[u8], to: &[u8]) -> BTreeMap<&[u8], &[u8]> {
        let mut rows = BTreeMap::new();
        for (key, value) in self.memory.rows.range(from.to_vec()..to.to_vec()) {
            if !self.forgotten.iter().any(|prefix| key.starts_with(prefix)) {
                rows.insert(key.as_slice(), value.as_slice());
            }
        }
        for (key, value) in self.own.range(from.to_vec()..to.to_vec()) {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(key.as_slice()),
            };
        }
        rows
    }

    fn page(
        &mut self,
        from: &[u8],
        to: &[u8],
        rows_max: usize,
        is_back: bool,
    ) -> Result<Page, Away> {
        self.fetch(&[from, b"|", to, &[u8::from(is_back)]].concat())?;
        if from >= to || rows_max == 0 {
            let is_last = from >= to;
            return Ok(Page {
                rows: Vec::new(),
                is_last,
            });
        }
        self.check(from);
        let rows_max = rows_max.min(self.memory.page_rows_max);
        let merged = self.merged(from, to);
        let is_last = merged.len() <= rows_max;
        let owned = |(key, value): (&&[u8], &&[u8])| (key.to_vec(), value.to_vec());
        let rows = match is_back {
            true => merged.iter().rev().take(rows_max).map(owned).collect(),
            false => merged.iter().take(rows_max).map(owned).collect(),
        };
        Ok(Page { rows, is_last })
    }
}

impl Rows for View<'_> {
    type Stop = Away;

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Away> {
        self.check(key);
        if let Some(value) = self.own.get(key) {
            return Ok(value.clone());
        }
        self.fetch(key)?;
        Ok(self.memory.rows.get(key).cloned())
    }

    fn range(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Away> {
        self.page(from, to, rows_max, false)
    }

    fn range_back(&mut self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Page, Away> {
        self.page(from, to, rows_max, true)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Away> {
        self.check(key);
        self.own.insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Away> {
        self.check(key);
        self.own.insert(key.to_vec(), None);
        Ok(())
    }

    fn forget(&mut self, prefix: &[u8]) -> Result<(), Away> {
        self.own.retain(|key, _| !key.starts_with(prefix));
        self.forgotten.push(prefix.to_vec());
        Ok(())
    }

    fn time_ms(&self) -> u64 {
        self.memory.time_ms
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
