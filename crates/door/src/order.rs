//! Questions of a door to a group's machine, as bytes.
//!
//! ```text
//! order = kind u8 │ …                                 numbers are little-endian
//!
//! run    1 │ protocol u8 │ map u8 │ words            map: 1 if the group began with the slot by the map, + 2 if another group serves it
//! exec   2 │ protocol u8 │ map u8 │ client u64 │ count u32 │ step …       all or, where a watched key changed, none
//! expire 3 │ slot u16                                  takes keys away whose deadline has passed
//! keys   4 │ slot u16 │ map u8 │ count u32                      so many keys of the slot; all ones: how many there are
//! watch  5 │ protocol u8 │ map u8 │ client u64 │ words        from now on the client hears of changes of these keys
//! move   6 │ word                                       a step of handing slots over (crate::moving::words); its answer is a word, too
//! piece  7 │ map u8 │ ticket u64 │ at u64 │ key │ bytes        a piece of a value that is sent ahead (crate::large)
//! named  8 │ ticket u64 │ bytes u64 │ protocol u8 │ map u8 │ words     like run, on the value that was sent ahead
//! step   = 0 │ words                                   a command
//!        = 1 │ length u32 │ bytes                      the reply of what the door answers itself, in RESP 3
//! words  = count u32 │ (length u32 │ bytes) …
//! ```
//!
//! An order never leaves its process: it is executed where it was made, and the log holds what it wrote.

use kv::Prepared;
use resp::{Decoder, Protocol, Value, encode};

use crate::client::BULK_BYTES_MAX;
use crate::moving::words;

/// One command: its name and what follows it.
pub type Words<'a> = Vec<&'a [u8]>;

/// What the door's map says of a slot, and of the group that is asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByMap {
    /// The group began with the slot.
    pub founds: bool,
    /// Another group serves it.
    pub is_elsewhere: bool,
}

impl ByMap {
    fn to_byte(self) -> u8 {
        u8::from(self.founds) | u8::from(self.is_elsewhere) << 1
    }
}

/// A part of a transaction.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    Command(Words<'a>),
    Answered(&'a [u8]),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Order<'a> {
    Run {
        protocol: Protocol,
        by_map: ByMap,
        words: Words<'a>,
        /// The value that was sent ahead, in the place of the word of the command's own.
        prepared: Option<Prepared>,
    },
    Piece {
        by_map: ByMap,
        ticket: u64,
        at: u64,
        key: &'a [u8],
        bytes: &'a [u8],
    },
    Exec {
        protocol: Protocol,
        by_map: ByMap,
        client: u64,
        commands: Vec<Step<'a>>,
    },
    Watch {
        protocol: Protocol,
        by_map: ByMap,
        client: u64,
        keys: Words<'a>,
    },
    Expire {
        slot: u16,
    },
    Keys {
        slot: u16,
        by_map: ByMap,
        count: Option<u32>,
    },
    Move(Box<words::Step>),
}

/// A step of handing slots over.
pub fn moves(step: &words::Step) -> Vec<u8> {
    [&[6][..], &words::encode(step)].concat()
}

/// The beginning of the answer to a command on a slot that another group has: no reply of RESP begins so.
const ELSEWHERE: u8 = b'@';

/// The answer to a command on a slot that this group has.
pub fn elsewhere(group: u32) -> Vec<u8> {
    [&[ELSEWHERE][..], &group.to_le_bytes()].concat()
}

/// In place of a group, in the answer of one that never had the slot: it is where the map says. The directory has this number, and no group.
pub const BY_THE_MAP: u32 = 0;

/// The group in such an answer.
pub fn elsewhere_in(bytes: &[u8]) -> Option<u32> {
    let group = bytes.strip_prefix(&[ELSEWHERE])?;
    group.try_into().ok().map(u32::from_le_bytes)
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

pub fn keys(slot: u16, by_map: ByMap, count: Option<u32>) -> Vec<u8> {
    let count = count.unwrap_or(u32::MAX).to_le_bytes();
    [&[4][..], &slot.to_le_bytes(), &[by_map.to_byte()], &count].concat()
}

/// The slot in the answer to [`expire`].
pub fn expiry_answered(bytes: &[u8]) -> Option<(u16, u64)> {
    let text = std::str::from_utf8(bytes).ok()?;
    let both: u64 = text.strip_prefix(':')?.trim_end().parse().ok()?;
    Some((both as u16, both >> 16))
}

/// The answer to a look for keys whose deadline has passed: the slot where to go on, and how many keys were taken away.
pub fn expired(next: u16, keys: usize) -> Value {
    Value::count(usize::from(next) | keys << 16)
}

pub fn run<'a>(
    protocol: Protocol,
    by_map: ByMap,
    words: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut out = vec![1, number_of(protocol), by_map.to_byte()];
    put_words(&mut out, words);
    out
}

/// Like [`run`], on a value that was sent ahead.
pub fn named<'a>(
    prepared: Prepared,
    protocol: Protocol,
    by_map: ByMap,
    words: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut out = vec![8];
    out.extend_from_slice(&prepared.ticket.to_le_bytes());
    out.extend_from_slice(&prepared.bytes.to_le_bytes());
    out.extend_from_slice(&[number_of(protocol), by_map.to_byte()]);
    put_words(&mut out, words);
    out
}

