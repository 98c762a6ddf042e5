//! Lists.

mod ends;
mod middle;

pub(crate) use ends::{lmove, lmpop, lpop, lpush, lpushx, rpop, rpoplpush, rpush, rpushx};
pub(in crate::commands) use ends::{numbered_positive, popped_count};
pub(crate) use middle::{lindex, linsert, llen, lpos, lrange, lrem, lset, ltrim};
