//! `peers.json`: the last places of the other nodes, for a start without anybody who could be asked.
//!
//! ```json
//! { "1": "a.example:7117", "2": "b.example:7117" }
//! ```
//!
//! It is a help, not a truth: parts that cannot be read are done without, and the directory replaces it.

use std::collections::BTreeMap;
use std::fmt;

use paxos::NodeId;
use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use thiserror::Error;

/// The file's greatest length. Nothing is written beyond it, and nothing read.
pub const BYTES_MAX: usize = 1 << 20;

/// The most nodes whose addresses a start takes: the first that are named, which are those that joined first.
const NODES_MAX: usize = 1024;

/// The reason why the file could not be read.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    #[error("the file with the peers' addresses is longer than {BYTES_MAX} bytes")]
    TooLong,
    #[error("the file with the peers' addresses names more than {NODES_MAX} nodes")]
    TooMany,
    #[error("the file with the peers' addresses is damaged ({0})")]
    Damaged(String),
}

/// The addresses before the first fault.
pub fn read(bytes: &[u8]) -> (BTreeMap<NodeId, String>, Option<Trouble>) {
    let mut known = BTreeMap::new();
    let is_long = bytes.len() > BYTES_MAX;
    let mut json = serde_json::Deserializer::from_slice(&bytes[..bytes.len().min(BYTES_MAX)]);
    let outcome = json
        .deserialize_map(Keeping(&mut known))
        .and_then(|()| json.end());
    let trouble = match outcome {
        _ if is_long => Some(Trouble::TooLong),
        Err(error) => Some(Trouble::Damaged(error.to_string())),
        Ok(()) if known.len() > NODES_MAX => Some(Trouble::TooMany),
        Ok(()) => None,
    };
    if let Some((first, _)) = known.iter().nth(NODES_MAX) {
        let first = *first;
        known.split_off(&first);
    }
    (known, trouble)
}

/// Writes as many addresses as there is room for: those that come first matter most.
pub fn write<'a>(addresses: impl Iterator<Item = (NodeId, &'a String)>) -> Vec<u8> {
    let mut room = BYTES_MAX - 2;
    let mut kept = BTreeMap::new();
    for (id, address) in addresses {
        // The length counts the id, the signs around the two, and every byte of the address escaped.
        let bytes = 24 + 6 * address.len();
        let Some(less) = room.checked_sub(bytes) else {
            break;
        };
        room = less;
        kept.insert(id.0, address);
    }
    serde_json::to_vec_pretty(&kept).expect("numbers and strings are always JSON")
}

struct Keeping<'a>(&'a mut BTreeMap<NodeId, String>);

impl<'de> Visitor<'de> for Keeping<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of ids and addresses")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((id, address)) = map.next_entry::<u32, String>()? {
            let is_address = id != 0 && address.contains(':');
            if is_address && address.len() <= crate::peers::places::ADDRESS_BYTES_MAX {
                self.0.insert(NodeId(id), address);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses(count: u32) -> BTreeMap<NodeId, String> {
        let address = |id| (NodeId(id), format!("node{id}.example:7117"));
        (1..=count).map(address).collect()
    }

    fn written(known: &BTreeMap<NodeId, String>) -> Vec<u8> {
        write(known.iter().map(|(id, address)| (*id, address)))
    }

    #[test]
    fn a_file_that_is_too_long_is_read_as_far_as_it_may_be() {
        let known = addresses(60_000);
        let ids = known.iter().map(|(id, address)| (id.0, address));
        let ids: BTreeMap<u32, &String> = ids.collect();
        let bytes = serde_json::to_vec_pretty(&ids).unwrap();
        assert!(bytes.len() > BYTES_MAX + 1);
        let (kept, trouble) = read(&bytes[..BYTES_MAX + 1]);
        assert_eq!(trouble, Some(Trouble::TooLong));
        assert_eq!(kept, addresses(NODES_MAX as u32));
    }

    #[test]
    fn what_is_written_can_be_read() {
        assert_eq!(read(&written(&addresses(5))), (addresses(5), None));
        assert_eq!(read(&written(&addresses(0))), (addresses(0), None));
        let bytes = written(&addresses(60_000));
        assert!(bytes.len() <= BYTES_MAX);
        assert_eq!(
            read(&bytes),
            (addresses(NODES_MAX as u32), Some(Trouble::TooMany))
        );
    }

    #[test]
    fn what_is_no_address_is_passed_over() {
        let long = "x".repeat(400);
        let text = format!(r#"{{"0":"a:1","1":"a:1","2":"nowhere","3":"{long}:1","4":""}}"#);
        let (kept, trouble) = read(text.as_bytes());
        assert_eq!(trouble, None);
        assert_eq!(kept.into_keys().collect::<Vec<_>>(), [NodeId(1)]);
    }

    proptest! {
        #[test]
        fn damage_costs_only_what_stands_behind_it(at in 0usize..400, with in any::<u8>()) {
            let known = addresses(10);
            let mut bytes = written(&known);
            let at = at.min(bytes.len() - 1);
            bytes[at] = with;
            let line = |upto: &[u8]| upto.iter().filter(|byte| **byte == b'\n').count();
            let before = line(&written(&known)[..at]).saturating_sub(1);
            let (kept, _) = read(&bytes);
            prop_assert!(kept.len() + 1 >= before.min(known.len()), "{} of {before}", kept.len());
        }

        #[test]
        fn drawn_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read(&bytes);
        }
    }
}
