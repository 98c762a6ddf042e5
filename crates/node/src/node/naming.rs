//! A caller that speaks as a node shows its certificate: the names in log 0 ([`crate::directory`]) are held against what connections
//! showed.
//!
//! ```text
//!   a greeting, from=3      ─┐
//!   a connection that we dialled, to node 3 ─┼─▶ log 0: node 3 is n3 ─▶ shown: n3? ── no ─▶ refused, told in the audit
//!   log 0 says something new ─┘                                                  (of what is open: ended)
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use ops::ConnId;
use paxos::NodeId;
use replica::Purpose;
use wire::{Code, Refusal};

use super::Node;
use crate::directory::Misnamed;
use crate::greeting::Caller;
use crate::peers::{Entry, Peer};

impl Node {
    /// ‡ Whether the caller may be the node that it says it is.
    pub(super) fn check_certificate(
        &mut self,
        caller: &Caller,
        from: NodeId,
        is_guest: bool,
    ) -> Result<(), Refusal> {
        let checked = self.checked(from, is_guest, caller.node.as_deref());
        let Err(why) = checked else { return Ok(()) };
        let refusal = Refusal::new(Code::NoProof, why.to_string());
        self.counts.peers_refused += 1;
        self.tell_misnamed(caller.node.as_deref(), &caller.from, from, &refusal);
        Err(refusal)
    }

    fn checked(&self, node: NodeId, is_guest: bool, shown: Option<&str>) -> Result<(), Misnamed> {
        let directory = &self.cluster.directory;
        match is_guest {
            true => directory.check_guest(node, shown),
            false => directory.check_certificate(node, shown),
        }
    }

    fn tell_misnamed(&mut self, shown: Option<&str>, at: &str, node: NodeId, why: &Refusal) {
        let who = match shown {
            Some(name) => format!("certificate {name}"),
            None => "no certificate".to_owned(),
        };
        let what = format!("peer as node {node}");
        self.gate.tell(self.env.now, &who, at, &what, why);
    }

    /// ‡ Whether a connection that this node dialled leads to the node that it was meant for. Nothing was said there yet.
    pub(super) fn check_dialled(
        &mut self,
        conn: ConnId,
        result: io::Result<()>,
        node: Option<String>,
    ) -> io::Result<()> {
        result?;
        let Some(purpose) = self.env.conns.purpose(conn) else {
            return Ok(());
        };
        let Some(meant) = purpose.node() else {
            return Ok(());
        };
        let checked = self.checked(meant, purpose.is_of_a_guest(), node.as_deref());
        if let Err(why) = checked {
            // Another node answers there: it is looked for there, and this one is not any more. ‡ No more than a hint: whoever
            // is dialled there shows a name again.
            let owner = node
                .as_deref()
                .and_then(|name| self.cluster.directory.node_of_certificate(name));
            if let (Some(Purpose::ControlOut(_)), Some(owner)) =
                (self.env.conns.purpose(conn), owner)
                && owner != meant
            {
                self.peers.found_another(meant, owner);
            }
            let refusal = Refusal::new(Code::NoProof, why.to_string());
            let at = self.env.peers.addresses.get(&meant).cloned();
            self.tell_misnamed(node.as_deref(), &at.unwrap_or_default(), meant, &refusal);
            return Err(io::Error::other(why));
        }
        self.env.conns.on_dialled(conn, node);
        Ok(())
    }

    /// ‡ Ends connections with nodes that log 0 has named otherwise since they were begun.
    pub(super) fn end_misnamed(&mut self) {
        if !self.cluster.directory.binds_names() {
            return;
        }
        let conns = &self.env.conns;
        let wrong = conns.of_nodes().filter_map(|(conn, purpose, node)| {
            let shown = conns.shown(conn);
            let why = self.checked(node, purpose.is_of_a_guest(), shown).err()?;
            Some((node, why))
        });
        for (node, why) in wrong.collect::<BTreeMap<NodeId, Misnamed>>() {
            tracing::info!(peer = node.0, %why, "connections with a node are made anew");
            self.part_from(node);
        }
    }

    /// Ends all connections with a node, which may come again and is dialled again.
    fn part_from(&mut self, node: NodeId) {
        for (id, log) in self.logs.iter_mut() {
            log.break_links(&mut self.env, node);
            self.due.touch(*id);
        }
        self.peers.part_from_guest(&mut self.env, node);
        let Some(peer) = self.peers.get(node) else {
            return;
        };
        let (incoming, outgoing) = (peer.admission.incoming(), peer.way.conn());
        if let Some(conn) = incoming {
            self.peers.end_control(&mut self.env, conn, node);
        }
        if let Some(conn) = outgoing {
            self.peers.on_broken(&mut self.env, node, conn);
        }
    }

    /// ‡ Nobody is heard as a node but on a connection that showed that node's name.
    pub(super) fn check_names(&self) {
        for (id, peer) in self.peers.iter() {
            let conn = peer.admission.incoming();
            let conn = conn.filter(|_| peer.admission.entry() == Entry::Open);
            let Some(conn) = conn.filter(|conn| self.peers.controls.contains_key(conn)) else {
                continue;
            };
            let shown = self.env.conns.shown(conn);
            paxos::invariant!(
                self.cluster.directory.is_certificate_of(*id, shown).is_ok(),
                "N1: node {id} is heard on a connection that shows {shown:?}"
            );
        }
    }

    /// Takes note of the certificate that this node shows by now, and tells which names are other nodes'.
    pub(super) fn look_at_own_certificate(&mut self) {
        let own = self.env.own.identity.node;
        let nodes = self.cluster.directory.nodes.iter();
        let others = nodes.filter(|(id, entry)| **id != own && !entry.certificate.is_empty());
        let others = others.map(|(id, entry)| (entry.certificate.clone(), id.0));
        let others = others.collect();
        self.config.wires.tell(|told| {
            told.others = others;
            self.env.own.certificate.clone_from(&told.certificate);
        });
    }

    /// The members whose names are not bound, though this node takes nodes by certificates alone.
    pub(super) fn unbound(&self) -> BTreeSet<NodeId> {
        if !self.config.nodes_show_certificates || !self.cluster.was_confirmed() {
            return BTreeSet::new();
        }
        let nodes = self.cluster.directory.nodes.iter();
        let unbound = nodes.filter(|(_, e)| e.certificate.is_empty() && e.replaced_by.is_none());
        unbound.map(|(id, _)| *id).collect()
    }
}

/// The names that nodes show now, of those whose disk has proved itself and who are heard.
pub(crate) fn shown_names(
    env: &replica::Env,
    peers: &crate::peers::Peers,
) -> BTreeMap<u32, String> {
    let named = |(id, peer): (&NodeId, &Peer)| {
        let conn = peer.admission.incoming()?;
        let is_heard = peer.admission.entry() == Entry::Open;
        let name = env.conns.shown(conn).filter(|_| is_heard)?;
        Some((id.0, name.to_owned()))
    };
    let own = env.own.certificate.clone();
    let own = own.map(|name| (env.own.identity.node.0, name));
    peers.iter().filter_map(named).chain(own).collect()
}
