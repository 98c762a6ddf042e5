//! Tokens at this door: who asks, and whether he may.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError};

use access::{Asked, Bearer, Principal, TicketText};
use hyper::header::{AUTHORIZATION, CACHE_CONTROL, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use letters::{No, Rights, Shown};
use ops::Time;

use crate::fault::Fault;
use crate::log::{Asking, Credential};
use crate::name::Name;
use crate::route::Route;
use crate::serve::{Door, Whence};
use crate::space::now_ms;

/// Whoever asks, and from where.
#[derive(Clone, Debug)]
pub struct Asker {
    pub shown: Shown,
    /// The name of the token or certificate that was shown, which stand in one list, or of the ticket, which has a slash; empty where none was. ‡ And where nothing is granted to that
    /// certificate: what belongs to a token of its name is not its owner's.
    pub name: String,
    pub from: SocketAddr,
}

/// Who shows a token that is not good. ‡ What he showed is told nowhere.
pub const NOT_GOOD: &str = "a token that is not good";
/// So much of an address is told.
const TOLD_BYTES_MAX: usize = 300;

/// The name of a ticket behind the question mark.
const TICKET: &str = "ticket";

/// Before a token, however it is written.
const BEARER: &str = "bearer ";

fn unauthenticated(why: &str) -> Fault {
    let remedy = "send a token or a ticket that is good: Authorization: Bearer TOKEN";
    let fault = Fault::new(401, "unauthenticated", why, remedy);
    fault.header(WWW_AUTHENTICATE, "Bearer")
}

/// The token or ticket in the headers of a request.
///
/// Errors: it shows something else. ‡ What that was is not told.
fn bearer(headers: &HeaderMap) -> Result<Option<Bearer>, Fault> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = all.next() else {
        return Ok(None);
    };
    let wrong = || unauthenticated("the header Authorization shows no token");
    let text = value.to_str().ok().filter(|_| all.next().is_none());
    let text = text.ok_or_else(wrong)?;
    let (scheme, rest) = text.split_at_checked(BEARER.len()).ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case(BEARER) {
        return Err(wrong());
    }
    rest.trim().parse().map(Some).map_err(|_| wrong())
}

/// A ticket behind the question mark, for what a browser asks for without headers of its own: EventSource. ‡ For reads of streams alone: an
/// address is written down in many places.
///
/// Errors: it is none, there are two of them, or something else is asked for.
fn of_query(route: &Route, query: &str) -> Result<Option<TicketText>, Fault> {
    let all = form_urlencoded::parse(query.as_bytes());
    let mut all = all.filter(|(name, _)| name == TICKET);
    let Some((_, value)) = all.next() else {
        return Ok(None);
    };
    if !matches!(route, Route::Read(_) | Route::Stand(_)) {
        return Err(unauthenticated(
            "a ticket behind the question mark is for reads of streams alone",
        ));
    }
    let ticket = TicketText::new(&value).filter(|_| all.next().is_none());
    let wrong = || unauthenticated("what stands behind ticket= is no ticket");
    ticket.map(Some).ok_or_else(wrong)
}

impl Asker {
    /// ‡ An answer to one who showed something is nobody else's: no cache that others use keeps it. And none keeps what was asked
    /// for by a ticket, which may stand in its address.
    pub fn keep_private(&self, headers: &mut HeaderMap) {
        let value = headers.get(CACHE_CONTROL).and_then(|v| v.to_str().ok());
        let Some(value) = value else {
            return;
        };
        let kept = match &self.shown {
            Shown::Nothing => return,
            Shown::Ticket(_) => "no-store".to_owned(),
            Shown::Token(..) | Shown::Certificate(..) => value.replacen("public", "private", 1),
        };
        if let Ok(kept) = HeaderValue::from_str(&kept) {
            headers.insert(CACHE_CONTROL, kept);
        }
    }
}

