//! A server for tests, which does what it is told: also what no server should.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use resp::{Found, Limits, Parser, Protocol, Value, encode};

use super::slots::SLOTS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    Honest,
    /// It answers writes, and keeps the first value of each key.
    Stale,
    /// Every key is served by another.
    Elsewhere(SocketAddr),
    /// It ends each connection at its first command.
    Deaf,
}

#[derive(Clone)]
pub struct Fake {
    pub address: SocketAddr,
    conduct: Arc<Mutex<Conduct>>,
    values: Arc<Mutex<HashMap<Vec<u8>, Vec<u8>>>>,
}

impl Fake {
    /// It serves as long as the test's process lives.
    pub fn start(conduct: Conduct) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let fake = Fake {
            address: listener.local_addr().unwrap(),
            conduct: Arc::new(Mutex::new(conduct)),
            values: Arc::default(),
        };
        let serves = fake.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serves = serves.clone();
                thread::spawn(move || serves.serve(stream));
            }
        });
        fake
    }

    pub fn behave(&self, conduct: Conduct) {
        *self.conduct.lock().unwrap() = conduct;
    }

    fn serve(&self, mut stream: TcpStream) {
        let mut parser = Parser::new(Limits::default());
        let (mut received, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(count) = stream.read(&mut piece) {
            if count == 0 {
                return;
            }
            received.extend_from_slice(&piece[..count]);
            let mut replies = Vec::new();
            while let Ok(Found::Request(request)) = parser.next(&received) {
                let words: Vec<&[u8]> = request.arguments().collect();
                let Some(reply) = self.answer(&words) else {
                    return;
                };
                encode(&reply, Protocol::Resp2, &mut replies);
                let length = request.length();
                received.drain(..length);
            }
            if stream.write_all(&replies).is_err() {
                return;
            }
        }
    }

    fn answer(&self, words: &[&[u8]]) -> Option<Value> {
        let conduct = *self.conduct.lock().unwrap();
        let served_at = match conduct {
            Conduct::Elsewhere(address) => address,
            _ => self.address,
        };
        let mut values = self.values.lock().unwrap();
        Some(match words {
            [b"CLUSTER", ..] => slots_at(served_at),
            _ if conduct == Conduct::Deaf => return None,
            _ if served_at != self.address => Value::error(format!("MOVED 0 {served_at}")),
            [b"SET", key, value] => {
                let before = values.entry(key.to_vec()).or_insert(value.to_vec());
                if conduct != Conduct::Stale {
                    *before = value.to_vec();
                }
                Value::OK
            }
            [b"GET", key] => values
                .get(*key)
                .map_or(Value::Null, |value| Value::bulk(value.clone())),
            _ => Value::error("ERR unknown command"),
        })
    }
}

fn slots_at(address: SocketAddr) -> Value {
    let server = vec![
        Value::bulk(address.ip().to_string()),
        Value::Integer(i64::from(address.port())),
    ];
    let last = Value::Integer(i64::from(SLOTS) - 1);
    let range = vec![Value::Integer(0), last, Value::Array(server)];
    Value::Array(vec![Value::Array(range)])
}
