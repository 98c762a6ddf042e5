//! The requests of clients to one log and their outcomes: the history, and the bytes.
//!
//! ```text
//!  writer ─ invoke ─► open appends ─ acknowledged ─► operations ─┐
//!  reader ─ begin ── see, see … ── done ─► observations ─────────┴─► history: linearizable?
//!                      └► output: whose bytes are these?
//! ```
//!
//! Times are microseconds of the monotonic clock since the ledger was made; an invocation's is taken
//! before the request leaves, a completion's after the answer came.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::StreamName;
use client::admin::{StreamEnd, StreamInfo};
use history::{Action, Operation};

use super::content;
use super::output::{Output, Wrong};

pub struct Ledger {
    pub log: String,
    /// The log's place among the logs, for the content.
    index: usize,
    seed: u64,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    output: Output,
    chains: Vec<Chain>,
    appends: Vec<Operation>,
    observations: Vec<Seen>,
    /// The number of streams that writers have opened.
    openings: u64,
    /// Streams of which a writer was told that they ended cleanly.
    closed: Vec<StreamName>,
    /// Impossible facts, in sentences; each but those of `faults_of_writers` is a read's.
    wrong_reads: Vec<String>,
    wrong_appends: Vec<String>,
    /// Since when bytes wait and none was acknowledged.
    waiting_since: Option<Instant>,
    longest_stall: Option<(Duration, Instant)>,
    /// Writers were told to end: what waits from then on is no stall.
    writers_stop: bool,
    acked_bytes: u64,
}

impl State {
    /// Counts the stall that ends now, if there is one.
    fn end_wait(&mut self, now: Instant) {
        if let Some(since) = self.waiting_since.take() {
            let waited = now.saturating_duration_since(since);
            self.longest_stall = self.longest_stall.max(Some((waited, since)));
        }
    }
}

/// The bytes that one writer appends, over all its streams.
struct Chain {
    key: u64,
    client: u32,
    written: u64,
    acknowledged: u64,
    first: Option<StreamName>,
    open: VecDeque<OpenAppend>,
}

struct OpenAppend {
    from: u64,
    to: u64,
    invoked: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The output was exactly `length` bytes long at a moment within its time.
    Read,
    /// At least so long.
    Peek,
}

/// Bytes `from..length` of the output, which were compared.
struct Seen {
    kind: Kind,
    client: u32,
    from: u64,
    length: u64,
    invoked: u64,
    completed: u64,
}

/// A chain's bytes, to be made anew at any position.
#[derive(Clone, Copy, Debug)]
pub struct ChainContent {
    pub number: u32,
    pub key: u64,
}