impl Door {
    fn rights(&self) -> Arc<Rights> {
        let told = self
            .board
            .as_ref()
            .map(|board| match board.is_old(linux::now()) {
                true => Arc::default(),
                false => board.now(),
            });
        // Where nobody tells anything nothing is asked for.
        told.unwrap_or_else(|| {
            let asks = letters::Asks::Nothing;
            Arc::new(Rights {
                asks,
                ..Rights::default()
            })
        })
    }

    /// Whether tokens are asked for, and that is known.
    pub fn asks_for_tokens(&self) -> bool {
        self.rights().asks == letters::Asks::Tokens
    }

    /// Whether nothing may be read here that asks nobody.
    pub fn is_cut_off(&self) -> bool {
        let rights = self.rights();
        rights.is_cut_off || rights.asks == letters::Asks::NotKnown
    }

    fn asks_nothing(&self) -> bool {
        let board = self.board.as_ref();
        board.is_none_or(|board| board.asks_nothing() && !board.is_old(linux::now()))
    }

    /// Whether a token that is good was shown.
    pub fn is_somebody(&self, asker: &Asker) -> bool {
        self.rights().grants(&asker.shown, now_ms()).is_some()
    }

    /// May he ask for that, with what stands in the request's headers?
    ///
    /// Errors: as those of [`Door::judge`], and of a fork whose source makes no sense.
    pub fn judge_route(
        &self,
        asker: &Asker,
        route: &Route,
        headers: &HeaderMap,
        is_filled: bool,
    ) -> Result<(), Fault> {
        if self.asks_nothing() {
            return Ok(());
        }
        let fork = match route {
            Route::Create(name) => crate::headers::fork(headers, &name.space)?,
            _ => None,
        };
        let source = fork.as_ref().map(|fork| &fork.source);
        self.judge(asker, &route.asked(is_filled, source))?;
        match route {
            // The bytes of a new log are an append.
            Route::CreateLog(log) if is_filled => self.judge(asker, &Asked::Append(log)),
            _ => Ok(()),
        }
    }

    /// A log, and what its nodes are shown: they judge it again.
    pub fn asking(&self, log: String, headers: &HeaderMap, asker: &Asker) -> Result<Asking, Fault> {
        let bearer = match self.asks_nothing() {
            true => None,
            false => bearer(headers)?,
        };
        let shown = match (bearer, &asker.shown) {
            (Some(Bearer::Token(token)), _) => Credential::Token(token),
            (Some(Bearer::Ticket(ticket)), _) => Credential::Ticket(ticket),
            (None, Shown::Certificate(name, until_ms)) => Credential::Certificate {
                name: name.as_str().to_owned(),
                until_ms: *until_ms,
            },
            (None, Shown::Nothing | Shown::Token(..) | Shown::Ticket(_)) => Credential::Nothing,
        };
        Ok(Asking { log, shown })
    }

    /// Whoever asks. Where nobody is asked for a token, nothing is looked at.
    pub fn asker(
        &self,
        headers: &HeaderMap,
        (route, query): (&Route, &str),
        whence: Whence,
    ) -> Result<Asker, Fault> {
        let from = whence.from;
        let shown = self.shown(headers, (route, query), whence.by_handshake)?;
        let is_granted = self.rights().grants(&shown, now_ms()).is_some();
        let name = match shown.principal() {
            Principal::Token(name) | Principal::Certificate(name) if is_granted => {
                name.as_str().to_owned()
            }
            Principal::Ticket(name) if is_granted => name,
            _ => String::new(),
        };
        Ok(Asker { shown, name, from })
    }

