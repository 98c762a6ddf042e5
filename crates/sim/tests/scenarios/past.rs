//! Old copies of disks that are put back: what their nodes forgot others count on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use formats::{Speaks, hex};
use node::health::Code;
use serde_json::Value;
use sim::{DiskCopy, Status};
use store::Manifest;
use store::past::{key, starts};

use crate::stage::{Look, MS, SECOND, Stage, done};

/// Longer than nodes take to tell how far their disks are, and to write what they were told.
const TOLD: Duration = Duration::from_secs(2);
const WRITTEN: Duration = Duration::from_secs(13);

/// Three nodes that are whole. Returns the leader, and the other two.
fn three(seed: u64) -> (Stage, usize, usize, usize) {
    let mut stage = Stage::three(seed);
    let (leader, others) = stage.roles();
    stage.pass(SECOND);
    (stage, leader, others[0], others[1])
}

/// A copy of the node's disk while it does not run; it is started again.
fn copy_at_rest(stage: &mut Stage, index: usize) -> DiskCopy {
    stage.crash(index);
    let copy = stage.world.copy_disk(stage.nodes[index]);
    stage.pass(300 * MS);
    stage.restart(index);
    stage.wait_whole(3);
    copy
}

/// A copy of a running node, which has told its peers of more since.
fn copy_that_told_more_since(stage: &mut Stage, index: usize) -> DiskCopy {
    let copy = stage.world.copy_disk(stage.nodes[index]);
    let leader = stage.leader();
    let mut caller = stage.open(leader, "append main mode=takeover");
    stage.say_and_wait(&mut caller, 10_000);
    stage.wait_whole(3);
    stage.pass(TOLD);
    copy
}

/// The copy is put back, and its node started.
fn put_back(stage: &mut Stage, index: usize, copy: &DiskCopy) {
    stage.crash(index);
    stage.world.put_disk_back(stage.nodes[index], copy);
    stage.restart(index);
}

fn status(look: &Look<'_>, stage_nodes: &[sim::HostId], index: usize) -> Status {
    look.world.status(stage_nodes[index])
}

/// It ends by itself, and does not start from that directory again.
fn wait_refused(stage: &mut Stage, index: usize) {
    let nodes = stage.nodes.clone();
    stage.wait_within(20 * SECOND, "the old copy to be refused", |look| {
        status(look, &nodes, index) == Status::Finished
    });
    for _ in 0..2 {
        let again = stage.world.restart(nodes[index]).unwrap_err().to_string();
        assert!(again.contains("/data is an old copy"), "{again}");
        assert!(again.contains("put the newer directory back"), "{again}");
    }
}

/// L4: acknowledged by the leader and one follower while the other is down; the leader dies, the follower gets an
/// old disk, the other is started anew.
#[cfg_attr(not(feature = "mutations"), test)]
fn what_was_acknowledged_by_a_node_whose_old_disk_is_put_back_is_missed_and_not_lost() {
    for seed in 0..8 {
        let (mut stage, leader, forgets, away) = three(seed);
        let copy = copy_at_rest(&mut stage, forgets);
        stage.crash(away);
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 10_000);
        stage.crash(leader);
        put_back(&mut stage, forgets, &copy);
        stage.restart(away);
        wait_refused(&mut stage, forgets);
        stage.pass(5 * SECOND);
        assert_eq!(
            stage.look().leader(),
            None,
            "nobody else is left who may lead"
        );
        stage.restart(leader);
        stage.wait_whole(2);
        assert!(stage.read_all() == caller.content(0..10_000));
    }
}

