//! Commands, applied: also twice, and in an order that nobody wants.

use super::*;

#[test]
fn commands_applied_twice_change_nothing_more() {
    let commands = [
        Command::SetVoters { voters: 3 },
        Command::AddNode {
            id: 1,
            address: "a:1".into(),
            disk: "d1".into(),
            newest: 1,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        },
        Command::CreateLog {
            name: "main".into(),
            members: vec![(1, 1), (2, 1), (3, 1)],
            auxiliary: vec![3],
            hosts: vec![1, 2, 3],
            retention: Retention::default(),
            min_copies: 0,
            kind: LogKind::Bytes,
        },
        Command::SetRetention {
            log: "main".into(),
            retention: "7d".parse().unwrap(),
        },
        Command::SetMinCopies {
            log: "main".into(),
            min_copies: 2,
        },
        Command::SetZone {
            node: 1,
            zone: "a".into(),
        },
        Command::RemoveNode { node: 1 },
    ];
    let mut once = Directory::default();
    commands.iter().for_each(|c| once.apply(c));
    let mut twice = once.clone();
    commands.iter().for_each(|c| twice.apply(c));
    assert_eq!(once, twice);
    assert_eq!(once.log_by_name("main"), Some(LogId(1)));
    assert!(once.hosts(LogId(1), NodeId(3)) && !once.hosts(LogId(1), NodeId(4)));
}

#[test]
fn no_log_begins_with_a_member_that_leaves() {
    let mut directory = Directory::default();
    let create = |name: &str, nodes: [u32; 2]| Command::CreateLog {
        name: name.into(),
        members: nodes.map(|node| (node, 1)).into(),
        auxiliary: Vec::new(),
        hosts: nodes.into(),
        retention: Retention::default(),
        min_copies: 0,
        kind: LogKind::Bytes,
    };
    for id in [1, 2, 3] {
        directory.apply(&Command::AddNode {
            id,
            address: format!("a:{id}"),
            disk: format!("d{id}"),
            newest: 1,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        });
    }
    directory.members.leaving.insert(3);
    directory.apply(&create("a", [2, 3]));
    assert_eq!(directory.log_by_name("a"), None, "it is leaving");
    directory.apply(&Command::RemoveNode { node: 3 });
    assert!(directory.members.removed.contains(&3));
    directory.apply(&create("a", [2, 3]));
    assert_eq!(directory.log_by_name("a"), None, "it is gone");
    directory.apply(&create("a", [1, 2]));
    assert_eq!(
        directory.log_by_name("a"),
        Some(LogId(1)),
        "no id was spent"
    );
}

#[test]
fn who_goes_on_alone_forgets_the_others_and_what_it_does_not_hold() {
    let mut directory = Directory::default();
    for id in [1, 2, 3] {
        directory.apply(&Command::AddNode {
            id,
            address: format!("a:{id}"),
            disk: format!("d{id}"),
            newest: 1,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        });
    }
    directory.apply(&create("a"));
    directory.apply(&create("b"));
    directory.apply(&Command::GoOnAlone {
        id: 3,
        address: "b:3".into(),
        disk: "e3".into(),
        logs: vec![2],
    });
    let nodes: Vec<_> = directory
        .nodes
        .iter()
        .map(|(id, e)| (id.0, &*e.disk))
        .collect();
    assert_eq!(nodes, [(3, "e3")]);
    assert!(directory.is_deleted(LogId(1)));
    assert_eq!(directory.logs[&LogId(2)].members, [(3, 1)]);
    assert!(
        directory.hosts(LogId(2), NodeId(4)),
        "whoever joins has it too"
    );
}

fn create(name: &str) -> Command {
    Command::CreateLog {
        name: name.into(),
        members: vec![(1, 1)],
        auxiliary: Vec::new(),
        hosts: Vec::new(),
        retention: Retention::default(),
        min_copies: 0,
        kind: LogKind::Bytes,
    }
}

