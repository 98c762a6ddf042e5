//! Several strings in one value: each behind its length.
//!
//! A length is a number of 7 bits a byte, the low ones first, the eighth bit saying that more follow.

pub(crate) fn push(bytes: &mut Vec<u8>, item: &[u8]) {
    let mut left = item.len();
    while left >= 0x80 {
        bytes.push((left & 0x7f) as u8 | 0x80);
        left >>= 7;
    }
    bytes.push(left as u8);
    bytes.extend_from_slice(item);
}

/// The strings; what is damaged, and all behind it, is none.
pub(crate) fn items(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (item, after) = first(rest)?;
        rest = after;
        Some(item)
    })
}

fn first(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut length = 0;
    for (index, byte) in bytes.iter().enumerate().take(8) {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return bytes.get(index + 1..)?.split_at_checked(length);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_as_they_were_packed() {
        let strings: [&[u8]; 4] = [b"", b"a", &[7; 127], &[8; 20_000]];
        let mut bytes = Vec::new();
        for string in strings {
            push(&mut bytes, string);
        }
        assert_eq!(items(&bytes).collect::<Vec<_>>(), strings);
        bytes.pop();
        assert_eq!(items(&bytes).count(), 3);
        assert_eq!(items(&[0xff; 20]).count(), 0);
    }
}
