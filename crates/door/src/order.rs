//! Questions of a door to a group's machine, as bytes.
//!
//! ```text
//! order = kind u8 │ …                                 numbers are little-endian
//!
//! run    1 │ protocol u8 │ words
//! exec   2 │ protocol u8 │ client u64 │ count u32 │ words …      all or, where a watched key changed, none
//! expire 3 │ slot u16                                  takes keys away whose deadline has passed
//! keys   4 │ slot u16 │ count u32                      so many keys of the slot; all ones: how many there are
//! words  = count u32 │ (length u32 │ bytes) …
//! ```
//!
//! An order never leaves its process: it is executed where it was made, and the log holds what it wrote.

use resp::Protocol;

/// One command: its name and what follows it.
pub type Words<'a> = Vec<&'a [u8]>;

#[derive(Debug, PartialEq, Eq)]
pub enum Order<'a> {
    Run {
        protocol: Protocol,
        words: Words<'a>,
    },
    Exec {
        protocol: Protocol,
        client: u64,
        commands: Vec<Words<'a>>,
    },
    Expire {
        slot: u16,
    },
    Keys {
        slot: u16,
        count: Option<u32>,
    },
}

fn put_words<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    out.extend_from_slice(&(words.len() as u32).to_le_bytes());
    for word in words {
        out.extend_from_slice(&(word.len() as u32).to_le_bytes());
        out.extend_from_slice(word);
    }
}

fn number_of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    }
}

pub fn expire(slot: u16) -> Vec<u8> {
    [&[3][..], &slot.to_le_bytes()].concat()
}

pub fn keys(slot: u16, count: Option<u32>) -> Vec<u8> {
    let count = count.unwrap_or(u32::MAX).to_le_bytes();
    [&[4][..], &slot.to_le_bytes(), &count].concat()
}

/// The slot in the answer to [`expire`].
pub fn slot_answered(bytes: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.strip_prefix(':')?.trim_end().parse().ok()
}

pub fn run<'a>(protocol: Protocol, words: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = vec![1, number_of(protocol)];
    put_words(&mut out, words);
    out
}

pub fn exec(protocol: Protocol, client: u64, commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut out = vec![2, number_of(protocol)];
    out.extend_from_slice(&client.to_le_bytes());
    out.extend_from_slice(&(commands.len() as u32).to_le_bytes());
    for words in commands {
        put_words(&mut out, words.iter().map(Vec::as_slice));
    }
    out
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn count(&mut self) -> Option<usize> {
        self.take().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    fn slot(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn protocol(&mut self) -> Option<Protocol> {
        match self.take()? {
            [2] => Some(Protocol::Resp2),
            [3] => Some(Protocol::Resp3),
            _ => None,
        }
    }

    fn words(&mut self) -> Option<Words<'a>> {
        (0..self.count()?)
            .map(|_| {
                let length = self.count()?;
                let (word, rest) = self.0.split_at_checked(length)?;
                self.0 = rest;
                Some(word)
            })
            .collect()
    }
}

impl<'a> Order<'a> {
    /// `None`: these bytes are no order.
    pub fn decode(bytes: &'a [u8]) -> Option<Order<'a>> {
        let mut rest = Rest(bytes);
        let order = match rest.take()? {
            [1] => Order::Run {
                protocol: rest.protocol()?,
                words: rest.words()?,
            },
            [2] => Order::Exec {
                protocol: rest.protocol()?,
                client: rest.take().map(u64::from_le_bytes)?,
                commands: (0..rest.count()?)
                    .map(|_| rest.words())
                    .collect::<Option<_>>()?,
            },
            [3] => Order::Expire { slot: rest.slot()? },
            [4] => Order::Keys {
                slot: rest.slot()?,
                count: rest
                    .take()
                    .map(u32::from_le_bytes)
                    .map(|count| (count != u32::MAX).then_some(count))?,
            },
            _ => return None,
        };
        rest.0.is_empty().then_some(order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_as_it_was_written() {
        let words: Words<'_> = vec![b"SET", b"", b"\x00\r\n"];
        let bytes = run(Protocol::Resp3, words.iter().copied());
        let protocol = Protocol::Resp3;
        let expected = Order::Run {
            protocol,
            words: words.clone(),
        };
        assert_eq!(Order::decode(&bytes), Some(expected));
        let owned: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
        let bytes = exec(Protocol::Resp2, 7, &[owned.clone(), owned]);
        let expected = Order::Exec {
            protocol: Protocol::Resp2,
            client: 7,
            commands: vec![words.clone(), words],
        };
        assert_eq!(Order::decode(&bytes), Some(expected));
        assert_eq!(Order::decode(&expire(5)), Some(Order::Expire { slot: 5 }));
        for count in [None, Some(3)] {
            let order = Order::Keys { slot: 5, count };
            assert_eq!(Order::decode(&keys(5, count)), Some(order));
        }
        assert_eq!(slot_answered(b":16383\r\n"), Some(16_383));
        for end in 0..bytes.len() {
            assert_eq!(Order::decode(&bytes[..end]), None);
        }
    }
}
