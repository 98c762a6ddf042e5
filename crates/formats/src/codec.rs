//! The engine's values as bytes.
//!
//! Fixed-width little-endian integers, lists with a count in front, sums with a tag in front. Every value has
//! exactly one encoding, so that equal values have equal digests; anything else is refused. A value that is
//! stored or sent on its own begins with the version that it is written in.

use std::collections::BTreeMap;
use std::sync::Arc;

use paxos::{
    AcceptedRun, AcceptedTerm, Action, By, Change, Checkpoint, Configuration, Era, Finishing,
    LABEL_BYTES_MAX, LogState, METADATA_BYTES_MAX, Member, NodeId, Offset, OpenStream, Promise,
    PromisedTerm, Run, Slot, SlotRange, StreamEnd, StreamName, StreamPosition, StreamSequence,
    StreamState, StreamsTrimmed, Term, Value, Wish, WishNumber,
};
use thiserror::Error;

use crate::version::{Speaks, Unspoken};

/// Why bytes are not a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    #[error("the bytes end too early")]
    Short,
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    #[error("written in {0}")]
    Version(#[from] Unspoken),
    #[error(
        "action {0} is unknown to this program, so it cannot apply it: upgrade this node to the version of its peers"
    )]
    UnknownAction(u8),
    #[error("{what} {value} is unknown")]
    Unknown { what: &'static str, value: u8 },
    #[error("{0} is too long")]
    TooLong(&'static str),
    #[error("{0} is not valid")]
    Invalid(&'static str),
}

/// The bytes not yet decoded.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        if count > self.rest.len() {
            return Err(DecodeError::Short);
        }
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(taken)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    /// A count of elements, believed only if that many could still follow.
    pub fn count(&mut self, element_bytes_min: usize) -> Result<usize, DecodeError> {
        let count = u32::parse(self)? as usize;
        if count > self.rest.len() / element_bytes_min.max(1) {
            return Err(DecodeError::Short);
        }
        Ok(count)
    }

    /// Bytes with their count in front.
    fn counted(&mut self, max: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let count = self.count(1)?;
        if count > max {
            return Err(DecodeError::TooLong(what));
        }
        self.bytes(count)
    }

    pub fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }
}