impl Ledger {
    pub fn new(log: &str, index: usize, seed: u64, began: Instant) -> Self {
        Self {
            log: log.to_owned(),
            index,
            seed,
            began,
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each statement under the lock leaves what can be gone on with.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> u64 {
        self.micros(Instant::now())
    }

    fn micros(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_micros() as u64
    }
}

/// The words of writers.
impl Ledger {
    pub fn new_chain(&self, client: u32) -> ChainContent {
        let mut state = self.lock();
        let number = state.chains.len() as u32 + 1;
        let key = content::key(self.seed, self.index, number);
        state.output.add_chain(key);
        state.chains.push(Chain {
            key,
            client,
            written: 0,
            acknowledged: 0,
            first: None,
            open: VecDeque::new(),
        });
        ChainContent { number, key }
    }

    /// An appender is open, and goes on at this position of the chain. False: that cannot be.
    pub fn opened(&self, chain: ChainContent, first: StreamName, position: u64) -> bool {
        let mut state = self.lock();
        state.openings += 1;
        let opening = state.openings;
        state.output.opened(chain.number, opening);
        let chain = &mut state.chains[chain.number as usize - 1];
        chain.first.get_or_insert(first);
        let (acknowledged, written) = (chain.acknowledged, chain.written);
        if (acknowledged..=written).contains(&position) {
            return true;
        }
        state.wrong_appends.push(format!(
            "a chain is continued at {position}, but {acknowledged} bytes of it were acknowledged \
             and {written} written"
        ));
        false
    }

    /// Its first stream, and how much of it was given to appenders.
    pub fn chain(&self, chain: ChainContent) -> (Option<StreamName>, u64) {
        let state = self.lock();
        let chain = &state.chains[chain.number as usize - 1];
        (chain.first, chain.written)
    }

    /// Nobody will go on with the chain.
    pub fn abandoned(&self, chain: ChainContent) {
        let mut state = self.lock();
        let openings = state.openings;
        state.output.abandoned(chain.number, openings);
    }

    /// The bytes up to `to` are about to be appended. Those that were before, in a stream that was
    /// lost, are the same bytes, and were invoked then.
    pub fn invoke(&self, chain: ChainContent, to: u64) {
        let mut state = self.lock();
        let now = Instant::now();
        let invoked = self.micros(now);
        state.output.wrote(chain.number, to);
        let chain = &mut state.chains[chain.number as usize - 1];
        if to > chain.written {
            let from = chain.written;
            chain.open.push_back(OpenAppend { from, to, invoked });
            chain.written = to;
        }
        if !state.writers_stop {
            state.waiting_since.get_or_insert(now);
        }
    }

    /// Everything below this position of the chain is acknowledged.
    pub fn acknowledged(&self, number: u32, position: u64) {
        let mut state = self.lock();
        let now = Instant::now();
        let completed = self.micros(now);
        let state = &mut *state;
        let chain = &mut state.chains[number as usize - 1];
        if position > chain.written {
            let written = chain.written;
            state.wrong_appends.push(format!(
                "{position} bytes of a chain were acknowledged, and {written} written"
            ));
        }
        let position = position.min(chain.written);
        if position <= chain.acknowledged {
            return;
        }
        state.acked_bytes += position - chain.acknowledged;
        chain.acknowledged = position;
        while let Some(first) = chain.open.front_mut() {
            if first.from >= position {
                break;
            }
            let (from, to) = (first.from, first.to.min(position));
            let invoked = first.invoked;
            match first.to > position {
                true => first.from = position,
                false => drop(chain.open.pop_front()),
            }
            state.appends.push(Operation {
                client: chain.client,
                action: Action::Append {
                    chain: number,
                    from,
                    to,
                },
                invoked,
                completed: Some(completed),
            });
        }
        let is_open = !chain.open.is_empty();
        state.end_wait(now);
        if is_open && !state.writers_stop {
            state.waiting_since = Some(now);
        }
    }

    /// Writers are told to end: an append that is open then is a stall up to now, and no longer one.
    pub fn writers_stop(&self) {
        let mut state = self.lock();
        state.end_wait(Instant::now());
        state.writers_stop = true;
    }

    /// A writer was told that this stream, the last of its chain, ended cleanly.
    pub fn closed(&self, last: StreamName) {
        self.lock().closed.push(last);
    }

    /// A node or the client library said what cannot be of an append.
    pub fn wrong_append(&self, sentence: String) {
        self.lock().wrong_appends.push(sentence);
    }
}

/// The words of observers.
impl Ledger {
    /// The part of the output that anybody has seen.
    pub fn known(&self) -> u64 {
        self.lock().output.known()
    }

    /// Compares what was read at a position of the output that is not beyond [`Ledger::known`].
    ///
    /// Errors: these bytes cannot stand there; it has been written down.
    pub fn see(&self, who: &str, position: u64, bytes: &[u8]) -> Result<(), Wrong> {
        let mut state = self.lock();
        state.output.see(position, bytes).inspect_err(|wrong| {
            let position = wrong.position;
            let what = match wrong.differs {
                true => "another byte than others saw there",
                false => "a byte that nobody has appended there",
            };
            let sentence = format!("{who} saw at {position} of the log {} {what}", self.log);
            state.wrong_reads.push(sentence);
        })
    }

    pub fn observed(&self, kind: Kind, client: u32, from: u64, length: u64, invoked: u64) {
        let mut state = self.lock();
        let completed = self.now();
        state.observations.push(Seen {
            kind,
            client,
            from,
            length,
            invoked,
            completed,
        });
    }

    /// A read ended with an error that says that bytes or answers are wrong.
    pub fn wrong_read(&self, sentence: String) {
        self.lock().wrong_reads.push(sentence);
    }
}

/// The results of it all.
impl Ledger {
    pub fn acked_bytes(&self) -> u64 {
        self.lock().acked_bytes
    }

    pub fn counts(&self) -> (u64, u64, u64) {
        let state = self.lock();
        let reads = state
            .observations
            .iter()
            .filter(|seen| seen.kind == Kind::Read)
            .count();
        let open: usize = state.chains.iter().map(|chain| chain.open.len()).sum();
        let observations = state.observations.len();
        (
            (state.appends.len() + open) as u64,
            reads as u64,
            (observations - reads) as u64,
        )
    }

    /// The number of streams that writers opened.
    pub fn openings(&self) -> u64 {
        self.lock().openings
    }

    /// The longest time in which bytes waited and none of the log's was acknowledged, and when it
    /// began; up to now, or to the end of the writers.
    pub fn longest_stall(&self) -> Option<(Duration, Instant)> {
        let state = self.lock();
        let present = state.waiting_since.map(|since| (since.elapsed(), since));
        state.longest_stall.max(present)
    }

    pub fn wrong_reads(&self) -> Vec<String> {
        self.lock().wrong_reads.clone()
    }

    pub fn wrong_appends(&self) -> Vec<String> {
        self.lock().wrong_appends.clone()
    }

    /// The number of `bytes` that are known to stand at `position`.
    pub fn same(&self, position: u64, bytes: &[u8]) -> u64 {
        self.lock().output.same(position, bytes) as u64
    }

    /// Acknowledged bytes that are not among the first `end` of the output.
    pub fn acked_not_below(&self, end: u64) -> u64 {
        let state = self.lock();
        let chains = (1..).zip(&state.chains);
        chains
            .map(|(number, chain)| {
                let held = state.output.held_below(number, end);
                chain.acknowledged.saturating_sub(held)
            })
            .sum()
    }

    /// Compares with the log's streams as they are in the end: a clean end stays one.
    pub fn check_ends(&self, streams: &[StreamInfo]) {
        let mut state = self.lock();
        let state = &mut *state;
        for name in &state.closed {
            let of_name = |stream: &&StreamInfo| stream.name == name.to_string();
            let end = streams.iter().find(of_name).map(|stream| stream.end);
            if end != Some(StreamEnd::Closed) {
                state.wrong_appends.push(format!(
                    "the stream {name} of the log {} was closed, and is {end:?} in the end",
                    self.log
                ));
            }
        }
    }

    /// In the order of invocations.
    pub fn history(&self) -> Vec<Operation> {
        let state = self.lock();
        let mut history = state.appends.clone();
        for (number, chain) in (1..).zip(&state.chains) {
            debug_assert_eq!(chain.key, state.output.key(number));
            history.extend(chain.open.iter().map(|open| Operation {
                client: chain.client,
                action: Action::Append {
                    chain: number,
                    from: open.from,
                    to: open.to,
                },
                invoked: open.invoked,
                completed: None,
            }));
        }
        history.extend(state.observations.iter().map(|seen| {
            let (from, length) = (seen.from, seen.length);
            let extents = state.output.extents(from, length);
            let action = match seen.kind {
                Kind::Read => Action::Read {
                    from,
                    length,
                    seen: extents,
                },
                Kind::Peek => Action::Peek {
                    from,
                    seen: extents,
                },
            };
            Operation {
                client: seen.client,
                action,
                invoked: seen.invoked,
                completed: Some(seen.completed),
            }
        }));
        let known = state.output.known();
        if known > 0 {
            history.push(Operation {
                client: SOMEBODY,
                action: Action::Peek {
                    from: 0,
                    seen: state.output.extents(0, known),
                },
                invoked: 0,
                completed: Some(self.now()),
            });
        }
        history.sort_by_key(|operation| operation.invoked);
        history
    }
}

/// Some bytes were seen by a client whose operation had no end: until now, somebody saw everything.
const SOMEBODY: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> StreamName {
        "1.1.1".parse().unwrap()
    }

    fn bytes(chain: ChainContent, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0; (to - from) as usize];
        content::fill(chain.key, from, &mut bytes);
        bytes
    }

