//! torture --tls: connections by TLS alone, tokens asked for, and both changing while everything else happens.
//!
//! ```text
//!   an authority ─▶ certificates of nodes and of a client, each minute anew ─▶ files, which nodes look at
//!   a token      ─▶ another secret each minute; the one before is good for a while ─▶ clients
//!   at the end   ─▶ no line of a node's log has any secret that was made
//! ```
//!
//! Half of the clients show the token and half the certificate. The judge asks at the sockets in the nodes' directories, which need neither.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use access::{Secret, Token, TokenName};
use anyhow::{Context, Result, anyhow, bail};
use client::admin::NewToken;
use client::{Client, Credential, Timeouts};
use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use serde::Serialize;
use testbed::cluster::LocalCluster;
use time::OffsetDateTime;
use tls::Trust;

use crate::report::VIOLATIONS_MAX;

/// As often certificates and the token change, unless the whole is short.
const EACH: Duration = Duration::from_secs(60);
/// The secret before is good so long.
const OVERLAP: Duration = Duration::from_secs(15);
/// A certificate holds so many times as long as it is in use: a node that is down for a while comes back with one that holds.
const HOLDS: u32 = 4;
/// The token and the certificate of the clients that append and read.
const TOKEN: &str = "load";
const CERTIFICATE: &str = "driver";
const ROOT: &str = "root";
const GRANTS: [&str; 2] = ["all on log/*", "status on cluster"];
const PAUSE: Duration = Duration::from_millis(50);
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// A change that has to be chosen is asked for again and again for so long.
const DONE_WITHIN: Duration = Duration::from_secs(60);
/// So much of a key's text is searched for: any line of it, but the short ones.
const KEY_LINE_LETTERS_MIN: usize = 40;

/// What clients show now.
#[derive(Debug)]
pub struct Keys {
    by_certificate: Arc<Trust>,
    by_token: Arc<Trust>,
    token: Mutex<Credential>,
}

impl Keys {
    /// The client of that number, with what is good now.
    pub fn client(&self, servers: &[String], number: u32, timeouts: Timeouts) -> Client {
        let client = Client::new(servers.to_vec(), timeouts);
        if number.is_multiple_of(2) {
            return client.by(Some(self.by_certificate.clone()));
        }
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        client
            .showing(Some(token.clone()))
            .by(Some(self.by_token.clone()))
    }
}

/// The outcome.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SecuredReport {
    /// Each is of all nodes, and of the client.
    pub certificates_renewed: u64,
    /// Nodes that said that they took up a new one.
    pub certificates_taken_up: u64,
    pub tokens_rotated: u64,
    /// All that were made: of tokens, and the lines of keys.
    pub secrets: usize,
    pub log_lines_searched: u64,
    /// Lines that have one.
    pub lines_with_secrets: u64,
}

/// The authority, and all secrets that were made.
struct Made {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    ca: String,
    nodes: u32,
    holds: Duration,
    secrets: Mutex<Vec<String>>,
}

/// The files of a cluster that is to be started.
pub struct Prepared {
    made: Arc<Made>,
    each: Duration,
}

