//! A guest that lives in another machine of this process: it is told in letters, and asks by letters.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use formats::frame::Piece;
use formats::{Frame, LogId, Stand};
use letters::{CREDIT_BYTES, Leader, News, ToHost, Wish};
use ops::{Letter, MachineId, Op};
use paxos::{NodeId, ReadId, StreamName, Time};
use replica::{Event, NotNow, Port};

use super::Hosted;
use super::hearing::{Hearing, STUCK};

/// A barrier that could not be asked for, or failed, is asked for again after so long.
/// A restore that brings nothing for so long has stopped.
const FILLS_NO_MORE_AFTER: Duration = Duration::from_secs(10);
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// A leader whose log ends before the state says so after so long.
const BEYOND_AFTER: Duration = Duration::from_secs(5);
/// A state that goes no further hands leadership over as often.
const ASIDE_EVERY: Duration = Duration::from_millis(500);
/// One that goes no further for now does so as often: all disks may be full.
const STUCK_ASIDE_EVERY: Duration = Duration::from_secs(5);

/// A follower hands over what is chosen as often, unless somebody waits for it: each time wakes two more threads.
const HAND_OVER_EVERY: Duration = Duration::from_millis(2);

pub(super) struct Remote {
    log: LogId,
    machine: MachineId,
    attached: u64,
    /// Bytes that were handed over and not taken yet.
    outstanding: u64,
    /// Submitted, and not taken by the log: in order.
    submitted: VecDeque<(StreamName, Vec<u8>)>,
    /// By the host's numbers: the barriers that were asked for in the log, or are to be.
    barriers: BTreeMap<u64, Barrier>,
    halted: Option<String>,
    /// Why the state goes no further for now.
    stuck: Option<String>,
    hearing: Hearing,
    /// The host takes no letters, and that was said.
    is_silent: bool,
    /// The page that a restore of the state goes on with, and since when.
    filling: Option<u64>,
    filling_since: Option<(u64, Time)>,
    /// Since when this node leads, and its log ends before the state; and what is said of that.
    beyond_since: Option<Time>,
    beyond: Option<String>,
    /// The host's last word.
    stand: Option<Stand>,
    /// The log begins behind what the host has: nothing is handed over until it is attached again.
    skipped: bool,
    is_auxiliary: bool,
    /// Questions and answers of hosts that are to go out.
    asked: VecDeque<(u64, Vec<u8>)>,
    /// The last question that went out, and to whom: nobody else answers it.
    asked_of: Option<(u64, NodeId)>,
    told: VecDeque<(NodeId, u64, Vec<u8>)>,
    /// Turns through the peers.
    turn: usize,
    /// The last word to the host.
    told_leader: Option<Leader>,
    /// Whether disks are full, and whether what frees room is taken.
    told_full: (bool, bool),
    next_at: Option<Time>,
    aside_at: Time,
    /// Nothing is handed over before, if nobody waits for it; something was in this round; and when more is to be.
    hand_over_at: Time,
    handed_over: bool,
    more_at: Option<Time>,
}

#[derive(Default)]
struct Barrier {
    asked: Option<ReadId>,
    /// If it is not: not before this.
    at: Time,
}

impl Barrier {
    fn again(now: Time) -> Barrier {
        Barrier {
            asked: None,
            at: now + AGAIN_AFTER,
        }
    }
}

impl Remote {
    pub fn new(log: LogId, machine: MachineId, is_auxiliary: bool) -> Remote {
        Remote {
            log,
            machine,
            attached: 0,
            outstanding: 0,
            submitted: VecDeque::new(),
            barriers: BTreeMap::new(),
            halted: None,
            stuck: None,
            hearing: Hearing::default(),
            is_silent: false,
            filling: None,
            filling_since: None,
            beyond_since: None,
            beyond: None,
            stand: None,
            skipped: false,
            is_auxiliary,
            asked: VecDeque::new(),
            asked_of: None,
            told: VecDeque::new(),
            turn: 0,
            told_leader: None,
            told_full: (false, false),
            next_at: None,
            aside_at: Time::ZERO,
            hand_over_at: Time::ZERO,
            handed_over: false,
            more_at: None,
        }
    }