#[test]
fn slots_go_to_groups_that_are_there_and_a_group_with_slots_stays() {
    let mut directory = Directory::default();
    for name in ["kv-1-of-2", "kv-2-of-2", "main"] {
        let mut command = create(name);
        if let Command::CreateLog { kind, .. } = &mut command
            && name != "main"
        {
            *kind = LogKind::Kv;
        }
        directory.apply(&command);
    }
    let change = |change: Change| Command::ChangeSlots {
        change,
        expects: None,
    };
    let join = |groups: Vec<u32>| change(Change::Join { groups });
    directory.apply(&join(vec![1, 3]));
    assert_eq!(directory.slots.version(), 0, "log 3 is no group");
    directory.apply(&join(vec![1, 2]));
    assert_eq!(
        (directory.slots.version(), directory.slots.slots_of(2)),
        (1, 8_192)
    );
    directory.apply(&Command::SealLog { id: 2 });
    assert!(!directory.logs[&LogId(2)].sealing, "it has slots");
    directory.apply(&change(Change::Leave { group: 2 }));
    directory.apply(&Command::SealLog { id: 2 });
    assert!(!directory.logs[&LogId(2)].sealing, "they are on their way");
    let serve = |group, parts| Command::ServeSlots { group, parts };
    directory.apply(&serve(1, vec![(8_192, 16_383, 2)]));
    assert!(directory.slots.is_settled());
    directory.apply(&Command::SealLog { id: 2 });
    assert!(directory.logs[&LogId(2)].sealing);
    directory.apply(&join(vec![2]));
    assert_eq!(directory.slots.version(), 2, "it ends");
    // An older word comes late.
    directory.apply(&serve(2, vec![(8_192, 16_383, 1)]));
    assert!(directory.slots.is_settled());
    let json = |command: &Command| command.encode(2);
    let late = Command::ChangeSlots {
        change: Change::Balance,
        expects: Some(1),
    };
    let adopt = change(Change::Adopt {
        version: 7,
        parts: Vec::new(),
    });
    for command in [late, adopt] {
        let read: Command = serde_json::from_slice(&json(&command)).expect("it is a command");
        assert_eq!(read, command);
    }
}

#[test]
fn a_deleted_log_gives_its_name_to_another_and_its_id_to_none() {
    let mut directory = Directory::default();
    directory.apply(&create("a"));
    assert!(!directory.is_deleted(LogId(1)) && !directory.is_deleted(LogId(2)));
    for _ in 0..2 {
        directory.apply(&Command::DeleteLog { id: 1 });
    }
    directory.apply(&Command::DeleteLog { id: 7 });
    assert!(directory.is_deleted(LogId(1)) && !directory.is_deleted(LogId(7)));
    directory.apply(&create("a"));
    assert_eq!(directory.log_by_name("a"), Some(LogId(2)));
    assert!(!directory.is_deleted(DIRECTORY));
}

#[test]
fn a_node_keeps_its_disk_for_ever() {
    let mut directory = Directory::default();
    directory.apply(&Command::AddNode {
        id: 1,
        address: "a:1".into(),
        disk: "d1".into(),
        newest: 1,
        by_hand: false,
        token: None,
        certificate: None,
        replaces: None,
    });
    directory.apply(&Command::AddNode {
        id: 1,
        address: "b:1".into(),
        disk: "d2".into(),
        newest: 1,
        by_hand: false,
        token: None,
        certificate: None,
        replaces: None,
    });
    assert_eq!(directory.nodes[&NodeId(1)].address, "a:1");
}

#[test]
fn a_version_is_prepared_when_all_speak_it_and_agreed_on_when_prepared() {
    let mut directory = Directory::default();
    let node = |id: u32, newest| Command::AddNode {
        id,
        address: format!("a:{id}"),
        disk: format!("d{id}"),
        newest,
        by_hand: false,
        token: None,
        certificate: None,
        replaces: None,
    };
    directory.apply(&node(1, 2));
    directory.apply(&node(2, 1));
    let prepare = Command::PrepareVersion { version: 2 };
    directory.apply(&prepare);
    directory.apply(&Command::AgreeOnVersion { version: 2 });
    assert_eq!(directory.versions, Versions::default());
    directory.apply(&Command::SetNewest { node: 2, newest: 2 });
    directory.apply(&prepare);
    assert_eq!(
        (directory.versions.agreed, directory.versions.prepared),
        (1, 2)
    );
    directory.apply(&node(3, 1));
    assert!(
        !directory.nodes.contains_key(&NodeId(3)),
        "it came too late"
    );
    directory.apply(&Command::AgreeOnVersion { version: 3 });
    assert_eq!(directory.versions.agreed, 2, "3 is not prepared");
}

#[test]
fn a_disk_has_one_id_however_often_it_asked() {
    let mut directory = Directory::default();
    for id in [2, 3] {
        directory.apply(&Command::AddNode {
            id,
            address: "a:1".into(),
            disk: "d1".into(),
            newest: 1,
            by_hand: false,
            token: None,
            certificate: None,
            replaces: None,
        });
    }
    let ids: Vec<NodeId> = directory.nodes.keys().copied().collect();
    assert_eq!(ids, [NodeId(2)]);
}
