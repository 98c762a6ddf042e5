//! Sets.

mod algebra;
mod change;
mod pick;

pub(crate) use algebra::{sdiff, sdiffstore, sinter, sintercard, sinterstore, sunion, sunionstore};
pub(crate) use change::{sadd, scard, sismember, smembers, smismember, smove, srem};
pub(super) use pick::{Picked, drawn};
pub(crate) use pick::{spop, srandmember};