/// However often it is started: each start's number is one higher.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_old_copy_is_refused_after_any_number_of_starts() {
    for seed in 0..4 {
        let (mut stage, _, index, _) = three(seed);
        let copy = copy_at_rest(&mut stage, index);
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main mode=takeover");
        stage.say_and_wait(&mut caller, 10_000);
        stage.crash(index);
        stage.isolate(index);
        put_back(&mut stage, index, &copy);
        for _ in 0..3 {
            stage.pass(SECOND);
            stage.crash(index);
            stage.restart(index);
        }
        stage.world.heal_all();
        wait_refused(&mut stage, index);
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_old_copy_is_refused_by_peers_that_started_meanwhile() {
    for seed in 0..4 {
        let (mut stage, _, index, _) = three(seed);
        let copy = copy_at_rest(&mut stage, index);
        for other in (0..3).filter(|other| *other != index) {
            stage.cut_power(other);
        }
        stage.crash(index);
        for other in (0..3).filter(|other| *other != index) {
            stage.restart(other);
        }
        put_back(&mut stage, index, &copy);
        wait_refused(&mut stage, index);
        stage.wait_whole(2);
    }
}

/// Its list of starts is what it was when it was copied; but it told more of its logs.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_copy_of_a_running_node_is_refused_once_it_told_more() {
    for seed in 0..4 {
        for peers_start_anew in [false, true] {
            let (mut stage, _, index, _) = three(seed);
            let copy = copy_that_told_more_since(&mut stage, index);
            if peers_start_anew {
                stage.pass(WRITTEN);
                for other in (0..3).filter(|other| *other != index) {
                    stage.cut_power(other);
                    stage.restart(other);
                }
                stage.wait_whole(3);
            }
            put_back(&mut stage, index, &copy);
            wait_refused(&mut stage, index);
            stage.wait_whole(2);
        }
    }
}

/// A node that is stopped writes down what it was told of the others, and not only now and then.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_copy_of_a_running_node_is_refused_by_peers_that_were_stopped_and_started() {
    for seed in 0..4 {
        let (mut stage, _, index, _) = three(seed);
        let copy = copy_that_told_more_since(&mut stage, index);
        stage.crash(index);
        let nodes = stage.nodes.clone();
        for other in (0..3).filter(|other| *other != index) {
            stage.world.stop(nodes[other]);
            stage.wait("the node to stop", |look| {
                status(look, &nodes, other) == Status::Finished
            });
        }
        for other in (0..3).filter(|other| *other != index) {
            stage.restart(other);
        }
        stage.world.put_disk_back(nodes[index], &copy);
        stage.restart(index);
        wait_refused(&mut stage, index);
        stage.wait_whole(2);
    }
}

/// And one that told nothing since goes on: nobody counts on what it forgot.
#[cfg_attr(not(feature = "mutations"), test)]
fn a_copy_of_a_running_node_that_told_nothing_since_goes_on() {
    let (mut stage, _, index, _) = three(1);
    stage.pass(WRITTEN);
    let copy = stage.world.copy_disk(stage.nodes[index]);
    stage.pass(TOLD);
    put_back(&mut stage, index, &copy);
    stage.wait_whole(3);
}

fn newest_segment(stage: &Stage, index: usize, log: &str) -> PathBuf {
    let files = stage.world.disk(stage.nodes[index]).files().into_iter();
    let segments = files.filter(|(path, _)| {
        let of_log = path.parent().is_some_and(|parent| parent.ends_with(log));
        of_log && path.extension().is_some_and(|e| e == "seg")
    });
    let newest = segments.map(|(path, _)| path).max();
    newest.expect("a log has a segment")
}

#[cfg_attr(not(feature = "mutations"), test)]
fn what_is_gone_since_a_clean_stop_is_told_by_the_start() {
    for cut in [false, true] {
        let (mut stage, _, index, _) = three(1);
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main mode=takeover");
        for _ in 0..10 {
            stage.say_and_wait(&mut caller, 20_000);
        }
        stage.wait_whole(3);
        let (host, nodes) = (stage.nodes[index], stage.nodes.clone());
        stage.world.stop(host);
        stage.wait("the node to stop", |look| {
            status(look, &nodes, index) == Status::Finished
        });
        let sound = stage.world.copy_disk(host);
        let newest = newest_segment(&stage, index, "log-1");
        match cut {
            false => assert!(stage.world.remove_file(host, &newest)),
            true => {
                let contents = stage.world.disk(host).contents(&newest);
                let length = contents.expect("it is there").len();
                let zeros = vec![0; length - 8192];
                assert!(stage.world.overwrite(host, &newest, 8192, &zeros));
            }
        }
        for _ in 0..2 {
            let why = stage.world.restart(host).unwrap_err().to_string();
            assert!(
                why.contains("when this node was stopped: its newest files were removed, cut"),
                "{why}"
            );
        }
        stage.world.put_disk_back(host, &sound);
        stage.restart(index);
        stage.wait_whole(3);
        // The note counts for that start only.
        stage.crash(index);
        stage.restart(index);
        stage.wait_whole(3);
    }
}

