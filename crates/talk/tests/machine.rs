//! The machines, one input after the other, without a socket or a clock.

/// Tests call it as the workspace does, which has some of them elsewhere, too.
extern crate logberg_talk as talk;

use std::time::Duration;

use talk::{AppendOptions, Appender, Asker, Input, Known, Link, Output, Said, Timeouts};
use wire::Ask;

fn known(servers: &[&str]) -> Known {
    Known::new(servers.iter().map(|server| (*server).to_owned()), 1)
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// The wishes, in lines: `connect a:1`, `send …`, `close`; and the last link that was connected.
fn wants(mut poll: impl FnMut() -> Option<Output>) -> (Vec<String>, Option<Link>) {
    let (mut wants, mut last) = (Vec::new(), None);
    while let Some(output) = poll() {
        wants.push(match output {
            Output::Connect(link, server, _) => {
                last = Some(link);
                format!("connect {server}")
            }
            Output::Send(_, bytes) => {
                format!("send {}", String::from_utf8_lossy(&bytes).trim_end())
            }
            Output::Close(_) => "close".to_owned(),
        });
    }
    (wants, last)
}

/// An appender with the servers that it knows, on a log that has opened 1.1.1 for it at 0.
fn open(known: &mut Known) -> (Appender, Link) {
    let options = AppendOptions::to("main");
    let mut appender = Appender::new(ms(0), known, options, Timeouts::default());
    appender.handle(ms(0), known, &Input::Time);
    let (_, link) = wants(|| appender.poll_output());
    let link = link.expect("it dials");
    appender.handle(ms(1), known, &Input::Connected(link));
    let (asked, _) = wants(|| appender.poll_output());
    assert_eq!(asked, ["send logberg/1 append main checked=1"]);
    hear(&mut appender, known, link, "stream 1.1.1 at=0\n");
    assert!(appender.is_open());
    (appender, link)
}

fn hear(appender: &mut Appender, known: &mut Known, link: Link, said: &str) {
    let input = Input::Received(link, said.as_bytes().into());
    appender.handle(ms(2), known, &input);
}

#[test]
fn a_lost_stream_is_continued_where_it_was_acknowledged_and_the_rest_is_sent_again() {
    let mut known = known(&["a:1", "b:1"]);
    let (mut appender, link) = open(&mut known);
    assert_eq!(appender.write(b"abcdef"), 6);
    let (sent, _) = wants(|| appender.send_some());
    assert_eq!(sent, ["send abcdef"]);
    hear(&mut appender, &mut known, link, "ack 2\n");
    assert_eq!(appender.acknowledged(), 2);
    appender.handle(ms(3), &mut known, &Input::Lost(link, Said::Lost));
    let (wanted, next) = wants(|| appender.poll_output());
    assert_eq!(wanted, ["close", "connect a:1"]);
    let next = next.expect("it dials");
    appender.handle(ms(4), &mut known, &Input::Connected(next));
    let (asked, _) = wants(|| appender.poll_output());
    assert_eq!(
        asked,
        ["send logberg/1 append main continues=1.1.1@2 checked=1"]
    );
    // More was chosen than was heard of.
    hear(
        &mut appender,
        &mut known,
        next,
        "error continues length=5: It is longer.\n",
    );
    assert_eq!(appender.acknowledged(), 5);
    let (wanted, last) = wants(|| appender.poll_output());
    assert_eq!(wanted, ["close", "connect a:1"]);
    let last = last.expect("it dials");
    appender.handle(ms(5), &mut known, &Input::Connected(last));
    let (asked, _) = wants(|| appender.poll_output());
    assert_eq!(
        asked,
        ["send logberg/1 append main continues=1.1.1@5 checked=1"]
    );
    hear(&mut appender, &mut known, last, "stream 2.1.1 at=5\n");
    let (sent, _) = wants(|| appender.send_some());
    assert_eq!(sent, ["send f"]);
    // The last words of an old connection are passed over.
    hear(&mut appender, &mut known, link, "ack 6\n");
    assert_eq!(appender.acknowledged(), 5);
    hear(&mut appender, &mut known, last, "ack 1\n");
    assert_eq!(appender.acknowledged(), 6);
}

#[test]
fn a_search_whose_time_is_over_is_called_again_when_the_server_that_it_probes_is_due() {
    let mut known = known(&["a:1"]).of(Some("0b-1".to_owned()));
    let mut asker = Asker::new(ms(0), &known, Ask::Metrics, Timeouts::default(), ms(100));
    asker.handle(ms(0), &mut known, &Input::Time);
    let (wanted, _) = wants(|| asker.poll_output());
    assert_eq!(wanted, ["connect a:1"]);
    asker.handle(ms(200), &mut known, &Input::Time);
    let due = asker.deadline().expect("the probe's time is bounded");
    assert!(due > ms(200), "{due:?} has passed");
    asker.handle(due, &mut known, &Input::Time);
    assert!(asker.outcome().is_some_and(|outcome| outcome.is_err()));
}

#[test]
fn a_server_that_is_to_answer_alone_is_not_left_for_one_that_it_names() {
    let mut known = known(&["a:1"]).alone();
    let mut asker = Asker::new(ms(0), &known, Ask::Metrics, Timeouts::default(), ms(1000));
    asker.handle(ms(0), &mut known, &Input::Time);
    let (_, link) = wants(|| asker.poll_output());
    let link = link.expect("it dials");
    asker.handle(ms(1), &mut known, &Input::Connected(link));
    let said = b"error not-leader leader=b:1: Ask it.\n";
    asker.handle(ms(2), &mut known, &Input::Received(link, said[..].into()));
    let (wanted, _) = wants(|| asker.poll_output());
    assert_eq!(wanted, ["send logberg/1 metrics", "close"]);
    let due = asker.deadline().expect("a pause");
    asker.handle(due, &mut known, &Input::Time);
    let (wanted, _) = wants(|| asker.poll_output());
    assert_eq!(wanted, ["connect a:1"]);
}

/// When a server that drips a line is left.
fn left_at(dripped: &[u8], each: Duration, piece: usize) -> Option<Duration> {
    let mut known = known(&["a:1"]).alone();
    let until = ms(1000);
    let mut asker = Asker::new(ms(0), &known, Ask::Metrics, Timeouts::default(), until);
    asker.handle(ms(0), &mut known, &Input::Time);
    let (_, link) = wants(|| asker.poll_output());
    let link = link.expect("it dials");
    asker.handle(ms(1), &mut known, &Input::Connected(link));
    let mut now = ms(1);
    for bytes in dripped.chunks(piece) {
        now += each;
        asker.handle(now, &mut known, &Input::Received(link, bytes.into()));
        if let Some(outcome) = asker.outcome() {
            return outcome.is_err().then_some(now);
        }
    }
    panic!("it is over by now")
}

#[test]
fn a_server_that_brings_an_answer_drop_by_drop_is_as_good_as_silent() {
    let line = [&b"ok "[..], &[b'x'; 20_000], b"\n"].concat();
    let silence = Timeouts::default().silence;
    let left = left_at(&line, ms(900), 1).expect("it is not waited for");
    assert!(left <= silence + ms(1000), "{left:?}");
    assert_eq!(left_at(&line, ms(900), 1000), None, "slow is not silent");
}

#[test]
fn a_silent_server_is_left_for_the_one_that_others_say_leads() {
    let mut known = known(&["a:1", "b:1"]);
    let (mut appender, _) = open(&mut known);
    appender.write(b"abc");
    wants(|| appender.send_some());
    appender.handle(ms(10), &mut known, &Input::Time);
    let due = appender.deadline().expect("an answer is owed");
    appender.handle(due, &mut known, &Input::Time);
    // (Which node the suspect is was told by the name of its stream.)
    let (wanted, question) = wants(|| appender.poll_output());
    assert_eq!(wanted, ["connect b:1"]);
    let question = question.expect("it dials");
    appender.handle(due, &mut known, &Input::Connected(question));
    let status = concat!(
        r#"ok {"node":2,"nodes":[{"id":1,"address":"a:1"},{"id":2,"address":"b:1"}],"#,
        r#""logs":[{"id":1,"name":"main","leader":2,"term":"1.9.2"}]}"#,
        "\n"
    );
    let input = Input::Received(question, status.as_bytes().into());
    appender.handle(due, &mut known, &input);
    let (wanted, _) = wants(|| appender.poll_output());
    assert_eq!(
        wanted,
        ["send logberg/1 status", "close", "close", "connect b:1"]
    );
}
