//! Files with peers' addresses: the part that is taken of one can be written and read again, whatever stands there.

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
