//! The values that every key may have: which versions a read may show.

/// A version that is being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    pub version: u32,
    /// No other write to this key was under way when it began: all before it was over.
    is_alone: bool,
}

/// ```text
/// oldest <= what a read shows <= sent
/// ```
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// The newest version that was ever sent; 0 if none was.
    sent: u32,
    /// A read that begins now shows no older version.
    oldest: u32,
    under_way: u32,
    /// Nobody knows what became of some write: it may still be done, after newer ones.
    is_vague: bool,
}

/// One client program's knowledge. All writes to its keys are its own.
pub struct Book(Vec<Entry>);

impl Book {
    pub fn new(keys: u32) -> Book {
        Book(vec![Entry::default(); keys as usize])
    }

    fn entry(&mut self, key: u32) -> &mut Entry {
        &mut self.0[key as usize]
    }

    pub fn is_written(&self, key: u32) -> bool {
        self.0[key as usize].oldest > 0
    }

    pub fn begin(&mut self, key: u32) -> Write {
        let entry = self.entry(key);
        entry.sent += 1;
        entry.under_way += 1;
        Write {
            version: entry.sent,
            is_alone: entry.under_way == 1,
        }
    }

    /// It was answered. If it began alone, what is in its place now was written after it or is it.
    pub fn done(&mut self, key: u32, write: Write) {
        let entry = self.entry(key);
        entry.under_way -= 1;
        if write.is_alone || entry.oldest == 0 {
            let oldest = if write.is_alone { write.version } else { 1 };
            entry.oldest = entry.oldest.max(oldest);
        }
    }

    /// It was not done, and never will be.
    pub fn refused(&mut self, key: u32) {
        self.entry(key).under_way -= 1;
    }

    /// Nobody knows what became of it.
    pub fn lost(&mut self, key: u32) {
        let entry = self.entry(key);
        entry.under_way -= 1;
        entry.is_vague = true;
    }

    /// The oldest version that a read may show which begins now; 0 if it may show that there is none.
    pub fn oldest(&self, key: u32) -> u32 {
        let entry = &self.0[key as usize];
        match entry.is_vague {
            true => entry.oldest.min(1),
            false => entry.oldest,
        }
    }

    /// Whether a read that began when `oldest` was the oldest may show this version now.
    pub fn allows(&self, key: u32, oldest: u32, version: u32) -> bool {
        (oldest..=self.0[key as usize].sent).contains(&version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_answered_is_the_oldest_that_may_be_shown() {
        let mut book = Book::new(1);
        assert_eq!(book.oldest(0), 0);
        let first = book.begin(0);
        book.done(0, first);
        let second = book.begin(0);
        assert!(
            book.allows(0, book.oldest(0), 1),
            "the second is not answered"
        );
        assert!(
            book.allows(0, book.oldest(0), 2),
            "it may be done all the same"
        );
        book.done(0, second);
        assert!(!book.allows(0, book.oldest(0), 1));
        assert!(!book.allows(0, book.oldest(0), 3), "it was never written");
    }

    #[test]
    fn of_two_at_a_time_either_may_be_the_last() {
        let mut book = Book::new(1);
        let (first, second) = (book.begin(0), book.begin(0));
        book.done(0, second);
        book.done(0, first);
        let oldest = book.oldest(0);
        assert!(book.allows(0, oldest, 1) && book.allows(0, oldest, 2));
        let third = book.begin(0);
        book.done(0, third);
        assert!(!book.allows(0, book.oldest(0), 2), "both were over before");
    }

    #[test]
    fn what_nobody_knows_the_end_of_may_come_after_newer_ones() {
        let mut book = Book::new(1);
        let first = book.begin(0);
        book.done(0, first);
        book.begin(0);
        book.lost(0);
        let third = book.begin(0);
        book.done(0, third);
        assert!(book.allows(0, book.oldest(0), 2));
        assert!(!book.allows(0, book.oldest(0), 0), "there is a value");
    }
}
