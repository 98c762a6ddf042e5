//! A request, and its answer.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hyper::body::{Body as _, Incoming};
use hyper::header::{EXPECT, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};
use letters::{HttpFigures, HttpMethod, Refusals, RightsBoard, Shown};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::answers::Answers;
use crate::body::Body;
use crate::bounds::Bounds;
use crate::fault::Fault;
use crate::guard;
use crate::log::Logs;
use crate::openapi;
use crate::query::{self, List, LogQuery, Query};
use crate::quota::{self, Quota, Quotas};
use crate::rights::{Asker, NOT_GOOD};
use crate::route::Route;
use crate::space::{Handle, LimitsHere};
use crate::tails::Tails;
use crate::write::{BODY_PIECES_MAX, Sent, pass_over};

/// The things that all requests share.
pub struct Door {
    /// A space of this node's, by which others are found.
    any_space: Handle,
    pub logs: Arc<dyn Logs>,
    pub tails: Tails,
    pub bounds: Bounds,
    pub figures: Arc<HttpFigures>,
    /// Other machines may reach it, by its owner's word.
    pub is_open: bool,
    /// A mesh or a proxy stands before it.
    pub is_behind_a_proxy: bool,
    pub requests: Arc<Semaphore>,
    pub live: Arc<Semaphore>,
    pub log_reads: Arc<Semaphore>,
    pub log_writes: Arc<Semaphore>,
    /// Pieces of bodies.
    pub bodies: Semaphore,
    pub answers: Answers,
    /// The limits of spaces, and what was asked for.
    pub quotas: Quotas,
    /// The node stops.
    pub ends: watch::Receiver<bool>,
    /// The node's word on who may do what; nobody is asked for anything where it tells nothing.
    pub board: Option<Arc<RightsBoard>>,
    /// Moves when it tells something else, and each second while tokens are asked for.
    pub rights_move: watch::Receiver<u64>,
    /// The refusals of the last second.
    pub refusals: Mutex<Refusals>,
    pub began: Instant,
}

/// A live read, which is counted as long as this is there.
pub struct LivePermit {
    _permit: OwnedSemaphorePermit,
    figures: Arc<HttpFigures>,
}

impl Drop for LivePermit {
    fn drop(&mut self) {
        self.figures.live_readers.take(1);
    }
}

