//! Tokens of the node's own disk ops; a log's id never reaches them.

use ops::Token;

const OF_NODE: u64 = 0xFFFF_FFFF << 32;
pub const SPACE: Token = Token(OF_NODE | 1);
pub const MANIFEST: Token = Token(OF_NODE | 2);
pub const PEERS: Token = Token(OF_NODE | 3);
pub const REMOVED: Token = Token(OF_NODE | 4);
pub const MET: Token = Token(OF_NODE | 5);
pub const REFUSED: Token = Token(OF_NODE | 6);
pub const ENDS: Token = Token(OF_NODE | 7);

pub fn is_of_node(token: Token) -> bool {
    token.0 & OF_NODE == OF_NODE
}
