//! From the pair to the other side: read into the places of records, sealed there, and sent together.

use std::io::{self, IoSliceMut};

use tokio::io::AsyncWriteExt;
use tokio::net::{tcp, unix};

use super::Ended;
use crate::outgoing::{Outgoing, RECORDS};
use crate::pair::Ends;

pub struct Outward<'a> {
    pub from: unix::ReadHalf<'a>,
    pub to: tcp::WriteHalf<'a>,
    pub records: Outgoing,
    pub ends: &'a Ends,
    /// So much is read at once. It grows with what comes.
    pub room: usize,
}

impl Outward<'_> {
    pub async fn run(mut self) -> Ended {
        loop {
            let count = match self.read().await {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Ended::Reset,
            };
            if count == 0 && self.ends.is_reset() {
                return Ended::Reset;
            }
            let sent = match count {
                0 => self.end().await,
                _ => self.send(count).await,
            };
            match (count, sent) {
                (0, Ok(())) => return Ended::Whole,
                (_, Ok(())) => tokio::task::coop::consume_budget().await,
                (_, Err(_)) => return Ended::Broke,
            }
        }
    }

    /// Reads into the places for text, one after the other.
    async fn read(&mut self) -> io::Result<usize> {
        loop {
            self.from.readable().await?;
            self.records.make_places(self.room);
            let mut places = self.records.places();
            let mut places: [IoSliceMut; RECORDS] =
                std::array::from_fn(|_| IoSliceMut::new(places.next().unwrap_or_default()));
            match self.from.try_read_vectored(&mut places) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(count) => {
                    if count >= self.room {
                        self.room *= 4;
                    }
                    return Ok(count);
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn send(&mut self, count: usize) -> io::Result<()> {
        let sealed = self.records.seal(count)?;
        self.to.write_all(self.records.sealed(sealed)).await
    }

    async fn end(&mut self) -> io::Result<()> {
        let sealed = self.records.seal_end()?;
        self.to.write_all(self.records.sealed(sealed)).await?;
        self.to.shutdown().await
    }
}
