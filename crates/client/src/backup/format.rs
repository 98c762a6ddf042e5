//! One part of a backup, byte by byte.
//!
//! ```text
//! header    0 ┬ magic "LBbackup" ─ version u32 ─ length u32 ─ crc32c of the 16 bytes before and of the JSON u32
//!          20 ┴ JSON
//! piece     0 ┬ magic "LBpc" ─ stream's place in the header u32 ─ position u64 ─ length u32
//!          20 ┼ crc32c of the payload u32 ─ crc32c of the 24 bytes before u32
//!          28 ┴ payload
//! trailer   0 ┬ magic "LBnd" ─ pieces u64 ─ bytes u64 ─ sha256 of all before the trailer 32
//!          52 ┴ crc32c of the 52 bytes before u32, and the end of the file
//! ```
//!
//! Everything is little endian. Without its trailer a file is no backup: it is written last, and before
//! the file gets its name.
//!
//! A part is of one of two kinds. Of a log's streams (version 1) the header says how long each is. Of a machine's rows (version 2) it says
//! of which position they are; its pieces are pages of rows ([`wire::rows`]), of stream 0, and each part has all rows. Of a group of keys
//! (version 3) they are such rows, and belong to the slots that the log's name says. Of a space of streams (version 4) they are such rows.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use wire::LogKind;
use wire::rows;
use wire::told::Saving;

use crate::admin::StreamInfo;
use crate::listed;

/// Streams of a log.
const STREAMS: u32 = 1;
/// Rows of a machine. ‡ Another version: a program that knows streams alone would make an empty log of them.
const ROWS: u32 = 2;

/// Rows of a group of keys. ‡ Another version: a program that knows machines alone would fill a machine of somebody's own with them.
const KEYS: u32 = 3;

/// Rows of a space of streams. ‡ Another version, likewise.
const SPACES: u32 = 4;

/// All that are read.
const KNOWN: [u32; 4] = [STREAMS, ROWS, KEYS, SPACES];

/// The newest version that is read.
pub const FORMAT_VERSION: u32 = SPACES;

/// The largest payload of one piece.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"LBbackup";
const PIECE: &[u8; 4] = b"LBpc";
const TRAILER: &[u8; 4] = b"LBnd";
const PREFIX_BYTES: usize = 20;
const PIECE_BYTES: usize = 28;
const TRAILER_BYTES: usize = 56;
/// A log's table of streams fits into it.
const JSON_BYTES_MAX: u32 = 128 << 20;

/// The identity that tells one part from all others: the sha256 of its bytes.
pub type Identity = [u8; 32];

/// The header of a part: the log and the streams that it is of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The id of the cluster.
    pub cluster: String,
    /// The name of the log.
    pub log: String,
    /// The number of the log in its cluster.
    pub log_id: u64,
    /// The retention of the log in the cluster: `forever`, `10GiB,7d`.
    pub retention: String,
    /// The number of full voters that were to hold what is acknowledged; 0 if a majority decided.
    #[serde(default, skip_serializing_if = "is_none_wanted")]
    pub min_copies: u32,
    /// Counts the parts from 1.
    pub part: u64,
    /// The identity of the part before, in hex.
    pub after: Option<String>,
    /// In UTC, for people.
    pub made_at: String,
    /// All that were in the log then, in the order of opening.
    pub streams: Vec<Saved>,
    /// The rows of a machine are saved, as of this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Saving>,
    /// The kind of the machine's log; `state` goes without saying. Of a group of keys the log's name says which slots its rows are of.
    #[serde(default, skip_serializing_if = "is_state")]
    pub kind: MachineKind,
}

/// The kind of a log that has a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MachineKind {
    /// A machine that a program of one's own embeds.
    #[default]
    State,
    /// A group of keys.
    Kv,
    /// A space of named streams.
    Streams,
}

