//! One log's output as observers have seen it: which chain's bytes stand where.
//!
//! ```text
//!  bytes at a position ─► those known already: must be the same
//!                      └► new ones: the present chain's next bytes, or those of one that is alive
//! ```
//!
//! Nobody tells an observer whose bytes it reads; their content does. By chance the first bytes of a
//! chain may look like the next ones of the chain before it (one time in 256), so what was taken for
//! the one may turn out, some bytes later, to be the other. The bytes themselves are never in doubt.

use history::Extent;

use super::content;

/// The number of bytes that may look like another chain's by chance: 8 do once in 2^64 times.
const MISTAKEN_MAX: u64 = 8;

#[derive(Debug, Default)]
pub struct Output {
    /// One after the other, from position 0 on.
    extents: Vec<(u64, Extent)>,
    /// The chains, from number 1 on.
    chains: Vec<Chain>,
}

#[derive(Debug)]
struct Chain {
    key: u64,
    /// Bytes that were given to an appender.
    written: u64,
    /// Bytes that stand in the output, as far as it is known.
    seen: u64,
    /// When it was first opened and when it was given up, in openings of the log. No byte of it
    /// stands behind one of a chain that was first opened later than it was given up.
    opened: Option<u64>,
    abandoned: Option<u64>,
}

/// Bytes that cannot be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The first of them, in the log's output.
    pub position: u64,
    /// It was seen otherwise before. Otherwise: nobody wrote it.
    pub differs: bool,
}

impl Output {
    /// A new chain; its number.
    pub fn add_chain(&mut self, key: u64) -> u32 {
        self.chains.push(Chain {
            key,
            written: 0,
            seen: 0,
            opened: None,
            abandoned: None,
        });
        self.chains.len() as u32
    }

    pub fn wrote(&mut self, chain: u32, to: u64) {
        let chain = self.chain_mut(chain);
        chain.written = chain.written.max(to);
    }

    /// A stream of the chain is open: the log's `opening`th.
    pub fn opened(&mut self, chain: u32, opening: u64) {
        self.chain_mut(chain).opened.get_or_insert(opening);
    }

    /// Nobody will open a stream of it again.
    pub fn abandoned(&mut self, chain: u32, opening: u64) {
        self.chain_mut(chain).abandoned = Some(opening);
    }

    fn chain_mut(&mut self, number: u32) -> &mut Chain {
        &mut self.chains[number as usize - 1]
    }

    fn chain(&self, number: u32) -> &Chain {
        &self.chains[number as usize - 1]
    }

    pub fn known(&self) -> u64 {
        self.extents
            .last()
            .map_or(0, |(at, extent)| at + extent.count())
    }

    pub fn key(&self, chain: u32) -> u64 {
        self.chain(chain).key
    }

    /// Somebody saw these bytes at this position, which is not beyond what is known.
    pub fn see(&mut self, position: u64, bytes: &[u8]) -> Result<(), Wrong> {
        let known = self.known();
        assert!(position <= known, "observers begin at what is known");
        let old = bytes.len().min((known - position) as usize);
        let same = self.same(position, &bytes[..old]);
        if same < old {
            let position = position + same as u64;
            return Err(Wrong {
                position,
                differs: true,
            });
        }
        let mut rest = &bytes[old..];
        while !rest.is_empty() {
            let taken = self.go_on(rest);
            rest = &rest[taken..];
            if rest.is_empty() {
                break;
            }
            let Some(taken) = self.change_chain(rest) else {
                let position = self.known();
                return Err(Wrong {
                    position,
                    differs: false,
                });
            };
            rest = &rest[taken..];
        }
        Ok(())
    }

    /// The number of `bytes` that stand at `position`, before the first that does not, or the end of what is known.
    pub fn same(&self, position: u64, bytes: &[u8]) -> usize {
        let mut done = 0;
        for extent in self.extents(position, position + bytes.len() as u64) {
            let count = extent.count() as usize;
            let piece = &bytes[done..done + count];
            let matched = content::matching(self.key(extent.chain), extent.from, piece);
            done += matched;
            if matched < count {
                break;
            }
        }
        done
    }

