//! Requests, and what is wrong with bytes that are none.

use resp::{Found, Limits, Parser, Wrong};

/// The requests in these bytes, their words joined by `|`, and what ends them.
fn read(bytes: &[u8], limits: Limits) -> (Vec<String>, Option<Wrong>) {
    let mut parser = Parser::new(limits);
    let (mut at, mut requests) = (0, Vec::new());
    loop {
        match parser.next(&bytes[at..]) {
            Ok(Found::Request(request)) => {
                let words = request.arguments();
                let words: Vec<_> = words.map(|word| word.escape_ascii().to_string()).collect();
                requests.push(words.join("|"));
                at += request.length();
            }
            Ok(Found::Nothing { length } | Found::Dropped { length }) => at += length,
            Ok(Found::TooLong { length }) => {
                requests.push("too long".to_owned());
                at += length;
            }
            Ok(Found::More) => return (requests, None),
            Err(wrong) => return (requests, Some(wrong)),
        }
    }
}

fn refused(bytes: &[u8]) -> String {
    let (requests, wrong) = read(bytes, Limits::default());
    assert_eq!(requests, [""; 0]);
    wrong.expect("an error").to_string()
}

#[test]
fn arrays_and_lines_stand_behind_each_other() {
    let bytes = b"*1\r\n$4\r\nPING\r\nGET a\r\n\r\n*0\r\n*-1\r\n*2\r\n$3\r\nGET\r\n$3\r\n\r\n\x00\r\nPING\n";
    let (requests, wrong) = read(bytes, Limits::default());
    assert_eq!(requests, ["PING", "GET|a", r"GET|\r\n\x00", "PING"]);
    assert_eq!(wrong, None);
}

#[test]
fn what_is_wrong_is_said_in_redis_words() {
    let cases: [(&[u8], &str); 13] = [
        (b"*3000000000\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*blabla\r\n", "invalid multibulk length"),
        (
            b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\nfooz\r\n",
            "expected '$', got 'f'",
        ),
        (
            b"*3\r\n$3\r\nSET\r\n$1\r\nx\r\n\r\n\r\n",
            "expected '$', got ' '",
        ),
        (b"*1\r\n$-10\r\n", "invalid bulk length"),
        (b"*1\r\n$2000000000\r\n", "invalid bulk length"),
        (b"*1\r\n$blabla\r\n", "invalid bulk length"),
        (
            b"set \"\"\"test-key\"\"\" test-value\r\n",
            "unbalanced quotes in request",
        ),
        (b"\x16\x03\x01\x02\x00", "this port does not speak TLS"),
        (b"POST / HTTP/1.1\r\n", "this port does not speak HTTP"),
        (b"host: localhost\r\n", "this port does not speak HTTP"),
        (b"*1\r\n\xff\r\n", "expected '$', got '?'"),
    ];
    for (bytes, words) in cases {
        assert_eq!(refused(bytes), format!("ERR Protocol error: {words}"));
    }
    assert!(Wrong::Http.is_silent() && !Wrong::Tls.is_silent());
}

#[test]
fn lines_without_an_end_end_somewhere() {
    let long = |start: &str| [start.as_bytes(), &[b'1'; 70_000]].concat();
    assert_eq!(
        refused(&long("P")),
        "ERR Protocol error: too big inline request"
    );
    assert_eq!(
        refused(&long("*")),
        "ERR Protocol error: too big mbulk count string"
    );
    assert_eq!(
        refused(&long("*1\r\n$")),
        "ERR Protocol error: too big bulk count string"
    );
    // Whole or in pieces: a line that is too long is refused.
    let line = [&[b'a'; 70_000][..], b"\r\n"].concat();
    assert_eq!(refused(&line), "ERR Protocol error: too big inline request");
}

#[test]
fn get_is_a_command_though_browsers_say_it() {
    let (requests, wrong) = read(b"GET / HTTP/1.1\r\n*1\r\n$4\r\nPOST\r\n", Limits::default());
    assert_eq!(
        (requests, wrong),
        (vec!["GET|/|HTTP/1.1".into(), "POST".into()], None)
    );
}

