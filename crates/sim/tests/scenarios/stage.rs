//! A cluster in the simulated world, and what a script looks at.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use formats::{LogId, Speaks, codec};
use node::Node;
use node::config::{NodeConfig, Start};
use node::hosted::Hosts;
use node::wires::{Told, Wires};
use ops::{BLOCK, Disk, Time};
use paxos::{Digest, NodeId, PromisedTerm, Role, Slot, Term};
use sim::client::{Appender, AppenderConfig, Chain, Ending, Reader, ReaderConfig, SharedChain};
use sim::workload::small_limits;
use sim::{HostId, Limits, Outcome, Process, World};
use wire::Standing;

use crate::caller::Caller;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const LOG: &str = "main";

pub struct Stage {
    pub world: World,
    pub nodes: Vec<HostId>,
    pub addresses: Vec<String>,
    pub writers: Vec<HostId>,
    readers: Vec<HostId>,
    callers: usize,
    voters: u32,
    limits: replica::Limits,
    hosts: Hosts,
    /// What the process around each node knows.
    wires: Vec<Wires>,
    /// Node N shows a certificate of the name `nN`.
    has_names: bool,
    /// Nodes say where they answer clients of keys.
    has_doors: bool,
    /// The versions that each node speaks from its next start on.
    programs: Rc<RefCell<Vec<Speaks>>>,
    next_program: Speaks,
    known: Rc<RefCell<Known>>,
}

/// The state of the log after all slots below, by the first node that knew it.
type Known = BTreeMap<(LogId, Slot), Digest>;

/// The cluster at one moment.
pub struct Look<'a> {
    pub world: &'a World,
    nodes: &'a [HostId],
}

impl Stage {
    /// Three nodes that vote and are whole.
    pub fn three(seed: u64) -> Stage {
        let mut stage = Stage::new(seed, 3);
        stage.add_node();
        stage.add_node();
        stage.wait_whole(3);
        stage
    }

    /// One node of a cluster that is to have so many voters.
    pub fn new(seed: u64, voters: u32) -> Stage {
        Stage::with_limits(seed, voters, small_limits())
    }

    pub fn with_limits(seed: u64, voters: u32, limits: replica::Limits) -> Stage {
        Stage::of_program(Speaks::THIS, seed, voters, limits)
    }

    /// A stage whose nodes are of that program, until they are given another.
    pub fn of_program(program: Speaks, seed: u64, voters: u32, limits: replica::Limits) -> Stage {
        let mut stage = Stage::empty(program, seed, voters, limits);
        stage.begin();
        stage
    }

    fn begin(&mut self) {
        self.add_node();
        self.wait("the first node to lead", |look| look.leader() == Some(0));
    }

    fn empty(program: Speaks, seed: u64, voters: u32, limits: replica::Limits) -> Stage {
        let mut world = World::new(seed);
        if std::env::var_os("TRACE").is_some() {
            world.trace().print(true);
        }
        Stage {
            world,
            nodes: Vec::new(),
            addresses: Vec::new(),
            writers: Vec::new(),
            readers: Vec::new(),
            callers: 0,
            voters,
            limits,
            hosts: Hosts::default(),
            wires: Vec::new(),
            has_names: false,
            has_doors: false,
            programs: Rc::default(),
            next_program: program,
            known: Rc::default(),
        }
    }

    /// As `three`, whose nodes have these guests.
    pub fn hosting(seed: u64, voters: u32, hosts: Hosts) -> Stage {
        Stage::hosting_as(seed, voters, hosts, false, small_limits())
    }

    /// The same, with these limits.
    pub fn hosting_within(seed: u64, voters: u32, hosts: Hosts, limits: replica::Limits) -> Stage {
        Stage::hosting_as(seed, voters, hosts, false, limits)
    }

    /// Three of them, which say where they answer clients of keys.
    pub fn with_doors(seed: u64, hosts: Hosts) -> Stage {
        Stage::hosting_as(seed, 3, hosts, true, small_limits())
    }

