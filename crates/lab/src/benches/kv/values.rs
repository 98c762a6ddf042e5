//! Keys and their values, which tell themselves which they are: so a value that is read can be told from a wrong one.

/// The bytes of a key.
pub const KEY_BYTES: usize = 16;
/// The key's number and the version before all else that a value has.
pub const HEAD_BYTES: usize = 8;

/// A value's body begins at one of so many places of the pool.
const PLACES: usize = 1 << 16;

/// The name of a key, always equally long.
pub fn name_of(key: u32) -> [u8; KEY_BYTES] {
    let mut name = *b"key:000000000000";
    let mut left = key;
    for digit in name.iter_mut().rev().take(10) {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    name
}

/// All values that are ever written: of one size, and each other than all others.
pub struct Values {
    bytes: usize,
    pool: Vec<u8>,
}

impl Values {
    /// `bytes`: of a value, at least [`HEAD_BYTES`].
    pub fn new(bytes: usize) -> Values {
        let mut drawn = 0x9e37_79b9_7f4a_7c15_u64;
        // Half of it compresses, as text does.
        let pool = (0..PLACES + bytes).map(|at| {
            drawn = drawn
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            match at % 2 {
                0 => (drawn >> 40) as u8,
                _ => b'v',
            }
        });
        Values {
            bytes,
            pool: pool.collect(),
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes a value behind what `out` has.
    pub fn write(&self, key: u32, version: u32, out: &mut Vec<u8>) {
        out.extend_from_slice(&key.to_le_bytes());
        out.extend_from_slice(&version.to_le_bytes());
        out.extend_from_slice(self.body(key, version));
    }

    /// The version of a value that was read under this key. `None`: such a value was never written there.
    pub fn version_of(&self, key: u32, value: &[u8]) -> Option<u32> {
        let (written, rest) = value.split_first_chunk()?;
        let (version, body) = rest.split_first_chunk()?;
        let version = u32::from_le_bytes(*version);
        let fits = u32::from_le_bytes(*written) == key && body == self.body(key, version);
        fits.then_some(version)
    }

    fn body(&self, key: u32, version: u32) -> &[u8] {
        let both = u64::from(key) << 32 | u64::from(version);
        let place = (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
        &self.pool[place..place + self.bytes - HEAD_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_as_many_digits_as_any_other() {
        assert_eq!(&name_of(0), b"key:000000000000");
        assert_eq!(&name_of(4_294_967_295), b"key:004294967295");
    }

    #[test]
    fn a_value_tells_its_version_and_a_wrong_one_tells_none() {
        let values = Values::new(64);
        let mut value = Vec::new();
        values.write(7, 3, &mut value);
        assert_eq!(value.len(), 64);
        assert_eq!(values.version_of(7, &value), Some(3));
        assert_eq!(values.version_of(8, &value), None, "another key's");
        assert_eq!(values.version_of(7, &value[..63]), None, "a part");
        value[40] ^= 1;
        assert_eq!(values.version_of(7, &value), None, "damaged");
    }
}
