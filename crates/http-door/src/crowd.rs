//! Readers of events at the tail of one stream, who are served together.
//!
//! ```text
//!  the tail moved ─▶ caller: reads and encodes once ─▶ a round ─▶ the seat of each reader ─▶ its connection
//!                      ▲ rests as long as that took ◀──────────── most readers took it
//! ```
//!
//! ‡ What is appended while a round is under way goes out together in the next one. A few readers take a round at once, so nobody waits for
//! them; thousands are each written to a few times a second, however many appends there are. Whoever does not keep up reads by himself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use streams::sse::{self, Encoding};
use streams::{Found, MediaType, Offset, Path};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};

use crate::answers::Answers;
use crate::cursor;
use crate::events::Control;
use crate::fault::Fault;
use crate::space::Handle;
use crate::tails::{Recent, Tail};

/// The caller waits so long for readers to take a round, and longer the more they are.
const ROUND_MIN: Duration = Duration::from_millis(5);
const ROUND_EACH: Duration = Duration::from_micros(100);
const ROUND_MAX: Duration = Duration::from_millis(500);
/// One in so many may be late with a round.
const LATE_SHARE: usize = 8;
/// A round that took no longer is followed by the next one at once.
const REST_MIN: Duration = Duration::from_millis(1);
const REST_MAX: Duration = Duration::from_millis(250);

/// Bytes behind a place, as the events that tell them.
pub struct Round {
    pub from: Offset,
    pub next: Offset,
    /// The event of the bytes, and behind it the one that says where a reader stands.
    bytes: Bytes,
    data_bytes: usize,
    /// The one that stands in the event.
    cursor: u64,
    pub is_at_tail: bool,
    pub is_last: bool,
    /// So many took it, of so many who are waited for.
    taken: AtomicUsize,
    wanted: AtomicUsize,
    served: Notify,
}

/// A word to a reader.
#[derive(Clone)]
pub enum Word {
    Round(Arc<Round>),
    /// Something else happened: look what there is, and whether you may go on.
    Look,
    /// Nobody can read the stream here any more.
    Over,
}

#[derive(Default)]
struct Told {
    word: Option<Word>,
    waker: Option<Waker>,
}

/// Where a reader is told.
#[derive(Default)]
struct Seat(Mutex<Told>);

#[derive(Default)]
struct Seats {
    by_number: BTreeMap<u64, Arc<Seat>>,
    next: u64,
    has_caller: bool,
}

/// The readers of a stream.
#[derive(Default)]
pub struct Crowd {
    seats: Mutex<Seats>,
    /// The tail moved, or nobody is left.
    news: Notify,
}

/// A reader's seat, for as long as he wants it.
pub struct Seated {
    tail: Arc<Tail>,
    number: u64,
    seat: Arc<Seat>,
}

/// The needs of a caller.
pub struct Calls {
    pub space: Handle,
    pub path: Path,
    pub answers: Answers,
    /// Where it begins.
    pub at: Offset,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How the bytes of a stream stand in events, if its reader does not ask for another way.
pub fn usual_encoding(media: &MediaType) -> Encoding {
    match (media.is_json(), media.is_text()) {
        (true, _) => Encoding::Json,
        (_, true) => Encoding::Text,
        _ => Encoding::Base64,
    }
}

impl Round {
    /// `None`: nothing is to be told yet.
    ///
    /// Errors: there is no room for it.
    fn of(recent: &Recent, is_at_tail: bool, answers: &Answers) -> Result<Option<Round>, Fault> {
        let read = &recent.read;
        let encoding = usual_encoding(&read.standing.place.media);
        let is_last = is_at_tail && read.is_last();
        let whole = match encoding {
            // ‡ The rest of a character comes with the next append.
            Encoding::Text if !is_last => sse::whole_characters(&read.bytes),
            _ => read.bytes.len(),
        };
        if whole == 0 && !is_last {
            return Ok(None);
        }
        let mut out = Vec::new();
        if whole > 0 {
            sse::data(encoding, &read.bytes[..whole], &mut out);
        }
        let data_bytes = out.len();
        let (next, is_all) = match whole == read.bytes.len() {
            true => (read.next, is_at_tail),
            false => (read.offset_at(whole), false),
        };
        let cursor = cursor::next(None);
        let told = (!is_last).then_some(cursor);
        let control = Control::text(next, told, is_all, is_last);
        sse::event("control", &control, &mut out);
        Ok(Some(Round {
            from: read.from,
            next,
            bytes: answers.hold(out)?,
            data_bytes,
            cursor,
            is_at_tail: is_all,
            is_last,
            taken: AtomicUsize::new(0),
            wanted: AtomicUsize::new(usize::MAX),
            served: Notify::new(),
        }))
    }

