//! TLS of a node: its settings, its files, and the connections that come and go by it.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use client::Transport;
use linux::{Dial, Kernel};
use node::wires::Wires;
use terminal::exit::Failure;
use tls::{Acceptor, Dialer, Directory, Mode, Moved, Named, OnPlain, Room, Trust};
use wire::Refusal;

/// The files are looked at so often.
const LOOK: Duration = Duration::from_secs(10);
/// A certificate that ends within this is told of, so often.
const ENDS_SOON: Duration = Duration::from_secs(30 * 86_400);
const TOLD: Duration = Duration::from_secs(86_400);
const OFF: &str = "off";

/// The settings of TLS.
pub struct Wanted {
    /// `--tls`
    pub mode: Option<String>,
    /// `--tls-dir`
    pub directory: Option<PathBuf>,
    /// `--tls-crl`
    pub revoked: Option<PathBuf>,
}

/// What a node speaks besides plain text, or in its place. Clones share the files.
#[derive(Clone)]
pub struct Secure {
    mode: Mode,
    directory: Arc<Directory>,
    room: Room,
    /// The node is told of the certificate, and of who comes in plain text.
    wires: Wires,
}

impl Secure {
    /// `None`: plain text alone. `files_max`: so many files may be open.
    ///
    /// Errors: one is said without the other, or the files cannot be used.
    pub fn of(wanted: Wanted, files_max: usize, wires: &Wires) -> Result<Option<Secure>> {
        let Wanted {
            mode,
            directory,
            revoked,
        } = wanted;
        if revoked.is_some() && mode.as_deref().is_none_or(|mode| mode == OFF) {
            let sentence = "--tls-crl is there, and TLS is not spoken: say --tls accept or --tls require, and --tls-dir DIR";
            return Err(Failure::usage(sentence).into());
        }
        let (mode, directory) = match (mode.as_deref(), directory) {
            (None | Some(OFF), None) | (Some(OFF), Some(_)) => return Ok(None),
            (None, Some(_)) => {
                let sentence = "--tls-dir is there, and --tls is not: say --tls accept (plain text, too) or --tls require (TLS alone)";
                return Err(Failure::usage(sentence).into());
            }
            (Some(mode), None) => {
                let sentence = format!(
                    "--tls {mode} needs --tls-dir DIR, with tls.crt, tls.key and ca.crt: `logberg certs` makes them"
                );
                return Err(Failure::usage(sentence).into());
            }
            (Some(mode), Some(directory)) => (mode.parse().map_err(Failure::usage)?, directory),
        };
        let directory = Directory::open(directory, revoked)
            .map_err(|error| Failure::usage(error.to_string()))?;
        tell_certificate(wires, &directory);
        wires.tell(|told| told.is_tls_required = mode == Mode::Require);
        Ok(Some(Secure {
            mode,
            directory: Arc::new(directory),
            // Each is a connection, and the two ends of a pair.
            room: Room::new(files_max / 6),
            wires: wires.clone(),
        }))
    }

    fn on_plain(&self) -> OnPlain {
        let wires = self.wires.clone();
        Arc::new(move || wires.tell(|told| told.plain_at_s = Some(seconds(SystemTime::now()))))
    }

    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Nodes show certificates, to one another and without exception.
    pub fn is_required(&self) -> bool {
        self.mode == Mode::Require
    }

    /// For this process' own clients of nodes.
    pub fn transport(&self) -> Arc<dyn Transport> {
        Arc::new(Trust::of_node(self.directory.clone()))
    }

    /// For that kernel.
    pub fn dialer(&self, kernel: &Kernel) -> Arc<dyn Dial> {
        let moved = Moved::choose(kernel.moves_by_calls());
        Arc::new(Dialer::new(self.mode, self.directory.clone(), moved))
    }

