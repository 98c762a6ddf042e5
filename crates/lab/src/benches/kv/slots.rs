//! Which server answers for which keys: a cluster's own word (CLUSTER SLOTS, MOVED), or one server for all.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use resp::Value;
use torture::link::{Link, words};

use super::values::name_of;

/// Slots that one server answers for, and their keys.
#[derive(Debug)]
pub struct Range {
    first: u16,
    last: u16,
    pub server: usize,
    pub keys: Vec<u32>,
}

#[derive(Debug)]
pub struct Map {
    pub servers: Vec<SocketAddr>,
    pub ranges: Vec<Range>,
    /// By key.
    range_of: Vec<u16>,
}

const PATIENCE: Duration = Duration::from_secs(3);
pub const SLOTS: u16 = ::kv::SLOTS;

impl Map {
    /// One server for all keys.
    pub fn one(server: SocketAddr, keys: u32) -> Map {
        Map {
            servers: vec![server],
            ranges: vec![Range {
                first: 0,
                last: SLOTS - 1,
                server: 0,
                keys: (0..keys).collect(),
            }],
            range_of: vec![0; keys as usize],
        }
    }

    /// As the first of these doors says that answers for all slots.
    pub fn of_cluster(doors: &[String], keys: u32) -> Result<Map> {
        let mut map = Map {
            servers: Vec::new(),
            ranges: Vec::new(),
            range_of: Vec::new(),
        };
        for (first, last, door) in ask_any(doors)? {
            let server = map.server(&door)?;
            map.ranges.push(Range {
                first,
                last,
                server,
                keys: Vec::new(),
            });
        }
        map.sort_in(keys)?;
        Ok(map)
    }

    /// The same, where each slot may go to another server by itself.
    pub fn of_slots(doors: &[String], keys: u32) -> Result<Map> {
        let mut map = Map::of_cluster(doors, 0)?;
        let each = map.ranges.drain(..).flat_map(|range| {
            (range.first..=range.last).map(move |slot| Range {
                first: slot,
                last: slot,
                server: range.server,
                keys: Vec::new(),
            })
        });
        map.ranges = each.collect();
        map.sort_in(keys)?;
        Ok(map)
    }

    fn sort_in(&mut self, keys: u32) -> Result<()> {
        for key in 0..keys {
            let slot = ::kv::slot_of(&name_of(key));
            let at = self.range_at(slot).context("a slot that nobody serves")?;
            self.ranges[at].keys.push(key);
            self.range_of.push(at as u16);
        }
        Ok(())
    }

    /// Asks anew who answers for the ranges; they are the same for ever.
    pub fn ask_again(&mut self) -> Result<()> {
        let doors: Vec<String> = self.servers.iter().map(SocketAddr::to_string).collect();
        for (first, last, door) in ask_any(&doors)? {
            let server = self.server(&door)?;
            let its = |range: &&mut Range| (first..=last).contains(&range.first);
            let its = self.ranges.iter_mut().filter(its);
            its.for_each(|range| range.server = server);
        }
        Ok(())
    }

    /// Learns from an error of a server, if it says that a slot is answered for elsewhere.
    pub fn learn(&mut self, error: &[u8]) -> bool {
        let text = String::from_utf8_lossy(error);
        let mut words = text.split(' ');
        let (Some("MOVED"), Some(slot), Some(door)) = (words.next(), words.next(), words.next())
        else {
            return false;
        };
        slot.parse().is_ok_and(|slot| self.lead(slot, door).is_ok())
    }

    fn lead(&mut self, slot: u16, door: &str) -> Result<()> {
        let at = self.range_at(slot).context("a slot of no range")?;
        self.ranges[at].server = self.server(door)?;
        Ok(())
    }

    pub fn keys(&self) -> u32 {
        self.range_of.len() as u32
    }

    pub fn range_of(&self, key: u32) -> &Range {
        &self.ranges[usize::from(self.range_of[key as usize])]
    }

