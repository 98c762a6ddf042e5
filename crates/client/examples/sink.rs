//! Measures the speed of an appender that the cluster does not limit: against a thread that reads,
//! acknowledges and forgets.
//!
//! ```text
//! cargo run --release -p logberg-client --example sink
//! ```

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use logberg_client::answer::Answer;
use logberg_client::request::Request;
use logberg_client::{AppendOptions, Client, StreamName, Timeouts};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = listener.local_addr()?.to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || swallow(stream));
        }
    });
    let client = Client::new(vec![server], Timeouts::default());
    println!(
        "{:>12} {:>10} {:>12} {:>10}",
        "bytes/write", "MB", "writes/s", "MB/s"
    );
    for (size, total) in [
        (1, 100 << 20),
        (16, 1 << 30),
        (100, 2 << 30),
        (4 << 10, 4 << 30),
        (64 << 10, 8 << 30),
        (1 << 20, 8u64 << 30),
    ] {
        let bytes = vec![b'x'; size];
        let mut appender = client.append("sink", AppendOptions::default())?;
        let started = Instant::now();
        for _ in 0..total / size as u64 {
            appender.write_all(&bytes)?;
        }
        appender.close()?;
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{size:>12} {:>10.0} {:>12.0} {:>10.0}",
            total as f64 / 1e6,
            total as f64 / size as f64 / seconds,
            total as f64 / 1e6 / seconds,
        );
    }
    Ok(())
}

fn swallow(stream: TcpStream) -> std::io::Result<()> {
    let mut out = stream.try_clone()?;
    let mut input = BufReader::new(stream);
    let mut line = Vec::new();
    input.read_until(b'\n', &mut line)?;
    let answer = match Request::parse(&line) {
        Ok(Request::Append { .. }) => {
            let name = StreamName {
                owner: 1,
                incarnation: 1,
                counter: 1,
            };
            Answer::Stream { name, at: 0 }
        }
        Ok(Request::Close { at, .. }) => Answer::Closed(at.position),
        _ => return Ok(()),
    };
    out.write_all(answer.to_line().as_bytes())?;
    let mut buffer = vec![0; 1 << 20];
    let mut received = 0;
    loop {
        let count = input.read(&mut buffer)?;
        if count == 0 {
            return Ok(());
        }
        received += count as u64;
        out.write_all(Answer::Ack(received).to_line().as_bytes())?;
    }
}
