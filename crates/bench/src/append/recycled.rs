//! Logs that write into the files of what they forgot, as those do that are trimmed as they grow.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use client::Client;
use client::admin::LogStatus;
use formats::segment::file_name;
use replica::Limits;
use testbed::scratch::go_on;

use crate::load::{Content, Plan, Writer};

/// Two of the largest segments stay, and two wait to be written again.
const KEEPS: &str = "256MiB";
/// Segments have grown to their full size by then, and the first of them is forgotten.
const PREPARED_BYTES: u64 = 1 << 30;
/// The disk space of a node: for bytes that are kept, that wait, and that were not looked at yet.
pub const BYTES_PER_NODE: u64 = 2 << 30;
const POLL: Duration = Duration::from_millis(10);

pub fn prepare(client: &Client, logs: &[String]) -> Result<()> {
    let plan = Plan {
        write_bytes: 64 << 10,
        rate: None,
        buffer_bytes: 16 << 20,
        content: Content::Repeated,
    };
    for log in logs {
        client.retain(log, KEEPS)?;
        let mut writer = Writer::start(client, log, &plan)?;
        while writer.acknowledged() < PREPARED_BYTES {
            go_on()?;
            writer.check()?;
            std::thread::sleep(POLL);
        }
        writer.finish()?;
    }
    Ok(())
}

/// A figure of new files must not pass for one of files that were written before: what is forgotten
/// is written again, so something has to be forgotten. In memory there is no file to be looked for.
pub fn check(log: &LogStatus, log_directory: &Path) -> Result<()> {
    let is_there = log_directory.join(file_name(1)).exists();
    if is_there || log.trimmed_bytes < Limits::default().segment_bytes_max {
        bail!("the log keeps its first segment still: it was not trimmed as it grew");
    }
    Ok(())
}
