//! The bytes that one writer sent and was promised: the streams that it made one the continuation of another.

use std::cell::RefCell;
use std::rc::Rc;

/// Positions are bytes of the whole chain.
///
/// ```text
/// acknowledged <= sent <= total        observed <= sent
/// trimmed <= trim_asked <= acknowledged
/// ```
#[derive(Debug)]
pub struct Chain {
    /// The client whose content the chain carries.
    pub client: u64,
    pub total: u64,
    /// The stream that the chain begins with; readers name it.
    pub first: Option<String>,
    /// With the position at which each begins.
    pub streams: Vec<(String, u64)>,
    /// No byte from here on was ever given to a kernel.
    pub sent: u64,
    /// Every byte below is chosen: we were told so.
    pub acknowledged: u64,
    /// Some reader was told that every byte below is chosen.
    pub observed: u64,
    /// Somebody asked that bytes below be trimmed; nobody asked for more.
    pub trim_asked: u64,
    /// A reader was told that all bytes below are trimmed.
    pub trimmed: u64,
    pub close_asked: bool,
    pub closed: bool,
    /// The number of times that the writer began again.
    pub attempts: u64,
}

pub type SharedChain = Rc<RefCell<Chain>>;

impl Chain {
    pub fn shared(client: u64, total: u64) -> SharedChain {
        Rc::new(RefCell::new(Chain {
            client,
            total,
            first: None,
            streams: Vec::new(),
            sent: 0,
            acknowledged: 0,
            observed: 0,
            trim_asked: 0,
            trimmed: 0,
            close_asked: false,
            closed: false,
            attempts: 0,
        }))
    }

    pub(crate) fn opened(&mut self, stream: &str, at: u64) {
        assert!(
            at >= self.acknowledged && at <= self.sent,
            "a stream begins at {at} of {self:?}"
        );
        assert!(
            self.streams.iter().all(|(name, _)| name != stream),
            "stream {stream} was opened twice: {self:?}"
        );
        self.first.get_or_insert_with(|| stream.to_owned());
        self.streams.push((stream.to_owned(), at));
        self.acknowledged = at;
    }

    pub(crate) fn observe(&mut self, position: u64) {
        assert!(
            position <= self.sent,
            "{position} bytes are there and were never sent: {self:?}"
        );
        self.observed = self.observed.max(position);
    }

    /// A reader is told that what is left begins here.
    pub(crate) fn left_from(&mut self, position: u64) {
        assert!(
            position <= self.trim_asked,
            "bytes below {position} are said to be trimmed, and nobody asked for it: {self:?}"
        );
        self.trimmed = self.trimmed.max(position);
    }

    /// The bytes that a read which begins now must contain.
    pub(crate) fn known(&self) -> u64 {
        self.acknowledged.max(self.observed)
    }

    pub(crate) fn acknowledge(&mut self, position: u64) {
        assert!(
            position >= self.acknowledged,
            "acknowledged bytes are lost: only {position} are left of {self:?}"
        );
        assert!(
            position <= self.sent,
            "{position} bytes acknowledged that were never sent: {self:?}"
        );
        self.acknowledged = position;
    }

    pub(crate) fn close(&mut self, position: u64) {
        assert!(self.close_asked, "nobody asked to close {self:?}");
        assert_eq!(position, self.total, "closed too early: {self:?}");
        self.acknowledge(position);
        self.closed = true;
    }
}
