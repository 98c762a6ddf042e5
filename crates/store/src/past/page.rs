//! A small file of this node's: a line that says what it is, and JSON behind it.
//!
//! ```text
//! logberg-NAME 1 crc32c=xxxxxxxx LF      of the rest of the file
//! { … } LF
//! ```

use std::io;
use std::path::Path;

use formats::LogId;
use formats::past::End;
use ops::Disk;
use paxos::{Era, NodeId, PromisedTerm, Slot, Term};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// ⟨log, era, number, owner, slot⟩
pub(super) type PageEnd = (u32, u32, u32, u32, u64);

/// A longer file is no node's: `met` has some fifty bytes for each log of each peer.
const BYTES_MAX: usize = 512 << 20;
const PIECE: usize = 64 << 10;

pub(super) fn page_end(log: LogId, end: &End) -> PageEnd {
    let Term { era, number, owner } = end.promised.0;
    (log.0, era.0, number, owner.0, end.accepted_up_to.0)
}

pub(super) fn end((log, era, number, owner, slot): PageEnd) -> (LogId, End) {
    let term = Term {
        era: Era(era),
        number,
        owner: NodeId(owner),
    };
    let end = End {
        promised: PromisedTerm(term),
        accepted_up_to: Slot(slot),
    };
    (LogId(log), end)
}

pub(super) fn encode<T: Serialize>(name: &str, page: &T) -> Vec<u8> {
    let mut body = serde_json::to_vec(page).expect("numbers and text are always JSON");
    body.push(b'\n');
    let checksum = crc32c::crc32c(&body);
    let mut contents = format!("logberg-{name} 1 crc32c={checksum:08x}\n").into_bytes();
    contents.append(&mut body);
    contents
}

/// The inverse, or the reason why the file is not one.
pub(super) fn parse<T: DeserializeOwned>(name: &str, contents: &[u8]) -> Result<T, String> {
    let end = contents.iter().position(|byte| *byte == b'\n');
    let end = end.ok_or("it has no first line")?;
    let (first, body) = contents.split_at(end + 1);
    let expected = format!("logberg-{name} 1 crc32c={:08x}\n", crc32c::crc32c(body));
    if first != expected.as_bytes() {
        return Err("its first line or its checksum is wrong".to_owned());
    }
    serde_json::from_slice(body).map_err(|error| error.to_string())
}

/// Reads a file. `None` if it is not there.
pub(super) fn read(disk: &mut dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut contents = Vec::new();
    loop {
        let start = contents.len();
        contents.resize(start + PIECE, 0);
        let count = match disk.read_at(path, start as u64, &mut contents[start..]) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        contents.truncate(start + count);
        if count < PIECE {
            return Ok(Some(contents));
        }
        if contents.len() > BYTES_MAX {
            return Err(io::Error::other("the file is too long"));
        }
    }
}
