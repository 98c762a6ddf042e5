//! How much is asked for at this door each second, held to the limits of each space.
//!
//! A rate is kept by a moment: each request, and each byte, moves it on by its share of a second, and whoever asks while it lies more than a
//! second ahead is refused. So a second's worth may come at once, and bytes that nobody could foretell are waited for afterwards.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::header::RETRY_AFTER;
use streams::{Limits, Rates};

use crate::fault::Fault;
use crate::rights::Asker;
use crate::route::Route;

/// So much may come at once.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Principals that are remembered: those that are not waited for any more make room.
const PRINCIPALS_MAX: usize = 4_096;

/// The moment that a rate has come to, since the door began.
#[derive(Clone, Copy, Debug, Default)]
struct Pace(Duration);

impl Pace {
    /// How long whoever asks for so much has to wait.
    fn wait(&self, now: Duration, count: u64, per_s: u64) -> Option<Duration> {
        let behind = self.0.max(now) + share(count, per_s);
        let wait = behind.saturating_sub(now + AT_ONCE);
        (!wait.is_zero()).then_some(wait)
    }

    fn charge(&mut self, now: Duration, count: u64, per_s: u64) {
        self.0 = self.0.max(now) + share(count, per_s);
    }
}

/// The time that so many take.
fn share(count: u64, per_s: u64) -> Duration {
    let nanoseconds = u128::from(count) * 1_000_000_000 / u128::from(per_s.max(1));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX >> 1))
}

/// What somebody asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    requests: Pace,
    bytes: Pace,
}

impl Used {
    /// The longest wait, and the limit that it is for.
    fn wait(&self, now: Duration, rates: Rates) -> Option<(Duration, String)> {
        let requests = rates.requests_per_s.and_then(|per_s| {
            let wait = self.requests.wait(now, 1, per_s)?;
            Some((wait, format!("{per_s} requests a second")))
        });
        // ‡ Bytes are charged behind the request that brought them: what lies ahead is a debt.
        let bytes = rates.bytes_per_s.and_then(|per_s| {
            let wait = self.bytes.wait(now, 0, per_s)?;
            Some((wait, format!("{per_s} bytes a second")))
        });
        requests
            .into_iter()
            .chain(bytes)
            .max_by_key(|(wait, _)| *wait)
    }
}

struct State {
    limits: Arc<Limits>,
    all: Used,
    by_principal: BTreeMap<String, Used>,
}

/// The limits of spaces, as far as they are known.
#[derive(Default)]
pub struct Quotas(Mutex<BTreeMap<String, Arc<Quota>>>);

impl Quotas {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Quota>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of this space; without any limit where none are known.
    pub fn known(&self, space: &str) -> Arc<Quota> {
        self.get(space).unwrap_or_default()
    }

    pub fn get(&self, space: &str) -> Option<Arc<Quota>> {
        self.lock().get(space).cloned()
    }

    pub fn set(&self, space: &str, limits: Limits) {
        let quota = self.lock().entry(space.to_owned()).or_default().clone();
        quota.set(limits);
    }

    pub fn forget(&self, space: &str) {
        self.lock().remove(space);
    }

    /// The spaces whose limits are known.
    pub fn spaces(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}

/// The limits of one space, and what was asked for at this door.
pub struct Quota {
    began: Instant,
    /// There is a rate to be kept.
    is_limited: AtomicBool,
    state: Mutex<State>,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota {
            began: Instant::now(),
            is_limited: AtomicBool::new(false),
            state: Mutex::new(State {
                limits: Arc::default(),
                all: Used::default(),
                by_principal: BTreeMap::new(),
            }),
        }
    }
}

/// The space to whose limits it is held.
pub fn space_of(route: &Route) -> Option<&str> {
    match route {
        Route::Create(name)
        | Route::Append(name)
        | Route::Read(name)
        | Route::Stand(name)
        | Route::Delete(name) => Some(&name.space),
        Route::List(space) => Some(space),
        Route::CreateLog(_)
        | Route::AppendLog(_)
        | Route::ReadLog(_)
        | Route::StandLog(_)
        | Route::DeleteLog(_) => None,
        // ‡ Whoever set too low a limit changes it.
        Route::ShowLimits(_) | Route::SetLimits(_) => None,
        Route::Health | Route::Description | Route::Preflight => None,
    }
}

fn has_same_rates(a: &Limits, b: &Limits) -> bool {
    a.all == b.all && a.each == b.each && a.named == b.named
}

fn has_any(rates: &Rates) -> bool {
    rates.requests_per_s.is_some() || rates.bytes_per_s.is_some()
}