    pub fn machine(&self) -> MachineId {
        self.machine
    }

    pub fn tell(&self, port: &mut Port<'_>, what: News) {
        let letter = Letter::new(ToHost {
            log: self.log,
            attached: self.attached,
            what,
        });
        port.post(self.machine, letter);
    }

    /// Hands on another host's question, or its answer if it is the one that was asked.
    pub fn on_piece(&self, by: NodeId, asks: bool, piece: Piece, port: &mut Port<'_>) {
        let Piece { request, bytes, .. } = piece;
        match asks {
            true => {
                let is_doubted = port.is_state_doubted();
                let asked = News::PieceAsked {
                    by,
                    request,
                    bytes,
                    is_doubted,
                };
                self.tell(port, asked);
            }
            false if self.asked_of == Some((request, by)) => {
                self.tell(port, News::Piece { request, bytes });
            }
            false => {}
        }
    }

    /// Why the state goes no further, for good or for now.
    pub fn halted(&self) -> Option<&str> {
        let for_now = self.stuck.as_deref().or(self.beyond.as_deref());
        let for_now = for_now.or(self.is_silent.then_some(STUCK));
        self.halted.as_deref().or(for_now)
    }

    /// Whether a restore fills the state, and has brought nothing for a while.
    pub fn is_left_half_filled(&self, now: Time) -> bool {
        let since = self.filling_since.filter(|_| self.filling.is_some());
        since.is_some_and(|(_, since)| now >= since + FILLS_NO_MORE_AFTER)
    }

    /// The last letter.
    pub fn farewell(self) -> Op {
        Op::Post {
            to: self.machine,
            letter: Letter::new(ToHost {
                log: self.log,
                attached: self.attached,
                what: News::Gone,
            }),
        }
    }

    pub fn on_wish(&mut self, wish: Wish) {
        self.hearing.on_word();
        match wish {
            Wish::Here => {}
            Wish::Attach { number, .. } => {
                self.attached = number;
                self.skipped = false;
                self.outstanding = 0;
            }
            Wish::Stands(stand) => self.stand = Some(stand),
            Wish::AskPiece { request, bytes } => self.asked.push_back((request, bytes)),
            Wish::TellPiece { to, request, bytes } => self.told.push_back((to, request, bytes)),
            Wish::Took { bytes } => self.outstanding = self.outstanding.saturating_sub(bytes),
            Wish::Submit { stream, bytes } => self.submitted.push_back((stream, bytes)),
            Wish::Barrier { barrier } => _ = self.barriers.insert(barrier, Barrier::default()),
            Wish::Stuck { why } => self.stuck = why,
            Wish::Filling { next } => self.filling = next,
            // Of clients, of groups or of the directory, and not of the log.
            Wish::ToClient { .. }
            | Wish::AskGroup { .. }
            | Wish::TellGroup { .. }
            | Wish::Serves { .. }
            | Wish::WantSlots(_)
            | Wish::AskMap { .. } => {}
            Wish::Halted { why } => {
                self.halted = Some(why);
                // Its shelf may be damaged. It is not made anew, though, so its mark stays.
                self.stand = Some(Stand {
                    mark: self.stand.and_then(|stand| stand.mark),
                    ..Stand::default()
                });
            }
        }
    }

    /// Sends what hosts ask each other.
    fn send_pieces(&mut self, port: &mut Port<'_>) {
        let log = self.log;
        for (to, request, bytes) in self.told.drain(..) {
            let piece = Piece {
                log,
                request,
                bytes,
            };
            port.send(to, Frame::TellPiece(piece));
        }
        for (request, bytes) in self.asked.drain(..) {
            let peers = port.peers();
            self.turn += 1;
            // The leader, which is the last of them, has enough to do.
            let leader = peers.len().saturating_sub(1);
            let at = match self.turn.is_multiple_of(4) {
                true => leader,
                false => self.turn % leader.max(1),
            };
            if let Some(peer) = peers.get(at) {
                self.asked_of = Some((request, *peer));
                let piece = Piece {
                    log,
                    request,
                    bytes,
                };
                port.send(*peer, Frame::AskPiece(piece));
            }
        }
    }

