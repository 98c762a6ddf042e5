//! Disks that have room for a log's bytes, and not for the state of its machine; or for the state, and not for a log that is kept for long.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use host::{Bounds, Command, Look, Machine, Outcome, Replier, State, Stop, What};
use paxos::NodeId;
use sim::workload::small_limits;

use crate::hosts::{Guest, Theatre, leads};
use crate::stage::{MS, SECOND, Stage};

const LOG: &str = "rows";
/// The first log that is made has this id.
const LOG_ID: u32 = 2;
const ROW_BYTES: usize = 1_000;
const ROWS: usize = 600;

/// A command is the key of one more row.
struct Rows;

impl Machine for Rows {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        state.put(command, &[7; ROW_BYTES])?;
        Ok(Vec::new())
    }
}

/// Four nodes, and a log with so many rows on three of them, of which the third is auxiliary.
struct Spare {
    theatre: Theatre,
    leader: usize,
    active: usize,
    auxiliary: usize,
    ids: Vec<NodeId>,
    rows: usize,
}

impl Spare {
    fn begin(seed: u64) -> Spare {
        let mut spare = Spare::empty(seed, " members=1,2,3 auxiliary=3", small_limits());
        spare.add(ROWS);
        spare.theatre.pass(5 * SECOND);
        spare
    }

    /// Without rows yet, and with a log that is made so.
    fn empty(seed: u64, how: &str, limits: replica::Limits) -> Spare {
        let guest = Guest {
            log: LOG,
            machine: Arc::new(Rows),
            bounds: Bounds {
                kept_bytes_max: 0,
                flush_bytes: 30_000,
                flush_after: SECOND,
                copy_bytes_per_second: 1_000_000,
                ..Bounds::default()
            },
        };
        let mut theatre = Theatre::made(seed, 4, &guest, how, limits);
        theatre.pass(2 * SECOND);
        let id = |index| theatre.stage.look().node(index).expect("it runs").id();
        let ids: Vec<NodeId> = (0..4).map(id).collect();
        let auxiliary = ids.iter().position(|id| *id == NodeId(3));
        let auxiliary = auxiliary.expect("it joined");
        let leader = theatre.leader().expect("somebody leads");
        Spare {
            theatre,
            leader,
            active: 3 - leader - auxiliary,
            auxiliary,
            ids,
            rows: 0,
        }
    }

    /// Adds so many rows, and insists on an answer to each.
    fn add(&mut self, rows: usize) {
        for _ in 0..rows {
            let outcome: Arc<Mutex<Option<Outcome>>> = Arc::default();
            let kept = outcome.clone();
            let key = format!("row {}", self.rows);
            let what = What::Call {
                order: None,
                command: Command::Plain(key.into_bytes()),
                replier: Replier::new(move |outcome| *kept.lock().unwrap() = Some(outcome)),
            };
            self.theatre.write(self.leader, what);
            for _ in 0..1_000 {
                self.theatre.pass(5 * MS);
                if outcome.lock().unwrap().is_some() {
                    break;
                }
            }
            let outcome = outcome.lock().unwrap().take();
            assert_eq!(outcome, Some(Outcome::Chosen(Vec::new())));
            self.rows += 1;
        }
    }

    fn is_auxiliary(&self, index: usize) -> bool {
        let look = self.theatre.stage.look();
        let view = look.view_of(self.leader, LOG).expect("it runs");
        view.state.configuration.is_auxiliary(self.ids[index])
    }

    fn leader_now(&self) -> usize {
        let all = 0..4;
        let stage = &self.theatre.stage;
        let mut leaders = all.filter(|index| leads(stage, *index, LOG));
        leaders.next().expect("somebody leads")
    }

    fn trimmed(&self) -> u64 {
        let look = self.theatre.stage.look();
        let view = look.view_of(self.leader, LOG).expect("it runs");
        replica::forgotten_bytes(view.state)
    }

    /// The rows of that node's state.
    fn rows_of(&mut self, index: usize) -> usize {
        let found: Arc<Mutex<Option<usize>>> = Arc::default();
        let kept = found.clone();
        let look = Look::new(move |view| {
            let page = view.expect("it is open").prefix(b"row ", 10_000);
            *kept.lock().unwrap() = Some(page.expect("memory does not fail").rows.len());
        });
        let what = What::Look { look, stale: true };
        self.theatre.write(index, what);
        self.theatre.pass(SECOND);
        let found = found.lock().unwrap().take();
        found.expect("it answers")
    }
}

