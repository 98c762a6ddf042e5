//! Decrees that proposers contend for: the first value that is proposed is agreed on, and each of them learns it.
//!
//! `SET decree:n VALUE NX GET` is one exactly: it sets nothing where a value stands, and answers with that value. A proposal whose answer
//! was lost is made again with the same value: it learns what it did before.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use resp::Value;
use testbed::scratch::go_on;
use torture::link::{Link, words};

/// Longer than a node holds a command.
const REPLY_MAX: Duration = Duration::from_millis(2500);
const PAUSE: Duration = Duration::from_millis(1);
const PATIENCE: Duration = Duration::from_secs(30);

pub struct Proposer {
    /// By which its values are told from others'.
    pub name: String,
    /// The one beside it first.
    doors: Vec<String>,
    next: usize,
    link: Option<Link>,
    value_bytes: usize,
}

impl Proposer {
    /// Beside node `at`, from 0. Its values have at least so many bytes.
    pub fn beside(at: usize, doors: &[String], value_bytes: usize) -> Proposer {
        let mut doors = doors.to_vec();
        doors.rotate_left(at);
        Proposer {
            name: format!("M{at}"),
            doors,
            next: 0,
            link: None,
            value_bytes,
        }
    }

    /// From now on its values have at least so many bytes.
    pub fn give_bytes(&mut self, value_bytes: usize) {
        self.value_bytes = value_bytes;
    }

    /// Proposes for a decree, and learns what was agreed on.
    pub fn propose(&mut self, decree: u64) -> Result<(String, Duration)> {
        let mut own = format!("{}:{decree}:", self.name);
        let missing = self.value_bytes.saturating_sub(own.len());
        own.extend(std::iter::repeat_n('v', missing));
        let key = key_of(decree);
        let set = [b"SET", key.as_bytes(), own.as_bytes(), b"NX", b"GET"];
        let began = Instant::now();
        let learned = match self.until_answered(&set, began)? {
            Value::Null => own,
            other => text(other)?,
        };
        Ok((learned, began.elapsed()))
    }

    /// The value that stands as that decree, if one does.
    pub fn read(&mut self, decree: u64) -> Result<Option<String>> {
        let key = key_of(decree);
        match self.until_answered(&[b"GET", key.as_bytes()], Instant::now())? {
            Value::Null => Ok(None),
            other => text(other).map(Some),
        }
    }

    fn until_answered(&mut self, command: &[&[u8]], began: Instant) -> Result<Value> {
        loop {
            go_on()?;
            if began.elapsed() > PATIENCE {
                bail!(
                    "{} was not answered for {} s",
                    self.name,
                    PATIENCE.as_secs()
                );
            }
            let Some(mut link) = self.take_link() else {
                continue;
            };
            let sent = link.send(&[words(command)]);
            match sent.and_then(|()| link.receive()) {
                Ok(Value::Error(error)) => match error.strip_prefix("MOVED ") {
                    Some(to) => {
                        let to = to.split(' ').nth(1).context("a MOVED without a place")?;
                        self.link = Link::to(to, REPLY_MAX).ok();
                    }
                    None => std::thread::sleep(PAUSE),
                },
                Ok(value) => {
                    self.link = Some(link);
                    return Ok(value);
                }
                // Nobody knows whether it was done.
                Err(_) => {}
            }
        }
    }

    fn take_link(&mut self) -> Option<Link> {
        if let Some(link) = self.link.take() {
            return Some(link);
        }
        let door = &self.doors[self.next % self.doors.len()];
        self.next += 1;
        let link = Link::to(door, REPLY_MAX).ok();
        if link.is_none() && self.next.is_multiple_of(self.doors.len()) {
            std::thread::sleep(PAUSE);
        }
        link
    }
}

/// All decrees lie in one group, as they lay in one log.
fn key_of(decree: u64) -> String {
    format!("{{decree}}:{decree}")
}

fn text(value: Value) -> Result<String> {
    match value {
        Value::Bulk(bytes) => Ok(String::from_utf8(bytes)?),
        other => bail!("a decree is answered {other:?}"),
    }
}