    /// Hands on what was submitted, as far as the log takes it.
    fn submit(&mut self, port: &mut Port<'_>) {
        while let Some((stream, bytes)) = self.submitted.front() {
            // Bytes that an earlier stream did not take never will be chosen: its end tells the host.
            if port.own_stream() == Some(*stream) {
                match port.submit_what_frees(bytes) {
                    Ok(_) => {}
                    // ‡ Nothing is left out within a stream: its positions are the host's tickets.
                    Err(NotNow::Later | NotNow::Full(_)) => return,
                    Err(NotNow::NotWriting) => {}
                }
            }
            self.submitted.pop_front();
        }
    }

    fn ask_barriers(&mut self, now: Time, port: &mut Port<'_>) {
        let (mut passed, mut next_at) = (Vec::new(), None);
        for (number, barrier) in &mut self.barriers {
            match barrier.asked {
                Some(asked) if port.has_passed(asked) && !port.is_over() => passed.push(*number),
                Some(asked) if !port.has_failed(asked) => {}
                // ‡ Not at once: what fails now would fail again in this very round, and again.
                Some(_) => *barrier = Barrier::again(now),
                None if now >= barrier.at => match port.ask_barrier() {
                    Ok(asked) => barrier.asked = Some(asked),
                    Err(_) => *barrier = Barrier::again(now),
                },
                None => {}
            }
            let waits_until = Some(barrier.at).filter(|_| barrier.asked.is_none());
            next_at = [next_at, waits_until].into_iter().flatten().min();
        }
        self.next_at = next_at;
        for number in passed {
            // Bytes that were chosen by then may be on their way from the disk.
            self.hand_over_at = now;
            self.barriers.remove(&number);
            let (end, stream) = (port.output_end(), port.own_stream());
            let passed = News::Passed {
                barrier: number,
                end,
                stream,
            };
            self.tell(port, passed);
        }
    }

    /// ‡ A state has nothing that was not chosen, and who leads for a while knows all that was. So one that stands behind the log's end is of another time
    /// than the log.
    fn look_beyond(&mut self, now: Time, port: &Port<'_>) {
        let Some(end) = port.ends_before_guest() else {
            self.beyond_since = None;
            self.beyond = None;
            return;
        };
        if !port.is_leading() {
            self.beyond_since = None;
            return;
        }
        let since = *self.beyond_since.get_or_insert(now);
        if now >= since + BEYOND_AFTER && self.beyond.is_none() {
            let why = format!(
                "it stands behind the end of its log, which is at {end}: the log or the state was restored from another time; stop this node and put back both of one time, or remove this log's directory below state/, and start it; what only the state has is saved by logberg recover --unsafe"
            );
            tracing::error!(log = self.log.0, "the state here cannot go on: {why}");
            self.beyond = Some(why);
        }
    }

    /// ‡ A leader whose host takes nothing answers nobody: another may.
    fn listen(&mut self, now: Time, port: &mut Port<'_>) {
        if self.hearing.asks(now, port.is_leading()) {
            self.tell(port, News::AreYouThere);
        }
        let is_silent = self.hearing.is_stuck();
        if is_silent && !self.is_silent {
            tracing::error!(log = self.log.0, "the state here cannot go on: {STUCK}");
        }
        self.is_silent = is_silent;
    }

    /// Whether somebody waits for what is chosen: clients of a leader, or whoever asked for a barrier.
    fn is_awaited(&self, port: &Port<'_>) -> bool {
        port.is_leading() || !self.barriers.is_empty()
    }

