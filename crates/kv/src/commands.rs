//! What commands do, by the type of what they do it to.

pub(crate) mod about;
mod deadline;
pub(crate) mod hash;
pub(crate) mod keyspace;
pub(crate) mod list;
pub(crate) mod scan;
pub(crate) mod set;
pub(crate) mod sort;
pub(crate) mod string;
pub(crate) mod zset;

/// What a command is answered, or why not.
pub(crate) type Done = Result<resp::Value, crate::fail::Fail>;