    /// The extents that stand there, as far as they are known.
    pub fn extents(&self, from: u64, to: u64) -> Vec<Extent> {
        let first = self
            .extents
            .partition_point(|(at, extent)| at + extent.count() <= from);
        let within = self.extents[first..].iter().take_while(|(at, _)| *at < to);
        within
            .map(|(at, extent)| Extent {
                chain: extent.chain,
                from: extent.from + from.saturating_sub(*at),
                to: extent.to - (at + extent.count()).saturating_sub(to),
            })
            .filter(|extent| extent.from < extent.to)
            .collect()
    }

    /// The number of bytes of the chain below `end`.
    pub fn held_below(&self, chain: u32, end: u64) -> u64 {
        let extents = self.extents(0, end);
        let of = extents.iter().filter(|extent| extent.chain == chain);
        of.map(|extent| extent.to).max().unwrap_or(0)
    }

    /// Takes what matches the present chain's next bytes.
    fn go_on(&mut self, bytes: &[u8]) -> usize {
        let Some((_, last)) = self.extents.last_mut() else {
            return 0;
        };
        let chain = &mut self.chains[last.chain as usize - 1];
        let room = (chain.written - chain.seen).min(bytes.len() as u64) as usize;
        let matched = content::matching(chain.key, chain.seen, &bytes[..room]);
        chain.seen += matched as u64;
        last.to += matched as u64;
        matched
    }

    /// Finds the chain to which `rest` belongs, whose first byte is not the present chain's, and
    /// with it perhaps the last bytes that were taken for the present chain's. Returns how many
    /// bytes of `rest` it took.
    fn change_chain(&mut self, rest: &[u8]) -> Option<usize> {
        let known = self.known();
        let mut best: Option<(usize, u64, u32)> = None;
        for back in 0..=MISTAKEN_MAX.min(known) {
            let from = known - back;
            let mut tail = self.bytes(from, known);
            tail.extend_from_slice(&rest[..rest.len().min(4096)]);
            for number in 1..=self.chains.len() as u32 {
                if !self.may_stand(number, from) {
                    continue;
                }
                let seen = self.seen_below(number, from);
                let chain = self.chain(number);
                let room = chain.written.saturating_sub(seen).min(tail.len() as u64);
                let matched = content::matching(chain.key, seen, &tail[..room as usize]);
                let beyond = matched.saturating_sub(back as usize);
                if beyond > 0 && best.is_none_or(|(most, ..)| beyond > most) {
                    best = Some((beyond, from, number));
                }
            }
        }
        let (beyond, from, number) = best?;
        self.cut(from);
        let chain = self.chain_mut(number);
        let extent = Extent {
            chain: number,
            from: chain.seen,
            to: chain.seen + (known - from) + beyond as u64,
        };
        chain.seen = extent.to;
        match self.extents.last_mut() {
            Some((_, last)) if last.chain == number => last.to = extent.to,
            _ => self.extents.push((from, extent)),
        }
        Some(beyond)
    }

    /// Forgets to whom the bytes from `from` on belong.
    fn cut(&mut self, from: u64) {
        while let Some((at, extent)) = self.extents.last_mut() {
            let end = *at + extent.count();
            if end <= from {
                break;
            }
            let gone = end - from.max(*at);
            extent.to -= gone;
            let (number, empty) = (extent.chain, extent.from == extent.to);
            self.chains[number as usize - 1].seen -= gone;
            if empty {
                self.extents.pop();
            }
        }
    }

    fn seen_below(&self, chain: u32, from: u64) -> u64 {
        let behind = self.extents(from, self.known());
        let of = behind.iter().filter(|extent| extent.chain == chain);
        let gone: u64 = of.map(Extent::count).sum();
        self.chain(chain).seen - gone
    }

    /// Whether bytes of the chain may stand at `from`, behind those that stand there before.
    fn may_stand(&self, number: u32, from: u64) -> bool {
        let chain = self.chain(number);
        let before = self.extents(from.saturating_sub(1), from);
        let over = chain.abandoned.is_some_and(|abandoned| {
            before
                .last()
                .and_then(|before| self.chain(before.chain).opened)
                .is_some_and(|opened| opened > abandoned)
        });
        chain.written > 0 && !over
    }