    /// Tells what has changed around the log.
    fn tell_changes(&mut self, port: &mut Port<'_>) {
        let is = port.is_auxiliary();
        if is != self.is_auxiliary {
            self.is_auxiliary = is;
            self.skipped = true;
            self.stand = Some(Stand::default());
            self.tell(port, News::Auxiliary { is });
        }
        if let Some(stand) = self.stand {
            port.stand(stand);
        }
        let leader = match port.is_leading() {
            true => None,
            false => port.leader().map(|(node, address, door)| Leader {
                node,
                address: address.to_owned(),
                door: door.map(str::to_owned),
            }),
        };
        if leader != self.told_leader {
            self.told_leader.clone_from(&leader);
            self.tell(port, News::Leader { leader });
        }
        let full = port.full();
        let frees = full.is_some() && port.may_free();
        if (full.is_some(), frees) != self.told_full {
            self.told_full = (full.is_some(), frees);
            let why = full.map(|refusal| refusal.sentence);
            self.tell(port, News::Full { why, frees });
        }
    }
}

impl Hosted for Remote {
    fn takes_more(&self, now: Time, port: &Port<'_>) -> bool {
        let is_time = self.is_awaited(port) || now >= self.hand_over_at;
        self.outstanding < CREDIT_BYTES && !self.skipped && !self.is_auxiliary && is_time
    }

    fn on_event(&mut self, event: Event, port: &mut Port<'_>) {
        self.handed_over = true;
        let news = match event {
            Event::Bytes {
                stream,
                position,
                at,
                bytes,
            } => {
                self.outstanding += bytes.len() as u64;
                News::Bytes {
                    stream,
                    at,
                    position,
                    bytes,
                }
            }
            Event::Ended { stream, length } => News::Ended { stream, length },
            Event::Skipped { to } => {
                self.skipped = true;
                self.stand = self.stand.map(|stand| Stand {
                    is_whole: false,
                    ..stand
                });
                News::Skipped { to }
            }
            Event::Begins { stream } => News::Begins { stream },
            Event::Deposed { stream } => News::Deposed { stream },
        };
        self.tell(port, news);
    }

    fn on_settled(&mut self, now: Time, port: &mut Port<'_>) {
        if std::mem::take(&mut self.handed_over) {
            self.hand_over_at = now + HAND_OVER_EVERY;
        }
        let waits = now < self.hand_over_at && !self.is_awaited(port);
        self.more_at = waits.then_some(self.hand_over_at);
        self.filling_since = match (self.filling, self.filling_since) {
            (Some(next), Some((before, since))) if next == before => Some((before, since)),
            (next, _) => next.map(|next| (next, now)),
        };
        self.tell_changes(port);
        self.send_pieces(port);
        self.look_beyond(now, port);
        self.listen(now, port);
        // ‡ Only who has the whole state leads: another would serve nobody.
        let is_unfit = self.halted.is_some() || self.stand.is_some_and(|stand| !stand.is_whole);
        // One whose state goes no further for now takes no command: another may. One that a quorum contradicts answers wrongly.
        let is_stuck = self.stuck.is_some() || self.beyond.is_some() || self.is_silent;
        let is_stuck = is_stuck || (port.is_leading() && port.is_state_outvoted());
        if (is_unfit || is_stuck) && port.is_leading() && now >= self.aside_at {
            self.aside_at = now
                + if is_unfit {
                    ASIDE_EVERY
                } else {
                    STUCK_ASIDE_EVERY
                };
            port.step_aside();
        }
        if self.halted.is_some() {
            self.submitted.clear();
            self.barriers.clear();
            self.next_at = port.is_leading().then_some(now + ASIDE_EVERY);
            return;
        }
        if port.is_leading() {
            // ‡ The stream of the earlier leader ends, whether anybody calls here or not.
            port.open();
        }
        self.submit(port);
        self.ask_barriers(now, port);
        if let Some(since) = self.beyond_since.filter(|_| self.beyond.is_none()) {
            let at = since + BEYOND_AFTER;
            self.next_at = Some(self.next_at.map_or(at, |next| next.min(at)));
        }
        if (is_unfit || is_stuck) && port.is_leading() {
            let aside_at = self.aside_at;
            self.next_at = Some(self.next_at.map_or(aside_at, |at| at.min(aside_at)));
        }
    }

    fn deadline(&self) -> Option<Time> {
        let at = [self.next_at, self.more_at, self.hearing.deadline()];
        at.into_iter().flatten().min()
    }
}