    /// The place of the door of that node, counted from 1.
    pub fn door_of(number: usize) -> String {
        format!("node{number}/1:6379")
    }

    fn hosting_as(
        seed: u64,
        voters: u32,
        hosts: Hosts,
        has_doors: bool,
        limits: replica::Limits,
    ) -> Stage {
        let mut stage = Stage::empty(Speaks::THIS, seed, voters, limits);
        (stage.hosts, stage.has_doors) = (hosts, has_doors);
        stage.begin();
        for _ in 1..voters {
            stage.add_node();
        }
        stage.wait_whole(voters as usize);
        stage
    }

    /// Three nodes that vote and are whole. Each shows a certificate of its own from the beginning, and takes nodes that do.
    pub fn named(seed: u64) -> Stage {
        let mut stage = Stage::empty(Speaks::THIS, seed, 3, small_limits());
        stage.has_names = true;
        stage.begin();
        for id in [2, 3] {
            let index = stage.add_node();
            stage.wait("its id", |look| {
                look.node(index).is_some_and(|node| node.id() == NodeId(id))
            });
        }
        stage.wait_whole(3);
        stage
    }

    /// The word of the process around a node.
    pub fn tell(&self, index: usize, change: impl FnOnce(&mut Told)) {
        self.wires[index].tell(change);
    }

    /// The name in the certificate that this node shows on connections from now on.
    pub fn show(&mut self, index: usize, name: Option<&str>) {
        self.wires[index].tell(|told| told.certificate = name.map(str::to_owned));
        let certificates = &mut self.world.network().certificates;
        match name {
            Some(name) => _ = certificates.insert(self.nodes[index], name.to_owned()),
            None => _ = certificates.remove(&self.nodes[index]),
        }
    }

    /// The next one, which joins if it is not the first. Returns its index.
    pub fn add_node(&mut self) -> usize {
        self.add(self.addresses.first().cloned())
    }

    /// As `add_node`, by way of that one.
    pub fn add_node_by(&mut self, index: usize) -> usize {
        self.add(Some(self.addresses[index].clone()))
    }

    fn add(&mut self, server: Option<String>) -> usize {
        let index = self.nodes.len();
        let name = format!("node{}", index + 1);
        let host = self.world.add_host(&name);
        let address = format!("{name}:7000");
        let start_as = match server {
            None => Start::Bootstrap {
                voters: self.voters,
            },
            Some(server) => Start::Join {
                servers: vec![server],
            },
        };
        let mut config = self.config("/data", &address, start_as);
        self.wires.push(config.wires.clone());
        if self.has_doors {
            config.standing.door = Stage::door_of(index + 1);
        }
        self.nodes.push(host);
        self.addresses.push(address);
        if self.has_names {
            self.show(index, Some(&name));
        }
        self.programs.borrow_mut().push(self.next_program);
        let programs = self.programs.clone();
        self.world.count(host);
        self.watch(host);
        let started = self.world.start(host, move |disk, now| {
            let mut config = config.clone();
            config.speaks = programs.borrow()[index];
            start(config, disk, now)
        });
        started.expect("an empty disk is enough to start");
        index
    }

    fn config(&self, directory: &str, address: &str, start: Start) -> NodeConfig {
        NodeConfig {
            directory: PathBuf::from(directory),
            listen: address.to_owned(),
            advertise: address.to_owned(),
            start,
            places: Vec::new(),
            token: None,
            replaces: None,
            standing: Standing::default(),
            limits: self.limits.clone(),
            nodes_show_certificates: self.has_names,
            wires: Default::default(),
            version: "simulated",
            speaks: Speaks::THIS,
            altered: None,
            hosts: self.hosts.clone(),
        }
    }

