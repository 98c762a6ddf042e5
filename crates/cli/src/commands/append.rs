//! `logberg append`: a file or standard input, into a stream.

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use client::{AppendError, AppendOptions, Appender, Closed, Mode, StreamName};
use indicatif::{ProgressBar, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec};
use wire::StreamPlace;

use crate::global::Global;
use crate::places;
pub(super) use resume::quoted;
use resume::{Place, Resumed};
use terminal::exit::{Failure, Resumable};
use terminal::show;
use wire::quantity;

mod resume;

const READ_BYTES: usize = 256 << 10;
/// So many bytes that the log has already are kept, to be compared.
const PASSED_BYTES: usize = 1 << 20;
const WAIT: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// Append a file or standard input to a log, as a new stream
#[derive(Debug, Args)]
#[command(after_help = "\
Returns 0 only when every byte is committed and the stream's clean end too. It then prints the name of
the stream and its length. Lost leaders are survived: the stream is continued at the next one.

An append that fails prints the command that goes on. With --continue STREAM@BYTES a file is taken up where
the stream ends in the log, however much that is by now: no byte is missing and none is there twice. Standard
input has to begin with byte BYTES; what the log has of it already is passed over. The last MiB that the log has
is compared with the input, and another input is refused. A stream that was closed
with the input's last byte is done (0).

Example:
  logberg append main notes.txt --label notes
  tail -F /var/log/syslog | logberg append main --wait
  logberg append main big.iso --rate 20M
  logberg append main big.iso --continue 1.4.2@81920
  logberg append main --timeout never < /dev/sensor")]
pub struct Arguments {
    #[arg(value_name = "LOG")]
    log: String,
    /// What to append; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    /// A name for people, kept with the stream
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// If the log has a writer, cut it off
    #[arg(long, conflicts_with = "wait")]
    takeover: bool,
    /// If the log has a writer, wait until it is gone
    #[arg(long)]
    wait: bool,
    /// Go on with this stream, which an earlier append of the same input did not close; a failed append prints this
    #[arg(long = "continue", value_name = "STREAM[@BYTES]", value_parser = places::in_stream)]
    resume: Option<StreamPlace>,
    /// At most this many bytes per second: 500k, 20M, 1GiB
    #[arg(long, value_name = "R", value_parser = quantity::bytes_per_second)]
    rate: Option<u64>,
    /// Hand over this many bytes at a time
    #[arg(long, value_name = "B", value_parser = quantity::at_least_one)]
    write_size: Option<u64>,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        // Before anything is opened in the log: a misspelt name should leave no empty stream.
        let mut source = Source::open(&self.file)?;
        let options = AppendOptions {
            label: self.label.clone(),
            mode: match (self.takeover, self.wait) {
                (true, _) => Mode::TakeOver,
                (_, true) => Mode::Wait,
                _ => Mode::Refuse,
            },
            ..AppendOptions::default()
        };
        let started = Instant::now();
        let client = global.client();
        let (mut appender, place) = match self.resume {
            None => {
                let appender = client.append(&self.log, options)?;
                let place = Place::of(&appender);
                (appender, place)
            }
            Some(left) => match resume::resume(&client, &self.log, left, &mut source, options)? {
                Resumed::Open(appender, place) => (appender, place),
                Resumed::Closed(position) => {
                    return self.report_closed(global, left.stream, position);
                }
            },
        };
        let progress = progress(global, source.length);
        let copied = self.copy(&mut source, &mut appender, &progress);
        // Until a close is asked for, whatever went wrong leaves the stream without a clean end of
        // ours. From then on only the log knows: a close may take effect and its answer be lost.
        let (result, end) = match copied {
            Ok(()) => (
                appender.close().map_err(Into::into),
                format!("may be closed or not; `logberg streams {}` tells", self.log),
            ),
            Err(error) => (Err(error), "is not closed".to_owned()),
        };
        progress.finish_and_clear();
        let closed = result.map_err(|error: anyhow::Error| {
            let (committed, read) = (place.of_chain(appender.acknowledged()), source.read);
            let stream = place.stream;
            let sentence = format!("stopped: {committed} of {read} bytes read are committed in stream {stream}, which {end}");
            match is_damage(&error) {
                // ‡ Behind other bytes than were sent nothing goes on.
                true => error.context(sentence),
                false => error.context(resumable(stream, committed, sentence, source.length.is_some())),
            }
        })?;
        self.report(global, &appender, closed, place, started.elapsed())
    }

    fn copy(
        &self,
        source: &mut Source,
        appender: &mut Appender,
        progress: &ProgressBar,
    ) -> Result<()> {
        let piece = self.piece_bytes();
        let mut pace = self.rate.map(Pace::new);
        let mut buffer = vec![0; READ_BYTES.max(piece)];
        loop {
            // With a rate, no more is read ahead than may be sent.
            let limit = if pace.is_some() { piece } else { buffer.len() };
            while !source.is_ready()? {
                // Without this, a log's tail that is quiet for hours would not notice for hours
                // that its stream is over.
                appender.check()?;
                show_progress(progress, appender);
            }
            let count = source.read(&mut buffer[..limit])?;
            if count == 0 {
                return source.check_whole();
            }
            for piece in buffer[..count].chunks(piece) {
                if let Some(pace) = &mut pace {
                    pace.wait_for(piece.len());
                }
                appender.write_all(piece)?;
            }
            show_progress(progress, appender);
        }
    }

    /// The bytes to hand over at a time: enough to be cheap, with a rate few enough to be smooth.
    fn piece_bytes(&self) -> usize {
        let piece = match (self.write_size, self.rate) {
            (Some(size), _) => size,
            (None, Some(rate)) => (rate / 200).clamp(1, READ_BYTES as u64),
            (None, None) => READ_BYTES as u64,
        };
        piece.min(64 << 20) as usize
    }

    fn report(
        &self,
        global: &Global,
        appender: &Appender,
        closed: Closed,
        place: Place,
        took: Duration,
    ) -> Result<()> {
        let position = place.of_chain(closed.position);
        let statistics = appender.statistics();
        if global.json {
            return show::print_json(&serde_json::json!({
                "log": self.log,
                "stream": place.stream.to_string(),
                "last_stream": closed.last.to_string(),
                "position": position,
                "took_ms": took.as_millis() as u64,
                "streams_opened": statistics.streams_opened,
                "reconnects": statistics.reconnects,
                "bytes_resent": statistics.bytes_resent,
                "acknowledge_gap_ms_max": statistics.acknowledge_gap_max.as_secs_f64() * 1e3,
            }));
        }
        show::print(format_args!(
            "stream {} closed at {}",
            place.stream, position
        ))?;
        if statistics.reconnects > 0 {
            eprintln!(
                "logberg: survived {}; the last stream of the chain is {}, and {} bytes were sent twice",
                quantity::counted(statistics.reconnects, "lost connection"),
                closed.last,
                statistics.bytes_resent
            );
        }
        Ok(())
    }
}

