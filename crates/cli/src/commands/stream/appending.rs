//! An input is appended, piece by piece, each of them once.

use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use terminal::exit::{Failure, Kind, Resumable};
use terminal::show;
use wire::quantity;

use super::doors::{Doors, Twice, stream_path};
use super::reading::is_json;
use crate::commands::append::quoted;
use crate::global::Global;

/// An append has at most so many bytes.
const PIECE_BYTES_MAX: u64 = (8 << 20) - (64 << 10);

/// A producer that is of one run alone is remembered for twice as long as it tries, within these.
const OWN_KEPT: RangeInclusive<Duration> =
    Duration::from_secs(600)..=Duration::from_secs(7 * 24 * 60 * 60);

/// Append standard input, or a file, to a stream
#[derive(Debug, Args)]
#[command(after_help = "\
The input is sent in pieces. Each piece carries this producer's id and its number, so it stands in
the stream once, however often it is sent and whichever nodes fail meanwhile.

With --producer pieces are cut by length alone, and not by when they come. The same input, fed again
from its beginning with --resume under the same producer, epoch and piece size, goes on where it
ended: what stands there is not appended again. Another input, or the same one in other pieces, is
refused, and without --resume any producer that appended before. To append another input as the same
producer raise --epoch.

Without --producer each run is a producer of its own, which the stream remembers for ten minutes at
least, or for as long as --timeout lets it try.

Lines are kept whole with --lines. Into a stream of JSON each line goes as a message.

Example:
  echo hello | logberg stream append chat
  logberg stream append jobs --producer loader-7 --resume < jobs.ndjson
  logberg stream append chat --lines --close notes.txt")]
pub struct Append {
    #[arg(value_name = "NAME")]
    name: String,
    /// Standard input if not given
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// This producer's name: the same input under the same name is appended once
    #[arg(long, value_name = "ID")]
    producer: Option<String>,
    /// The producer's epoch: a greater one begins anew, and shuts those before out
    #[arg(long, value_name = "N", default_value_t = 0, requires = "producer")]
    epoch: u64,
    /// This is the same input from its beginning, if the producer appended before in this epoch: what stands there is
    /// passed over
    #[arg(long, requires = "producer")]
    resume: bool,
    /// Bytes of a piece
    #[arg(long, value_name = "BYTES", default_value = "64KiB", value_parser = piece_bytes)]
    piece: u64,
    /// Cut pieces behind ends of lines alone
    #[arg(long)]
    lines: bool,
    /// Close the stream behind the input
    #[arg(long)]
    close: bool,
}

fn piece_bytes(text: &str) -> Result<u64, String> {
    match quantity::bytes(text)? {
        bytes if (1..=PIECE_BYTES_MAX).contains(&bytes) => Ok(bytes),
        _ => Err(format!("a piece has 1 to {PIECE_BYTES_MAX} bytes")),
    }
}

/// What was appended so far.
#[derive(Default)]
struct Done {
    bytes: u64,
    pieces: u64,
    /// Pieces that stood there already.
    known: u64,
    /// An answer told that a piece was new, or known from before this run.
    is_told: bool,
    /// The last piece stood there already, and behind it others up to this number.
    stands_to: Option<u64>,
    tail: String,
}

impl Append {
    pub fn run(self, doors: &mut Doors, global: &Global) -> Result<()> {
        let path = stream_path(&self.name);
        let found = doors.ask("HEAD", &path, &[], None, Twice::IsOnce)?;
        if found.status == 404 {
            let sentence = format!(
                "there is no stream {}: make it with logberg stream put",
                self.name
            );
            return Err(Failure::new(Kind::NotFound, sentence).into());
        }
        found.check(&self.name)?;
        let media = found.header("content-type");
        let media = media.unwrap_or("application/octet-stream").to_owned();
        let input: Box<dyn Read> = match &self.file {
            Some(file) => {
                let opened = File::open(file);
                Box::new(opened.with_context(|| format!("{}", file.display()))?)
            }
            None => Box::new(io::stdin().lock()),
        };
        let mut done = Done {
            tail: found.tail(),
            ..Done::default()
        };
        let kept = global.timeout.saturating_mul(2);
        let kept = kept.clamp(*OWN_KEPT.start(), *OWN_KEPT.end());
        let sent = self.send(doors, input, (&path, &media, kept), &mut done);
        if let Err(error) = sent {
            return Err(self.told(error, &done));
        }
        if self.close {
            done.tail = super::close(doors, &self.name)?;
        }
        let Done {
            bytes,
            pieces,
            known,
            tail,
            ..
        } = done;
        if global.json {
            return show::print_json(&json!({
                "name": self.name, "bytes": bytes, "pieces": pieces, "known": known, "tail": tail, "closed": self.close,
            }));
        }
        let stood = match known {
            0 => String::new(),
            known => format!(", {known} of them stood there already"),
        };
        show::print(format_args!(
            "{} in {} are in {}{stood}; its tail is {tail}",
            quantity::counted(bytes, "byte"),
            quantity::counted(pieces, "piece"),
            self.name
        ))
    }

