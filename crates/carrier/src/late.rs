//! A machine whose words to other nodes arrive later.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use ops::{Completion, ConnId, Machine, Op, Slice, Time};

use crate::lag::Lag;
use crate::link::{Held, Link, Other, UNDER_WAY_MAX};

/// A node around which everything that goes to other nodes is held until it is due.
///
/// The node takes what is held for sent, up to 16 MiB on each connection. A new connection is there after a way and a way back. Clients, whatever they
/// send, and the disk are as they were. Packets are none of it: a long way has losses and slow starts, which this has not.
pub struct Late<'a, M: Machine + ?Sized> {
    node: &'a mut M,
    lag: Lag,
    random: u64,
    links: BTreeMap<ConnId, Link>,
    /// Connections that are made, and of which the node hears later.
    connected: Vec<(Time, ConnId, Option<String>)>,
    /// For the node.
    told: VecDeque<Completion>,
    /// For the kernel.
    due: VecDeque<Op>,
    now: Time,
}

impl<'a, M: Machine + ?Sized> Late<'a, M> {
    /// `seed`: what is drawn is drawn again with the same one.
    pub fn new(node: &'a mut M, lag: Lag, seed: u64, now: Time) -> Late<'a, M> {
        Late {
            node,
            lag,
            random: seed | 1,
            links: BTreeMap::new(),
            connected: Vec::new(),
            told: VecDeque::new(),
            due: VecDeque::new(),
            now,
        }
    }

    fn one_way(&mut self) -> std::time::Duration {
        // Marsaglia's xorshift64.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.lag.draw(self.random >> 11)
    }

    /// The connection, if it is one to another node that the node has not closed.
    fn way_to_node(&mut self, conn: ConnId) -> Option<&mut Link> {
        let link = self.links.get_mut(&conn)?;
        (link.other == Other::Node && !link.is_closed).then_some(link)
    }

    /// Passes an op of the node on, or holds it.
    fn take(&mut self, op: Op) -> Option<Op> {
        match op {
            Op::Connect { conn, .. } => {
                self.links.insert(conn, Link::to(Other::Node));
                Some(op)
            }
            Op::Send { conn, slices } => self.send(conn, slices),
            Op::ShutdownWrite { conn } => self.behind_what_is_held(conn, op),
            Op::Close { conn, flush: true } => {
                let op = self.behind_what_is_held(conn, op);
                self.forget(conn, op.is_some());
                op
            }
            Op::Close { conn, flush: false } | Op::Reset { conn } => {
                self.drop_held(conn);
                self.forget(conn, true);
                Some(op)
            }
            op => Some(op),
        }
    }

    fn send(&mut self, conn: ConnId, slices: Vec<Slice>) -> Option<Op> {
        let due = self.now + self.one_way();
        let bytes = slices.iter().map(|slice| slice.len()).sum();
        let op = Op::Send { conn, slices };
        if self.links.get(&conn).is_some_and(|link| link.is_closed) {
            let result = Err(io::ErrorKind::NotConnected.into());
            self.told.push_back(Completion::Sent { conn, result });
            return None;
        }
        let Some(link) = self.way_to_node(conn) else {
            return Some(op);
        };
        let is_told = link.held_bytes < UNDER_WAY_MAX;
        link.hold(due, op, bytes, is_told);
        if is_told {
            let result = Ok(());
            self.told.push_back(Completion::Sent { conn, result });
        }
        None
    }

    /// ‡ An end follows the bytes that it is the end of.
    fn behind_what_is_held(&mut self, conn: ConnId, op: Op) -> Option<Op> {
        match self.way_to_node(conn) {
            Some(link) if !link.held.is_empty() => {
                link.hold(Time::ZERO, op, 0, true);
                None
            }
            _ => Some(op),
        }
    }

    /// Drops the sends under way of a connection that the node ends at once.
    fn drop_held(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        link.held_bytes = 0;
        for Held { op, is_told, .. } in std::mem::take(&mut link.held) {
            if matches!(op, Op::Send { .. }) && !is_told {
                let result = Err(io::ErrorKind::ConnectionAborted.into());
                self.told.push_back(Completion::Sent { conn, result });
            }
        }
    }

    fn forget(&mut self, conn: ConnId, at_kernel: bool) {
        let Some(link) = self.links.get_mut(&conn) else {
            return;
        };
        link.is_closed = true;
        self.connected.retain(|(_, other, _)| *other != conn);
        if at_kernel && link.told_before == 0 {
            self.links.remove(&conn);
        }
    }

    fn release(&mut self, now: Time) {
        let mut over = Vec::new();
        for (conn, link) in &mut self.links {
            while let Some(held) = link.take_due(now) {
                let is_send = matches!(held.op, Op::Send { .. });
                link.told_before += usize::from(is_send && held.is_told);
                self.due.push_back(held.op);
            }
            if link.is_closed && link.held.is_empty() && link.told_before == 0 {
                over.push(*conn);
            }
        }
        for conn in over {
            self.links.remove(&conn);
        }
        let is_due = |(due, ..): &mut (Time, ConnId, Option<String>)| *due <= now;
        for (_, conn, node) in self.connected.extract_if(.., is_due) {
            let result = Ok(());
            self.told
                .push_back(Completion::Connected { conn, result, node });
        }
    }

    /// The completion that the node is told at once, if it is told anything.
    fn heard(&mut self, completion: Completion) -> Option<Completion> {
        match completion {
            Completion::Accepted { conn, .. } => {
                self.links.insert(conn, Link::to(Other::Greets(0)));
                Some(completion)
            }
            Completion::Connected {
                conn,
                result: Ok(()),
                node,
            } => {
                let both_ways = self.one_way() + self.one_way();
                if self.way_to_node(conn).is_none() {
                    let result = Ok(());
                    return Some(Completion::Connected { conn, result, node });
                }
                self.connected.push((self.now + both_ways, conn, node));
                None
            }
            Completion::Connected { conn, result, node } => {
                self.links.remove(&conn);
                Some(Completion::Connected { conn, result, node })
            }
            Completion::Sent { conn, result } => {
                let Some(link) = self.links.get_mut(&conn) else {
                    return Some(Completion::Sent { conn, result });
                };
                if link.told_before == 0 {
                    return Some(Completion::Sent { conn, result });
                }
                // That a connection has broken its receives tell, too.
                link.told_before -= 1;
                if link.is_closed && link.told_before == 0 && link.held.is_empty() {
                    self.links.remove(&conn);
                }
                None
            }
            Completion::Received {
                conn,
                buffer,
                range,
                result,
            } => {
                let link = self.links.get_mut(&conn);
                // The node has closed it, and its last words are still on their way.
                let is_closed = link.as_ref().is_some_and(|link| link.is_closed);
                if let (Some(link), Ok(received)) = (link, &result)
                    && matches!(link.other, Other::Greets(_))
                    && !buffer.is_landed()
                {
                    let end = range.start + received.count;
                    link.hear(&buffer[range.start..end]);
                    if link.other == Other::Client {
                        self.links.remove(&conn);
                    }
                }
                let result = match is_closed {
                    true => Err(io::ErrorKind::ConnectionAborted.into()),
                    false => result,
                };
                Some(Completion::Received {
                    conn,
                    buffer,
                    range,
                    result,
                })
            }
            completion => Some(completion),
        }
    }
}

impl<M: Machine + ?Sized> Machine for Late<'_, M> {
    fn handle(&mut self, now: Time, completion: Completion) {
        self.now = self.now.max(now);
        if let Some(completion) = self.heard(completion) {
            self.node.handle(now, completion);
        }
    }

