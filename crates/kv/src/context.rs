//! The context of a command, beside its words and rows.

use resp::Protocol;

use crate::rows::Prepared;
use crate::slot::Life;

/// The bounds between small and large, and those of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// A hash, set, list or sorted set with more bytes than that lies in rows of its own.
    pub packed_bytes_max: usize,
    /// … and so does one with more members.
    pub packed_members_max: usize,
    /// A string with more bytes than that lies in chunks.
    pub inline_bytes_max: usize,
    /// The longest string.
    pub string_bytes_max: usize,
    /// The bytes that one command may read into its reply, so that nobody asks for a small thing a million times.
    pub reply_bytes_max: usize,
    /// The longest key, and the longest member of what lies in rows: it is a part of a row's key.
    pub key_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            packed_bytes_max: 2048,
            packed_members_max: 128,
            inline_bytes_max: 64 << 10,
            string_bytes_max: 64 << 20,
            reply_bytes_max: 64 << 20,
            key_bytes_max: 32_000,
        }
    }
}

/// Where and for whom a command is executed.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Some replies have another shape in RESP 3.
    pub protocol: Protocol,
    /// The slots that are served here, in their order. Commands without a key (DBSIZE, KEYS, SCAN, RANDOMKEY, FLUSHALL) look at all of
    /// them: who knows that a slot is empty may leave it out for those.
    pub lives: &'a [Life],
    pub bounds: Bounds,
    /// ‡ What the command sets a key to, in the place of the word of its value: for commands of which [`prepares`](crate::prepares) says it alone.
    pub prepared: Option<Prepared>,
}

impl<'a> Context<'a> {
    pub fn new(protocol: Protocol, lives: &'a [Life]) -> Context<'a> {
        Context {
            protocol,
            lives,
            bounds: Bounds::default(),
            prepared: None,
        }
    }

    pub(crate) fn life_of(&self, slot: u16) -> Option<Life> {
        let found = self.lives.binary_search_by_key(&slot, |life| life.slot);
        self.lives.get(found.ok()?).copied()
    }

    pub(crate) fn is_new(&self) -> bool {
        self.protocol == Protocol::Resp3
    }
}