impl MachineKind {
    /// The kind of the log that has such a machine.
    pub fn of_log(self) -> LogKind {
        match self {
            MachineKind::State => LogKind::State,
            MachineKind::Kv => LogKind::Kv,
            MachineKind::Streams => LogKind::Streams,
        }
    }
}

fn is_none_wanted(copies: &u32) -> bool {
    *copies == 0
}

fn is_state(kind: &MachineKind) -> bool {
    *kind == MachineKind::State
}

impl Header {
    fn version(&self) -> u32 {
        match (self.state, self.kind) {
            (None, _) => STREAMS,
            (Some(_), MachineKind::State) => ROWS,
            (Some(_), MachineKind::Kv) => KEYS,
            (Some(_), MachineKind::Streams) => SPACES,
        }
    }

    /// The longest payload of one of its pieces.
    fn payload_bytes_max(&self) -> usize {
        match self.state {
            None => PAYLOAD_BYTES_MAX,
            Some(_) => rows::PAGE_BYTES_MAX,
        }
    }
}

/// The rows that were seen of a machine.
#[derive(Debug, Default)]
struct Pages {
    rows: u64,
    last_key: Option<Vec<u8>>,
}

impl Pages {
    /// ‡ Keys rise from the first row of the first page to the last of the last.
    fn take(&mut self, page: &[u8]) -> Result<(), rows::NoPage> {
        let rows = rows::decode(page, self.last_key.as_deref())?;
        self.rows += rows.len() as u64;
        self.last_key = rows.last().map(|(key, _)| key.to_vec());
        Ok(())
    }
}

/// A stream, and how much of it is in this part: `from..length`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// The stream as it was then.
    #[serde(flatten)]
    pub info: StreamInfo,
    /// The first position that is in this part; those before it are in earlier parts, or were trimmed.
    pub from: u64,
}

/// A fault of a backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It does not begin as one does.
    #[error("it is no backup")]
    NotABackup,
    #[error(
        "it is of version {found} and this program reads {FORMAT_VERSION}: use a newer program"
    )]
    /// It was written by a newer program.
    OtherVersion {
        /// Its version.
        found: u32,
    },
    #[error("it ends before its end, at byte {at}: it was never finished, or it was cut")]
    /// It was never finished, or was cut.
    Unfinished {
        /// The byte at which it ends.
        at: u64,
    },
    #[error("it is damaged at byte {at}: {what}")]
    /// A checksum is wrong, or a number cannot be.
    Damaged {
        /// The byte at which that is seen.
        at: u64,
        /// The fault there.
        what: &'static str,
    },
    /// The parts do not belong together; the sentence says why.
    #[error("{0}")]
    Set(String),
    /// A file could not be read.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
}

/// Writes one part.
pub struct PartWriter<W> {
    to: W,
    sha: Sha256,
    header: Header,
    /// The place of the next byte.
    stream: usize,
    position: u64,
    pieces: u64,
    bytes: u64,
    pages: Pages,
}

