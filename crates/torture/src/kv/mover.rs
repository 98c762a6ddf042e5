//! An operator who has other nodes lead the groups, and other groups have the slots, all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use client::admin::{ChangeSlots, SlotsVerb};
use client::{Client, Timeouts};
use formats::slots::range_of;

use crate::schedule::Chance;

/// Slots that do not come home within this time, with all nodes well, never will.
const HOME_MAX: Duration = Duration::from_secs(120);

pub struct Mover {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    moved: AtomicU64,
    refused: AtomicU64,
    slots: AtomicU64,
}

impl Mover {
    pub fn start(
        seed: u64,
        servers: Vec<String>,
        groups: Vec<String>,
        slots: Vec<u16>,
        nodes: u32,
    ) -> Result<Mover> {
        let shared = Arc::<Shared>::default();
        let moves = shared.clone();
        let thread = std::thread::Builder::new().name("mover".to_owned());
        let thread = thread.spawn(move || {
            let timeouts = Timeouts {
                total: Duration::from_secs(3),
                ..Timeouts::default()
            };
            let client = Client::new(servers, timeouts);
            let mut chance = Chance::new(seed, 4000);
            while !moves.stop.load(Ordering::Acquire) {
                std::thread::sleep(chance.millis(100, 2500));
                let at = chance.below(groups.len() as u64) as usize;
                let to = chance.between(1, u64::from(nodes));
                let Some(group) = groups.get(at) else {
                    continue;
                };
                if chance.below(2) == 0 {
                    let at = chance.below(slots.len() as u64) as usize;
                    let first = slots.get(at).copied().unwrap_or_default();
                    let last = (u64::from(first) + chance.below(300)).min(16_383);
                    // Whoever is asked may be dying: a change may be made, or not.
                    if client
                        .change_slots(&to_group(group, &format!("{first}-{last}")))
                        .is_ok()
                    {
                        moves.slots.fetch_add(1, Ordering::Relaxed);
                    }
                    continue;
                }
                let count = match client.move_leader(group, Some(to)) {
                    Ok(_) => &moves.moved,
                    Err(_) => &moves.refused,
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        let thread = Some(thread);
        Ok(Mover { shared, thread })
    }

    /// The moves of leaders that were done, and those that were not; and the changes of the map of slots.
    pub fn end(mut self) -> (u64, u64, u64) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Shared {
            moved,
            refused,
            slots,
            ..
        } = &*self.shared;
        (count(moved), count(refused), count(slots))
    }
}

fn to_group(group: &str, slots: &str) -> ChangeSlots {
    ChangeSlots {
        verb: SlotsVerb::Move,
        groups: vec![group.to_owned()],
        slots: Some(slots.to_owned()),
        plan: false,
        version: None,
    }
}

/// Has all slots go back to the groups that began with them, and waits until they have.
///
/// Errors: they do not come, though all is well.
pub fn send_home(client: &Client, groups: &[String]) -> Result<()> {
    let deadline = Instant::now() + HOME_MAX;
    for group in groups {
        let (first, last) = range_of(group).context("a group of another name")?;
        client.change_slots(&to_group(group, &format!("{first}-{last}")))?;
    }
    loop {
        let map = client.slots(None)?;
        if map.moving.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!(
                "slots are on their way {HOME_MAX:?} after all is well: {:?}",
                map.moving
            );
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}