    /// The bytes for a reader whose cursor is not to be passed by a lesser one: the same to all, mostly.
    pub fn pieces(&self, cursor: u64) -> (Bytes, Option<Bytes>) {
        if self.is_last || cursor <= self.cursor {
            return (self.bytes.clone(), None);
        }
        let text = Control::text(self.next, Some(cursor), self.is_at_tail, false);
        let mut out = Vec::new();
        sse::event("control", &text, &mut out);
        (self.bytes.slice(..self.data_bytes), Some(Bytes::from(out)))
    }

    fn note_taken(&self) {
        let taken = self.taken.fetch_add(1, SeqCst) + 1;
        if taken >= self.wanted.load(SeqCst) {
            self.served.notify_one();
        }
    }

    /// Waits until most of so many took it, and not for ever.
    async fn wait_served(&self, count: usize) {
        let wanted = (count - count / LATE_SHARE).max(1);
        self.wanted.store(wanted, SeqCst);
        if self.taken.load(SeqCst) < wanted {
            let each = ROUND_EACH.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
            let longest = (ROUND_MIN + each).min(ROUND_MAX);
            let _ = timeout(longest, self.served.notified()).await;
        }
    }
}

impl Seat {
    /// Whether it is a word that he had not to wait for.
    fn tell(&self, word: Word) -> bool {
        let mut told = lock(&self.0);
        let (word, is_first) = match (told.word.take(), word) {
            (Some(Word::Over), _) | (_, Word::Over) => (Word::Over, false),
            (None, word) => (word, true),
            // ‡ He has not even taken the last one: he reads at his own pace, and nothing is kept for him.
            (Some(_), _) => (Word::Look, false),
        };
        told.word = Some(word);
        if let Some(waker) = &told.waker {
            waker.wake_by_ref();
        }
        is_first
    }
}

impl Crowd {
    pub fn moved(&self) {
        self.news.notify_one();
    }

    fn seats(&self) -> Vec<Arc<Seat>> {
        lock(&self.seats).by_number.values().cloned().collect()
    }

    /// Tells all, and says how many had taken what they were told before.
    pub fn tell(&self, word: &Word) -> usize {
        let seats = self.seats();
        seats.iter().filter(|seat| seat.tell(word.clone())).count()
    }

