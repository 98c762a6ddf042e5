//! Commands of the directory: every replica cuts and applies the same, however the bytes came.

use commands::{Decoder, Frame, Replica, SessionBounds, StateMachine, encode};
use node::directory::{Command, Directory, configuration};

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
        .flat_map(encode)
        .collect();
    check_stream(&framed, cut);
}

fn check_stream(stream: &[u8], cut: usize) {
    let commands = decode([stream].into_iter());
    assert_eq!(decode(stream.chunks(cut)), commands, "cut every {cut}");
    let length: usize = commands.iter().map(|command| encode(command).len()).sum();
    assert!(length <= stream.len(), "commands out of nothing");
    let mut replica = Replica::new(Directory::default(), SessionBounds::default());
    replica.push(stream);
    while replica.apply_next().is_some() {}
    let mut restored = Directory::default();
    let snapshot = StateMachine::snapshot(&*replica);
    restored.restore(&snapshot).expect("it was just made");
    assert_eq!(restored, *replica, "a snapshot is the whole state");
    let mut directory = Directory::default();
    for command in &commands {
        if let Ok(command) = serde_json::from_slice::<Command>(command) {
            apply(&mut directory, &command);
        }
    }
}

/// The commands among the frames.
fn decode<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::default();
    let mut commands = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        let frames = std::iter::from_fn(|| decoder.next_frame());
        commands.extend(frames.filter_map(|frame| match frame {
            Frame::Command(command) => Some(command),
            _ => None,
        }));
    }
    // Whatever this stream was, the next one starts afresh.
    decoder.end_of_stream();
    decoder.push(&encode(b"next"));
    assert_eq!(decoder.next_frame(), Some(Frame::Command(b"next".to_vec())));
    commands
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
