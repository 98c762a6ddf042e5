//! The fake nodes' side of each connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::ReadEnd;
use client::admin::{Health, LogInfo, LogStatus, NodeStatus, Status, StreamEnd, Warning};
use client::answer::{Answer, Code, Refusal};
use client::line::StreamPlace;
use client::request::{Mode, Request};

use super::{AppendFault, CloseFault, ReadFault, Shared, next};

/// The time for which a fault waits for bytes that may not come.
const IDLE: Duration = Duration::from_millis(15);
const CHUNK_BYTES: usize = 1000;

pub(super) fn accept(shared: &Arc<Shared>, node: usize, listener: &TcpListener) {
    listener.set_nonblocking(true).expect("a listener");
    while !shared.stopping() {
        match listener.accept() {
            Ok((stream, _)) => {
                let shared = shared.clone();
                std::thread::spawn(move || {
                    stream.set_nonblocking(false).expect("a socket");
                    if !shared.is_dead(node) {
                        // A broken connection is the client's business.
                        let _ = Conversation::new(shared, node, stream).run();
                    }
                });
            }
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

struct Conversation {
    shared: Arc<Shared>,
    node: usize,
    out: TcpStream,
    input: BufReader<TcpStream>,
}

impl Conversation {
    fn new(shared: Arc<Shared>, node: usize, stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a socket");
        Self {
            shared,
            node,
            out: stream.try_clone().expect("a socket"),
            input: BufReader::new(stream),
        }
    }

    fn say(&mut self, answer: &Answer) -> std::io::Result<()> {
        self.out.write_all(answer.to_line().as_bytes())
    }

    fn refuse(&mut self, refusal: Refusal) -> std::io::Result<()> {
        self.say(&Answer::Error(refusal))
    }

    /// Takes out of the line which cluster it names, if this program does so.
    fn check_cluster(&self, line: &mut Vec<u8>) -> Option<Refusal> {
        let mut truth = self.shared.lock();
        if !truth.understands {
            return None;
        }
        let text = String::from_utf8_lossy(line).into_owned();
        let named = text.trim_end().rsplit_once(" cluster=");
        let (rest, named) = named.map(|(rest, named)| (rest.to_owned(), named.to_owned()))?;
        *line = format!("{rest}\n").into_bytes();
        truth.named.push(named.clone());
        let own = truth.cluster.clone();
        (named != own)
            .then(|| Refusal::new(Code::WrongCluster, "Of another cluster.").key("cluster", own))
    }

    fn run(mut self) -> std::io::Result<()> {
        let mut line = Vec::new();
        self.input.read_until(b'\n', &mut line)?;
        self.wait_for_voice();
        if let Some(refusal) = self.check_cluster(&mut line) {
            return self.refuse(refusal);
        }
        let request = match Request::parse(&line) {
            Ok(request) => request,
            Err(error) => return self.refuse(Refusal::new(Code::BadRequest, error.to_string())),
        };
        let leads = {
            let mut truth = self.shared.lock();
            let line = String::from_utf8_lossy(&line).trim_end().to_owned();
            truth.requests.push((self.node, line));
            truth.leader == self.node
        };
        let anyone = match &request {
            Request::Status { .. } => true,
            Request::Read { stale, .. } => *stale,
            _ => false,
        };
        if !leads && !anyone {
            let hint = {
                let truth = self.shared.lock();
                match truth.hints.get(self.node) {
                    Some(hint) => hint.clone(),
                    None => self.shared.addresses[truth.leader].to_string(),
                }
            };
            let refusal = Refusal::new(Code::NotLeader, "Ask there.");
            return self.refuse(match hint.as_str() {
                "" => refusal,
                hint => refusal.key("leader", hint),
            });
        }
        match request {
            Request::Append {
                log,
                label,
                continues,
                mode,
                ..
            } => self.append(&log, label, continues, mode),
            Request::Close { at, .. } => self.close(at),
            Request::Read {
                log,
                stream,
                from,
                to,
                follow,
                stale,
                ..
            } => {
                if log != "main" {
                    return self.refuse(Refusal::new(Code::UnknownLog, "There is no such log."));
                }
                self.read(
                    stream,
                    from as usize,
                    to.map(|to| to as usize),
                    follow,
                    stale,
                )
            }
            Request::Scrub { .. } => self.refuse(Refusal::new(
                Code::BadRequest,
                "Nothing lies on disks here.",
            )),
            Request::Save { .. } | Request::Fill { .. } => {
                self.refuse(Refusal::new(Code::NoMachine, "No machine is here."))
            }
            Request::Trim { .. } | Request::Retain { .. } => {
                self.refuse(Refusal::new(Code::BadRequest, "Nothing is trimmed here."))
            }
            Request::Slots { .. } | Request::ChangeSlots(_) => {
                self.refuse(Refusal::new(Code::Refused, "No keys are here."))
            }
            Request::Tokens { .. }
            | Request::PutToken { .. }
            | Request::RotateToken { .. }
            | Request::RevokeToken { .. }
            | Request::Issuers { .. }
            | Request::PutIssuer { .. }
            | Request::RemoveIssuer { .. }
            | Request::SetAuth { .. }
            | Request::WhoAmI
            | Request::Explain { .. }
            | Request::Audit { .. } => {
                self.refuse(Refusal::new(Code::Refused, "No tokens are here."))
            }
            Request::Members { .. } | Request::ChangeMembers(_) => {
                self.refuse(Refusal::new(Code::Refused, "Members do not change here."))
            }
            Request::Lead { .. } => {
                self.refuse(Refusal::new(Code::CannotLead, "Nobody else leads here."))
            }
            Request::Status { .. } => {
                let status = self.status();
                self.ok(&status)
            }
            Request::Streams { .. } => {
                let mut streams: Vec<_> = {
                    let truth = self.shared.lock();
                    truth.streams.iter().map(super::FakeStream::info).collect()
                };
                for (at, length) in &self.shared.lock().listed_lengths {
                    streams[*at].length = *length;
                }
                self.ok(&streams)
            }
            Request::Metrics => self.ok(&serde_json::json!({})),
            Request::Logs { .. } => {
                let logs: Vec<_> = self.logs();
                self.ok(&logs)
            }
            Request::ShowLog { name } => {
                let known = self.shared.lock().logs.contains(&name);
                match known {
                    true => self.ok(&serde_json::json!({ "id": 1, "name": name })),
                    false => self.refuse(Refusal::new(Code::UnknownLog, "There is none.")),
                }
            }
            Request::DeleteLog { name, .. } => {
                let (known, instead) = {
                    let mut truth = self.shared.lock();
                    let known = truth.logs.contains(&name);
                    truth.logs.retain(|log| *log != name);
                    (known, truth.create_answer.take())
                };
                match (known, instead) {
                    (_, Some(words)) => self.out.write_all(words.as_bytes()),
                    (true, None) => self.ok(&serde_json::json!({ "id": 1, "name": name })),
                    (false, None) => self.refuse(Refusal::new(Code::UnknownLog, "There is none.")),
                }
            }
            Request::CreateLog { name, .. } => {
                let (exists, instead) = {
                    let mut truth = self.shared.lock();
                    let exists = truth.logs.contains(&name);
                    if !exists {
                        truth.logs.push(name);
                    }
                    (exists, truth.create_answer.take())
                };
                match (exists, instead) {
                    (_, Some(words)) => self.out.write_all(words.as_bytes()),
                    (true, None) => self.refuse(Refusal::new(Code::Exists, "It exists.")),
                    (false, None) => self.ok(&serde_json::json!({ "id": 1 })),
                }
            }
        }
    }

    fn ok(&mut self, value: &impl serde::Serialize) -> std::io::Result<()> {
        let json = serde_json::to_string(value).expect("plain data");
        self.say(&Answer::Ok(json))
    }

    fn logs(&self) -> Vec<LogInfo> {
        let logs = self.shared.lock().logs.clone();
        let infos = logs.into_iter().enumerate();
        infos
            .map(|(index, name)| LogInfo {
                id: index as u64 + 1,
                name,
                retention: "forever".to_owned(),
                deleting: false,
            })
            .collect()
    }

    fn status(&self) -> Status {
        let nodes = self.shared.addresses.iter().enumerate();
        let ((leader, term), cluster, understands) = {
            let truth = self.shared.lock();
            let view = truth.views.get(&self.node).copied();
            let understands = truth.understands.then(|| "cluster".to_owned());
            (
                view.unwrap_or((truth.leader, truth.term)),
                truth.cluster.clone(),
                understands,
            )
        };
        let owner = leader as u64 + 1;
        let mut health = Health::default();
        if self.shared.lock().removed == Some(self.node) {
            health.warnings.push(Warning {
                code: "removed".to_owned(),
                ..Warning::default()
            });
        }
        Status {
            address: self.shared.addresses[self.node].to_string(),
            health,
            cluster,
            understands: understands.into_iter().collect(),
            node: self.node as u64 + 1,
            logs: vec![LogStatus {
                id: 1,
                name: "main".to_owned(),
                leader: Some(owner),
                term: format!("0.{term}.{owner}"),
                ..LogStatus::default()
            }],
            nodes: nodes
                .map(|(index, address)| NodeStatus {
                    id: index as u64 + 1,
                    address: address.to_string(),
                    alive: true,
                    is_self: index == self.node,
                    ..NodeStatus::default()
                })
                .collect(),
            ..Status::default()
        }
    }

    fn append(
        &mut self,
        log: &str,
        label: Option<String>,
        continues: Option<StreamPlace>,
        mode: Mode,
    ) -> std::io::Result<()> {
        let fault = next(&mut self.shared.lock().append_plan, AppendFault::Healthy);
        match &fault {
            AppendFault::DropBefore => return Ok(()),
            AppendFault::SilentBefore => return self.stay_silent(),
            AppendFault::Answer(answer) => return self.out.write_all(answer),
            _ => {}
        }
        let index = loop {
            let opened = self.shared.lock().open(log, label.clone(), continues, mode);
            match opened {
                Ok(index) => break index,
                Err(refusal) if refusal.code == Code::Busy && mode == Mode::Wait => {
                    self.say(&Answer::Waiting)?;
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(refusal) => {
                    // The fault was meant for a stream.
                    self.shared.lock().append_plan.push_front(fault);
                    return self.refuse(refusal);
                }
            }
        };
        let result = self.write_stream(index, fault);
        self.shared.lock().cut(index);
        result
    }

    fn write_stream(&mut self, index: usize, fault: AppendFault) -> std::io::Result<()> {
        match fault {
            AppendFault::LoseAnswer => return Ok(()),
            AppendFault::SilentAfter => return self.stay_silent(),
            _ => {}
        }
        let (name, at) = {
            let truth = self.shared.lock();
            (truth.streams[index].name, truth.streams[index].base)
        };
        if let AppendFault::Deposed = fault {
            let mut truth = self.shared.lock();
            truth.leader = (truth.leader + 1) % self.shared.addresses.len();
            drop(truth);
            let refusal = Refusal::new(Code::NotLeader, "Deposed.").key("stream", name);
            return self.refuse(refusal);
        }
        self.say(&Answer::Stream { name, at })?;
        match fault {
            AppendFault::Cut {
                receive,
                store,
                acknowledge,
                change_leader,
                last_words,
            } => {
                let received = self.receive(receive)?;
                let store = store.min(received.len());
                {
                    let mut truth = self.shared.lock();
                    if truth.active != Some(index) {
                        return Ok(());
                    }
                    truth.streams[index]
                        .bytes
                        .extend_from_slice(&received[..store]);
                    truth.cut(index);
                    if change_leader {
                        truth.leader = (truth.leader + 1) % self.shared.addresses.len();
                    }
                }
                if acknowledge > 0 {
                    self.say(&Answer::Ack(acknowledge.min(store) as u64))?;
                }
                self.out.write_all(last_words.as_bytes())
            }
            AppendFault::NeverRead => self.stay_silent(),
            AppendFault::AcknowledgeTooMuch => {
                let received = self.receive(1)?.len() as u64;
                self.say(&Answer::Ack(received + 1_000_000))?;
                self.stay_silent()
            }
            AppendFault::NeverAcknowledge => self.store(index, false, None),
            AppendFault::StoreOther(at) => self.store(index, true, Some(at)),
            _ => self.store(index, true, None),
        }
    }

    /// Reads up to `count` bytes, or what comes before a pause.
    fn receive(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        let mut received = vec![0; count];
        let mut filled = 0;
        self.out.set_read_timeout(Some(IDLE))?;
        while filled < count {
            match self.input.read(&mut received[filled..]) {
                Ok(0) | Err(_) => break,
                Ok(more) => filled += more,
            }
        }
        received.truncate(filled);
        Ok(received)
    }

    /// The byte at `spoilt` becomes another one on the way.
    fn store(
        &mut self,
        index: usize,
        acknowledge: bool,
        spoilt: Option<u64>,
    ) -> std::io::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        self.out.set_read_timeout(Some(Duration::from_millis(5)))?;
        loop {
            let read = self.input.read(&mut buffer);
            self.wait_for_voice();
            if self.shared.stopping() || self.shared.is_dead(self.node) {
                return Ok(());
            }
            let count = match read {
                Ok(0) => return Ok(()),
                Ok(count) => count,
                Err(_) => 0,
            };
            let (position, crc32c) = {
                let mut truth = self.shared.lock();
                let here = truth.streams[index].bytes.len() as u64;
                let spoilt = spoilt.and_then(|at| at.checked_sub(here));
                if let Some(at) = spoilt.filter(|at| *at < count as u64) {
                    buffer[at as usize] ^= 1;
                }
                if truth.streams[index].end == StreamEnd::Cut {
                    let refusal = Refusal::new(Code::Superseded, "It is over.");
                    let by = truth.streams.get(index + 1).map(|next| next.name);
                    drop(truth);
                    return self.refuse(match by {
                        Some(by) => refusal.key("stream", by),
                        None => refusal,
                    });
                }
                truth.streams[index]
                    .bytes
                    .extend_from_slice(&buffer[..count]);
                let bytes = &truth.streams[index].bytes;
                (bytes.len() as u64, crc32c::crc32c(bytes))
            };
            if acknowledge && count > 0 {
                self.say(&Answer::Checked { position, crc32c })?;
            }
        }
    }

    fn close(&mut self, at: StreamPlace) -> std::io::Result<()> {
        let fault = next(&mut self.shared.lock().close_plan, CloseFault::Healthy);
        let closed = {
            let mut truth = self.shared.lock();
            match fault {
                CloseFault::DropBefore => return Ok(()),
                CloseFault::Refuse => {
                    drop(truth);
                    return self.refuse(Refusal::new(Code::Superseded, "It is over."));
                }
                CloseFault::Cut | CloseFault::CutInSilence => {
                    if let Some(index) = truth.find(at.stream) {
                        truth.cut(index);
                    }
                }
                CloseFault::Healthy | CloseFault::LoseAnswer => {}
            }
            truth.close(at)
        };
        match (fault, closed) {
            (CloseFault::LoseAnswer | CloseFault::CutInSilence, _) => Ok(()),
            (_, Ok(position)) => self.say(&Answer::Closed(position)),
            (_, Err(refusal)) => self.refuse(refusal),
        }
    }

    fn read(
        &mut self,
        stream: Option<client::StreamName>,
        from: usize,
        to: Option<usize>,
        follow: bool,
        stale: bool,
    ) -> std::io::Result<()> {
        let fault = next(&mut self.shared.lock().read_plan, ReadFault::Healthy);
        if matches!(fault, ReadFault::DropBefore) {
            return Ok(());
        }
        let Some((bytes, _)) = self.shared.lock().chain(stream) else {
            return self.refuse(Refusal::new(
                Code::UnknownStream,
                "There is no such stream.",
            ));
        };
        let length = bytes.len();
        if from > length && !follow {
            let refusal = Refusal::new(Code::PastEnd, "It ends before.");
            return self.refuse(refusal.key("length", length));
        }
        self.say(&Answer::Reading {
            from: from as u64,
            length: length as u64,
            stale,
            open: false,
        })?;
        let mut position = from;
        let mut spoke = Instant::now();
        loop {
            self.wait_for_voice();
            let (bytes, end) = self.shared.lock().chain(stream).expect("found above");
            let limit = to.unwrap_or(usize::MAX).min(bytes.len());
            while position < limit {
                let count = CHUNK_BYTES.min(limit - position);
                let chunk = &bytes[position..position + count];
                let crc32c = crc32c::crc32c(chunk);
                let answer = |crc32c| Answer::Data {
                    position: position as u64,
                    count: count as u64,
                    crc32c,
                };
                match &fault {
                    ReadFault::CutAt(at) if *at < position + count => {
                        self.say(&answer(crc32c))?;
                        return self.out.write_all(&chunk[..at.saturating_sub(position)]);
                    }
                    ReadFault::InsteadAt(at, line) if *at <= position => {
                        return self.out.write_all(line);
                    }
                    ReadFault::SilentAt(at) if *at <= position => return self.stay_silent(),
                    ReadFault::AliveAt(at) if *at <= position => {
                        self.say(&Answer::Data {
                            position: position as u64,
                            count: 0,
                            crc32c: 0,
                        })?;
                        std::thread::sleep(Duration::from_millis(20));
                        continue;
                    }
                    ReadFault::WrongChecksumAt(at) if *at < position + count => {
                        self.say(&answer(crc32c ^ 1))?;
                    }
                    _ => self.say(&answer(crc32c))?,
                }
                match fault {
                    ReadFault::Slow(pause) => {
                        for piece in chunk.chunks(count.div_ceil(20)) {
                            std::thread::sleep(pause);
                            self.out.write_all(piece)?;
                        }
                    }
                    _ => self.out.write_all(chunk)?,
                }
                position += count;
                spoke = Instant::now();
            }
            let end = match end {
                _ if Some(position) == to => Some(ReadEnd::To),
                StreamEnd::Closed => Some(ReadEnd::Closed),
                StreamEnd::Cut if !follow => Some(ReadEnd::Cut),
                StreamEnd::Open if !follow => Some(ReadEnd::Open),
                _ => None,
            };
            if let Some(end) = end {
                return self.say(&Answer::End {
                    position: position as u64,
                    end,
                });
            }
            if self.shared.stopping() || self.shared.is_dead(self.node) {
                return Ok(());
            }
            if spoke.elapsed() > Duration::from_millis(50) {
                self.say(&Answer::Data {
                    position: position as u64,
                    count: 0,
                    crc32c: 0,
                })?;
                spoke = Instant::now();
                if matches!(fault, ReadFault::SilentAt(_)) {
                    return self.stay_silent();
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn wait_for_voice(&self) {
        while self.shared.is_silent(self.node) {
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn stay_silent(&mut self) -> std::io::Result<()> {
        while !self.shared.stopping() {
            std::thread::sleep(Duration::from_millis(5));
            if self.out.take_error()?.is_some() {
                break;
            }
        }
        Ok(())
    }
}
