//! `logberg recover`: a new cluster from one survivor, when a majority is lost for good.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use indicatif::ProgressBar;
use linux::{Kernel, KernelConfig, LinuxDisk};
use node::rescue::{Rescue, RescueError, RescuedLog};
use store::{Manifest, ManifestError};
use terminal::exit::{Failure, Kind};
use terminal::show;
use wire::quantity;

use crate::global::Global;

mod slots;
mod states;

const HELP: &str = "\
Only for when more than half of the votes are lost for good. While any majority can be brought back, bring
it back: nothing is lost then, and this is the wrong command.

What the others had acknowledged and this node never received is lost, and nobody can say how much. What
this node had accepted counts as chosen. If there are holes in what it holds, the longest part without
one is carried over, of each log; the report names the rest, which stays in the old directory.
The state of a machine's log is carried over with it, and the log goes on where the state stands.
Of groups of keys the report says which slots keep their keys, which are lost, and which were on their way.

The new directory belongs to a new cluster with a new id: nodes of the old one refuse it and are refused,
so never start those again. The old directory is read and never changed. Without --accept-data-loss
this only reports.

Examples: look, then do it, start, and let new nodes join
  logberg recover --unsafe --directory d1
  logberg recover --unsafe --directory d1 --into d1-new --accept-data-loss
  logberg node --data d1-new --listen 127.0.0.1:7117
  logberg node --data d4 --listen 127.0.0.1:7118 --join 127.0.0.1:7117";

/// Make a new cluster of what one node holds, when a majority is lost for good
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Without it nothing is done: acknowledged bytes may be lost
    #[arg(long, required = true)]
    r#unsafe: bool,
    /// The survivor's directory (its --data); its node must not run
    #[arg(long, value_name = "OLD")]
    directory: PathBuf,
    /// The directory to make, empty or not there yet
    #[arg(long, value_name = "NEW", required_if_eq("accept_data_loss", "true"))]
    into: Option<PathBuf>,
    /// Do it, having read what may be lost
    #[arg(long)]
    accept_data_loss: bool,
}

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        let mut disk = LinuxDisk::new();
        let shown = self.directory.display();
        let old = std::fs::canonicalize(&self.directory);
        let old = old.with_context(|| format!("cannot open {shown}"))?;
        if Manifest::load(&mut disk, &old)
            .map_err(RescueError::from)
            .map_err(failure)?
            .is_some()
        {
            Manifest::lock(&mut disk, &old)
                .map_err(RescueError::from)
                .map_err(failure)?;
        }
        let bar = ProgressBar::new_spinner();
        if global.json {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        let mut progress = |bytes| bar.inc(bytes);
        let rescue = Rescue::survey(&mut disk, &old, &mut progress).map_err(failure)?;
        let states = states::survey(&rescue, &old, &mut progress)?;
        let mut report = serde_json::to_value(&rescue)?;
        report["done"] = false.into();
        report["states"] = serde_json::to_value(&states)?;
        if !global.json {
            bar.suspend(|| show::print(render(&rescue, &states)))?;
        }
        let Some(into) = self.into.filter(|_| self.accept_data_loss) else {
            let advice = "Nothing was done. To go on with this and lose the rest, name a new \
                          directory with --into and say --accept-data-loss.";
            bar.finish_and_clear();
            return match global.json {
                true => show::print_json(&report),
                false => show::print(format_args!("\n{advice}")),
            };
        };
        let into = absolute(&into)?;
        let was = rescue.lost_cluster();
        let machines = old.join(shelf::STATES);
        let bytes = shelf::bytes_below(&machines);
        let bytes = bytes.with_context(|| format!("cannot read {}", machines.display()))?;
        let mut copied = rescue
            .copy(&mut disk, &into, bytes, &mut progress)
            .map_err(failure)?;
        let states = states::carry(states, &mut copied, was, (&old, &into), &mut progress)?;
        let config = KernelConfig {
            signals: false,
            ..KernelConfig::default()
        };
        let mut kernel = Kernel::new(config).context("cannot set up the event loop")?;
        while let Some(mut seal) = copied.seal(&mut disk).map_err(failure)? {
            kernel.run(&mut seal).context("the event loop failed")?;
            let sealed = seal.outcome();
            sealed.with_context(|| format!("cannot write to {}", into.display()))?;
        }
        let cluster = copied.cluster();
        copied.finish(&mut disk).map_err(failure)?;
        bar.finish_and_clear();
        report["done"] = true.into();
        report["into"] = into.display().to_string().into();
        report["new_cluster"] = cluster.to_string().into();
        report["states"] = serde_json::to_value(&states)?;
        if !global.json {
            for state in &states {
                show::print(format_args!("\n{}", states::remark(state, true)))?;
            }
        }
        match global.json {
            true => show::print_json(&report),
            false => show::print(format_args!(
                "\n{} is a cluster of its own now, {cluster}. Start it with\n  \
                 logberg node --data {} --listen HOST:PORT\n\
                 and the node's other options, such as --kv and --http, and let new nodes join it. Never start nodes of the old cluster again.",
                into.display(),
                into.display(),
            )),
        }
    }
}