/// The log was trimmed, so its few bytes would find room on the auxiliary's disk, and its state would not. As an active member the
/// auxiliary would be needed for every write, and could take none.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn an_auxiliary_without_room_for_the_state_stays_auxiliary() {
    let mut spare = Spare::begin(5);
    let (active, auxiliary) = (spare.active, spare.auxiliary);
    assert!(spare.trimmed() > 500_000, "{}", spare.trimmed());
    let host = spare.theatre.stage.nodes[auxiliary];
    let disk = spare.theatre.stage.world.disk_mut(host);
    // Twice the reserve of 2 MiB, all of the log, and half of the state.
    disk.faults.capacity_bytes = disk.used_bytes() + (4 << 20) + 150_000;
    spare.theatre.pass(2 * SECOND);
    spare.theatre.stage.cut_power(active);
    spare.theatre.pass(60 * SECOND);
    assert!(spare.is_auxiliary(auxiliary), "it has no room");
    spare.add(10);
    spare
        .theatre
        .stage
        .world
        .disk_mut(host)
        .faults
        .capacity_bytes = 1 << 40;
    spare.theatre.pass(10 * SECOND);
    assert!(!spare.is_auxiliary(auxiliary), "it has room now");
    spare.theatre.pass(20 * SECOND);
    assert_eq!(spare.rows_of(auxiliary), spare.rows);
    assert!(spare.is_auxiliary(active), "another one stands in for it");
    spare.add(10);
    spare.theatre.stage.restart(active);
    spare.theatre.pass(Duration::from_secs(20));
    assert_eq!(spare.rows_of(auxiliary), spare.rows);
}

/// A node is to replace another one, and its disk has no room for the state: it is given no weight, and `members` says why.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_new_member_without_room_for_the_state_is_told_of() {
    let mut spare = Spare::begin(6);
    let new = 3;
    let host = spare.theatre.stage.nodes[new];
    let disk = spare.theatre.stage.world.disk_mut(host);
    disk.faults.capacity_bytes = disk.used_bytes() + (2 << 20) + 500_000;
    spare.theatre.models[new].of(LOG_ID).fill(true);
    spare.theatre.pass(2 * SECOND);
    let [old, id] = [spare.active, new].map(|index| spare.ids[index].0);
    let replace = format!("change-members replace {old} {id}");
    let directs = |look: &Stage| (0..4).find(|index| leads(look, *index, "directory"));
    let director = directs(&spare.theatre.stage).expect("somebody does");
    let caller = spare.theatre.stage.call(director, &replace);
    spare.theatre.pass(10 * SECOND);
    assert!(caller.text().starts_with("ok"), "{}", caller.text());
    let director = directs(&spare.theatre.stage).expect("somebody does");
    let members = spare.theatre.stage.call(director, "members");
    spare.theatre.pass(SECOND);
    let why = format!("the disk of node {id} has ");
    assert!(members.text().contains(&why), "{}", members.text());
    let disk = spare.theatre.stage.world.disk_mut(host);
    disk.faults.capacity_bytes = 1 << 40;
    spare.theatre.models[new].of(LOG_ID).fill(false);
    spare.theatre.pass(20 * SECOND);
    assert_eq!(spare.rows_of(new), spare.rows);
    let look = spare.theatre.stage.look();
    let view = look.view_of(spare.leader_now(), LOG).expect("it runs");
    assert!(!view.state.configuration.contains(NodeId(old)));
    assert!(view.state.configuration.contains(NodeId(id)));
}

/// The log is kept for a node that is away, as long as all others have room. When a disk has little left it is kept no longer: it would stop
/// everybody. Who comes back copies the state.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_log_is_not_kept_for_a_state_that_is_away_where_disks_run_out() {
    let limits = replica::Limits {
        state_lag_bytes_max: 1 << 30,
        ..small_limits()
    };
    let mut spare = Spare::empty(7, " members=1,2,3", limits);
    let mut others = (0..3).filter(|index| *index != spare.leader);
    let away = others.next().expect("there are three");
    spare.theatre.crash(away);
    spare.add(ROWS);
    spare.theatre.pass(5 * SECOND);
    assert!(spare.trimmed() < 10_000, "{}", spare.trimmed());
    let host = spare.theatre.stage.nodes[spare.leader];
    let disk = spare.theatre.stage.world.disk_mut(host);
    // Three times the reserve are not free.
    disk.faults.capacity_bytes = disk.used_bytes() + (5 << 20);
    spare.theatre.pass(3 * SECOND);
    spare.add(1);
    spare.theatre.pass(5 * SECOND);
    assert!(spare.trimmed() > 500_000, "{}", spare.trimmed());
    spare.theatre.stage.restart(away);
    spare.theatre.pass(20 * SECOND);
    assert_eq!(spare.rows_of(away), spare.rows);
}