    fn range_at(&self, slot: u16) -> Option<usize> {
        let at = self.ranges.partition_point(|range| range.last < slot);
        (self.ranges.get(at)?.first <= slot).then_some(at)
    }

    /// The place of a server in the list, which it is put into.
    fn server(&mut self, door: &str) -> Result<usize> {
        let address = address_of(door)?;
        let known = self.servers.iter().position(|known| *known == address);
        Ok(known.unwrap_or_else(|| {
            self.servers.push(address);
            self.servers.len() - 1
        }))
    }
}

pub fn address_of(door: &str) -> Result<SocketAddr> {
    let mut found = door
        .to_socket_addrs()
        .with_context(|| format!("{door:?} is no address"))?;
    found
        .next()
        .with_context(|| format!("{door} has no address"))
}

type Served = (u16, u16, String);

fn ask_any(doors: &[String]) -> Result<Vec<Served>> {
    let mut why = None;
    for door in doors {
        match ask(door) {
            Ok(served) => return Ok(served),
            Err(error) => why = Some(error.context(format!("{door} does not say who serves keys"))),
        }
    }
    Err(why.context("there is nobody to be asked")?)
}

fn ask(door: &str) -> Result<Vec<Served>> {
    let mut link = Link::to(door, PATIENCE)?;
    link.send(&[words(["CLUSTER", "SLOTS"])])?;
    let reply = link.receive()?;
    let mut served = parse(&reply).with_context(|| format!("it says {reply:?}"))?;
    served.sort_unstable();
    let mut next = 0;
    for (first, last, _) in &served {
        if u32::from(*first) != next {
            bail!("slot {next} is served by nobody");
        }
        next = u32::from(*last) + 1;
    }
    if next != u32::from(SLOTS) {
        bail!("slot {next} is served by nobody");
    }
    Ok(served)
}

/// Reads `[first, last, [host, port, …], …]` for each range.
fn parse(reply: &Value) -> Option<Vec<Served>> {
    let Value::Array(ranges) = reply else {
        return None;
    };
    let range = |range: &Value| {
        let Value::Array(parts) = range else {
            return None;
        };
        let [
            Value::Integer(first),
            Value::Integer(last),
            Value::Array(server),
            ..,
        ] = parts.as_slice()
        else {
            return None;
        };
        let [Value::Bulk(host), Value::Integer(port), ..] = server.as_slice() else {
            return None;
        };
        let host = std::str::from_utf8(host).ok()?;
        let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
        (first <= last).then(|| (first, last, format!("{host}:{port}")))
    };
    ranges.iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(port: i64) -> Value {
        let server = vec![
            Value::bulk("127.0.0.1"),
            Value::Integer(port),
            Value::bulk("id"),
        ];
        let range = vec![Value::Integer(0), Value::Integer(99), Value::Array(server)];
        Value::Array(vec![Value::Array(range)])
    }

    #[test]
    fn ranges_are_read_with_the_servers_that_lead_them() {
        let served = vec![(0, 99, "127.0.0.1:7379".to_owned())];
        assert_eq!(parse(&reply(7379)), Some(served));
        assert_eq!(parse(&Value::Array(vec![Value::Null])), None);
        assert_eq!(parse(&Value::error("ERR no")), None);
    }

    #[test]
    fn a_slot_that_moved_is_asked_for_where_it_went() {
        let mut map = Map::one(address_of("127.0.0.1:7379").unwrap(), 10);
        assert!(map.learn(b"MOVED 866 127.0.0.1:7380"));
        assert_eq!(map.servers[map.range_of(3).server].port(), 7380);
        for error in [
            &b"CLUSTERDOWN nobody"[..],
            b"MOVED x 127.0.0.1:1",
            b"MOVED 20000 127.0.0.1:1",
            b"MOVED 1 nowhere",
        ] {
            assert!(!map.learn(error), "{error:?}");
        }
    }
}