    /// A token is said on purpose, so it counts more than what the connection showed.
    fn shown(
        &self,
        headers: &HeaderMap,
        (route, query): (&Route, &str),
        by_handshake: Shown,
    ) -> Result<Shown, Fault> {
        if self.asks_nothing() {
            return Ok(Shown::Nothing);
        }
        let rights = self.rights();
        let of_query = of_query(route, query)?.map(Bearer::Ticket);
        let bearer = match (bearer(headers)?, of_query) {
            (Some(_), Some(_)) => {
                return Err(unauthenticated(
                    "the request shows two credentials, in Authorization and behind ticket=",
                ));
            }
            (one, other) => one.or(other),
        };
        let Some(bearer) = bearer else {
            // ‡ A certificate to which nothing is granted is nobody, also where a token has its name: what belongs to that name is not his.
            let is_granted = rights.grants(&by_handshake, now_ms()).is_some();
            return Ok(if is_granted {
                by_handshake
            } else {
                Shown::Nothing
            });
        };
        if rights.asks == letters::Asks::NotKnown {
            return Err(not_known());
        }
        let shown = rights.take(&bearer, now_ms());
        shown.map_err(|why| unauthenticated(&why))
    }

    /// May he ask for that?
    ///
    /// Errors: 401, 403; 404 where nothing of that name may be known to him.
    pub fn judge(&self, asker: &Asker, asked: &Asked) -> Result<(), Fault> {
        if self.asks_nothing() {
            return Ok(());
        }
        match self.rights().judge(&asker.shown, asked, now_ms()) {
            Ok(()) => Ok(()),
            Err(No::NotKnown) => Err(not_known()),
            Err(No::Unauthenticated) => Err(unauthenticated(match &asker.shown {
                Shown::Certificate(..) => {
                    "a token is needed: nothing is granted to the certificate that was shown, or it has expired"
                }
                Shown::Ticket(_) => {
                    "this ticket has expired, or its issuer has signed it with a key that is gone"
                }
                Shown::Nothing | Shown::Token(..) => "a token is needed",
            })),
            // ‡ Whoever may nothing there is told the same as where there is nothing.
            Err(No::Forbidden(denied)) if denied.hides_the_place() && is_of_what_is(asked) => {
                Err(not_found(asked))
            }
            Err(No::Forbidden(denied)) => Err(Fault::new(
                403,
                "forbidden",
                denied.to_string(),
                "ask with another token, or for what this one may",
            )),
        }
    }

    /// Whether a reader that was let in may go on.
    pub fn may_go_on(&self, asker: &Asker, name: &Name) -> Result<(), Fault> {
        let (space, path) = (name.space.as_str(), name.path.as_str());
        let judged = self.judge(asker, &Asked::ReadStream { space, path });
        judged.inspect_err(|fault| self.tell_refused_of(asker, "a live read goes on", fault))
    }

    /// The paths of a space that its asker may read: a path, and whether all that begin so are meant.
    pub fn readable(&self, asker: &Asker, space: &str) -> Vec<(String, bool)> {
        if self.asks_nothing() {
            return vec![(String::new(), true)];
        }
        let rights = self.rights();
        let grants = rights.grants(&asker.shown, now_ms());
        grants.map_or_else(Vec::new, |grants| grants.readable_in(space))
    }

    pub fn may_read(&self, asker: &Asker, space: &str, path: &str) -> bool {
        self.judge(asker, &Asked::ReadStream { space, path })
            .is_ok()
    }
}

impl Door {
    /// Counts and tells a refusal of somebody who was let in.
    pub fn tell_refused_of(&self, asker: &Asker, what: &str, fault: &Fault) {
        let who = asker.shown.principal().to_string();
        self.tell_refused(&who, asker.from, what, fault);
    }

    /// Counts a refusal for want of a right, and tells it: a line for each asker and second. ‡ `what` has no query, which may have been
    /// meant for nobody's eyes.
    pub fn tell_refused(&self, who: &str, from: SocketAddr, what: &str, fault: &Fault) {
        let Some(refused) = self.board.as_ref().map(|board| &board.refused_http) else {
            return;
        };
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        // ‡ These are numbers that one thread writes: they are counted while nobody else has the refusals.
        match fault.status {
            401 => refused.unauthenticated.add(1),
            // A 404 hides that there may be something.
            403 | 404 => refused.forbidden.add(1),
            _ => return,
        }
        let told = refusals.note(self.now(), who);
        drop(refusals);
        if let Some(more) = told {
            let what = &what[..what.floor_char_boundary(TOLD_BYTES_MAX)];
            let (code, why) = match fault.status {
                404 => (
                    "forbidden",
                    "no grant touches it: the answer was that there is nothing",
                ),
                _ => (fault.code, fault.message.as_str()),
            };
            tracing::warn!(target: "audit", who, %from, door = "http", what, code, why, more, "refused");
        }
    }

