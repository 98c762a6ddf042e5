//! Commands that read much, beside others that write: there is little room in memory, and everybody is answered.

use std::sync::{Arc, Mutex};

use host::{Bounds, Command, Machine, Outcome, Replier, State, Stop, What};

use crate::hosts::{Guest, Theatre};
use crate::stage::{MS, SECOND};

const KEYS: usize = 5_000;

/// `many` looks for keys that are not there; everything else is written.
struct Looks;

impl Machine for Looks {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        if command != b"many" {
            state.put(b"last", command)?;
            return Ok(Vec::new());
        }
        // All are asked for at once.
        let mut missing = None;
        for number in 0..KEYS {
            let name = format!("{:60}{number}", "nobody");
            missing = missing.or(state.get(name.as_bytes()).err());
        }
        missing.map_or(Ok(b"none".to_vec()), Err)
    }
}

/// ‡ What a command fetched is newer than the moment from which it needs all later writes, and takes all the room that writes have. It goes on all the same.
#[cfg_attr(not(feature = "mutations"), test)]
pub fn a_command_that_reads_much_waits_for_no_room_that_it_takes_itself() {
    let guest = Guest {
        log: "looks",
        machine: Arc::new(Looks),
        bounds: Bounds {
            kept_bytes_max: 0,
            overlay_bytes_max: 64 << 10,
            ..Bounds::default()
        },
    };
    for seed in 0..4 {
        let mut theatre = Theatre::with(seed, 3, &guest);
        theatre.pass(SECOND);
        let leader = theatre.leader().expect("somebody leads");
        let answered: Arc<Mutex<[usize; 2]>> = Arc::default();
        for number in 0..400 {
            let reads = number % 100 == 50;
            let command = match reads {
                true => b"many".to_vec(),
                false => format!("{number:200}").into_bytes(),
            };
            let hears = answered.clone();
            let replier = Replier::new(move |outcome| match outcome {
                Outcome::Chosen(_) => hears.lock().unwrap()[usize::from(reads)] += 1,
                other => panic!("{other:?}"),
            });
            theatre.write(
                leader,
                What::Call {
                    order: None,
                    command: Command::Plain(command),
                    replier,
                },
            );
            theatre.pass(5 * MS);
        }
        theatre.pass(2 * SECOND);
        assert_eq!(*answered.lock().unwrap(), [396, 4], "seed {seed}");
    }
}
