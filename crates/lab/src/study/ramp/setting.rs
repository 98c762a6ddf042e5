//! Which transports an experiment is about, and which pairs of variants they make.

use anyhow::Result;
use clap::Args;
use terminal::exit::Failure;

use super::clusters::{Ink, Kind};
use crate::carriers::Transport;

#[derive(Clone, Debug, Args)]
pub struct Transports {
    /// The ways between nodes that are set beside each other, of RAM and disk [default: tcp alone]
    #[arg(long, value_name = "WAY,…", value_delimiter = ',', value_enum)]
    transports: Vec<Transport>,
}

impl Transports {
    /// Whether somebody asked for more than there is by itself.
    pub fn are_said(&self) -> bool {
        !self.transports.is_empty()
    }

    /// Errors: one is said twice; there is no TCP, beside which the others are set.
    pub fn check(&self) -> Result<()> {
        let mut once = self.transports.clone();
        once.sort_unstable();
        once.dedup();
        if once.len() < self.transports.len() {
            return Err(
                Failure::usage("a way is said twice: each is one variant, so say it once").into(),
            );
        }
        if self.are_said() && !once.contains(&Transport::Tcp) {
            let sentence = "ways are set beside tcp, which is not among them: say tcp, too";
            return Err(Failure::usage(sentence).into());
        }
        Ok(())
    }

    /// These inks by each way.
    pub fn of(&self, inks: &[Ink]) -> Vec<Kind> {
        let all = match self.are_said() {
            true => &self.transports[..],
            false => &[Transport::Tcp],
        };
        let kinds = inks.iter().copied().map(Kind::plain);
        kinds
            .flat_map(|kind| all.iter().map(move |transport| kind.by(*transport)))
            .collect()
    }

    /// The pairs that are not those with the base, of one ink: TCP beside the others, and the two uses of gRPC.
    pub fn pairs(&self, inks: &[Ink]) -> Vec<(String, String)> {
        let id = |ink: &Ink, transport| Kind::plain(*ink).by(transport).id();
        let mut pairs = Vec::new();
        for ink in inks {
            if *ink != Ink::Ram {
                let others = self.transports.iter().filter(|way| **way != Transport::Tcp);
                pairs.extend(others.map(|way| (id(ink, *way), id(ink, Transport::Tcp))));
            }
            let both = [Transport::GrpcStream, Transport::GrpcUnary];
            if both.iter().all(|way| self.transports.contains(way)) {
                pairs.push((id(ink, both[0]), id(ink, both[1])));
            }
        }
        pairs
    }

    pub fn has(&self, transport: Transport) -> bool {
        self.transports.contains(&transport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(transports: &[Transport]) -> Transports {
        Transports {
            transports: transports.to_vec(),
        }
    }

    #[test]
    fn each_ink_goes_by_each_way_and_tcp_is_beside_them() {
        let all = said(&[Transport::Tcp, Transport::GrpcUnary, Transport::GrpcStream]);
        all.check().expect("sound");
        let ids: Vec<String> = all
            .of(&[Ink::Disk, Ink::Ram])
            .into_iter()
            .map(Kind::id)
            .collect();
        let disk = ["disk", "disk+grpc-unary", "disk+grpc-stream"];
        let ram = ["ram", "ram+grpc-unary", "ram+grpc-stream"];
        assert_eq!(ids, [disk, ram].concat());
        let pairs = all.pairs(&[Ink::Disk, Ink::Ram]);
        let has = |a: &str, b: &str| pairs.contains(&(a.to_owned(), b.to_owned()));
        assert!(has("ram+grpc-stream", "ram+grpc-unary") && has("disk+grpc-unary", "disk"));
        assert!(said(&[Transport::Unix]).check().is_err());
        assert!(said(&[Transport::Tcp, Transport::Tcp]).check().is_err());
        assert_eq!(said(&[]).of(&[Ink::Ram]), [Kind::plain(Ink::Ram)]);
    }
}