    /// A node whose disk was recovered into this directory. The lost cluster's knowledge is another history.
    pub fn go_on_alone(&mut self, index: usize, directory: &str) {
        self.known.borrow_mut().clear();
        let config = self.config(directory, &self.addresses[index], Start::Again);
        let host = self.nodes[index];
        let started = self
            .world
            .start(host, move |disk, now| start(config.clone(), disk, now));
        started.expect("it was recovered");
    }

    /// Its disk is lost: it joins with an empty one, by way of that one.
    pub fn join_anew(&mut self, index: usize, by: usize) {
        self.join_in_the_place_of(index, by, None);
    }

    /// The same, and says whose name it is to get.
    pub fn join_in_the_place_of(&mut self, index: usize, by: usize, replaces: Option<u32>) {
        let host = self.nodes[index];
        self.world.lose_disk(host);
        let servers = vec![self.addresses[by].clone()];
        let mut config = self.config("/data", &self.addresses[index], Start::Join { servers });
        config.wires = self.wires[index].clone();
        config.replaces = replaces;
        let started = self
            .world
            .start(host, move |disk, now| start(config.clone(), disk, now));
        started.expect("an empty disk is enough to start");
    }

    /// Its next start says another address, where it listens from then on.
    pub fn move_node(&mut self, index: usize, directory: &str, address: &str) {
        self.addresses[index] = address.to_owned();
        let config = self.config(directory, address, Start::Again);
        let started = self.world.start(self.nodes[index], move |disk, now| {
            start(config.clone(), disk, now)
        });
        started.expect("its disk is sound");
    }

    /// After every step: nobody contradicts himself, and no two nodes know different histories.
    fn watch(&mut self, host: HostId) {
        let known = self.known.clone();
        let mut seen = BTreeMap::new();
        self.world.after_step(move |world| {
            let Some(node) = world.machine::<Node>(host) else {
                return;
            };
            node.check_invariants();
            for view in node.log_views() {
                let at = (view.id, view.state.next);
                if at.1 == Slot(0) {
                    continue; // Nothing is chosen in it: it is what its maker knew.
                }
                if seen.insert(view.id, view.state.next) == Some(view.state.next) {
                    continue;
                }
                let digest = formats::digest(&codec::encode(formats::version::FIRST, view.state));
                let first = *known.borrow_mut().entry(at).or_insert(digest);
                assert!(first == digest, "I1: another history up to {at:?}");
            }
        });
    }

