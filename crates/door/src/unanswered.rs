//! Requests of one connection that a group has to answer: which command each is, when it was taken, and its words for the slow log.
//!
//! ```text
//!  push ─▶ [ done │ asked │ done │ asked ]        answered in any order, let go from the front
//!  words   ░░░░░░░░▒▒▒▒▒▒▒▒░░░░░░▒▒▒▒▒▒▒          one queue of bytes: nothing is allocated for a request
//! ```

use std::collections::VecDeque;

use ops::Time;

/// A command's words are kept up to so many, and each up to so many bytes, as Redis does.
const WORDS_MAX: usize = 32;
const WORD_BYTES_MAX: usize = 128;
/// The words of all unanswered requests of a connection. Of the others the name alone is known.
const BYTES_MAX: usize = 8 << 10;
/// An empty queue of words keeps so much room.
const KEPT_BYTES: usize = 512;
/// A word's own length, and how many of its bytes are left out.
const HEAD_BYTES: usize = 5;

/// A request that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    number: u64,
    /// By the place in [`kv::commands`].
    pub command: u16,
    pub at: Time,
    words_from: u64,
    words_bytes: u32,
    /// The words that are not kept.
    words_left_out: u32,
    is_done: bool,
}

#[derive(Default)]
pub struct Unanswered {
    asked: VecDeque<Asked>,
    words: VecDeque<u8>,
    /// The place of the first byte of words.
    words_from: u64,
}

impl Unanswered {
    /// Takes note of a request, with its words if these may be asked for.
    pub fn push(
        &mut self,
        number: u64,
        command: u16,
        at: Time,
        words: &[&[u8]],
        keeps_words: bool,
    ) {
        let begin = self.words.len();
        let mut kept = 0;
        if keeps_words {
            // Redis tells 31 words of a longer command, and how many more there are.
            let count = match words.len() {
                ..=WORDS_MAX => words.len(),
                _ => WORDS_MAX - 1,
            };
            for word in words.iter().take(count) {
                let some = word.get(..WORD_BYTES_MAX).unwrap_or(word);
                if self.words.len() + HEAD_BYTES + some.len() > BYTES_MAX {
                    break;
                }
                let cut = u32::try_from(word.len() - some.len()).unwrap_or(u32::MAX);
                self.words.push_back(some.len() as u8);
                self.words.extend(cut.to_le_bytes());
                self.words.extend(some);
                kept += 1;
            }
        }
        self.asked.push_back(Asked {
            number,
            command,
            at,
            words_from: self.words_from + begin as u64,
            words_bytes: (self.words.len() - begin) as u32,
            words_left_out: u32::try_from(words.len() - kept).unwrap_or(u32::MAX),
            is_done: false,
        });
    }

    /// The request of this number, which is answered now. Its words are there until [`Unanswered::settle`].
    pub fn take(&mut self, number: u64) -> Option<Asked> {
        let at = self.asked.partition_point(|asked| asked.number < number);
        let asked = self.asked.get_mut(at)?;
        if asked.number != number || std::mem::replace(&mut asked.is_done, true) {
            return None;
        }
        Some(*asked)
    }

    /// Its words, cut as Redis cuts them.
    pub fn words(&self, asked: &Asked) -> Vec<Vec<u8>> {
        let begin = (asked.words_from - self.words_from) as usize;
        let end = (begin + asked.words_bytes as usize).min(self.words.len());
        let mut bytes = self.words.range(begin.min(end)..end).copied();
        let mut words = Vec::new();
        while let Some(length) = bytes.next() {
            let mut cut = [0; 4];
            for byte in &mut cut {
                *byte = bytes.next().unwrap_or_default();
            }
            let mut word: Vec<u8> = bytes.by_ref().take(usize::from(length)).collect();
            match u32::from_le_bytes(cut) {
                0 => {}
                cut => word.extend(format!("... ({cut} more bytes)").into_bytes()),
            }
            words.push(word);
        }
        if words.is_empty() {
            let spec = kv::commands().get(usize::from(asked.command));
            words.extend(spec.map(|spec| spec.name.as_bytes().to_vec()));
            let more = asked.words_left_out.saturating_sub(1);
            words.extend((more > 0).then(|| left_out(more)));
        } else if asked.words_left_out > 0 {
            words.push(left_out(asked.words_left_out));
        }
        words
    }