#[cfg_attr(not(feature = "mutations"), test)]
fn a_manifest_that_is_older_than_the_rest_of_the_directory_starts_nothing() {
    let (mut stage, _, index, _) = three(1);
    let host = stage.nodes[index];
    let manifest = stage.world.disk(host).contents("/data/manifest").unwrap();
    stage.crash(index);
    stage.restart(index);
    stage.wait_whole(3);
    stage.crash(index);
    assert!(stage.world.overwrite(host, "/data/manifest", 0, &manifest));
    let why = stage.world.restart(host).unwrap_err().to_string();
    assert!(
        why.contains("the manifest was replaced by an older one"),
        "{why}"
    );
}

/// No node leads here before the old copy ends.
fn nobody_leads_until_refused(stage: &mut Stage, index: usize, who: &[usize]) {
    let nodes = stage.nodes.clone();
    for _ in 0..2_000 {
        let look = stage.look();
        if status(&look, &nodes, index) == Status::Finished {
            break;
        }
        for of in who {
            let picture = look.picture();
            assert_eq!(look.leads_in(*of), None, "node {} leads: {picture}", of + 1);
        }
        stage.pass(MS);
    }
    wait_refused(stage, index);
}

/// Its own vote was all that it needed, and it knows nobody who could tell it better. Those that know it dial it.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_old_copy_of_when_it_was_alone_leads_nothing() {
    for seed in 0..4 {
        let mut stage = Stage::new(seed, 3);
        stage.wait_whole(1);
        stage.crash(0);
        let copy = stage.world.copy_disk(stage.nodes[0]);
        stage.restart(0);
        for _ in 0..2 {
            stage.add_node();
        }
        stage.wait_whole(3);
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 10_000);
        stage.pass(TOLD);
        put_back(&mut stage, 0, &copy);
        nobody_leads_until_refused(&mut stage, 0, &[0]);
        stage.wait_whole(2);
        assert!(stage.read_all() == caller.content(0..10_000));
    }
}

/// The only one that remembers more cannot talk to the third node, with which the copy would be a quorum.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_old_copy_believes_what_its_own_disk_said_whoever_shows_it() {
    for seed in 0..4 {
        let (mut stage, leader, forgets, away) = three(seed);
        let copy = copy_at_rest(&mut stage, forgets);
        let now = stage.leader();
        let (leader, away) = match now == forgets {
            true => (leader, away),
            false => (now, 3 - now - forgets),
        };
        stage.crash(away);
        stage.wait("a leader", |look| look.leader().is_some());
        let at = stage.leader();
        let mut caller = stage.open(at, "append main mode=takeover");
        stage.say_and_wait(&mut caller, 10_000);
        stage.crash(forgets);
        stage.cut_both(leader, away);
        put_back(&mut stage, forgets, &copy);
        stage.restart(away);
        nobody_leads_until_refused(&mut stage, forgets, &[forgets, away]);
        stage.world.heal_all();
        stage.wait_whole(2);
        assert!(stage.read_all() == caller.content(0..10_000));
    }
}

/// It forgot a promise, and promised more since: by what it holds today it lacks nothing. In another start, too.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_copy_is_judged_by_what_it_found_and_not_by_what_it_wrote_since() {
    for (seed, starts_again) in [(0, false), (1, true), (2, false), (3, true)] {
        let (mut stage, knows, forgets, away) = three(seed);
        let copy = stage.world.copy_disk(stage.nodes[forgets]);
        stage.crash(away);
        stage.crash(knows);
        stage.restart(knows);
        stage.wait("the two to have a leader", |look| look.leader().is_some());
        stage.pass(TOLD);
        let told = stage.look().promised(forgets);
        stage.crash(forgets);
        stage.isolate(knows);
        put_back(&mut stage, forgets, &copy);
        stage.restart(away);
        for _ in 0..6 {
            stage.wait("the two to have a leader", |look| look.leader().is_some());
            stage.crash(away);
            stage.restart(away);
            stage.pass(2 * SECOND);
        }
        assert!(stage.look().promised(forgets) > told, "seed {seed}");
        if starts_again {
            stage.crash(forgets);
            stage.restart(forgets);
            stage.pass(SECOND);
        }
        stage.world.heal_all();
        wait_refused(&mut stage, forgets);
        stage.wait_whole(2);
    }
}

