//! The rows of the machine, and the machine.

use embed::{Machine, State, Stop};

/// The bytes of a key.
pub const KEY_BYTES: u64 = 16;

/// A machine that puts the rows which a command holds.
///
/// A command is the length of the values (4 bytes, little-endian), and each row's key and value behind it.
pub struct Puts;

impl Machine for Puts {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let none = || Stop::refused("a command is a length and rows");
        let (length, rows) = command.split_first_chunk().ok_or_else(none)?;
        let row_bytes = KEY_BYTES as usize + u32::from_le_bytes(*length) as usize;
        let rows = rows.chunks_exact(row_bytes);
        if !rows.remainder().is_empty() {
            return Err(none());
        }
        for row in rows {
            let (key, value) = row.split_at(KEY_BYTES as usize);
            state.put(key, value)?;
        }
        Ok(Vec::new())
    }
}

/// How many rows there are, and of which size.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    pub count: u64,
    pub value_bytes: u32,
}

impl Rows {
    /// The rows that come to so many bytes of keys and values.
    pub fn of_bytes(bytes: u64, value_bytes: u32) -> Rows {
        Rows {
            count: (bytes / (KEY_BYTES + u64::from(value_bytes))).max(1),
            value_bytes,
        }
    }

    pub fn bytes(self) -> u64 {
        self.count * (KEY_BYTES + u64::from(self.value_bytes))
    }

    pub fn key(number: u64) -> Vec<u8> {
        format!("{:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)).into_bytes()
    }

    /// The command that writes these rows. Neighbours lie far apart in the order of the keys.
    pub fn command(self, from: u64, to: u64) -> Vec<u8> {
        let mut command = self.value_bytes.to_le_bytes().to_vec();
        for number in from..to {
            let mut drawn = number;
            command.extend(Rows::key(number));
            // Half of it compresses, as text does.
            command.extend((0..self.value_bytes).map(|at| {
                drawn = drawn
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                match at % 2 {
                    0 => (drawn >> 40) as u8,
                    _ => b'v',
                }
            }));
        }
        command
    }

    /// The command that writes one of all rows, drawn by the number of the call.
    pub fn drawn(self, call: u64) -> Vec<u8> {
        let drawn = call.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let row = (drawn ^ (drawn >> 31)) % self.count;
        self.command(row, row + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_holds_its_rows_whole() {
        let rows = Rows::of_bytes(1_000_000, 256);
        assert_eq!(rows.bytes() / 1_000, 999);
        assert_eq!(rows.command(3, 5).len(), 4 + 2 * 272);
        assert_eq!(rows.command(3, 4), rows.command(3, 5)[..4 + 272]);
        assert_eq!(rows.drawn(7).len(), 4 + 272);
    }
}
