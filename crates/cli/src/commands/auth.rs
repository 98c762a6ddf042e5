//! `logberg auth`: whether tokens are asked for, and what they allow.

use anyhow::Result;
use clap::{Args, Subcommand};
use client::admin::{AuthTold, Explained, WhoTold};
use serde::Serialize;
use terminal::exit::{Kind, Said};
use terminal::show;

use super::heard;
use super::token::{deed, moment};
use crate::confirm::confirmed;
use crate::global::Global;

/// Whether the cluster asks for tokens, and what they allow
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask everybody for a token from now on
    #[command(after_help = "\
Each node ends the connections that showed none when it hears of it. The cluster refuses this without a token that may
do all and has not expired; the socket in a node's directory stays open to root and to the node's own user, so nobody
locks himself out. Tokens are sent as they are: let them go over a network that nobody else reads.

Example:
  logberg token create root --allow 'all on *' --server unix:/var/lib/logberg/admin.sock >root.token
  logberg auth enable --plan --token-file root.token
  logberg auth enable --wait --token-file root.token")]
    Enable {
        /// Only say which tokens may do all
        #[arg(long)]
        plan: bool,
        /// Return once every node has heard; with 10 if some have not within --timeout, which are named
        #[arg(long, conflicts_with = "plan")]
        wait: bool,
    },
    /// Ask nobody for a token any more: everybody who reaches a node may do all
    #[command(after_help = "\
Tokens stay as they are, and are asked for again after `logberg auth enable`.

Example:
  logberg auth disable --yes --token-file root.token")]
    Disable {
        /// Only say what would be
        #[arg(long)]
        plan: bool,
        /// Confirm (required, except on a terminal, where it is asked)
        #[arg(long)]
        yes: bool,
    },
    /// Say who the cluster takes this command for, and what it may do
    #[command(after_help = "\
Example:
  LOGBERG_TOKEN=$(cat ci.token) logberg auth whoami")]
    Whoami,
    /// Say whether somebody may do something, and why
    #[command(after_help = "\
It exits with 4 if that is not allowed.

Examples:
  logberg auth explain append log/ci-7
  logberg auth explain read stream/default/chat/42 --of web")]
    Explain {
        #[arg(value_name = "OPERATION")]
        operation: String,
        #[arg(value_name = "RESOURCE")]
        resource: String,
        /// That token, and not this command's own
        #[arg(long, value_name = "NAME")]
        of: Option<String>,
    },
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let client = global.client();
        match self.command {
            Command::Enable { plan, wait } => {
                let nodes = wait.then(|| client.nodes()).transpose()?;
                let told = client.set_auth(true, plan)?;
                let done = "tokens are asked for";
                let heard_by = nodes.map(|nodes| heard::wait(&client, &nodes, done));
                said(global, told, heard_by.transpose()?)
            }
            Command::Disable { plan, yes } => {
                if !plan {
                    let what = "from then on everybody who reaches a node may do all";
                    confirmed(what, yes)?;
                }
                let told = client.set_auth(false, plan)?;
                said(global, told, None)
            }
            Command::Whoami => {
                let told = client.whoami()?;
                match global.json {
                    true => show::print_json(&Who::from(told)),
                    false => show::print(who(&told)),
                }
            }
            Command::Explain {
                operation,
                resource,
                of,
            } => {
                let told = client.explain(of.as_deref(), &operation, &resource)?;
                match global.json {
                    true => show::print_json(&told)?,
                    false => show::print(explained(&told))?,
                }
                match told.allowed {
                    true => Ok(()),
                    false => Err(Said(Kind::Refused).into()),
                }
            }
        }
    }
}

/// The asker as `--json` prints it.
#[derive(Serialize)]
struct Who {
    principal: String,
    /// The name in the client's certificate that was shown, whether or not anything was granted to it.
    certificate: Option<String>,
    /// Until when that certificate holds.
    certificate_until: Option<String>,
    grants: Vec<String>,
    expires_at: Option<String>,
    /// Tokens are asked for.
    auth: bool,
}

impl From<WhoTold> for Who {
    fn from(told: WhoTold) -> Who {
        Who {
            principal: told.principal,
            certificate: told.certificate,
            certificate_until: told.certificate_until_ms.map(moment),
            grants: told.grants,
            expires_at: told.expires_ms.map(moment),
            auth: told.auth,
        }
    }
}

fn said(global: &Global, told: AuthTold, heard_by: Option<Vec<u64>>) -> Result<()> {
    #[derive(Serialize)]
    struct Shown {
        #[serde(flatten)]
        told: AuthTold,
        /// With --wait: the nodes, each of which has heard.
        #[serde(skip_serializing_if = "Option::is_none")]
        heard_by: Option<Vec<u64>>,
    }
    if global.json {
        return show::print_json(&Shown { told, heard_by });
    }
    let may_all = match told.may_all.is_empty() {
        true => "no token may do all".to_owned(),
        false => format!("may do all: {}", told.may_all.join(", ")),
    };
    show::print(match (told.plan, told.on) {
        (true, true) => format!("tokens would be asked for; {may_all}"),
        (true, false) => "nobody would be asked for a token any more".to_owned(),
        (false, true) => {
            let heard = heard::said(heard_by.as_deref());
            format!("tokens are asked for; {may_all}{heard}")
        }
        (false, false) => "nobody is asked for a token any more".to_owned(),
    })
}

fn who(told: &WhoTold) -> String {
    let mut lines = vec![told.principal.clone()];
    lines.extend(
        told.grants
            .iter()
            .map(|grant| format!("  may {}", deed(grant))),
    );
    if let Some(name) = &told.certificate {
        let until = told.certificate_until_ms.map(moment).unwrap_or_default();
        lines.push(match told.principal == "anonymous" {
            true => format!(
                "  shows certificate {name}, to which nothing is granted: logberg token bind-certificate {name} --allow …"
            ),
            false => format!("  by certificate {name}, which holds until {until}"),
        });
    }
    if let Some(at) = told.expires_ms {
        lines.push(format!("  expires {}", moment(at)));
    }
    let auth = match told.auth {
        true => "  tokens are asked for",
        false => "  tokens are not asked for: everybody may do all",
    };
    lines.push(auth.to_owned());
    lines.join("\n")
}

fn explained(told: &Explained) -> String {
    let may = if told.allowed { "may" } else { "may not" };
    let Explained {
        principal,
        operation,
        resource,
        why,
        ..
    } = told;
    format!("{principal} {may} {operation} on {resource}: {why}")
}
