//! Clients who take the rows of a machine, or bring some, on connections of their own.
//!
//! ```text
//!  save   client ─ save LOG ─▶ node ─ Save ─▶ host      fill   client ─ fill LOG ─▶ node ─ Begin ─▶ host
//!                ◀──── ok {…} ─────── Saving ──               ◀───── ack next ────── Filled ──
//!     is sent ─▶ Next ─────────────────▶                        data n COUNT CRC … ─▶ Page n ─▶
//!                ◀── data n COUNT … ──── Page ──               ◀───── ack n+1 ────── Filled ──
//!                …                                             data n 0 00000000 ─▶ End ──▶
//!                ◀──── ok ─────── after the last               ◀───── ok {next} ───── Filled ──
//! ```
//!
//! A client has one page in memory here: the next is asked for once the kernel has the last, and nothing more is received of a client
//! before the host has answered. Who stands still for long is let go: a shelf keeps his rows.

use std::collections::BTreeMap;
use std::time::Duration;

use formats::LogId;
use formats::rows::PAGE_BYTES_MAX;
use letters::{Fill, News, Not, Says, Step, ToHost, Word};
use ops::{BLOCK, Buffer, ConnId, Letter, MachineId, Op};
use paxos::Time;
use replica::{Env, Purpose};
use wire::told::{Filled, Saving};
use wire::{Answer, LINE_BYTES_MAX, LineError, Refusal, ok};

/// So many clients of one log are served at a time. Each may have a page in memory.
const CLIENTS_MAX: usize = 4;
/// One that takes or brings nothing for so long is let go.
const IDLE: Duration = Duration::from_secs(60);
const RECEIVE_BYTES: usize = 16 * BLOCK;

/// The wish of a client.
pub(crate) enum Wants {
    /// All rows.
    Rows,
    /// To fill an empty machine with the rows of this backup.
    Room {
        backup: [u8; 32],
        time_ms: u64,
        sessions: u64,
    },
}

#[derive(Default)]
pub struct Clients(BTreeMap<ConnId, Client>);

struct Client {
    log: LogId,
    machine: MachineId,
    since: Time,
    wants: Wants,
    /// The host owes a word.
    waits: bool,
    /// Pages that were sent, or are chosen.
    pages: u64,
    /// Received, and not handed on.
    bytes: Vec<u8>,
    /// The last page was handed on.
    is_ending: bool,
}

impl Client {
    fn tell(&mut self, conn: ConnId, says: Says, env: &mut Env) {
        self.waits = !matches!(says, Says::Gone);
        self.since = env.now;
        let letter = Letter::new(ToHost {
            log: self.log,
            // It is of no attachment.
            attached: 0,
            what: News::Client {
                client: conn.0,
                says,
            },
        });
        let to = self.machine;
        env.out.ops.push_back(Op::Post { to, letter });
    }

    /// The next step that is whole.
    fn next_step(&mut self) -> Result<Option<Step>, Refusal> {
        let Wants::Room {
            time_ms, sessions, ..
        } = self.wants
        else {
            return Err(misplaced());
        };
        let line = self.bytes.iter().position(|byte| *byte == b'\n');
        let Some(line) = line else {
            return match self.bytes.len() < LINE_BYTES_MAX {
                true => Ok(None),
                false => Err(LineError::TooLong.into()),
            };
        };
        let said = Answer::parse(self.bytes.get(..line).unwrap_or_default())?;
        let Answer::Data {
            position: number,
            count,
            crc32c,
        } = said
        else {
            return Err(misplaced());
        };
        if number != self.pages {
            return Err(misplaced());
        }
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > PAGE_BYTES_MAX {
            let sentence = format!("a page has at most {PAGE_BYTES_MAX} bytes");
            return Err(Refusal::new("bad-request", sentence));
        }
        let begin = line + 1;
        let Some(rows) = self.bytes.get(begin..begin + count) else {
            return Ok(None);
        };
        if crc32c::crc32c(rows) != crc32c {
            let sentence = "a page has another checksum than it should: send it again";
            return Err(Refusal::new("bad-request", sentence));
        }
        let rows = rows.to_vec();
        self.bytes.drain(..begin + count);
        Ok(Some(match count {
            0 => Step::End {
                pages: number,
                time_ms,
                sessions,
            },
            _ => Step::Page { number, rows },
        }))
    }
}

impl Clients {
    pub fn begin(
        &mut self,
        conn: ConnId,
        log: LogId,
        machine: MachineId,
        wants: Wants,
        env: &mut Env,
    ) -> Result<(), Refusal> {
        let count = self.0.values().filter(|client| client.log == log).count();
        if count >= CLIENTS_MAX {
            return Err(no_room());
        }
        env.conns.turn_to(conn, Purpose::Rows(log));
        let says = match wants {
            Wants::Rows => Says::Save,
            Wants::Room { backup, .. } => Says::Fill(Fill {
                backup,
                step: Step::Begin,
            }),
        };
        let mut client = Client {
            log,
            machine,
            since: env.now,
            wants,
            waits: false,
            pages: 0,
            bytes: Vec::new(),
            is_ending: false,
        };
        client.tell(conn, says, env);
        self.0.insert(conn, client);
        Ok(())
    }

