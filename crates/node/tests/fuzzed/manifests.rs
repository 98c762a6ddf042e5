//! Manifests: what is taken comes back the same, and nothing else passes for one.

use std::path::Path;

use node::store::{Manifest, ManifestError};

/// `bytes`: a manifest, tried as it is and, as the part below the first line, with that line made
/// to fit.
pub fn check(bytes: &[u8]) {
    check_manifest(bytes);
    let first = format!("logberg-manifest 2 crc32c={:08x}\n", crc32c::crc32c(bytes));
    check_manifest(&[first.as_bytes(), bytes].concat());
    if let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
        let body = &bytes[end + 1..];
        let first = format!("logberg-manifest 2 crc32c={:08x}\n", crc32c::crc32c(body));
        check_manifest(&[first.as_bytes(), body].concat());
    }
}

fn check_manifest(bytes: &[u8]) {
    let path = Path::new("manifest");
    match Manifest::parse(bytes, path) {
        Ok(manifest) => {
            let again = Manifest::parse(&manifest.encode(), path);
            assert_eq!(again.expect("our own manifest"), manifest);
            let mut damaged = bytes.to_vec();
            *damaged.last_mut().expect("it has a body") ^= 1;
            let damaged = Manifest::parse(&damaged, path);
            assert!(matches!(damaged, Err(ManifestError::Damaged { .. })));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
