//! One log's store on a disk in memory that crashes, rots and fails.

mod kernel;

mod corruption;
mod crash;
mod descriptors;
mod offline;
mod refill;
mod runs;
mod spares;
mod starts;
