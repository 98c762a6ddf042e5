//! Messages as bytes: what a node gave to one send, and of which connection it is.

use ops::{ConnId, Slice};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// A word on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A node dials; the bytes are its address, and `conn` is its own number of the connection.
    Dial = 0,
    Bytes = 1,
    /// No more bytes follow.
    End = 2,
    /// Nobody reads any more.
    Left = 3,
    /// That was no end.
    Reset = 4,
}

/// One message. Streams need neither the connection nor the number.
#[derive(Debug)]
pub struct Message {
    pub kind: Kind,
    /// The hearer's number of the connection.
    pub conn: ConnId,
    /// Calls overtake each other: which of the connection's messages it is, from 0.
    pub number: u64,
    pub slices: Vec<Slice>,
}

const HEAD: usize = 17;

impl Message {
    pub fn new(kind: Kind, conn: ConnId, number: u64, slices: Vec<Slice>) -> Message {
        Message {
            kind,
            conn,
            number,
            slices,
        }
    }

    /// Its bytes as text.
    pub fn text(&self) -> String {
        let parts: Vec<&[u8]> = self.slices.iter().map(|slice| &**slice).collect();
        String::from_utf8_lossy(&parts.concat()).into_owned()
    }

    pub fn bytes(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }
}

/// Messages both ways.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Codec for Plain {
    type Encode = Message;
    type Decode = Message;
    type Encoder = Plain;
    type Decoder = Plain;

    fn encoder(&mut self) -> Plain {
        Plain
    }

    fn decoder(&mut self) -> Plain {
        Plain
    }
}

impl Encoder for Plain {
    type Item = Message;
    type Error = Status;

    fn encode(&mut self, message: Message, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        use bytes::BufMut;
        into.reserve(HEAD + message.bytes());
        into.put_u8(message.kind as u8);
        into.put_u64_le(message.conn.0);
        into.put_u64_le(message.number);
        for slice in &message.slices {
            into.put_slice(slice);
        }
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Message;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Message>, Status> {
        use bytes::Buf;
        let wrong =
            || Status::invalid_argument("a message begins with 17 bytes that say what it is");
        if from.remaining() < HEAD {
            return Err(wrong());
        }
        let kind = match from.get_u8() {
            0 => Kind::Dial,
            1 => Kind::Bytes,
            2 => Kind::End,
            3 => Kind::Left,
            4 => Kind::Reset,
            _ => return Err(wrong()),
        };
        let (conn, number) = (ConnId(from.get_u64_le()), from.get_u64_le());
        let mut bytes = vec![0; from.remaining()];
        from.copy_to_slice(&mut bytes);
        let slices = match bytes.is_empty() {
            true => Vec::new(),
            false => vec![Slice::from_vec(bytes)],
        };
        Ok(Some(Message::new(kind, conn, number, slices)))
    }
}