    fn send(
        &self,
        doors: &mut Doors,
        input: Box<dyn Read>,
        (path, media, kept): (&str, &str, Duration),
        done: &mut Done,
    ) -> Result<()> {
        let is_json = is_json(Some(media));
        let own = own_id();
        let id = self.producer.as_deref().unwrap_or(&own);
        let mut pieces = Pieces {
            input,
            held: Vec::new(),
            bytes_max: self.piece as usize,
            fills: self.producer.is_some(),
            lines: self.lines || is_json,
            is_over: false,
        };
        while let Some(piece) = pieces.next()? {
            let body = match is_json {
                true => as_array(&piece),
                false => Some(piece.clone()),
            };
            let Some(body) = body else {
                done.bytes += piece.len() as u64;
                continue;
            };
            let mut headers = vec![
                ("Content-Type", media.to_owned()),
                ("Producer-Id", id.to_owned()),
                ("Producer-Epoch", self.epoch.to_string()),
                ("Producer-Seq", done.pieces.to_string()),
                ("Logberg-Check-Body", "true".to_owned()),
            ];
            if self.producer.is_none() {
                headers.push(("Logberg-Producer-Kept", kept.as_secs().to_string()));
            }
            let answer = doors.ask("POST", path, &headers, Some(&body), Twice::IsOnce)?;
            answer.check(&self.name)?;
            // ‡ Pieces are known by their numbers: those of another input would be passed over, and lost without a word.
            let is_known = answer.status == 204 && !answer.is_again;
            if !done.is_told && is_known && !self.resume {
                let sentence = format!(
                    "{id} appended to {} before, in epoch {}, and nothing was appended now: if this is the same input from its beginning say --resume, and if it is another one --epoch {}",
                    self.name,
                    self.epoch,
                    self.epoch.saturating_add(1)
                );
                return Err(Failure::new(Kind::Refused, sentence).into());
            }
            done.is_told |= !answer.is_again;
            let sequence = answer.header("producer-seq");
            let sequence = sequence.and_then(|sequence| sequence.parse::<u64>().ok());
            done.stands_to = sequence.filter(|sequence| *sequence > done.pieces);
            done.bytes += piece.len() as u64;
            done.pieces += 1;
            done.known += u64::from(answer.status == 204);
            done.tail = answer.tail();
        }
        // ‡ What stands last is compared, and a shorter input does not come so far.
        if let Some(last) = done.stands_to {
            let sentence = format!(
                "{id} appended {} pieces to {} before, in epoch {}, and this input has {}: it is another input, or was cut otherwise, and nothing of it was appended now; feed the same one with the same --piece and --lines, or say --epoch {}",
                last + 1,
                self.name,
                self.epoch,
                done.pieces,
                self.epoch.saturating_add(1)
            );
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
        Ok(())
    }

    /// What went wrong, how far it came, and what goes on there.
    fn told(&self, error: anyhow::Error, done: &Done) -> anyhow::Error {
        let name = &self.name;
        let sentence = format!("the first {} bytes of the input are in {name}", done.bytes);
        // A request that was refused is refused again.
        let failed = error.downcast_ref::<Failure>();
        let is_refused = failed.is_some_and(|failed| failed.kind != Kind::Unreachable);
        if is_refused && done.stands_to.is_none() {
            return error.context(format!("{sentence}, and no more"));
        }
        let Some(producer) = self.producer.as_ref().filter(|_| !is_refused) else {
            return match is_refused {
                true => error,
                false => error.context(format!("{sentence}, and of what follows nobody knows")),
            };
        };
        let mut command = format!(
            "logberg stream append {} --producer {} --epoch {} --piece {} --resume",
            quoted(name),
            quoted(producer),
            self.epoch,
            self.piece
        );
        for (is_said, word) in [(self.lines, " --lines"), (self.close, " --close")] {
            command += if is_said { word } else { "" };
        }
        if let Some(file) = &self.file {
            command += &format!(" {}", quoted(&file.display().to_string()));
        }
        error.context(Resumable {
            sentence,
            how: "to go on, feed the same input, from its beginning, to".to_owned(),
            command,
            place: done.bytes.to_string(),
        })
    }
}

/// An input in pieces.
struct Pieces<R> {
    input: R,
    held: Vec<u8>,
    bytes_max: usize,
    /// ‡ A piece is as long as it may be, however its bytes come: the same input gives the same pieces.
    fills: bool,
    lines: bool,
    is_over: bool,
}

impl<R: Read> Pieces<R> {
    fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            if let Some(length) = self.length()? {
                let rest = self.held.split_off(length);
                return Ok(Some(std::mem::replace(&mut self.held, rest)));
            }
            if self.is_over {
                return Ok(None);
            }
            let mut buffer = vec![0; self.bytes_max];
            match self.input.read(&mut buffer) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.held.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// How long the next piece is, if it is here.
    fn length(&self) -> Result<Option<usize>> {
        let is_full = self.held.len() >= self.bytes_max;
        let is_here = is_full || self.is_over || !self.fills;
        if self.held.is_empty() || !is_here {
            return Ok(None);
        }
        let piece = &self.held[..self.held.len().min(self.bytes_max)];
        let is_rest = self.is_over && !is_full;
        if !self.lines || is_rest {
            return Ok(Some(piece.len()));
        }
        match piece.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => Ok(Some(end + 1)),
            None if is_full => {
                let sentence = format!(
                    "a line is longer than a piece of {} bytes: append what is not in the stream with a greater --piece, as another producer or with another --epoch",
                    self.bytes_max
                );
                Err(Failure::usage(sentence).into())
            }
            None => Ok(None),
        }
    }
}

