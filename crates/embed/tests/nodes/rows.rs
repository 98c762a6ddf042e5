//! A machine of large rows, its node, and what is asked of it from outside.

use std::io::stdin;
use std::time::Duration;

use client::{Client, Timeouts};
use embed::{Bounds, Failure, Machine, Node, State, Stop, View};

const VALUE_BYTES: usize = 32 << 10;

/// `put KEY SEED` writes a row of 32 KiB.
struct Rows;

impl Machine for Rows {
    fn execute(&self, state: &mut State<'_>, command: &[u8]) -> Result<Vec<u8>, Stop> {
        let command = String::from_utf8_lossy(command).into_owned();
        let (key, seed) = command
            .split_once(' ')
            .ok_or_else(|| Stop::refused("what?"))?;
        state.put(key.as_bytes(), &value(seed))?;
        Ok(b"ok".to_vec())
    }
}

/// One node. `sum` answers the rows that it has itself, and a checksum of them; `fresh-sum` those with all that was answered anywhere; and
/// `session` the number of a new session.
pub fn node() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let builder = Node::open(&arguments[0]).listen(&arguments[1]);
    let builder = match arguments.get(2) {
        Some(first) => builder.join(first),
        None => builder.bootstrap(3),
    };
    let bounds = Bounds {
        flush_bytes: 512 << 10,
        flush_after: Duration::from_millis(200),
        ..Bounds::default()
    };
    let node = builder.bounds(bounds).machine("rows", Rows).start()?;
    let rows = node.machine("rows");
    for line in stdin().lines() {
        let answer = match line?.as_str() {
            "sum" => rows.read_stale(sum),
            "fresh-sum" => rows.read(sum),
            "session" => rows.session().map(|session| {
                let (number, _) = session.place();
                number.to_string().into_bytes()
            }),
            command => match once(command) {
                Some((session, sequence, command)) => {
                    rows.resume(session, sequence).submit(command.as_bytes())
                }
                None => rows.submit(command.as_bytes()),
            },
        };
        match answer {
            Ok(answer) => println!("{}", String::from_utf8_lossy(&answer)),
            Err(Failure::NotLeader { .. }) => println!("! not here"),
            Err(other) => println!("! {other}"),
        }
    }
    Ok(())
}

/// How many rows there are, and a checksum of them.
fn sum(view: &View<'_>) -> Vec<u8> {
    let (mut count, mut sum, mut from) = (0, 0_u32, Vec::new());
    while let Ok(page) = view.range(&from, b"z", 100) {
        for (key, value) in &page.rows {
            count += 1;
            let row = key.iter().chain(value);
            sum = row.fold(sum, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
            from = [key, &b"\0"[..]].concat();
        }
        if page.is_last {
            break;
        }
    }
    format!("{count} rows, {sum:08x}").into_bytes()
}

/// `once SESSION SEQUENCE COMMAND`
fn once(command: &str) -> Option<(u64, u64, &str)> {
    let (session, rest) = command.strip_prefix("once ")?.split_once(' ')?;
    let (sequence, command) = rest.split_once(' ')?;
    Some((session.parse().ok()?, sequence.parse().ok()?, command))
}

/// The value that `put KEY SEED` writes.
pub fn value(seed: &str) -> Vec<u8> {
    seed.bytes().cycle().take(VALUE_BYTES).collect()
}

/// How much of the log was trimmed there, and whether the node holds all that it is to hold.
pub fn status(address: &str) -> (u64, bool) {
    let second = Duration::from_secs(1);
    let timeouts = Timeouts {
        connect: second,
        silence: second,
        total: second,
    };
    let Ok(status) = Client::new(vec![address.to_owned()], timeouts).status() else {
        return (0, false);
    };
    let log = status.logs.iter().find(|log| log.name == "rows");
    log.map_or((0, false), |log| {
        let whole = log.state.as_ref().is_some_and(|state| state.whole);
        (log.trimmed_bytes, whole && log.missing_bytes == 0)
    })
}
