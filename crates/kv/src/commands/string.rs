//! Strings.

mod count;
mod lcs;
mod range;
mod set;
mod several;

pub(crate) use count::{decr, decrby, incr, incrby, incrbyfloat};
pub(crate) use lcs::lcs;
pub(crate) use range::{append, getrange, setrange, strlen};
pub(crate) use set::{delifeq, get, getdel, getex, getset, psetex, set, setex, setnx};
pub(crate) use several::{mget, mset, msetnx};
