//! Raw logs for the HTTP door: what it asks for is asked of the nodes by the raw pipe, as any client does.
//!
//! ‡ Bytes are asked for at the node's port and with the token of whoever asks, so the nodes judge it, at the beginning and when it is revoked.
//! The node's own socket, where nobody needs a token, is asked for nothing but which log a name is and where that ends.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use client::answer::Code;
use client::{
    AdminError, AppendError, AppendOptions, Appender, Client, Credential, Mode, NewLog, Part,
    ReadEnd, ReadError, ReadOptions, Reader, Refusal, StreamName, StreamPlace, Timeouts,
};
use formats::LogKind;
use http_door::log::{
    Append, Asking, End, Ended, Last, Logs, Next, NoLog, Place, Read, Shown, Wanted,
};

use crate::chains::{self, Chains};
use crate::sockets::Inner;

/// Every stream that the door opens has this label.
const LABEL: &str = "http";
/// Bytes of an append that are not acknowledged yet.
const UNACKNOWLEDGED_BYTES_MAX: usize = 8 << 20;
const WITHIN: Duration = Duration::from_secs(5);
/// A log without a leader is waited for so long, while bytes wait for it or are waited for.
const BYTES_WITHIN: Duration = Duration::from_secs(20);

/// Asks the nodes, beginning with this one.
pub struct ByPipe {
    node: Inner,
    /// Of each log: where its list of streams need not be read before.
    seen: Mutex<BTreeMap<u64, StreamName>>,
}

fn timeouts(total: Duration) -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(1),
        silence: Duration::from_secs(3),
        total,
    }
}

impl ByPipe {
    pub fn new(node: Inner) -> ByPipe {
        let seen = Mutex::default();
        ByPipe { node, seen }
    }

    /// As whoever asks: with his token; or with this node's word on his certificate.
    fn asker(&self, asking: &Asking, total: Duration) -> Result<Client, NoLog> {
        let client = self.node.at_port(timeouts(total));
        let bad = |_| NoLog::Unauthenticated("the token cannot be shown to the nodes".to_owned());
        let credential = match &asking.shown {
            http_door::log::Credential::Nothing => return Ok(client),
            http_door::log::Credential::Token(token) => {
                token.reveal().parse::<Credential>().map_err(bad)?
            }
            http_door::log::Credential::Ticket(ticket) => {
                ticket.reveal().parse::<Credential>().map_err(bad)?
            }
            // ‡ Said on a connection that shows this node's own certificate.
            http_door::log::Credential::Certificate { name, until_ms } => {
                Credential::of_certificate(name, *until_ms)
            }
        };
        Ok(client.showing(Some(credential)))
    }

    /// By the list of logs, which shows everybody those that he may do something to.
    fn listed(client: &Client, name: &str, stale: bool) -> Result<Shown, NoLog> {
        let logs = match stale {
            true => client.stale_logs_part(Part::default()),
            false => client.logs(),
        };
        let logs = logs.map_err(of_admin)?;
        let found = logs
            .into_iter()
            .find(|log| log.name == name && !log.deleting);
        found.map_or(Err(NoLog::Unknown), |log| {
            Ok(Shown {
                id: log.id,
                other_kind: None,
            })
        })
    }

    /// Asks what shows no byte, at the own socket first: of whoever may append as of whoever may read. Where this node does not have the
    /// log, others are asked, and judge.
    fn shown_to_all<T>(
        &self,
        asking: &Asking,
        ask: impl Fn(&Client) -> Result<T, NoLog>,
    ) -> Result<T, NoLog> {
        if let Some(socket) = self.node.socket() {
            let told = ask(&Client::new(vec![socket], timeouts(WITHIN)));
            let is_judged = matches!(
                told,
                Err(NoLog::Unauthenticated(_) | NoLog::Forbidden(_) | NoLog::NotNow(_))
            );
            if !is_judged {
                return told;
            }
        }
        ask(&self.asker(asking, WITHIN)?)
    }

    fn ends_by(
        &self,
        client: &Client,
        log: &str,
        stream: Option<StreamName>,
        stale: bool,
    ) -> Result<(u64, u64), NoLog> {
        let mut first = 0;
        loop {
            let options = ReadOptions {
                stream,
                from: first,
                to: Some(first),
                stale,
                server: stale.then(|| self.node.port()),
                ..ReadOptions::default()
            };
            match client.read(log, options) {
                Ok(read) => return Ok((first, read.length())),
                // Each trim goes on, so this ends.
                Err(ReadError::Trimmed { from }) if from > first => first = from,
                Err(error) => return Err(of_read(error)),
            }
        }
    }

    fn chains(&self, asking: &Asking) -> Result<(Client, u64), NoLog> {
        let id = self.show(asking, false)?.id;
        Ok((self.asker(asking, WITHIN)?, id))
    }
}

