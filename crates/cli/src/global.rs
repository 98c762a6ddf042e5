//! The arguments that every command understands.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use client::{Client, Credential, Timeouts, Transport};
use terminal::exit::Failure;
use terminal::program::LogFormat;
use tls::{Named, Trust};

/// Longer than anybody waits, and short enough to be added to any time.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

#[derive(Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Global {
    /// Nodes to ask, in this order; others are learned from those that answer
    #[arg(
        long,
        global = true,
        value_name = "HOST:PORT|unix:PATH,…",
        env = "LOGBERG_SERVER",
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = server,
        default_value = "127.0.0.1:7117,127.0.0.1:7118,127.0.0.1:7119"
    )]
    pub server: Vec<String>,
    /// Talk to no other cluster than that with this id, which `logberg status --json` tells: after a rescue
    /// nodes of the lost one may come back
    #[arg(long, global = true, value_name = "ID", env = "LOGBERG_CLUSTER", hide_env_values = true, value_parser = cluster)]
    pub cluster: Option<String>,
    /// A file with the token to show, as `logberg token create` printed it, or with a ticket of an issuer; else the one in LOGBERG_TOKEN
    #[arg(long, global = true, value_name = "FILE", env = "LOGBERG_TOKEN_FILE", hide_env_values = true, value_parser = token_file)]
    pub token_file: Option<Credential>,
    /// A file with the authority whose certificates of nodes to believe: connections are made by TLS, and by nothing else
    #[arg(long, global = true, value_name = "FILE", env = "LOGBERG_CA", hide_env_values = true, value_parser = authority)]
    pub ca: Option<Arc<Trust>>,
    /// A file with a client's certificate to show (`logberg certs client`), whose name was bound (`logberg token bind-certificate`)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "LOGBERG_CERT",
        hide_env_values = true
    )]
    pub cert: Option<PathBuf>,
    /// A file with its key
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "LOGBERG_KEY",
        hide_env_values = true
    )]
    pub key: Option<PathBuf>,
    /// Give up after this long without progress: seconds, or `never`
    #[arg(long, global = true, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub timeout: Duration,
    /// Answers and errors as JSON, for machines
    #[arg(long, global = true)]
    pub json: bool,
    /// How to write log lines, which go to standard error
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

impl Global {
    pub fn client(&self) -> Client {
        self.client_within(self.timeout)
    }

    /// A client that gives up after this long, or earlier if somebody said so.
    pub fn client_within(&self, timeout: Duration) -> Client {
        let defaults = Timeouts::default();
        let total = self.timeout.min(timeout);
        let timeouts = Timeouts {
            connect: defaults.connect.min(total),
            silence: defaults.silence.min(total),
            total,
        };
        let servers = self.server.clone();
        let client = match &self.cluster {
            Some(cluster) => Client::of_cluster(servers, cluster, timeouts),
            None => Client::new(servers, timeouts),
        };
        client.showing(self.token_file.clone()).by(self.transport())
    }

    /// By which connections to nodes are made private, if they are.
    pub fn transport(&self) -> Option<Arc<dyn Transport>> {
        Some(self.ca.clone()?)
    }

    /// Takes the certificate that was named, and its key.
    ///
    /// Errors: one is named without the other, or without an authority, or they do not fit.
    pub fn take_certificate(&mut self) -> Result<(), Failure> {
        let (certificate, key, ca) = match (&self.cert, &self.key, &self.ca) {
            (None, None, _) => return Ok(()),
            (Some(certificate), Some(key), Some(ca)) => (certificate, key, ca),
            (Some(_), Some(_), None) => {
                let sentence = "--cert is shown by TLS alone: say --ca FILE, too, with the authority of the nodes";
                return Err(Failure::usage(sentence));
            }
            (Some(_), None, _) | (None, Some(_), _) => {
                let sentence =
                    "--cert FILE and --key FILE are said together: a certificate and its key";
                return Err(Failure::usage(sentence));
            }
        };
        let named =
            Named::of_file(certificate).map_err(|error| Failure::usage(error.to_string()))?;
        if named.client.is_none() {
            let sentence = format!(
                "{} names no client: a client's certificate has the URI logberg:client:NAME (`logberg certs client NAME` makes one)",
                certificate.display()
            );
            return Err(Failure::usage(sentence));
        }
        let shown = ca.showing(certificate, key);
        let shown = shown.map_err(|error| Failure::usage(error.to_string()))?;
        self.ca = Some(Arc::new(shown));
        Ok(())
    }

