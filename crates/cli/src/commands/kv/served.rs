//! Whether a node serves the slots that it is said to: it is asked for a key of each.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use kv::{SLOTS, slot_of};

use super::probe::dial;

/// A node is asked for so long at most. One that lacks slots holds each question for some time, since they may be about to come.
const WITHIN: Duration = Duration::from_secs(3);
/// The time before what was refused is asked for again.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// So many questions are on their way at once: what a door takes of a connection that is alone.
const AT_ONCE: usize = 1_024;
/// An answer about a slot.
const ANSWER_LINE_BYTES_MAX: u64 = 4 << 10;

/// The answers about slots, in their order, as far as they came in time: the words with which nothing of a slot is served, if it is so.
#[derive(Debug)]
pub struct Heard(pub Vec<Option<String>>);

/// A key of each slot.
pub struct KeysOfSlots(Vec<String>);

impl KeysOfSlots {
    pub fn new() -> KeysOfSlots {
        let mut keys = vec![String::new(); usize::from(SLOTS)];
        let mut missing = keys.len();
        let mut number = 0u32;
        while missing > 0 {
            let key = number.to_string();
            if let Some(place) = keys.get_mut(usize::from(slot_of(key.as_bytes())))
                && place.is_empty()
            {
                *place = key;
                missing -= 1;
            }
            number += 1;
        }
        KeysOfSlots(keys)
    }

    fn of(&self, slot: u16) -> &str {
        self.0.get(usize::from(slot)).map_or("", String::as_str)
    }
}

/// Asks a door for a key of each of these slots. A key that is asked for needs one row of one slot, and many are asked for at once: to count
/// the keys of each slot takes a question after the other.
///
/// A refused slot is asked for again: a node that has just begun to lead, or has not heard of the map yet, serves it a moment later.
pub fn refusals(place: &str, slots: &[u16], keys: &KeysOfSlots) -> Heard {
    let until = Instant::now() + WITHIN;
    let mut answers = heard_of(place, slots, keys, until);
    while answers.iter().any(Option::is_some) && Instant::now() + AGAIN_AFTER < until {
        thread::sleep(AGAIN_AFTER);
        let refused = slots.iter().zip(&mut answers);
        let (asked, refused): (Vec<u16>, Vec<&mut Option<String>>) =
            refused.filter(|(_, answer)| answer.is_some()).unzip();
        let again = heard_of(place, &asked, keys, until);
        let is_same = again.len() == asked.len() && again.iter().all(Option::is_some);
        for (answer, again) in refused.into_iter().zip(again) {
            *answer = again;
        }
        if is_same {
            break;
        }
    }
    Heard(answers)
}

fn heard_of(place: &str, slots: &[u16], keys: &KeysOfSlots, until: Instant) -> Vec<Option<String>> {
    let mut answers = Vec::new();
    // Answers before a failure stay.
    drop(hear(place, slots, keys, until, &mut answers));
    answers
}

fn hear(
    place: &str,
    slots: &[u16],
    keys: &KeysOfSlots,
    until: Instant,
    heard: &mut Vec<Option<String>>,
) -> io::Result<()> {
    let mut stream = dial(place)?;
    let reads = stream.try_clone()?;
    // A stranger's line need not end.
    let mut reads = BufReader::new(reads.take(0));
    for slots in slots.chunks(AT_ONCE) {
        let question = |slot: &u16| {
            let key = keys.of(*slot);
            format!("*2\r\n$6\r\nEXISTS\r\n${}\r\n{key}\r\n", key.len())
        };
        let questions: String = slots.iter().map(question).collect();
        stream.write_all(questions.as_bytes())?;
        for _ in slots {
            if !reads.buffer().contains(&b'\n') {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                stream.set_read_timeout(Some(left))?;
                reads.get_mut().set_limit(ANSWER_LINE_BYTES_MAX);
            }
            let mut line = String::new();
            if reads.read_line(&mut line)? == 0 || !line.ends_with('\n') {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let refusal = line.strip_prefix("-CLUSTERDOWN ");
            heard.push(refusal.map(|why| why.trim_end().to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn each_slot_has_a_key_of_its_own() {
        let keys = KeysOfSlots::new();
        for slot in 0..SLOTS {
            assert_eq!(slot_of(keys.of(slot).as_bytes()), slot);
        }
    }

    /// A door that gives the next answers on each connection once it was asked something, and closes it. Some questions that it did not read
    /// reset the connection: it is asked for little.
    fn door(answers: Vec<&'static [u8]>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("an address").to_string();
        thread::spawn(move || {
            for answers in answers {
                let (mut stream, _) = listener.accept().expect("somebody comes");
                let mut bytes = [0; 4_096];
                assert!(stream.read(&mut bytes).expect("a question") > 0);
                drop(stream.write_all(answers));
            }
        });
        place
    }

    #[test]
    fn what_was_heard_before_the_end_is_told() {
        let keys = KeysOfSlots::new();
        let lacks = b"-CLUSTERDOWN nobody has it\r\n";
        let place = door(vec![
            b":0\r\n-CLUSTERDOWN nobody has it\r\n-MOVED 3 a:1\r\n:1",
            lacks,
        ]);
        let heard = refusals(&place, &[1, 2, 3, 4, 5], &keys);
        let refused = Some("nobody has it".to_owned());
        assert_eq!(heard.0, [None, refused, None]);
    }

    #[test]
    fn what_is_refused_for_a_moment_is_served() {
        let keys = KeysOfSlots::new();
        let place = door(vec![
            b"-CLUSTERDOWN not yet\r\n:0\r\n-CLUSTERDOWN not yet\r\n",
            b":0\r\n-CLUSTERDOWN not yet\r\n",
            b":0\r\n",
        ]);
        assert_eq!(refusals(&place, &[1, 2, 3], &keys).0, [None, None, None]);
    }

    #[test]
    fn an_endless_line_is_no_answer() {
        let keys = KeysOfSlots::new();
        static ENDLESS: [u8; 64 << 10] = [b'a'; 64 << 10];
        assert!(refusals(&door(vec![&ENDLESS]), &[1, 2], &keys).0.is_empty());
    }
}
