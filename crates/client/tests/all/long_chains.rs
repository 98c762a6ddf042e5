//! Positions that need more than 32 bits. The node is played line by line: nobody holds the bytes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use client::{AppendOptions, Client, StreamPlace, Timeouts};

const BASE: u64 = 5_000_000_000;

fn request(stream: &TcpStream) -> (BufReader<TcpStream>, String) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    (reader, line)
}

#[test]
fn a_chain_of_more_than_four_gib_is_acknowledged_and_continued_to_the_byte() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let node = thread::spawn(move || {
        let (mut requests, mut taken) = (Vec::new(), Vec::<u8>::new());
        let mut lasting = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let (mut reader, line) = request(&stream);
            let mut take = |count: usize, keep: usize| {
                let mut bytes = vec![0; count];
                reader.read_exact(&mut bytes).unwrap();
                taken.extend(&bytes[..keep]);
            };
            let mut say = |line: String| stream.write_all(line.as_bytes()).unwrap();
            if line.contains("continues=1.1.1@") {
                say(format!("stream 1.1.2 at={BASE}\n"));
                // It keeps more than it says, and not all that came.
                take(10, 7);
                say("ack 4\n".to_owned());
            } else if line.contains("continues=1.1.2@4") {
                say("error continues length=7: It is longer.\n".to_owned());
            } else if line.contains("continues=1.1.2@7") {
                say(format!("stream 1.1.3 at={}\n", BASE + 7));
                take(3, 3);
                say("ack 3\n".to_owned());
                lasting.push(stream);
            } else if line.contains("close main stream=1.1.3 at=3") {
                say("closed 3\n".to_owned());
                return taken;
            } else {
                say("error no-quorum: Ask again.\n".to_owned());
            }
            requests.push(line);
        }
        panic!("{requests:?}")
    });
    let place: StreamPlace = format!("1.1.1@{BASE}").parse().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let options = AppendOptions {
        continues: Some(place),
        on_acknowledged: Some(Box::new(move |position, _| {
            told.lock().unwrap().push(position);
        })),
        ..AppendOptions::default()
    };
    let client = Client::new(vec![address], Timeouts::default());
    let mut appender = client.append("main", options).unwrap();
    appender.write_all(b"0123456789").unwrap();
    let closed = appender.close().unwrap();
    assert_eq!(closed.position, BASE + 10);
    assert_eq!(node.join().unwrap(), b"0123456789");
    let seen = seen.lock().unwrap();
    assert!(
        seen.is_sorted() && seen.last() == Some(&(BASE + 10)),
        "{seen:?}"
    );
}
