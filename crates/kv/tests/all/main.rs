//! Commands on rows in memory.

mod again;
mod drawn;
mod memory;
mod rows;
mod shown;
