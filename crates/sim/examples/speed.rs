//! How many simple events a second: pairs of machines that throw one byte to and fro, each also
//! with a timer.

use std::time::Instant;

use node::buffer::{Buffer, Slice};
use node::op::{Completion, ConnId, Machine, Op, Time};
use sim::World;

struct Player {
    ops: Vec<Op>,
    deadline: Time,
}

impl Player {
    fn throw(&mut self, conn: ConnId, buffer: Buffer) {
        let slices = vec![Slice::copied_from(b"!")];
        self.ops.push(Op::Receive {
            conn,
            buffer,
            range: 0..1,
            whole: false,
        });
        self.ops.push(Op::Send { conn, slices });
    }
}

impl Machine for Player {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Accepted { conn, .. } | Completion::Connected { conn, .. } => {
                self.throw(conn, Buffer::new(1));
            }
            Completion::Received { conn, buffer, .. } => self.throw(conn, buffer),
            _ => {}
        }
    }
    fn on_time(&mut self, now: Time) {
        if self.deadline <= now {
            self.deadline = Time(now.0 + 1000);
        }
    }
    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop()
    }
    fn deadline(&self) -> Option<Time> {
        Some(self.deadline)
    }
    fn is_finished(&self) -> bool {
        false
    }
}

fn main() {
    let mut world = World::new(1);
    for pair in 0..8 {
        let address = format!("server{pair}:1");
        let server = world.add_host(&format!("server{pair}"));
        let client = world.add_host(&format!("client{pair}"));
        let listen = address.clone();
        let player = |ops: Vec<Op>| Player {
            ops,
            deadline: Time(0),
        };
        let start = move |_: &mut dyn node::op::Disk, _| {
            let address = listen.clone();
            let player = player(vec![Op::Listen { address }]);
            Ok(Box::new(player) as Box<dyn sim::Process>)
        };
        world.start(server, start).expect("it starts");
        let start = move |_: &mut dyn node::op::Disk, _| {
            let address = address.clone();
            let conn = ConnId(0);
            let player = player(vec![Op::Connect { conn, address }]);
            Ok(Box::new(player) as Box<dyn sim::Process>)
        };
        world.start(client, start).expect("it starts");
    }
    let began = Instant::now();
    world.run_for(u64::MAX / 4, 5_000_000);
    let seconds = began.elapsed().as_secs_f64();
    let per_second = world.events() as f64 / seconds;
    println!("{:.0} thousand events/s", per_second / 1000.0);
}