    pub fn look(&self) -> Look<'_> {
        Look {
            world: &self.world,
            nodes: &self.nodes,
        }
    }

    /// Runs until it is so, for at most two minutes of the world: a connection that was cut may need
    /// one of them to be given up.
    pub fn wait(&mut self, what: &str, reached: impl Fn(&Look<'_>) -> bool) {
        self.wait_within(120 * SECOND, what, reached);
    }

    pub fn wait_within(
        &mut self,
        within: Duration,
        what: &str,
        reached: impl Fn(&Look<'_>) -> bool,
    ) {
        let nodes = self.nodes.clone();
        let limits = Limits {
            until: self.world.now() + within,
            events_max: 20_000_000,
        };
        let outcome = self.world.run_until(limits, |world| {
            let nodes = &nodes;
            reached(&Look { world, nodes })
        });
        if outcome != Outcome::Reached {
            let seed = self.world.seed();
            panic!(
                "seed {seed}: waited in vain for {what}\n{}",
                self.look().picture()
            );
        }
    }

    pub fn pass(&mut self, duration: Duration) {
        self.world.run_for(duration, 5_000_000);
    }

    /// All nodes that run take part, vote and hold the same under one leader, and there are so many.
    pub fn wait_whole(&mut self, count: usize) {
        self.wait("the nodes to be whole", |look| look.is_whole(count));
    }

    pub fn leader(&mut self) -> usize {
        self.wait("a leader", |look| look.leader().is_some());
        self.look().leader().expect("just seen")
    }

    /// The leader, and the others.
    pub fn roles(&mut self) -> (usize, Vec<usize>) {
        let leader = self.leader();
        let others = (0..self.nodes.len()).filter(|index| *index != leader);
        (leader, others.collect())
    }

    pub fn crash(&mut self, index: usize) {
        self.world.crash(self.nodes[index]);
    }

    /// The power goes, and nobody is told.
    pub fn cut_power(&mut self, index: usize) {
        self.world.crash_silently(self.nodes[index]);
    }

    /// From its next start on.
    pub fn give_program(&mut self, index: usize, speaks: Speaks) {
        self.programs.borrow_mut()[index] = speaks;
    }

    /// Sets the program of the nodes that are added.
    pub fn next_program(&mut self, speaks: Speaks) {
        self.next_program = speaks;
    }

    pub fn restart(&mut self, index: usize) {
        let restarted = self.world.restart(self.nodes[index]);
        restarted.expect("its disk is sound");
    }

    /// Compares the nodes' knowledge anew from here on: one of them is to come back from another history.
    pub fn forget_known(&mut self) {
        self.known.borrow_mut().clear();
    }

    /// Cuts the way from the first to the second: its words do not arrive.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.world.cut(self.nodes[from], self.nodes[to]);
    }

    pub fn cut_both(&mut self, a: usize, b: usize) {
        self.cut(a, b);
        self.cut(b, a);
    }

    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    pub fn host_of(&self, index: usize) -> HostId {
        self.nodes[index]
    }

    /// From the other nodes, not from callers.
    pub fn isolate(&mut self, index: usize) {
        for other in (0..self.nodes.len()).filter(|other| *other != index) {
            self.cut_both(index, other);
        }
    }

    pub fn call(&mut self, index: usize, request: &str) -> Caller {
        let name = self.next_caller();
        Caller::call(&mut self.world, &name, &self.addresses[index], request)
    }

    /// A caller that says this line, whatever it is.
    pub fn say_line(&mut self, index: usize, line: &str) -> Caller {
        let caller = self.dial(index);
        caller.send(&mut self.world, format!("{line}\n").as_bytes());
        caller
    }

    /// A caller that connects, and says nothing.
    pub fn dial(&mut self, index: usize) -> Caller {
        let name = self.next_caller();
        Caller::dial(&mut self.world, &name, &self.addresses[index])
    }

    fn next_caller(&mut self) -> String {
        self.callers += 1;
        format!("caller{}", self.callers)
    }

    /// A stream that is open.
    pub fn open(&mut self, index: usize, request: &str) -> Caller {
        let caller = self.call(index, request);
        self.wait("the stream to open", |_| {
            caller.is_open() || caller.is_over()
        });
        assert!(caller.is_open(), "{}", caller.text());
        caller
    }

    /// Says so many bytes and runs to the very step at which all of them are acknowledged.
    pub fn say_and_wait(&mut self, caller: &mut Caller, count: u64) {
        caller.say(&mut self.world, count);
        self.wait("the acknowledgement", |_| caller.has_all());
    }

    /// A writer that never gives up, and follows the leader.
    pub fn add_writer(&mut self, bytes: u64, chunk_bytes: u64, pace: Duration) -> SharedChain {
        let number = self.writers.len() as u64;
        let pace_us = pace.as_micros() as u64;
        let chain = Chain::shared(self.world.seed() * 1000 + number, bytes);
        let config = AppenderConfig {
            log: LOG.to_owned(),
            nodes: self.addresses.clone(),
            ending: Ending::Close,
            chunk_bytes: chunk_bytes..chunk_bytes + 1,
            pace_us: pace_us..pace_us + 1,
            patience_us: 2_000_000,
            ..AppenderConfig::default()
        };
        let (seed, shared) = (self.world.seed(), chain.clone());
        let host = self.world.add_host(&format!("writer{number}"));
        let writer = self.world.start(host, move |_, _| {
            let appender = Appender::new(seed, config.clone(), shared.clone());
            Ok(Box::new(appender))
        });
        writer.expect("it needs no disk");
        self.writers.push(host);
        chain
    }

    /// Reads the writer's chain again and again, and checks every byte.
    pub fn add_reader(&mut self, chain: &SharedChain, follow: bool) {
        let config = ReaderConfig {
            log: LOG.to_owned(),
            nodes: self.addresses.clone(),
            stale_ppm: 0,
            follow_ppm: if follow { 1_000_000 } else { 0 },
            patience_us: 2_000_000,
            ..ReaderConfig::default()
        };
        self.callers += 1;
        let (seed, shared) = (self.callers as u64, chain.clone());
        let host = self.world.add_host(&format!("reader{seed}"));
        let reader = self.world.start(host, move |_, _| {
            let reader = Reader::new(seed, config.clone(), shared.clone());
            Ok(Box::new(reader))
        });
        reader.expect("it needs no disk");
        self.readers.push(host);
    }

    /// Until they have read all of a chain that was closed.
    pub fn wait_for_readers(&mut self) {
        let readers = self.readers.clone();
        self.wait("the readers to see it all", |look| {
            readers.iter().all(|reader| !look.world.is_running(*reader))
        });
    }

    /// The place of these bytes on a node's disk.
    pub fn place_of(&self, index: usize, bytes: &[u8]) -> Option<(PathBuf, u64)> {
        let disk = self.world.disk(self.nodes[index]);
        disk.files().into_iter().find_map(|(path, _)| {
            let contents = disk.contents(&path)?;
            let mut windows = contents.windows(bytes.len());
            let at = windows.position(|window| window == bytes)?;
            Some((path, at as u64))
        })
    }

    /// No process can read the block in which these bytes stand. False if they stand nowhere.
    pub fn make_unreadable(&mut self, index: usize, bytes: &[u8]) -> bool {
        let Some((path, at)) = self.place_of(index, bytes) else {
            return false;
        };
        let block = at - at % BLOCK as u64;
        let disk = self.world.disk_mut(self.nodes[index]);
        disk.faults.bad_blocks.insert((path, block))
    }

    /// All outputs of the log one after the other, as the leader gives them.
    pub fn read_all(&mut self) -> Vec<u8> {
        for _ in 0..20 {
            let leader = self.leader();
            let caller = self.call(leader, &format!("read {LOG}"));
            self.wait("the end of the read", |_| caller.is_over());
            let heard = caller.heard();
            if !heard.starts_with(b"error ") {
                return heard;
            }
            self.pass(200 * MS);
        }
        panic!("nobody reads\n{}", self.look().picture());
    }
}

