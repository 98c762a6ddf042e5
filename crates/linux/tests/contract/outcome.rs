//! What a completion says, as scripts write it.

use std::io::{self, ErrorKind};

/// What a stream holds at a position.
pub fn byte_at(name: &str, position: u64) -> u8 {
    let seed = name.bytes().fold(7_u64, |h, b| h * 31 + u64::from(b));
    ((position ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8
}

pub fn kind(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "reset".to_string(),
        kind => match format!("{kind:?}").as_str() {
            "Uncategorized" | "Other" => "other".to_string(),
            name => name.to_string(),
        },
    }
}

/// `A*8192 0*4096 B*4096`: bytes in runs, what was never written as 0. Zeros at the end are as good as the end: a kernel may grow a file by some.
pub fn letters(bytes: &[u8]) -> String {
    let mut runs: Vec<(u8, usize)> = Vec::new();
    let end = bytes.iter().rposition(|byte| *byte != 0);
    for byte in &bytes[..end.map_or(0, |last| last + 1)] {
        match runs.last_mut() {
            Some((last, count)) if last == byte => *count += 1,
            _ => runs.push((*byte, 1)),
        }
    }
    let text = |(byte, count): &(u8, usize)| match byte {
        0 => format!("0*{count}"),
        byte => format!("{}*{count}", *byte as char),
    };
    match runs.is_empty() {
        true => "nothing".to_string(),
        false => runs.iter().map(text).collect::<Vec<_>>().join(" "),
    }
}