    fn bytes(&self, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for extent in self.extents(from, to) {
            let at = bytes.len();
            bytes.resize(at + extent.count() as usize, 0);
            content::fill(self.key(extent.chain), extent.from, &mut bytes[at..]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(key: u64, from: u64, to: u64) -> Vec<u8> {
        let mut bytes = vec![0; (to - from) as usize];
        content::fill(key, from, &mut bytes);
        bytes
    }

    /// Two chains of which 1000 bytes each were written.
    fn two() -> Output {
        let mut output = Output::default();
        for key in [11, 22] {
            let chain = output.add_chain(key);
            output.wrote(chain, 1000);
            output.opened(chain, u64::from(chain));
        }
        output
    }

    fn extents(output: &Output) -> Vec<(u32, u64, u64)> {
        let all = output.extents(0, u64::MAX / 2);
        all.into_iter().map(Into::into).collect()
    }

    #[test]
    fn chains_are_told_by_their_bytes() {
        let mut output = two();
        output.see(0, &part(11, 0, 10)).unwrap();
        output
            .see(5, &[part(11, 5, 10), part(22, 0, 7)].concat())
            .unwrap();
        output.see(17, &part(11, 10, 400)).unwrap();
        assert_eq!(extents(&output), [(1, 0, 10), (2, 0, 7), (1, 10, 400)]);
        assert_eq!(output.extents(8, 12), [(1, 8, 10).into(), (2, 0, 2).into()]);
        assert_eq!(output.held_below(1, 12), 10);
    }

    #[test]
    fn other_bytes_than_before_are_wrong_and_so_are_unwritten_ones() {
        let mut output = two();
        output.see(0, &part(11, 0, 10)).unwrap();
        let differs = output.see(4, &part(22, 0, 6)).unwrap_err();
        assert!(differs.differs && (4..7).contains(&differs.position));
        // A gap, a repeat, somebody else's, and what was not given to an appender yet.
        for bytes in [part(11, 18, 60), part(11, 0, 60), part(33, 0, 60)] {
            let wrong = two_after(10).see(10, &bytes).unwrap_err();
            assert!(!wrong.differs && wrong.position < 13, "{wrong:?}");
        }
        let wrong = two_after(10).see(10, &part(11, 10, 1100)).unwrap_err();
        assert_eq!(wrong.position, 1000);
    }

    fn two_after(count: u64) -> Output {
        let mut output = two();
        output.see(0, &part(11, 0, count)).unwrap();
        output
    }

    /// The keys of two chains such that the second begins with the byte with which the first would
    /// go on after `at`.
    fn alike(at: u64) -> (u64, u64) {
        let wanted = part(11, at, at + 1);
        let second = (100..).find(|key| part(*key, 0, 1) == wanted);
        (11, second.expect("one of 256"))
    }

    #[test]
    fn a_chain_that_begins_as_the_other_would_go_on_is_told_later() {
        let (first, second) = alike(10);
        for cut in [1, 2, 40] {
            let mut output = Output::default();
            for key in [first, second] {
                let chain = output.add_chain(key);
                output.wrote(chain, 1000);
            }
            let all = [part(first, 0, 10), part(second, 0, 50)].concat();
            // Two observers: the first ends in the middle of the doubt, or behind it.
            output.see(0, &all[..10 + cut]).unwrap();
            output.see(3, &all[3..]).unwrap();
            assert_eq!(extents(&output), [(1, 0, 10), (2, 0, 50)]);
        }
    }

    #[test]
    fn what_was_given_up_before_does_not_come_again() {
        let mut output = two();
        let third = output.add_chain(33);
        output.wrote(third, 1000);
        output.abandoned(1, 2);
        output.opened(third, 3);
        output.see(0, &part(33, 0, 10)).unwrap();
        assert!(output.see(10, &part(11, 0, 30)).is_err());
        output.see(10, &part(22, 0, 30)).unwrap();
    }
}
