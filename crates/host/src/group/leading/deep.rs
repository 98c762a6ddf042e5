//! Commands that need many rows: each may pin many megabytes, so few of them go on at a time, and all together have few.
//!
//! ```text
//!  needs many rows ─┬─ few go on, with few bytes ─▶ goes on ─┬─ all have few bytes, or it is the eldest ─▶ … ─▶ executed
//!                   └─ else ─▶ queue, by arrival ─▶ ─────────┘                                    └─ else ─▶ queue, its rows are let go
//! ```
//!
//! ‡ The eldest goes on whatever the others have: all would else begin anew for ever.

/// So many commands that need many rows go on at a time.
const COMMANDS_MAX: usize = 32;
/// With more bytes of rows than these no other begins …
const BEGIN_BYTES: usize = 64 << 20;
/// … and with more than these the eldest alone goes on.
const BYTES_MAX: usize = 128 << 20;

/// The commands that go on.
#[derive(Debug, Default)]
pub(super) struct Deep {
    commands: usize,
    /// The rows of these and of all others.
    bytes: usize,
    eldest: Option<u64>,
}

impl Deep {
    /// A command goes on.
    pub fn add(&mut self, number: u64, is_deep: bool, bytes: usize) {
        self.bytes += bytes;
        if is_deep {
            self.commands += 1;
            let eldest = self.eldest.unwrap_or(number).min(number);
            self.eldest = Some(eldest);
        }
    }

    /// A command is executed now, and may go on then. It counts as the eldest, if it was, until the next round.
    pub fn remove(&mut self, is_deep: bool, bytes: usize) {
        self.bytes -= bytes;
        self.commands -= usize::from(is_deep);
    }

    /// Whether one more may begin.
    pub fn may_begin(&self) -> bool {
        self.commands < COMMANDS_MAX && self.bytes <= BEGIN_BYTES
    }

    /// Whether one that has so many bytes may go on with them.
    pub fn may_go_on(&self, number: u64, bytes: usize) -> bool {
        let is_eldest = self.eldest.is_none_or(|eldest| number <= eldest);
        is_eldest || self.bytes + bytes <= BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 20 << 20;

    #[test]
    fn the_eldest_goes_on_and_others_while_all_have_few_bytes() {
        let mut deep = Deep::default();
        for number in 5..9 {
            assert!(deep.may_begin() && deep.may_go_on(number, MANY));
            deep.add(number, true, MANY);
        }
        assert!(!deep.may_begin(), "80 MiB");
        assert!(deep.may_go_on(9, 2 * MANY), "120 MiB");
        deep.add(9, true, 2 * MANY);
        deep.remove(true, MANY);
        assert!(!deep.may_go_on(6, 2 * MANY));
        assert!(deep.may_go_on(5, 10 * MANY) && deep.may_go_on(4, 10 * MANY));
        deep.add(10, false, MANY);
        assert!(!deep.may_go_on(6, MANY), "others have rows as well");
        deep.remove(false, MANY);
        assert!(deep.may_go_on(6, MANY));
    }

    #[test]
    fn few_of_them_go_on_however_little_they_have() {
        let mut deep = Deep::default();
        for number in 0..COMMANDS_MAX as u64 {
            assert!(deep.may_begin());
            deep.add(number, true, 1);
        }
        assert!(!deep.may_begin());
        deep.remove(true, 1);
        assert!(deep.may_begin());
    }
}
