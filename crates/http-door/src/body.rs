//! Bodies of answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::mpsc::Receiver;

use crate::flow::Flow;

/// Bytes that are there, or that come.
#[derive(Debug)]
pub enum Body {
    Whole(Bytes),
    Live(Receiver<Bytes>),
    /// Bytes that the connection itself asks a program for.
    Flow(Flow),
    /// So many bytes, which come. ‡ One that ends before is broken off: nobody takes a part for the whole.
    Sized {
        left: u64,
        pieces: Receiver<Bytes>,
    },
}

impl Body {
    pub fn empty() -> Body {
        Body::Whole(Bytes::new())
    }
}

impl<T: Into<Bytes>> From<T> for Body {
    fn from(bytes: T) -> Body {
        Body::Whole(bytes.into())
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut *self {
            Body::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Body::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Body::Live(receiver) => receiver
                .poll_recv(context)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Body::Flow(flow) => flow
                .poll_next(context)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            Body::Sized { left: 0, .. } => Poll::Ready(None),
            Body::Sized { left, pieces } => pieces.poll_recv(context).map(|piece| {
                let piece = piece.filter(|piece| piece.len() as u64 <= *left);
                let Some(piece) = piece else {
                    return Some(Err(io::ErrorKind::UnexpectedEof.into()));
                };
                *left -= piece.len() as u64;
                Some(Ok(Frame::data(piece)))
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_empty(),
            Body::Live(_) | Body::Flow(_) => false,
            Body::Sized { left, .. } => *left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Live(_) | Body::Flow(_) => SizeHint::default(),
            Body::Sized { left, .. } => SizeHint::with_exact(*left),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tokio::sync::mpsc;

    use super::*;

    /// What arrives of a body that is said to be so long, and whether it ends well.
    async fn arrives(length: u64, pieces: &[&'static [u8]]) -> (Vec<u8>, bool) {
        let (send, pieces_come) = mpsc::channel(8);
        for piece in pieces {
            send.send(Bytes::from_static(piece)).await.expect("room");
        }
        drop(send);
        let mut body = Body::Sized {
            left: length,
            pieces: pieces_come,
        };
        let mut arrived = Vec::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => arrived.extend_from_slice(frame.data_ref().expect("bytes")),
                Err(_) => return (arrived, false),
            }
        }
        (arrived, true)
    }

    #[test]
    fn a_body_of_a_known_length_is_whole_or_breaks_off() {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(async {
            assert_eq!(
                arrives(5, &[b"abc", b"de"]).await,
                (b"abcde".to_vec(), true)
            );
            assert_eq!(arrives(5, &[b"abc"]).await, (b"abc".to_vec(), false));
            assert_eq!(arrives(2, &[b"abc"]).await, (Vec::new(), false));
            assert_eq!(arrives(0, &[]).await, (Vec::new(), true));
        });
    }
}