    #[test]
    fn an_ack_in_the_middle_of_a_write_divides_it() {
        let ledger = Ledger::new("main", 0, 1, Instant::now());
        let chain = ledger.new_chain(7);
        assert!(ledger.opened(chain, stream(), 0));
        ledger.invoke(chain, 100);
        ledger.invoke(chain, 150);
        ledger.acknowledged(chain.number, 40);
        ledger.acknowledged(chain.number, 120);
        let history = ledger.history();
        let parts: Vec<_> = history
            .iter()
            .map(|operation| match operation.action {
                Action::Append { from, to, .. } => (from, to, operation.completed.is_some()),
                _ => unreachable!(),
            })
            .collect();
        let all = [
            (0, 40, true),
            (40, 100, true),
            (100, 120, true),
            (120, 150, false),
        ];
        assert!(all.iter().all(|part| parts.contains(part)), "{parts:?}");
        assert_eq!(history::check(&history), Ok(Vec::new()));
        assert_eq!(
            (ledger.acked_bytes(), ledger.acked_not_below(0)),
            (120, 120)
        );
    }

    #[test]
    fn bytes_sent_again_are_the_bytes_of_before() {
        let ledger = Ledger::new("main", 0, 1, Instant::now());
        let chain = ledger.new_chain(7);
        ledger.invoke(chain, 100);
        let invoked = ledger.history()[0].invoked;
        assert!(ledger.opened(chain, stream(), 60));
        std::thread::sleep(Duration::from_millis(2));
        ledger.invoke(chain, 100);
        ledger.acknowledged(chain.number, 100);
        let history = ledger.history();
        assert_eq!((history.len(), history[0].invoked), (1, invoked));
        assert!(!ledger.opened(chain, stream(), 99), "100 were acknowledged");
        assert_eq!(ledger.wrong_appends().len(), 1);
    }

