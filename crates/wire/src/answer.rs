//! `ok`, and JSON behind it.

use serde::Serialize;

/// A whole line.
pub fn ok(value: &impl Serialize) -> String {
    match serde_json::to_string(value) {
        Ok(json) => format!("ok {json}\n"),
        Err(e) => format!("error bad-request: {e}\n"),
    }
}
