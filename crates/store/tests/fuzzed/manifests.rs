//! Manifests: one that is taken comes back the same, and nothing else passes for one.

use std::path::Path;

use formats::Speaks;
use store::{Manifest, ManifestError};

/// `bytes`: a manifest, tried as it is and, as the part below the first line, with that line made
/// to fit.
pub fn check(bytes: &[u8]) {
    check_manifest(bytes);
    check_manifest(&sealed(bytes));
    if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        check_manifest(&sealed(&bytes[end + 1..]));
    }
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&1u32.to_le_bytes()), body);
    let first = format!("logberg-manifest 1 crc32c={checksum:08x}\n");
    [first.as_bytes(), body].concat()
}

fn check_manifest(bytes: &[u8]) {
    let path = Path::new("manifest");
    match Manifest::parse(Speaks::THIS, bytes, path) {
        Ok(manifest) => {
            let again = Manifest::parse(Speaks::THIS, &manifest.encode(), path);
            assert_eq!(again.expect("our own manifest"), manifest);
            let mut damaged = bytes.to_vec();
            *damaged.last_mut().expect("it has a body") ^= 1;
            let damaged = Manifest::parse(Speaks::THIS, &damaged, path);
            assert!(matches!(damaged, Err(ManifestError::Damaged { .. })));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
