//! An answer that comes as it is asked for: a program gives its bytes, piece by piece, whenever the connection has room for one.
//!
//! ‡ It runs on the task of its connection. A crowd of live readers has one task each, which is woken once for what it has to write.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::body::Body;

/// Pieces that wait for a slow reader, where another task writes.
const PIECES_MAX: usize = 2;
/// There, a reader that takes nothing for so long is given up.
const STUCK_AFTER: Duration = Duration::from_secs(30);

/// Where a program puts its next piece.
#[derive(Clone, Default)]
pub struct Slot(Arc<Mutex<Option<Bytes>>>);

impl Slot {
    fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts it there, as soon as the piece before is taken. ‡ Nobody is woken for that: whoever takes a piece runs the program again.
    pub async fn put(&self, bytes: Bytes) {
        let mut bytes = Some(bytes);
        poll_fn(|_| {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.is_some() {
                return Poll::Pending;
            }
            *slot = bytes.take();
            Poll::Ready(())
        })
        .await;
    }
}

/// The pieces that a program gives.
pub struct Flow {
    /// `None`: it has ended.
    program: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    slot: Slot,
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a flow")
    }
}

impl Flow {
    /// The flow of what the program puts into this slot.
    pub fn new(slot: Slot, program: impl Future<Output = ()> + Send + 'static) -> Flow {
        let program: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(program);
        Flow {
            program: Some(program),
            slot,
        }
    }

    /// The next piece; `None` behind the last one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(piece) = self.slot.take() {
            return Poll::Ready(Some(piece));
        }
        let Some(program) = &mut self.program else {
            return Poll::Ready(None);
        };
        let is_over = program.as_mut().poll(context).is_ready();
        if is_over {
            self.program = None;
        }
        match self.slot.take() {
            Some(piece) => Poll::Ready(Some(piece)),
            None if is_over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// The same as a body that a task of its own fills. ‡ A stream of HTTP/2 whose window is shut is not asked for its next piece, so nothing
    /// in it would see the time: this task does.
    pub fn pumped(mut self) -> Body {
        let (out, body) = mpsc::channel(PIECES_MAX);
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    () = out.closed() => return,
                    next = poll_fn(|context| self.poll_next(context)) => next,
                };
                let Some(piece) = next else { return };
                if !matches!(timeout(STUCK_AFTER, out.send(piece)).await, Ok(Ok(()))) {
                    return;
                }
            }
        });
        Body::Live(body)
    }
}

#[cfg(test)]
mod tests {
    use tokio::task::yield_now;

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        runtime.expect("a runtime").block_on(future)
    }

    /// Two pieces at once, one after something else was waited for, and one as the last word.
    fn flow() -> Flow {
        let slot = Slot::default();
        Flow::new(slot.clone(), async move {
            slot.put(Bytes::from_static(b"a")).await;
            slot.put(Bytes::from_static(b"b")).await;
            yield_now().await;
            slot.put(Bytes::from_static(b"c")).await;
        })
    }

    #[test]
    fn pieces_come_one_after_the_other_and_then_it_is_over() {
        run(async {
            let mut flow = flow();
            let mut came = Vec::new();
            while let Some(piece) = poll_fn(|context| flow.poll_next(context)).await {
                came.push(piece);
            }
            assert_eq!(came, [&b"a"[..], b"b", b"c"]);
            assert_eq!(poll_fn(|context| flow.poll_next(context)).await, None);
        });
    }

    #[test]
    fn a_task_of_its_own_gives_the_same() {
        run(async {
            let Body::Live(mut body) = flow().pumped() else {
                panic!("it is live");
            };
            let mut came = Vec::new();
            while let Some(piece) = body.recv().await {
                came.push(piece);
            }
            assert_eq!(came, [&b"a"[..], b"b", b"c"]);
        });
    }

    #[test]
    fn a_program_whose_reader_is_gone_is_dropped() {
        run(async {
            let held = Arc::new(());
            let holds = held.clone();
            let flow = Flow::new(Slot::default(), async move {
                let _holds = holds;
                std::future::pending::<()>().await;
            });
            drop(flow.pumped());
            while Arc::strong_count(&held) > 1 {
                yield_now().await;
            }
        });
    }
}