    fn is_over(&self) -> bool {
        let mut seats = lock(&self.seats);
        let is_over = seats.by_number.is_empty();
        if is_over {
            seats.has_caller = false;
        }
        is_over
    }
}

impl Tail {
    /// Takes a seat. ‡ Before the read that finds nothing more: what comes behind it is told.
    pub fn sit(self: &Arc<Tail>, calls: impl FnOnce() -> Calls) -> Seated {
        let seat: Arc<Seat> = Arc::default();
        let mut seats = lock(&self.crowd.seats);
        let number = seats.next;
        seats.next += 1;
        seats.by_number.insert(number, seat.clone());
        let has_caller = std::mem::replace(&mut seats.has_caller, true);
        drop(seats);
        if !has_caller {
            tokio::spawn(call(self.clone(), calls()));
        }
        Seated {
            tail: self.clone(),
            number,
            seat,
        }
    }
}

impl Seated {
    /// The next word.
    pub fn poll(&self, context: &mut Context<'_>) -> Poll<Word> {
        let mut told = lock(&self.seat.0);
        if let Some(word) = told.word.take() {
            drop(told);
            if let Word::Round(round) = &word {
                round.note_taken();
            }
            return Poll::Ready(word);
        }
        let waker = context.waker();
        if !told
            .waker
            .as_ref()
            .is_some_and(|held| held.will_wake(waker))
        {
            told.waker = Some(waker.clone());
        }
        Poll::Pending
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let mut seats = lock(&self.tail.crowd.seats);
        seats.by_number.remove(&self.number);
        if seats.by_number.is_empty() {
            self.tail.crowd.news.notify_one();
        }
    }
}

/// Reads what comes to a stream, and tells its readers, as long as there are any.
async fn call(tail: Arc<Tail>, calls: Calls) {
    let Calls {
        space,
        path,
        answers,
        mut at,
    } = calls;
    while !tail.crowd.is_over() {
        let told = match next_round(&tail, (&space, &path), at, &answers).await {
            Ok(told) => told,
            // How it ended is found out by whoever asks again.
            Err(_) => {
                tail.crowd.tell(&Word::Over);
                None
            }
        };
        let Some((round, is_all)) = told else {
            tail.crowd.news.notified().await;
            continue;
        };
        at = round.next;
        serve(&tail.crowd, &Arc::new(round)).await;
        if is_all {
            tail.crowd.news.notified().await;
        }
    }
}

/// The next round, and whether it has all that there is.
async fn next_round(
    tail: &Tail,
    (space, path): (&Handle, &Path),
    at: Offset,
    answers: &Answers,
) -> Result<Option<(Round, bool)>, Fault> {
    let Found::There(recent) = tail.read(space, path, at).await? else {
        return Err(Fault::not_found());
    };
    if !tail.is_of(&recent.read) {
        return Err(Fault::not_found());
    }
    let is_at_tail = tail.is_at_tail(&recent);
    let round = Round::of(&recent, is_at_tail, answers)?;
    if round.is_none() && !recent.read.bytes.is_empty() {
        // A part of a character: whoever reads bytes has it now.
        tail.crowd.tell(&Word::Look);
    }
    Ok(round.map(|round| (round, is_at_tail)))
}

/// Tells a round, waits until most have it, and leaves as much time to everybody else.
async fn serve(crowd: &Crowd, round: &Arc<Round>) {
    let began = Instant::now();
    let count = crowd.tell(&Word::Round(round.clone()));
    round.wait_served(count).await;
    let took = began.elapsed();
    if took > REST_MIN {
        sleep(took.min(REST_MAX)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    fn round(from: u64, next: u64) -> Arc<Round> {
        let at = |position| Offset {
            lineage: 7,
            position,
        };
        Arc::new(Round {
            from: at(from),
            next: at(next),
            bytes: Bytes::from_static(b"data,control"),
            data_bytes: 5,
            cursor: 100,
            is_at_tail: true,
            is_last: false,
            taken: AtomicUsize::new(0),
            wanted: AtomicUsize::new(usize::MAX),
            served: Notify::new(),
        })
    }

    fn seat(crowd: &Crowd) -> Arc<Seat> {
        let seat: Arc<Seat> = Arc::default();
        let mut seats = lock(&crowd.seats);
        let number = seats.next;
        seats.next += 1;
        seats.by_number.insert(number, seat.clone());
        seat
    }

    fn word(seat: &Seat) -> Option<Word> {
        lock(&seat.0).word.take()
    }

    #[test]
    fn whoever_has_not_taken_the_last_round_reads_by_himself() {
        let crowd = Crowd::default();
        let (fast, slow) = (seat(&crowd), seat(&crowd));
        assert_eq!(crowd.tell(&Word::Round(round(0, 5))), 2);
        assert!(matches!(word(&fast), Some(Word::Round(_))));
        assert_eq!(crowd.tell(&Word::Round(round(5, 9))), 1);
        let Some(Word::Round(taken)) = word(&fast) else {
            panic!("it is a round");
        };
        assert_eq!(taken.from.position, 5);
        assert!(matches!(word(&slow), Some(Word::Look)));
        assert_eq!(crowd.tell(&Word::Over), 0);
        assert_eq!(crowd.tell(&Word::Look), 0);
        assert!(matches!(word(&fast), Some(Word::Over)), "it stays over");
    }

    #[test]
    fn a_cursor_that_lies_ahead_is_kept() {
        let round = round(0, 5);
        let (bytes, own) = round.pieces(100);
        assert_eq!((&bytes[..], own), (&b"data,control"[..], None));
        let (bytes, own) = round.pieces(101);
        assert_eq!(&bytes[..], b"data,");
        let own = String::from_utf8(own.expect("its own").to_vec()).expect("text");
        assert!(own.contains("\"streamCursor\":\"101\""), "{own}");
    }

    #[test]
    fn a_round_is_over_once_most_took_it() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.expect("a runtime").block_on(async {
            let crowd = Crowd::default();
            let seats: Vec<Arc<Seat>> = (0..16).map(|_| seat(&crowd)).collect();
            let told = round(0, 5);
            let serving = serve(&crowd, &told);
            let taking = async {
                for seat in &seats[..14] {
                    let taken = poll_fn(|_| word(seat).map_or(Poll::Pending, Poll::Ready)).await;
                    let Word::Round(round) = taken else {
                        panic!("it is a round");
                    };
                    round.note_taken();
                }
            };
            let began = Instant::now();
            tokio::join!(serving, taking);
            assert_eq!(began.elapsed(), Duration::ZERO, "nobody rests for them");
            // Nobody takes this one: it is not waited for without an end.
            serve(&crowd, &round(5, 9)).await;
            assert!(began.elapsed() >= ROUND_MIN);
            assert!(began.elapsed() <= 2 * ROUND_MAX);
        });
    }
}
