//! How long a group is not available: a client for each, which writes again and again and looks elsewhere at once where nobody answers.
//!
//! Those whose calls are judged wait for their replies, and say more about their own patience.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::caller::{Caller, Came, Request};
use super::link::words;
use super::load::Plan;
use crate::schedule::Chance;

const PATIENCE: Duration = Duration::from_millis(250);
const PAUSE: Duration = Duration::from_millis(20);
/// So many are remembered.
const STALLS_MAX: usize = 10;

pub struct Probes {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Stall>>>,
}

/// A time from one answer to the next.
#[derive(Clone, Debug)]
pub struct Stall {
    pub group: String,
    pub length: Duration,
    pub since: Instant,
}

impl Probes {
    pub fn start(plan: &Plan) -> Result<Probes> {
        let mut probes = Probes {
            stop: Arc::default(),
            threads: Vec::new(),
        };
        // One tag of each group.
        let groups: BTreeMap<_, _> = plan.tags.iter().map(|(tag, group)| (group, tag)).collect();
        for (number, (group, tag)) in (0..).zip(groups) {
            let chance = Chance::new(plan.seed, 6000 + number);
            let caller = Caller::new(plan.doors.clone(), chance, Instant::now());
            let (mut caller, tag) = (caller.impatient(PATIENCE), tag.clone());
            let stop = probes.stop.clone();
            let group = group.clone();
            let thread = std::thread::Builder::new().name(format!("probe-{group}"));
            probes.threads.push(thread.spawn(move || {
                let mut stalls = Vec::new();
                let mut since = Instant::now();
                let mut is_over = false;
                while !is_over {
                    is_over = stop.load(Ordering::Acquire);
                    if is_available(&mut caller, &tag) || is_over {
                        let group = group.clone();
                        let length = since.elapsed();
                        stalls.push(Stall {
                            group,
                            length,
                            since,
                        });
                        keep_longest(&mut stalls);
                        since = Instant::now();
                    }
                    std::thread::sleep(PAUSE);
                }
                stalls
            })?);
        }
        Ok(probes)
    }

    /// The longest of all, the longest first.
    pub fn end(mut self) -> Vec<Stall> {
        self.stop.store(true, Ordering::Release);
        let threads = std::mem::take(&mut self.threads).into_iter();
        let mut all: Vec<Stall> = threads
            .filter_map(|thread| thread.join().ok())
            .flatten()
            .collect();
        keep_longest(&mut all);
        all
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn keep_longest(stalls: &mut Vec<Stall>) {
    stalls.sort_by_key(|stall| std::cmp::Reverse(stall.length));
    stalls.truncate(STALLS_MAX);
}

fn is_available(caller: &mut Caller, tag: &str) -> bool {
    let key = format!("{{{tag}}}probe");
    let ended = caller.ask(tag, &[Request(vec![words(["INCR", &key])])]);
    ended
        .iter()
        .all(|ended| matches!(ended.came, Came::Done(_)))
}
