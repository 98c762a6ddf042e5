//! The acknowledged bytes, and whether they can be read back.

use std::io::Read;

use anyhow::{Context, Result};
use client::{Client, ReadOptions, StreamName};

use super::content;

/// This much of this stream was acknowledged; it was written as [`content`] says.
pub struct Promise {
    pub stream: StreamName,
    pub acknowledged: u64,
}

/// The number of promised bytes that are not there, or are others.
pub fn lost_bytes(client: &Client, promise: &Promise) -> Result<u64> {
    let options = ReadOptions {
        stream: Some(promise.stream),
        ..ReadOptions::default()
    };
    let mut reader = client.read("main", options).context("cannot read back")?;
    let mut buffer = vec![0; 1 << 20];
    let mut position = 0;
    while position < promise.acknowledged {
        let count = reader.read(&mut buffer).context("cannot read back")?;
        if let Some(at) = content::first_difference(position, &buffer[..count]) {
            eprintln!(
                "stream {} holds another byte at {at} than was appended",
                promise.stream
            );
            return Ok(promise.acknowledged - at);
        }
        if count == 0 {
            eprintln!(
                "stream {} ends at {position}, but {} were acknowledged",
                promise.stream, promise.acknowledged
            );
            break;
        }
        position += count as u64;
    }
    Ok(promise.acknowledged.saturating_sub(position))
}
