//! The words of the demo while it runs, on standard error: a bar on a terminal, plain lines elsewhere,
//! nothing to a machine.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use wire::quantity;

pub struct Teller {
    silent: bool,
    terminal: bool,
    bar: RefCell<ProgressBar>,
    total: Cell<u64>,
    /// The next tenth that plain lines speak of.
    tenth: Cell<u64>,
    verb: Cell<&'static str>,
}

impl Teller {
    pub fn new(silent: bool) -> Self {
        Self {
            silent,
            terminal: io::stderr().is_terminal(),
            bar: RefCell::new(ProgressBar::hidden()),
            total: Cell::new(0),
            tenth: Cell::new(1),
            verb: Cell::new(""),
        }
    }

    pub fn say(&self, line: impl Display) {
        if !self.silent {
            let line = line.to_string();
            self.bar.borrow().suspend(|| eprintln!("{line}"));
        }
    }

    /// Begins a stretch of progress to `total`, of bytes that are `verb`.
    pub fn begin(&self, total: u64, verb: &'static str) {
        self.total.set(total);
        self.tenth.set(1);
        self.verb.set(verb);
        if self.silent || !self.terminal {
            return;
        }
        let template = format!(
            "{{bar:30}} {{binary_bytes}} of {{binary_total_bytes}} {verb}, {{binary_bytes_per_sec}}"
        );
        let bar = ProgressBar::new(total);
        *self.bar.borrow_mut() = match ProgressStyle::with_template(&template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
    }

    pub fn progress(&self, done: u64) {
        if self.terminal {
            self.bar.borrow().set_position(done);
            return;
        }
        let total = self.total.get();
        if total == 0 || u128::from(done) * 10 < u128::from(total) * u128::from(self.tenth.get()) {
            return;
        }
        self.tenth
            .set((u128::from(done) * 10 / u128::from(total)) as u64 + 1);
        let (done, total) = (quantity::shown(done), quantity::shown(total));
        self.say(format_args!("{done} of {total} {}", self.verb.get()));
    }

    pub fn finish(&self) {
        self.bar.replace(ProgressBar::hidden()).finish_and_clear();
    }
}