    /// Takes the token of the environment, where no file was named.
    ///
    /// Errors: it is none. ‡ It is not shown.
    pub fn take_token(&mut self) -> Result<(), Failure> {
        if self.token_file.is_none()
            && let Some(text) = std::env::var_os(TOKEN).filter(|text| !text.is_empty())
        {
            let text = text.to_str().unwrap_or_default();
            let wrong = |error: access::BadToken| Failure::usage(format!("{TOKEN}: {error}"));
            self.token_file = Some(text.parse().map_err(wrong)?);
        }
        Ok(())
    }
}

/// How the path of a socket begins, where a server is on this machine.
const UNIX: &str = "unix:";

/// The variable of the environment with a token.
const TOKEN: &str = "LOGBERG_TOKEN";
/// No file with a token is longer.
const TOKEN_FILE_BYTES_MAX: u64 = 8 << 10;

/// The token in a file.
fn token_file(path: &str) -> Result<Credential, String> {
    let read = || {
        let mut text = String::new();
        let mut file = File::open(path)?.take(TOKEN_FILE_BYTES_MAX);
        file.read_to_string(&mut text).map(|_| text)
    };
    let text = read().map_err(|error| format!("cannot be read: {error}"))?;
    text.parse()
        .map_err(|error: access::BadToken| error.to_string())
}

fn authority(path: &str) -> Result<Arc<Trust>, String> {
    let read = Trust::read(Path::new(path));
    read.map(Arc::new).map_err(|error| error.to_string())
}

fn server(text: &str) -> Result<String, String> {
    if let Some(path) = text.strip_prefix(UNIX) {
        return match path.is_empty() {
            true => Err(
                "unix: is followed by the path of a socket, such as unix:d1/admin.sock".to_owned(),
            ),
            false => Ok(text.to_owned()),
        };
    }
    let port = text
        .rsplit_once(':')
        .map(|(host, port)| (host, port.parse::<u16>()));
    match port {
        Some((host, Ok(_))) if !host.is_empty() => Ok(text.to_owned()),
        _ => Err("a server is HOST:PORT, such as 127.0.0.1:7117, or unix:PATH".to_owned()),
    }
}

fn cluster(text: &str) -> Result<String, String> {
    let lengths = text.split('-').map(str::len);
    let is_hex = |c: char| c == '-' || matches!(c, '0'..='9' | 'a'..='f');
    match lengths.eq([8, 4, 4, 4, 12]) && text.chars().all(is_hex) {
        true => Ok(text.to_owned()),
        false => Err("an id as `logberg status --json` tells it under `cluster`".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong =
        || "a time in seconds, more than 0 and at most a day, such as 2.5; or never".to_owned();
    if text == "never" {
        return Ok(NEVER);
    }
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    match seconds > 0.0 && seconds <= 86_400.0 {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_may_be_never() {
        assert_eq!(seconds("never"), Ok(NEVER));
        assert_eq!(seconds("2.5"), Ok(Duration::from_millis(2500)));
        for text in ["0", "-1", "Never", "1e9", "NaN", "inf", ""] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_server_without_a_port_is_refused() {
        for text in ["", "host", "host:", ":7117", "host:70000", "unix:"] {
            assert!(server(text).is_err(), "{text}");
        }
        assert!(server("[::1]:7117").is_ok());
        assert!(server("unix:d1/admin.sock").is_ok());
    }
}
