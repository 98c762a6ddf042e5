//! Changes of members and slots in words, for the changes that are kept.

use slots::Change as SlotsChange;

use super::members::Change;

/// `the voters of main are to be 1, 2, 4; node 3 is to leave`
pub(super) fn members(change: &Change, name: impl Fn(u32) -> String) -> String {
    let wanted = change.wanted.iter().map(|(log, weights)| {
        let voters = weights.iter().map(|(node, weight)| match weight {
            1 => node.to_string(),
            weight => format!("{node} (weight {weight})"),
        });
        let voters: Vec<String> = voters.collect();
        format!(
            "the voters of {} are to be {}",
            name(*log),
            voters.join(", ")
        )
    });
    let leaving = change.leaving.iter();
    let leaving = leaving.map(|node| format!("node {node} is to leave"));
    let parts: Vec<String> = wanted.chain(leaving).collect();
    match parts.is_empty() {
        true => "the members stay as they are".to_owned(),
        false => parts.join("; "),
    }
}

/// `slots 0-5460, 7 are to go to kv-1-of-3`
pub(super) fn slots(change: &SlotsChange, name: impl Fn(u32) -> String) -> String {
    match change {
        SlotsChange::Join { groups } => {
            let groups: Vec<String> = groups.iter().map(|group| name(*group)).collect();
            format!("slots are spread over {} too", groups.join(", "))
        }
        SlotsChange::Leave { group } => format!("all slots are to leave {}", name(*group)),
        SlotsChange::Move { spans, group } => {
            let spans: Vec<String> = spans.iter().map(ToString::to_string).collect();
            format!("slots {} are to go to {}", spans.join(", "), name(*group))
        }
        SlotsChange::Balance => "slots are spread evenly".to_owned(),
        SlotsChange::Adopt { version, .. } => {
            format!("the map of slots is that of a backup, version {version}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slots::Span;

    fn name(id: u32) -> String {
        format!("log-{id}")
    }

    #[test]
    fn changes_are_told_as_people_would() {
        let change = Change {
            was: 3,
            wanted: vec![(1, vec![(1, 1), (4, 2)])],
            leaving: vec![3],
        };
        let told = members(&change, name);
        assert_eq!(
            told,
            "the voters of log-1 are to be 1, 4 (weight 2); node 3 is to leave"
        );
        let span = |text: &str| text.parse::<Span>().expect("slots");
        let change = SlotsChange::Move {
            spans: vec![span("0-9"), span("12")],
            group: 5,
        };
        assert_eq!(slots(&change, name), "slots 0-9, 12 are to go to log-5");
        let change = SlotsChange::Join { groups: vec![5, 6] };
        assert_eq!(
            slots(&change, name),
            "slots are spread over log-5, log-6 too"
        );
    }
}