/// Lines of JSON as one array. `None`: they are all empty.
fn as_array(lines: &[u8]) -> Option<Vec<u8>> {
    let lines = lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    let joined = lines.join(&b","[..]);
    (!lines.is_empty()).then(|| [b"[", &joined[..], b"]"].concat())
}

/// A producer's name that nobody else has.
fn own_id() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos());
    format!("logberg-{}-{nanoseconds}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An input whose bytes come a few at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(buffer.len()).min(self.0.len());
            let (now, rest) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = rest;
            Ok(count)
        }
    }

    fn pieces(input: &[u8], at_a_time: usize, fills: bool, lines: bool) -> Result<Vec<Vec<u8>>> {
        let mut pieces = Pieces {
            input: Slow(input, at_a_time),
            held: Vec::new(),
            bytes_max: 8,
            fills,
            lines,
            is_over: false,
        };
        let mut all = Vec::new();
        while let Some(piece) = pieces.next()? {
            all.push(piece);
        }
        Ok(all)
    }

    #[test]
    fn a_named_producers_pieces_are_the_same_however_the_input_comes() {
        let input = b"one\ntwo\nthree\nfour";
        for lines in [false, true] {
            let at_once = pieces(input, 100, true, lines).expect("pieces");
            for at_a_time in 1..9 {
                let slow = pieces(input, at_a_time, true, lines).expect("pieces");
                assert_eq!(slow, at_once);
            }
            assert_eq!(at_once.concat(), input);
        }
        let whole = pieces(input, 3, true, true).expect("pieces");
        assert_eq!(whole, [&b"one\ntwo\n"[..], b"three\n", b"four"]);
    }

    #[test]
    fn what_comes_without_a_name_is_sent_at_once() {
        let got = pieces(b"abcdef", 2, false, false).expect("pieces");
        assert_eq!(got, [b"ab", b"cd", b"ef"]);
        let got = pieces(b"a\nbcd\ne", 2, false, true).expect("pieces");
        assert_eq!(got, [&b"a\n"[..], b"bcd\n", b"e"]);
    }

    #[test]
    fn a_line_that_is_longer_than_a_piece_is_refused() {
        assert!(pieces(b"123456789\n", 4, true, true).is_err());
    }

    #[test]
    fn lines_of_json_are_one_array() {
        let array = as_array(b"{\"a\":1}\n\n [2] \n3");
        assert_eq!(array.as_deref(), Some(&b"[{\"a\":1},[2],3]"[..]));
        assert_eq!(as_array(b"\n \n"), None);
    }
}
