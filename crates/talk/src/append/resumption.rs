//! The place where the next stream of a chain has to begin.

use wire::{Mode, Refusal, StreamName, StreamPlace};

/// The search for a chain's way on: the place where its next stream has to begin.
///
/// The opening of a stream whose answer was lost may have taken effect. No bytes are sent before
/// the answer, so such a stream is empty, and is continued at 0 in its turn; a stream that is not
/// empty is another writer's.
#[derive(Debug)]
pub(super) struct Resumption {
    /// The stream to continue, and where.
    pub(super) place: StreamPlace,
    /// The chain position at which `place.stream` begins.
    base: u64,
    /// `place.stream` is one that we may have opened without hearing of it.
    supposed: bool,
    pub(super) answer_lost: bool,
}

/// The lesson of a refusal to continue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lesson {
    /// Ask again; everything below this chain position is safe.
    SafeBelow(u64),
    /// Another writer has the chain.
    Superseded(Option<StreamName>),
    /// The refusal makes no sense.
    Nonsense(String),
}

impl Resumption {
    pub(super) fn new(place: StreamPlace, base: u64) -> Self {
        Self {
            place,
            base,
            supposed: false,
            answer_lost: false,
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.base + self.place.position
    }

    /// Learns from `error continues length=L by=NAME`.
    pub(super) fn on_refused(&mut self, refusal: &Refusal) -> Lesson {
        let Some(length) = refusal.value::<u64>("length") else {
            return Lesson::Nonsense("a refusal to continue without a length".to_owned());
        };
        let by = refusal.value::<StreamName>("by");
        if self.supposed && length > 0 {
            return Lesson::Superseded(Some(self.place.stream));
        }
        if by.is_some() && !self.answer_lost {
            return Lesson::Superseded(by);
        }
        let Some(safe) = self.base.checked_add(length) else {
            return Lesson::Nonsense(format!("a stream of {length} bytes"));
        };
        match by {
            Some(stream) => {
                self.base = safe;
                self.place = StreamPlace {
                    stream,
                    position: 0,
                };
                self.supposed = true;
            }
            None if length == self.place.position => {
                return Lesson::Nonsense(format!("{} refused at its very length", self.place));
            }
            None => self.place.position = length,
        }
        Lesson::SafeBelow(safe)
    }
}

/// The mode in which a chain is resumed. A writer that took over once does not do so again: the writer that
/// came meanwhile may have taken over from it, and was right to.
pub(super) fn resume_mode(mode: Mode) -> Mode {
    match mode {
        Mode::Wait => Mode::Wait,
        Mode::Refuse | Mode::TakeOver => Mode::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use wire::Code;

    use super::*;

    fn name(counter: u64) -> StreamName {
        StreamName {
            owner: 1,
            incarnation: 1,
            counter,
        }
    }

    /// Stream 1 begins at 1000 of the chain and was acknowledged up to 10.
    fn resumption(answer_lost: bool) -> Resumption {
        let place = StreamPlace {
            stream: name(1),
            position: 10,
        };
        Resumption {
            answer_lost,
            ..Resumption::new(place, 1000)
        }
    }

    fn refusal(length: u64, by: Option<u64>) -> Refusal {
        let refusal = Refusal::new(Code::Continues, "").key("length", length);
        match by {
            Some(counter) => refusal.key("by", name(counter)),
            None => refusal,
        }
    }

    #[test]
    fn a_longer_stream_is_continued_at_its_end() {
        let mut resumption = resumption(false);
        let lesson = resumption.on_refused(&refusal(25, None));
        assert_eq!(lesson, Lesson::SafeBelow(1025));
        assert_eq!(resumption.place.to_string(), "1.1.1@25");
        assert_eq!(resumption.position(), 1025);
    }

    #[test]
    fn a_stream_we_may_have_opened_is_continued_at_0() {
        let mut resumption = resumption(true);
        let lesson = resumption.on_refused(&refusal(25, Some(2)));
        assert_eq!(lesson, Lesson::SafeBelow(1025));
        assert_eq!(resumption.place.to_string(), "1.1.2@0");
        assert_eq!(resumption.position(), 1025);
    }

    #[test]
    fn a_stream_with_bytes_is_not_ours() {
        let mut resumption = resumption(true);
        resumption.on_refused(&refusal(25, Some(2)));
        let lesson = resumption.on_refused(&refusal(1, None));
        assert_eq!(lesson, Lesson::Superseded(Some(name(2))));
    }

    #[test]
    fn who_lost_no_answer_knows_a_continuation_for_anothers() {
        let lesson = resumption(false).on_refused(&refusal(10, Some(2)));
        assert_eq!(lesson, Lesson::Superseded(Some(name(2))));
    }

    #[test]
    fn a_refusal_that_teaches_nothing_is_nonsense() {
        for refusal in [
            refusal(10, None),
            refusal(u64::MAX, None),
            Refusal::new(Code::Continues, ""),
        ] {
            let lesson = resumption(false).on_refused(&refusal);
            assert!(matches!(lesson, Lesson::Nonsense(_)), "{lesson:?}");
        }
    }
}
