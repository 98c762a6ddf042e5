//! From a socket through a file to a socket.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use splice::{Part, Pipe, TransferError};

const LENGTH: usize = 256 << 10;

fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    far.set_nonblocking(true).unwrap();
    (near, far)
}

fn file(length: u64) -> Arc<File> {
    let file = tempfile::tempfile().unwrap();
    file.set_len(length).unwrap();
    Arc::new(file)
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| ((i * 31 + seed) % 251) as u8).collect()
}

/// Receives all of the range, however it comes.
fn receive(part: &mut Part, socket: &TcpStream, pipe: &mut Pipe, from: usize, count: usize) {
    let mut got = 0;
    while got < count {
        match part.receive(socket, pipe, from + got..from + count) {
            Ok(0) => panic!("the stream ended after {got}"),
            Ok(more) => got += more,
            Err(TransferError::Socket(errno)) if errno == rustix::io::Errno::AGAIN => {
                std::thread::yield_now();
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[test]
fn what_is_received_is_in_the_file_and_in_memory_and_goes_out_again() {
    let (mut near, far) = connected();
    let file = file(1 << 20);
    let offset = 8192;
    let mut part = Part::new(file.clone(), offset, LENGTH).unwrap();
    let mut pipe = Pipe::new().unwrap();
    let sent = pattern(LENGTH - 192, 7);
    let copy = sent.clone();
    let writer = std::thread::spawn(move || {
        near.write_all(&copy).unwrap();
        near
    });
    receive(&mut part, &far, &mut pipe, 192, sent.len());
    let mut near = writer.join().unwrap();
    assert!(part.bytes()[192..] == sent, "in memory");
    let mut there = vec![0; sent.len()];
    file.read_exact_at(&mut there, offset + 192).unwrap();
    assert!(there == sent, "in the file");

    // Out again, with changes of the process in the first page, which are not the file's.
    part.bytes_mut(0..192).fill(9);
    let reader = std::thread::spawn(move || {
        let mut back = vec![0; LENGTH - 192];
        near.read_exact(&mut back).unwrap();
        back
    });
    let mut out = 192;
    while out < LENGTH {
        match part.send(&far, out..LENGTH) {
            Ok(count) => out += count,
            Err(errno) if errno == rustix::io::Errno::AGAIN => std::thread::yield_now(),
            Err(errno) => panic!("{errno}"),
        }
    }
    assert!(reader.join().unwrap() == sent, "at the other end");
    let mut first = [1; 192];
    file.read_exact_at(&mut first, offset).unwrap();
    assert_eq!(first, [0; 192], "the file has no change of the process");
    assert_eq!(part.bytes()[..192], [9; 192]);
}

#[test]
fn the_end_of_a_stream_and_an_empty_socket_are_told_apart() {
    let (near, far) = connected();
    let mut part = Part::new(file(LENGTH as u64), 0, LENGTH).unwrap();
    let mut pipe = Pipe::new().unwrap();
    let empty = part.receive(&far, &mut pipe, 0..LENGTH);
    assert!(
        matches!(empty, Err(TransferError::Socket(errno)) if errno == rustix::io::Errno::AGAIN),
        "{empty:?}"
    );
    drop(near);
    let mut end = part.receive(&far, &mut pipe, 0..LENGTH);
    while matches!(&end, Err(TransferError::Socket(errno)) if *errno == rustix::io::Errno::AGAIN) {
        end = part.receive(&far, &mut pipe, 0..LENGTH);
    }
    assert_eq!(end.unwrap(), 0);
}

#[test]
fn a_file_that_cannot_be_written_fails_the_transfer_and_leaves_the_pipe_empty() {
    let (mut near, far) = connected();
    let mut pipe = Pipe::new().unwrap();
    let mut writable = Part::new(file(LENGTH as u64), 0, LENGTH).unwrap();
    let path = tempfile::NamedTempFile::new().unwrap();
    path.as_file().set_len(LENGTH as u64).unwrap();
    let read_only = Arc::new(File::open(path.path()).unwrap());
    let mut refused = Part::new(read_only, 0, LENGTH).unwrap();
    near.write_all(&pattern(5000, 1)).unwrap();
    let mut failed = refused.receive(&far, &mut pipe, 0..LENGTH);
    while matches!(&failed, Err(TransferError::Socket(_))) {
        failed = refused.receive(&far, &mut pipe, 0..LENGTH);
    }
    assert!(matches!(failed, Err(TransferError::File(_))), "{failed:?}");
    near.write_all(&pattern(3000, 2)).unwrap();
    receive(&mut writable, &far, &mut pipe, 0, 3000);
    assert!(
        writable.bytes()[..3000] == pattern(3000, 2),
        "nothing of the failed transfer is left in the pipe"
    );
}

#[test]
fn a_part_behind_the_end_cannot_be_loaded_and_that_is_an_error() {
    let part = Part::new(file(4096), 0, LENGTH).unwrap();
    part.load(0..4096).unwrap();
    assert!(part.load(0..LENGTH).is_err());
    assert!(part.send(connected().1, 8192..16384).is_err());
}
