//! The lines on files and names.

use ops::{BLOCK, Buffer, FileId, Op, OpenMode, Slice, Token};

use super::{FILL_BYTES, Performer};
use crate::script::Line;

impl Performer {
    pub(super) fn give_to_disk(&mut self, line: &Line, number: usize) {
        self.next_number += 1;
        let token = Token(self.next_number);
        self.tokens.insert(token, number);
        let path = |at: usize| match line.word(at) {
            "." => self.root.clone(),
            name => self.root.join(name),
        };
        let block = |at: usize| (line.number(at, 0) * BLOCK) as u64;
        let op = match line.word(0) {
            "create" | "open" | "open-read" => {
                let mode = match line.word(0) {
                    "create" => OpenMode::Create { size_hint: 1 << 20 },
                    "open" => OpenMode::ReadWrite,
                    _ => OpenMode::Read,
                };
                let path = path(2);
                let file = FileId(self.next_number);
                self.files.insert(line.word(1).to_string(), file);
                Op::Open {
                    token,
                    file,
                    path,
                    mode,
                }
            }
            "close-file" => {
                let file = self.file(line.word(1));
                Op::CloseFile { token, file }
            }
            "write" => {
                let file = self.file(line.word(1));
                self.writes.entry(file).or_default().push_back(token);
                Op::Write {
                    token,
                    file,
                    offset: block(2),
                    slices: vec![self.letter_blocks(line.number(3, self.much) * BLOCK)],
                }
            }
            "fill" => {
                let file = self.file(line.word(1));
                Op::Write {
                    token,
                    file,
                    offset: self.filled,
                    slices: vec![self.letter_blocks(FILL_BYTES)],
                }
            }
            "read" => {
                let length = line.number(3, self.much) * BLOCK;
                Op::Read {
                    token,
                    file: self.file(line.word(1)),
                    offset: block(2),
                    buffer: Buffer::new(length),
                    range: 0..length,
                }
            }
            "mkdir" => Op::CreateDirectory {
                token,
                path: path(1),
            },
            "write-file" => {
                let path = path(1);
                self.letters += 1;
                let contents = vec![b'A' + self.letters - 1; line.number(2, self.much)];
                Op::WriteFile {
                    token,
                    path,
                    contents,
                }
            }
            "rename" => Op::Rename {
                token,
                from: path(1),
                to: path(2),
            },
            "remove" => Op::Remove {
                token,
                path: path(1),
                urgent: false,
            },
            "remove-directory" => Op::RemoveDirectory {
                token,
                path: path(1),
            },
            "space" => Op::FreeSpace {
                token,
                path: path(1),
            },
            other => panic!("no such op: {other}"),
        };
        self.put(op);
    }

    fn letter_blocks(&mut self, length: usize) -> Slice {
        self.letters += 1;
        let shared = Buffer::holding(&vec![b'A' + self.letters - 1; length]).freeze();
        shared.slice(0..length)
    }

    fn file(&self, name: &str) -> FileId {
        // One that was never opened has an id that nobody knows.
        self.files.get(name).copied().unwrap_or(FileId(u64::MAX))
    }

    pub(super) fn on_done(&mut self, token: Token, outcome: String) {
        let number = self.tokens.remove(&token).expect("one answer for each op");
        let line = self.script.lines[number].clone();
        if line.word(0) == "write" {
            let mut queues = self.writes.values_mut();
            let queue = queues.find(|queue| queue.contains(&token));
            let queue = queue.expect("a write that was given");
            // What is refused is answered at once; what is performed, in order.
            let in_order = queue.front() == Some(&token) || outcome != "done";
            queue.retain(|other| *other != token);
            if !in_order {
                self.outcomes[number] = "out of order".to_string();
                return;
            }
        }
        if line.word(0) == "fill" && outcome == "done" {
            self.filled += FILL_BYTES as u64;
            assert!(self.filled < 1 << 30, "this disk is not small");
            self.letters = 0;
            return self.give_to_disk(&line, number);
        }
        self.outcomes[number] = outcome;
    }
}
