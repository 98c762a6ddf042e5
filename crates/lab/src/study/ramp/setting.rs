//! Settings that an experiment varies beside its x axis: ways between nodes, proposers, the pace of timers.

use anyhow::Result;
use clap::Args;
use terminal::exit::Failure;

use super::clusters::MACHINES_AT_PACE_MAX;
use super::contended::Until;
use super::kinds::{Ink, Kind};
use super::ways::Ways;
use crate::carriers::Transport;

#[derive(Clone, Debug, Args)]
pub struct Setting {
    #[command(flatten)]
    ways: Ways,
    /// So many propose for the same decrees, each beside a node; beside one alone. Inks are disk and page-cache then, since keys have none in RAM
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=31))]
    proposers: Option<u32>,
    /// Every timer of the nodes takes so many times as long: more than 31 machines of one host need it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    time_scale: u32,
}

impl Setting {
    /// Whether somebody asked for more ways than there are by themselves.
    pub fn has_ways(&self) -> bool {
        self.ways.are_said()
    }

    /// Timers take so many times as long.
    pub fn pace(&self) -> u32 {
        self.time_scale
    }

    /// Whether only inks are compared.
    pub fn is_plain(&self) -> bool {
        !self.has_ways() && self.proposers.is_none()
    }

    pub fn has(&self, transport: Transport) -> bool {
        self.ways.has(transport)
    }

    pub fn proposers(&self) -> Option<u32> {
        self.proposers
    }

    /// Errors: a combination that cannot be measured, and what to do about it.
    pub fn check(&self, machines: &[u32]) -> Result<()> {
        let most = machines.iter().copied().max().unwrap_or(0);
        let least = machines.iter().copied().min().unwrap_or(0);
        let ways = match self.proposers {
            Some(_) => self.ways.refused_for_keys(),
            None => self.ways.refused(),
        };
        if let Some(refused) = ways {
            return Err(Failure::usage(refused).into());
        }
        let refused = match () {
            () if self.proposers.is_some_and(|count| count > least) => {
                format!(
                    "each proposer is beside a node of its own: have as many machines, at least, and there are {least}"
                )
            }
            () if most > MACHINES_AT_PACE_MAX && self.time_scale == 1 => format!(
                "more than {MACHINES_AT_PACE_MAX} machines of one host are too busy with each other: say --time-scale 10, too"
            ),
            () if self.time_scale > 1 && self.has(Transport::Memory) => {
                "nodes of one process keep their pace: leave memory out, or --time-scale".to_owned()
            }
            () => return Ok(()),
        };
        Err(Failure::usage(refused).into())
    }

    /// The inks of an experiment that would have these.
    pub fn inks(&self, inks: &[Ink]) -> Vec<Ink> {
        match self.proposers {
            Some(_) => vec![Ink::Disk, Ink::PageCache],
            None => inks.to_vec(),
        }
    }

    /// These inks by each way, and by one proposer and several.
    pub fn kinds(&self, inks: &[Ink]) -> Vec<Kind> {
        let ways = self.ways.all();
        let inks = inks.iter().copied().map(Kind::plain);
        let kinds = inks.flat_map(|kind| ways.iter().map(move |way| kind.by(*way)));
        let kinds = kinds.map(|kind| kind.paced(self.time_scale));
        match self.proposers {
            None => kinds.collect(),
            Some(count) => kinds
                .flat_map(|kind| {
                    [
                        kind.contended(1, Until::First),
                        kind.contended(count, Until::First),
                        kind.contended(count, Until::All),
                    ]
                })
                .collect(),
        }
    }

    /// Beside which the other variants are set.
    pub fn base(&self) -> Kind {
        let plain = match self.proposers {
            Some(_) => Kind::plain(Ink::PageCache).contended(1, Until::First),
            None => Kind::plain(Ink::Ram),
        };
        plain.paced(self.time_scale)
    }

    /// The pairs that are not those with the base: TCP beside the others, the two uses of gRPC, and one proposer beside several.
    pub fn pairs(&self, inks: &[Ink]) -> Vec<(String, String)> {
        let kinds = self.kinds(inks);
        let base = self.base();
        let mut pairs = Vec::new();
        for kind in &kinds {
            let mut beside = Vec::new();
            if kind.transport != Transport::Tcp {
                beside.push(kind.by(Transport::Tcp));
            }
            if kind.transport == Transport::GrpcStream {
                beside.push(kind.by(Transport::GrpcUnary));
            }
            if kind.proposers.is_some_and(|(count, _)| count > 1) {
                beside.push(kind.contended(1, Until::First));
            }
            let of_all = beside.into_iter().filter(|other| kinds.contains(other));
            let other_than_base = of_all.filter(|other| *other != base);
            pairs.extend(other_than_base.map(|other| (kind.id(), other.id())));
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(transports: &[Transport], proposers: Option<u32>) -> Setting {
        Setting {
            ways: Ways::of(transports),
            proposers,
            time_scale: 1,
        }
    }

    #[test]
    fn each_ink_goes_by_each_way_and_tcp_is_beside_them() {
        let ways = [Transport::Tcp, Transport::GrpcUnary, Transport::GrpcStream];
        let all = said(&ways, None);
        all.check(&[3]).expect("sound");
        let inks = [Ink::Disk, Ink::Ram];
        let ids: Vec<String> = all.kinds(&inks).into_iter().map(Kind::id).collect();
        let disk = ["disk", "disk+grpc-unary", "disk+grpc-stream"];
        let ram = ["ram", "ram+grpc-unary", "ram+grpc-stream"];
        assert_eq!(ids, [disk, ram].concat());
        let pairs = all.pairs(&inks);
        let has = |a: &str, b: &str| pairs.contains(&(a.to_owned(), b.to_owned()));
        assert!(has("ram+grpc-stream", "ram+grpc-unary") && has("disk+grpc-unary", "disk"));
        assert!(!has("ram+grpc-unary", "ram"), "the base is beside all");
        assert_eq!(said(&[], None).kinds(&[Ink::Ram]), [Kind::plain(Ink::Ram)]);
    }

    #[test]
    fn several_proposers_are_beside_one() {
        let two = said(&[], Some(2));
        let inks = two.inks(&[Ink::Ram]);
        let ids: Vec<String> = two.kinds(&inks).into_iter().map(Kind::id).collect();
        let disk = ["disk+1p", "disk+2p", "disk+2p+all"];
        let memory = ["page-cache+1p", "page-cache+2p", "page-cache+2p+all"];
        assert_eq!(ids, [disk, memory].concat());
        assert_eq!(two.base().id(), "page-cache+1p");
        let pairs = two.pairs(&inks);
        assert!(pairs.contains(&("disk+2p".to_owned(), "disk+1p".to_owned())));
    }

    #[test]
    fn what_cannot_be_measured_is_refused_beforehand() {
        for (setting, machines, remedy) in [
            (said(&[Transport::Unix], None), 3, "say tcp, too"),
            (
                said(&[Transport::Tcp, Transport::Tcp], None),
                3,
                "say it once",
            ),
            (
                said(&[Transport::Tcp, Transport::Memory], Some(2)),
                3,
                "leave memory out",
            ),
            (said(&[], Some(4)), 3, "as many machines"),
            (said(&[], None), 40, "--time-scale 10"),
        ] {
            let refused = setting.check(&[machines]).expect_err(remedy).to_string();
            assert!(refused.contains(remedy), "{refused}");
        }
    }
}
