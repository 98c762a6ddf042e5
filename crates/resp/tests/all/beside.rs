//! Our encoder beside another's: `redis-protocol`.

use proptest::collection::vec;
use proptest::prelude::*;
use redis_protocol::resp2::types::OwnedFrame as Old;
use redis_protocol::resp3::types::{OwnedFrame as New, VerbatimStringFormat};
use resp::{Decoder, Protocol, Value, encode};

fn values() -> impl Strategy<Value = Value> {
    let text = || "[ -~]{0,20}";
    let leaf = prop_oneof![
        text().prop_map(|text| Value::Simple(text.into())),
        text().prop_map(|text| Value::Error(text.into())),
        any::<i64>().prop_map(Value::Integer),
        vec(any::<u8>(), 0..40).prop_map(Value::Bulk),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
        text().prop_map(|text| Value::Verbatim(*b"txt", text.into_bytes())),
        "[1-9][0-9]{0,40}".prop_map(|digits| Value::BigNumber(digits.into())),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            vec(inner.clone(), 0..5).prop_map(Value::Push),
            vec((inner.clone(), inner), 0..1).prop_map(Value::Map),
        ]
    })
}

fn old(value: &Value) -> Old {
    let all = |items: &[Value]| Old::Array(items.iter().map(old).collect());
    match value {
        Value::Simple(text) => Old::SimpleString(text.as_bytes().to_vec()),
        Value::Error(text) => Old::Error(text.to_string()),
        Value::Integer(number) => Old::Integer(*number),
        Value::Boolean(is) => Old::Integer(i64::from(*is)),
        Value::Bulk(bytes) | Value::Verbatim(_, bytes) => Old::BulkString(bytes.clone()),
        Value::BigNumber(digits) => Old::BulkString(digits.as_bytes().to_vec()),
        Value::Array(items) | Value::Push(items) | Value::Set(items) => all(items),
        Value::Map(pairs) => {
            let flat = pairs.iter().flat_map(|(key, value)| [old(key), old(value)]);
            Old::Array(flat.collect())
        }
        Value::Null | Value::NullArray | Value::Double(_) => Old::Null,
    }
}

fn new(value: &Value) -> New {
    let all = |items: &[Value]| items.iter().map(new).collect();
    let attributes = None;
    match value {
        Value::Simple(text) => New::SimpleString {
            data: text.as_bytes().to_vec(),
            attributes,
        },
        Value::Error(text) => New::SimpleError {
            data: text.to_string(),
            attributes,
        },
        Value::Integer(data) => New::Number {
            data: *data,
            attributes,
        },
        Value::Boolean(data) => New::Boolean {
            data: *data,
            attributes,
        },
        Value::Bulk(data) => New::BlobString {
            data: data.clone(),
            attributes,
        },
        Value::Verbatim(_, data) => New::VerbatimString {
            data: data.clone(),
            format: VerbatimStringFormat::Text,
            attributes,
        },
        Value::BigNumber(digits) => New::BigNumber {
            data: digits.as_bytes().to_vec(),
            attributes,
        },
        Value::Array(items) | Value::Set(items) => New::Array {
            data: all(items),
            attributes,
        },
        Value::Push(items) => New::Push {
            data: all(items),
            attributes,
        },
        Value::Map(pairs) => New::Map {
            data: pairs
                .iter()
                .map(|(key, value)| (new(key), new(value)))
                .collect(),
            attributes,
        },
        Value::Null | Value::NullArray | Value::Double(_) => New::Null,
    }
}

fn ours(value: &Value, protocol: Protocol) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(value, protocol, &mut bytes);
    bytes
}

proptest! {
    #[test]
    fn both_write_the_same_bytes(value in values()) {
        let mut theirs = vec![0; 100_000];
        let length = redis_protocol::resp2::encode::encode(&mut theirs, &old(&value), false);
        prop_assert_eq!(&ours(&value, Protocol::Resp2), &theirs[..length.expect("room")]);
        let length = redis_protocol::resp3::encode::complete::encode(&mut theirs, &new(&value), false);
        prop_assert_eq!(&ours(&value, Protocol::Resp3), &theirs[..length.expect("room")]);
    }

    #[test]
    fn our_decoder_reads_what_both_write(value in values()) {
        let bytes = ours(&value, Protocol::Resp3);
        let read = Decoder::new(1 << 20).next(&bytes).expect("a reply");
        prop_assert_eq!(read, Some((value, bytes.len())));
    }
}