impl Quota {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set(&self, limits: Limits) {
        let is_limited =
            has_any(&limits.all) || has_any(&limits.each) || limits.named.values().any(has_any);
        let mut state = self.lock();
        // ‡ What was asked for is kept as the time until which it is paid for: by another rate it is another time, perhaps of months.
        if !is_limited || !has_same_rates(&state.limits, &limits) {
            state.all = Used::default();
            state.by_principal.clear();
        }
        if *state.limits != limits {
            state.limits = Arc::new(limits);
        }
        self.is_limited.store(is_limited, Ordering::Relaxed);
    }

    /// Takes a request, or says how long its asker has to wait.
    ///
    /// Errors: 429.
    pub fn take(&self, asker: &Asker) -> Result<(), Fault> {
        match self.is_limited.load(Ordering::Relaxed) {
            true => self.lock().take(self.began.elapsed(), &principal(asker)),
            false => Ok(()),
        }
    }

    /// Counts the bytes of a body.
    pub fn charge(&self, asker: &Asker, bytes: usize) {
        if self.is_limited.load(Ordering::Relaxed) && bytes > 0 {
            let now = self.began.elapsed();
            self.lock().charge(now, &principal(asker), bytes as u64);
        }
    }

    /// How long somebody who is sent bytes on and on has to wait for the next ones.
    pub fn owes(&self, asker: &Asker) -> Option<Duration> {
        if !self.is_limited.load(Ordering::Relaxed) {
            return None;
        }
        self.lock().owes(self.began.elapsed(), &principal(asker))
    }
}

/// As limits name him: by the token or certificate that was shown. Who shows none is one of the others, for all who do so.
fn principal(asker: &Asker) -> String {
    asker.name.clone()
}

/// … and as he is told.
fn told(principal: &str) -> String {
    match principal {
        "" => "all who show no token may together".to_owned(),
        name => format!("{name} may"),
    }
}

impl State {
    /// What a principal is held to, and has asked for.
    fn of(&self, principal: &str) -> (Rates, Used) {
        let used = self.by_principal.get(principal);
        (self.limits.of(principal), used.copied().unwrap_or_default())
    }

    fn take(&mut self, now: Duration, principal: &str) -> Result<(), Fault> {
        let (rates, used) = self.of(principal);
        let of_all = self.all.wait(now, self.limits.all);
        let of_one = used.wait(now, rates);
        let of_all = of_all.map(|(wait, limit)| {
            (
                wait,
                format!("all together may ask this node for {limit}, and asked for more"),
            )
        });
        let of_one = of_one.map(|(wait, limit)| {
            (
                wait,
                format!(
                    "{} ask this node for {limit}, and asked for more",
                    told(principal)
                ),
            )
        });
        let longest = of_all
            .into_iter()
            .chain(of_one)
            .max_by_key(|(wait, _)| *wait);
        if let Some((wait, limit)) = longest {
            return Err(slow_down(wait, &limit));
        }
        if let Some(per_s) = self.limits.all.requests_per_s {
            self.all.requests.charge(now, 1, per_s);
        }
        if let Some(per_s) = rates.requests_per_s {
            self.used(now, principal).requests.charge(now, 1, per_s);
        }
        Ok(())
    }

    fn charge(&mut self, now: Duration, principal: &str, bytes: u64) {
        if let Some(per_s) = self.limits.all.bytes_per_s {
            self.all.bytes.charge(now, bytes, per_s);
        }
        if let Some(per_s) = self.limits.of(principal).bytes_per_s {
            self.used(now, principal).bytes.charge(now, bytes, per_s);
        }
    }

    fn owes(&self, now: Duration, principal: &str) -> Option<Duration> {
        let (rates, used) = self.of(principal);
        let wait = |used: Used, rates: Rates| used.bytes.wait(now, 0, rates.bytes_per_s?);
        wait(self.all, self.limits.all).max(wait(used, rates))
    }

    fn used(&mut self, now: Duration, principal: &str) -> &mut Used {
        if self.by_principal.len() >= PRINCIPALS_MAX && !self.by_principal.contains_key(principal) {
            let owes = |used: &Used| used.requests.0.max(used.bytes.0) > now;
            self.by_principal.retain(|_, used| owes(used));
        }
        self.by_principal.entry(principal.to_owned()).or_default()
    }
}

