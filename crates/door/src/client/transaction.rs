//! The commands between MULTI and EXEC.

use super::BULK_BYTES_MAX;

/// The commands of one transaction, in bytes.
const QUEUED_BYTES_MAX: usize = BULK_BYTES_MAX;
/// The memory of a command beside its words, and of a word beside its bytes.
const COMMAND_BYTES: usize = 48;
const WORD_BYTES: usize = 40;

/// MULTI, and what was queued since.
#[derive(Default)]
pub struct Transaction {
    pub commands: Vec<Vec<Vec<u8>>>,
    pub bytes: usize,
    /// A command was refused when it was to be queued.
    pub has_failed: bool,
    is_too_large: bool,
}

impl Transaction {
    /// False if there is no room. ‡ A transaction that will not be executed keeps nothing: a client that goes on sending would fill the memory.
    pub fn queue(&mut self, words: &[&[u8]]) -> bool {
        if self.is_too_large {
            return false;
        }
        self.bytes += COMMAND_BYTES;
        self.bytes += words
            .iter()
            .map(|word| word.len() + WORD_BYTES)
            .sum::<usize>();
        self.is_too_large = self.bytes > QUEUED_BYTES_MAX;
        self.has_failed |= self.is_too_large;
        if self.has_failed {
            self.commands = Vec::new();
        } else {
            self.commands
                .push(words.iter().map(|word| word.to_vec()).collect());
        }
        !self.is_too_large
    }

    /// Whether each command has a short reply, whatever it finds.
    pub fn is_brief(&self) -> bool {
        self.commands.iter().all(|words| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let spec = words.first().and_then(|name| kv::lookup(name));
            spec.is_some_and(|spec| kv::has_brief_reply(spec, &words))
        })
    }

    /// The memory that it takes.
    pub fn held_bytes(&self) -> usize {
        match self.commands.is_empty() {
            true => 0,
            false => self.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_that_will_not_be_executed_keeps_nothing() {
        let mut transaction = Transaction::default();
        assert!(transaction.queue(&[b"PING"]));
        assert_eq!(transaction.held_bytes(), 4 + COMMAND_BYTES + WORD_BYTES);
        let large = vec![b'x'; QUEUED_BYTES_MAX / 2];
        assert!(transaction.queue(&[b"SET", b"a", &large]));
        assert!(transaction.held_bytes() > QUEUED_BYTES_MAX / 2);
        for _ in 0..100 {
            assert!(!transaction.queue(&[b"SET", b"a", &large]));
            assert!(!transaction.queue(&[b"PING"]));
            assert_eq!(transaction.held_bytes(), 0);
        }
        // One that failed otherwise goes on, and keeps nothing either.
        let has_failed = true;
        let mut transaction = Transaction {
            has_failed,
            ..Transaction::default()
        };
        assert!(transaction.queue(&[b"PING"]));
        assert_eq!(transaction.held_bytes(), 0);
    }
}
