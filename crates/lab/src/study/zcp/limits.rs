//! The limit that kept a cell from its target.

use super::published::Percent;
use super::report::ALL_DELIVERED;

/// The client is one thread, which a core less than wholly taken does not hold up.
const CORE_TAKEN: f64 = 90.0;
/// The part of a machine's limit from which on it counts as reached: nobody else's program has all of it.
pub const TAKEN: f64 = 0.7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    None,
    Client,
    Disk,
    Loopback,
    /// Nothing of the machine's: the nodes themselves.
    Nodes,
}

impl Limit {
    /// `delivered`: none flat out, where something always is a limit.
    pub fn of(delivered: Option<f64>, client: Percent, disk: bool, loopback: bool) -> Limit {
        match delivered {
            Some(part) if part >= ALL_DELIVERED => Limit::None,
            _ if client.0 + client.1 >= CORE_TAKEN => Limit::Client,
            _ if disk => Limit::Disk,
            _ if loopback => Limit::Loopback,
            _ => Limit::Nodes,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Limit::None => "none",
            Limit::Client => "client",
            Limit::Disk => "disk",
            Limit::Loopback => "loopback",
            Limit::Nodes => "nodes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_misses_its_target_names_what_is_used_up() {
        let of =
            |delivered, client, disk, loopback| Limit::of(delivered, (client, 0.0), disk, loopback);
        assert_eq!(of(Some(0.99), 100.0, true, true), Limit::None);
        assert_eq!(of(Some(0.5), 99.0, true, true), Limit::Client);
        assert_eq!(of(Some(0.5), 50.0, true, true), Limit::Disk);
        assert_eq!(of(None, 50.0, false, true), Limit::Loopback);
        assert_eq!(of(None, 50.0, false, false), Limit::Nodes);
    }
}
