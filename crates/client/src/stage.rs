//! Small writes on their way into the ring, at one atomic store each instead of a lock.
//!
//! ```text
//!   writer ── push ──► │ drained ░░░░░ pushed │ ── drain, by whoever holds the lock ──► Ring
//!                      └── STAGE_BYTES, round ┘
//! ```
//!
//! One thread pushes. It looks up, and takes the appender's lock, only when the stage is full or
//! when it reaches the position at which somebody wants to hear of it:
//!
//! ```text
//!   writer: store `pushed`,  then load `attention`     }  one total order of all four, so that
//!   driver: store `attention`, then load `pushed`      }  one of the two sees what the other did
//! ```
//!
//! A driver that goes to sleep is woken by the first byte that it has to send, therefore, although
//! no write waits for anybody. All positions are chain positions.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use talk::Ring;

/// The bytes that are pushed before the writer takes the lock to make room.
const STAGE_BYTES: usize = 16 << 10;

/// Longer writes are cheaper with the lock: a byte is copied singly into the stage and out of it.
const SMALL_BYTES_MAX: usize = 64;

/// Nobody wants to hear of any byte.
pub(crate) const NEVER: u64 = u64::MAX;
/// Nothing can be pushed any more.
pub(crate) const OVER: u64 = 0;

/// On a cache line of its own (two, which are fetched together): what one thread stores with every
/// write must not take away what others read.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// drained <= pushed <= drained + STAGE_BYTES
#[derive(Debug)]
pub(crate) struct Stage {
    bytes: Box<[AtomicU8; STAGE_BYTES]>,
    /// The end of all that was written. Stored by the writer.
    pushed: Apart<AtomicU64>,
    /// The end of the ring. Stored under the lock.
    drained: Apart<AtomicU64>,
    /// The writer is to take the lock once `pushed` reaches this. Stored under the lock.
    attention: AtomicU64,
}

/// The writer's own knowledge of the stage.
#[derive(Debug)]
pub(crate) struct Pusher {
    pushed: u64,
    /// At least so far it is drained.
    drained: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    Done,
    /// Done, and somebody wants to hear of it.
    Attention,
    /// Nothing was taken: it is too long, there is no room, or everything is over.
    Refused,
}

impl Stage {
    pub fn new(base: u64) -> (Stage, Pusher) {
        let stage = Stage {
            bytes: Box::new([const { AtomicU8::new(0) }; STAGE_BYTES]),
            pushed: Apart(AtomicU64::new(base)),
            drained: Apart(AtomicU64::new(base)),
            attention: AtomicU64::new(NEVER),
        };
        let pusher = Pusher {
            pushed: base,
            drained: base,
        };
        (stage, pusher)
    }

    /// The end of all that was written.
    pub fn pushed(&self) -> u64 {
        self.pushed.0.load(Ordering::SeqCst)
    }

    /// From here on the writer takes the lock when it reaches `position`. True if it is already
    /// there, and may have passed without hearing of it. Under the lock.
    pub fn ask_attention(&self, position: u64) -> bool {
        self.attention.store(position, Ordering::SeqCst);
        self.pushed() >= position
    }

    /// Moves as much into the ring as it has room for. Under the lock.
    pub fn drain(&self, ring: &mut Ring) {
        let (mut drained, pushed) = (ring.written(), self.pushed());
        if drained == pushed {
            return;
        }
        let mut plain = [0; 1024];
        while drained < pushed {
            let count = plain.len().min((pushed - drained) as usize);
            for (byte, position) in plain[..count].iter_mut().zip(drained..) {
                *byte = self.byte(position).load(Ordering::Relaxed);
            }
            match ring.write(&plain[..count]) {
                0 => break,
                taken => drained += taken as u64,
            }
        }
        self.drained.0.store(drained, Ordering::Release);
    }

    fn byte(&self, position: u64) -> &AtomicU8 {
        &self.bytes[position as usize % STAGE_BYTES]
    }
}

impl Pusher {
    /// The end of all that was written.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    #[inline]
    pub fn push(&mut self, stage: &Stage, bytes: &[u8]) -> Push {
        let end = self.pushed + bytes.len() as u64;
        if bytes.len() > SMALL_BYTES_MAX || stage.attention.load(Ordering::Relaxed) == OVER {
            return Push::Refused;
        }
        if end - self.drained > STAGE_BYTES as u64 {
            // Acquire: what is written over from here on has been read.
            self.drained = stage.drained.0.load(Ordering::Acquire);
            if end - self.drained > STAGE_BYTES as u64 {
                return Push::Refused;
            }
        }
        for (byte, position) in bytes.iter().zip(self.pushed..) {
            stage.byte(position).store(*byte, Ordering::Relaxed);
        }
        self.pushed = end;
        stage.pushed.0.store(end, Ordering::SeqCst);
        match end >= stage.attention.load(Ordering::SeqCst) {
            true => Push::Attention,
            false => Push::Done,
        }
    }

