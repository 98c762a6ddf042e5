//! Frames between nodes, counted, and asked for while the node runs.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use anyhow::{Context, Result};
use carrier::{Amount, Count, Counts};
use linux::Kernel;
use ops::Machine;
use serve::{Carry, Seat};

use super::{Transport, port_of};

/// Where the counts of a node are asked for, on its port.
const AT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Counts, and tells its counts to whoever connects.
#[derive(Default)]
pub struct Counted {
    counts: Counts,
}

impl Carry for Counted {
    fn name(&self) -> &'static str {
        Transport::Count.name()
    }

    fn set_up(&mut self, _: &mut Kernel, seat: &Seat) -> Result<()> {
        let listener = TcpListener::bind((AT, seat.bound.port()))
            .context("there is no place where counts are asked for")?;
        let counts = self.counts.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                // Whoever went away wants none.
                let _ = stream.write_all(lines(&counts.so_far()).as_bytes());
            }
        });
        Ok(())
    }

    fn around<'a>(&'a mut self, node: &'a mut dyn Machine) -> Result<Box<dyn Machine + 'a>> {
        Ok(Box::new(Count::new(node, self.counts.clone())))
    }
}

fn lines(counts: &BTreeMap<&'static str, Amount>) -> String {
    let lines = counts.iter().map(|(kind, amount)| {
        let Amount { frames, bytes } = amount;
        format!("{kind}\t{frames}\t{bytes}\n")
    });
    lines.collect()
}

/// The counts of the nodes at these addresses, added up.
pub fn counts_of(addresses: &[String]) -> Result<BTreeMap<String, Amount>> {
    let mut all: BTreeMap<String, Amount> = BTreeMap::new();
    for address in addresses {
        let mut stream = TcpStream::connect((AT, port_of(address)?))
            .with_context(|| format!("{address} does not count"))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        for line in text.lines() {
            let mut fields = line.split('\t');
            let (Some(kind), Some(frames), Some(bytes)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            let amount = all.entry(kind.to_owned()).or_default();
            amount.frames += frames.parse::<u64>()?;
            amount.bytes += bytes.parse::<u64>()?;
        }
    }
    Ok(all)
}

/// Counts of what was sent between two looks.
pub fn by_kind(
    before: &BTreeMap<String, Amount>,
    after: &BTreeMap<String, Amount>,
) -> BTreeMap<String, Amount> {
    let grown = after.iter().map(|(kind, amount)| {
        let was = before.get(kind).copied().unwrap_or_default();
        let frames = amount.frames - was.frames;
        let bytes = amount.bytes - was.bytes;
        (kind.clone(), Amount { frames, bytes })
    });
    grown.filter(|(_, amount)| amount.frames > 0).collect()
}
