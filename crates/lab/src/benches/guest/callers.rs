//! Callers: threads of which each asks, waits for its answer, and asks again.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use bench::latency::{histogram, quantile_ms, rounded};

/// The answers of a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub seconds: f64,
    pub answered: u64,
    pub per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    /// Calls without the answer that was wanted; they are in no other figure.
    pub failed: u64,
    /// The reason of the last one.
    pub why: Option<String>,
}

impl Figures {
    /// Errors: there was no answer at all.
    pub fn some(self) -> Result<Figures> {
        let why = self.why.as_deref().unwrap_or("nobody knows why");
        ensure!(
            self.answered > 0,
            "nothing was answered in {} s: {why}",
            self.seconds
        );
        Ok(self)
    }
}

/// Callers that go on until they are to rest, or their time is over.
pub struct Callers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    until: Instant,
    /// The number of the next call.
    next: AtomicU64,
    counted: Mutex<Counted>,
}

struct Counted {
    since: Instant,
    micros: Histogram<u64>,
    failed: u64,
    why: Option<String>,
}

/// A caller that got no answer rests for so long.
const AFTER_FAILURE: Duration = Duration::from_millis(5);

impl Callers {
    /// `call` is given a number that no other call has, and returns why there is no answer.
    pub fn start(
        count: u32,
        longest: Duration,
        call: impl Fn(u64) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Callers> {
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            until: Instant::now() + longest,
            next: AtomicU64::new(0),
            counted: Mutex::new(Counted::new()),
        });
        let mut callers = Callers {
            shared,
            threads: Vec::new(),
        };
        let call = Arc::new(call);
        for _ in 0..count {
            let (shared, call) = (callers.shared.clone(), call.clone());
            let thread = thread::Builder::new().name("bench-caller".to_owned());
            let thread = thread.spawn(move || shared.run(&*call));
            callers
                .threads
                .push(thread.context("cannot start a caller")?);
        }
        Ok(callers)
    }

    /// The answers since the last time that this was called, or since the callers were started.
    pub fn window(&self) -> Figures {
        let mut counted = self.shared.counted();
        let over = std::mem::replace(&mut *counted, Counted::new());
        drop(counted);
        over.figures()
    }
}

/// No more is asked; returns once each caller has its last answer.
impl Drop for Callers {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, call: &impl Fn(u64) -> Result<(), String>) {
        while !self.stop.load(Ordering::Relaxed) {
            let since = Instant::now();
            if since >= self.until {
                return;
            }
            let answer = call(self.next.fetch_add(1, Ordering::Relaxed));
            let micros = since.elapsed().as_micros() as u64;
            let mut counted = self.counted();
            match answer {
                Ok(()) => counted.micros.saturating_record(micros.max(1)),
                Err(why) => {
                    counted.failed += 1;
                    counted.why = Some(why);
                    drop(counted);
                    thread::sleep(AFTER_FAILURE);
                }
            }
        }
    }
}

impl Counted {
    fn new() -> Counted {
        Counted {
            since: Instant::now(),
            micros: histogram(),
            failed: 0,
            why: None,
        }
    }

    fn figures(self) -> Figures {
        let seconds = self.since.elapsed().as_secs_f64();
        let ms = |quantile| rounded(quantile_ms(&self.micros, quantile));
        Figures {
            seconds: rounded(seconds),
            answered: self.micros.len(),
            per_s: rounded(self.micros.len() as f64 / seconds),
            p50_ms: ms(0.5),
            p99_ms: ms(0.99),
            max_ms: ms(1.0),
            failed: self.failed,
            why: self.why,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_counted_once_and_each_window_begins_anew() {
        let call = |number| match number % 2 {
            0 => Ok(()),
            _ => Err("odd".to_owned()),
        };
        let callers = Callers::start(2, Duration::from_secs(60), call).unwrap();
        thread::sleep(Duration::from_millis(100));
        let figures = callers.window();
        assert!(
            figures.answered > 0 && figures.failed > 0,
            "no call is answered or none fails: {figures:?}"
        );
        assert_eq!(figures.why.as_deref(), Some("odd"));
        assert!(callers.window().seconds < figures.seconds);
    }

    #[test]
    fn callers_rest_by_themselves_when_their_time_is_over() {
        let callers = Callers::start(1, Duration::ZERO, |_| Ok(())).unwrap();
        thread::sleep(Duration::from_millis(20));
        assert_eq!(callers.window().answered, 0);
        let nothing = callers.window().some().unwrap_err();
        assert!(
            nothing.to_string().contains("nothing was answered"),
            "{nothing}"
        );
    }
}