/// A piece of a value, of this key, from this place on.
pub fn piece(by_map: ByMap, (ticket, at): (u64, u64), key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(32 + key.len() + bytes.len());
    out.extend_from_slice(&[7, by_map.to_byte()]);
    out.extend_from_slice(&ticket.to_le_bytes());
    out.extend_from_slice(&at.to_le_bytes());
    for word in [key, bytes] {
        out.extend_from_slice(&(word.len() as u32).to_le_bytes());
        out.extend_from_slice(word);
    }
    out
}

pub fn watch<'a>(
    protocol: Protocol,
    by_map: ByMap,
    client: u64,
    keys: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Vec<u8> {
    let mut out = vec![5, number_of(protocol), by_map.to_byte()];
    out.extend_from_slice(&client.to_le_bytes());
    put_words(&mut out, keys);
    out
}

/// A part of a transaction that was queued: a command, or a reply that is there already, in RESP 3.
pub enum Queued {
    Command(Vec<Vec<u8>>),
    Answered(Vec<u8>),
}

pub fn exec(protocol: Protocol, by_map: ByMap, client: u64, steps: &[Queued]) -> Vec<u8> {
    let mut out = vec![2, number_of(protocol), by_map.to_byte()];
    out.extend_from_slice(&client.to_le_bytes());
    out.extend_from_slice(&(steps.len() as u32).to_le_bytes());
    for step in steps {
        match step {
            Queued::Command(words) => {
                out.push(0);
                put_words(&mut out, words.iter().map(Vec::as_slice));
            }
            Queued::Answered(reply) => {
                out.push(1);
                out.extend_from_slice(&(reply.len() as u32).to_le_bytes());
                out.extend_from_slice(reply);
            }
        }
    }
    out
}

/// A reply that is there already, as [`exec`] takes it.
pub fn answered(value: &Value) -> Vec<u8> {
    let mut reply = Vec::new();
    encode(value, Protocol::Resp3, &mut reply);
    reply
}

/// The value of a reply that [`exec`] was given.
pub fn value_of(reply: &[u8]) -> Value {
    let value = Decoder::new(BULK_BYTES_MAX).next(reply).ok().flatten();
    value.map_or(Value::Null, |(value, _)| value)
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

    fn by_map(&mut self) -> Option<ByMap> {
        let [byte] = self.take()?;
        let by_map = ByMap {
            founds: byte & 1 != 0,
            is_elsewhere: byte & 2 != 0,
        };
        (by_map.to_byte() == byte).then_some(by_map)
    }

    fn protocol(&mut self) -> Option<Protocol> {
        match self.take()? {
            [2] => Some(Protocol::Resp2),
            [3] => Some(Protocol::Resp3),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn words(&mut self) -> Option<Words<'a>> {
        (0..self.count()?).map(|_| self.bytes()).collect()
    }

    fn step(&mut self) -> Option<Step<'a>> {
        match self.take()? {
            [0] => self.words().map(Step::Command),
            [1] => self.bytes().map(Step::Answered),
            _ => None,
        }
    }
}

