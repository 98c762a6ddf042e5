//! Ports on which nobody listens.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;

use terminal::exit::{Failure, Kind};

/// Below the ports that Linux gives to outgoing connections (ip_local_port_range, 32768 and up).
/// A port from that range could be taken by any connection while its node is down; and a peer that
/// keeps dialling such a port can by chance be given it as its own, and connect to itself.
const FIRST: u16 = 18_000;
const LAST: u16 = 32_000;

/// `count` ports in a row from `base` on, all free at this moment.
pub fn from_base(base: u16, count: u32) -> Result<Vec<u16>> {
    let end = u32::from(base) + count;
    if base == 0 || end > 65_536 {
        let sentence =
            format!("{count} ports from {base} on are not to be had; choose another --port");
        return Err(Failure::usage(sentence).into());
    }
    let ports: Vec<u16> = (u32::from(base)..end).map(|port| port as u16).collect();
    for port in &ports {
        if let Err(error) = is_free(*port) {
            return Err(Failure::new(Kind::Failure, refusal(*port, &error)).into());
        }
    }
    Ok(ports)
}

fn refusal(port: u16, error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => "is in use by another process".to_owned(),
        _ => format!("cannot be used ({error})"),
    };
    format!("port {port} of this machine {what}; choose another first port with --port")
}

/// The ports that this process was given: each is given once, for nobody listens there at once.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// `count` ports that are free at this moment. They start at a place that differs between
/// processes, so that two clusters started together do not ask for the same.
pub fn free(count: u32) -> Result<Vec<u16>> {
    let span = u32::from(LAST - FIRST);
    let start = std::process::id().wrapping_mul(2_654_435_761) % span;
    let candidates = (0..span).map(|step| FIRST + ((start + step) % span) as u16);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let ports: Vec<u16> = candidates
        .filter(|port| !given.contains(port) && is_free(*port).is_ok())
        .take(count as usize)
        .collect();
    if ports.len() < count as usize {
        let sentence = format!("no {count} free ports between {FIRST} and {LAST} on 127.0.0.1");
        return Err(Failure::new(Kind::Failure, sentence).into());
    }
    given.extend(&ports);
    Ok(ports)
}

fn is_free(port: u16) -> io::Result<()> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_different_and_can_be_bound() {
        let ports = free(5).unwrap();
        let listeners: Vec<_> = ports
            .iter()
            .map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).unwrap())
            .collect();
        assert_eq!(listeners.len(), 5);
    }

    #[test]
    fn a_taken_port_is_named() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = from_base(port, 1).unwrap_err().to_string();
        assert!(error.contains(&format!("port {port}")), "{error}");
        assert!(error.contains("in use"), "{error}");
    }

    #[test]
    fn ports_beyond_the_last_are_refused() {
        assert!(from_base(65_535, 2).is_err());
        assert!(from_base(0, 1).is_err());
    }
}
