//! A state machine to copy: accounts, and transfers that happen once.
//!
//! ```text
//! cargo run -p commands --example bank
//! ```

use std::collections::BTreeMap;

use commands::{Applied, Batch, Frame, Once, Replica, SessionBounds, StateMachine, Unknown};

#[derive(Default)]
pub struct Bank {
    balances: BTreeMap<String, u64>,
}

impl StateMachine for Bank {
    /// `deposit NAME AMOUNT` or `transfer FROM TO AMOUNT`; the answer is what is left, or why not.
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

    fn snapshot(&self) -> Vec<u8> {
        let lines = self
            .balances
            .iter()
            .map(|(name, of)| format!("{name} {of}\n"));
        lines.collect::<String>().into_bytes()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), Unknown> {
        let text = String::from_utf8_lossy(snapshot);
        let lines = text.lines().map(|line| {
            let (name, of) = line.split_once(' ')?;
            Some((name.to_string(), of.parse().ok()?))
        });
        let balances: Option<BTreeMap<String, u64>> = lines.collect();
        self.balances = balances.ok_or_else(|| Unknown("no snapshot of a bank".into()))?;
        Ok(())
    }
}

pub fn main() {
    let mut bank = Replica::new(Bank::default(), SessionBounds::default());
    let mut batch = Batch::default();
    batch.command(b"deposit ada 100");
    batch.push(&Frame::OpenSession { time: 0 });
    let transfer = Frame::Session {
        client: 1,
        sequence: 1,
        time: 1,
        command: b"transfer ada bob 30".to_vec(),
    };
    batch.push(&transfer);
    batch.push(&transfer); // The answer was lost, and the client asks again.
    bank.push(&batch.take());
    while let Some(applied) = bank.apply_next() {
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
    // A new replica begins with the snapshot.
    let mut new = Replica::new(Bank::default(), SessionBounds::default());
    new.skip();
    new.push(&bank.snapshot().expect("it has halted at nothing"));
    assert!(matches!(new.apply_next(), Some(Applied::Snapshot { .. })));
    assert_eq!(new.balances, bank.balances);
}
