//! The names in nodes' certificates, bound to ids: a part of log 0.
//!
//! ```text
//!   join by a certificate of n3 ─▶ AddNode ─▶ id 3 is n3's ─▶ ‡ who says that it is node 3 shows n3, or is nobody
//!   members bind ─▶ NameNodes                                  who shows n3 is no other node
//!   n3 joins with an empty disk, and replaces=3 ─▶ id 7 is n3's, and id 3 is nobody's for ever
//! ```

use paxos::NodeId;
use paxos::mutation::{self, Mutation};
use thiserror::Error;

use super::Directory;

/// Why a connection is not the node's that it is said to be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Misnamed {
    #[error(
        "node {node} is believed by its certificate {name} alone, and this connection shows none: start it with --tls and --tls-dir"
    )]
    Plain { node: NodeId, name: String },
    #[error(
        "node {node} is believed by its certificate {name} alone, and this connection shows {shown}: let --tls-dir of each node hold its own certificate; if node {node} has this one by now, say `logberg members rename-certificate {node} {shown}`"
    )]
    Other {
        node: NodeId,
        name: String,
        shown: String,
    },
    #[error(
        "this connection shows {shown}, which is the certificate of node {owner}, and says that it is node {node}: let --tls-dir of each node hold its own certificate"
    )]
    OfAnother {
        node: NodeId,
        shown: String,
        owner: NodeId,
    },
    #[error(
        "node {node} lost its disk, and node {by} has its certificate by now: nobody is believed to be node {node} any more"
    )]
    Replaced { node: NodeId, by: u32 },
}

impl Directory {
    /// The node to whose id this name is bound.
    pub fn node_of_certificate(&self, name: &str) -> Option<NodeId> {
        let mut nodes = self.nodes.iter();
        let bound = nodes.find(|(_, entry)| !name.is_empty() && entry.certificate == name);
        bound.map(|(id, _)| *id)
    }

    /// Whether any name is bound.
    pub fn binds_names(&self) -> bool {
        let mut nodes = self.nodes.values();
        nodes.any(|entry| !entry.certificate.is_empty() || entry.replaced_by.is_some())
    }

    /// ‡ Whether the other side of a connection may be that node. `shown`: the name in the certificate that it showed.
    pub fn check_certificate(&self, node: NodeId, shown: Option<&str>) -> Result<(), Misnamed> {
        match mutation::is(Mutation::NameNotBound) {
            true => Ok(()),
            false => self.is_certificate_of(node, shown),
        }
    }

    /// The rule itself.
    pub fn is_certificate_of(&self, node: NodeId, shown: Option<&str>) -> Result<(), Misnamed> {
        let entry = self.nodes.get(&node);
        if let Some(by) = entry.and_then(|entry| entry.replaced_by) {
            return Err(Misnamed::Replaced { node, by });
        }
        let bound = entry.map_or("", |entry| entry.certificate.as_str());
        match (bound, shown) {
            ("", None) => Ok(()),
            ("", Some(shown)) => match self.node_of_certificate(shown) {
                Some(owner) => Err(Misnamed::OfAnother {
                    node,
                    shown: shown.to_owned(),
                    owner,
                }),
                None => Ok(()),
            },
            (name, Some(shown)) if name == shown => Ok(()),
            (name, Some(shown)) => Err(Misnamed::Other {
                node,
                name: name.to_owned(),
                shown: shown.to_owned(),
            }),
            (name, None) => Err(Misnamed::Plain {
                node,
                name: name.to_owned(),
            }),
        }
    }

    /// As `check_certificate`, of a guest: its words reach no engine. ‡ A node that was away while others joined with the disks and
    /// names of those that it knew hears of that by guests alone.
    pub fn check_guest(&self, node: NodeId, shown: Option<&str>) -> Result<(), Misnamed> {
        match self.nodes.contains_key(&node) {
            true => self.check_certificate(node, shown),
            false => Ok(()),
        }
    }

    /// Whether a new node may have that name: it is nobody's, or that of the node that is replaced.
    pub(super) fn may_be_named(&self, name: &str, replaces: Option<u32>) -> bool {
        let owner = self.node_of_certificate(name);
        owner.is_none_or(|owner| replaces == Some(owner.0))
    }

