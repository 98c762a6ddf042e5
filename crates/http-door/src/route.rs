//! What a request asks for, and what its asker has to be allowed.

use hyper::Method;
use percent_encoding::percent_decode_str;
use streams::Path;

use crate::fault::Fault;

/// The requests that the door knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Create(Path),
    Append(Path),
    Read(Path),
    Stand(Path),
    Delete(Path),
    List,
    Health,
    /// What may be asked for.
    Description,
    /// A browser asks what it may ask.
    Preflight,
}

/// What somebody may be allowed to do, as grants name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Read,
    Append,
    Create,
    Delete,
}

/// What a request needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    pub operation: Operation,
    /// As grants name it: stream/SPACE/PATH. The end may be `*`.
    pub resource: String,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Principal {
    /// There are no credentials yet: everybody is this one, and the door is for the machine itself.
    Anonymous,
}

pub const STREAMS: &str = "/v1/stream/";
const LIST: &str = "/v1/list/";
/// The space that there is.
pub const SPACE: &str = "default";

impl Route {
    /// Errors: there is no such thing, or it is not asked for so.
    pub fn of(method: &Method, path: &str) -> Result<Route, Fault> {
        if let Some(name) = path.strip_prefix(STREAMS) {
            if method == Method::OPTIONS {
                return Ok(Route::Preflight);
            }
            let path = stream_path(name)?;
            return match *method {
                Method::PUT => Ok(Route::Create(path)),
                Method::POST => Ok(Route::Append(path)),
                Method::GET => Ok(Route::Read(path)),
                Method::HEAD => Ok(Route::Stand(path)),
                Method::DELETE => Ok(Route::Delete(path)),
                _ => Err(Fault::method("DELETE, GET, HEAD, OPTIONS, POST, PUT")),
            };
        }
        let known = match path {
            "/healthz" => Some(Route::Health),
            "/v1/openapi.json" => Some(Route::Description),
            path => match path.strip_prefix(LIST) {
                Some(SPACE) => Some(Route::List),
                Some(_) => {
                    return Err(Fault::new(
                        404,
                        "no-space",
                        "there is no such space",
                        "this server has the space default alone: ask /v1/list/default",
                    ));
                }
                None => None,
            },
        };
        match (known, method) {
            (None, _) => Err(Fault::new(
                404,
                "no-route",
                "nothing is at this address",
                "streams are below /v1/stream/, /v1/list/default lists them, and /v1/openapi.json says all that may be asked for",
            )),
            (Some(_), &Method::OPTIONS) => Ok(Route::Preflight),
            (Some(route), &Method::GET | &Method::HEAD) => Ok(route),
            (Some(_), _) => Err(Fault::method("GET, HEAD, OPTIONS")),
        }
    }

    /// ‡ Every request has a line here: one that needs nothing says so.
    pub fn needs(&self) -> Option<Need> {
        let of = |operation, path: &Path| {
            Some(Need {
                operation,
                resource: format!("stream/{SPACE}/{path}"),
            })
        };
        match self {
            Route::Create(path) => of(Operation::Create, path),
            Route::Append(path) => of(Operation::Append, path),
            Route::Read(path) | Route::Stand(path) => of(Operation::Read, path),
            Route::Delete(path) => of(Operation::Delete, path),
            Route::List => Some(Need {
                operation: Operation::Read,
                resource: format!("stream/{SPACE}/*"),
            }),
            Route::Health | Route::Preflight | Route::Description => None,
        }
    }
}

/// Whether somebody may do this.
///
/// Errors: no.
pub fn admit(principal: Principal, need: Option<&Need>) -> Result<(), Fault> {
    match (principal, need) {
        // Nobody has a credential, so nobody can be told from another.
        (Principal::Anonymous, _) => Ok(()),
    }
}

/// The name of a stream, as it stands in an address.
///
/// Errors: it is none.
pub fn stream_path(encoded: &str) -> Result<Path, Fault> {
    let bad = |why: &str, remedy: &str| Fault::new(400, "bad-path", why, remedy);
    let lower = encoded.to_ascii_lowercase();
    // ‡ One stream has one address: a slash that is hidden would be another for proxies.
    if lower.contains("%2f") {
        return Err(bad(
            "a stream's name has an encoded slash",
            "write / as it is",
        ));
    }
    let decoded = percent_decode_str(encoded).decode_utf8();
    let decoded = decoded.map_err(|_| {
        bad(
            "a stream's name is not UTF-8",
            "encode its characters as UTF-8",
        )
    })?;
    Path::new(&decoded).map_err(|why| Fault::sentence(400, "bad-path", &why.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_method_are_a_request() {
        let path = |text: &str| Path::new(text).expect("a name");
        let of = |method: Method, path: &str| Route::of(&method, path);
        assert_eq!(
            of(Method::GET, "/v1/stream/a/b"),
            Ok(Route::Read(path("a/b")))
        );
        assert_eq!(
            of(Method::PUT, "/v1/stream/a%20b"),
            Ok(Route::Create(path("a b")))
        );
        assert_eq!(of(Method::HEAD, "/healthz"), Ok(Route::Health));
        assert_eq!(of(Method::GET, "/v1/list/default"), Ok(Route::List));
        assert_eq!(of(Method::OPTIONS, "/v1/stream/a"), Ok(Route::Preflight));
        let status = |method: Method, path: &str| of(method, path).map_err(|fault| fault.status);
        for (method, path, expected) in [
            (Method::PATCH, "/v1/stream/a", 405),
            (Method::POST, "/healthz", 405),
            (Method::GET, "/", 404),
            (Method::GET, "/v1/stream", 404),
            (Method::GET, "/v1/list/other", 404),
            (Method::GET, "/v1/stream/", 400),
            (Method::GET, "/v1/stream/a%2Fb", 400),
            (Method::GET, "/v1/stream/a//b", 400),
            (Method::GET, "/v1/stream/a/../b", 400),
            (Method::GET, "/v1/stream/a%00", 400),
            (Method::GET, "/v1/stream/%ff", 400),
            (Method::PUT, "/v1/stream/@other/a", 400),
            (Method::PUT, "/v1/stream/__ds/subscriptions/a", 400),
        ] {
            assert_eq!(
                status(method.clone(), path),
                Err(expected),
                "{method} {path}"
            );
        }
    }

    #[test]
    fn what_a_request_needs_is_said() {
        let route = Route::of(&Method::POST, "/v1/stream/chat/42").expect("a route");
        let need = route.needs().expect("it needs something");
        assert_eq!(need.operation, Operation::Append);
        assert_eq!(need.resource, "stream/default/chat/42");
        assert_eq!(Route::Health.needs(), None);
        assert_eq!(admit(Principal::Anonymous, Some(&need)), Ok(()));
    }
}