    #[test]
    fn what_waits_after_the_end_of_the_writers_is_no_stall() {
        let ledger = Ledger::new("main", 0, 1, Instant::now());
        let chain = ledger.new_chain(7);
        ledger.invoke(chain, 100);
        ledger.acknowledged(chain.number, 50);
        assert!(ledger.lock().waiting_since.is_some(), "50 bytes wait");
        ledger.writers_stop();
        let stalled = ledger.longest_stall();
        assert!(stalled.is_some());
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(ledger.longest_stall(), stalled, "it ended with the writers");
        ledger.acknowledged(chain.number, 70);
        ledger.invoke(chain, 200);
        std::thread::sleep(Duration::from_millis(2));
        ledger.acknowledged(chain.number, 200);
        assert_eq!(ledger.longest_stall(), stalled, "and begins no more");
        assert_eq!(ledger.acked_bytes(), 200);
    }

    #[test]
    fn a_clean_end_that_is_none_in_the_end_is_seen() {
        let ledger = Ledger::new("main", 0, 1, Instant::now());
        let with_end = |end: &str| -> Vec<StreamInfo> {
            let text = format!(r#"[{{"name":"1.1.1","length":5,"end":"{end}"}}]"#);
            serde_json::from_str(&text).unwrap()
        };
        ledger.check_ends(&with_end("cut"));
        assert!(
            ledger.wrong_appends().is_empty(),
            "nobody was told anything"
        );
        ledger.closed(stream());
        ledger.check_ends(&with_end("closed"));
        assert!(ledger.wrong_appends().is_empty());
        for (number, streams) in [with_end("cut"), with_end("open"), Vec::new()]
            .iter()
            .enumerate()
        {
            ledger.check_ends(streams);
            assert_eq!(ledger.wrong_appends().len(), number + 1);
        }
    }

    #[test]
    fn what_is_lost_after_it_was_read_is_seen() {
        let ledger = Ledger::new("main", 0, 1, Instant::now());
        let chain = ledger.new_chain(7);
        ledger.invoke(chain, 100);
        ledger.see("a reader", 0, &bytes(chain, 0, 100)).unwrap();
        ledger.observed(Kind::Read, 1, 0, 100, ledger.now());
        ledger.acknowledged(chain.number, 100);
        assert_eq!(ledger.acked_not_below(100), 0);
        assert_eq!(ledger.acked_not_below(70), 30);
        assert_eq!(ledger.same(10, &bytes(chain, 10, 100)), 90);
        std::thread::sleep(Duration::from_millis(2));
        ledger.observed(Kind::Read, 1, 90, 95, ledger.now());
        let violations = history::check(&ledger.history()).unwrap();
        assert_eq!(violations.len(), 1, "{violations:?}");
    }
}