/// Asked of everybody in turn until somebody does it.
pub fn done(stage: &mut Stage, request: &str) -> String {
    for _ in 0..200 {
        for index in 0..stage.nodes.len() {
            if stage.look().node(index).is_none() {
                continue;
            }
            let caller = stage.call(index, request);
            stage.wait("an answer", |_| caller.is_over() || caller.is_open());
            let text = caller.text();
            let later = ["error not-leader", "error no-quorum", "error shutting"];
            if !text.is_empty() && !later.iter().any(|word| text.starts_with(word)) {
                return text;
            }
        }
        stage.pass(50 * MS);
    }
    panic!("nobody does {request}");
}

fn start(config: NodeConfig, disk: &mut dyn Disk, now: Time) -> io::Result<Box<dyn Process>> {
    let node = Node::start(config, disk, now);
    Ok(Box::new(node.map_err(io::Error::other)?))
}

impl Look<'_> {
    pub fn node(&self, index: usize) -> Option<&Node> {
        self.world.machine::<Node>(self.nodes[index])
    }

    fn view(&self, index: usize) -> Option<replica::LogView<'_>> {
        self.view_of(index, LOG)
    }

    pub fn view_of(&self, index: usize, log: &str) -> Option<replica::LogView<'_>> {
        let mut views = self.node(index)?.log_views();
        views.find(|view| view.name == log)
    }

    /// The leader in the latest term.
    pub fn leader(&self) -> Option<usize> {
        let leads = |index: &usize| self.leads_in(*index).is_some();
        let leaders = (0..self.nodes.len()).filter(leads);
        leaders.max_by_key(|index| self.leads_in(*index))
    }

    pub fn leads_in(&self, index: usize) -> Option<Term> {
        let view = self.view(index)?;
        match (view.role, view.stopped) {
            (Role::Leader { term }, None) => Some(term),
            _ => None,
        }
    }

    pub fn promised(&self, index: usize) -> Option<PromisedTerm> {
        Some(self.view(index)?.promised)
    }

    /// The first slot not known to be chosen.
    pub fn next(&self, index: usize) -> Option<u64> {
        Some(self.view(index)?.state.next.0)
    }

    /// The version that this node knows to be agreed on.
    pub fn version(&self, index: usize) -> u8 {
        self.node(index).map_or(0, |node| node.versions().agreed)
    }

    pub fn era(&self, index: usize) -> Option<u32> {
        Some(self.view(index)?.state.era.0)
    }

    pub fn weight(&self, index: usize, of: NodeId) -> u64 {
        let view = self.view(index);
        let configuration = view.map(|view| view.state.configuration.clone());
        let members = configuration.iter().flat_map(|c| c.members());
        let weights = members.filter(|member| member.node == of);
        weights.map(|member| u64::from(member.weight)).sum()
    }

    pub fn counts(&self, index: usize) -> Option<replica::LogCounts> {
        Some(self.view(index)?.counts)
    }

    pub fn stopped(&self, index: usize) -> bool {
        self.view(index).is_some_and(|view| view.stopped.is_some())
    }

    pub fn missing_bytes(&self, index: usize) -> u64 {
        let missing = self.view(index).map(|view| view.missing());
        let missing = missing.into_iter().flatten();
        missing.map(|(_, range)| range.end.0 - range.start.0).sum()
    }

    pub fn is_whole(&self, count: usize) -> bool {
        let running: Vec<usize> = (0..self.nodes.len())
            .filter(|index| self.node(*index).is_some())
            .collect();
        let is_well = |index: &usize| {
            let Some(node) = self.node(*index) else {
                return false;
            };
            let votes = self.weight(*index, node.id()) > 0;
            let whole = |view: replica::LogView<'_>| {
                let members = view.state.configuration.members().iter();
                let weights = members.map(|member| (member.node.0, member.weight));
                let as_wanted = node.wanted(view.id).is_some_and(|w| weights.eq(w));
                view.stopped.is_none() && view.missing().is_empty() && as_wanted
            };
            votes && node.log_views().count() == 2 && node.log_views().all(whole)
        };
        let first = running.first().and_then(|index| self.next(*index));
        let Some(term) = self.leader().and_then(|index| self.leads_in(index)) else {
            return false;
        };
        let knows = |index: &usize| match self.view(*index).map(|view| view.role) {
            Some(Role::Leader { term: known } | Role::Follower { term: known, .. }) => {
                known == term && self.era(*index) == Some(term.era.0)
            }
            _ => false,
        };
        running.len() == count
            && running.iter().all(knows)
            && running.iter().all(is_well)
            && running.iter().all(|index| self.next(*index) == first)
    }

    pub fn picture(&self) -> String {
        let line = |index: usize| match self.view(index) {
            None => format!("node {}: does not run, or has no log\n", index + 1),
            Some(view) => format!(
                "node {}: {:?}, promised {}, next {}, era {}, {} bytes missing, stopped {:?}, {:?}\n",
                index + 1,
                view.role,
                view.promised.0,
                view.state.next,
                view.state.era.0,
                self.missing_bytes(index),
                view.stopped,
                self.node(index).map(Node::warnings)
            ),
        };
        (0..self.nodes.len()).map(line).collect()
    }
}