impl Arguments {
    /// The stream was closed before, with the very last byte of the input.
    fn report_closed(&self, global: &Global, stream: StreamName, position: u64) -> Result<()> {
        if global.json {
            return show::print_json(&serde_json::json!({
                "log": self.log,
                "stream": stream.to_string(),
                "position": position,
            }));
        }
        show::print(format_args!("stream {stream} closed at {position}"))
    }
}

/// Whether the log holds other bytes than were sent.
fn is_damage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let inside = cause
            .downcast_ref::<io::Error>()
            .and_then(|io| io.get_ref());
        let inside = inside.and_then(|inner| inner.downcast_ref::<AppendError>());
        let error = cause.downcast_ref::<AppendError>().or(inside);
        matches!(error, Some(AppendError::Damaged { .. }))
    })
}

/// The command that goes on. A file is taken up where the stream ends; whatever else is read has to begin there.
fn resumable(stream: StreamName, position: u64, sentence: String, is_file: bool) -> Resumable {
    let place = StreamPlace { stream, position }.to_string();
    Resumable {
        sentence,
        how: match is_file {
            false => format!("to go on, feed the input from byte {position} on to"),
            true => "to go on".to_owned(),
        },
        command: resume::command(std::env::args_os(), &place),
        place,
    }
}

/// The source of the appended bytes, and how many there should be.
struct Source {
    input: File,
    /// It is standard input, a pipe or a device, on which bytes may be long in coming.
    waits: bool,
    /// The length of a regular file when it was opened.
    length: Option<u64>,
    read: u64,
    /// The last bytes that were passed over.
    passed: Vec<u8>,
}

