//! Streams that keep a part of themselves: whatever is drawn, what has to stay is there, and what may go goes in the end.

use streams::{
    Answer, Append, BLOCK_BYTES, Create, ForkFrom, Found, From, Lifetime, MediaType, Offset,
    Request, Retention,
};

use super::Memory;
use super::draws::path;

const SOURCE: &str = "source";
const FORK: &str = "fork";

/// An append: when it was made, where it ends, and what stands there.
struct Made {
    at_ms: u64,
    end: u64,
    offset: Offset,
    byte: u8,
}

struct World {
    rows: Memory,
    retention: Retention,
    made: Vec<Made>,
    /// The fork: how many appends it begins with, and the first of them that was left then.
    fork: Option<(usize, usize)>,
    seed: u64,
}

impl World {
    fn execute(&mut self, request: &Request) -> Answer {
        let Ok(answer) = streams::execute(&mut self.rows, request);
        answer
    }

    fn create(&mut self, name: &str, fork: Option<ForkFrom>, retention: Retention) -> Offset {
        let create = Create {
            path: path(name),
            media: MediaType::new("text/plain"),
            // Reads of the source are noted: a use makes no byte younger.
            lifetime: match name == SOURCE {
                true => Lifetime::Idle { seconds: 100 },
                false => Lifetime::Until { ms: 1 << 50 },
            },
            retention,
            closes: false,
            body: Vec::new(),
            fork,
            must_be_new: true,
        };
        match self.execute(&Request::Create(Box::new(create))) {
            Answer::Created(place) => place.tail,
            other => panic!("seed {}: {other:?}", self.seed),
        }
    }

    fn append(&mut self, length: usize) {
        let byte = b'a' + (self.made.len() % 26) as u8;
        let append = Append {
            path: path(SOURCE),
            principal: String::new(),
            media: MediaType::new("text/plain"),
            body: vec![byte; length],
            closes: false,
            sequence: None,
            producer: None,
            expected: None,
        };
        match self.execute(&Request::Append(Box::new(append))) {
            Answer::Appended { place, .. } => self.made.push(Made {
                at_ms: self.rows.time_ms,
                end: place.tail.position,
                offset: place.tail,
                byte,
            }),
            other => panic!("seed {}: {other:?}", self.seed),
        }
    }

    fn begin(&self, at: usize) -> u64 {
        at.checked_sub(1).map_or(0, |before| self.made[before].end)
    }

    fn tail(&self) -> u64 {
        self.begin(self.made.len())
    }

    /// The bytes of these appends.
    fn bytes(&self, from: usize, to: usize) -> Vec<u8> {
        let parts = self.made[from..to].iter().enumerate();
        let part = |(at, made): (usize, &Made)| {
            let length = made.end - self.begin(from + at);
            vec![made.byte; length as usize]
        };
        parts.flat_map(part).collect()
    }

    fn left(&mut self, name: &str) -> (Offset, Vec<u8>) {
        let (mut all, mut from, mut begin) = (Vec::new(), From::Start, None);
        loop {
            match streams::read(&mut self.rows, &path(name), from, 1 << 20) {
                Ok(Found::There(read)) => {
                    begin.get_or_insert(read.from);
                    all.extend_from_slice(&read.bytes);
                    if read.is_at_tail() {
                        return (begin.expect("it began"), all);
                    }
                    from = From::At(read.next);
                }
                other => panic!("seed {}: {name}: {other:?}", self.seed),
            }
        }
    }

    /// Whether this append has to be there.
    fn must_stay(&self, at: usize) -> bool {
        let Retention { bytes, age_ms } = self.retention;
        let by_size = bytes.is_none_or(|bytes| self.tail() - self.begin(at) <= bytes);
        let since = age_ms.map(|age_ms| self.made[at].at_ms + age_ms);
        by_size && since.is_none_or(|until_ms| until_ms > self.rows.time_ms)
    }

    /// The first append that is left, as the stream tells it.
    fn first(&mut self) -> usize {
        let found = streams::stand(&mut self.rows, &path(SOURCE));
        let Ok(Found::There(standing)) = found else {
            panic!("seed {}: {found:?}", self.seed);
        };
        let first = standing.first.position;
        (0..=self.made.len())
            .find(|at| self.begin(*at) == first)
            .unwrap_or_else(|| panic!("seed {}: an append was cut", self.seed))
    }

    /// Looks at all there is. Returns the first append that is left.
    fn judge(&mut self) -> usize {
        let seed = self.seed;
        let (begin, bytes) = self.left(SOURCE);
        let count = self.made.len();
        let first = self.first();
        assert_eq!(begin.position, self.begin(first), "seed {seed}");
        assert!(
            bytes == self.bytes(first, count),
            "seed {seed}: other bytes"
        );
        for at in 0..first {
            assert!(!self.must_stay(at), "seed {seed}: append {at} is gone");
        }
        if let Some((to, from)) = self.fork {
            assert!(first <= from, "seed {seed}: what a fork holds is gone");
            let (_, forked) = self.left(FORK);
            assert!(
                forked == self.bytes(from, to),
                "seed {seed}: a fork has other bytes"
            );
        }
        let own = (self.tail() - begin.position).div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
        let usage = streams::usage(&mut self.rows).expect("memory does not fail");
        assert_eq!(usage.bytes, own, "seed {seed}: counted");
        let marks = self.rows.below(b'm').count();
        assert!(marks <= 40, "seed {seed}: {marks} marks");
        first
    }