    /// Tells of those that were counted and not told.
    pub fn tell_late(&self) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        let late = refusals.late(self.now());
        drop(refusals);
        for (who, more) in late {
            tracing::warn!(target: "audit", who, door = "http", more, "refused, and not told one by one");
        }
    }

    fn now(&self) -> Time {
        Time::ZERO + self.began.elapsed()
    }
}

/// Whether somebody asks for what is there already.
fn is_of_what_is(asked: &Asked) -> bool {
    // The limits of the space are there for everybody to know of.
    !matches!(
        asked,
        Asked::CreateStream { .. }
            | Asked::CreateLog(_)
            | Asked::ShowLimits { .. }
            | Asked::SetLimits { .. }
    )
}

fn not_found(asked: &Asked) -> Fault {
    match asked {
        Asked::Append(_) | Asked::Read(_) | Asked::DeleteLog(_) => Fault::no_log(),
        _ => Fault::not_found(),
    }
}

fn not_known() -> Fault {
    Fault::not_now("this node does not know yet whether tokens are asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_behind_bearer_and_nothing_of_another_is_shown() {
        let secret = "A".repeat(43);
        let read = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(value).expect("text"));
            bearer(&headers)
        };
        for value in [
            format!("Bearer lgb_ci_{secret}"),
            format!("bearer  lgb_ci_{secret}"),
        ] {
            let bearer = read(&value).expect("a token").expect("it is there");
            let Bearer::Token(token) = bearer else {
                panic!("{bearer:?}");
            };
            assert_eq!(token.name.as_str(), "ci");
        }
        for value in ["Basic abc", "Bearer", "Bearer lgb_ci_short", "lgb_ci_x"] {
            let fault = read(value).expect_err("it is none");
            assert_eq!(fault.status, 401);
            assert!(!fault.message.contains("ci") && !fault.message.contains("abc"));
        }
        assert_eq!(bearer(&HeaderMap::new()), Ok(None));
        assert!(matches!(
            read("Bearer eyJh.eyJp.c2ln"),
            Ok(Some(Bearer::Ticket(_)))
        ));
    }

    #[test]
    fn a_ticket_stands_behind_the_question_mark_for_reads_of_streams_alone() {
        let route = |method: &str, path: &str| {
            let method = method.parse().expect("a method");
            Route::of(&method, path).expect("a route")
        };
        let ticket = "offset=-1&ticket=eyJh.eyJp.c2ln&live=sse";
        for method in ["GET", "HEAD"] {
            let read = of_query(&route(method, "/v1/stream/a"), ticket);
            assert!(read.is_ok_and(|ticket| ticket.is_some()));
        }
        for (method, path) in [
            ("PUT", "/v1/stream/a"),
            ("POST", "/v1/stream/a"),
            ("DELETE", "/v1/stream/a"),
            ("GET", "/v1/log/a"),
            ("GET", "/v1/list/default"),
            ("PATCH", "/v1/limits/default"),
            ("GET", "/healthz"),
        ] {
            let fault = of_query(&route(method, path), ticket).expect_err("it is none of those");
            assert_eq!(fault.status, 401, "{method} {path}");
            assert_eq!(of_query(&route(method, path), "offset=-1"), Ok(None));
        }
        let read = route("GET", "/v1/stream/a");
        for wrong in ["ticket=", "ticket=secret", "ticket=a.b.c&ticket=a.b.c"] {
            let fault = of_query(&read, wrong).expect_err("it is none");
            assert!(!fault.message.contains("secret"), "{}", fault.message);
        }
    }
}
