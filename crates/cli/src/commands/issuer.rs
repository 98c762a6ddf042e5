//! `logberg issuer`: whoever signs tickets for users of its own.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use client::admin::IssuerTold;
use client::answer::Code;
use client::{AdminError, Client};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;
use terminal::exit::Failure;
use terminal::show;
use tickets::{AGE_MS_MAX, Audience, Claims, PublicKey, SigningKey};

use super::heard;
use super::token::{deed, deeds, grant, moment, name};
use crate::confirm::confirmed;
use crate::global::Global;

/// Issuers of tickets: make, list and remove them, and sign a ticket
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key for an issuer: FILE, and FILE.pub with its public half
    #[command(after_help = "\
`openssl genpkey -algorithm ed25519` makes one as well. Whoever has FILE signs tickets; the cluster is given FILE.pub.

Example:
  logberg issuer key backend.key")]
    Key {
        /// Must not be there yet
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Let somebody sign tickets, which may do no more than this says
    #[command(after_help = "\
A ticket is a compact JWS (EdDSA or ES256) that a backend signs for users of its own, for 24 hours at most: nobody asks the cluster for it.
It is shown where a token is, and may do what it says itself, as far as its issuer may. Of a key the public half is kept. Tickets
administer nothing: they make no tokens and change no members, so no issuer may.

Examples:
  logberg issuer add backend --public-key backend.key.pub --allow 'read on stream/default/chat/*'
  logberg issuer add backend --public-key old.pub --public-key new.pub --allow 'read on stream/default/chat/*' --replace")]
    Add {
        /// The `iss` of its tickets: 1 to 64 lower-case letters, digits, '-' or '.'
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        /// A file with a public key, Ed25519 or P-256, as openssl writes it; up to four times
        #[arg(long, value_name = "FILE", required = true)]
        public_key: Vec<PathBuf>,
        /// A grant; may be given several times
        #[arg(long, value_name = "GRANT", required = true, value_parser = grant)]
        allow: Vec<String>,
        /// In the place of the one of that name: tickets by keys that are gone are good no more
        #[arg(long)]
        replace: bool,
    },
    /// List all issuers, and what their tickets may at most
    #[command(after_help = "\
Example:
  logberg issuer list")]
    List,
    /// Show one issuer and its keys
    #[command(after_help = "\
Example:
  logberg issuer show backend")]
    Show {
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
    },
    /// Remove an issuer: its tickets are good no more
    #[command(after_help = "\
One ticket is not revoked by itself: they are short. Each node ends the connections of its tickets when it hears of it. With --wait the command
returns once every node has heard, and ends with 10 if some have not within --timeout: it names them.

Examples:
  logberg issuer remove backend --plan
  logberg issuer remove backend --yes --wait")]
    Remove {
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        /// Only say what would be removed
        #[arg(long)]
        plan: bool,
        /// Return once every node has heard
        #[arg(long, conflicts_with = "plan")]
        wait: bool,
        /// Confirm (required, except on a terminal, where it is asked)
        #[arg(long)]
        yes: bool,
    },
    /// Sign a ticket, and print it
    #[command(after_help = "\
This is what a backend does by itself, with any library for JWT. With --cluster nobody is asked for anything.

Example:
  logberg issuer ticket backend --signing-key backend.key --subject alice --allow 'read on stream/default/chat/42' --expires 1h")]
    Ticket {
        /// The issuer
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        /// A file with its private key
        #[arg(long, value_name = "FILE")]
        signing_key: PathBuf,
        /// Its user, by any name: lists and the audit show NAME/USER
        #[arg(long, value_name = "USER")]
        subject: String,
        /// A grant; may be given several times
        #[arg(long, value_name = "GRANT", required = true, value_parser = grant)]
        allow: Vec<String>,
        /// After so long it is good no more, 24h at most
        #[arg(long, value_name = "TIME", default_value = "1h", value_parser = expires)]
        expires: Duration,
    },
}

fn expires(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let is_short = time >= Duration::from_secs(1) && time <= Duration::from_millis(AGE_MS_MAX);
    match is_short {
        true => Ok(time),
        false => Err("a ticket is good for a second at least and 24h at most".to_owned()),
    }
}

/// An issuer as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    keys: Vec<String>,
    grants: Vec<String>,
    by: String,
    changed_at: String,
}

impl From<IssuerTold> for Shown {
    fn from(told: IssuerTold) -> Shown {
        Shown {
            name: told.name,
            keys: told.keys,
            grants: told.grants,
            by: told.by,
            changed_at: moment(told.changed_ms),
        }
    }
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        match self.command {
            Command::Key { file } => make_key(global, &file),
            Command::Add {
                name,
                public_key,
                allow,
                replace,
            } => {
                let keys = public_key.iter().map(|path| public(path));
                let keys = keys.collect::<Result<Vec<String>>>()?;
                let client = global.client();
                said(global, client.put_issuer(&name, keys, allow, replace)?)
            }
            Command::List => {
                let issuers = global.client().issuers()?;
                match global.json {
                    true => {
                        show::print_json(&issuers.into_iter().map(Shown::from).collect::<Vec<_>>())
                    }
                    false => list(&issuers),
                }
            }
            Command::Show { name } => {
                let issuer = global.client().issuer(&name)?;
                match global.json {
                    true => show::print_json(&Shown::from(issuer)),
                    false => show_one(&issuer),
                }
            }
            Command::Remove {
                name,
                plan,
                wait,
                yes,
            } => remove(global, &name, (plan, wait, yes)),
            Command::Ticket {
                name,
                signing_key,
                subject,
                allow,
                expires,
            } => {
                let key = private(&signing_key)?;
                let cluster = match &global.cluster {
                    Some(cluster) => cluster.clone(),
                    None => global.client().status()?.cluster,
                };
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
                let claims = Claims {
                    iss: name,
                    sub: subject,
                    aud: Audience::One(cluster),
                    iat: now,
                    exp: now + expires.as_secs(),
                    nbf: None,
                    allow,
                };
                print_ticket(global, &claims, &key)
            }
        }
    }
}

