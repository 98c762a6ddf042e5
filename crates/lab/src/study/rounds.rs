//! Variants that live at once and take turns: what is compared is measured milliseconds apart.
//!
//! ```text
//!   round 1   b: warm-up, 4 measured · a: … · c: …        in an order that is drawn anew each time
//!   round 2   c: … · b: … · a: …
//!             a pair's ratio is one of its round: a machine that is twice as slow for a minute is so for both sides
//! ```

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use testbed::scratch::go_on;

use super::statistics;

/// A proposer, which waits until what it proposed is agreed on.
pub trait Proposer {
    /// One proposal of so many bytes.
    fn propose(&mut self, bytes: usize) -> Result<Duration>;

    /// Sends pieces of so many bytes for so long, as fast as it goes; how many of them a second were agreed on.
    ///
    /// Errors: one that always waits for an answer.
    fn flat_out(&mut self, piece: usize, time: Duration) -> Result<f64> {
        bail!("nobody sends {piece} B for {time:?} who waits for each answer")
    }
}

/// The proposals of a turn that count; one goes before them.
pub const COUNTED: usize = 4;

/// The times of one variant in all rounds, at one place of the x axis.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Milliseconds, in the order of measuring.
    pub all: Vec<f64>,
    /// The median of each round.
    pub rounds: Vec<f64>,
}

/// Rounds until there are so many, or somebody asks to end: then it says so, beside what there is.
pub fn take_turns(
    proposers: &mut [Box<dyn Proposer + '_>],
    (rounds, bytes): (u32, usize),
    draw: &mut Draw,
    mut on_round: impl FnMut(),
) -> Result<(Vec<Samples>, bool)> {
    let mut samples = vec![Samples::default(); proposers.len()];
    let mut order: Vec<usize> = (0..proposers.len()).collect();
    for _ in 0..rounds {
        if go_on().is_err() {
            return Ok((samples, false));
        }
        draw.shuffle(&mut order);
        for at in &order {
            let turn = turn(proposers[*at].as_mut(), bytes)?;
            samples[*at].rounds.extend(statistics::median(&turn));
            samples[*at].all.extend(turn);
        }
        on_round();
    }
    Ok((samples, true))
}

fn turn(proposer: &mut dyn Proposer, bytes: usize) -> Result<Vec<f64>> {
    proposer.propose(bytes)?;
    let counted = (0..COUNTED).map(|_| Ok(proposer.propose(bytes)?.as_secs_f64() * 1e3));
    counted.collect()
}

/// An appender as a proposer: the time from the call to the acknowledgement of the last byte.
pub struct Appends {
    appender: client::Appender,
    acknowledgements: client::Acknowledgements,
    content: Vec<u8>,
}

impl Appends {
    pub fn to(client: &client::Client, log: &str) -> Result<Appends> {
        let appender = client.append(log, client::AppendOptions::default())?;
        Ok(Appends {
            acknowledgements: appender.acknowledgements(),
            appender,
            content: Vec::new(),
        })
    }
}

impl Proposer for Appends {
    fn propose(&mut self, bytes: usize) -> Result<Duration> {
        self.content.resize(bytes, b'v');
        let began = Instant::now();
        let position = self.appender.append(&self.content)?;
        self.acknowledgements.wait(position)?;
        Ok(began.elapsed())
    }

    fn flat_out(&mut self, piece: usize, time: Duration) -> Result<f64> {
        self.content.resize(piece, b'v');
        let began = Instant::now();
        let (mut pieces, mut position) = (0u64, 0);
        while began.elapsed() < time {
            position = self.appender.append(&self.content)?;
            pieces += 1;
        }
        self.acknowledgements.wait(position)?;
        Ok(pieces as f64 / began.elapsed().as_secs_f64())
    }
}

/// The chance of orders, from a seed: equal seeds draw equally (splitmix64).
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below that one, or 0.
    #[cfg(test)]
    pub fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// `None`: there are none.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        let count = all.len().max(1) as u64;
        all.get((self.next() % count) as usize)
    }

    pub fn shuffle(&mut self, order: &mut [usize]) {
        for at in (1..order.len()).rev() {
            let with = (self.next() % (at as u64 + 1)) as usize;
            order.swap(at, with);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    struct Counts<'a>(usize, &'a RefCell<Vec<usize>>);

    impl Proposer for Counts<'_> {
        fn propose(&mut self, bytes: usize) -> Result<Duration> {
            self.1.borrow_mut().push(self.0);
            Ok(Duration::from_millis(bytes as u64 * (self.0 as u64 + 1)))
        }
    }

    fn order_of(seed: u64) -> (Vec<usize>, Vec<Samples>) {
        let seen = RefCell::new(Vec::new());
        let mut proposers: Vec<Box<dyn Proposer + '_>> = (0..3)
            .map(|at| Box::new(Counts(at, &seen)) as Box<dyn Proposer + '_>)
            .collect();
        let (samples, whole) =
            take_turns(&mut proposers, (10, 5), &mut Draw::new(seed), || {}).expect("turns");
        assert!(whole);
        drop(proposers);
        (seen.into_inner(), samples)
    }

    #[test]
    fn every_variant_has_a_turn_in_every_round() {
        let (seen, samples) = order_of(7);
        for round in seen.chunks(3 * (COUNTED + 1)) {
            for variant in 0..3 {
                let turns = round.iter().filter(|at| **at == variant).count();
                assert_eq!(turns, COUNTED + 1);
            }
        }
        for (at, samples) in samples.iter().enumerate() {
            assert_eq!(samples.all.len(), 10 * COUNTED, "the warm-ups do not count");
            assert_eq!(samples.rounds, vec![5.0 * (at as f64 + 1.0); 10]);
        }
        assert_eq!(order_of(7).0, seen, "an equal seed draws equally");
        assert_ne!(order_of(8).0, seen);
    }
}