pub struct Secured {
    made: Arc<Made>,
    pub keys: Arc<Keys>,
    stop: Arc<AtomicBool>,
    counts: Arc<[AtomicU64; 2]>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Prepared {
    /// Makes an authority, and the certificates of the nodes.
    pub fn make(directory: &Path, nodes: u32, length: Duration) -> Result<Prepared> {
        let each = EACH.min(length / 3).max(Duration::from_secs(5));
        let key = KeyPair::generate()?;
        let mut wants = CertificateParams::default();
        wants.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        wants.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let ca = wants.self_signed(&key)?.pem();
        let made = Made {
            directory: directory.to_owned(),
            secrets: Mutex::new(lines_of(&key.serialize_pem())),
            issuer: Issuer::new(wants, key),
            ca,
            nodes,
            holds: EACH.max(each) * HOLDS,
        };
        fs::create_dir_all(directory)?;
        fs::write(directory.join("ca.crt"), &made.ca)?;
        made.renew()?;
        let made = Arc::new(made);
        Ok(Prepared { made, each })
    }

    /// The words with which each node is started.
    pub fn arguments(&self) -> Vec<Vec<String>> {
        let words = |node| {
            let own = self.made.own(&format!("n{node}"));
            let words = ["--tls", "require", "--tls-dir"].map(str::to_owned);
            [words.to_vec(), vec![own.display().to_string()]].concat()
        };
        (1..=self.made.nodes).map(words).collect()
    }

    /// Has the cluster ask for tokens, and begins to change them and the certificates.
    pub fn begin(self, sockets: Vec<String>) -> Result<Secured> {
        let Prepared { made, each } = self;
        let root = made.draw(ROOT)?;
        let admin = Admin { sockets };
        admin.put(ROOT, Some(&root), &["all on *"])?;
        let token = made.draw(TOKEN)?;
        admin.put(TOKEN, Some(&token), &GRANTS)?;
        admin.put(CERTIFICATE, None, &GRANTS)?;
        admin.done(|client| client.set_auth(true, false).map(drop))?;
        let trust = Trust::read(&made.directory.join("ca.crt"))?;
        let own = made.own(CERTIFICATE);
        let shown = trust.showing(&own.join("tls.crt"), &own.join("tls.key"))?;
        let keys = Arc::new(Keys {
            by_certificate: Arc::new(shown),
            by_token: Arc::new(trust),
            token: Mutex::new(credential(&token)?),
        });
        let stop = Arc::new(AtomicBool::new(false));
        let counts = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let changing = Changing {
            made: made.clone(),
            keys: keys.clone(),
            stop: stop.clone(),
            counts: counts.clone(),
            admin,
            each,
        };
        let thread = std::thread::Builder::new().name("renewing".to_owned());
        let thread = Some(thread.spawn(move || changing.run())?);
        Ok(Secured {
            made,
            keys,
            stop,
            counts,
            thread,
        })
    }
}

impl Secured {
    /// Ends the changes.
    ///
    /// Errors: one could not be made.
    pub fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Ok(());
        };
        thread.join().map_err(|_| anyhow!("a thread panicked"))?
    }

    /// Whether a client that speaks plain text, and one that shows nothing, are refused at that address.
    pub fn check_closed(&self, server: &str) -> Result<()> {
        let plain = Client::new(vec![server.to_owned()], timeouts());
        let shows_nothing = Client::new(vec![server.to_owned()], timeouts());
        let shows_nothing = shows_nothing.by(Some(self.keys.by_token.clone()));
        for client in [plain, shows_nothing] {
            if client.read("main", client::ReadOptions::default()).is_ok() {
                bail!("{server} was read by somebody who showed nothing");
            }
        }
        Ok(())
    }

    /// Searches all lines of the nodes' logs for all secrets.
    pub fn search(&self, cluster: &LocalCluster) -> Result<(SecuredReport, Vec<String>)> {
        let secrets = self.made.secrets();
        let [renewed, rotated] = [0, 1].map(|at| self.counts[at].load(Ordering::Relaxed));
        let mut report = SecuredReport {
            certificates_renewed: renewed,
            tokens_rotated: rotated,
            secrets: secrets.len(),
            ..SecuredReport::default()
        };
        let mut wrong = Vec::new();
        for node in 1..=self.made.nodes {
            let path = cluster.node_log(node);
            let file = fs::File::open(&path);
            let file = file.with_context(|| format!("cannot read {}", path.display()))?;
            for (number, line) in BufReader::new(file).split(b'\n').enumerate() {
                let line = line?;
                let line = String::from_utf8_lossy(&line);
                report.log_lines_searched += 1;
                let is_taken_up = line.contains("new connections are made by the new certificate");
                report.certificates_taken_up += u64::from(is_taken_up);
                if has_any(&line, &secrets) {
                    report.lines_with_secrets += 1;
                    if wrong.len() < VIOLATIONS_MAX {
                        // ‡ Not the line itself: it has a secret.
                        let number = number + 1;
                        wrong.push(format!("line {number} of {} has a secret", path.display()));
                    }
                }
            }
        }
        if report.certificates_renewed > 0 && report.certificates_taken_up == 0 {
            wrong.push("no node said that it took up a renewed certificate".to_owned());
        }
        Ok((report, wrong))
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
    }
}

fn has_any(line: &str, secrets: &[String]) -> bool {
    secrets.iter().any(|secret| line.contains(secret.as_str()))
}

/// The thread that renews and rotates.
struct Changing {
    made: Arc<Made>,
    keys: Arc<Keys>,
    stop: Arc<AtomicBool>,
    counts: Arc<[AtomicU64; 2]>,
    admin: Admin,
    each: Duration,
}

