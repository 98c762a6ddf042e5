//! The simulator itself: its kernel's contracts, its faults, and what watches over a log's promises.

mod support;

mod clients;
mod connections;
mod disks;
mod scripts;
mod swarms;
mod waiting;