fn slow_down(wait: Duration, limit: &str) -> Fault {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    let remedy = format!(
        "ask again in {seconds} s: nothing was done; or have the limit changed: logberg stream limits"
    );
    Fault::new(429, "slow-down", limit, remedy).header(RETRY_AFTER, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn state(limits: Limits) -> State {
        State {
            limits: Arc::new(limits),
            all: Used::default(),
            by_principal: BTreeMap::new(),
        }
    }

    fn requests(per_s: u64) -> Rates {
        Rates {
            requests_per_s: Some(per_s),
            bytes_per_s: None,
        }
    }

    fn bytes(per_s: u64) -> Rates {
        Rates {
            requests_per_s: None,
            bytes_per_s: Some(per_s),
        }
    }

    fn waits(state: &mut State, now: Duration, principal: &str) -> Option<String> {
        let fault = state.take(now, principal).err()?;
        assert_eq!((fault.status, fault.code), (429, "slow-down"));
        let header = fault.headers.iter().find(|(name, _)| *name == RETRY_AFTER);
        Some(header.expect("it says when").1.clone())
    }

    #[test]
    fn a_seconds_worth_of_requests_comes_at_once_and_then_one_after_the_other() {
        let mut state = state(Limits {
            each: requests(4),
            ..Limits::default()
        });
        for _ in 0..4 {
            assert_eq!(waits(&mut state, SECOND, "a"), None);
        }
        assert_eq!(waits(&mut state, SECOND, "a").as_deref(), Some("1"));
        // Who is refused is not charged for it, and nobody else is.
        assert_eq!(waits(&mut state, SECOND, "b"), None);
        assert_eq!(waits(&mut state, SECOND + SECOND / 4, "a"), None);
        assert!(waits(&mut state, SECOND + SECOND / 4, "a").is_some());
        for _ in 0..4 {
            assert_eq!(waits(&mut state, 100 * SECOND, "a"), None);
        }
        assert!(waits(&mut state, 100 * SECOND, "a").is_some());
    }

    #[test]
    fn bytes_that_came_are_waited_for_afterwards() {
        let mut state = state(Limits {
            all: bytes(1_000),
            ..Limits::default()
        });
        assert_eq!(waits(&mut state, SECOND, "a"), None);
        state.charge(SECOND, "a", 8_500);
        assert_eq!(waits(&mut state, SECOND, "b").as_deref(), Some("8"));
        assert_eq!(state.owes(SECOND, "b"), Some(SECOND * 15 / 2));
        assert_eq!(waits(&mut state, SECOND * 17 / 2, "a"), None);
        assert_eq!(state.owes(SECOND * 17 / 2, "a"), None);
    }

    #[test]
    fn the_limit_that_is_waited_for_longest_is_named() {
        let named = BTreeMap::from([("ci".to_owned(), requests(1))]);
        let mut state = state(Limits {
            all: requests(100),
            named,
            ..Limits::default()
        });
        assert_eq!(waits(&mut state, SECOND, "ci"), None);
        let fault = state.take(SECOND, "ci").expect_err("it is too much");
        assert_eq!(
            fault.message,
            "ci may ask this node for 1 requests a second, and asked for more"
        );
        for _ in 0..99 {
            assert_eq!(waits(&mut state, SECOND, "other"), None);
        }
        let fault = state.take(SECOND, "other").expect_err("it is too much");
        assert!(fault.message.starts_with("all together may ask"));
    }

    #[test]
    fn by_a_greater_rate_nobody_waits_for_what_a_small_one_asked() {
        let quota = Quota {
            began: Instant::now(),
            is_limited: AtomicBool::new(false),
            state: Mutex::new(state(Limits::default())),
        };
        let limited = |per_s| Limits {
            all: bytes(per_s),
            each: bytes(per_s),
            ..Limits::default()
        };
        let waits = || {
            let owes = quota.lock().owes(SECOND, "a");
            owes.unwrap_or_default()
        };
        quota.set(limited(1));
        quota.lock().charge(SECOND, "a", 4 << 20);
        assert!(waits() > 1_000_000 * SECOND);
        // The same again changes nothing, and neither does another bound of streams.
        quota.set(Limits {
            streams: Some(7),
            ..limited(1)
        });
        assert!(waits() > 1_000_000 * SECOND);
        quota.set(limited(1 << 30));
        assert_eq!(waits(), Duration::ZERO);
    }

    #[test]
    fn principals_that_nobody_waits_for_are_forgotten() {
        let mut state = state(Limits {
            each: requests(1),
            ..Limits::default()
        });
        for number in 0..2 * PRINCIPALS_MAX {
            let now = SECOND * number as u32;
            assert_eq!(waits(&mut state, now, &number.to_string()), None);
        }
        assert!(state.by_principal.len() <= PRINCIPALS_MAX);
    }

    #[test]
    fn nothing_overflows() {
        let mut state = state(Limits {
            all: bytes(1),
            ..Limits::default()
        });
        for _ in 0..3 {
            state.charge(SECOND, "a", u64::MAX);
        }
        assert!(waits(&mut state, SECOND, "a").is_some());
    }
}