    /// Lets go what is answered, as far as nothing before it waits.
    pub fn settle(&mut self) {
        let mut bytes = 0;
        while let Some(asked) = self.asked.pop_front_if(|asked| asked.is_done) {
            bytes += asked.words_bytes as usize;
        }
        self.words.drain(..bytes.min(self.words.len()));
        self.words_from += bytes as u64;
        if self.words.is_empty() && self.words.capacity() > KEPT_BYTES {
            self.words.shrink_to(KEPT_BYTES);
        }
    }

    /// The requests that were not answered.
    pub fn left(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().filter(|asked| !asked.is_done)
    }
}

fn left_out(words: u32) -> Vec<u8> {
    format!("... ({words} more arguments)").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;

    fn told(unanswered: &Unanswered, asked: &Asked) -> String {
        let words = unanswered.words(asked);
        let words = words.iter().map(|word| String::from_utf8_lossy(word));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_are_there_until_all_before_them_are_answered() {
        let mut unanswered = Unanswered::default();
        for number in 0..3u64 {
            let name = number.to_string();
            unanswered.push(5 + number, 7, NOW, &[b"GET", name.as_bytes()], true);
        }
        assert_eq!(unanswered.take(4), None);
        let last = unanswered.take(7).expect("it was asked");
        unanswered.settle();
        assert_eq!(told(&unanswered, &last), "GET 2");
        assert_eq!(unanswered.take(7), None, "it is answered once");
        let first = unanswered.take(5).expect("it was asked");
        assert_eq!(told(&unanswered, &first), "GET 0");
        unanswered.settle();
        assert_eq!(unanswered.left().count(), 1);
        let second = unanswered.take(6).expect("it was asked");
        assert_eq!(told(&unanswered, &second), "GET 1");
        unanswered.settle();
        assert!(unanswered.asked.is_empty() && unanswered.words.is_empty());
    }

    #[test]
    fn words_are_cut_as_redis_cuts_them() {
        let mut unanswered = Unanswered::default();
        let long = vec![b'x'; 200];
        unanswered.push(0, 0, NOW, &[b"SET", b"a", &long], true);
        let many = vec![&b"w"[..]; 33];
        unanswered.push(1, 0, NOW, &many, true);
        let just = vec![&b"w"[..]; 32];
        unanswered.push(2, 0, NOW, &just, true);
        let asked = unanswered.take(0).expect("it was asked");
        let cut = format!("SET a {}... (72 more bytes)", "x".repeat(128));
        assert_eq!(told(&unanswered, &asked), cut);
        let asked = unanswered.take(1).expect("it was asked");
        let cut = format!("{}... (2 more arguments)", "w ".repeat(31));
        assert_eq!(told(&unanswered, &asked), cut);
        let asked = unanswered.take(2).expect("it was asked");
        assert_eq!(told(&unanswered, &asked), "w ".repeat(32).trim_end());
    }

    #[test]
    fn a_connection_that_waits_for_much_keeps_few_words() {
        let mut unanswered = Unanswered::default();
        let long = vec![b'x'; 1_000];
        let words = vec![&long[..]; 32];
        let get = kv::commands().iter().position(|spec| spec.name == "get");
        let get = get.expect("a command") as u16;
        for number in 0..1_000 {
            unanswered.push(number, get, NOW, &words, true);
        }
        assert!(unanswered.words.len() <= BYTES_MAX);
        let asked = unanswered.take(999).expect("it was asked");
        assert_eq!(told(&unanswered, &asked), "get ... (31 more arguments)");
        for number in 0..999 {
            unanswered.take(number);
        }
        unanswered.settle();
        assert!(unanswered.words.capacity() <= 2 * KEPT_BYTES);
        // Nobody asks for the words of what is never slow.
        unanswered.push(1_000, get, NOW, &[b"GET", b"a"], false);
        let asked = unanswered.take(1_000).expect("it was asked");
        assert_eq!(told(&unanswered, &asked), "get ... (1 more arguments)");
    }
}