/// A value with exactly one encoding.
pub trait Encode: Sized {
    /// No encoding is shorter: bounds what a count may promise.
    const BYTES_MIN: usize;
    fn put(&self, out: &mut Vec<u8>);
    fn parse(from: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// A value that is stored or sent on its own: version, then value, then nothing.
pub fn encode<T: Encode>(version: u8, value: &T) -> Vec<u8> {
    let mut out = vec![version];
    value.put(&mut out);
    out
}

pub fn decode<T: Encode>(speaks: Speaks, bytes: &[u8]) -> Result<T, DecodeError> {
    let mut from = Reader::new(bytes);
    match u8::parse(&mut from)? {
        0 => return Err(DecodeError::Invalid("version 0")),
        found => speaks.check(u32::from(found))?,
    };
    let value = T::parse(&mut from)?;
    from.finish()?;
    Ok(value)
}

macro_rules! encode_integer {
    ($($integer:ty),*) => {$(
        impl Encode for $integer {
            const BYTES_MIN: usize = size_of::<$integer>();
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn parse(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(<$integer>::from_le_bytes(from.array()?))
            }
        }
    )*};
}
encode_integer!(u8, u16, u32, u64);

/// A structure is its fields, one after the other.
macro_rules! encode_fields {
    ($name:ident { $($field:tt: $kind:ty),* $(,)? }) => {
        impl Encode for $name {
            const BYTES_MIN: usize = 0 $(+ <$kind>::BYTES_MIN)*;
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn parse(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok($name { $($field: <$kind>::parse(from)?),* })
            }
        }
    };
}
encode_fields!(Slot { 0: u64 });
encode_fields!(StreamPosition { 0: u64 });
encode_fields!(Offset { 0: u64 });
encode_fields!(NodeId { 0: u32 });
encode_fields!(Era { 0: u32 });
encode_fields!(Term {
    era: Era,
    number: u32,
    owner: NodeId
});
encode_fields!(PromisedTerm { 0: Term });
encode_fields!(AcceptedTerm { 0: Term });
encode_fields!(StreamSequence {
    incarnation: u32,
    counter: u32
});
encode_fields!(StreamName {
    owner: NodeId,
    sequence: StreamSequence
});
encode_fields!(Run {
    slots: SlotRange,
    term: Term,
    value: Value
});
encode_fields!(AcceptedRun {
    slots: SlotRange,
    term: AcceptedTerm,
    value: Value
});
encode_fields!(Promise {
    term: Term,
    from: Slot,
    runs: Vec<AcceptedRun>
});
encode_fields!(Finishing {
    term: Term,
    below: Slot
});
encode_fields!(Checkpoint {
    promised: PromisedTerm,
    finishing: Option<Finishing>,
    state: LogState,
    accepted: Vec<AcceptedRun>
});
encode_fields!(WishNumber {
    rescues: u32,
    count: u64
});

/// In the byte that says whether a stream is current: a wish follows the rest.
const HAS_WISH: u8 = 2;

impl Encode for LogState {
    const BYTES_MIN: usize = 8 + 4 + 8 + 4 + 4 + 4 + 4 + 8 + 1 + 8;
    fn put(&self, out: &mut Vec<u8>) {
        self.next.put(out);
        self.era.put(out);
        self.era_start.put(out);
        self.configuration.put(out);
        self.next_node_id.put(out);
        self.sequences.put(out);
        self.streams.put(out);
        self.streams_trimmed.put(out);
        let wish = if self.wish.is_some() { HAS_WISH } else { 0 };
        out.push(u8::from(self.current.is_some()) | wish);
        if let Some(current) = &self.current {
            current.put(out);
        }
        self.trimmed.put(out);
        if let Some(wish) = &self.wish {
            wish.put(out);
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<LogState, DecodeError> {
        let mut state = LogState {
            next: Slot::parse(from)?,
            era: Era::parse(from)?,
            era_start: Slot::parse(from)?,
            configuration: Configuration::parse(from)?,
            next_node_id: NodeId::parse(from)?,
            sequences: BTreeMap::parse(from)?,
            streams: Vec::parse(from)?,
            streams_trimmed: StreamsTrimmed::parse(from)?,
            current: None,
            trimmed: Slot(0),
            wish: None,
        };
        let follows = u8::parse(from)?;
        if follows > (1 | HAS_WISH) {
            return Err(DecodeError::Unknown {
                what: "part of a state",
                value: follows,
            });
        }
        if follows & 1 != 0 {
            state.current = Some(StreamName::parse(from)?);
        }
        state.trimmed = Slot::parse(from)?;
        if follows & HAS_WISH != 0 {
            state.wish = Some(Arc::new(Wish::parse(from)?));
        }
        Ok(state)
    }
}

/// The last byte of a wish that every program of its version reads.
const IS_SEALED: u8 = 1;
const HAS_MIN_COPIES: u8 = 2;

impl Encode for Wish {
    const BYTES_MIN: usize = 12 + 1 + 1 + 4 + 4 + 1;
    fn put(&self, out: &mut Vec<u8>) {
        self.number.put(out);
        self.max_bytes.put(out);
        self.max_age_s.put(out);
        self.weights.put(out);
        self.auxiliaries.put(out);
        let copies = u8::from(self.min_copies > 0) * HAS_MIN_COPIES;
        (u8::from(self.sealed) | copies).put(out);
        if self.min_copies > 0 {
            self.min_copies.put(out);
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<Wish, DecodeError> {
        let mut wish = Wish {
            number: WishNumber::parse(from)?,
            max_bytes: Option::parse(from)?,
            max_age_s: Option::parse(from)?,
            weights: Vec::parse(from)?,
            auxiliaries: Vec::parse(from)?,
            sealed: false,
            min_copies: 0,
        };
        let flags = u8::parse(from)?;
        wish.sealed = flags & IS_SEALED != 0;
        if flags & HAS_MIN_COPIES != 0 {
            wish.min_copies = u32::parse(from)?;
        }
        // One wish is written in one way.
        let says_none = flags & HAS_MIN_COPIES != 0 && wish.min_copies == 0;
        match wish.is_sound() && flags <= IS_SEALED | HAS_MIN_COPIES && !says_none {
            true => Ok(wish),
            false => Err(DecodeError::Invalid("a wish")),
        }
    }
}

/// Behind an act that says who wants it: a wish's number, or none of an operator's own.
fn put_by(by: By, out: &mut Vec<u8>) {
    match by {
        By::Unsaid => {} // its tag says so
        By::Hand => None::<WishNumber>.put(out),
        By::Wish(number) => Some(number).put(out),
    }
}

fn parse_by(from: &mut Reader<'_>) -> Result<By, DecodeError> {
    Ok(Option::parse(from)?.map_or(By::Hand, By::Wish))
}

impl Encode for bool {
    const BYTES_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn parse(from: &mut Reader<'_>) -> Result<bool, DecodeError> {
        match u8::parse(from)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Unknown {
                what: "truth value",
                value,
            }),
        }
    }
}

impl<T: Encode> Encode for Option<T> {
    const BYTES_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<Option<T>, DecodeError> {
        match bool::parse(from)? {
            false => Ok(None),
            true => Ok(Some(T::parse(from)?)),
        }
    }
}

impl<T: Encode> Encode for Vec<T> {
    const BYTES_MIN: usize = 4;
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        for value in self {
            value.put(out);
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<Vec<T>, DecodeError> {
        let count = from.count(T::BYTES_MIN)?;
        (0..count).map(|_| T::parse(from)).collect()
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    const BYTES_MIN: usize = A::BYTES_MIN + B::BYTES_MIN;
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<(A, B), DecodeError> {
        Ok((A::parse(from)?, B::parse(from)?))
    }
}

impl Encode for BTreeMap<NodeId, StreamSequence> {
    const BYTES_MIN: usize = 4;
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        for (node, sequence) in self {
            (*node, *sequence).put(out);
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let pairs = Vec::<(NodeId, StreamSequence)>::parse(from)?;
        if !pairs.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(DecodeError::Invalid("the order of owners"));
        }
        Ok(pairs.into_iter().collect())
    }
}

impl Encode for SlotRange {
    const BYTES_MIN: usize = 16;
    fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        self.end.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<SlotRange, DecodeError> {
        let range = SlotRange::new(Slot::parse(from)?, Slot::parse(from)?);
        if range.end < range.start {
            return Err(DecodeError::Invalid(
                "a range of slots that ends before it starts",
            ));
        }
        Ok(range)
    }
}

impl Encode for Configuration {
    const BYTES_MIN: usize = 4;
    fn put(&self, out: &mut Vec<u8>) {
        let members = self.members();
        (members.len() as u32).put(out);
        for member in members {
            member.node.put(out);
            member.weight.put(out);
            member.auxiliary.put(out);
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<Configuration, DecodeError> {
        let count = from.count(9)?;
        let mut members = Vec::with_capacity(count);
        for _ in 0..count {
            members.push(Member {
                node: NodeId::parse(from)?,
                weight: u32::parse(from)?,
                auxiliary: bool::parse(from)?,
            });
        }
        if !members.is_sorted_by(|a, b| a.node < b.node) {
            return Err(DecodeError::Invalid("the order of members"));
        }
        match members.is_empty() {
            // No member at all: the configuration of a log that this node knows nothing about yet.
            true => Ok(Configuration::default()),
            false => {
                Configuration::new(members).map_err(|_| DecodeError::Invalid("a configuration"))
            }
        }
    }
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    (text.len() as u32).put(out);
    out.extend_from_slice(text);
}

fn take_label(from: &mut Reader<'_>) -> Result<String, DecodeError> {
    let label = from.counted(LABEL_BYTES_MAX, "a label")?;
    String::from_utf8(label.to_vec()).map_err(|_| DecodeError::Invalid("a label that is not UTF-8"))
}

fn take_metadata(from: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    Ok(from.counted(METADATA_BYTES_MAX, "metadata")?.to_vec())
}

impl Encode for OpenStream {
    const BYTES_MIN: usize = 12 + 4 + 4 + 1;
    fn put(&self, out: &mut Vec<u8>) {
        self.stream.put(out);
        put_text(self.label.as_bytes(), out);
        put_text(&self.metadata, out);
        self.continues.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<OpenStream, DecodeError> {
        Ok(OpenStream {
            stream: StreamName::parse(from)?,
            label: take_label(from)?,
            metadata: take_metadata(from)?,
            continues: Option::parse(from)?,
        })
    }
}

/// Their bytes follow only if there are any streams.
impl Encode for StreamsTrimmed {
    const BYTES_MIN: usize = 8;
    fn put(&self, out: &mut Vec<u8>) {
        self.count.put(out);
        if self.count > 0 {
            self.bytes.put(out);
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<StreamsTrimmed, DecodeError> {
        let count = u64::parse(from)?;
        let bytes = match count {
            0 => 0,
            _ => u64::parse(from)?,
        };
        Ok(StreamsTrimmed { count, bytes })
    }
}

/// In the byte that says how a stream ended: its place in its chain follows.
const HAS_CHAIN: u8 = 0x80;

impl Encode for StreamState {
    const BYTES_MIN: usize = 12 + 4 + 4 + 1 + 1 + 8 + 8 + 8 + 1;
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        put_text(self.label.as_bytes(), out);
        put_text(&self.metadata, out);
        self.continues.put(out);
        self.continued_by.put(out);
        self.opened.put(out);
        self.length.put(out);
        self.trimmed.put(out);
        let end = match self.end {
            StreamEnd::Open => 0,
            StreamEnd::Closed => 1,
            StreamEnd::Cut => 2,
        };
        match &self.chain {
            None => out.push(end),
            Some((first, begins)) => {
                out.push(end | HAS_CHAIN);
                first.put(out);
                begins.put(out);
            }
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<StreamState, DecodeError> {
        let mut stream = StreamState {
            name: StreamName::parse(from)?,
            label: take_label(from)?,
            metadata: take_metadata(from)?,
            continues: Option::parse(from)?,
            chain: None,
            continued_by: Option::parse(from)?,
            opened: Slot::parse(from)?,
            length: StreamPosition::parse(from)?,
            trimmed: StreamPosition::parse(from)?,
            end: StreamEnd::Open,
        };
        let end = u8::parse(from)?;
        stream.end = match end & !HAS_CHAIN {
            0 => StreamEnd::Open,
            1 => StreamEnd::Closed,
            2 => StreamEnd::Cut,
            _ => {
                return Err(DecodeError::Unknown {
                    what: "stream end",
                    value: end,
                });
            }
        };
        if end & HAS_CHAIN != 0 {
            stream.chain = Some((StreamName::parse(from)?, StreamPosition::parse(from)?));
        }
        Ok(stream)
    }
}

impl Encode for Value {
    const BYTES_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::NoOp => out.push(0),
            Value::Content { stream, offset } => {
                out.push(1);
                stream.put(out);
                offset.put(out);
            }
            Value::Action(action) => {
                out.push(2);
                action.put(out);
            }
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<Value, DecodeError> {
        match u8::parse(from)? {
            0 => Ok(Value::NoOp),
            1 => Ok(Value::Content {
                stream: StreamName::parse(from)?,
                offset: Offset::parse(from)?,
            }),
            2 => Ok(Value::Action(Arc::new(Action::parse(from)?))),
            value => Err(DecodeError::Unknown {
                what: "value",
                value,
            }),
        }
    }
}

impl Encode for Action {
    const BYTES_MIN: usize = 1;
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Action::GenerateNodeId => out.push(1),
            Action::Reconfigure { from, change, by } => {
                out.push(if *by == By::Unsaid { 2 } else { 7 });
                from.put(out);
                change.put(out);
                put_by(*by, out);
            }
            Action::OpenStream(open) => {
                out.push(3);
                open.put(out);
            }
            Action::CloseStream { stream, at } => {
                out.push(4);
                stream.put(out);
                at.put(out);
            }
            Action::CutStream { stream, at } => {
                out.push(9);
                stream.put(out);
                at.put(out);
            }
            Action::Trim { before, by } => {
                out.push(if *by == By::Unsaid { 5 } else { 6 });
                before.put(out);
                put_by(*by, out);
            }
            Action::Wish(wish) => {
                out.push(8);
                wish.put(out);
            }
        }
    }
    fn parse(from: &mut Reader<'_>) -> Result<Action, DecodeError> {
        match u8::parse(from)? {
            1 => Ok(Action::GenerateNodeId),
            2 => Ok(Action::Reconfigure {
                from: Era::parse(from)?,
                change: Change::parse(from)?,
                by: By::Unsaid,
            }),
            3 => Ok(Action::OpenStream(OpenStream::parse(from)?)),
            4 => Ok(Action::CloseStream {
                stream: StreamName::parse(from)?,
                at: StreamPosition::parse(from)?,
            }),
            5 => Ok(Action::Trim {
                before: Slot::parse(from)?,
                by: By::Unsaid,
            }),
            6 => Ok(Action::Trim {
                before: Slot::parse(from)?,
                by: parse_by(from)?,
            }),
            7 => Ok(Action::Reconfigure {
                from: Era::parse(from)?,
                change: Change::parse(from)?,
                by: parse_by(from)?,
            }),
            8 => Ok(Action::Wish(Arc::new(Wish::parse(from)?))),
            9 => Ok(Action::CutStream {
                stream: StreamName::parse(from)?,
                at: StreamPosition::parse(from)?,
            }),
            unknown => Err(DecodeError::UnknownAction(unknown)),
        }
    }
}

impl Encode for Change {
    const BYTES_MIN: usize = 5;
    fn put(&self, out: &mut Vec<u8>) {
        let (tag, operand) = match *self {
            Change::Increment(node) => (1, node.0),
            Change::Decrement(node) => (2, node.0),
            Change::Multiply(factor) => (3, factor),
            Change::Divide(factor) => (4, factor),
            Change::MarkAuxiliary(node) => (5, node.0),
            Change::UnmarkAuxiliary(node) => (6, node.0),
        };
        out.push(tag);
        operand.put(out);
    }
    fn parse(from: &mut Reader<'_>) -> Result<Change, DecodeError> {
        let tag = u8::parse(from)?;
        let operand = u32::parse(from)?;
        Ok(match tag {
            1 => Change::Increment(NodeId(operand)),
            2 => Change::Decrement(NodeId(operand)),
            3 => Change::Multiply(operand),
            4 => Change::Divide(operand),
            5 => Change::MarkAuxiliary(NodeId(operand)),
            6 => Change::UnmarkAuxiliary(NodeId(operand)),
            value => {
                return Err(DecodeError::Unknown {
                    what: "change",
                    value,
                });
            }
        })
    }
}