impl Changing {
    fn run(self) -> Result<()> {
        let mut due = Instant::now() + self.each;
        while !self.stop.load(Ordering::Acquire) {
            if Instant::now() < due {
                std::thread::sleep(PAUSE);
                continue;
            }
            due = Instant::now() + self.each;
            self.made.renew()?;
            self.counts[0].fetch_add(1, Ordering::Relaxed);
            let token = self.made.draw(TOKEN)?;
            let hash = hash_of(&token);
            let overlap_ms = OVERLAP.as_millis() as u64;
            let rotate = |client: &Client| client.rotate_token(TOKEN, &hash, overlap_ms).map(drop);
            self.admin.done_unless(&self.stop, rotate)?;
            let mut shown = self
                .keys
                .token
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *shown = credential(&token)?;
            self.counts[1].fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Asks at the sockets in the nodes' directories.
struct Admin {
    sockets: Vec<String>,
}

impl Admin {
    fn put(&self, name: &str, token: Option<&Token>, grants: &[&str]) -> Result<()> {
        let new = NewToken {
            name: name.to_owned(),
            sha256: token.map(hash_of),
            grants: grants.iter().map(ToString::to_string).collect(),
            expires_ms: None,
            once: false,
            replaces: None,
        };
        self.done(|client| client.create_token(&new).map(drop))
    }

    fn done(&self, ask: impl Fn(&Client) -> Result<(), client::AdminError>) -> Result<()> {
        self.done_unless(&AtomicBool::new(false), ask)
    }

    /// A cluster that is struck may need more than one try: each asks the same.
    fn done_unless(
        &self,
        stop: &AtomicBool,
        ask: impl Fn(&Client) -> Result<(), client::AdminError>,
    ) -> Result<()> {
        let until = Instant::now() + DONE_WITHIN;
        loop {
            let mut last = None;
            for socket in &self.sockets {
                match ask(&Client::new(vec![socket.clone()], timeouts())) {
                    Ok(()) => return Ok(()),
                    Err(error) => last = Some(error),
                }
            }
            if stop.load(Ordering::Acquire) {
                return Ok(());
            }
            if let Some(error) = last.filter(|_| Instant::now() > until) {
                return Err(error).context("who may do what cannot be changed");
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Made {
    fn own(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn secrets(&self) -> Vec<String> {
        let secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.clone()
    }

    fn note(&self, more: Vec<String>) {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        secrets.extend(more);
    }

    /// A token of that name, which nobody has had before.
    fn draw(&self, name: &str) -> Result<Token> {
        let mut bytes = [0; access::SECRET_BYTES];
        fs::File::open("/dev/urandom").and_then(|mut file| {
            use std::io::Read;
            file.read_exact(&mut bytes)
        })?;
        let token = Token {
            name: TokenName::new(name)?,
            secret: Secret::new(bytes),
        };
        let text = token.reveal();
        let secret = text.rsplit_once(&format!("{name}_"));
        let secret = secret.map_or(text.as_str(), |(_, secret)| secret);
        self.note(vec![secret.to_owned()]);
        Ok(token)
    }

    /// Gives everybody a new certificate.
    fn renew(&self) -> Result<()> {
        for node in 1..=self.nodes {
            let name = format!("n{node}");
            self.give(&name, &format!("{}{name}", tls::NODE_NAME), true)?;
        }
        let uri = format!("{}{CERTIFICATE}", tls::CLIENT_NAME);
        self.give(CERTIFICATE, &uri, false)
    }

    fn give(&self, name: &str, uri: &str, is_node: bool) -> Result<()> {
        let mut wants = CertificateParams::default();
        let uri = SanType::URI(uri.try_into()?);
        wants.subject_alt_names.push(uri);
        wants
            .extended_key_usages
            .push(ExtendedKeyUsagePurpose::ClientAuth);
        if is_node {
            let here = SanType::IpAddress([127, 0, 0, 1].into());
            wants.subject_alt_names.push(here);
            wants
                .extended_key_usages
                .push(ExtendedKeyUsagePurpose::ServerAuth);
        }
        let now = OffsetDateTime::now_utc();
        wants.not_before = now - time::Duration::minutes(1);
        wants.not_after = now + self.holds;
        let key = KeyPair::generate()?;
        let certificate = wants.signed_by(&key, &self.issuer)?.pem();
        let key = key.serialize_pem();
        self.note(lines_of(&key));
        let own = self.own(name);
        fs::create_dir_all(&own)?;
        write(&own.join("ca.crt"), &self.ca)?;
        // Whoever looks between the two finds that they do not fit, and looks again.
        write(&own.join("tls.key"), &key)?;
        write(&own.join("tls.crt"), &certificate)
    }
}

fn timeouts() -> Timeouts {
    Timeouts {
        total: ASK_WITHIN,
        ..Timeouts::default()
    }
}

fn credential(token: &Token) -> Result<Credential> {
    Ok(token.reveal().parse()?)
}

fn hash_of(token: &Token) -> String {
    formats::hex(&token.secret.hash().to_bytes())
}

/// The lines of a key that nobody could have written by chance.
fn lines_of(pem: &str) -> Vec<String> {
    let lines = pem.lines().filter(|line| !line.starts_with('-'));
    let lines = lines.filter(|line| line.len() >= KEY_LINE_LETTERS_MIN);
    lines.map(str::to_owned).collect()
}

/// Replaces a file at once.
fn write(path: &Path, text: &str) -> Result<()> {
    let aside = path.with_extension("new");
    let _ = fs::remove_file(&aside);
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&aside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_any_secret_that_was_made_is_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let prepared = Prepared::make(directory.path(), 2, EACH).expect("certificates");
        let token = prepared.made.draw(TOKEN).expect("a token");
        let secrets = prepared.made.secrets();
        let keys = ["n1", "n2", CERTIFICATE].map(|name| {
            let path = directory.path().join(name).join("tls.key");
            fs::read_to_string(path).expect("a key")
        });
        for key in &keys {
            assert!(
                key.lines()
                    .any(|line| has_any(&format!("key={line}"), &secrets))
            );
        }
        assert!(has_any(&format!("said {}", token.reveal()), &secrets));
        assert!(
            !has_any(&format!("said {token}"), &secrets),
            "it shows its name alone"
        );
        // A renewed one is another secret.
        prepared.made.renew().expect("certificates");
        assert!(prepared.made.secrets().len() > secrets.len());
    }
}
