//! An operator who moves the leader of the space.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use client::{Client, Timeouts};

use super::SPACE;
use crate::schedule::Chance;

const ASKED_MAX: Duration = Duration::from_secs(3);

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    moved: AtomicU64,
    refused: AtomicU64,
}

pub struct Mover {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    pub fn start(seed: u64, servers: Vec<String>, nodes: u32) -> Result<Mover> {
        let shared = Arc::<Shared>::default();
        let moves = shared.clone();
        let thread = std::thread::Builder::new().name("mover".to_owned());
        let thread = thread.spawn(move || {
            let timeouts = Timeouts {
                total: ASKED_MAX,
                ..Timeouts::default()
            };
            let client = Client::new(servers, timeouts);
            let mut chance = Chance::new(seed, 4000);
            while !moves.stop.load(Ordering::Acquire) {
                std::thread::sleep(chance.millis(100, 2500));
                let to = chance.between(1, u64::from(nodes));
                let count = match client.move_leader(SPACE, Some(to)) {
                    Ok(_) => &moves.moved,
                    Err(_) => &moves.refused,
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        let thread = Some(thread);
        Ok(Mover { shared, thread })
    }

    /// The moves that were done, and those that were not.
    pub fn end(mut self) -> (u64, u64) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.shared.moved), count(&self.shared.refused))
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
    }
}