    /// ‡ Moves the name of a node whose disk is lost. Nobody is believed to be that node any more.
    pub(super) fn move_name(&mut self, from: u32, to: u32) {
        if let Some(entry) = self.nodes.get_mut(&NodeId(from)) {
            entry.certificate.clear();
            entry.replaced_by = Some(to);
        }
    }

    /// Binds these names, but for one that is another node's, and for a node that is nobody's.
    pub(super) fn name_nodes(&mut self, names: &[(u32, String)]) {
        for (node, name) in names {
            let owner = self.node_of_certificate(name);
            let is_free = owner.is_none_or(|owner| owner.0 == *node);
            if let Some(entry) = self.nodes.get_mut(&NodeId(*node))
                && is_free
                && entry.replaced_by.is_none()
            {
                entry.certificate.clone_from(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Command;
    use super::*;

    fn add(id: u32, certificate: Option<&str>, replaces: Option<u32>) -> Command {
        Command::AddNode {
            id,
            address: format!("a:{id}"),
            disk: format!("d{id}"),
            newest: 2,
            by_hand: false,
            token: None,
            certificate: certificate.map(str::to_owned),
            replaces,
        }
    }

    fn name(node: u32, name: &str) -> Command {
        Command::NameNodes {
            names: vec![(node, name.to_owned())],
        }
    }

    fn three() -> Directory {
        let mut directory = Directory::default();
        directory.apply(&add(1, Some("n1"), None));
        directory.apply(&add(2, Some("n2"), None));
        directory.apply(&add(3, None, None));
        directory
    }

    #[test]
    fn a_node_is_believed_by_its_name_alone_and_a_name_is_one_nodes() {
        let directory = three();
        let check = |node, shown| directory.check_certificate(NodeId(node), shown);
        assert_eq!(check(1, Some("n1")), Ok(()));
        assert!(matches!(check(1, None), Err(Misnamed::Plain { .. })));
        assert!(matches!(check(1, Some("n2")), Err(Misnamed::Other { .. })));
        assert!(matches!(check(1, Some("n9")), Err(Misnamed::Other { .. })));
        // Nothing is bound to it yet.
        assert_eq!(check(3, None), Ok(()));
        assert_eq!(check(3, Some("n3")), Ok(()));
        // ‡ But it is not another one, nor is somebody who is not known here.
        for node in [3, 4] {
            let other = check(node, Some("n2"));
            assert!(matches!(other, Err(Misnamed::OfAnother { .. })));
        }
        let guest = |node, shown| directory.check_guest(NodeId(node), shown);
        assert_eq!(guest(4, Some("n2")), Ok(()));
        assert!(guest(1, Some("n2")).is_err());
    }

    #[test]
    fn a_name_that_is_bound_lets_no_other_node_in_but_the_one_that_replaces_it() {
        let mut directory = three();
        directory.apply(&add(4, Some("n2"), None));
        directory.apply(&add(4, Some("n2"), Some(1)));
        assert!(!directory.nodes.contains_key(&NodeId(4)));
        directory.apply(&add(4, Some("n2"), Some(2)));
        assert_eq!(directory.node_of_certificate("n2"), Some(NodeId(4)));
        let old = directory.check_certificate(NodeId(2), Some("n2"));
        let (node, by) = (NodeId(2), 4);
        assert_eq!(old, Err(Misnamed::Replaced { node, by }));
        // It gets no other name either.
        directory.apply(&name(2, "n9"));
        assert!(directory.check_certificate(NodeId(2), Some("n9")).is_err());
        assert_eq!(
            directory.check_certificate(NodeId(4), Some("n2")),
            Ok(()),
            "the name has moved"
        );
    }

    #[test]
    fn names_are_bound_and_changed_and_nobody_gets_anothers() {
        let mut directory = three();
        directory.apply(&name(3, "n1"));
        assert_eq!(directory.nodes[&NodeId(3)].certificate, "");
        directory.apply(&name(3, "n3"));
        directory.apply(&name(3, "m3"));
        assert_eq!(directory.node_of_certificate("m3"), Some(NodeId(3)));
        assert_eq!(directory.node_of_certificate("n3"), None);
        // A node that says its address anew keeps its name.
        directory.apply(&add(3, Some("other"), None));
        assert_eq!(directory.node_of_certificate("m3"), Some(NodeId(3)));
    }
}