    /// Accepts at an address that this kernel has bound.
    pub fn accept_at(
        &self,
        kernel: &mut Kernel,
        address: &str,
        refusal: &'static str,
    ) -> Result<Acceptor> {
        let (socket, giver) = kernel.hand_over(address)?;
        let moved = Moved::choose(kernel.moves_by_calls());
        let how = (self.mode, self.directory.clone(), moved);
        let plain = (refusal, self.on_plain());
        Acceptor::start(socket, how, giver, plain, self.room.clone())
            .context("TLS cannot be started")
    }

    /// For the HTTP door.
    pub fn for_http(&self) -> http_door::Tls {
        let directory = self.directory.clone();
        http_door::Tls {
            is_required: self.is_required(),
            acceptor: Arc::new(move || directory.http()),
            on_plain: self.on_plain(),
            reads: Arc::new(|der| Named::read(der)?.client()),
        }
    }

    /// Looks at the files for as long as the process lives: every ten seconds, and at SIGHUP.
    pub fn watch(&self) {
        let (directory, wires) = (self.directory.clone(), self.wires.clone());
        let name = "tls-files".to_owned();
        let spawned = thread::Builder::new()
            .name(name)
            .spawn(move || look(&directory, &wires));
        if let Err(error) = spawned {
            tracing::warn!(%error, "certificates are read anew by a restart alone");
        }
    }
}

/// The answer of a node's port to plain text, where TLS is required.
pub fn plain_refused() -> &'static str {
    let sentence = "this node takes connections by TLS alone: say --ca FILE with the authority of its certificate";
    let line = Refusal::new("tls-required", sentence).encode();
    String::leak(String::from_utf8_lossy(&line).into_owned())
}

fn seconds(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn tell_certificate(wires: &Wires, directory: &Directory) {
    let loaded = directory.loaded();
    wires.tell(|told| {
        told.certificate.clone_from(&loaded.named.node);
        told.holds_until_s = Some(seconds(loaded.named.not_after));
    });
}

/// Waits for SIGHUP, and no longer than until the next look is due.
fn wait(hangups: Option<&UnixStream>) {
    let Some(mut hangups) = hangups else {
        return thread::sleep(LOOK);
    };
    // Nothing came within that time.
    let _ = hangups.read(&mut [0; 16]);
}

fn look(directory: &Directory, wires: &Wires) {
    let hangups = linux::hangups().and_then(|hangups| {
        hangups.set_read_timeout(Some(LOOK))?;
        Ok(hangups)
    });
    let hangups = hangups.inspect_err(|error| tracing::warn!(%error, "SIGHUP is not heard"));
    let hangups = hangups.ok();

    let (mut wrong, mut told_at) = (String::new(), None::<SystemTime>);
    loop {
        let left = directory
            .loaded()
            .named
            .not_after
            .duration_since(SystemTime::now());
        let is_due = told_at.is_none_or(|at| at.elapsed().is_ok_and(|since| since >= TOLD));
        if is_due {
            match left {
                Ok(left) if left > ENDS_SOON => {}
                Ok(left) => {
                    let days = left.as_secs() / 86_400;
                    tracing::warn!(
                        days,
                        "the certificate of this node ends soon: put a new one in its place"
                    );
                    told_at = Some(SystemTime::now());
                }
                Err(_) => {
                    tracing::error!(
                        "the certificate of this node has expired, and others refuse it: put a new one in its place"
                    );
                    told_at = Some(SystemTime::now());
                }
            }
        }
        wait(hangups.as_ref());
        let others = wires.told().others;
        match directory.look(|name| others.get(name).copied()) {
            Ok(false) => wrong.clear(),
            Ok(true) => {
                (wrong, told_at) = (String::new(), None);
                tell_certificate(wires, directory);
                tracing::info!("new connections are made by the new certificate");
            }
            Err(error) => {
                let why = error.to_string();
                if why != wrong {
                    tracing::warn!("{why}; the certificate that was read before is used on");
                    wrong = why;
                }
            }
        }
    }
}
