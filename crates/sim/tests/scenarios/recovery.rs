//! A majority that is lost for good, at drawn moments: the survivor's disk, as the power left it, is
//! recovered by the production code, and a node starts from it.

use std::cell::Cell;
use std::time::Duration;

use node::rescue::{Rescue, RescuedLog};
use sim::{Random, Status};

use crate::directory::talk;
use crate::stage::{LOG, MS, SECOND, Stage, done};

const OLD: &str = "/data";
const NEW: &str = "/new";

/// The knowledge of the cluster and the survivor at the moment of the loss.
struct Truth {
    /// To the writer.
    acknowledged: u64,
    sent: u64,
    /// Everything below was durable on the survivor, of the writer's bytes.
    durable: u64,
    /// The end of the log's output, by whichever of the three knew most.
    chosen: u64,
    /// The survivor's first slot that is not known to be chosen.
    next: u64,
}

/// Why the survivor may not hold everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    /// It kept up.
    Nothing,
    /// The leader died a moment ago.
    Election,
    /// It was cut off a while ago.
    CutOff,
    /// It was down, and is being filled.
    Filled,
}

impl Before {
    fn of(seed: u64) -> Before {
        [
            Before::Nothing,
            Before::Election,
            Before::CutOff,
            Before::Filled,
        ][(seed % 4) as usize]
    }
}

fn truth(stage: &Stage, chain: &sim::client::SharedChain, survivor: usize) -> Truth {
    let look = stage.look();
    let view = look.view_of(survivor, LOG).expect("it runs");
    let chain = chain.borrow();
    let mut durable = 0;
    for (at, (name, begin)) in chain.streams.iter().enumerate() {
        let end = chain
            .streams
            .get(at + 1)
            .map_or(chain.sent, |(_, next)| *next);
        let stream = view.state.streams.iter().map(|stream| stream.name);
        let Some(stream) = stream.clone().find(|stream| stream.to_string() == *name) else {
            break;
        };
        if durable < *begin {
            break;
        }
        // Holding a range is holding its beginning.
        let (mut least, mut most) = (0, end - begin);
        while least < most {
            let middle = (least + most).div_ceil(2);
            match view.holds(stream, 0..middle) {
                true => least = middle,
                false => most = middle - 1,
            }
        }
        durable = begin + least;
    }
    let views = (0..stage.nodes.len()).filter_map(|index| look.view_of(index, LOG));
    let output = |view: replica::LogView<'_>| -> u64 {
        let streams = view.state.streams.iter();
        streams
            .map(|stream| stream.length.0 - stream.trimmed.0)
            .sum()
    };
    Truth {
        acknowledged: chain.acknowledged,
        sent: chain.sent,
        durable,
        chosen: views.map(output).max().unwrap_or_default(),
        next: view.state.next.0,
    }
}

/// By the same code as `logberg recover`, on the survivor's disk. The report on the log.
fn recover(stage: &mut Stage, survivor: usize) -> RescuedLog {
    let host = stage.nodes[survivor];
    let survey = |stage: &mut Stage| {
        let rescue = stage
            .world
            .with_disk(host, |disk| Rescue::survey(disk, OLD.as_ref(), &mut |_| {}));
        rescue.expect("the survivor's copy of the directory is whole")
    };
    let old_files = |stage: &Stage| {
        let files = stage.world.disk(host).files().into_iter();
        let files = files.filter(|(path, _)| path.starts_with(OLD));
        files
            .map(|(path, _)| (path.clone(), stage.world.disk(host).contents(&path)))
            .collect::<Vec<_>>()
    };
    let before = old_files(stage);
    let mut rescue = survey(stage);
    let at = rescue
        .logs
        .iter()
        .position(|log| log.name == LOG)
        .expect("it hosts it");
    let report = rescue.logs.remove(at);
    let copied = survey(stage);
    let copied = stage
        .world
        .with_disk(host, |disk| copied.copy(disk, NEW.as_ref(), 0, &mut |_| {}));
    let mut copied = copied.expect("there is room");
    while let Some(seal) = stage
        .world
        .with_disk(host, |disk| copied.seal(disk))
        .expect("what was copied can be read")
    {
        let seal = Cell::new(Some(seal));
        let started = stage.world.start(host, move |_, _| {
            Ok(Box::new(seal.take().expect("it is started once")))
        });
        started.expect("it needs no more");
        stage.wait("the last segment", |look| {
            look.world.status(host) == Status::Finished
        });
    }
    let finished = stage.world.with_disk(host, |disk| copied.finish(disk));
    finished.expect("there is room");
    assert!(old_files(stage) == before, "the old directory was changed");
    report
}