    /// The ring took bytes that never stood here, while nothing did. Under the lock.
    pub fn skip_to(&mut self, stage: &Stage, position: u64) {
        debug_assert_eq!(self.pushed, stage.drained.0.load(Ordering::Relaxed));
        (self.pushed, self.drained) = (position, position);
        stage.drained.0.store(position, Ordering::Release);
        stage.pushed.0.store(position, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use talk::CHUNK_BYTES;

    #[test]
    fn bytes_come_out_in_the_order_in_which_they_went_in() {
        let (stage, mut pusher) = Stage::new(1000);
        let mut ring = Ring::new(1000, 2 * CHUNK_BYTES);
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 31 / 8) as u8).collect();
        let mut rest = &bytes[..];
        for length in (1..=SMALL_BYTES_MAX).cycle() {
            let piece = &rest[..length.min(rest.len())];
            if piece.is_empty() {
                break;
            }
            if pusher.push(&stage, piece) == Push::Refused {
                stage.drain(&mut ring);
                assert_eq!(pusher.push(&stage, piece), Push::Done);
            }
            rest = &rest[piece.len()..];
        }
        stage.drain(&mut ring);
        assert_eq!(ring.written(), 101_000);
        let mut lent = Vec::new();
        ring.lend(9, &mut lent);
        let held: Vec<u8> = lent.iter().flat_map(|part| part.bytes().to_vec()).collect();
        assert!(held == bytes);
    }

    #[test]
    fn a_full_ring_leaves_the_rest_where_it_is() {
        let (stage, mut pusher) = Stage::new(0);
        let mut ring = Ring::new(0, 2 * CHUNK_BYTES);
        assert_eq!(ring.write(&vec![1; CHUNK_BYTES]), CHUNK_BYTES);
        assert_eq!(ring.write(&vec![1; CHUNK_BYTES - 1]), CHUNK_BYTES - 1);
        pusher.skip_to(&stage, ring.written());
        assert_eq!(pusher.push(&stage, b"ab"), Push::Done);
        stage.drain(&mut ring);
        assert_eq!(ring.written() + 1, stage.pushed());
        ring.advance_sent(2 * CHUNK_BYTES as u64);
        assert!(ring.acknowledge(2 * CHUNK_BYTES as u64));
        stage.drain(&mut ring);
        assert_eq!(ring.written(), stage.pushed());
    }

    #[test]
    fn who_asked_for_attention_gets_it_at_that_byte_and_not_before() {
        let (stage, mut pusher) = Stage::new(0);
        assert!(!stage.ask_attention(3));
        assert_eq!(pusher.push(&stage, b"ab"), Push::Done);
        assert_eq!(pusher.push(&stage, b"c"), Push::Attention);
        assert!(stage.ask_attention(3), "it has passed");
        assert!(!stage.ask_attention(NEVER));
        assert_eq!(pusher.push(&stage, b"d"), Push::Done);
        stage.ask_attention(OVER);
        assert_eq!(pusher.push(&stage, b"e"), Push::Refused);
        assert_eq!(stage.pushed(), 4);
    }

    #[test]
    fn no_byte_passes_a_sleeper_unheard() {
        // The driver's side in small: sleep only if nothing came, and count on being woken.
        let (stage, mut pusher) = Stage::new(0);
        let stage = &stage;
        const BYTES: u64 = 50_000;
        let lock = std::sync::Mutex::new((Ring::new(0, 8 * CHUNK_BYTES), false));
        let woken = std::sync::Condvar::new();
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let mut state = lock.lock().expect("no panic");
                loop {
                    stage.drain(&mut state.0);
                    let written = state.0.written();
                    if written == BYTES {
                        break;
                    }
                    // The next byte comes a little earlier each time, or later, than this.
                    (0..written % 256).for_each(|_| std::hint::spin_loop());
                    if stage.ask_attention(written + 1) {
                        continue;
                    }
                    state.1 = true;
                    let sleeps = |state: &mut (Ring, bool)| state.1;
                    let limit = std::time::Duration::from_secs(60);
                    let (guard, timeout) = woken
                        .wait_timeout_while(state, limit, sleeps)
                        .expect("no panic");
                    assert!(!timeout.timed_out(), "unheard of: {}", stage.pushed());
                    state = guard;
                    stage.ask_attention(NEVER);
                }
            });
            for position in 0..BYTES {
                let push = pusher.push(stage, &[position as u8]);
                assert_ne!(push, Push::Refused, "the stage is empty each time");
                if push == Push::Attention {
                    lock.lock().expect("no panic").1 = false;
                    woken.notify_one();
                }
                // Another byte would wake a waiter that this one did not.
                let stays = || stage.drained.0.load(Ordering::Acquire) <= position;
                let mut spins = 0u32;
                while stays() {
                    spins += 1;
                    if spins.is_multiple_of(1024) {
                        assert!(!sleeper.is_finished() || !stays(), "unheard");
                        std::thread::yield_now();
                    }
                    std::hint::spin_loop();
                }
            }
        });
    }
}