impl<W: Write> PartWriter<W> {
    /// Begins a part, and writes its header.
    ///
    /// Errors: the header is larger than a part may have, or nothing can be written.
    pub fn new(to: W, header: Header) -> io::Result<PartWriter<W>> {
        let json = serde_json::to_vec(&header)?;
        let length = u32::try_from(json.len())
            .ok()
            .filter(|length| *length <= JSON_BYTES_MAX);
        let length =
            length.ok_or_else(|| io::Error::other("the log has too many streams for a backup"))?;
        let mut prefix = Vec::with_capacity(PREFIX_BYTES);
        prefix.extend_from_slice(MAGIC);
        prefix.extend_from_slice(&header.version().to_le_bytes());
        prefix.extend_from_slice(&length.to_le_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&prefix), &json);
        prefix.extend_from_slice(&checksum.to_le_bytes());
        let mut writer = PartWriter {
            to,
            sha: Sha256::new(),
            header,
            stream: 0,
            position: 0,
            pieces: 0,
            bytes: 0,
            pages: Pages::default(),
        };
        writer.put(&prefix)?;
        writer.put(&json)?;
        writer.skip_full();
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.sha.update(bytes);
        self.to.write_all(bytes)
    }

    /// To the next stream of which something is owed.
    fn skip_full(&mut self) {
        while let Some(saved) = self.header.streams.get(self.stream) {
            self.position = self.position.max(saved.from);
            if self.position < saved.info.length {
                return;
            }
            self.stream += 1;
            self.position = 0;
        }
    }

    /// The next bytes: of that stream, from that position on, so many. `None` once all are there.
    pub fn wants(&self) -> Option<(&Saved, u64, u64)> {
        let saved = self.header.streams.get(self.stream)?;
        Some((saved, self.position, saved.info.length - self.position))
    }

    /// Writes the bytes that [`PartWriter::wants`] asked for, or their beginning.
    pub fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let room = self.wants().map_or(0, |(_, _, count)| count);
        if payload.is_empty() || payload.len() > PAYLOAD_BYTES_MAX || payload.len() as u64 > room {
            return Err(io::Error::other("a piece that does not belong there"));
        }
        self.put_piece(payload)?;
        self.skip_full();
        Ok(())
    }

    /// Writes the next page of a machine's rows.
    pub fn write_rows(&mut self, page: &[u8]) -> io::Result<()> {
        if self.header.state.is_none() {
            return Err(io::Error::other("rows do not belong there"));
        }
        self.pages.take(page).map_err(io::Error::other)?;
        self.put_piece(page)
    }

    fn put_piece(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut head = Vec::with_capacity(PIECE_BYTES);
        head.extend_from_slice(PIECE);
        head.extend_from_slice(&(self.stream as u32).to_le_bytes());
        head.extend_from_slice(&self.position.to_le_bytes());
        head.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
        self.put(&head)?;
        self.put(payload)?;
        self.pieces += 1;
        self.bytes += payload.len() as u64;
        self.position += payload.len() as u64;
        Ok(())
    }

    /// The rows of a machine that were written.
    pub fn rows(&self) -> u64 {
        self.pages.rows
    }

    /// Writes the trailer. Fails if not all that was owed is there.
    pub fn finish(mut self) -> io::Result<(W, Identity)> {
        if self.wants().is_some() {
            return Err(io::Error::other("bytes are missing from this backup"));
        }
        let identity: Identity = self.sha.clone().finalize().into();
        let mut trailer = Vec::with_capacity(TRAILER_BYTES);
        trailer.extend_from_slice(TRAILER);
        trailer.extend_from_slice(&self.pieces.to_le_bytes());
        trailer.extend_from_slice(&self.bytes.to_le_bytes());
        trailer.extend_from_slice(&identity);
        trailer.extend_from_slice(&crc32c::crc32c(&trailer).to_le_bytes());
        self.to.write_all(&trailer)?;
        self.to.flush()?;
        Ok((self.to, identity))
    }
}

/// Reads one part, and believes nothing of it unchecked.
pub struct PartReader<R> {
    from: R,
    sha: Sha256,
    header: Header,
    at: u64,
    stream: usize,
    position: u64,
    pieces: u64,
    bytes: u64,
    pages: Pages,
}

