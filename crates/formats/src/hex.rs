//! Bytes as two digits each.

use std::fmt::Write;

/// In small letters.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut s, b| {
        let _ = write!(s, "{b:02x}");
        s
    })
}

/// The inverse for 16 bytes, with or without the hyphens of a UUID.
pub fn parse_hex16(text: &str) -> Option<[u8; 16]> {
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    let mut bytes = [0; 16];
    for byte in &mut bytes {
        *byte = hex_byte([digits.next()?, digits.next()?])?;
    }
    digits.next().is_none().then_some(bytes)
}

/// The inverse for so many bytes.
pub fn parse_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut digits = text.bytes();
    let mut bytes = [0; N];
    for byte in &mut bytes {
        *byte = hex_byte([digits.next()?, digits.next()?])?;
    }
    digits.next().is_none().then_some(bytes)
}

/// Two digits and nothing else (`from_str_radix` would take a sign).
pub fn hex_byte(digits: [u8; 2]) -> Option<u8> {
    let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
    u8::try_from(high? << 4 | low?).ok()
}