/// Also where links lead, as far as it exists.
fn absolute(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).with_context(|| format!("bad path {}", path.display()))?;
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return Ok(real.join(rest));
        }
    }
    Ok(path)
}

fn failure(error: RescueError) -> anyhow::Error {
    let kind = match &error {
        RescueError::Manifest(ManifestError::Locked(directory)) => {
            let sentence = format!(
                "{} is in use by a running node: stop it first; if the others can be brought back, there is nothing to recover",
                directory.display()
            );
            return Failure::new(Kind::Refused, sentence).into();
        }
        RescueError::NotEmpty(_) | RescueError::Inside(_) | RescueError::NoSpace { .. } => {
            Kind::Refused
        }
        RescueError::NoNode(_) | RescueError::NotJoined(_) => Kind::NotFound,
        RescueError::Manifest(_) | RescueError::Replay { .. } | RescueError::Directory(_) => {
            Kind::Corrupt
        }
        RescueError::Io { .. } => Kind::Failure,
    };
    Failure::new(kind, error.to_string()).into()
}

fn render(rescue: &Rescue, states: &[states::CarriedState]) -> String {
    let mut parts = vec![format!(
        "node {} of cluster {}: {} can be carried over",
        rescue.node,
        rescue.cluster,
        quantity::shown(rescue.carried_bytes())
    )];
    let headings = ["LOG", "CARRIED", "OF IT UNSURE", "HOLES", "LEFT BEHIND"];
    let mut table = show::table(&headings);
    for log in &rescue.logs {
        table.add_row([
            log.name.as_str().into(),
            show::number(quantity::shown(log.carried_bytes)),
            show::number(quantity::shown(log.unsure_bytes)),
            show::number(log.holes.len()),
            show::number(quantity::shown(log.left_bytes)),
        ]);
    }
    parts.push(show::lines(&table));
    parts.extend(rescue.logs.iter().flat_map(remarks));
    parts.extend(states.iter().map(|state| states::remark(state, false)));
    parts.extend(slots::remarks(&rescue.slots, states));
    for name in &rescue.absent {
        parts.push(format!(
            "{name}: this node holds nothing of it; the log is lost"
        ));
    }
    let gone: Vec<String> = rescue.gone.iter().map(u32::to_string).collect();
    let nodes = match gone.len() {
        1 => "node",
        _ => "nodes",
    };
    parts.push(format!(
        "LOST for good: whatever {nodes} {} acknowledged and this one never received. Nobody can say how much that is.",
        gone.join(", ")
    ));
    parts.join("\n\n")
}

fn remarks(log: &RescuedLog) -> Vec<String> {
    let name = &log.name;
    let mut remarks = Vec::new();
    for damaged in &log.damaged {
        remarks.push(format!(
            "{name}: DAMAGED {} at byte {}: {}",
            damaged.file.display(),
            damaged.offset,
            damaged.what
        ));
    }
    if log.unsure_bytes > 0 {
        remarks.push(format!(
            "{name}: the last {} were accepted here and may have been chosen or not; they count as chosen",
            quantity::shown(log.unsure_bytes)
        ));
    }
    if let Some(slot) = log.unknown_before {
        remarks.push(format!(
            "{name}: what was accepted from slot {slot} on is not carried over: slots before it are unknown here"
        ));
    }
    for hole in &log.holes {
        remarks.push(format!(
            "{name}: MISSING bytes {} to {} of stream {}: {}",
            hole.from, hole.to, hole.stream, hole.why
        ));
    }
    if let Some(kept) = &log.kept {
        remarks.push(format!(
            "{name}: of what is held only the part from {} to {} is carried over, the longest without a hole",
            kept.from, kept.to
        ));
    }
    if let Some(hidden) = &log.hidden {
        remarks.push(format!("{name}: more may have been chosen: {hidden}"));
    }
    remarks
}
