//! From the other side to the pair: read as many records as come, opened where they lie, and their text written together.

use std::io::{self, IoSlice};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{tcp, unix};

use super::Ended;
use crate::error::reason;
use crate::incoming::{Incoming, Opened};
use crate::pair::Ends;

pub struct Inward<'a> {
    pub from: tcp::ReadHalf<'a>,
    pub to: unix::WriteHalf<'a>,
    pub records: Incoming,
    pub ends: &'a Ends,
    /// Somebody reads the near end.
    pub is_read: bool,
}

impl Inward<'_> {
    pub async fn run(mut self) -> Ended {
        loop {
            let opened = self.records.open();
            self.write().await;
            match opened {
                Ok(Opened::All) => {}
                Ok(Opened::Some) => continue,
                Ok(Opened::End) => {
                    self.ends.say_whole();
                    let _ = self.to.shutdown().await;
                    return match self.is_read {
                        true => Ended::Whole,
                        false => Ended::Unread,
                    };
                }
                Err(error) => {
                    tracing::debug!(%error, "a TLS connection broke");
                    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
                    if let Some(rustls::Error::AlertReceived(alert)) = inner
                        && let Some(reason) = reason(*alert)
                    {
                        self.ends.say_reason(reason);
                    }
                    return Ended::Broke;
                }
            }
            match self.from.read(self.records.room()).await {
                // ‡ Whoever cuts a connection can do so without a key: an end is one only by its own record.
                Ok(0) => return Ended::Broke,
                Ok(count) => {
                    self.records.on_read(count);
                    tokio::task::coop::consume_budget().await;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Ended::Broke,
            }
        }
    }

    /// Writes what was opened.
    async fn write(&mut self) {
        let mut texts: Vec<IoSlice> = self.records.texts().map(IoSlice::new).collect();
        let mut left = texts.as_mut_slice();
        while self.is_read && !left.is_empty() {
            match self.to.write_vectored(left).await {
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Nobody wants it: it is thrown away, so that the other side reads what it was sent.
                Err(_) => self.is_read = false,
            }
        }
        drop(texts);
        self.records.take_all();
    }
}