/// How the address begins by which a request came.
#[derive(Clone, Copy, Debug)]
pub struct Scheme(pub &'static str);

/// The connection by which a request came.
#[derive(Clone, Debug)]
pub struct Whence {
    pub from: SocketAddr,
    pub scheme: Scheme,
    /// The certificate of a client, if it showed one.
    pub by_handshake: Shown,
}

impl Scheme {
    fn is_secured(self) -> bool {
        self.0 == "https"
    }
}

impl Door {
    pub fn new(
        (any_space, logs): (Handle, Arc<dyn Logs>),
        tails: Tails,
        (bounds, figures): (Bounds, Arc<HttpFigures>),
        (is_open, is_behind_a_proxy): (bool, bool),
        ends: watch::Receiver<bool>,
        (board, rights_move): (Option<Arc<RightsBoard>>, watch::Receiver<u64>),
    ) -> Door {
        Door {
            board,
            rights_move,
            any_space,
            logs,
            tails,
            is_open,
            is_behind_a_proxy,
            requests: Arc::new(Semaphore::new(bounds.requests_max)),
            live: Arc::new(Semaphore::new(bounds.live_max)),
            log_reads: Arc::new(Semaphore::new(bounds.log_reads_max)),
            log_writes: Arc::new(Semaphore::new(bounds.log_writes_max)),
            bodies: Semaphore::new(BODY_PIECES_MAX),
            answers: Answers::default(),
            quotas: Quotas::default(),
            bounds,
            figures,
            ends,
            refusals: Mutex::default(),
            began: Instant::now(),
        }
    }

    /// The space of this name.
    pub fn space(&self, name: &str) -> Handle {
        self.any_space.named(name)
    }

    /// The limits of a space. ‡ They are in force for the first request, too.
    async fn quota(&self, space: &str) -> Arc<Quota> {
        if let Some(quota) = self.quotas.get(space) {
            return quota;
        }
        if let LimitsHere::Are(limits) = self.space(space).limits_here().await {
            self.quotas.set(space, limits);
        }
        self.quotas.known(space)
    }

    /// Errors: as many live reads as there may be are under way.
    pub fn begin_live(&self) -> Result<LivePermit, Fault> {
        let permit = self.live.clone().try_acquire_owned();
        let full = |_| Fault::not_now("this node serves as many live reads as it may");
        let permit = permit.map_err(full)?;
        self.figures.live_readers.add(1);
        Ok(LivePermit {
            _permit: permit,
            figures: self.figures.clone(),
        })
    }

    /// Answers a request, whatever it is.
    pub async fn answer(
        self: Arc<Door>,
        request: Request<Incoming>,
        whence: Whence,
    ) -> Response<Body> {
        let began = Instant::now();
        let method = HttpMethod::of(request.method().as_str());
        // ‡ What waits for bytes that may never come says nothing of the door.
        let waits = query::waits(request.uri().query().unwrap_or_default());
        let figures = self.figures.clone();
        let is_h2 = request.version() == Version::HTTP_2;
        let response = self.answered(request, whence).await;
        let response = response.map(|body| match body {
            Body::Flow(flow) if is_h2 => flow.pumped(),
            body => body,
        });
        let took = (!waits).then(|| began.elapsed());
        figures.count(method, response.status().as_u16(), took);
        response
    }

    async fn answered(
        self: Arc<Door>,
        request: Request<Incoming>,
        whence: Whence,
    ) -> Response<Body> {
        let figures = self.figures.clone();
        let origin = request.headers().get(ORIGIN).cloned();
        let is_head = request.method() == Method::HEAD;
        // ‡ Without tokens that proxy would lend everybody this node's own door.
        let is_open = self.is_open || (self.is_behind_a_proxy && self.asks_for_tokens());
        let how = (is_open, whence.scheme.is_secured());
        let checked = guard::check(request.uri(), request.headers(), how);
        // Only who may see an answer is told so.
        let origin = origin.filter(|_| checked.is_ok());
        let answered = match checked {
            Ok(()) => self.admitted(request, whence).await,
            // ‡ Whoever asks what may be asked is told, and no origin is named: a browser goes no further.
            Err(_) if request.method() == Method::OPTIONS => Ok(guard::preflight()),
            Err(fault) => Err(fault),
        };
        let mut response = answered.unwrap_or_else(|fault| {
            figures.count_refused(fault.code);
            fault.into_response()
        });
        if is_head && !matches!(response.body(), Body::Whole(bytes) if bytes.is_empty()) {
            *response.body_mut() = Body::empty();
        }
        guard::seal(&mut response, origin);
        response
    }

    async fn admitted(
        self: Arc<Door>,
        request: Request<Incoming>,
        whence: Whence,
    ) -> Result<Response<Body>, Fault> {
        let full = |_| Fault::not_now("this node answers as many requests as it may");
        let _permit = self.requests.clone().try_acquire_owned().map_err(full)?;
        let (from, Scheme(scheme)) = (whence.from, whence.scheme);
        let (head, body) = request.into_parts();
        let route = Route::of(&head.method, head.uri.path())?;
        let what = || format!("{} {}", head.method, head.uri.path());
        let query = head.uri.query().unwrap_or_default();
        let asker = self.asker(&head.headers, (&route, query), whence);
        let asker = asker.inspect_err(|fault| self.tell_refused(NOT_GOOD, from, &what(), fault))?;
        let is_filled = !body.is_end_stream();
        let judged = self.judge_route(&asker, &route, &head.headers, is_filled);
        // A list has what its asker may read.
        let is_part = matches!(route, Route::List(_)) && self.is_somebody(&asker);
        match judged {
            Err(_) if is_part => {}
            Err(fault) => {
                self.tell_refused_of(&asker, &what(), &fault);
                return Err(fault);
            }
            Ok(()) => {}
        }
        let quota = match quota::space_of(&route) {
            Some(space) => Some(self.quota(space).await),
            None => None,
        };
        if let Some(Err(fault)) = quota.as_ref().map(|quota| quota.take(&asker)) {
            // He sends his body all the same, and hears why nobody wants it; unless he waits to be told.
            if is_filled && !head.headers.contains_key(EXPECT) {
                tokio::spawn(pass_over(body));
            }
            return Err(fault);
        }
        let teller = asker.clone();
        let mut answered = self.clone().routed(route, head, body, asker, scheme).await;
        if let Ok(response) = &mut answered {
            teller.keep_private(response.headers_mut());
        }
        if let (Some(quota), Ok(Body::Whole(bytes))) =
            (quota, answered.as_ref().map(Response::body))
        {
            quota.charge(&teller, bytes.len());
        }
        answered
    }

    async fn routed(
        self: Arc<Door>,
        route: Route,
        head: Parts,
        body: Incoming,
        asker: Asker,
        scheme: &'static str,
    ) -> Result<Response<Body>, Fault> {
        let query = head.uri.query().unwrap_or_default();
        let sent = |body| Sent {
            body,
            asker: &asker,
            route: &route,
        };
        match route.clone() {
            Route::Create(name) => {
                let host = guard::host(&head.uri, &head.headers).unwrap_or_default();
                let address = format!("{scheme}://{host}{}", head.uri.path());
                self.create(name, &head.headers, sent(body), &address).await
            }
            Route::Append(name) => self.append(name, &head.headers, sent(body)).await,
            Route::Read(name) => {
                let query = Query::parse(query)?;
                self.read(name, &query, &head.headers, asker).await
            }
            Route::Stand(name) => self.stand(name).await,
            Route::Delete(name) => self.delete(name).await,
            Route::CreateLog(log) => {
                let host = guard::host(&head.uri, &head.headers).unwrap_or_default();
                let address = format!("{scheme}://{host}{}", head.uri.path());
                let asking = self.asking(log, &head.headers, &asker)?;
                self.create_log(asking, &head.headers, body, &address).await
            }
            Route::AppendLog(log) => {
                let asking = self.asking(log, &head.headers, &asker)?;
                self.append_log(asking, &head.headers, body).await
            }
            Route::ReadLog(log) => {
                let asking = self.asking(log, &head.headers, &asker)?;
                let query = LogQuery::parse(query)?;
                self.read_log(asking, query, &head.headers).await
            }
            Route::StandLog(log) => {
                let asking = self.asking(log, &head.headers, &asker)?;
                self.stand_log(asking, LogQuery::parse(query)?).await
            }
            Route::DeleteLog(log) => {
                let asking = self.asking(log, &head.headers, &asker)?;
                self.delete_log(asking).await
            }
            Route::List(space) => self.list(&space, &List::parse(query)?, &asker).await,
            Route::ShowLimits(space) => self.show_limits(&space).await,
            Route::SetLimits(space) => self.set_limits(&space, &head.headers, sent(body)).await,
            Route::Preflight => Ok(guard::preflight()),
            Route::Description => Ok(openapi::answer()),
            Route::Health => match *self.ends.borrow() {
                true => Err(Fault::not_now("this node is stopping")),
                false => Ok(Response::new(Body::from("ok\n"))),
            },
        }
    }
}