/// The only one that knows better is elsewhere by now, and nobody takes a connection where it was.
#[cfg_attr(not(feature = "mutations"), test)]
fn an_old_copy_waits_for_who_is_elsewhere_by_now() {
    for seed in 0..4 {
        let (mut stage, _, forgets, _) = three(seed);
        let copy = stage.world.copy_disk(stage.nodes[forgets]);
        let knows = stage.leader();
        let (knows, away) = match knows == forgets {
            true => ((forgets + 1) % 3, (forgets + 2) % 3),
            false => (knows, 3 - knows - forgets),
        };
        stage.crash(away);
        stage.wait("a leader", |look| look.leader().is_some());
        let at = stage.leader();
        let mut caller = stage.open(at, "append main");
        stage.say_and_wait(&mut caller, 10_000);
        stage.pass(WRITTEN);
        stage.crash(forgets);
        stage.crash(knows);
        stage.cut_both(knows, away);
        stage.move_node(knows, "/data", &format!("node{}:7001", knows + 1));
        stage.restart(away);
        stage.pass(SECOND);
        put_back(&mut stage, forgets, &copy);
        nobody_leads_until_refused(&mut stage, forgets, &[forgets, away]);
        stage.world.heal_all();
        stage.wait_whole(2);
        assert!(stage.read_all() == caller.content(0..10_000));
    }
}

/// A disk's id is no secret. Its key is.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn nobody_claims_a_disk_without_its_key() {
    for seed in 0..4 {
        let (mut stage, leader, index, _) = three(seed);
        stage.crash(index);
        let disk = stage.world.disk(stage.nodes[index]);
        let manifest = disk.contents("/data/manifest").expect("it is there");
        let manifest = Manifest::parse(Speaks::ALL, &manifest, Path::new("manifest"));
        let identity = manifest.expect("it is sound").identity;
        let (cluster, disk) = (identity.cluster, hex(&identity.disk.0));
        let claim = format!(
            "peer kind=control log=0 cluster={cluster} from={} to={} disk={disk} incarnation=1000 nonce=7 address=x:1 speaks=1-2",
            index + 1,
            leader + 1
        );
        let claimant = stage.call(leader, &claim);
        stage.wait("an answer", |_| claimant.text().contains('\n'));
        let answer = claimant.text();
        assert!(answer.starts_with("error no-proof"), "{answer}");
        stage.pass(SECOND);
        stage.restart(index);
        stage.wait_whole(3);
    }
}

/// The greeting of this disk's node to that other one, but for the words behind the address.
pub fn overheard(stage: &Stage, index: usize, to: usize, words: &str) -> String {
    let disk = stage.world.disk(stage.nodes[index]);
    let contents = |name: &str| disk.contents(format!("/data/{name}")).expect("it is there");
    let manifest = Manifest::parse(Speaks::ALL, &contents("manifest"), Path::new("manifest"));
    let identity = manifest.expect("it is sound").identity;
    let to = stage.look().node(to).expect("it runs").id();
    let key = key::parse(&contents("key")).expect("it is sound");
    let all = starts::parse(&contents("starts")).expect("it is sound");
    let last = *all.last().expect("it was started");
    format!(
        "peer kind=control log=0 cluster={} from={} to={} disk={} incarnation={} nonce={} key={} signature={} {words}",
        identity.cluster,
        identity.node,
        to,
        hex(&identity.disk.0),
        last.incarnation,
        last.nonce,
        hex(&key.public().0),
        hex(&key.sign_start(identity.disk, last).0)
    )
}

/// An overheard greeting is signed, but for the versions in it. A node that was started a moment ago has not read yet that
/// the cluster left those behind which know no challenge; its own disk says so.
#[cfg_attr(not(feature = "mutations"), test)]
fn an_overheard_greeting_is_not_admitted_as_an_older_program_s() {
    for seed in 0..4 {
        let (mut stage, other, index, _) = three(seed);
        stage.crash(index);
        stage.crash(other);
        stage.restart(other);
        let greeting = overheard(&stage, index, other, "address=x:1 speaks=1");
        let caller = stage.call(other, &greeting);
        stage.wait("an answer", |_| caller.text().contains('\n'));
        let answer = caller.text();
        let refused = ["error no-proof", "error version"];
        let is_refused = refused.iter().any(|words| answer.starts_with(words));
        assert!(is_refused, "seed {seed}: {answer}");
        stage.restart(index);
        stage.wait_whole(3);
    }
}

