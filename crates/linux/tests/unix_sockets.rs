//! Unix sockets through the real kernel: who may be connected, whose file it is, and when it goes.

mod harness;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use harness::{Harness, pattern};
use linux::UnixAddress;

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn named(path: &Path) -> String {
    format!("unix:{}", path.display())
}

#[test]
fn bytes_go_there_and_back_over_a_path() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let mut h = Harness::new();
    assert_eq!(h.kernel.bind_also(&named(&path)).unwrap(), None);
    assert_eq!(mode(&path), 0o600);
    // Nobody is accepted before the machine listens; then it is found there too.
    let mut far = UnixStream::connect(&path).unwrap();
    h.listen();
    let near = h.accepted();
    far.write_all(b"hello").unwrap();
    assert_eq!(h.receive(near, 5, true).0, b"hello");
    let much = pattern(1, 3 << 20);
    h.send(near, &much);
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; 3 << 20];
        far.read_exact(&mut all).unwrap();
        (far, all)
    });
    h.sent(near).unwrap();
    let (far, all) = reader.join().unwrap();
    assert!(all == much);
    drop(far);
    let (bytes, result) = h.receive(near, 100, false);
    assert!(bytes.is_empty() && result.unwrap().end);
    drop(h);
    assert!(!path.exists(), "the file goes with its kernel");
}

#[test]
fn the_socket_of_ones_own_answers_root_and_its_own_user() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("own");
    let mut h = Harness::new();
    h.kernel
        .bind_own(&UnixAddress::new(&path).unwrap())
        .unwrap();
    h.listen();
    let mut far = UnixStream::connect(&path).unwrap();
    let near = h.accepted();
    far.write_all(b"x").unwrap();
    assert_eq!(h.receive(near, 1, true).0, b"x");
}

#[test]
fn a_file_is_taken_over_from_the_dead_and_from_nobody_else() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("s");
    let bind = |path: &Path| {
        let mut h = Harness::new();
        let bound = h.kernel.bind_also(&format!("{}?mode=0666", named(path)));
        bound.map(|_| h)
    };
    // The file that a killed process leaves.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let living = bind(&path).unwrap();
    assert_eq!(mode(&path), 0o666);
    let refused = bind(&path).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::AddrInUse);
    assert!(refused.to_string().contains("a living process listens on"));
    assert!(path.exists(), "the refused one leaves it");

    // Another process' file at the same path is not ours to remove.
    fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    drop(living);
    assert!(fs::metadata(&path).unwrap().file_type().is_socket());
    drop(other);

    let file = place.path().join("file");
    fs::write(&file, "mine").unwrap();
    let refused = bind(&file).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    assert!(bind(&place.path().join("no/such/place")).is_err());
    assert!(bind(&place.path().join("a".repeat(200))).is_err());
}

#[test]
fn one_path_is_not_taken_twice_and_more_addresses_are_heard() {
    let place = tempfile::tempdir().unwrap();
    let mut h = Harness::new();
    for name in ["a", "b"] {
        h.kernel
            .bind_also(&named(&place.path().join(name)))
            .unwrap();
    }
    let again = h.kernel.bind_also(&named(&place.path().join("a")));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrInUse);
    let more = h.kernel.bind_also("127.0.0.2:0").unwrap().unwrap();
    let first = h.listen();
    assert_ne!(first, more);
    let _a = UnixStream::connect(place.path().join("a")).unwrap();
    h.accepted();
    let _b = UnixStream::connect(place.path().join("b")).unwrap();
    h.accepted();
    let _c = std::net::TcpStream::connect(more).unwrap();
    h.accepted();
    let _d = std::net::TcpStream::connect(first).unwrap();
    h.accepted();
}
