//! `logberg certs`: certificates for a cluster without an authority of its own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use serde::Serialize;
use terminal::exit::{Failure, Kind};
use terminal::show;
use tls::{CERTIFICATE_FILE, Named};

use crate::certs::{Authority, Whose, node_name};
use crate::global::Global;

/// Make certificates for nodes and clients, for development and small clusters
#[derive(Debug, Args)]
#[command(after_help = "\
Whatever gives out certificates does as well: a node needs tls.crt, tls.key and ca.crt in one directory (--tls-dir), and its
certificate the URI logberg:node:NAME besides the names and addresses under which clients dial it.

Example:
  logberg certs init --dir certs
  logberg certs node n1 --dir certs --host 10.0.0.1,n1.example
  logberg node --data d1 --listen 10.0.0.1:7117 --bootstrap --tls require --tls-dir certs/n1
  logberg status --server 10.0.0.1:7117 --ca certs/ca.crt")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make an authority
    #[command(after_help = "\
DIR/ca.crt is for every node and client. Whoever has DIR/ca.key makes nodes: keep it away from the machines that run them.

Example:
  logberg certs init --dir certs")]
    Init {
        /// Holds the authority; made if it does not exist
        #[arg(long, value_name = "DIR", default_value = "certs")]
        dir: PathBuf,
    },
    /// Make the certificate of a node
    #[command(after_help = "\
Renewed (--again), it is taken up by a running node within ten seconds, and open connections go on.

Example:
  logberg certs node n1 --dir certs --host 10.0.0.1,n1.example
  logberg certs node n1 --dir certs --host 10.0.0.1,n1.example --again")]
    Node {
        /// As the node is called in its certificate; a renewed one keeps the name
        #[arg(value_name = "NAME", value_parser = node_name)]
        name: String,
        /// The names and addresses under which it is dialled, without ports
        #[arg(long, value_name = "HOST,…", value_delimiter = ',', required = true, value_parser = host)]
        host: Vec<String>,
        /// Holds the authority
        #[arg(long, value_name = "DIR", default_value = "certs")]
        dir: PathBuf,
        /// How long it holds
        #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
        /// Put a new one in the place of the one that is there
        #[arg(long)]
        again: bool,
    },
    /// Make the certificate of a client
    #[command(after_help = "\
It is nobody's until something is granted to its name: `logberg token bind-certificate NAME --allow …`. A renewed one (--again) keeps the
name; commands take it up with their next connection.

Example:
  logberg certs client alice --dir certs
  logberg token bind-certificate alice --allow 'all on key/app:*' --token-file root.token
  logberg auth whoami --ca certs/ca.crt --cert certs/alice/tls.crt --key certs/alice/tls.key")]
    Client {
        /// 1 to 64 lower-case letters, digits, '-' or '.'
        #[arg(value_name = "NAME", value_parser = client_name)]
        name: String,
        /// Holds the authority
        #[arg(long, value_name = "DIR", default_value = "certs")]
        dir: PathBuf,
        /// How long it holds
        #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
        /// Put a new one in the place of the one that is there
        #[arg(long)]
        again: bool,
    },
    /// Revoke a certificate: nodes with --tls-crl DIR/ca.crl let in no more whoever shows it
    #[command(after_help = "\
DIR/ca.crl lists all that were revoked. Give it to each node, which reads it within ten seconds and at SIGHUP. Connections that are open go
on: end a client's with `logberg token revoke NAME`, and a node's with `logberg members remove`.

Example:
  logberg certs revoke certs/alice --dir certs
  logberg node --data d1 --listen 10.0.0.1:7117 --tls require --tls-dir certs/n1 --tls-crl certs/ca.crl")]
    Revoke {
        /// The certificate, or a directory with tls.crt
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
        /// Holds the authority
        #[arg(long, value_name = "DIR", default_value = "certs")]
        dir: PathBuf,
    },
    /// Show what a certificate says
    #[command(after_help = "\
Example:
  logberg certs show certs/n1
  logberg certs show certs/n1/tls.crt --json")]
    Show {
        /// The certificate, or a directory with tls.crt
        #[arg(value_name = "FILE|DIR")]
        path: PathBuf,
    },
}