/// What `members` says that the nodes are: what stays so while one of them is away.
fn known_of_nodes(stage: &mut Stage) -> Vec<[Value; 5]> {
    let answer = done(stage, "members");
    let json = answer.strip_prefix("ok ").expect("an answer");
    let members: Value = serde_json::from_str(json).expect("it is JSON");
    let nodes = members["nodes"].as_array().expect("a list");
    let facts = ["id", "address", "zone", "kind", "newest_version"];
    nodes
        .iter()
        .map(|node| facts.map(|fact| node[fact].clone()))
        .collect()
}

/// A stranger who overheard it does not answer the challenge: then nobody has said that the node is elsewhere, in another zone,
/// or keeps no bytes.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_overheard_greeting_changes_nothing_of_what_is_known_of_its_node() {
    for seed in 0..4 {
        let (mut stage, leader, index, _) = three(seed);
        let before = known_of_nodes(&mut stage);
        stage.crash(index);
        for other in (0..3).filter(|other| *other != index) {
            let words = "address=x:1 zone=evil node-kind=auxiliary speaks=1-2";
            let caller = stage.call(other, &overheard(&stage, index, other, words));
            stage.wait("an answer", |_| caller.text().contains('\n'));
            let answer = caller.text();
            assert!(answer.contains("challenge="), "seed {seed}: {answer}");
        }
        stage.pass(3 * SECOND);
        assert!(stage.look().leads_in(leader).is_some());
        assert_eq!(known_of_nodes(&mut stage), before, "seed {seed}");
        stage.restart(index);
        stage.wait_whole(3);
    }
}

/// A node moved while all were down. It greets the others before they have read in the directory which disk it has; the
/// address that it says then is agreed nevertheless, once they have.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_node_that_moved_while_all_were_down_is_found_at_the_address_it_says() {
    for seed in 0..12 {
        let (mut stage, leader, moved, other) = three(seed);
        for index in 0..3 {
            stage.crash(index);
        }
        for index in [leader, other] {
            let host = stage.nodes[index];
            stage.world.disk_mut(host).model.read_us = 50_000..200_000;
            stage.restart(index);
        }
        let address = format!("node{}:7001", moved + 1);
        stage.move_node(moved, "/data", &address);
        stage.wait_whole(3);
        stage.pass(5 * SECOND);
        let nodes = known_of_nodes(&mut stage);
        let is_there = |facts: &[Value; 5]| facts[1] == address.as_str();
        assert!(nodes.iter().any(is_there), "seed {seed}: {nodes:?}");
    }
}

/// No node is left that was told more than the copy says: slots that the copy's node forgot are chosen anew,
/// as something else. A node that knows the former values comes back, and does not take the latter for them.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_replica_does_not_replace_what_is_chosen_by_less() {
    for seed in 0..4 {
        let (mut stage, leader, forgets, away) = three(seed);
        stage.crash(away);
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 3_000);
        stage.pass(WRITTEN);
        let copy = stage.world.copy_disk(stage.nodes[forgets]);
        stage.say_and_wait(&mut caller, 2_000);
        // With the next record its disk says that all before is chosen.
        stage.say_and_wait(&mut caller, 1);
        stage.crash(leader);
        put_back(&mut stage, forgets, &copy);
        stage.restart(away);
        stage.wait("the two to have a leader", |look| look.leader().is_some());
        let now = stage.leader();
        let mut other = stage.open(now, "append main mode=takeover");
        stage.say_and_wait(&mut other, 50_000);
        stage.forget_known();
        stage.restart(leader);
        stage.wait("the replica to stop", |look| look.stopped(leader));
        let view = stage.look();
        let view = view.view_of(leader, "main").expect("it runs");
        let why = view.stopped.unwrap_or_default();
        assert!(why.contains("contradicts what is chosen in main"), "{why}");
        assert!(why.contains("of which 5000 bytes are chosen"), "{why}");
        let first = &view.state.streams[0];
        assert_eq!(first.length.0, 5_000, "it keeps what it knows");
        stage.wait_within(20 * SECOND, "the warning", |look| {
            let warnings = look.node(leader).expect("it runs").warnings().1;
            let told = |(code, _, _): &(Code, _, bool)| *code == Code::ReplicaStopped;
            warnings.iter().any(told)
        });
    }
}
