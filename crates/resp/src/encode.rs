//! Replies as bytes.

use crate::number::double_text;
use crate::value::Value;

/// The protocol of a connection: RESP 2 until it says HELLO 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// Writes a reply behind what `out` has.
///
/// It calls itself for what a value holds: values come from commands, or from a [`crate::Decoder`], which bounds how deep they are.
pub fn encode(value: &Value, protocol: Protocol, out: &mut Vec<u8>) {
    let is_new = protocol == Protocol::Resp3;
    match value {
        Value::Simple(text) => line(b'+', text.as_bytes(), out),
        Value::Error(text) => line(b'-', text.as_bytes(), out),
        Value::Integer(number) => line(b':', number.to_string().as_bytes(), out),
        Value::Bulk(bytes) => bulk(b'$', bytes, out),
        Value::Null | Value::NullArray if is_new => out.extend_from_slice(b"_\r\n"),
        Value::Null => out.extend_from_slice(b"$-1\r\n"),
        Value::NullArray => out.extend_from_slice(b"*-1\r\n"),
        Value::Array(items) => several(b'*', items, protocol, out),
        Value::Map(pairs) => map(pairs, protocol, out),
        Value::Set(items) => several(if is_new { b'~' } else { b'*' }, items, protocol, out),
        Value::Push(items) => several(if is_new { b'>' } else { b'*' }, items, protocol, out),
        Value::Double(number) if is_new => line(b',', double_text(*number).as_bytes(), out),
        Value::Double(number) => bulk(b'$', double_text(*number).as_bytes(), out),
        Value::Boolean(is) if is_new => line(b'#', if *is { b"t" } else { b"f" }, out),
        Value::Boolean(is) => line(b':', if *is { b"1" } else { b"0" }, out),
        Value::Verbatim(kind, text) if is_new => {
            let mut whole = kind.to_vec();
            whole.push(b':');
            whole.extend_from_slice(text);
            bulk(b'=', &whole, out);
        }
        Value::Verbatim(_, text) => bulk(b'$', text, out),
        Value::BigNumber(digits) if is_new => line(b'(', digits.as_bytes(), out),
        Value::BigNumber(digits) => bulk(b'$', digits.as_bytes(), out),
    }
}

/// A line: what would end it is replaced, as Redis does.
fn line(mark: u8, text: &[u8], out: &mut Vec<u8>) {
    out.push(mark);
    out.extend(text.iter().map(|byte| match byte {
        b'\r' | b'\n' => b' ',
        byte => *byte,
    }));
    out.extend_from_slice(b"\r\n");
}

fn head(mark: u8, count: usize, out: &mut Vec<u8>) {
    line(mark, count.to_string().as_bytes(), out);
}

fn bulk(mark: u8, bytes: &[u8], out: &mut Vec<u8>) {
    head(mark, bytes.len(), out);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

fn several(mark: u8, items: &[Value], protocol: Protocol, out: &mut Vec<u8>) {
    head(mark, items.len(), out);
    for item in items {
        encode(item, protocol, out);
    }
}

fn map(pairs: &[(Value, Value)], protocol: Protocol, out: &mut Vec<u8>) {
    match protocol {
        Protocol::Resp3 => head(b'%', pairs.len(), out),
        Protocol::Resp2 => head(b'*', pairs.len() * 2, out),
    }
    for (key, value) in pairs {
        encode(key, protocol, out);
        encode(value, protocol, out);
    }
}
