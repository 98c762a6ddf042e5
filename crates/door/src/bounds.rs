//! How much of everything a door holds.

use crate::client::UnderWay;

/// The bounds of a door.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The commands that a client may have under way while nobody else asks for anything …
    pub alone: UnderWay,
    /// … and beside other clients, each of whom waits for what is before its own.
    pub beside: UnderWay,
    /// So many bytes are received of a client whose next request waits: it is heard then that it left.
    pub ahead_bytes: usize,
    /// The commands of a group that are under way. ‡ All of them, and those of one turn more, are fewer than a group takes.
    pub group_commands_max: usize,
    /// The bytes of those that are not small. ‡ With pieces of large values, and all small ones, they are fewer than a group takes.
    pub group_bytes_max: usize,
    /// A command of so many bytes or fewer needs no room in its group but for one more command.
    pub small_command_bytes: usize,
    /// Requests of fewer bytes claim nothing. It is more than what is received at a time: the first piece of a large request claims nothing by itself.
    pub claim_bytes_min: usize,
    /// A claim of more bytes is a large one.
    pub small_claim_bytes: usize,
    /// The bytes of all small claims that are granted, and those of all large ones.
    pub claims_bytes_max: [usize; 2],
    /// While others wait for such room, whoever has some sends so many bytes each second, or has to go.
    pub bytes_per_second_min: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            alone: UnderWay {
                commands: 1_024,
                bytes: 4 << 20,
            },
            beside: UnderWay {
                commands: 64,
                bytes: 256 << 10,
            },
            ahead_bytes: 4 << 10,
            group_commands_max: 8_192,
            group_bytes_max: 4 << 20,
            small_command_bytes: 4 << 10,
            claim_bytes_min: 160 << 10,
            small_claim_bytes: 1 << 20,
            claims_bytes_max: [48 << 20, 160 << 20],
            bytes_per_second_min: 128 << 10,
        }
    }
}
