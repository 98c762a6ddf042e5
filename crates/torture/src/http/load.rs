//! The clients: of three, one appends as a producer, one without a number, and one reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use history::{Action, Extent};

use super::book::Book;
use super::content::{self, RECORD_BYTES};
use super::door::{Answer, Came, Doors};
use crate::conduct::Clients;
use crate::schedule::Chance;
use testbed::scratch::go_on;

#[derive(Clone)]
pub struct Plan {
    pub seed: u64,
    pub clients: u32,
    pub doors: Vec<String>,
    /// Now and then a reader takes for an answer what it was answered long before: to see that it is seen.
    pub reads_are_stale: bool,
}

const RECORDS_MAX: u64 = 8;
const AGAIN_AFTER: Duration = Duration::from_millis(20);
const LAST_READ_MAX: Duration = Duration::from_secs(30);
/// The client that reads at the end.
const LAST_READER: u32 = 10_000;

pub struct Load {
    stop: Arc<AtomicBool>,
    book: Arc<Book>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    pub fn start(plan: &Plan, book: &Arc<Book>) -> Result<Load> {
        let mut load = Load {
            stop: Arc::default(),
            book: book.clone(),
            threads: Vec::new(),
        };
        for number in 1..=plan.clients {
            let mut job = Job {
                number,
                chance: Chance::new(plan.seed, 2000 + u64::from(number)),
                doors: Doors::new(plan.doors.clone()),
                book: book.clone(),
                stop: load.stop.clone(),
                places: book.streams().iter().map(|_| Place::default()).collect(),
                is_stale: plan.reads_are_stale,
            };
            let thread = std::thread::Builder::new().name(format!("client-{number}"));
            load.threads.push(thread.spawn(move || {
                while !job.stops() {
                    let at = job.chance.below(job.places.len() as u64) as usize;
                    match number % 3 {
                        1 => job.append_numbered(at),
                        2 => job.append_once(at),
                        _ => job.read(at),
                    }
                    std::thread::sleep(job.chance.millis(2, 30));
                }
            })?);
        }
        Ok(load)
    }

