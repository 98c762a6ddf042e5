//! Recovery's one function, asked about every small disk.
//!
//! ```text
//!  writer   the real store over a disk in memory: what is on it, and what was told, at every moment
//!  blocks   at each moment, what each block may say: as it is, half written, lost, torn, old, strayed, refused
//!  search   every combination of these ──▶ recovery::decide ──▶ Verdict or Refusal
//!  judge    what was told, and what bears witness to it: by definition, and slowly
//! ```

#[path = "../store/kernel/mod.rs"]
mod kernel;

mod blocks;
mod judge;
mod scripts;
mod search;
mod writer;

use search::{Budget, search};

/// A fact that was told before is known afterwards, or known to be forgotten, or the start is refused,
/// whatever happens to a small disk; and a crash alone costs nothing and is not called damage.
#[test]
fn every_small_disk_denies_nothing_that_was_told() {
    let mut all = search::Counts::default();
    let mut found = Vec::new();
    let mut continued = 0;
    for script in scripts::all() {
        continued += writer::live(&script).1.continued;
        match search(&script, Budget::TEST) {
            Ok(counts) => {
                println!("{:>10} states: {}", counts.states, script.name);
                all.add(&counts);
            }
            Err(counterexample) => found.push(counterexample),
        }
    }
    println!("{all}");
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(all.states > 1_000_000, "{all}");
    assert!(
        all.refused > 0 && all.doubts > 0 && all.set_aside > 0 && all.resting > 0,
        "{all}"
    );
    assert!(continued >= 7, "{continued} starts went on in a segment");
}