impl Logs for ByPipe {
    fn show(&self, asking: &Asking, stale: bool) -> Result<Shown, NoLog> {
        let name = &asking.log;
        if stale {
            return ByPipe::listed(&self.asker(asking, WITHIN)?, name, true);
        }
        let client = match self.node.socket() {
            Some(socket) => Client::new(vec![socket], timeouts(WITHIN)),
            None => self.asker(asking, WITHIN)?,
        };
        let log = match client.log(name) {
            Err(AdminError::Refused { refusal, .. }) if refusal.code == Code::Forbidden => {
                return ByPipe::listed(&client, name, false);
            }
            log => log.map_err(of_admin)?,
        };
        let is_bytes = log.kind == LogKind::Bytes.to_string() || log.kind.is_empty();
        Ok(Shown {
            id: log.id,
            other_kind: (!is_bytes).then_some(log.kind),
        })
    }

    fn create(&self, asking: &Asking) -> Result<(), NoLog> {
        let new = NewLog {
            name: asking.log.clone(),
            ..NewLog::default()
        };
        let created = self.asker(asking, WITHIN)?.create_new_log(&new);
        created.map(drop).map_err(of_change)
    }

    fn delete(&self, asking: &Asking) -> Result<(), NoLog> {
        let deleted = self.asker(asking, WITHIN)?.delete_log(&asking.log);
        deleted.map(drop).map_err(of_change)
    }

    fn append(&self, asking: &Asking, continues: Option<&Place>) -> Result<Box<dyn Append>, NoLog> {
        let continues = continues.map(place).transpose()?;
        let options = AppendOptions {
            label: Some(LABEL.to_owned()),
            // ‡ Who waits at the log cannot be told to go. The door asks again instead.
            mode: Mode::Refuse,
            buffer_bytes_max: UNACKNOWLEDGED_BYTES_MAX,
            continues,
            ..AppendOptions::default()
        };
        let client = self.asker(asking, BYTES_WITHIN)?;
        let appender = client.append(&asking.log, options);
        let appender = appender.map_err(|error| of_append(error, false))?;
        Ok(Box::new(Writer(appender)))
    }

    fn read(&self, asking: &Asking, wanted: &Wanted) -> Result<Box<dyn Read>, NoLog> {
        let Wanted {
            stream,
            from,
            to,
            follows,
            stale,
        } = wanted.clone();
        let options = ReadOptions {
            stream: stream.as_deref().map(name).transpose()?,
            from,
            to,
            follow: follows,
            stale,
            server: stale.then(|| self.node.port()),
        };
        let reader = self.asker(asking, BYTES_WITHIN)?.read(&asking.log, options);
        Ok(Box::new(Follower(reader.map_err(of_read)?)))
    }

    fn ends(
        &self,
        asking: &Asking,
        stream: Option<&str>,
        stale: bool,
    ) -> Result<(u64, u64), NoLog> {
        let stream = stream.map(name).transpose()?;
        if stale {
            return self.ends_by(&self.asker(asking, WITHIN)?, &asking.log, stream, true);
        }
        self.shown_to_all(asking, |client| {
            self.ends_by(client, &asking.log, stream, false)
        })
    }

    fn last(&self, asking: &Asking) -> Result<Option<Last>, NoLog> {
        let (client, id) = self.chains(asking)?;
        let lock = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let after = lock().get(&id).copied();
        let read = |after| chains::read(&client, &asking.log, after).map_err(of_admin);
        let chains = match after {
            None => read(None)?,
            // What stood there was trimmed, or the last chain goes on from before it.
            Some(after) => match read(Some(after)) {
                Ok(Chains {
                    last: Some(last),
                    before,
                }) => Chains {
                    last: Some(last),
                    before,
                },
                _ => read(None)?,
            },
        };
        let mut seen = lock();
        match chains.before {
            Some(before) => _ = seen.insert(id, before),
            None => _ = seen.remove(&id),
        }
        drop(seen);
        Ok(chains.last)
    }

    fn is_together(&self, asking: &Asking, chain: &Ended) -> Result<bool, NoLog> {
        let (first, last) = (name(&chain.first)?, name(&chain.last)?);
        self.shown_to_all(asking, |client| {
            chains::are_together(client, &asking.log, first, last).map_err(of_admin)
        })
    }
}

fn name(stream: &str) -> Result<StreamName, NoLog> {
    let bad = |_| {
        NoLog::Bad(format!(
            "{stream} is no name of a stream: one is such as 1.4.2"
        ))
    };
    stream.parse().map_err(bad)
}

fn place(place: &Place) -> Result<StreamPlace, NoLog> {
    let stream = name(&place.stream)?;
    let position = place.position;
    Ok(StreamPlace { stream, position })
}

struct Writer(Appender);

