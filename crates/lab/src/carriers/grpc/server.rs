//! The server of one node: it hears the calls and streams of the others.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::transport::{Server, server::TcpIncoming};
use tonic::{Request, Response, Status, Streaming};

use super::Side;
use super::codec::{Message, Plain};
use super::stream;

/// The service that is called. The answer to a send is ignored.
pub const SEND: &str = "/logberg.Lab/Send";
pub const CONNECTION: &str = "/logberg.Lab/Connection";

/// Until the process ends.
pub async fn serve(incoming: TcpIncoming, side: Arc<Side>) {
    let calls = Calls { side };
    if let Err(error) = Server::builder().serve_with_incoming(calls, incoming).await {
        tracing::error!(%error, "nobody hears the calls of other nodes any more");
    }
}

#[derive(Clone)]
struct Calls {
    side: Arc<Side>,
}

impl Service<http::Request<Body>> for Calls {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let side = self.side.clone();
        // Whatever a node gives to one send is one message.
        let grpc = || Grpc::new(Plain).max_decoding_message_size(usize::MAX);
        Box::pin(async move {
            Ok(match request.uri().path() {
                SEND => grpc().unary(Sends(side), request).await,
                CONNECTION => grpc().streaming(Connections(side), request).await,
                _ => Status::unimplemented("there is no such call").into_http(),
            })
        })
    }
}

struct Sends(Arc<Side>);

impl UnaryService<Message> for Sends {
    type Response = Message;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Message>, Status>> + Send>>;

    fn call(&mut self, request: Request<Message>) -> Self::Future {
        let side = self.0.clone();
        Box::pin(async move {
            let answer = side.incoming.hear(&side, request.into_inner()).await?;
            Ok(Response::new(answer))
        })
    }
}

struct Connections(Arc<Side>);

impl StreamingService<Message> for Connections {
    type Response = Message;
    type ResponseStream = stream::Outgoing;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<Message>>) -> Self::Future {
        let side = self.0.clone();
        Box::pin(async move { stream::accept(&side, request.into_inner()).await })
    }
}
