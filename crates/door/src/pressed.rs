//! Slots whose writers wait for moments, because whoever copies the slots does not catch up with them.
//!
//! ```text
//!  changes are asked for, and not all fit into the answer, LAGS times in a row ─▶ writers wait for PRESSED_MS
//!                                                     still so ─▶ they go on for FREE_MS, and wait again
//!                                                     all fit  ─▶ they go on
//! ```
//!
//! A writer waits for less than a command is held, and each wait lets more changes pass than the pause behind it adds: so a move of slots ends however much is
//! written to them. ‡ It delays commands and decides nothing: no step of a handover reads it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::moving::words::Span;

const LAGS: u32 = 8;
const PRESSED_MS: u64 = 800;
const FREE_MS: u64 = 200;
/// Nobody asked for its changes for so long: it is not copied any more.
const FORGOTTEN_MS: u64 = 60_000;

#[derive(Clone, Copy)]
struct Press {
    span: Span,
    /// The answers in a row that did not have all changes.
    lags: u32,
    /// Writers wait from the first time on until the second.
    from_ms: u64,
    until_ms: u64,
    asked_ms: u64,
}

/// By the numbers under which changes are noted, in one group.
#[derive(Default)]
pub struct Pressed(Mutex<BTreeMap<(u32, u64), Press>>);

impl Pressed {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(u32, u64), Press>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes of the slots were asked for.
    pub fn on_asked(&self, (to, number): (u32, u64), span: Span, has_all: bool, now_ms: u64) {
        let mut all = self.lock();
        all.retain(|_, press| now_ms < press.asked_ms + FORGOTTEN_MS);
        if has_all {
            all.remove(&(to, number));
            return;
        }
        let press = all.entry((to, number)).or_insert(Press {
            span,
            lags: 0,
            from_ms: 0,
            until_ms: 0,
            asked_ms: now_ms,
        });
        press.lags += 1;
        press.asked_ms = now_ms;
        if press.lags >= LAGS && now_ms >= press.until_ms {
            press.from_ms = match press.until_ms {
                0 => now_ms,
                until_ms => now_ms.max(until_ms + FREE_MS),
            };
            press.until_ms = press.from_ms + PRESSED_MS;
        }
    }

    /// Whether writers of the slot wait now.
    pub fn holds(&self, slot: u16, now_ms: u64) -> bool {
        let all = self.lock();
        let mut its = all.values().filter(|press| press.span.has(slot));
        its.any(|press| (press.from_ms..press.until_ms).contains(&now_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_wait_for_moments_while_a_copy_lags_behind() {
        let pressed = Pressed::default();
        let (way, span) = ((3, 1), Span { first: 5, last: 9 });
        for at in 0..u64::from(LAGS) - 1 {
            pressed.on_asked(way, span, false, 1_000 + at);
            assert!(!pressed.holds(7, 1_000 + at), "it may catch up by itself");
        }
        pressed.on_asked(way, span, false, 1_100);
        assert!(pressed.holds(7, 1_100) && pressed.holds(9, 1_100 + PRESSED_MS - 1));
        assert!(!pressed.holds(10, 1_100), "another slot");
        // It lags behind still: they go on for a moment, and wait again.
        let then = 1_100 + PRESSED_MS;
        pressed.on_asked(way, span, false, then);
        assert!(!pressed.holds(7, then) && !pressed.holds(7, then + FREE_MS - 1));
        assert!(pressed.holds(7, then + FREE_MS));
        pressed.on_asked(way, span, true, then + FREE_MS + 1);
        assert!(!pressed.holds(7, then + FREE_MS + 1), "it has caught up");
        // Whoever copied it is gone.
        for _ in 0..LAGS {
            pressed.on_asked(way, span, false, 9_000);
        }
        assert!(pressed.holds(7, 9_000) && !pressed.holds(7, 9_000 + PRESSED_MS));
    }
}
