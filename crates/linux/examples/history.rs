//! What serving history costs, by the calls that could do it: file -> loopback socket.
//!
//! ```text
//! cargo run --release -p linux --example history -- DIRECTORY [MiB [ROUNDS]]
//! ```
//!
//! `direct` is what nodes do: O_DIRECT into a buffer, which is checked and sent. `sendfile` sends what
//! nobody has checked. Cold: the file is not in the page cache. CPU is of the sending thread alone, as
//! the kernel accounts it, and of the whole machine.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Instant;

use ops::Buffer;
use rustix::fs::{Advice, Mode, OFlags, fadvise};
use rustix::time::{ClockId, clock_gettime};

const PIECE: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Direct,
    PageCache,
    Sendfile,
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| ".".into());
    let mut number = |usual: usize| {
        arguments
            .next()
            .and_then(|a| a.parse().ok())
            .unwrap_or(usual)
    };
    let (mebibytes, rounds) = (number(1024), number(3));
    let path = Path::new(&directory).join("history.tmp");
    let mut file = std::fs::File::create(&path)?;
    let block: Vec<u8> = (0..PIECE).map(|at| (at * 31 % 251) as u8).collect();
    for _ in 0..mebibytes {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    println!(
        "{:<28}{:>8}{:>14}{:>14}",
        "", "MB/s", "sender s/GB", "machine s/GB"
    );
    let rows = [
        ("direct", Way::Direct, true),
        ("page cache, cold", Way::PageCache, true),
        ("sendfile, cold", Way::Sendfile, true),
        ("page cache, warm", Way::PageCache, false),
        ("sendfile, warm", Way::Sendfile, false),
    ];
    for _ in 0..rounds {
        for (name, way, cold) in rows {
            if cold {
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
            measure(name, way, &path)?;
        }
    }
    std::fs::remove_file(&path)
}

fn measure(name: &str, way: Way, path: &Path) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    let _ = rustix::net::sockopt::set_tcp_congestion(&near, "cubic");
    let sink = std::thread::spawn(move || {
        let mut buffer = vec![0; 256 << 10];
        let mut total = 0;
        while let Ok(count) = far.read(&mut buffer) {
            if count == 0 {
                break;
            }
            total += count;
        }
        total
    });
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC;
    if way == Way::Direct {
        flags |= OFlags::DIRECT;
    }
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let began = (Instant::now(), seconds(ClockId::ThreadCPUTime), busy()?);
    let mut buffer = Buffer::new(PIECE);
    let mut offset = 0;
    loop {
        let count = match way {
            Way::Sendfile => rustix::fs::sendfile(&near, &file, Some(&mut offset), PIECE)?,
            Way::Direct | Way::PageCache => {
                let count = rustix::io::pread(&file, &mut buffer[..], offset)?;
                near.write_all(&buffer[..count])?;
                offset += count as u64;
                count
            }
        };
        if count == 0 {
            break;
        }
    }
    let sender = seconds(ClockId::ThreadCPUTime) - began.1;
    drop(near);
    let total = sink.join().unwrap_or(0);
    assert_eq!(total as u64, offset, "all of it arrived");
    let gigabytes = total as f64 / 1e9;
    println!(
        "{name:<28}{:>8.0}{:>14.2}{:>14.2}",
        gigabytes * 1e3 / began.0.elapsed().as_secs_f64(),
        sender / gigabytes,
        (busy()? - began.2) / gigabytes
    );
    Ok(())
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Of all processors, without idle and waiting; others' work is in it.
fn busy() -> io::Result<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let numbers: Vec<f64> = text
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let idle = numbers.get(3).unwrap_or(&0.0) + numbers.get(4).unwrap_or(&0.0);
    Ok((numbers.iter().take(8).sum::<f64>() - idle) / 100.0)
}
