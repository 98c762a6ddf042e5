//! Replies as text: for people, and without what may differ between two who are both right.

use resp::{Protocol, Value, encode};

/// A reply without what may differ: the order of what has none, the zero that a score is, a time.
pub fn comparable(words: &[String], value: &Value, protocol: Protocol) -> String {
    let mut bytes = Vec::new();
    encode(value, protocol, &mut bytes);
    let name = words.first().map_or("", String::as_str);
    let text = String::from_utf8_lossy(&bytes);
    // A score that is the other zero stays what it is in Redis' large sorted sets only.
    let text = text
        .replace("$2\r\n-0\r\n", "$1\r\n0\r\n")
        .replace(",-0\r\n", ",0\r\n");
    let is_unordered = matches!(
        name,
        "KEYS"
            | "SMEMBERS"
            | "SINTER"
            | "SUNION"
            | "SDIFF"
            | "HKEYS"
            | "HVALS"
            | "SPOP"
            | "SRANDMEMBER"
            | "SSCAN"
            | "ZSCAN"
            | "HSCAN"
            | "HGETALL"
            | "HRANDFIELD"
            | "ZRANDMEMBER"
    );
    let mut lines: Vec<&str> = text.split("\r\n").collect();
    match name {
        "TTL" => return "a time".to_owned(),
        // Some members of a set, and nobody knows which.
        "SORT" if words.iter().any(|word| word == "BY") => return lines.len().to_string(),
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

/// A reply as redis-cli shows it, with a little more of RESP 3.
#[allow(dead_code, reason = "stories alone are told")]
pub fn told(value: &Value) -> String {
    lines(value).join("\n")
}

fn lines(value: &Value) -> Vec<String> {
    let quoted = |bytes: &[u8]| format!("\"{}\"", bytes.escape_ascii());
    match value {
        Value::Simple(text) => vec![text.to_string()],
        Value::Error(text) => vec![format!("(error) {text}")],
        Value::Integer(number) => vec![format!("(integer) {number}")],
        Value::Bulk(bytes) => vec![quoted(bytes)],
        Value::Null => vec!["(nil)".to_owned()],
        Value::NullArray => vec!["(nil array)".to_owned()],
        Value::Double(number) => vec![format!("(double) {}", resp::double_text(*number))],
        Value::Boolean(is) => vec![format!("({is})")],
        Value::Verbatim(_, bytes) => vec![quoted(bytes)],
        Value::BigNumber(digits) => vec![digits.to_string()],
        Value::Array(items) | Value::Push(items) => numbered("array", ")", items),
        Value::Set(items) => numbered("set", "~", items),
        Value::Map(pairs) => {
            let items: Vec<_> = pairs
                .iter()
                .flat_map(|(key, value)| [key.clone(), value.clone()])
                .collect();
            numbered("map", "%", &items)
        }
    }
}

fn numbered(kind: &str, mark: &str, items: &[Value]) -> Vec<String> {
    if items.is_empty() {
        return vec![format!("(empty {kind})")];
    }
    let mut all = Vec::new();
    for (place, item) in items.iter().enumerate() {
        for (at, line) in lines(item).into_iter().enumerate() {
            all.push(match at {
                0 => format!("{}{mark} {line}", place + 1),
                _ => format!("   {line}"),
            });
        }
    }
    all
}

/// A reply as a connection of this protocol sees it: in RESP 2 there are fewer kinds.
#[allow(dead_code, reason = "stories alone are told")]
pub fn seen(value: &Value, protocol: Protocol) -> Value {
    let mut bytes = Vec::new();
    encode(value, protocol, &mut bytes);
    let read = resp::Decoder::new(1 << 30).next(&bytes);
    read.expect("a reply").expect("whole").0
}

/// The words of a story's line: between spaces or in quotes.
#[allow(dead_code, reason = "stories alone are told")]
pub fn words(line: &str) -> Vec<Vec<u8>> {
    let line = format!("{line}\n");
    let mut parser = resp::Parser::new(resp::Limits::default());
    match parser.next(line.as_bytes()) {
        Ok(resp::Found::Request(request)) => request.arguments().map(<[u8]>::to_vec).collect(),
        other => panic!("{line}: {other:?}"),
    }
}