impl<R: Read> PartReader<R> {
    /// Begins to read a part, and checks its header.
    ///
    /// Errors: it is no backup, another version's, cut or damaged; or it cannot be read.
    pub fn open(from: R) -> Result<PartReader<R>, BackupError> {
        let mut reader = PartReader {
            from,
            sha: Sha256::new(),
            header: Header::default(),
            at: 0,
            stream: 0,
            position: 0,
            pieces: 0,
            bytes: 0,
            pages: Pages::default(),
        };
        let begun = reader.take_up_to(PREFIX_BYTES as u64)?;
        let Ok(prefix) = <[u8; PREFIX_BYTES]>::try_from(&begun[..]) else {
            // Too short for the beginning of one; it may be the beginning of that.
            let magic = &MAGIC[..begun.len().min(MAGIC.len())];
            return Err(match begun.starts_with(magic) {
                true => BackupError::Unfinished { at: reader.at },
                false => BackupError::NotABackup,
            });
        };
        let version = u32_at(&prefix, 8);
        let is_known = KNOWN.contains(&version);
        if &prefix[..8] != MAGIC || !is_known {
            return Err(reader.strange(&prefix));
        }
        let length = u32_at(&prefix, 12);
        if length > JSON_BYTES_MAX {
            return Err(reader.damaged("its list of streams is too long"));
        }
        let json = reader.take_vec(u64::from(length))?;
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&prefix[..16]), &json);
        if checksum != u32_at(&prefix, 16) {
            return Err(reader.damaged("the header's checksum is wrong"));
        }
        reader.sha.update(prefix);
        reader.sha.update(&json);
        let header: Result<Header, _> = serde_json::from_slice(&json);
        reader.header = header.map_err(|_| reader.damaged("its header is not understood"))?;
        let fits =
            |saved: &Saved| saved.info.trimmed <= saved.from && saved.from <= saved.info.length;
        let fits_kind = reader.header.version() == version
            && (reader.header.state.is_none() || reader.header.streams.is_empty())
            && (reader.header.state.is_some() || is_state(&reader.header.kind));
        let streams = reader.header.streams.iter().map(|saved| &saved.info);
        let fits_streams = listed::contradiction(streams).is_none();
        if !fits_kind
            || !fits_streams
            || !reader.header.streams.iter().all(fits)
            || reader.header.part == 0
        {
            return Err(reader.damaged("its header contradicts itself"));
        }
        reader.skip_full();
        Ok(reader)
    }

    /// The log and the streams that the part is of.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of bytes of the file that were read and are sound.
    pub fn at(&self) -> u64 {
        self.at
    }

    fn damaged(&self, what: &'static str) -> BackupError {
        BackupError::Damaged { at: self.at, what }
    }

    /// The error for a file that does not begin as a backup of a known version does. The checksum of the header tells another
    /// program's version from damage, and a backup whose first bytes are damaged from something else.
    fn strange(&mut self, prefix: &[u8; PREFIX_BYTES]) -> BackupError {
        let version = u32_at(prefix, 8);
        let json = match self.take_up_to(u64::from(u32_at(prefix, 12).min(JSON_BYTES_MAX))) {
            Ok(json) => json,
            Err(error) => return error,
        };
        let fits = |version: u32| {
            let head = [&MAGIC[..], &version.to_le_bytes(), &prefix[12..16]].concat();
            crc32c::crc32c_append(crc32c::crc32c(&head), &json) == u32_at(prefix, 16)
        };
        let is_ours = &prefix[..8] == MAGIC;
        match () {
            () if is_ours && fits(version) => BackupError::OtherVersion { found: version },
            () if is_ours || KNOWN.into_iter().any(fits) => BackupError::Damaged {
                at: 0,
                what: "its first bytes are not those that its checksum is of",
            },
            () => BackupError::NotABackup,
        }
    }

    /// So many bytes, or all that are left.
    fn take_up_to(&mut self, length: u64) -> Result<Vec<u8>, BackupError> {
        // It grows with what is there, not with what is claimed.
        let mut bytes = Vec::new();
        self.from.by_ref().take(length).read_to_end(&mut bytes)?;
        self.at += bytes.len() as u64;
        Ok(bytes)
    }

    fn take_vec(&mut self, length: u64) -> Result<Vec<u8>, BackupError> {
        let bytes = self.take_up_to(length)?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(BackupError::Unfinished { at: self.at }),
        }
    }

    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], BackupError> {
        let bytes = self.take_vec(N as u64)?;
        bytes
            .try_into()
            .map_err(|_| BackupError::Unfinished { at: self.at })
    }

    fn skip_full(&mut self) {
        while let Some(saved) = self.header.streams.get(self.stream) {
            self.position = self.position.max(saved.from);
            if self.position < saved.info.length {
                return;
            }
            self.stream += 1;
            self.position = 0;
        }
    }

    /// The next piece: its stream's place in the header, its position, its bytes. After the last one, and
    /// only if the file is whole and nothing stands behind it, the part's identity.
    pub fn read_next(&mut self) -> Result<Next, BackupError> {
        let magic: [u8; 4] = self.take_array()?;
        match &magic {
            PIECE => self.piece(magic),
            TRAILER => self.trailer(magic),
            _ => Err(self.damaged("neither a piece nor the end stands here")),
        }
    }

    fn piece(&mut self, magic: [u8; 4]) -> Result<Next, BackupError> {
        let rest: [u8; PIECE_BYTES - 4] = self.take_array()?;
        let head = [&magic[..], &rest[..]].concat();
        if crc32c::crc32c(&head[..24]) != u32_at(&head, 24) {
            return Err(self.damaged("a piece's header has another checksum"));
        }
        let (stream, length) = (u32_at(&head, 4) as usize, u32_at(&head, 16));
        let position = u64_at(&head, 8);
        let room = match self.header.state {
            Some(_) => u64::from(u32::MAX),
            None => {
                let saved = self.header.streams.get(self.stream);
                saved.map_or(0, |s| s.info.length - self.position)
            }
        };
        let expected = (stream, position) == (self.stream, self.position);
        if !expected
            || length == 0
            || length as usize > self.header.payload_bytes_max()
            || u64::from(length) > room
        {
            return Err(self.damaged("a piece that does not belong here"));
        }
        let payload = self.take_vec(u64::from(length))?;
        if crc32c::crc32c(&payload) != u32_at(&head, 20) {
            return Err(self.damaged("a piece's bytes have another checksum"));
        }
        if self.header.state.is_some() && self.pages.take(&payload).is_err() {
            return Err(self.damaged("a piece holds no rows, or none that belong here"));
        }
        self.sha.update(&head);
        self.sha.update(&payload);
        self.pieces += 1;
        self.bytes += u64::from(length);
        self.position += u64::from(length);
        self.skip_full();
        Ok(Next::Piece {
            stream,
            position,
            payload,
        })
    }

    fn trailer(&mut self, magic: [u8; 4]) -> Result<Next, BackupError> {
        let rest: [u8; TRAILER_BYTES - 4] = self.take_array()?;
        let trailer = [&magic[..], &rest[..]].concat();
        if crc32c::crc32c(&trailer[..52]) != u32_at(&trailer, 52) {
            return Err(self.damaged("its end has another checksum"));
        }
        if self.stream < self.header.streams.len() {
            return Err(self.damaged("pieces are missing before its end"));
        }
        let identity: Identity = self.sha.clone().finalize().into();
        let counted = (u64_at(&trailer, 4), u64_at(&trailer, 12)) == (self.pieces, self.bytes);
        if !counted || trailer[20..52] != identity {
            return Err(self.damaged("its end belongs to other bytes"));
        }
        if self.from.by_ref().take(1).read_to_end(&mut Vec::new())? > 0 {
            return Err(self.damaged("something stands behind its end"));
        }
        Ok(Next::End {
            identity,
            bytes: self.bytes,
            rows: self.pages.rows,
        })
    }
}

/// The next thing in a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes of a stream, or a page of rows.
    Piece {
        /// The place of the stream in the header's list; 0 in the backup of a machine.
        stream: usize,
        /// The position of the first byte.
        position: u64,
        /// The bytes, whose checksum is right.
        payload: Vec<u8>,
    },
    /// The end of the part, whose sums are right.
    End {
        /// The identity of this part: no other has it.
        identity: Identity,
        /// The bytes of all pieces together.
        bytes: u64,
        /// Of a machine.
        rows: u64,
    },
}

/// `bytes` are as long as what is read of them: arrays of a fixed length.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// As headers have it.
pub fn hex(identity: &Identity) -> String {
    identity.iter().map(|byte| format!("{byte:02x}")).collect()
}
