//! Commands inside a log: frames of a replicated state machine, as bytes of a stream.
//!
//! The leader appends frames to a stream of its own; every replica reads chosen bytes and applies
//! whole frames in order. A torn last frame at the end of a stream is dropped, everywhere alike: it
//! was never acknowledged.
//!
//! ```text
//! frame = length u32 LE | crc32c of the command u32 LE | command
//! ```

const FRAME_HEADER: usize = 8;
/// Larger than any command; a greater length is damage, not data.
pub const COMMAND_BYTES_MAX: usize = 16 << 20;

pub fn encode(command: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(FRAME_HEADER + command.len());
    frame.extend_from_slice(&(command.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32c::crc32c(command).to_le_bytes());
    frame.extend_from_slice(command);
    frame
}

/// Cuts chosen bytes into commands.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    broken: bool,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        if !self.broken {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// The next whole command. A frame that is no frame ends its stream: what follows it in the
    /// stream is ignored by every replica alike.
    pub fn next_command(&mut self) -> Option<Vec<u8>> {
        if self.broken || self.buffer.len() < FRAME_HEADER {
            return None;
        }
        let word = |at: usize| {
            u32::from_le_bytes([
                self.buffer[at],
                self.buffer[at + 1],
                self.buffer[at + 2],
                self.buffer[at + 3],
            ])
        };
        let (length, crc) = (word(0) as usize, word(4));
        if length > COMMAND_BYTES_MAX {
            self.broken = true;
            return None;
        }
        if self.buffer.len() < FRAME_HEADER + length {
            return None;
        }
        let command: Vec<u8> = self
            .buffer
            .drain(..FRAME_HEADER + length)
            .skip(FRAME_HEADER)
            .collect();
        if crc32c::crc32c(&command) != crc {
            self.broken = true;
            self.buffer.clear();
            return None;
        }
        Some(command)
    }

    /// The stream ended: a torn frame at its end is dropped.
    pub fn end_of_stream(&mut self) {
        self.buffer.clear();
        self.broken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_torn_frame_at_the_end_of_a_stream_is_dropped() {
        let mut decoder = Decoder::default();
        decoder.push(&encode(b"one"));
        decoder.push(&encode(b"two")[..9]);
        assert_eq!(decoder.next_command().as_deref(), Some(&b"one"[..]));
        assert_eq!(decoder.next_command(), None);
        decoder.end_of_stream();
        decoder.push(&encode(b"three"));
        assert_eq!(decoder.next_command().as_deref(), Some(&b"three"[..]));
    }

    #[test]
    fn a_damaged_frame_silences_the_rest_of_its_stream_only() {
        let mut decoder = Decoder::default();
        let mut frame = encode(b"one");
        frame[9] ^= 1;
        decoder.push(&frame);
        decoder.push(&encode(b"two"));
        assert_eq!(decoder.next_command(), None);
        assert_eq!(decoder.next_command(), None);
        decoder.end_of_stream();
        decoder.push(&encode(b"three"));
        assert_eq!(decoder.next_command().as_deref(), Some(&b"three"[..]));
    }

    proptest! {
        #[test]
        fn commands_do_not_depend_on_how_bytes_are_cut(
            commands in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..10),
            cut in 1usize..17,
        ) {
            let bytes: Vec<u8> = commands.iter().flat_map(|c| encode(c)).collect();
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(cut) {
                decoder.push(piece);
                while let Some(command) = decoder.next_command() {
                    got.push(command);
                }
            }
            prop_assert_eq!(got, commands);
        }
    }
}
