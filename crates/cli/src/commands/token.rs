//! `logberg token`: who may do what.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use access::{Secret, Token, TokenName};
use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use client::admin::{NewToken, TokenTold};
use client::answer::Code;
use client::{AdminError, Client};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;
use terminal::exit::Failure;
use terminal::show;

use super::heard;
use crate::confirm::confirmed;
use crate::global::Global;

/// Tokens: make, list, change and revoke them
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token, and print it once
    #[command(after_help = "\
A grant is OPERATION,… on RESOURCE. Operations: read, append, create, delete, trim, lead, status, members, tokens, join,
all. Resources: log/NAME, stream/SPACE/PATH, key/PREFIX, cluster, *; a * at the end means all that begin so.

The secret is drawn here and printed here: the cluster keeps its SHA-256 alone. Whoever makes a token may give it no
more than he may do himself. The first one is made over the socket in a node's directory, where no token is needed.

Examples:
  logberg token create root --allow 'all on *' --server unix:/var/lib/logberg/admin.sock
  logberg token create ci --allow 'append,read on log/ci-*' --expires 90d
  logberg token create n4 --allow 'join on cluster' --expires 1h --once")]
    Create {
        /// 1 to 64 lower-case letters, digits, '-' or '.'
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        /// A grant; may be given several times
        #[arg(long, value_name = "GRANT", required = true, value_parser = grant)]
        allow: Vec<String>,
        /// After so long it is good no more, such as 90d or 12h; never, if nothing is said
        #[arg(long, value_name = "TIME", value_parser = expires)]
        expires: Option<Duration>,
        /// Good for one node that joins, and for no other
        #[arg(long)]
        once: bool,
        /// With --once: who joins comes in the place of that node, which lost its disk, and gets its certificate's name
        #[arg(long, value_name = "ID", requires = "once", value_parser = clap::value_parser!(u32).range(1..))]
        replaces: Option<u32>,
    },
    /// Grant something to a client's certificate, by the name in it
    #[command(after_help = "\