fn make_key(global: &Global, file: &Path) -> Result<()> {
    let mut seed = [0; 32];
    getrandom(&mut seed, GetRandomFlags::empty()).context("the system gave no random bytes")?;
    let public = SigningKey::of_seed(&seed)?.public();
    let beside = PathBuf::from(format!("{}.pub", file.display()));
    write_new(file, &tickets::pem_of_seed(&seed), 0o600)?;
    write_new(&beside, &public.pem(), 0o644)?;
    #[derive(Serialize)]
    struct Made {
        private: String,
        public: String,
        key: String,
    }
    let made = Made {
        private: file.display().to_string(),
        public: beside.display().to_string(),
        key: public.to_string(),
    };
    match global.json {
        true => show::print_json(&made),
        false => show::print(format_args!(
            "{} signs tickets: keep it; {} is for `logberg issuer add`",
            made.private, made.public
        )),
    }
}

fn write_new(path: &Path, text: &str, mode: u32) -> Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    let mut file = file.with_context(|| format!("{} cannot be made", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}

fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path);
    Ok(text.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?)
}

fn public(path: &Path) -> Result<String> {
    let key = PublicKey::read(&read(path)?);
    let key = key.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    Ok(key.to_string())
}

fn private(path: &Path) -> Result<SigningKey> {
    let key = SigningKey::read(&read(path)?);
    Ok(key.map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?)
}

fn print_ticket(global: &Global, claims: &Claims, key: &SigningKey) -> Result<()> {
    let signed = tickets::sign(claims, key);
    let long = || {
        Failure::usage(
            "the ticket would be longer than 4096 bytes: say fewer grants, or shorter ones",
        )
    };
    let ticket = signed.ok_or_else(long)?.reveal().to_owned();
    if !global.json {
        return show::print(&ticket);
    }
    #[derive(Serialize)]
    struct Signed {
        ticket: String,
        issuer: String,
        subject: String,
        grants: Vec<String>,
        expires_at: String,
    }
    show::print_json(&Signed {
        ticket,
        issuer: claims.iss.clone(),
        subject: claims.sub.clone(),
        grants: claims.allow.clone(),
        expires_at: moment(claims.exp.saturating_mul(1000)),
    })
}

fn remove(global: &Global, name: &str, (plan, wait, yes): (bool, bool, bool)) -> Result<()> {
    let client = global.client();
    let nodes = wait.then(|| client.nodes()).transpose()?;
    let told = match client.plan_remove_issuer(name) {
        Ok(told) => told,
        // The command is repeated: what was chosen may not be known everywhere yet.
        Err(AdminError::Refused { server, refusal }) if refusal.code == Code::UnknownIssuer => {
            if let Some(nodes) = &nodes {
                heard::wait(&client, nodes, &format!("there is no issuer {name}"))?;
            }
            return Err(AdminError::Refused { server, refusal }.into());
        }
        Err(error) => return Err(error.into()),
    };
    let mut heard_by = None;
    if !plan {
        let may = deeds(&told.grants);
        let what = format!("this ends the tickets of {name}, which may {may}");
        confirmed(&what, yes)?;
        heard_by = really_remove(&client, name, nodes.as_deref())?;
    }
    #[derive(Serialize)]
    struct Removed {
        plan: bool,
        /// With --wait: the nodes, each of which has heard.
        #[serde(skip_serializing_if = "Option::is_none")]
        heard_by: Option<Vec<u64>>,
        #[serde(flatten)]
        shown: Shown,
    }
    if global.json {
        let shown = told.into();
        return show::print_json(&Removed {
            plan,
            heard_by,
            shown,
        });
    }
    show::print(format_args!(
        "issuer {name} {} removed; its tickets {} {}{}",
        if plan { "would be" } else { "is" },
        if plan { "may" } else { "could" },
        deeds(&told.grants),
        heard::said(heard_by.as_deref())
    ))
}

fn really_remove(
    client: &Client,
    name: &str,
    nodes: Option<&[client::admin::NodeStatus]>,
) -> Result<Option<Vec<u64>>> {
    client.remove_issuer(name)?;
    let done = format!("issuer {name} is removed");
    let heard_by = nodes.map(|nodes| heard::wait(client, nodes, &done));
    Ok(heard_by.transpose()?)
}

fn said(global: &Global, told: IssuerTold) -> Result<()> {
    match global.json {
        true => show::print_json(&Shown::from(told)),
        false => show::print(format_args!(
            "tickets of {} may {}",
            told.name,
            deeds(&told.grants)
        )),
    }
}

fn list(issuers: &[IssuerTold]) -> Result<()> {
    let mut table = show::table(&["ISSUER", "KEYS", "TICKETS MAY"]);
    for issuer in issuers {
        let keys = issuer.keys.len().to_string();
        table.add_row([issuer.name.clone(), keys, issuer.grants.join("; ")]);
    }
    show::print(show::lines(&table))
}

fn show_one(issuer: &IssuerTold) -> Result<()> {
    let mut lines = vec![format!("issuer {}", issuer.name)];
    let may = issuer
        .grants
        .iter()
        .map(|grant| format!("  tickets may {}", deed(grant)));
    lines.extend(may);
    lines.extend(issuer.keys.iter().map(|key| format!("  key {key}")));
    let changed = moment(issuer.changed_ms);
    lines.push(format!("  by {}, {changed}", issuer.by));
    show::print(lines.join("\n"))
}