    /// An offset that was given out is read from, or refused as that of what is gone.
    fn read_at(&mut self, at: usize, first: usize) {
        let offset = self.made[at].offset;
        let found = streams::read(&mut self.rows, &path(SOURCE), From::At(offset), 1);
        let found = found.expect("memory does not fail");
        let is_gone = offset.position < self.begin(first);
        match found {
            Found::Trimmed { first: told } => {
                assert!(is_gone, "seed {}: what is there is refused", self.seed);
                assert_eq!(told.position, self.begin(first));
            }
            Found::There(read) => {
                assert!(!is_gone, "seed {}: what is gone is read", self.seed);
                let expected = self.bytes(at + 1, (at + 2).min(self.made.len()).max(at + 1));
                assert!(read.bytes == expected, "seed {}: other bytes", self.seed);
            }
            other => panic!("seed {}: {other:?}", self.seed),
        }
    }

    fn touch(&mut self) {
        let path = path(SOURCE);
        self.execute(&Request::Touch { path, uses: true });
    }

    fn sweep(&mut self) {
        self.execute(&Request::Sweep { streams_max: 100 });
    }
}

fn retention_of(seed: u64, below: &mut dyn FnMut(u64) -> u64) -> Retention {
    let bytes = 200 + below(4_000);
    let age_ms = 2_000 + below(40_000);
    let (bytes, age_ms) = match seed % 4 {
        0 => (Some(bytes), None),
        1 => (None, Some(age_ms)),
        2 => (Some(bytes), Some(age_ms)),
        // Blocks are forgotten together.
        _ => (
            Some((30 + below(50)) << 20),
            (below(2) == 0).then_some(age_ms),
        ),
    };
    Retention { bytes, age_ms }
}

/// A stream is appended to, waits, is swept, forked, and read from where it once ended.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_stream_keeps_what_its_retention_says_and_what_forks_hold() {
    let (mut trimmed, mut gone) = (0, 0);
    for seed in 1..=21u64 {
        let mut draws = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |end: u64| {
            draws ^= draws << 13;
            draws ^= draws >> 7;
            draws ^= draws << 17;
            draws % end
        };
        let retention = retention_of(seed, &mut below);
        let is_large = seed % 4 == 3;
        let mut world = World {
            rows: Memory::default(),
            retention,
            made: Vec::new(),
            fork: None,
            seed,
        };
        world.rows.time_ms = 1_000_000;
        world.create(SOURCE, None, retention);
        let mut first = 0;
        for step in 0..if is_large { 60 } else { 300 } {
            world.rows.time_ms += below(900);
            match below(20) {
                0 => world.rows.time_ms += below(30_000),
                1 | 2 => world.sweep(),
                6 => world.touch(),
                3 if world.fork.is_none() && !world.made.is_empty() => {
                    let first = world.first();
                    let to = first + below((world.made.len() - first) as u64 + 1) as usize;
                    let offset = to.checked_sub(1).map(|at| world.made[at].offset);
                    let source = path(SOURCE);
                    let (sub, to) = match offset {
                        Some(_) => (0, to),
                        None => (0, world.made.len()),
                    };
                    let fork = ForkFrom {
                        source,
                        offset,
                        sub,
                    };
                    world.create(FORK, Some(fork), Retention::default());
                    world.fork = Some((to, first));
                }
                4 | 5 if world.fork.is_some() => {
                    let path = path(FORK);
                    world.execute(&Request::Delete { path });
                    world.fork = None;
                }
                _ if is_large => world.append(1 + below((8 << 20) - (64 << 10)) as usize),
                _ => world.append(1 + below(120) as usize),
            }
            // To look at all of a large stream takes its time.
            if is_large && step % 6 > 0 {
                continue;
            }
            let before = first;
            first = world.judge();
            assert!(first >= before, "seed {seed}: what was gone is back");
            trimmed += u64::from(first > before);
            if !world.made.is_empty() {
                let at = below(world.made.len() as u64) as usize;
                world.read_at(at, first);
            }
            if let (Some(bytes), None) = (retention.bytes, world.fork)
                && world.made.len() > 1
            {
                // It is not much more than was to be kept.
                let more = match is_large {
                    true => 48 << 20,
                    false => bytes / 8 + 240,
                };
                let left = world.tail() - world.begin(first);
                let is_soon = world
                    .made
                    .last()
                    .is_some_and(|made| made.at_ms == world.rows.time_ms);
                assert!(
                    !is_soon || left <= bytes + more,
                    "seed {seed}: {left} bytes are left"
                );
            }
        }
        // With no fork, and once all is too old, nothing is left.
        if world.fork.take().is_some() {
            let path = path(FORK);
            world.execute(&Request::Delete { path });
        }
        if let Some(age_ms) = retention.age_ms {
            for _ in 0..80 {
                world.rows.time_ms += age_ms / 8 + 1_001;
                world.touch();
                world.sweep();
            }
            assert_eq!(
                world.judge(),
                world.made.len(),
                "seed {seed}: old bytes are left"
            );
            assert_eq!(
                world.rows.below(b'd').count(),
                0,
                "seed {seed}: rows are left"
            );
            gone += 1;
        }
    }
    assert!(trimmed > 200 && gone > 8, "{trimmed} times, {gone} worlds");
}