    /// Has the clients stop, and waits for them.
    pub fn finish(mut self, patience: Duration) -> Result<()> {
        self.stop.store(true, Ordering::Release);
        let deadline = Instant::now() + patience;
        while self.threads.iter().any(|thread| !thread.is_finished()) {
            if Instant::now() >= deadline {
                bail!("a client does not come to its end within {patience:?}");
            }
            go_on()?;
            std::thread::sleep(AGAIN_AFTER);
        }
        for thread in std::mem::take(&mut self.threads) {
            if thread.join().is_err() {
                bail!("a client panicked; its words stand above");
            }
        }
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl Clients for Load {
    fn check(&mut self) -> Result<()> {
        match self.threads.iter().any(JoinHandle::is_finished) {
            true => bail!("a client panicked; its words stand above"),
            false => Ok(()),
        }
    }

    fn so_far(&self) -> String {
        let counts = self.book.counts();
        let (appends, reads, again) = (counts.appends, counts.reads, counts.appends_again);
        format!("{appends} appends, {again} of them sent again, {reads} reads")
    }
}

/// What a client knows of one stream.
#[derive(Default)]
struct Place {
    /// Of a producer: its chain, epoch and next number, and the bytes that stand there.
    chain: Option<u32>,
    epoch: u64,
    sequence: u64,
    bytes: u64,
    /// Where it saw the tail, or reads on.
    next: Option<(String, u64)>,
    /// What it was answered long ago.
    old: Option<Action>,
}

/// The things that each client's thread has.
struct Job {
    number: u32,
    chance: Chance,
    doors: Doors,
    book: Arc<Book>,
    stop: Arc<AtomicBool>,
    places: Vec<Place>,
    is_stale: bool,
}

impl Job {
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn name(&self, at: usize) -> String {
        self.book.streams()[at].name.clone()
    }

    /// An append of a producer is sent until its fate is known, and stands there once.
    fn append_numbered(&mut self, at: usize) {
        let name = self.name(at);
        let book = self.book.clone();
        let place = &mut self.places[at];
        let chain = *place
            .chain
            .get_or_insert_with(|| book.streams()[at].chain());
        if place.sequence > 0 && self.chance.one_in(50) {
            (place.epoch, place.sequence) = (place.epoch + 1, 0);
        }
        let count = self.chance.between(1, RECORDS_MAX);
        let body = content::records(chain, place.bytes, count);
        let (from, to) = (place.bytes, place.bytes + body.len() as u64);
        let action = Action::Append { chain, from, to };
        let headers = [
            ("Producer-Id", format!("p{}", self.number)),
            ("Producer-Epoch", place.epoch.to_string()),
            ("Producer-Seq", place.sequence.to_string()),
        ];
        let invoked = book.now();
        let mut tries = 0;
        let came = loop {
            tries += 1;
            match self.doors.append(&mut self.chance, &name, &headers, &body) {
                Came::Answered(answer) => break Some(answer),
                _ if self.stops() => break None,
                _ => std::thread::sleep(AGAIN_AFTER),
            }
        };
        let status = came.map(|answer| answer.status);
        let is_done = matches!(status, Some(200 | 204));
        book.note(at, self.number, action, invoked, is_done);
        if status.is_some() && !is_done {
            book.wrong(format!(
                "{name}: the append {headers:?} of client {} was answered {status:?}",
                self.number
            ));
        }
        let place = &mut self.places[at];
        // What has no answer may be there: nothing is appended behind it.
        match is_done {
            true => (place.bytes, place.sequence) = (to, place.sequence + 1),
            false => *place = Place::default(),
        }
        book.count(|counts| {
            counts.appends += u64::from(is_done);
            counts.appends_again += u64::from(tries > 1);
        });
    }

    /// An append without a number is sent once, now and then behind a tail that is expected. One that is said to be undone is never seen.
    fn append_once(&mut self, at: usize) {
        let name = self.name(at);
        let chain = self.book.streams()[at].chain();
        let count = self.chance.between(1, RECORDS_MAX);
        let body = content::records(chain, 0, count);
        let to = body.len() as u64;
        let action = Action::Append { chain, from: 0, to };
        let expected = self.places[at].next.take();
        let expected = expected.filter(|_| self.chance.one_in(3));
        let headers = expected.map(|(offset, _)| ("If-Match", format!("\"{offset}\"")));
        let invoked = self.book.now();
        let came = self
            .doors
            .append(&mut self.chance, &name, headers.as_slice(), &body);
        let book = &self.book;
        match came {
            Came::Answered(answer) if matches!(answer.status, 200 | 204) => {
                book.note(at, self.number, action, invoked, true);
                book.count(|counts| counts.appends += 1);
                self.places[at].next = answer.next();
            }
            Came::Answered(answer) if answer.status == 412 && headers.is_some() => {
                book.count(|counts| counts.appends_not_done += 1);
                self.places[at].next = answer.next();
            }
            Came::Answered(answer) => book.wrong(format!(
                "{name}: an append {headers:?} of client {} was answered {}",
                self.number, answer.status
            )),
            Came::NotDone => book.count(|counts| counts.appends_not_done += 1),
            Came::Unknown => {
                book.note(at, self.number, action, invoked, false);
                book.count(|counts| counts.appends_unknown += 1);
            }
        }
    }

    fn read(&mut self, at: usize) {
        let name = self.name(at);
        let is_anew = self.chance.one_in(40);
        let known = self.places[at].next.clone().filter(|_| !is_anew);
        let (offset, from) = known.unwrap_or(("-1".to_owned(), 0));
        let (how, is_peek) = match self.chance.below(8) {
            0 => ("&stale=1", true),
            1 => ("&live=long-poll", true),
            _ => ("", false),
        };
        let invoked = self.book.now();
        if self.is_stale && self.chance.one_in(20) {
            if let Some(old) = self.places[at].old.clone() {
                self.book.note(at, self.number, old, invoked, true);
            }
            return;
        }
        let query = format!("offset={offset}{how}");
        let book = self.book.clone();
        match self.doors.read(&mut self.chance, &name, &query) {
            Came::Answered(answer) => {
                let action = seen(&name, &answer, from, is_peek);
                match action {
                    Ok(action) => {
                        if matches!(action, Action::Read { .. }) {
                            self.places[at].old.get_or_insert_with(|| action.clone());
                        }
                        count_read(&book, &action);
                        book.note(at, self.number, action, invoked, true);
                        self.places[at].next = answer.next();
                    }
                    Err(why) => book.wrong(format!("{query}: {why}")),
                }
            }
            // A node may be behind the offset that another gave.
            Came::NotDone | Came::Unknown => book.count(|counts| counts.reads_unanswered += 1),
        }
    }
}

fn count_read(book: &Book, action: &Action) {
    let is_read = matches!(action, Action::Read { .. });
    book.count(|counts| match is_read {
        true => counts.reads += 1,
        false => counts.peeks += 1,
    });
}

/// What an answer shows of a stream from a position on.
///
/// Errors: a sentence.
fn seen(name: &str, answer: &Answer, from: u64, is_peek: bool) -> Result<Action, String> {
    if !matches!(answer.status, 200 | 204) {
        let body = String::from_utf8_lossy(&answer.body);
        return Err(format!(
            "{name}: a read was answered {}: {body}",
            answer.status
        ));
    }
    let seen = content::extents(&answer.body)
        .ok_or_else(|| format!("{name}: behind {from} there are no whole records"))?;
    let length = from + seen.iter().map(Extent::count).sum::<u64>();
    let next = answer.next().map(|(_, position)| position);
    if next != Some(length) || !length.is_multiple_of(RECORD_BYTES) {
        return Err(format!(
            "{name}: an answer from {from} ends at {length}, and says {next:?}"
        ));
    }
    let is_all = answer.header("stream-up-to-date") == Some("true");
    Ok(match is_all && !is_peek {
        true => Action::Read { from, length, seen },
        false => Action::Peek { from, seen },
    })
}

/// Reads every stream from its beginning to its tail, at a node that is well.
pub fn read_all(doors: &Doors, book: &Book) -> Result<()> {
    let mut chance = Chance::new(0, 8);
    for (at, stream) in book.streams().iter().enumerate() {
        let deadline = Instant::now() + LAST_READ_MAX;
        let (mut offset, mut from) = ("-1".to_owned(), 0);
        loop {
            go_on()?;
            let invoked = book.now();
            let came = doors.read(&mut chance, &stream.name, &format!("offset={offset}"));
            let Came::Answered(answer) = came else {
                if Instant::now() > deadline {
                    bail!("{} is not read at the end: {came:?}", stream.name);
                }
                std::thread::sleep(AGAIN_AFTER);
                continue;
            };
            let action = seen(&stream.name, &answer, from, false).map_err(anyhow::Error::msg)?;
            let is_last = matches!(action, Action::Read { .. });
            count_read(book, &action);
            book.note(at, LAST_READER, action, invoked, true);
            if is_last {
                break;
            }
            let Some(next) = answer.next() else {
                bail!("{}: an answer has no offset", stream.name);
            };
            (offset, from) = next;
        }
    }
    Ok(())
}
