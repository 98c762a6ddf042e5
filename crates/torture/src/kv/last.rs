//! The last reads: of every object, from every node, which leads for it.
//!
//! What a node executes a read on is its own replica of a group's rows. So each node is made the leader once, and asked for everything.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::book::Book;
use super::caller::{Caller, Came};
use super::groups;
use super::load::Plan;
use super::objects::Object;
use super::sessions::Sums;
use crate::rack::Rack;
use crate::schedule::Chance;
use testbed::scratch::go_on;

/// Reads that are sent in one piece.
const PIPELINE: usize = 16;
const READ_MAX: Duration = Duration::from_secs(30);

pub fn read_all(
    rack: &Rack,
    book: &Book,
    sums: &mut Sums,
    plan: &Plan,
    names: &[String],
) -> Result<()> {
    let client = rack.direct_client();
    let chance = Chance::new(plan.seed, 5000);
    let mut caller = Caller::new(plan.doors.clone(), chance, book.began);
    let objects = book.objects();
    for node in rack.ids() {
        for group in names {
            groups::lead(&client, group, node)?;
        }
        caller.forget();
        for (tag, _) in &plan.tags {
            let of_tag: Vec<&Object> = objects.iter().filter(|one| one.tag == *tag).collect();
            for some in of_tag.chunks(PIPELINE) {
                read(&mut caller, book, some)?;
            }
        }
        sums.read(&mut caller)?;
    }
    Ok(())
}

fn read(caller: &mut Caller, book: &Book, objects: &[&Object]) -> Result<()> {
    let deadline = Instant::now() + READ_MAX;
    let mut left = objects.to_vec();
    while let Some(tag) = left.first().map(|object| object.tag.clone()) {
        go_on()?;
        let requests: Vec<_> = left.iter().map(|one| one.request(&one.look())).collect();
        let ended = caller.ask(&tag, &requests);
        let mut again = Vec::new();
        for (object, ended) in left.iter().zip(&ended) {
            match &ended.came {
                Came::Done(_) => drop(book.looked(object, &object.look(), ended)),
                // Reads may be asked for again.
                came if Instant::now() >= deadline => {
                    bail!("{} cannot be read in the end: {came:?}", object.name())
                }
                _ => again.push(*object),
            }
        }
        left = again;
    }
    Ok(())
}
