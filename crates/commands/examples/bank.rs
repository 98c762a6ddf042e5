//! A state machine to copy: accounts, and transfers that happen once.
//!
//! ```text
//! cargo run -p commands --example bank
//! ```

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use commands::{
    Applied, Batch, Frame, Halted, Once, PIECE_BYTES, Replica, SessionBounds, StateMachine, Unknown,
};

#[derive(Default)]
pub struct Bank {
    pub balances: BTreeMap<String, u64>,
}

/// Lines, and the beginning of one that is not whole yet.
#[derive(Clone, Debug, Default)]
pub struct Restoring {
    balances: BTreeMap<String, u64>,
    line: Vec<u8>,
}

impl StateMachine for Bank {
    /// The last account that is in the snapshot.
    type Place = Option<String>;
    type Restoring = Restoring;

    /// `deposit NAME AMOUNT` or `transfer FROM TO AMOUNT`; the answer is the balance, or the reason why not.
    fn apply(&mut self, command: &[u8]) -> Result<Vec<u8>, Unknown> {
        let text = String::from_utf8_lossy(command);
        let unknown = || Unknown(format!("{text:?} is no command of a bank"));
        let words: Vec<&str> = text.split(' ').collect();
        let (from, to, amount) = match words[..] {
            ["deposit", to, amount] => (None, to, amount),
            ["transfer", from, to, amount] => (Some(from), to, amount),
            _ => return Err(unknown()),
        };
        let amount: u64 = amount.parse().map_err(|_| unknown())?;
        if let Some(from) = from {
            let balance = self.balances.entry(from.into()).or_default();
            match balance.checked_sub(amount) {
                Some(left) => *balance = left,
                None => return Ok(b"too little".to_vec()),
            }
        }
        let balance = self.balances.entry(to.into()).or_default();
        *balance = balance.saturating_add(amount);
        let left = self.balances[from.unwrap_or(to)];
        Ok(left.to_string().into_bytes())
    }

    fn snapshot(&self, last: &mut Option<String>, into: &mut Vec<u8>) -> bool {
        let after = last.as_deref().map_or(Unbounded, Excluded);
        let mut left = self.balances.range::<str, _>((after, Unbounded));
        let end = into.len() + PIECE_BYTES;
        while into.len() < end {
            let Some((name, of)) = left.next() else {
                return false;
            };
            into.extend(format!("{name} {of}\n").bytes());
            *last = Some(name.clone());
        }
        true
    }

    fn restore(into: &mut Restoring, bytes: &[u8]) -> Result<(), Unknown> {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            into.line.extend(line);
            if line.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&into.line);
                let account = line.trim_end().split_once(' ');
                let account = account.and_then(|(name, of)| Some((name, of.parse().ok()?)));
                let (name, of) = account.ok_or_else(no_snapshot)?;
                into.balances.insert(name.to_owned(), of);
                into.line.clear();
            }
        }
        Ok(())
    }

    fn restored(&mut self, snapshot: Restoring) -> Result<(), Unknown> {
        match snapshot.line.is_empty() {
            true => self.balances = snapshot.balances,
            false => return Err(no_snapshot()),
        }
        Ok(())
    }
}

fn no_snapshot() -> Unknown {
    Unknown("no snapshot of a bank".into())
}

pub fn main() -> Result<(), Halted> {
    let mut bank = Replica::new(Bank::default(), SessionBounds::default());
    let mut batch = Batch::default();
    let transfer = Frame::Session {
        client: 1,
        sequence: 1,
        time: 1,
        command: b"transfer ada bob 30",
    };
    for frame in [
        Frame::Command(b"deposit ada 100"),
        Frame::OpenSession { time: 0 },
        transfer,
        transfer, // The answer was lost, and the client asks again.
    ] {
        if let Err(refused) = batch.push(&frame) {
            println!("{refused}");
        }
    }
    bank.push(&batch.take());
    while let Some(applied) = bank.apply_next()? {
        match applied {
            Applied::Once {
                outcome: Once::Answered(left),
                ..
            } => {
                println!("ada has {}", String::from_utf8_lossy(&left));
            }
            other => println!("{other:?}"),
        }
    }
    assert_eq!(bank.balances["ada"], 70);
    // A new replica begins with the snapshot, part by part.
    let mut new = Replica::new(Bank::default(), SessionBounds::default());
    new.skip();
    let mut applied = None;
    for part in bank.snapshot().expect("it has halted at nothing") {
        new.push(&part);
        applied = new.apply_next()?;
    }
    assert!(matches!(applied, Some(Applied::Snapshot { .. })));
    assert_eq!(new.balances, bank.balances);
    Ok(())
}
