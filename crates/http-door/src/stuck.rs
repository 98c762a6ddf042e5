//! A connection whose other side takes nothing is given up.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use letters::HttpFigures;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Writes fail once one of them has not moved for so long.
pub struct Watched<S> {
    stream: S,
    after: Duration,
    /// Since a write waits.
    waits: Option<Pin<Box<Sleep>>>,
    /// Its bytes are counted there.
    figures: Arc<HttpFigures>,
}

impl<S> Watched<S> {
    pub fn new(stream: S, after: Duration, figures: Arc<HttpFigures>) -> Watched<S> {
        Watched {
            stream,
            after,
            waits: None,
            figures,
        }
    }

    fn count_sent(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(count)) = written {
            self.figures.sent_bytes.add(*count as u64);
        }
    }

    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let after = self.after;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(after)));
        // The clock may have been set again by another write's wait.
        debug_assert!(waits.deadline() <= Instant::now() + after);
        match waits.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let count = buffer.filled().len().saturating_sub(before);
        if count > 0 {
            self.figures.received_bytes.add(count as u64);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.count_sent(&written);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.count_sent(&written);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A socket has nothing to flush, and a write may be waiting.
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn a_write_that_does_not_move_fails_and_one_that_does_goes_on() {
        run(async {
            let (ours, theirs) = duplex(8);
            let mut ours = Watched::new(ours, Duration::from_millis(50), Arc::default());
            ours.write_all(b"12345678").await.expect("there is room");
            let stuck = ours.write_all(b"9").await;
            assert_eq!(
                stuck.map_err(|error| error.kind()),
                Err(io::ErrorKind::TimedOut)
            );
            assert_eq!(ours.figures.sent_bytes.get(), 8);
            drop(theirs);
        });
    }
}