#[derive(Serialize)]
struct Made {
    directory: PathBuf,
    ca: PathBuf,
}

#[derive(Serialize)]
struct Revoked {
    list: PathBuf,
}

#[derive(Serialize)]
struct Shown {
    path: PathBuf,
    node: Option<String>,
    client: Option<String>,
    hosts: Vec<String>,
    expires: String,
    has_expired: bool,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        match self.command {
            Command::Init { dir } => {
                let authority = Authority::make(&dir)?;
                let ca = authority.file();
                let said = format!(
                    "{} is for nodes and clients (--ca); keep {} for yourself",
                    ca.display(),
                    dir.join("ca.key").display()
                );
                made(global, dir, ca, &said)
            }
            Command::Node {
                name,
                host,
                dir,
                days,
                again,
            } => {
                let authority = Authority::open(&dir)?;
                let into = authority.give(&Whose::Node(&name, &host), days, again)?;
                let said = format!("{} is for --tls-dir of node {name}", into.display());
                made(global, into, authority.file(), &said)
            }
            Command::Client {
                name,
                dir,
                days,
                again,
            } => {
                let authority = Authority::open(&dir)?;
                let into = authority.give(&Whose::Client(&name), days, again)?;
                let said = format!(
                    "{}/tls.crt and tls.key are for --cert and --key of client {name}",
                    into.display()
                );
                made(global, into, authority.file(), &said)
            }
            Command::Revoke { path, dir } => {
                let path = match path.is_dir() {
                    true => path.join(CERTIFICATE_FILE),
                    false => path,
                };
                let list = Authority::open(&dir)?.revoke(&path)?;
                let said = format!(
                    "{} is revoked; give {} to each node (--tls-crl)",
                    path.display(),
                    list.display()
                );
                match global.json {
                    true => show::print_json(&Revoked { list }),
                    false => show::print(said),
                }
            }
            Command::Show { path } => show_one(global, &path),
        }
    }
}

fn made(global: &Global, directory: PathBuf, ca: PathBuf, said: &str) -> Result<()> {
    match global.json {
        true => show::print_json(&Made { directory, ca }),
        false => show::print(said),
    }
}

fn show_one(global: &Global, path: &Path) -> Result<()> {
    let path = match path.is_dir() {
        true => path.join(CERTIFICATE_FILE),
        false => path.to_owned(),
    };
    let named = Named::of_file(&path).map_err(|error| match &error {
        tls::TlsError::Io { error: io, .. } if io.kind() == std::io::ErrorKind::NotFound => {
            Failure::new(Kind::NotFound, error.to_string())
        }
        _ => Failure::new(Kind::Failure, error.to_string()),
    })?;
    let has_expired = named.not_after < std::time::SystemTime::now();
    let expires = humantime::format_rfc3339_seconds(named.not_after).to_string();
    if global.json {
        return show::print_json(&Shown {
            path,
            node: named.node,
            client: named.client,
            hosts: named.hosts,
            expires,
            has_expired,
        });
    }
    let whose = match (&named.node, &named.client) {
        (Some(node), _) => format!("of node {node}"),
        (None, Some(client)) => format!("of client {client}"),
        (None, None) => "of no node or client".to_owned(),
    };
    let until = match has_expired {
        true => "expired at",
        false => "holds until",
    };
    show::print(format_args!(
        "{}: {whose}; hosts: {}; {until} {expires}",
        path.display(),
        match named.hosts.is_empty() {
            true => "none".to_owned(),
            false => named.hosts.join(", "),
        }
    ))
    .context("cannot say so")
}

/// A client is called as tokens are: one list has both.
fn client_name(text: &str) -> Result<String, String> {
    let name = access::TokenName::new(text);
    let name = name.map_err(|error| error.to_string().replace("a token's", "a client's"))?;
    Ok(name.as_str().to_owned())
}

/// A name or an address, without a port.
fn host(text: &str) -> Result<String, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let is_name = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.*".contains(c);
        !text.is_empty() && text.chars().all(plain)
    };
    match bare.parse::<std::net::IpAddr>().is_ok() || is_name(bare) {
        true => Ok(bare.to_owned()),
        false => Err("a host is a name or an address without a port, such as 10.0.0.1".to_owned()),
    }
}
