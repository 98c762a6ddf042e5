//! Replies as text: for people, and without what may differ between two who are both right.

use resp::{Protocol, Value, encode};

/// A reply without what may differ: the order of what has none, the zero that a score is, a time.
pub fn comparable(words: &[String], value: &Value, protocol: Protocol) -> String {
    let mut bytes = Vec::new();
    encode(value, protocol, &mut bytes);
    let name = words.first().map_or("", String::as_str);
    let text = String::from_utf8_lossy(&bytes);
    // A score that is the other zero stays what it is in Redis' large sorted sets only.
    let text = text.replace("$2\r\n-0\r\n", "$1\r\n0\r\n").replace(",-0\r\n", ",0\r\n");
    let is_unordered = matches!(
        name,
        "KEYS" | "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "HKEYS" | "HVALS" | "SPOP"
            | "SRANDMEMBER" | "SSCAN" | "ZSCAN" | "HSCAN" | "HGETALL" | "HRANDFIELD" | "ZRANDMEMBER"
    );
    let mut lines: Vec<&str> = text.split("\r\n").collect();
    match name {
        "TTL" => return "a time".to_owned(),
        // Of a set some members, and nobody knows which.
        "SORT" if words.iter().any(|word| word == "nosort") => return lines.len().to_string(),
        _ if !is_unordered => return text,
        "ZSCAN" => {
            // It writes large scores as they happen to be kept.
            let is_large = |line: &str| line.parse().is_ok_and(|score: f64| score.abs() >= 1e16);
            lines.retain(|line| !line.starts_with('$') && !is_large(line));
        }
        _ => {}
    }
    lines.sort_unstable();
    lines.join("\n")
}
