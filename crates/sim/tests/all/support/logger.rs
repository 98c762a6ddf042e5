//! Writes numbered blocks to a file, durably, and believes what it is told.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use ops::{BLOCK, Buffer, Completion, Disk, FileId, Machine, Op, OpenMode, Time, Token};

pub struct Logger {
    ops: VecDeque<Op>,
    /// Every block below is on the disk: what outside observers hold it to.
    durable: Rc<Cell<u64>>,
    next: u64,
    is_open: bool,
    /// When it may write again: a test should not fill the memory.
    tick: Time,
    broken: bool,
    stopping: bool,
}

const OPEN: Token = Token(u64::MAX);
const IN_FLIGHT: u64 = 4;

pub fn path() -> PathBuf {
    PathBuf::from("/data/blocks")
}

pub fn block(number: u64) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(
            &(number + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .to_le_bytes(),
        );
    }
    block
}

impl Logger {
    /// Asserts that nothing durable was lost, and goes on behind it.
    pub fn start(disk: &mut dyn Disk, durable: Rc<Cell<u64>>) -> io::Result<Logger> {
        disk.create_directory(Path::new("/data"))?;
        disk.lock(Path::new("/data/lock"))?;
        assert!(disk.lock(Path::new("/data/lock")).is_err(), "it is taken");
        let names = disk.list(Path::new("/data"))?;
        let exists = names.iter().any(|entry| entry.name == "blocks");
        assert!(exists || durable.get() == 0, "the file is lost");
        let mut found = [0; BLOCK];
        for number in 0..durable.get() {
            let count = disk.read_at(&path(), number * BLOCK as u64, &mut found)?;
            assert_eq!(count, BLOCK, "block {number} is lost");
            assert_eq!(found, block(number), "block {number} is torn");
        }
        let mode = match exists {
            true => OpenMode::ReadWrite,
            false => OpenMode::Create { size_hint: 40_000 },
        };
        let mut logger = Logger {
            ops: VecDeque::new(),
            next: durable.get(),
            durable,
            is_open: false,
            tick: Time::ZERO,
            broken: false,
            stopping: false,
        };
        logger.ops.push_back(Op::Open {
            token: OPEN,
            file: FileId(1),
            path: path(),
            mode,
        });
        Ok(logger)
    }

    fn write(&mut self) {
        let slices = vec![Buffer::holding(&block(self.next)).freeze().slice(0..BLOCK)];
        self.ops.push_back(Op::Write {
            token: Token(self.next),
            file: FileId(1),
            offset: self.next * BLOCK as u64,
            slices,
        });
        self.next += 1;
    }
}

impl Machine for Logger {
    fn handle(&mut self, _now: Time, completion: Completion) {
        match completion {
            Completion::Done { result: Err(_), .. } => self.broken = true,
            Completion::Done { token: OPEN, .. } => {
                self.is_open = true;
            }
            Completion::Done { token, .. } => {
                assert!(!self.broken, "a write succeeded after one failed");
                assert_eq!(token.0, self.durable.get(), "writes complete in order");
                self.durable.set(token.0 + 1);
            }
            Completion::StopRequested => self.stopping = true,
            other => panic!("{other:?}"),
        }
    }
    fn on_time(&mut self, now: Time) {
        if self.tick <= now {
            self.tick = now + Duration::from_millis(10);
            while self.is_open && self.next < self.durable.get() + IN_FLIGHT {
                self.write();
            }
        }
    }
    fn poll_op(&mut self) -> Option<Op> {
        self.ops.pop_front()
    }
    fn deadline(&self) -> Option<Time> {
        Some(self.tick)
    }
    fn is_finished(&self) -> bool {
        self.stopping
    }
}
