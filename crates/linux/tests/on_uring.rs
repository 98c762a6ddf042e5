//! The same tests with io_uring; where that is forbidden, `auto` has them run as they do without.

#![allow(
    clippy::duplicate_mod,
    reason = "each of the others has the harness as a module of its own"
)]

#[path = "files.rs"]
mod files;
#[path = "idle.rs"]
mod idle;
#[path = "sockets.rs"]
mod sockets;
#[path = "stress.rs"]
mod stress;

use std::io::ErrorKind;

use linux::{Faults, Kernel, KernelConfig, Mover};

fn refused(mover: Mover) -> KernelConfig {
    KernelConfig {
        mover,
        signals: false,
        faults: Faults {
            refuse_uring: true,
            ..Faults::default()
        },
        ..KernelConfig::default()
    }
}

#[test]
fn auto_goes_without_a_ring_where_it_is_refused_and_says_so() {
    let kernel = Kernel::new(refused(Mover::Auto)).unwrap();
    assert!(
        kernel.mover().starts_with("direct: io_uring is forbidden"),
        "{}",
        kernel.mover()
    );
}

#[test]
fn a_ring_that_was_asked_for_and_is_refused_is_an_error() {
    let error = Kernel::new(refused(Mover::Uring)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("--mover direct"), "{error}");
}