impl<'a> Order<'a> {
    /// `None`: these bytes are no order.
    pub fn decode(bytes: &'a [u8]) -> Option<Order<'a>> {
        let mut rest = Rest(bytes);
        let order = match rest.take()? {
            [1] => Order::Run {
                protocol: rest.protocol()?,
                by_map: rest.by_map()?,
                words: rest.words()?,
                prepared: None,
            },
            [8] => {
                let prepared = Prepared {
                    ticket: rest.take().map(u64::from_le_bytes)?,
                    bytes: rest.take().map(u64::from_le_bytes)?,
                };
                Order::Run {
                    protocol: rest.protocol()?,
                    by_map: rest.by_map()?,
                    words: rest.words()?,
                    prepared: Some(prepared),
                }
            }
            [7] => Order::Piece {
                by_map: rest.by_map()?,
                ticket: rest.take().map(u64::from_le_bytes)?,
                at: rest.take().map(u64::from_le_bytes)?,
                key: rest.bytes()?,
                bytes: rest.bytes()?,
            },
            [2] => Order::Exec {
                protocol: rest.protocol()?,
                by_map: rest.by_map()?,
                client: rest.take().map(u64::from_le_bytes)?,
                commands: (0..rest.count()?)
                    .map(|_| rest.step())
                    .collect::<Option<_>>()?,
            },
            [3] => Order::Expire { slot: rest.slot()? },
            [4] => Order::Keys {
                slot: rest.slot()?,
                by_map: rest.by_map()?,
                count: rest
                    .take()
                    .map(u32::from_le_bytes)
                    .map(|count| (count != u32::MAX).then_some(count))?,
            },
            [5] => Order::Watch {
                protocol: rest.protocol()?,
                by_map: rest.by_map()?,
                client: rest.take().map(u64::from_le_bytes)?,
                keys: rest.words()?,
            },
            [6] => Order::Move(Box::new(words::decode(std::mem::take(&mut rest.0))?)),
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
        let by_map = ByMap {
            founds: true,
            is_elsewhere: true,
        };
        let bytes = run(Protocol::Resp3, by_map, words.iter().copied());
        let protocol = Protocol::Resp3;
        let expected = Order::Run {
            protocol,
            by_map,
            words: words.clone(),
            prepared: None,
        };
        assert_eq!(Order::decode(&bytes), Some(expected));
        let prepared = Prepared {
            ticket: 7,
            bytes: 1 << 33,
        };
        let bytes = named(prepared, protocol, by_map, words.iter().copied());
        let expected = Order::Run {
            protocol,
            by_map,
            words: words.clone(),
            prepared: Some(prepared),
        };
        assert_eq!(Order::decode(&bytes), Some(expected));
        let bytes = piece(by_map, (7, 1 << 33), b"k", b"\r\n");
        let expected = Order::Piece {
            by_map,
            ticket: 7,
            at: 1 << 33,
            key: b"k",
            bytes: b"\r\n",
        };
        assert_eq!(Order::decode(&bytes), Some(expected));
        let owned: Vec<Vec<u8>> = words.iter().map(|word| word.to_vec()).collect();
        let pong = Value::Map(vec![(Value::bulk("a"), Value::Null)]);
        let reply = answered(&pong);
        let steps = [Queued::Command(owned), Queued::Answered(reply.clone())];
        let bytes = exec(Protocol::Resp2, ByMap::default(), 7, &steps);
        assert_eq!(value_of(&reply), pong);
        let expected = Order::Exec {
            protocol: Protocol::Resp2,
            by_map: ByMap::default(),
            client: 7,
            commands: vec![Step::Command(words), Step::Answered(&reply)],
        };
        assert_eq!(Order::decode(&bytes), Some(expected));
        let keys_of_it: Words<'_> = vec![b"a", b"b"];
        let watched = watch(Protocol::Resp3, by_map, 7, keys_of_it.iter().copied());
        let expected_watch = Order::Watch {
            protocol: Protocol::Resp3,
            by_map,
            client: 7,
            keys: keys_of_it,
        };
        assert_eq!(Order::decode(&watched), Some(expected_watch));
        assert_eq!(Order::decode(&expire(5)), Some(Order::Expire { slot: 5 }));
        for count in [None, Some(3)] {
            let slot = 5;
            let order = Order::Keys {
                slot,
                by_map,
                count,
            };
            assert_eq!(Order::decode(&keys(5, by_map, count)), Some(order));
        }
        let span = words::Span::ALL;
        let step = words::Step::Stand { span };
        let moved = moves(&step);
        assert_eq!(Order::decode(&moved), Some(Order::Move(Box::new(step))));
        assert_eq!(elsewhere_in(&elsewhere(7)), Some(7));
        assert_eq!(elsewhere_in(b"+OK\r\n"), None);
        let mut answer = Vec::new();
        encode(&expired(16_383, 200), Protocol::Resp2, &mut answer);
        assert_eq!(expiry_answered(&answer), Some((16_383, 200)));
        assert_eq!(expiry_answered(b":-1\r\n"), None);
        for end in 0..bytes.len() {
            assert_eq!(Order::decode(&bytes[..end]), None);
        }
    }
}
