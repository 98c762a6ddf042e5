//! Scripts as they stand in `testdata/contract`.
//!
//! ```text
//! ## What it shows
//! listen p
//! pair a b p            -> connected
//! & receive b 100       -> 5            given, and not waited for
//! send a 5              -> sent         waited for
//! close a flush
//! drain b               -> 0 end
//! ```
//!
//! Behind `->` stands what the op's completion says in every kernel; ` | ` parts what the contract
//! leaves open.
//!
//! | words | |
//! |---|---|
//! | `listen PORT`, `connect END PORT`, `accept END PEER` | a port may be `any:p`, `localhost:p`, `nobody`, `elsewhere` or `malformed` |
//! | `pair NEAR FAR PORT` | connects NEAR, and accepts it as FAR |
//! | `send END BYTES`, `receive END BYTES [whole]`, `shutdown END`, `close END [flush]` | |
//! | `receive END BYTES there` | so many at most, into a buffer that the kernel lends once something is there |
//! | `drain END [BYTES there]` | receives until the end or an error: how many bytes in all, and which |
//! | `create`, `open`, `open-read FILE NAME`, `close-file FILE` | a file's own name in the script, then its path |
//! | `write FILE BLOCK BLOCKS`, `read FILE BLOCK BLOCKS` | every write has its own letter |
//! | `mkdir`, `remove`, `space NAME`, `rename FROM TO`, `write-file NAME BYTES` | `.` is the script's directory |
//! | `post WHOM`, `end other` | a letter to `self`, to the `other` machine, which sends it back, or to `nobody`; the other is finished |
//! | `run LANE [panic]`, `clock` | work, which may panic; the clock on the wall |
//! | `fill FILE` | writes until the disk is full: a small one |
//! | `break-disk` | every later write fails |
//! | `settle`, `pause MS` | waits until everything is answered or nothing moves; so long |
//! | `look` | at last: all that a process that starts would find |

use std::fmt;

#[derive(Clone, Debug)]
pub struct Script {
    pub title: String,
    pub lines: Vec<Line>,
}

#[derive(Clone, Debug)]
pub struct Line {
    pub words: Vec<String>,
    /// The next line does not wait for its completion.
    pub outstanding: bool,
    /// What may come of it; none for what has no completion.
    pub expected: Vec<String>,
}

impl Script {
    pub fn read_all(text: &str) -> Vec<Script> {
        let mut scripts: Vec<Script> = Vec::new();
        for line in text.lines() {
            if let Some(title) = line.strip_prefix("## ") {
                scripts.push(Script {
                    title: title.to_string(),
                    lines: Vec::new(),
                });
            } else if !line.trim().is_empty() && !line.starts_with('#') {
                let script = scripts.last_mut().expect("a title comes first");
                script.lines.push(Line::read(line));
            }
        }
        scripts
    }

    /// Whether it needs a small disk that can be filled.
    pub fn fills_the_disk(&self) -> bool {
        self.lines.iter().any(|line| line.word(0) == "fill")
    }

    /// Whether there is another machine in the process.
    pub fn has_other(&self) -> bool {
        self.lines.iter().any(|line| line.word(1) == "other")
    }

    /// After how many durable writes the disk breaks, if it does.
    pub fn breaks_after(&self) -> Option<u64> {
        let at = self.lines.iter().position(|l| l.word(0) == "break-disk")?;
        let writes = self.lines[..at].iter().filter(|l| l.word(0) == "write");
        Some(writes.count() as u64)
    }

    /// The ports it names.
    pub fn ports(&self) -> Vec<String> {
        let listens = self.lines.iter().filter(|l| l.word(0) == "listen");
        let plain = listens.map(|l| l.word(1)).filter(|p| p.len() == 1);
        let mut ports: Vec<String> = plain.map(str::to_string).collect();
        ports.dedup();
        ports
    }
}

impl Line {
    pub fn read(line: &str) -> Line {
        let (op, expected) = match line.split_once("->") {
            Some((op, expected)) => (op, expected),
            None => (line, ""),
        };
        let op = op.trim();
        let (outstanding, op) = match op.strip_prefix("& ") {
            Some(op) => (true, op),
            None => (false, op),
        };
        let expected = expected.split('|').map(str::trim);
        Line {
            words: op.split_whitespace().map(str::to_string).collect(),
            outstanding,
            expected: expected
                .filter(|e| !e.is_empty())
                .map(str::to_string)
                .collect(),
        }
    }

    /// Empty if there are not so many.
    pub fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }

    /// `much` is for the kernel to say.
    pub fn number(&self, at: usize, much: usize) -> usize {
        let word = self.word(at);
        if word == "much" {
            return much;
        }
        word.parse()
            .unwrap_or_else(|_| panic!("a number is missing: {self}"))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.outstanding { "& " } else { "" };
        write!(f, "{mark}{}", self.words.join(" "))
    }
}
