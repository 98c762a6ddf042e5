//! Sorted sets.

mod add;
mod algebra;
mod ends;
mod look;
mod pop;
mod range;
mod remove;
mod shown;

pub(crate) use add::{zadd, zincrby};
pub(crate) use algebra::{zdiff, zdiffstore, zinter, zintercard, zinterstore, zunion, zunionstore};
pub(crate) use look::{zcard, zcount, zlexcount, zmscore, zrandmember, zrank, zrevrank, zscore};
pub(crate) use pop::{zmpop, zpopmax, zpopmin};
pub(crate) use range::{
    zrange, zrangebylex, zrangebyscore, zrangestore, zrevrange, zrevrangebylex, zrevrangebyscore,
};
pub(crate) use remove::{zrem, zremrangebylex, zremrangebyrank, zremrangebyscore};