    /// The host's word.
    pub fn on_word(&mut self, client: u64, word: Word, env: &mut Env) {
        let conn = ConnId(client);
        let Some(client) = self.0.get_mut(&conn) else {
            return;
        };
        client.waits = false;
        client.since = env.now;
        match word {
            Word::Saving {
                position,
                frame,
                time_ms,
                sessions,
            } => {
                let saving = Saving {
                    position,
                    frame,
                    time_ms,
                    sessions,
                };
                env.send_bytes(conn, ok(&saving).as_bytes());
            }
            Word::Page { rows, is_last } => {
                let mut bytes = Vec::with_capacity(rows.len() + 64);
                if !rows.is_empty() {
                    let data = Answer::Data {
                        position: client.pages,
                        count: rows.len() as u64,
                        crc32c: crc32c::crc32c(&rows),
                    };
                    bytes.extend_from_slice(data.to_line().as_bytes());
                    bytes.extend_from_slice(&rows);
                    client.pages += 1;
                }
                match is_last {
                    true => {
                        let next = client.pages;
                        bytes.extend_from_slice(ok(&Filled { next }).as_bytes());
                        self.0.remove(&conn);
                        env.part(conn, &bytes);
                    }
                    false => env.send_bytes(conn, &bytes),
                }
            }
            Word::Filled { next } if client.is_ending => {
                self.0.remove(&conn);
                env.part(conn, ok(&Filled { next }).as_bytes());
            }
            Word::Filled { next } => {
                client.pages = next;
                let line = Answer::Ack(next).to_line();
                env.send_bytes(conn, line.as_bytes());
                self.hand_on(conn, false, env);
            }
            Word::Not { why, sentence } => {
                self.0.remove(&conn);
                env.refuse(conn, refusal(why, sentence));
            }
        }
    }

    pub fn on_sent(&mut self, conn: ConnId, is_sent: bool, env: &mut Env) {
        let Some(client) = self.0.get_mut(&conn) else {
            return;
        };
        match client.wants {
            _ if !is_sent => self.let_go(conn, env),
            Wants::Rows if !client.waits => client.tell(conn, Says::Next, env),
            Wants::Rows | Wants::Room { .. } => {}
        }
    }

    pub fn on_received(&mut self, conn: ConnId, bytes: &[u8], ended: bool, env: &mut Env) {
        if let Some(client) = self.0.get_mut(&conn) {
            client.since = env.now;
            client.bytes.extend_from_slice(bytes);
            self.hand_on(conn, ended, env);
        }
    }

    /// Hands on what is whole, or receives more.
    fn hand_on(&mut self, conn: ConnId, ended: bool, env: &mut Env) {
        let Some(client) = self.0.get_mut(&conn) else {
            return;
        };
        let Wants::Room { backup, .. } = client.wants else {
            return;
        };
        if client.waits {
            return;
        }
        match client.next_step() {
            Ok(Some(step)) => {
                client.is_ending = matches!(step, Step::End { .. });
                client.tell(conn, Says::Fill(Fill { backup, step }), env);
            }
            Ok(None) if ended => self.let_go(conn, env),
            Ok(None) => env.receive(conn, Buffer::new(RECEIVE_BYTES), 0..RECEIVE_BYTES, false),
            Err(refusal) => {
                self.0.remove(&conn);
                env.refuse(conn, refusal);
            }
        }
    }

    fn let_go(&mut self, conn: ConnId, env: &mut Env) {
        if let Some(mut client) = self.0.remove(&conn) {
            client.tell(conn, Says::Gone, env);
            // What was sent is no whole answer.
            env.reset(conn);
        }
    }

    /// Ends one of them.
    pub fn end_one(&mut self, conn: ConnId, why: &Refusal, env: &mut Env) {
        if let Some(mut client) = self.0.remove(&conn) {
            client.tell(conn, Says::Gone, env);
            tracing::debug!(%why, "a client of rows is ended");
            // What was sent is no whole answer.
            env.reset(conn);
        }
    }

    /// Lets those go that stood still for long.
    pub fn expire(&mut self, env: &mut Env) {
        let now = env.now;
        let clients = self.0.iter();
        let late = clients.filter(|(_, client)| now >= client.since + IDLE);
        for conn in late.map(|(conn, _)| *conn).collect::<Vec<_>>() {
            self.let_go(conn, env);
        }
    }

    /// The log is gone from here, or its machine.
    pub fn end_of(&mut self, log: LogId, env: &mut Env) {
        let clients = self.0.extract_if(.., |_, client| client.log == log);
        for (conn, _) in clients {
            let sentence =
                "the log is gone from this node: ask another, or see whether it was deleted";
            env.refuse(conn, Refusal::new("shutting-down", sentence));
        }
    }
}

fn refusal(why: Not, sentence: String) -> Refusal {
    match why {
        Not::Leading { leader } => {
            let refusal = Refusal::new("not-leader", sentence);
            match leader {
                Some(leader) => refusal.key("leader", leader),
                None => refusal,
            }
        }
        Not::Here => Refusal::new("not-here", sentence),
        Not::Now => Refusal::new("no-quorum", sentence),
        Not::Room => Refusal::new("overloaded", sentence),
        Not::Empty => Refusal::new("not-empty", sentence),
        Not::Before => Refusal::new("filled-before", sentence),
        Not::Allowed => Refusal::new("refused", sentence),
    }
}

fn misplaced() -> Refusal {
    Refusal::new(
        "bad-request",
        "behind `fill` stand pages, each as `data NUMBER COUNT CRC32C`, counted from where the node says, and the last without bytes",
    )
}

fn no_room() -> Refusal {
    Refusal::new(
        "overloaded",
        "as many clients as may be take rows of this machine, or bring some: wait until one has ended",
    )
}
