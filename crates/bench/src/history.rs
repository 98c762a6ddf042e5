//! A log's past: written flat out, and as cold as after a long time.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use client::{Client, StreamName};
use rustix::fs::{Advice, fadvise};

use super::load::{Content, Plan, Writer};
use testbed::scratch::Scratch;
use testbed::watch::{Watch, sleep_until};

#[derive(Clone, Copy, Debug)]
pub struct Written {
    pub stream: StreamName,
    pub mb_per_s: f64,
}

/// Without a new ack for so long something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Appends a stream of at least so many bytes and closes it.
pub fn write(
    client: &Client,
    log: &str,
    bytes: u64,
    scratch: &Scratch,
    watch: &Watch,
) -> Result<Written> {
    let plan = Plan {
        write_bytes: 64 << 10,
        rate: None,
        buffer_bytes: 16 << 20,
        content: Content::Repeated,
    };
    let began = Instant::now();
    let mut writer = Writer::start(client, log, &plan)?;
    let mut progress = (0, began);
    while writer.acknowledged() < bytes {
        sleep_until(Instant::now() + POLL)?;
        writer.check()?;
        scratch.check_space()?;
        let acknowledged = writer.acknowledged();
        if acknowledged > progress.0 {
            progress = (acknowledged, Instant::now());
            let percent = 100 * acknowledged.min(bytes) / bytes;
            watch.says(format!("writing history: {percent} %"));
        } else if progress.1.elapsed() > PATIENCE {
            bail!("nothing was acknowledged for {} s", PATIENCE.as_secs());
        }
    }
    let (acknowledged, seconds) = (writer.acknowledged(), began.elapsed().as_secs_f64());
    let stream = writer.stream();
    writer.finish()?;
    Ok(Written {
        stream,
        mb_per_s: acknowledged as f64 / 1e6 / seconds,
    })
}

/// Drops the page cache's part of the segments below a directory. Bytes that a node wrote past it were never there.
pub fn forget_pages(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            forget_pages(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "seg") {
            fadvise(&File::open(&path)?, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}
