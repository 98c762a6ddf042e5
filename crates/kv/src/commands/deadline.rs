//! Deadlines, as commands name them.

use crate::args::Rest;
use crate::fail::{Fail, fail};
use crate::rows::Db;

/// Whether a time is counted in seconds, and from when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    pub is_seconds: bool,
    /// From 1970 on; else from now.
    pub is_absolute: bool,
}

pub(super) const EX: Unit = unit(true, false);
pub(super) const PX: Unit = unit(false, false);
pub(super) const EXAT: Unit = unit(true, true);
pub(super) const PXAT: Unit = unit(false, true);

const fn unit(is_seconds: bool, is_absolute: bool) -> Unit {
    Unit {
        is_seconds,
        is_absolute,
    }
}

impl Unit {
    pub fn of(keyword: &[u8]) -> Option<Unit> {
        match keyword {
            b"EX" => Some(EX),
            b"PX" => Some(PX),
            b"EXAT" => Some(EXAT),
            b"PXAT" => Some(PXAT),
            _ => None,
        }
    }

    /// In milliseconds since 1970, if that can be said.
    pub fn moment(self, time: i64, now_ms: u64) -> Option<i64> {
        let time = match self.is_seconds {
            true => time.checked_mul(1000)?,
            false => time,
        };
        match self.is_absolute {
            true => Some(time),
            false => time.checked_add(i64::try_from(now_ms).ok()?),
        }
    }

    /// The deadline that the next word sets, for a command that sets a value with it.
    pub fn deadline(self, db: &Db, rest: &mut Rest, command: &str) -> Result<u64, Fail> {
        let time = rest.need_integer()?;
        let moment = match time {
            1.. => self.moment(time, db.now()),
            _ => None,
        };
        match moment.and_then(|moment| u64::try_from(moment).ok()) {
            Some(deadline) => Ok(deadline),
            None => fail(format!("ERR invalid expire time in '{command}' command")),
        }
    }
}
