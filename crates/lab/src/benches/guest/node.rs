//! One of the three processes: a node with its machine, which does what the bench orders.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use embed::{Bounds, Failure, Handle, Node};

use super::callers::Callers;
use super::cluster::{GUEST, NODES};
use super::orders::{Answer, Order};
use super::rows::{Puts, Rows};

/// Run one node of `bench guest`, which obeys what it reads
#[derive(Debug, Args)]
#[command(after_help = "\
Orders come on standard input, a line of JSON each, and answers go to standard output. It ends when
its input does, or the process that started it.

Example: one row on a cluster that never gets its majority
  echo '\"try\"' | logberg-lab guest-node --data d1 --listen 127.0.0.1:7117 --parent $$")]
#[group(skip)]
pub struct Arguments {
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// A node of the cluster to join; without it this is the first of one
    #[arg(long, value_name = "HOST:PORT")]
    join: Option<String>,
    /// The process that starts it
    #[arg(long, value_name = "PID")]
    parent: u32,
    /// Rows that loads write
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    value_size: u32,
    /// Bytes of the log that are applied before they are flushed
    #[arg(long, value_name = "BYTES", default_value_t = Bounds::default().flush_bytes)]
    flush: u64,
}

/// The threads that fill a state, and the rows in each of their commands.
const FILLERS: usize = 16;
const FILL_ROWS: u64 = 64;
/// A command that nobody could take is submitted again for so long.
const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

impl Arguments {
    pub fn run(self) -> Result<()> {
        linux::die_with_parent().context("cannot be tied to the starting process")?;
        let parent = rustix::process::getppid().map(rustix::process::Pid::as_raw_nonzero);
        if parent.is_none_or(|parent| parent.get() as u32 != self.parent) {
            bail!("the process that started this node has ended");
        }
        let node = Node::open(&self.data).listen(&self.listen);
        let node = match &self.join {
            Some(server) => node.join(server),
            None => node.bootstrap(NODES),
        };
        let bounds = Bounds {
            flush_bytes: self.flush,
            ..Bounds::default()
        };
        let node = node.machine(GUEST, Puts).bounds(bounds).start()?;
        let mut obeys = Obeys {
            guest: node.machine(GUEST),
            rows: Rows {
                count: self.rows,
                value_bytes: self.value_size,
            },
            load: None,
        };
        let mut output = io::stdout().lock();
        for line in io::stdin().lock().lines() {
            let order = serde_json::from_str(&line?).context("this is no order")?;
            let answer = obeys.obey(&order)?;
            serde_json::to_writer(&mut output, &answer)?;
            output.write_all(b"\n")?;
            output.flush()?;
            if let Some(why) = node.failure() {
                bail!("the node ended by itself: {why}");
            }
        }
        Ok(())
    }
}

struct Obeys {
    guest: Handle,
    rows: Rows,
    load: Option<Callers>,
}

impl Obeys {
    fn obey(&mut self, order: &Order) -> Result<Answer> {
        Ok(match *order {
            Order::Try => self.try_once()?,
            Order::Read => self.read_once()?,
            Order::Fill { from, to } => self.fill(from, to),
            Order::Load {
                callers,
                seconds_max,
            } => {
                let (guest, rows) = (self.guest.clone(), self.rows);
                let submit = move |call| match guest.submit(&rows.drawn(call)) {
                    Ok(_) => Ok(()),
                    Err(failure) => Err(failure.to_string()),
                };
                let longest = Duration::from_secs_f64(seconds_max);
                self.load = Some(Callers::start(callers, longest, submit)?);
                Answer::Done
            }
            Order::Window => match &self.load {
                Some(load) => Answer::Counted(load.window()),
                None => Answer::Failed("there is no load".to_owned()),
            },
            Order::Rest => {
                self.load = None;
                Answer::Done
            }
        })
    }

    fn try_once(&self) -> Result<Answer> {
        let command = self.rows.command(0, 1);
        self.within_patience(move |guest| guest.submit(&command).map(drop))
    }

    fn read_once(&self) -> Result<Answer> {
        let key = Rows::key(0);
        self.within_patience(move |guest| {
            let read = guest.read(move |rows| rows.get(&key).map(drop))?;
            read.map_err(|error| Failure::NotNow(error.to_string()))
        })
    }

    /// An answer may take as long as nobody leads: the bench is not to wait for ever.
    fn within_patience(
        &self,
        ask: impl FnOnce(&Handle) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Answer> {
        let (tell, told) = mpsc::channel();
        let guest = self.guest.clone();
        let thread = thread::Builder::new().name("asks-once".to_owned());
        thread.spawn(move || drop(tell.send(ask(&guest))))?;
        Ok(match told.recv_timeout(PATIENCE) {
            Ok(Ok(())) => Answer::Done,
            Ok(Err(failure)) => Answer::Failed(failure.to_string()),
            Err(_) => Answer::Failed("the machine does not answer".to_owned()),
        })
    }

    fn fill(&self, from: u64, to: u64) -> Answer {
        let next = AtomicU64::new(from);
        let fill = || -> Result<(), Failure> {
            loop {
                let first = next.fetch_add(FILL_ROWS, Ordering::Relaxed);
                if first >= to {
                    return Ok(());
                }
                let command = self.rows.command(first, to.min(first + FILL_ROWS));
                let began = Instant::now();
                while let Err(failure) = self.guest.submit(&command) {
                    // Too many wait already, for example.
                    let is_later = matches!(failure, Failure::NotNow(_));
                    if !is_later || began.elapsed() > PATIENCE {
                        return Err(failure);
                    }
                    thread::sleep(BETWEEN_ATTEMPTS);
                }
            }
        };
        let filled = thread::scope(|scope| {
            let threads: Vec<_> = (0..FILLERS).map(|_| scope.spawn(fill)).collect();
            let ends = threads.into_iter().map(|thread| match thread.join() {
                Ok(end) => end.map_err(|failure| failure.to_string()),
                Err(_) => Err("a thread panicked".to_owned()),
            });
            // All of them are waited for, whatever the first says.
            ends.fold(Ok(()), Result::and)
        });
        match filled {
            Ok(()) => Answer::Done,
            Err(why) => Answer::Failed(why),
        }
    }
}
