//! The machines of the crate `talk`, as those see them that move their bytes.

use std::time::Duration;

use talk::{Asker, Input, Known, Learner, Link, Output};

/// A machine of the crate `talk`, as far as its sockets need to know it.
pub(crate) trait Machine {
    fn handle(&mut self, now: Duration, known: &mut Known, input: &Input);
    fn poll_output(&mut self) -> Option<Output>;
    fn deadline(&self) -> Option<Duration>;

    /// Whether bytes of this connection are wanted now.
    fn hears(&self, _: Link) -> bool {
        true
    }

    /// The place where bytes of this connection are wanted, if they go to one place as they are.
    fn room(&mut self, _: Link) -> Option<&mut [u8]> {
        None
    }

    fn filled(&mut self, _: Duration, _: &mut Known, _: usize) {}
}

/// The host of the machines of one cluster, which tells them what happens: they know its servers together, and
/// count one time.
pub(crate) trait Host {
    fn now(&self) -> Duration;
    fn handle(&self, machine: &mut impl Machine, input: &Input);
    fn filled(&self, machine: &mut impl Machine, count: usize);
}

impl Machine for Asker {
    fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        Asker::handle(self, now, known, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        Asker::poll_output(self)
    }

    fn deadline(&self) -> Option<Duration> {
        Asker::deadline(self)
    }
}

impl Machine for Learner {
    fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        Learner::handle(self, now, known, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        Learner::poll_output(self)
    }

    fn deadline(&self) -> Option<Duration> {
        Learner::deadline(self)
    }
}

impl Machine for talk::Appender {
    fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        talk::Appender::handle(self, now, known, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        talk::Appender::poll_output(self)
    }

    fn deadline(&self) -> Option<Duration> {
        talk::Appender::deadline(self)
    }
}

impl Machine for talk::Reader {
    fn handle(&mut self, now: Duration, known: &mut Known, input: &Input) {
        talk::Reader::handle(self, now, known, input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        talk::Reader::poll_output(self)
    }

    fn deadline(&self) -> Option<Duration> {
        talk::Reader::deadline(self)
    }

    fn hears(&self, link: Link) -> bool {
        talk::Reader::hears(self, link)
    }

    fn room(&mut self, link: Link) -> Option<&mut [u8]> {
        talk::Reader::room(self, link)
    }

    fn filled(&mut self, now: Duration, known: &mut Known, count: usize) {
        talk::Reader::filled(self, now, known, count);
    }
}
