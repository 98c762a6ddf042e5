//! A writer who speaks the lines by hand, on one connection, until it is lost.

use std::time::Duration;

use ops::Time;
use talk::{Link, Output};
use wire::{Ask, ConnectionEnd, Mode};

use super::appender::{Appender, State};

/// As people do with `nc`: one connection, and no attempt to go on.
#[derive(Clone, Copy, Debug)]
pub struct ByHand {
    /// Bytes are said right behind the request, before the stream is open.
    pub eager: bool,
    /// `end=fin` and a half-close.
    pub fin: bool,
}

pub(super) struct Hand {
    pub(super) how: ByHand,
    pub(super) begins: u64,
    pub(super) sent: u64,
    pub(super) half_closed: bool,
    pub(super) patient_until: Time,
}

/// The link of a connection that is driven by hand.
pub(super) const LINK: Link = Link(0);

impl Appender {
    /// Calls one node, by hand.
    pub(super) fn dial(&mut self, now: Time, how: ByHand) {
        let server = self.random.pick(&self.config.nodes).cloned();
        let patience = Duration::from_micros(self.config.patience_us);
        let server = server.expect("there are nodes");
        let call = Output::Connect(LINK, server, patience);
        self.phones.perform(now, &call);
        self.state = State::ByHand(Hand {
            how,
            begins: self.acknowledged(),
            sent: 0,
            half_closed: false,
            patient_until: now + Duration::from_micros(self.config.patience_us),
        });
    }

    pub(super) fn ask_by_hand(&mut self) {
        let State::ByHand(hand) = &self.state else {
            return;
        };
        let ask = Ask::Append {
            log: self.config.log.clone(),
            label: Some(format!("client-{}", self.chain.borrow().client)),
            continues: self.notary.place(),
            token: None,
            checked: false,
            mode: Mode::Refuse,
            end: match hand.how.fin {
                true => ConnectionEnd::Fin,
                false => ConnectionEnd::Cut,
            },
        };
        let (line, eager) = (ask.to_line(), hand.how.eager);
        self.say_by_hand(line.as_bytes());
        if eager {
            self.say_more_by_hand();
        }
    }

    fn say_by_hand(&mut self, bytes: &[u8]) {
        self.notary.on_said(LINK, bytes);
        self.phones.send(LINK, bytes);
    }

    fn say_more_by_hand(&mut self) {
        let State::ByHand(hand) = &self.state else {
            return;
        };
        let bytes = self.next_chunk(hand.begins + hand.sent);
        if bytes.is_empty() {
            return;
        }
        self.say_by_hand(&bytes);
        if let State::ByHand(hand) = &mut self.state {
            hand.sent += bytes.len() as u64;
        }
    }

    pub(super) fn go_on_by_hand(&mut self, now: Time) {
        let acknowledged_all = self.acknowledged() == self.total();
        let (closed, total) = (self.chain.borrow().closed, self.total());
        let State::ByHand(hand) = &mut self.state else {
            return;
        };
        let said_all = hand.begins + hand.sent == total;
        if closed || hand.patient_until <= now || acknowledged_all && !hand.how.fin {
            return self.rest(now);
        }
        if !self.notary.is_open(LINK) {
            return;
        }
        if said_all && hand.how.fin && !hand.half_closed {
            hand.half_closed = true;
            self.notary.on_half_close();
            return self.phones.shutdown_write(LINK);
        }
        if !said_all && self.phones.sends(LINK) < 3 && self.is_due(now) {
            self.say_more_by_hand();
        }
    }
}
