//! Commands of the directory: every replica cuts and applies the same, however the bytes came.

use commands::{Broken, Decoder, Frame, Replica, SessionBounds, StateMachine, Torn, encode};
use node::directory::{Command, Directory, configuration};

const HEADER_BYTES: usize = 8;

/// `bytes`: how to cut, then a stream of the directory. It is tried as it is, and cut at its line
/// feeds into whole commands.
pub fn check(bytes: &[u8]) {
    let Some((cut, stream)) = bytes.split_first() else {
        return;
    };
    let cut = 1 + *cut as usize;
    check_stream(stream, cut);
    let framed: Vec<u8> = stream
        .split(|byte| *byte == b'\n')
        .flat_map(|command| encode(command).expect("it is a part of a small input"))
        .collect();
    check_stream(&framed, cut);
}

fn check_stream(stream: &[u8], cut: usize) {
    let decoded = decode([stream].into_iter());
    assert_eq!(decode(stream.chunks(cut)), decoded, "cut every {cut}");
    let (commands, _) = decoded;
    let length: usize = commands
        .iter()
        .map(|command| HEADER_BYTES + command.len())
        .sum();
    assert!(length <= stream.len(), "commands out of nothing");
    let mut replica = Replica::new(Directory::default(), SessionBounds::default());
    replica.push(stream);
    let halted = loop {
        match replica.apply_next() {
            Ok(Some(_)) => {}
            Ok(None) => break None,
            Err(halted) => break Some(halted),
        }
    };
    assert_eq!(replica.halted(), halted.as_ref());
    let mut restored = Directory::default();
    let (mut at, mut snapshot) = Default::default();
    while StateMachine::snapshot(&*replica, &mut at, &mut snapshot) {}
    restored.restored(snapshot).expect("it was just made");
    assert_eq!(restored, *replica, "a snapshot is the whole state");
    let mut directory = Directory::default();
    for command in &commands {
        if let Ok(command) = serde_json::from_slice::<Command>(command) {
            apply(&mut directory, &command);
        }
    }
}

/// The end of a stream.
#[derive(Debug, PartialEq)]
enum End {
    Whole,
    Torn(Torn),
    Broken(Broken),
}

/// The commands among the frames.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Vec<u8>>, End) {
    let mut decoder = Decoder::default();
    let mut commands = Vec::new();
    let mut broken = None;
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(Frame::Command(command))) => {
                    assert_eq!(broken, None, "a command after damage");
                    commands.push(command.to_vec());
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(why) => {
                    assert_eq!(*broken.get_or_insert(why), why);
                    break;
                }
            }
        }
    }
    let torn = decoder.end_of_stream();
    let next = encode(b"next").expect("it is small");
    decoder.push(&next);
    let end = match (broken, torn) {
        (Some(broken), torn) => {
            assert_eq!(torn, None);
            assert_eq!(decoder.next_frame(), Err(broken), "damage is forgotten");
            return (commands, End::Broken(broken));
        }
        (None, Some(torn)) => End::Torn(torn),
        (None, None) => End::Whole,
    };
    // A stream that ended within a frame says nothing of the next one.
    assert_eq!(decoder.next_frame(), Ok(Some(Frame::Command(b"next"))));
    (commands, end)
}

fn apply(directory: &mut Directory, command: &Command) {
    let before = directory.clone();
    directory.apply(command);
    let once = directory.clone();
    directory.apply(command);
    assert_eq!(*directory, once, "{command:?} applied twice");
    assert!(once.logs.len() <= before.logs.len() + 1);
    for (id, log) in &once.logs {
        let named = once.log_by_name(&log.name);
        let named = named.or_else(|| once.sealing_by_name(&log.name));
        assert_eq!(named, Some(*id), "two logs of a name");
        // A configuration that cannot be is an error, and no panic.
        let _ = configuration(&log.members, &log.auxiliary);
    }
    for (id, node) in &before.nodes {
        assert_eq!(once.nodes[id].disk, node.disk, "a node keeps its disk");
    }
}
