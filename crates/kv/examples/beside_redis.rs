//! The same drawn commands here and at a Redis, and every reply compared.
//!
//! ```text
//! redis-server --port 17999 --cluster-enabled yes --save ""       and then: redis-cli -p 17999 cluster addslotsrange 0 16383
//! cargo run -p kv --example beside_redis -- 127.0.0.1:17999 [COMMANDS] [SEED] [3]
//! ```
//!
//! It empties that Redis. With a 3 at the end it speaks RESP 3. What has no order in Redis, or depends on the clock, is put into one before it is
//! compared.

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a program that compares with a process: it has a socket and looks at the clock"
)]

use std::io::{Read, Write};
use std::net::TcpStream;

use resp::{Decoder, Protocol, Value, encode};

#[path = "../tests/all/drawn.rs"]
mod drawn;
#[path = "../tests/all/memory.rs"]
mod memory;
#[path = "../tests/all/shown.rs"]
mod shown;

use drawn::Dice;
use memory::Memory;
use shown::comparable;

struct Redis {
    stream: TcpStream,
    received: Vec<u8>,
    decoder: Decoder,
}

impl Redis {
    fn ask(&mut self, words: &[&[u8]]) -> std::io::Result<Value> {
        let mut bytes = Vec::new();
        let words = words.iter().map(|word| word.to_vec());
        encode(&Value::bulks(words), Protocol::Resp2, &mut bytes);
        self.stream.write_all(&bytes)?;
        let mut piece = [0; 65536];
        loop {
            match self.decoder.next(&self.received) {
                Ok(Some((value, length))) => {
                    self.received.drain(..length);
                    return Ok(value);
                }
                Ok(None) => {}
                Err(wrong) => return Err(std::io::Error::other(wrong)),
            }
            let count = self.stream.read(&mut piece)?;
            if count == 0 {
                return Err(std::io::Error::other("the connection is over"));
            }
            self.received.extend_from_slice(&piece[..count]);
        }
    }
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, otherwise: u64| {
        let word = arguments.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or(otherwise)
    };
    let address = arguments.first().map_or("127.0.0.1:17999", String::as_str);
    let (commands, seed) = (argument(1, 100_000), argument(2, 1));
    let is_new = argument(3, 2) == 3;
    let mut redis = Redis {
        stream: TcpStream::connect(address)?,
        received: Vec::new(),
        decoder: Decoder::new(1 << 30),
    };
    redis.stream.set_nodelay(true)?;
    redis.ask(&[b"FLUSHALL"])?;
    if arguments.get(1).is_some_and(|word| word == "stories") {
        return stories(&mut redis);
    }
    let mut memory = Memory::new(seed);
    if seed.is_multiple_of(2) {
        memory = memory.with_small_bounds();
    }
    if is_new {
        redis.ask(&[b"HELLO", b"3"])?;
        memory.protocol = Protocol::Resp3;
    }
    let mut dice = Dice(seed);
    let mut differences = 0;
    for number in 0..commands {
        let words = drawn::command(&mut dice);
        memory.time_ms = now_ms();
        let bytes: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let ours = memory.run(&bytes).reply;
        let theirs = redis.ask(&bytes)?;
        let protocol = memory.protocol;
        let (shown, wanted) = (
            comparable(&words, &ours, protocol),
            comparable(&words, &theirs, protocol),
        );
        if shown != wanted {
            differences += 1;
            println!("{number}: {words:?}\n   ours {shown}\n   Redis {wanted}");
            if differences >= 10 {
                break;
            }
        }
        // A member that was drawn is another one there: both begin anew.
        if number % 5_000 == 4_999 {
            redis.ask(&[b"FLUSHALL"])?;
            memory.run(&[b"FLUSHALL"]);
        }
    }
    println!("{commands} commands, {differences} differences");
    Ok(())
}

/// Holds every story to this Redis, but for the commands that it does not have.
fn stories(redis: &mut Redis) -> std::io::Result<()> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    let mut differences = 0;
    for entry in std::fs::read_dir(directory)? {
        let file = entry?.path();
        if file.ends_with("own_commands.txt") {
            continue;
        }
        redis.ask(&[b"FLUSHALL"])?;
        redis.ask(&[b"HELLO", b"2"])?;
        let mut memory = Memory::new(7);
        for line in std::fs::read_to_string(&file)?.lines() {
            match line.split_at_checked(2) {
                Some(("> ", command)) => {
                    let words = shown::words(command);
                    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                    let ours = memory.run(&words).reply;
                    let ours = shown::told(&shown::seen(&ours, memory.protocol));
                    let theirs = shown::told(&redis.ask(&words)?);
                    // Cursors are each server's own.
                    if ours != theirs && !command.starts_with("SCAN 0") {
                        differences += 1;
                        println!(
                            "{}: {command}\n   ours {ours}\n   Redis {theirs}",
                            file.display()
                        );
                    }
                }
                Some(("@ ", "3")) => {
                    redis.ask(&[b"HELLO", b"3"])?;
                    memory.protocol = Protocol::Resp3;
                }
                Some(("+ ", time)) => {
                    let time = time.parse().unwrap_or(0);
                    std::thread::sleep(std::time::Duration::from_millis(time + 5));
                    memory.time_ms += time;
                }
                _ => {}
            }
        }
    }
    println!("{differences} differences");
    Ok(())
}

fn now_ms() -> u64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