/// A length alone reserves nothing; it says what to reserve.
#[test]
fn what_an_argument_wants_is_known_before_it_comes() {
    let mut parser = Parser::new(Limits::default());
    let received = b"*2\r\n$3\r\nSET\r\n$1000\r\nabc";
    assert_eq!(parser.next(received), Ok(Found::More));
    assert_eq!(parser.missing(received.len()), 1000 - 3 + 2);
    assert_eq!(parser.expected(), received.len() - 3 + 1000 + 16);
    let mut parser = Parser::new(Limits::default());
    assert_eq!(parser.next(b"*1048576\r\n"), Ok(Found::More));
    assert_eq!((parser.missing(10), parser.expected()), (0, 0));
    // The bytes that it will have are known until it is whole.
    let mut parser = Parser::new(Limits::default());
    let mut received = b"*9\r\n$1000\r\n".to_vec();
    let expected = received.len() + 9 * 1016;
    for _ in 0..9 {
        assert_eq!(parser.next(&received), Ok(Found::More));
        assert_eq!(parser.expected(), expected);
        received.extend([b'x'; 1000]);
        received.extend(b"\r\n");
        assert!(parser.next(&received).is_ok());
        received.extend(b"$1000\r\n");
    }
    assert_eq!(parser.expected(), 0, "it is whole");
}

#[test]
fn limits_are_the_callers() {
    let limits = Limits {
        bulk_bytes_max: 3,
        request_bytes_max: 16,
        dropped_bytes_max: 5,
        arguments_max: 2,
        line_bytes_max: 10,
    };
    assert_eq!(read(b"*2\r\n$3\r\nabc\r\n$3\r\nabc\r\n", limits).1, None);
    assert_eq!(read(b"*3\r\n", limits).1, Some(Wrong::MultibulkLength));
    assert_eq!(read(b"*1\r\n$6\r\n", limits).1, Some(Wrong::BulkLength));
    assert_eq!(
        read(b"abcdefghijk\r\n", limits).1,
        Some(Wrong::InlineLength)
    );
}

#[test]
fn a_request_that_is_too_long_is_passed_over_as_it_comes() {
    let limits = Limits {
        bulk_bytes_max: 3,
        request_bytes_max: 30,
        dropped_bytes_max: 1 << 20,
        ..Limits::default()
    };
    let long_word = b"*3\r\n$1\r\na\r\n$5\r\n*1\r\n$\r\n$1\r\nb\r\nPING\r\n";
    assert_eq!(
        read(long_word, limits),
        (vec!["too long".into(), "PING".into()], None)
    );
    let many_words = [&b"*9\r\n"[..], &b"$3\r\nabc\r\n".repeat(9), b"PING\r\n"].concat();
    assert_eq!(
        read(&many_words, limits),
        (vec!["too long".into(), "PING".into()], None)
    );
    let wrong = read(b"*2\r\n$9\r\n123456789\r\nabc\r\n", limits);
    assert_eq!(wrong, (Vec::new(), Some(Wrong::NoBulk(b'a'))));
    let mut parser = Parser::new(limits);
    let head = b"*2\r\n$3\r\nSET\r\n$1000000\r\nabc";
    assert_eq!(parser.next(head), Ok(Found::Dropped { length: head.len() }));
    assert_eq!(parser.missing(0), 0, "nothing of it is kept");
    for _ in 0..10 {
        let some = [b'x'; 99_999];
        assert_eq!(
            parser.next(&some),
            Ok(Found::Dropped { length: some.len() })
        );
    }
    assert_eq!(parser.next(b"1234567\r"), Ok(Found::Dropped { length: 8 }));
    assert_eq!(parser.next(b"\nPING\r\n"), Ok(Found::TooLong { length: 1 }));
    assert!(matches!(parser.next(b"PING\r\n"), Ok(Found::Request(_))));
}
