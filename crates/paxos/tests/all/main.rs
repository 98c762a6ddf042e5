//! The engine, against hand-made messages, in storms and in all states of small worlds, in one
//! program: each more is a link of seconds.

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_paxos as paxos;

mod small;
mod solo;
mod world;

mod auxiliary;
mod casting;
mod cluster;
mod exhaustive;
#[cfg_attr(feature = "mutations", expect(dead_code))] // run by exhaustive_mutations then
mod hidden_eras;
#[cfg_attr(feature = "mutations", expect(dead_code))] // run by exhaustive_mutations then
mod liars;
mod nonsense;
mod reconfiguring;
#[cfg_attr(feature = "mutations", expect(dead_code))] // run by exhaustive_mutations then
mod rounds;
mod rules;
mod scenarios;
mod stories;
