//! Commands on rows in memory.

mod again;
mod drawn;
mod memory;
mod models;
mod once;
mod prepared;
mod rows;
mod shown;
mod slots;
mod stories;
mod table;