/// The whole of what is left, and the position at which it begins.
fn read(stage: &mut Stage, index: usize) -> (u64, Vec<u8>) {
    let mut from = 0;
    for _ in 0..40 {
        let caller = stage.call(index, &format!("read {LOG} from={from} stale=1"));
        stage.wait("the end of the read", |_| caller.is_over());
        let heard = caller.heard();
        if !heard.starts_with(b"error ") {
            return (from, heard);
        }
        let said = String::from_utf8_lossy(&heard).into_owned();
        match said.strip_prefix("error trimmed from=") {
            Some(rest) => {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
                from = digits.and_then(|d| d.parse().ok()).expect("a position");
            }
            None => stage.pass(200 * MS),
        }
    }
    panic!("nobody reads\n{}", stage.look().picture());
}

fn content(client: u64, bytes: std::ops::Range<u64>) -> Vec<u8> {
    let mut content = vec![0; (bytes.end - bytes.start) as usize];
    sim::client::fill(client, bytes.start, &mut content);
    content
}

/// The lost cluster's directory may have known more than is carried out, and what it wanted may be that
/// the log ends.
fn check_obeys_nobody(stage: &Stage, survivor: usize) {
    let look = stage.look();
    let view = look.view_of(survivor, LOG).expect("it was carried over");
    let wish = view.state.wish.as_ref();
    assert!(
        wish.is_none_or(|wish| wish.number.rescues > 0),
        "{LOG} obeys {wish:?} of a directory that is lost"
    );
}

/// The result of a seed.
struct Came {
    lost: u64,
    unsure: u64,
    holes: usize,
}

fn lose_a_majority(seed: u64) -> Came {
    let before = Before::of(seed);
    let mut random = Random::new(seed ^ 0x1057);
    let mut stage = Stage::three(seed);
    let chain = stage.add_writer(1 << 30, 9_000, Duration::from_micros(300));
    stage.pass(Duration::from_millis(random.below(400) + 20));
    let (leader, others) = stage.roles();
    let survivor = match (before, random.below(3)) {
        (Before::Nothing, 0) => leader,
        (_, 1) => others[0],
        _ => others[1],
    };
    match before {
        Before::Nothing => {}
        Before::Election => {
            stage.crash(leader);
            stage.pass(Duration::from_millis(random.below(700)));
        }
        Before::CutOff => {
            stage.isolate(survivor);
            stage.pass(SECOND + Duration::from_millis(random.below(400)));
        }
        Before::Filled => {
            stage.crash(survivor);
            stage.pass(600 * MS);
            stage.restart(survivor);
            stage.pass(Duration::from_millis(random.below(250)));
        }
    }
    stage.pass(Duration::from_micros(random.below(5_000)));
    let truth = truth(&stage, &chain, survivor);
    for index in 0..stage.nodes.len() {
        stage.cut_power(index);
    }
    stage.world.crash(stage.writers[0]);
    let report = recover(&mut stage, survivor);
    stage.go_on_alone(survivor, NEW);
    check_obeys_nobody(&stage, survivor);
    stage.wait("the survivor to lead", |look| {
        look.leader() == Some(survivor)
    });
    let (from, left) = read(&mut stage, survivor);

    // The report is true.
    let place = format!("seed {seed}, {before:?}");
    assert_eq!(left.len() as u64, report.carried_bytes, "{place}");
    let end = from + report.carried_bytes;
    assert!(end <= truth.sent, "{place}: more than was ever sent");
    let client = chain.borrow().client;
    assert!(left == content(client, from..end), "{place}: other bytes");
    assert!(report.first_unchosen <= truth.next, "{place}");
    let holes: u64 = report.holes.iter().map(|hole| hole.to - hole.from).sum();
    let all = report.carried_bytes + report.left_bytes + holes;
    assert!(
        all - report.unsure_bytes <= truth.chosen,
        "{place}: said to be chosen, and is not"
    );
    // Bytes that were acknowledged and stood on the survivor's disk are there.
    let kept = truth.acknowledged.min(truth.durable);
    match report.holes.is_empty() {
        true => {
            assert!(from == 0 && end >= kept, "{place}: {end} of {kept}");
        }
        false => assert!(report.carried_bytes + report.left_bytes >= kept, "{place}"),
    }
    if before == Before::CutOff {
        // Its disk is at rest: to the byte. (Of the newest it may not know any more that it is chosen.)
        assert_eq!(end, truth.durable, "{place}: it says how far it holds");
        assert!(
            truth.acknowledged > end,
            "{place}: the others went on without it"
        );
    }
    grow_again(&mut stage, survivor, from, &left);
    Came {
        lost: truth.acknowledged.saturating_sub(end),
        unsure: report.unsure_bytes,
        holes: report.holes.len(),
    }
}