A client shows its certificate when it connects (--cert, --key; any client by TLS), and needs no token then. What is granted goes by the
name in it, logberg:client:NAME, and a renewed certificate keeps that. Until a name is bound its certificate is nobody's. `logberg token
revoke NAME` takes it back, and ends its connections.

Example:
  logberg certs client alice --dir certs
  logberg token bind-certificate alice --allow 'all on key/app:*' --token-file root.token")]
    BindCertificate {
        /// As the certificate names its client: 1 to 64 lower-case letters, digits, '-' or '.'
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        /// A grant; may be given several times
        #[arg(long, value_name = "GRANT", required = true, value_parser = grant)]
        allow: Vec<String>,
        /// After so long it is good no more, such as 90d or 12h; for as long as there is a certificate, if nothing is said
        #[arg(long, value_name = "TIME", value_parser = expires)]
        expires: Option<Duration>,
    },
    /// List all tokens and certificates, and what they may do
    #[command(after_help = "\
Secrets are not in the cluster, and not in the list.

Example:
  logberg token list")]
    List,
    /// Show one token
    #[command(after_help = "\
Example:
  logberg token show ci")]
    Show {
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
    },
    /// Revoke a token, for good
    #[command(after_help = "\
Each node ends the connections of that token when it hears of it, which is at once where it is reached. A node that is
cut off goes on until it is reached again. With --wait the command returns once every node has heard, and ends with 10 if
some have not within --timeout: it names them. The same command again waits on, and says at last that there is no such token (5).

Examples:
  logberg token revoke ci --plan       # says what it may do now
  logberg token revoke ci --yes --wait")]
    Revoke {
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        /// Only say what would be revoked
        #[arg(long)]
        plan: bool,
        /// Return once every node has heard
        #[arg(long, conflicts_with = "plan")]
        wait: bool,
        /// Confirm (required, except on a terminal, where it is asked)
        #[arg(long)]
        yes: bool,
    },
    /// Give a token a new secret, and print it once
    #[command(after_help = "\
Two secrets are good for a while, so that whoever uses the token has time to take the new one. What it may do, and when
it expires, stays.

Example:
  logberg token rotate ci --overlap 1d")]
    Rotate {
        #[arg(value_name = "NAME", value_parser = name)]
        name: String,
        /// The secret before is good as well for so long; not at all, with 0s
        #[arg(long, value_name = "TIME", default_value = "1d", value_parser = humantime::parse_duration)]
        overlap: Duration,
    },
}

pub fn name(text: &str) -> Result<String, String> {
    let name = TokenName::new(text).map_err(|error| error.to_string())?;
    Ok(name.as_str().to_owned())
}

/// How long a token is to be good.
fn expires(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match time >= Duration::from_secs(1) {
        true => Ok(time),
        false => Err(
            "such a token would have expired before anybody could show it: say a second at least, as in 90d or 12h, or leave --expires away for one that is good until it is revoked"
                .to_owned(),
        ),
    }
}

pub fn grant(text: &str) -> Result<String, String> {
    let said = |error: access::BadGrant| error.to_string();
    let grant: access::Grant = text.parse().map_err(said)?;
    grant.check_form().map_err(said)?;
    Ok(grant.to_string())
}

/// A token as `--json` prints it.
#[derive(Serialize)]
struct Shown {
    name: String,
    /// It has no secret: its owner shows a client's certificate of that name.
    by_certificate: bool,
    grants: Vec<String>,
    expires_at: Option<String>,
    has_expired: bool,
    /// Until then the secret before is good as well.
    overlap_until: Option<String>,
    /// Good for one node that joins.
    once: bool,
    /// … in the place of that one, whose disk is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaces: Option<u32>,
    /// That node, once it has joined.
    joined: Option<u32>,
    by: String,
    changed_at: String,
}

/// A token as it is printed: once, and with its secret.
#[derive(Serialize)]
struct Made {
    token: String,
    #[serde(flatten)]
    shown: Shown,
}

impl From<TokenTold> for Shown {
    fn from(told: TokenTold) -> Shown {
        Shown {
            name: told.name,
            by_certificate: told.by_certificate,
            grants: told.grants,
            expires_at: told.expires_ms.map(moment),
            has_expired: told.has_expired,
            overlap_until: told.overlap_until_ms.map(moment),
            once: told.once,
            replaces: told.replaces,
            joined: told.joined,
            by: told.by,
            changed_at: moment(told.changed_ms),
        }
    }
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            Command::Create {
                name,
                allow,
                expires,
                once,
                replaces,
            } => {
                let token = draw(&name)?;
                let told = client.create_token(&NewToken {
                    name,
                    sha256: Some(hash_of(&token)),
                    grants: allow,
                    expires_ms: expires.map(after).transpose()?,
                    once,
                    replaces,
                })?;
                print_made(global, &token, told)
            }
            Command::BindCertificate {
                name,
                allow,
                expires,
            } => {
                let told = client.create_token(&NewToken {
                    name,
                    sha256: None,
                    grants: allow,
                    expires_ms: expires.map(after).transpose()?,
                    once: false,
                    replaces: None,
                })?;
                match global.json {
                    true => show::print_json(&Shown::from(told)),
                    false => show::print(format_args!(
                        "certificate {} may {}",
                        told.name,
                        deeds(&told.grants)
                    )),
                }
            }
            Command::List => {
                let tokens = client.tokens()?;
                match global.json {
                    true => {
                        show::print_json(&tokens.into_iter().map(Shown::from).collect::<Vec<_>>())
                    }
                    false => list(&tokens),
                }
            }
            Command::Show { name } => {
                let token = client.token(&name)?;
                match global.json {
                    true => show::print_json(&Shown::from(token)),
                    false => show_one(&token),
                }
            }
            Command::Revoke {
                name,
                plan,
                wait,
                yes,
            } => {
                let how = How { plan, wait, yes };
                revoke(&client, global, &name, how)
            }
            Command::Rotate { name, overlap } => {
                let token = draw(&name)?;
                let overlap_ms = u64::try_from(overlap.as_millis()).unwrap_or(u64::MAX);
                let told = client.rotate_token(&name, &hash_of(&token), overlap_ms)?;
                print_made(global, &token, told)
            }
        }
    }
}

/// How a token is to be revoked.
struct How {
    plan: bool,
    wait: bool,
    yes: bool,
}

fn revoke(client: &Client, global: &Global, name: &str, how: How) -> Result<()> {
    let How { plan, wait, yes } = how;
    // ‡ Before the change: the token that asks may be the one that is revoked.
    let nodes = wait.then(|| client.nodes()).transpose()?;
    let told = match client.plan_revoke_token(name) {
        Ok(told) => told,
        // The command is repeated: what was chosen may not be known everywhere yet.
        Err(AdminError::Refused { server, refusal }) if refusal.code == Code::UnknownToken => {
            if let Some(nodes) = &nodes {
                heard::wait(client, nodes, &format!("there is no token {name}"))?;
            }
            return Err(AdminError::Refused { server, refusal }.into());
        }
        Err(error) => return Err(error.into()),
    };
    let kind = kind(&told);
    let mut heard_by = None;
    if !plan {
        let what = format!(
            "this revokes {kind} {name}, which may {}, and ends its connections",
            deeds(&told.grants)
        );
        confirmed(&what, yes)?;
        client.revoke_token(name)?;
        if let Some(nodes) = &nodes {
            let done = format!("{kind} {name} is revoked");
            heard_by = Some(heard::wait(client, nodes, &done)?);
        }
    }
    #[derive(Serialize)]
    struct Revoked {
        plan: bool,
        /// With --wait: the nodes, each of which has heard.
        #[serde(skip_serializing_if = "Option::is_none")]
        heard_by: Option<Vec<u64>>,
        #[serde(flatten)]
        shown: Shown,
    }
    let would = if plan { "would be" } else { "is" };
    match global.json {
        true => show::print_json(&Revoked {
            plan,
            heard_by,
            shown: told.into(),
        }),
        false => show::print(format_args!(
            "{kind} {name} {would} revoked; {} {}{}",
            if plan { "it may" } else { "it could" },
            deeds(&told.grants),
            heard::said(heard_by.as_deref())
        )),
    }
}

/// The deeds that grants allow, in words.
pub fn deeds(grants: &[String]) -> String {
    let deeds: Vec<String> = grants.iter().map(|grant| deed(grant)).collect();
    deeds.join("; ")
}

/// The deed that a grant allows, in words: `all on *` is to do everything.
pub fn deed(grant: &str) -> String {
    match grant.split_once(" on ") {
        Some(("all", "*")) => "do everything".to_owned(),
        Some(("all", place)) => format!("do everything on {place}"),
        Some((operations, place)) => format!("{} on {place}", operations.replace(',', ", ")),
        None => grant.to_owned(),
    }
}

fn draw(name: &str) -> Result<Token> {
    let mut bytes = [0; access::SECRET_BYTES];
    getrandom(&mut bytes, GetRandomFlags::empty()).context("the system gave no random bytes")?;
    let name = TokenName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
    let secret = Secret::new(bytes);
    Ok(Token { name, secret })
}

fn hash_of(token: &Token) -> String {
    formats::hex(&token.secret.hash().to_bytes())
}

fn after(time: Duration) -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let at = now.checked_add(time).map(|at| at.as_millis());
    let at = at.and_then(|at| u64::try_from(at).ok());
    Ok(at.ok_or_else(|| Failure::usage("--expires is too far away"))?)
}

fn print_made(global: &Global, token: &Token, told: TokenTold) -> Result<()> {
    let token = token.reveal();
    if global.json {
        let shown = told.into();
        return show::print_json(&Made { token, shown });
    }
    show::print(&token)?;
    eprintln!(
        "logberg: token {} may {}; this is the only time that it is shown",
        told.name,
        deeds(&told.grants)
    );
    Ok(())
}

fn list(tokens: &[TokenTold]) -> Result<()> {
    let mut table = show::table(&["TOKEN", "EXPIRES", "MAY"]);
    for token in tokens {
        let name = match token.by_certificate {
            true => format!("{} (certificate)", token.name),
            false => token.name.clone(),
        };
        table.add_row([name, expiry(token), token.grants.join("; ")]);
    }
    show::print(show::lines(&table))
}

fn show_one(token: &TokenTold) -> Result<()> {
    let mut lines = vec![format!("{} {}", kind(token), token.name)];
    lines.extend(
        token
            .grants
            .iter()
            .map(|grant| format!("  may {}", deed(grant))),
    );
    lines.push(format!("  expires {}", expiry(token)));
    if let Some(until) = token.overlap_until_ms {
        lines.push(format!(
            "  its secret before is good until {}",
            moment(until)
        ));
    }
    match token.joined {
        Some(node) => lines.push(format!(
            "  node {node} has joined with it, and no other may"
        )),
        None if token.replaces.is_some() => lines.push(format!(
            "  good for one node that joins in the place of node {}",
            token.replaces.unwrap_or_default()
        )),
        None if token.once => lines.push("  good for one node that joins".to_owned()),
        None => {}
    }
    let changed = moment(token.changed_ms);
    lines.push(format!("  by {}, {changed}", token.by));
    show::print(lines.join("\n"))
}

/// The word before its name.
fn kind(token: &TokenTold) -> &'static str {
    match token.by_certificate {
        true => "certificate",
        false => "token",
    }
}

fn expiry(token: &TokenTold) -> String {
    match token.expires_ms {
        None => "never".to_owned(),
        Some(_) if token.has_expired => "has expired".to_owned(),
        Some(at) => moment(at),
    }
}

/// A moment, as people read it.
pub fn moment(ms: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    at.map_or("never".to_owned(), |at| {
        humantime::format_rfc3339_seconds(at).to_string()
    })
}
