//! Keys, whatever they hold.

mod copy;
mod deadlines;
mod forget;
mod look;
mod object;
mod usage;
mod walk;

pub(crate) use copy::{copy, rename, renamenx};
pub(crate) use deadlines::{
    expire, expireat, expiretime, persist, pexpire, pexpireat, pexpiretime, pttl, ttl,
};
pub(crate) use forget::{del, flush};
pub(crate) use look::{exists, type_of};
pub(crate) use object::object;
pub(crate) use usage::memory;
pub(super) use walk::with_keys;
pub(crate) use walk::{dbsize, keys, randomkey};