/// Somebody joins, is filled, and appends go on.
fn grow_again(stage: &mut Stage, survivor: usize, from: u64, left: &[u8]) {
    let joined = stage.add_node_by(survivor);
    stage.wait_whole(2);
    let leader = stage.leader();
    let mut writer = stage.open(leader, &format!("append {LOG}"));
    stage.say_and_wait(&mut writer, 20_000);
    stage.wait_whole(2);
    let (begin, all) = read(stage, joined);
    assert_eq!(begin, from);
    assert!(
        all == [left, &writer.content(0..20_000)].concat(),
        "other bytes"
    );
}

#[cfg_attr(not(feature = "mutations"), test)]
pub fn what_a_survivor_held_durably_lives_on_whenever_the_others_were_lost() {
    let (mut lost, mut unsure, mut holes) = (0, 0, 0);
    for seed in 0..40 {
        let came = lose_a_majority(seed);
        lost += u64::from(came.lost > 0);
        unsure += u64::from(came.unsure > 0);
        holes += u64::from(came.holes > 0);
    }
    println!(
        "of 40: {lost} lost acknowledged bytes, {unsure} were unsure of some, {holes} had holes"
    );
    assert!(
        lost > 0 && unsure > 0 && holes > 0,
        "{lost} {unsure} {holes}"
    );
}

/// Log 0 says for ever that a node goes on alone. When the node reads it again, it is not alone any more, and
/// forgets nobody a second time.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn who_went_on_alone_once_does_not_do_so_again_while_it_reads_its_directory() {
    for seed in 0..4 {
        let limits = replica::Limits {
            directory_growth_bytes: replica::Limits::default().directory_growth_bytes,
            ..sim::workload::small_limits()
        };
        let mut stage = Stage::with_limits(seed, 3, limits);
        stage.add_node();
        stage.add_node();
        stage.wait_whole(3);
        talk(&mut stage, 100);
        stage.wait_whole(3);
        stage.pass(2 * SECOND);
        for index in 0..3 {
            stage.cut_power(index);
        }
        recover(&mut stage, 0);
        stage.go_on_alone(0, NEW);
        stage.wait("the survivor to lead", |look| look.leader() == Some(0));
        let joined = stage.add_node_by(0);
        stage.wait("it to have joined", |look| {
            look.node(joined).is_some_and(|node| node.id().0 > 0)
        });
        stage.wait_whole(2);
        let id = stage.look().node(joined).expect("it runs").id();
        // It is there, and has no vote.
        let answer = done(
            &mut stage,
            &format!("change-members weight {} 0 force=1", id.0),
        );
        assert!(answer.starts_with("ok "), "{answer}");
        stage.wait("it to have no vote", |look| {
            look.weight(0, id) == 0 && look.leader() == Some(0)
        });
        stage.pass(2 * SECOND);
        stage.crash(0);
        let host = stage.nodes[0];
        stage.world.disk_mut(host).model.read_us = 5_000..10_000;
        stage.move_node(0, NEW, "node1:7001");
        stage.wait("it to lead again", |look| look.leader() == Some(0));
        stage.pass(5 * SECOND);
        let members = done(&mut stage, "members");
        assert!(
            members.contains(&format!("\"id\":{},", id.0)),
            "seed {seed}: node {id} is forgotten: {members}"
        );
        assert!(members.contains("node1:7001"), "{members}");
    }
}

/// The others come back with emptied disks when the directory begins with a state of after the rescue. So what their
/// replicas begin with is what the rescue decided, which is not what the log that was carried out once began with.
#[cfg_attr(not(feature = "mutations"), test)]
fn who_comes_back_with_an_emptied_disk_after_a_rescue_takes_part_in_what_was_carried_out() {
    for seed in 0..4 {
        let mut stage = Stage::three(seed);
        let leader = stage.leader();
        let mut caller = stage.open(leader, "append main");
        stage.say_and_wait(&mut caller, 10_000);
        stage.wait_whole(3);
        stage.pass(2 * SECOND);
        for index in 0..3 {
            stage.cut_power(index);
        }
        let survivor = 2;
        recover(&mut stage, survivor);
        stage.go_on_alone(survivor, NEW);
        stage.wait("the survivor to lead", |look| {
            look.leader() == Some(survivor)
        });
        let id = stage.look().node(survivor).expect("it runs").id();
        for round in 0..40 {
            let zone = ["a", "b"][round % 2];
            let answer = done(&mut stage, &format!("change-members zone {} {zone}", id.0));
            assert!(answer.starts_with("ok "), "{answer}");
        }
        for index in [0, 1] {
            stage.join_anew(index, survivor);
        }
        stage.wait_whole(3);
        for index in [0, 1] {
            let (from, left) = read(&mut stage, index);
            assert_eq!(from, 0);
            assert!(left == caller.content(0..10_000), "seed {seed}");
        }
    }
}