impl Source {
    fn open(path: &PathBuf) -> Result<Self> {
        if path.as_os_str() == "-" {
            // The standard library's handle reads ahead into a buffer, where poll does not see it.
            let stdin = io::stdin().as_fd().try_clone_to_owned();
            return Ok(Self {
                input: File::from(stdin.context("cannot use standard input")?),
                waits: true,
                length: None,
                read: 0,
                passed: Vec::new(),
            });
        }
        let shown = path.display();
        let file = File::open(path).with_context(|| format!("cannot open {shown}"))?;
        let metadata = file
            .metadata()
            .with_context(|| format!("cannot look at {shown}"))?;
        if metadata.is_dir() {
            return Err(Failure::usage(format!("{shown} is a directory; name a file")).into());
        }
        Ok(Self {
            length: metadata.is_file().then_some(metadata.len()),
            input: file,
            waits: !metadata.is_file(),
            read: 0,
            passed: Vec::new(),
        })
    }

    /// Goes to byte `position` of the stream whose input this is: in a file at that byte, in other input behind those
    /// from `begins` on.
    fn skip(&mut self, begins: u64, position: u64) -> Result<()> {
        if let Some(length) = self.length {
            if position > length {
                let sentence = format!(
                    "the file has {length} bytes, and the stream {position} already: that is not what was appended"
                );
                return Err(Failure::usage(sentence).into());
            }
            let found = self.input.seek(io::SeekFrom::Start(position));
            self.read = found.context("cannot go to where the stream ends")?;
            return Ok(());
        }
        self.read = self.read.max(begins);
        let mut buffer = vec![0; READ_BYTES];
        while self.read < position {
            let wanted = (position - self.read).min(READ_BYTES as u64) as usize;
            let count = self.read(&mut buffer[..wanted])?;
            self.passed.extend_from_slice(&buffer[..count]);
            let before = self.passed.len().saturating_sub(PASSED_BYTES);
            self.passed.drain(..before);
            if count == 0 {
                let ends = self.read;
                let sentence = format!(
                    "the input ends at byte {ends}, and the stream has {position} already: that is not what was appended"
                );
                return Err(Failure::usage(sentence).into());
            }
        }
        Ok(())
    }

    /// At most so many bytes before that position, to which the source was taken: of a file all, of other input those that were passed over.
    fn before(&self, position: u64, bytes_max: usize) -> Result<Vec<u8>> {
        if self.length.is_none() {
            let from = self.passed.len().saturating_sub(bytes_max);
            return Ok(self.passed[from..].to_vec());
        }
        let count = position.min(bytes_max as u64);
        let mut bytes = vec![0; count as usize];
        let read = self.input.read_exact_at(&mut bytes, position - count);
        read.context("cannot read what was appended before")?;
        Ok(bytes)
    }

    fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.read(&mut [0])? == 0)
    }

    /// Waits a little for bytes or the end.
    fn is_ready(&self) -> Result<bool> {
        if !self.waits {
            return Ok(true);
        }
        let mut fds = [PollFd::new(&self.input, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&WAIT)) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(io::Error::from(error)).context("cannot wait for standard input"),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.input.read(buffer) {
                Ok(count) => {
                    self.read += count as u64;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot read on"),
            }
        }
    }

    /// At the end: was that all there was to be? A shorter file was cut while we read it, and its
    /// stream must not look whole.
    fn check_whole(&self) -> Result<()> {
        match self.length {
            Some(length) if self.read < length => {
                let read = self.read;
                anyhow::bail!("the file shrank from {length} to {read} bytes while it was read")
            }
            _ => Ok(()),
        }
    }
}

/// Spreads bytes evenly over time. Bytes missed while the cluster was slow are not made up for beyond a tenth
/// of a second, so that a pause is not followed by a flood.
struct Pace {
    bytes_per_second: f64,
    due: Instant,
}

impl Pace {
    const CATCH_UP_MAX: Duration = Duration::from_millis(100);

    fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second as f64,
            due: Instant::now(),
        }
    }

    fn wait_for(&mut self, bytes: usize) {
        let now = Instant::now();
        match self.due.checked_duration_since(now) {
            Some(early) => std::thread::sleep(early),
            None => {
                self.due = self
                    .due
                    .max(now.checked_sub(Self::CATCH_UP_MAX).unwrap_or(now))
            }
        }
        self.due += Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
    }
}

fn show_progress(progress: &ProgressBar, appender: &Appender) {
    if !progress.is_hidden() {
        progress.set_position(appender.acknowledged());
    }
}

fn progress(global: &Global, length: Option<u64>) -> ProgressBar {
    if global.json || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match length {
        Some(length) => (
            ProgressBar::new(length),
            "{bar:30} {binary_bytes} of {binary_total_bytes} chosen, {binary_bytes_per_sec}, {eta} left",
        ),
        None => (
            ProgressBar::new_spinner(),
            "{spinner} {binary_bytes} chosen, {binary_bytes_per_sec}",
        ),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