impl Append for Writer {
    fn stream(&self) -> String {
        self.0.stream().to_string()
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), NoLog> {
        let written = self.0.append(bytes);
        written.map(drop).map_err(|error| of_append(error, true))
    }

    fn leave(self: Box<Self>) -> Result<(), NoLog> {
        let mut appender = self.0;
        // That it cannot be sent is said by the wait, too.
        let _ = appender.flush();
        let acknowledged = appender.wait_acknowledged(appender.position());
        acknowledged.map_err(|error| of_append(error, true))
    }

    fn close(mut self: Box<Self>) -> Result<Ended, NoLog> {
        let closed = self.0.close().map_err(|error| of_append(error, true))?;
        Ok(Ended {
            first: closed.stream.to_string(),
            last: closed.last.to_string(),
        })
    }
}

struct Follower(Reader);

impl Read for Follower {
    fn position(&self) -> u64 {
        self.0.position()
    }

    fn length(&self) -> u64 {
        self.0.length()
    }

    fn next(&mut self, bytes_max: usize, within: Duration) -> Result<Next, NoLog> {
        if !self.0.wait(within).map_err(of_read)? {
            return Ok(Next::Quiet);
        }
        let chunk = self.0.fill_buf();
        let chunk = chunk.map_err(|error| NoLog::NotNow(error.to_string()))?;
        let bytes = chunk[..chunk.len().min(bytes_max)].to_vec();
        self.0.consume(bytes.len());
        if !bytes.is_empty() {
            return Ok(Next::Bytes(bytes));
        }
        Ok(Next::End(match self.0.end() {
            Some(ReadEnd::Closed) => End::Closed,
            Some(ReadEnd::Cut) => End::Cut,
            _ => End::Here,
        }))
    }
}

fn refused(refusal: Refusal) -> NoLog {
    let sentence = refusal.sentence;
    match refusal.code {
        Code::Unauthenticated => NoLog::Unauthenticated(sentence),
        Code::Forbidden => NoLog::Forbidden(sentence),
        Code::BadRequest => NoLog::Bad(sentence),
        Code::UnknownLog => NoLog::Unknown,
        Code::UnknownStream => NoLog::UnknownStream,
        Code::Exists => NoLog::Exists,
        _ => NoLog::Refused(sentence),
    }
}

fn of_admin(error: AdminError) -> NoLog {
    match error {
        AdminError::UnknownLog { .. } => NoLog::Unknown,
        AdminError::Exists { .. } => NoLog::Exists,
        AdminError::Refused { refusal, .. } => refused(refusal),
        AdminError::NotInForce { sentence, .. } => NoLog::NotKnown(sentence),
        AdminError::Unreachable(_) | AdminError::Garbled { .. } => NoLog::NotNow(error.to_string()),
    }
}

/// ‡ An answer that was lost may have been a yes.
fn of_change(error: AdminError) -> NoLog {
    match of_admin(error) {
        NoLog::NotNow(why) => NoLog::NotKnown(why),
        why => why,
    }
}

/// `is_open`: bytes may have been sent.
fn of_append(error: AppendError, is_open: bool) -> NoLog {
    match error {
        AppendError::UnknownLog { .. } => NoLog::Unknown,
        AppendError::Busy { .. } => NoLog::Busy,
        AppendError::Superseded { .. } => NoLog::Superseded,
        AppendError::Continues { length, by, .. } => NoLog::Continues {
            length,
            by: by.map(|by| by.to_string()),
        },
        AppendError::UnknownStream { .. } => NoLog::UnknownStream,
        AppendError::Full { .. } => NoLog::Full(error.to_string()),
        AppendError::Refused { refusal, .. } => refused(refusal),
        AppendError::Damaged { .. } => NoLog::Damaged(error.to_string()),
        _ if is_open => NoLog::NotKnown(format!("{error}; bytes that came may have been appended")),
        _ => NoLog::NotNow(error.to_string()),
    }
}

fn of_read(error: ReadError) -> NoLog {
    match error {
        ReadError::UnknownLog { .. } => NoLog::Unknown,
        ReadError::UnknownStream { .. } => NoLog::UnknownStream,
        ReadError::Trimmed { from } => NoLog::Trimmed { from: Some(from) },
        ReadError::StreamTrimmed { .. } => NoLog::Trimmed { from: None },
        ReadError::PastEnd { length, .. } => NoLog::PastEnd { length },
        ReadError::Refused { refusal, .. } => refused(refusal),
        ReadError::Corrupt { .. } => NoLog::Damaged(error.to_string()),
        ReadError::Unreachable(_) | ReadError::Garbled { .. } => NoLog::NotNow(error.to_string()),
    }
}

/// For the door.
pub fn of(node: &Inner) -> Arc<dyn Logs> {
    Arc::new(ByPipe::new(node.clone()))
}
