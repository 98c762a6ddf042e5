//! Replies in both protocols, and as our own clients read them.

use resp::{DEPTH_MAX, Decoder, NoReply, Protocol, Value, encode};

fn written(value: &Value, protocol: Protocol) -> String {
    let mut out = Vec::new();
    encode(value, protocol, &mut out);
    String::from_utf8(out).expect("text").replace("\r\n", " ")
}

#[test]
fn each_value_in_both_protocols() {
    let pair = || vec![(Value::bulk("a"), Value::Integer(1))];
    let items = || vec![Value::bulk("a"), Value::Null];
    let cases = [
        (Value::OK, "+OK ", "+OK "),
        (Value::error("ERR a\r\nb"), "-ERR a  b ", "-ERR a  b "),
        (Value::Integer(-3), ":-3 ", ":-3 "),
        (Value::bulk(""), "$0  ", "$0  "),
        (Value::Null, "$-1 ", "_ "),
        (Value::NullArray, "*-1 ", "_ "),
        (Value::Array(items()), "*2 $1 a $-1 ", "*2 $1 a _ "),
        (Value::Map(pair()), "*2 $1 a :1 ", "%1 $1 a :1 "),
        (Value::Set(items()), "*2 $1 a $-1 ", "~2 $1 a _ "),
        (Value::Push(items()), "*2 $1 a $-1 ", ">2 $1 a _ "),
        (Value::Double(0.5), "$3 0.5 ", ",0.5 "),
        (Value::Double(f64::INFINITY), "$3 inf ", ",inf "),
        (Value::Boolean(true), ":1 ", "#t "),
        (Value::Boolean(false), ":0 ", "#f "),
        (
            Value::Verbatim(*b"txt", b"hi".to_vec()),
            "$2 hi ",
            "=6 txt:hi ",
        ),
        (Value::BigNumber("123".into()), "$3 123 ", "(123 "),
    ];
    for (value, old, new) in cases {
        assert_eq!(written(&value, Protocol::Resp2), old);
        assert_eq!(written(&value, Protocol::Resp3), new);
    }
}

fn decoded(bytes: &[u8]) -> Result<Option<(Value, usize)>, NoReply> {
    Decoder::new(1000).next(bytes)
}

#[test]
fn attributes_are_passed_over_and_errors_may_be_long() {
    let (value, length) = decoded(b"|1\r\n+a\r\n+b\r\n*2\r\n|0\r\n:1\r\n!5\r\nERR a\r\n")
        .expect("a reply")
        .expect("whole");
    assert_eq!(length, 35);
    assert_eq!(
        value,
        Value::Array(vec![Value::Integer(1), Value::error("ERR a")])
    );
}

#[test]
fn how_deep_a_reply_may_be_is_bounded() {
    let deep = |depth: usize| [b"*1\r\n".repeat(depth), b":1\r\n".to_vec()].concat();
    assert!(decoded(&deep(DEPTH_MAX)).is_ok_and(|found| found.is_some()));
    assert_eq!(decoded(&deep(DEPTH_MAX + 1)), Err(NoReply::Depth));
    assert_eq!(decoded(&b"*1\r\n".repeat(1_000_000)), Err(NoReply::Depth));
}

#[test]
fn a_length_alone_reserves_nothing() {
    assert_eq!(decoded(b"*9223372036854775807\r\n:1\r\n"), Ok(None));
    assert_eq!(decoded(b"%9223372036854775807\r\n:1\r\n"), Ok(None));
    assert_eq!(decoded(b"$1001\r\n"), Err(NoReply::Number));
    assert_eq!(decoded(b"$-2\r\n"), Err(NoReply::Number));
    assert_eq!(decoded(b"x\r\n"), Err(NoReply::Kind(b'x')));
    assert_eq!(decoded(b"+a\n"), Err(NoReply::Line));
}
