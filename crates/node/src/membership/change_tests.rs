use super::*;
use crate::directory::NodeEntry;

/// Three voters of a cluster of four nodes, all alive.
struct Scene {
    directory: Directory,
    alive: BTreeSet<u32>,
    configurations: BTreeMap<u32, Configuration>,
    lacks: BTreeMap<u32, BTreeSet<u32>>,
    names: BTreeMap<u32, String>,
}

impl Scene {
    fn new() -> Scene {
        let mut directory = Directory::default();
        directory.apply(&Command::SetVoters { voters: 3 });
        for id in 1..=4 {
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
        let mut scene = Scene {
            directory,
            alive: (1..=4).collect(),
            configurations: BTreeMap::new(),
            lacks: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        scene.configurations.insert(0, equal(&[1, 2, 3]));
        scene
    }

    fn ask(&self, line: &str) -> Result<Worked, Refusal> {
        let line = format!("logberg/1 change-members {line}");
        let request = Request::parse(line.as_bytes()).unwrap();
        Ask::parse(&request)?.work_out(&View {
            directory: &self.directory,
            alive: &self.alive,
            configurations: &self.configurations,
            lacks: &self.lacks,
            names: &self.names,
        })
    }

    fn said(&self, line: &str) -> String {
        let refusal = self.ask(line).expect_err("it is refused");
        assert!(
            ["refused", "unknown-node", "unknown-log"].contains(&refusal.code.as_str()),
            "{refusal:?}"
        );
        refusal.sentence
    }

    fn zones(&mut self, letters: &str) {
        for (node, letter) in (1..).zip(letters.chars()) {
            let zone = letter.to_string();
            self.directory.apply(&Command::SetZone { node, zone });
        }
    }
}

fn equal(nodes: &[u32]) -> Configuration {
    Configuration::equal(nodes.iter().copied().map(NodeId)).unwrap()
}

fn weights(change: &LogChange) -> Vec<(u32, u32)> {
    change
        .to
        .iter()
        .map(|(node, weight)| (*node, *weight))
        .collect()
}

#[test]
fn a_replacement_moves_the_weight_and_lets_the_old_one_leave() {
    let mut scene = Scene::new();
    scene.alive.remove(&3);
    let worked = scene.ask("replace 3 4").unwrap();
    assert_eq!(weights(&worked.logs[0]), [(1, 1), (2, 1), (4, 1)]);
    assert_eq!(worked.leaves, [3]);
    assert_eq!(
        worked.logs[0].steps,
        [
            "fill node 4 with bytes, then give it weight 1  → 1:1 2:1 3:1 4:1",
            "take the last weight from node 3  → 1:1 2:1 4:1"
        ]
    );
    scene.directory.apply(&worked.command.unwrap());
    // While it goes on the same words change nothing, and show the remaining steps.
    let again = scene.ask("replace 3 4").unwrap();
    assert!(again.nothing && again.command.is_none());
    assert_eq!(again.logs[0].steps.len(), 2);
    scene.configurations.insert(0, equal(&[1, 2, 4]));
    scene.directory.apply(&Command::RemoveNode { node: 3 });
    assert!(scene.ask("replace 3 4").unwrap().nothing);
    assert!(scene.ask("remove 3").unwrap().nothing);
    assert!(!scene.directory.nodes.contains_key(&NodeId(3)));
}

#[test]
fn while_all_are_alive_a_replacement_goes_through_two_votes_each() {
    let worked = Scene::new().ask("replace 3 4").unwrap();
    let now = |step: &String| step.split_once("→ ").map(|(_, weights)| weights.to_owned());
    let on_the_way: Vec<String> = worked.logs[0].steps.iter().filter_map(now).collect();
    let expected = [
        "1:2 2:2 3:2",
        "1:2 2:2 3:2 4:1",
        "1:2 2:2 3:1 4:1",
        "1:2 2:2 3:1 4:2",
        "1:2 2:2 4:2",
        "1:1 2:1 4:1",
    ];
    assert_eq!(on_the_way, expected);
}

#[test]
fn an_id_that_was_removed_never_comes_back() {
    let mut scene = Scene::new();
    let worked = scene.ask("remove 4").unwrap();
    scene.directory.apply(&worked.command.unwrap());
    scene.directory.apply(&Command::RemoveNode { node: 4 });
    scene.directory.apply(&Command::AddNode {
        id: 4,
        address: "a:4".into(),
        disk: "d4".into(),
        newest: 1,
        by_hand: false,
        token: None,
        certificate: None,
        replaces: None,
    });
    assert!(!scene.directory.nodes.contains_key(&NodeId(4)));
    assert!(
        scene
            .said("add 4")
            .contains("was removed, and its id is never used again")
    );
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let scene = Scene::new();
    assert!(scene.said("add 9").contains("there is no node 9"));
    assert!(scene.said("replace 9 4").contains("there is no node 9"));
    assert!(
        scene
            .said("replace 3 2")
            .contains("node 2 is a member of directory already")
    );
    assert!(scene.said("replace 4 3").contains("node 4 has no weight"));
    assert!(
        scene
            .said("add 3 weight=2")
            .contains("`logberg members weight 3 2`")
    );
    assert!(
        scene
            .said("weight 3 2000000")
            .contains("1048576 is the most")
    );
    assert!(scene.said("weight 3 2000").contains("more than 200 steps"));
    assert!(
        scene
            .said("weight 3 2 log=nothing")
            .contains("no log named nothing")
    );
    assert!(
        scene
            .said("remove 3 version=1")
            .contains("since this was planned")
    );
}

#[test]
fn the_last_weight_stays() {
    let mut scene = Scene::new();
    for node in [3, 2] {
        let worked = scene.ask(&format!("weight {node} 0")).unwrap();
        scene.directory.apply(&worked.command.unwrap());
    }
    let said = scene.said("weight 1 0");
    assert!(
        said.contains("directory would have no member left"),
        "{said}"
    );
    assert!(scene.ask("remove 1 force=1").is_err());
}

#[test]
fn without_a_quorum_that_is_alive_nothing_is_taken_away_unless_forced() {
    let mut scene = Scene::new();
    scene.alive = [1, 2, 4].into();
    let said = scene.said("remove 2");
    assert!(
        said.contains("only 1 would be alive, which is no quorum"),
        "{said}"
    );
    assert!(said.contains("node 3 is silent"), "{said}");
    let forced = scene.ask("remove 2 force=1").unwrap();
    assert_eq!(forced.risks.len(), 1);
    assert!(scene.ask("remove 3").is_ok(), "the silent one may go");
}

#[test]
fn no_zone_gets_half_of_the_weight_unless_it_had_more_or_by_force() {
    let mut scene = Scene::new();
    assert!(scene.ask("weight 1 2").is_ok(), "no zone is declared");
    scene.zones("abcc");
    let said = scene.said("weight 1 2");
    assert!(
        said.contains("zone a would have 2 of the 4 votes"),
        "{said}"
    );
    assert!(scene.said("add 4").contains("zone c would have 2 of the 4"));
    assert!(scene.ask("replace 3 4").is_ok());
    assert_eq!(scene.ask("add 4 force=1").unwrap().risks.len(), 1);
    // Two zones of three nodes: one has more than half, before and after.
    scene.zones("aabb");
    assert!(scene.ask("replace 2 4").is_err(), "b gets the greater part");
    assert!(scene.ask("replace 3 4").is_ok());
}

#[test]
fn an_address_keeps_the_disk() {
    let scene = Scene::new();
    let worked = scene.ask("address 2 b:9").unwrap();
    let mut directory = scene.directory.clone();
    directory.apply(&worked.command.unwrap());
    let moved = NodeEntry {
        address: "b:9".into(),
        disk: "d2".into(),
        newest: 1,
        ..NodeEntry::default()
    };
    assert_eq!(directory.nodes[&NodeId(2)], moved);
    assert!(scene.ask("address 2 a:2").unwrap().nothing);
}

#[test]
fn a_zone_is_declared_and_taken_back() {
    let mut scene = Scene::new();
    let worked = scene.ask("zone 2 east").unwrap();
    scene.directory.apply(&worked.command.unwrap());
    assert_eq!(scene.directory.members.zones[&2], "east");
    let worked = scene.ask("zone 2 -").unwrap();
    scene.directory.apply(&worked.command.unwrap());
    assert!(scene.directory.members.zones.is_empty());
    let line = Request::parse(b"logberg/1 change-members zone 2 a/b").unwrap();
    assert_eq!(Ask::parse(&line).unwrap_err().code, "bad-request");
}

/// A scene in which these nodes lack bytes of the directory, which alone is asked of, so that nothing else is
/// in the way.
fn lacking(nodes: &[u32]) -> Scene {
    let mut scene = Scene::new();
    scene.lacks.insert(0, nodes.iter().copied().collect());
    scene
}

#[test]
fn a_silent_node_that_may_alone_hold_bytes_is_not_dropped() {
    let mut scene = lacking(&[1, 2, 4]);
    scene.alive.remove(&3);
    for words in ["remove 3", "replace 3 4", "weight 3 0"] {
        let said = scene.said(words);
        assert!(
            said.contains("node 3 is silent, and none of the others holds all bytes of directory")
                && said.contains("node 1 and 2 and 4 lacks some")
                && said.contains("--force"),
            "{said}"
        );
        let forced = scene.ask(&format!("{words} force=1")).unwrap();
        assert_eq!(forced.risks.len(), 1);
        assert!(forced.command.is_some());
    }
    // The node was being filled itself when it died: it holds nothing that others lack.
    scene.lacks.get_mut(&0).unwrap().insert(3);
    assert!(scene.ask("replace 3 4").unwrap().risks.is_empty());
    let mut scene = lacking(&[1, 4]);
    scene.alive.remove(&3);
    assert!(scene.ask("replace 3 4").is_ok(), "node 2 holds everything");
}

#[test]
fn who_is_alive_fills_the_others_before_it_goes() {
    let scene = lacking(&[1, 2, 4]);
    assert!(scene.ask("replace 3 4").unwrap().risks.is_empty());
    let mut scene = lacking(&[1, 2, 4]);
    scene.alive = BTreeSet::from([3]);
    let risks = scene.ask("remove 3 force=1").unwrap().risks;
    assert!(
        risks
            .iter()
            .any(|r| r.contains("none is alive that could be filled")),
        "{risks:?}"
    );
}

#[test]
fn of_a_learner_that_alone_holds_bytes_no_step_waits() {
    let scene = lacking(&[1, 2, 3]);
    let said = scene.said("remove 4");
    assert!(
        said.contains("only node 4 holds all bytes") && said.contains("without a vote"),
        "{said}"
    );
    assert!(lacking(&[1, 2]).ask("remove 4").is_ok());
}

#[test]
fn a_plan_says_how_little_redundancy_is_left() {
    let mut scene = Scene::new();
    let notes = |scene: &Scene, words: &str| scene.ask(words).unwrap().notes.join("; ");
    let none = notes(&scene, "replace 3 4");
    assert!(none.starts_with("no zones are declared"), "{none}");
    scene.zones("aabc");
    assert_eq!(
        notes(&scene, "replace 2 4"),
        "",
        "three voters in two zones"
    );
    let two = notes(&scene, "remove 1 force=1");
    assert!(two.contains("two voters"), "{two}");
    scene.zones("aaaa");
    let one = notes(&scene, "replace 3 4");
    assert!(
        one.contains("all voters of directory would be in zone a"),
        "{one}"
    );
    let alone = notes(&scene, "weight 3 0");
    assert!(alone.contains("two voters"), "{alone}");
}

#[test]
fn a_log_keeps_the_voters_that_its_copies_need() {
    let mut scene = Scene::new();
    scene.directory.apply(&Command::CreateLog {
        name: "safe".into(),
        members: vec![(1, 1), (2, 1), (3, 1)],
        auxiliary: Vec::new(),
        hosts: Vec::new(),
        retention: Default::default(),
        min_copies: 3,
        kind: Default::default(),
    });
    scene.configurations.insert(1, equal(&[1, 2, 3]));
    let said = scene.said("remove 3");
    assert!(
        said.contains("safe wants 3 copies of what it acknowledges, and 2 of its voters"),
        "{said}"
    );
    assert!(scene.ask("remove 3 force=1").is_ok());
    assert!(scene.ask("replace 3 4").is_ok());
}
