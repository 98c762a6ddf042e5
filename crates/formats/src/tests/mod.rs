//! Golden bytes for everything that is stored or sent, and what garbage comes to.

mod garbage;
mod golden;
mod strategies;
