//! The names in nodes' certificates are bound to their ids, or changed.

use wire::Refusal;

use super::change::{NodeName, View, Worked, refused};
use crate::directory::Command;

/// Binds the names that all nodes show now, of those that have none.
pub fn bind(view: &View, worked: &mut Worked) -> Result<(), Refusal> {
    let mut names: Vec<(u32, String)> = Vec::new();
    for (id, entry) in &view.directory.nodes {
        if entry.replaced_by.is_some() {
            continue;
        }
        let bound = !entry.certificate.is_empty();
        let shown = match bound {
            true => Some(&entry.certificate),
            false => view.names.get(&id.0),
        };
        worked.names.push(NodeName {
            node: id.0,
            certificate: shown.cloned(),
            bound,
        });
        match shown {
            None => worked.notes.push(format!(
                "node {id} shows no certificate now: start it with --tls and --tls-dir, and say `logberg members bind` again"
            )),
            Some(name) if !bound => {
                let other = names.iter().find(|(_, other)| other == name);
                let other = other.map(|(node, _)| *node);
                let owner = view.directory.node_of_certificate(name).map(|owner| owner.0);
                if let Some(other) = other.or(owner) {
                    return Err(refused(format!(
                        "nodes {other} and {id} both show the certificate {name}: let --tls-dir of each node hold its own certificate"
                    )));
                }
                names.push((id.0, name.clone()));
            }
            Some(_) => {}
        }
    }
    worked.nothing = names.is_empty();
    worked.command = Some(Command::NameNodes { names });
    Ok(())
}

/// Gives a node another name than the one that is bound.
pub fn rename(view: &View, worked: &mut Worked, node: u32, name: &str) -> Result<(), Refusal> {
    let entry = view.entry(node)?;
    if let Some(by) = entry.replaced_by {
        return Err(refused(format!(
            "node {node} lost its disk, and node {by} has its certificate by now: take node {node} out of the cluster (`logberg members replace {node} {by}`)"
        )));
    }
    let owner = view.directory.node_of_certificate(name);
    if let Some(owner) = owner.filter(|owner| owner.0 != node) {
        return Err(refused(format!(
            "{name} is the certificate of node {owner}: each node has one of its own"
        )));
    }
    worked.nothing = entry.certificate == name;
    worked.names.push(NodeName {
        node,
        certificate: Some(name.to_owned()),
        bound: worked.nothing,
    });
    if !worked.nothing {
        worked.notes.push(format!(
            "node {node} is believed by the certificate {name} alone from then on: put that into its --tls-dir, where it is read within ten seconds"
        ));
    }
    let names = vec![(node, name.to_owned())];
    worked.command = Some(Command::NameNodes { names });
    Ok(())
}
