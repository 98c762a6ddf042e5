//! Redis' commands, executed on rows.
//!
//! ```text
//!  words ─▶ execute(rows, context) ─▶ reply, writes         rows it needs and nobody has here ─▶ Stop, and anew
//! ```
//!
//! **Pure.** A command sees rows, the log's time and drawn numbers, all of them lent by [`Rows`]; it knows no clock, no chance and no
//! connection. What it writes are puts, deletes and forgotten prefixes, so whoever applies them need not understand them. It may be
//! executed several times until all rows are here, and does the same each time.
//!
//! **A key's slot has a [`Life`]**, and all rows begin with it. Numbers are big-endian, so that rows stand in their order.
//!
//! ```text
//! life = slot u16 │ epoch u32 │ round u64
//!
//! life 'H'                            → form, keys u64, next id u64, sessions u64 if there are any            the slot
//! life 'M' hash48(key) key            → form, type, deadline u64, 0, value      all ones: no deadline         a key, its value inline
//!                                     → form, type, deadline u64, 1, id u64, count u64, first u64             … its value in rows
//! life 'E' id u64 hash48(name) name   → value; empty in a set; the score's bits in a sorted set               a field, a member
//! life 'E' id u64 index u64           → item                                    first, first + 1, …           of a list
//! life 'Z' id u64 order(score) member → the score's bits                        order: u64, sorts as scores   of a sorted set
//! life 'S' id u64 number u32          → 4 KiB of bytes, the last one fewer                                    of a long string
//! life 'O' session u64                → form, sequence u64, used u64, the reply in RESP                        what a session did last
//! life 'U' used u64 session u64       → nothing                                 milliseconds since 1970       in which order sessions go
//! life 'W' ticket u64                 → form, id u64, bytes u64, deadline u64                                  a long string that no key has yet
//! life 'X' deadline u64 key           → nothing                                 milliseconds since 1970       until when a key is there
//! ```
//!
//! *form* is 1; another one is another program's, and what would read it fails. *type* is `s` string, `l` list, `h` hash, `e` set, `z`
//! sorted set. A value inline is a string's bytes up to 64 KiB, or what is small of the others: each item behind its length in 7-bit groups; of
//! a hash field and value in turns, of a sorted set the score's bits before each member.
//!
//! ‡ An id never comes back in a slot, over all its lives: below an id that was forgotten nothing is ever written. So DEL of
//! anything is a forgotten prefix and costs the same.
//!
//! ‡ A key is expired once the log's time has reached its deadline, for everybody: who reads takes it for absent, who writes takes it away first.
//! A reply that came to pass so says it ([`Executed::saw_expired`]).
//!
//! Where it differs from Redis 7.0.15, in cluster mode:
//!
//! - A key is expired at its deadline, there a millisecond later.
//! - A key, and a field or member of what lies in rows, has at most 32,000 bytes: it is a part of a row's key.
//! - A command that would read more than 64 MiB into its reply is refused.
//! - A score is never the negative zero; there it is in large sorted sets.
//! - Numbers in base 16 are not read.
//! - Of a large hash, set or sorted set, members that are drawn are about as likely as each other, and not exactly.
//! - OBJECT answers as if a value were kept there: no shared numbers, nothing idle.
//! - What has no order, has another one.
//!
//! | module | what it does |
//! |---|---|
//! | `execute` | one command: its slot, its reply, what it changed |
//! | `spec`, `table` | which commands there are, and which of their words are keys |
//! | `commands/` | what they do: a module for each type |
//! | `rows/` | the rows above: keys with deadlines (`db`), members, items, sorted members, strings |
//! | `slot`, `slots` | the slot of a key; what is done with a slot as a whole |
//! | `number`, `glob`, `args`, `fail` | numbers and patterns as Redis reads them; words; why a command has no result |

#![forbid(unsafe_code)]

mod args;
mod commands;
mod context;
mod execute;
mod fail;
mod glob;
mod number;
mod rows;
mod slot;
mod slots;
mod spec;
mod table;

pub use commands::{SCANNED_SLOTS_MAX, SESSIONS_MAX, UNUSED_MS, scans_from};
pub use context::{Bounds, Context};
pub use execute::{Executed, check_words, execute};
pub use glob::{Pattern, fits};
pub use rows::{Page, Prepared, Row, Rows};
pub use slot::{Life, SLOTS, checksum, slot_of};
pub use slots::{Halt, count_keys, first_rows, new_id, put_piece, some_keys, take_expired};
pub use spec::{CommandSpec, NoKeys, commands, has_brief_reply, keys_of, lookup, prepares};