    fn on_time(&mut self, now: Time) {
        self.now = self.now.max(now);
        self.release(now);
        while let Some(completion) = self.told.pop_front() {
            self.node.handle(now, completion);
        }
        self.node.on_time(now);
    }

    fn poll_op(&mut self) -> Option<Op> {
        loop {
            if let Some(op) = self.due.pop_front() {
                return Some(op);
            }
            let op = self.node.poll_op()?;
            if let Some(op) = self.take(op) {
                return Some(op);
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        let held = self.links.values().filter_map(|link| link.held.front());
        let held = held.map(|held| held.due).min();
        let connected = self.connected.iter().map(|(due, ..)| *due).min();
        let told = (!self.told.is_empty()).then_some(self.now);
        [self.node.deadline(), held, connected, told]
            .into_iter()
            .flatten()
            .min()
    }

    /// Last words are said before the end.
    fn is_finished(&self) -> bool {
        let is_empty = |link: &Link| link.held.is_empty();
        self.node.is_finished() && self.links.values().all(is_empty)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::time::Duration;

    use ops::{Buffer, Received};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const DIALED: ConnId = ConnId(2);
    const ACCEPTED: ConnId = ConnId(1);

    /// Hands out what the test gives it, and keeps what it hears.
    #[derive(Default)]
    struct Node {
        ops: VecDeque<Op>,
        heard: Vec<String>,
        is_finished: bool,
    }

    impl Machine for Node {
        fn handle(&mut self, _: Time, completion: Completion) {
            self.heard.push(match completion {
                Completion::Connected { result, .. } => format!("connected {}", result.is_ok()),
                Completion::Sent { result, .. } => format!("sent {}", result.is_ok()),
                Completion::Received { result, .. } => format!("received {}", result.is_ok()),
                other => format!("{other:?}"),
            });
        }

        fn on_time(&mut self, _: Time) {}

        fn poll_op(&mut self) -> Option<Op> {
            self.ops.pop_front()
        }

        fn deadline(&self) -> Option<Time> {
            None
        }

        fn is_finished(&self) -> bool {
            self.is_finished
        }
    }

    fn at(ms: u32) -> Time {
        Time::ZERO + MS * ms
    }

    fn send(conn: ConnId, bytes: &[u8]) -> Op {
        let slices = vec![Slice::copied_from(bytes)];
        Op::Send { conn, slices }
    }

    fn shown(op: &Op) -> String {
        match op {
            Op::Connect { .. } => "connect".to_owned(),
            Op::Send { slices, .. } => String::from_utf8_lossy(&slices[0]).into_owned(),
            Op::ShutdownWrite { .. } => "shutdown".to_owned(),
            Op::Close { flush, .. } => format!("close {flush}"),
            Op::Reset { .. } => "reset".to_owned(),
            other => format!("{other:?}"),
        }
    }

    fn received(conn: ConnId, bytes: &[u8]) -> Completion {
        let range: Range<usize> = 0..bytes.len();
        let result = Ok(Received {
            count: bytes.len(),
            end: false,
        });
        Completion::Received {
            conn,
            buffer: Buffer::holding(bytes),
            range,
            result,
        }
    }

    fn accepted() -> Completion {
        Completion::Accepted {
            conn: ACCEPTED,
            peer: String::new(),
            listener: String::new(),
            is_own: false,
            node: None,
            client: None,
        }
    }

    /// Gives the node these ops, and returns what the kernel is given at once.
    fn give(late: &mut Late<'_, Node>, ops: impl IntoIterator<Item = Op>) -> Vec<String> {
        late.node.ops.extend(ops);
        polled(late)
    }

    fn polled(late: &mut Late<'_, Node>) -> Vec<String> {
        std::iter::from_fn(|| late.poll_op())
            .map(|op| shown(&op))
            .collect()
    }

    fn at_time(late: &mut Late<'_, Node>, ms: u32) -> Vec<String> {
        late.on_time(at(ms));
        polled(late)
    }

    fn heard(late: &mut Late<'_, Node>) -> Vec<String> {
        std::mem::take(&mut late.node.heard)
    }

    fn dial() -> Op {
        let address = "there:1".to_owned();
        Op::Connect {
            conn: DIALED,
            address,
        }
    }

    #[test]
    fn what_goes_to_a_node_is_sent_when_it_is_due_and_taken_for_sent_before() {
        let mut node = Node::default();
        let mut late = Late::new(&mut node, "20ms".parse().expect("a lag"), 1, at(0));
        assert_eq!(give(&mut late, [dial()]), ["connect"]);
        let result = Ok(());
        late.handle(
            at(1),
            Completion::Connected {
                conn: DIALED,
                result,
                node: None,
            },
        );
        assert!(at_time(&mut late, 40).is_empty() && heard(&mut late).is_empty());
        assert_eq!(late.deadline(), Some(at(41)));
        at_time(&mut late, 41);
        assert_eq!(heard(&mut late), ["connected true"]);

        let end = Op::ShutdownWrite { conn: DIALED };
        let ops = [send(DIALED, b"a"), send(DIALED, b"b"), end];
        assert!(give(&mut late, ops).is_empty());
        assert!(at_time(&mut late, 60).is_empty());
        assert_eq!(heard(&mut late), ["sent true", "sent true"]);
        assert_eq!(late.deadline(), Some(at(61)));
        assert_eq!(at_time(&mut late, 61), ["a", "b", "shutdown"]);
        // The kernel's word on what was told before is nobody's news.
        for result in [Ok(()), Err(io::ErrorKind::BrokenPipe.into())] {
            late.handle(
                at(62),
                Completion::Sent {
                    conn: DIALED,
                    result,
                },
            );
        }
        assert!(heard(&mut late).is_empty());
        let ops = [
            send(DIALED, b"c"),
            Op::Close {
                conn: DIALED,
                flush: true,
            },
        ];
        assert!(give(&mut late, ops).is_empty());
        late.node.is_finished = true;
        assert!(!late.is_finished(), "its last words are on their way");
        assert_eq!(at_time(&mut late, 90), ["c", "close true"]);
        assert!(late.is_finished());
        let result = Ok(());
        late.handle(
            at(91),
            Completion::Sent {
                conn: DIALED,
                result,
            },
        );
        assert!(late.links.is_empty());
    }

    #[test]
    fn clients_are_answered_at_once_and_nodes_that_call_are_not() {
        for (first, is_late) in [
            (&b"logberg/1 append main\n"[..], false),
            (b"logberg/1 peer kind=data\n", true),
        ] {
            let mut node = Node::default();
            let mut late = Late::new(&mut node, "20ms".parse().expect("a lag"), 1, at(0));
            late.handle(at(0), accepted());
            late.handle(at(0), received(ACCEPTED, &first[..5]));
            late.handle(at(0), received(ACCEPTED, &first[5..]));
            assert_eq!(give(&mut late, [send(ACCEPTED, b"x")]).is_empty(), is_late);
            assert_eq!(late.links.len(), usize::from(is_late));
        }
    }

    #[test]
    fn what_is_held_when_a_connection_is_reset_is_never_sent() {
        let mut node = Node::default();
        let mut late = Late::new(&mut node, "20ms".parse().expect("a lag"), 1, at(0));
        give(&mut late, [dial(), send(DIALED, b"lost")]);
        let ops = [Op::Reset { conn: DIALED }, send(DIALED, b"behind")];
        assert_eq!(give(&mut late, ops), ["reset", "behind"]);
        assert!(at_time(&mut late, 90).is_empty() && late.links.is_empty());
    }

    #[test]
    fn a_way_takes_so_much_and_is_told_when_it_is_full() {
        let mut node = Node::default();
        let mut late = Late::new(&mut node, "20ms".parse().expect("a lag"), 1, at(0));
        let piece = vec![7; UNDER_WAY_MAX];
        give(
            &mut late,
            [dial(), send(DIALED, &piece), send(DIALED, b"more")],
        );
        at_time(&mut late, 1);
        assert_eq!(heard(&mut late), ["sent true"]);
        assert_eq!(at_time(&mut late, 20).len(), 2);
        let result = || Ok(());
        late.handle(
            at(21),
            Completion::Sent {
                conn: DIALED,
                result: result(),
            },
        );
        assert!(heard(&mut late).is_empty());
        late.handle(
            at(22),
            Completion::Sent {
                conn: DIALED,
                result: result(),
            },
        );
        assert_eq!(heard(&mut late), ["sent true"]);
        // An end at once tells of what was not told.
        give(
            &mut late,
            [
                send(DIALED, &piece),
                send(DIALED, b"more"),
                Op::Close {
                    conn: DIALED,
                    flush: false,
                },
            ],
        );
        at_time(&mut late, 23);
        assert_eq!(heard(&mut late), ["sent true", "sent false"]);
    }

    #[test]
    fn words_keep_their_order_whatever_is_drawn() {
        let mut node = Node::default();
        let mut late = Late::new(&mut node, "1ms..30ms".parse().expect("a lag"), 7, at(0));
        give(&mut late, [dial()]);
        let words: Vec<String> = (0..50).map(|number| number.to_string()).collect();
        give(
            &mut late,
            words.iter().map(|word| send(DIALED, word.as_bytes())),
        );
        let sent: Vec<String> = (0..=30).flat_map(|ms| at_time(&mut late, ms)).collect();
        assert_eq!(sent, words);
    }
}
