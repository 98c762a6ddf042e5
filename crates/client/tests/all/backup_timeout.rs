//! A backup of a machine's rows from servers that fall silent: what runs between them and the client may be a proxy whose far end is gone.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use client::{Client, Timeouts};

/// Answers all that a backup asks first, and then what it is told to `save`, and nothing more. Counts the latter.
fn silent_server(said_to_save: &'static str, saves: &Arc<AtomicU32>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound").to_string();
    let saves = saves.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let saves = saves.clone();
            std::thread::spawn(move || serve(&stream, said_to_save, &saves));
        }
    });
    address
}

fn serve(mut stream: &TcpStream, said_to_save: &str, saves: &AtomicU32) {
    let mut input = BufReader::new(stream);
    let mut line = String::new();
    input.read_line(&mut line).expect("a request");
    let verb = line.split([' ', '\n']).nth(1).unwrap_or_default();
    let said = match verb {
        "save" if said_to_save.len() > DRIPPED => {
            saves.fetch_add(1, Ordering::SeqCst);
            return drip(stream, said_to_save);
        }
        "status" => concat!(
            r#"ok {"cluster":"c1","node":1,"disk":"","term":"","nodes":[],"logs":[]}"#,
            "\n"
        ),
        "logs" => "ok [{\"id\":1,\"name\":\"main\"}]\n",
        "show-log" => "ok {\"id\":1,\"name\":\"main\",\"kind\":\"state\"}\n",
        "save" => {
            saves.fetch_add(1, Ordering::SeqCst);
            said_to_save
        }
        _ => "",
    };
    // A client that is gone hears nothing.
    let _ = stream.write_all(said.as_bytes());
    if verb == "save" {
        line.clear();
        let _ = input.read_line(&mut line);
    }
}

/// A longer answer comes drop by drop.
const DRIPPED: usize = 80;

fn drip(mut stream: &TcpStream, said: &str) {
    for byte in said.as_bytes() {
        std::thread::sleep(Duration::from_millis(100));
        if stream.write_all(&[*byte]).is_err() {
            return;
        }
    }
}

/// How often `save` was asked for, and how long it took, in parts of the time that the client was given.
fn backed_up_from(said_to_save: &'static str) -> (u32, f64) {
    let saves = Arc::new(AtomicU32::new(0));
    let servers = (0..3)
        .map(|_| silent_server(said_to_save, &saves))
        .collect();
    let timeouts = Timeouts {
        connect: Duration::from_millis(500),
        silence: Duration::from_millis(500),
        total: Duration::from_secs(2),
    };
    let client = Client::new(servers, timeouts);
    let to = tempfile::tempdir().expect("a directory");
    let began = Instant::now();
    let error = client
        .back_up("main", &to.path().join("b.lbb"), String::new(), |_, _| {})
        .expect_err("nobody gives anything");
    let took = began.elapsed().as_secs_f64() / timeouts.total.as_secs_f64();
    let saved = saves.load(Ordering::SeqCst);
    assert!(saved > 0, "the rows were asked for: {error}");
    (saved, took)
}

#[test]
fn servers_that_never_answer_share_the_time_of_a_backup() {
    let (saves, took) = backed_up_from("");
    assert!(saves >= 3, "each was asked: {saves}");
    assert!(took < 2.0, "it took {took:.1} times its timeout");
}

#[test]
fn servers_that_fall_silent_between_pages_leave_time_to_another_and_no_more() {
    let saving = "ok {\"position\":0,\"frame\":0,\"time_ms\":0,\"sessions\":0}\n";
    let (saves, took) = backed_up_from(saving);
    assert!(saves >= 2, "another one was asked: {saves}");
    assert!(took < 2.0, "it took {took:.1} times its timeout");
}

#[test]
fn servers_that_answer_drop_by_drop_share_the_time_of_a_backup() {
    let saving = "ok {\"position\":0,\"frame\":0,\"time_ms\":0,\"sessions\":0,\"and\":\"so it goes on and on and on\"}\n";
    let (saves, took) = backed_up_from(saving);
    assert!(saves >= 2, "another one was asked: {saves}");
    assert!(took < 2.0, "it took {took:.1} times its timeout");
}
