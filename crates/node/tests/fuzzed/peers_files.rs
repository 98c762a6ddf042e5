//! Files with peers' addresses: whatever stands there, what is taken of it can be written and read again.

use node::peers_file::{BYTES_MAX, read, write};

pub fn check(bytes: &[u8]) {
    let (known, trouble) = read(bytes);
    if let Some(trouble) = trouble {
        assert!(!trouble.to_string().is_empty());
    }
    let written = write(known.iter().map(|(id, address)| (*id, address)));
    assert!(written.len() <= BYTES_MAX);
    assert_eq!(read(&written), (known, None));
}
