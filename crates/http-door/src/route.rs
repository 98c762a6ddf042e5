//! The routes: what each asks for, and what that is called where grants are judged.

use access::Asked;
use hyper::Method;
use streams::Path;

use crate::fault::Fault;
use crate::name::{Name, log_name, space_name};

/// The requests that the door knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    Create(Name),
    Append(Name),
    Read(Name),
    Stand(Name),
    Delete(Name),
    CreateLog(String),
    AppendLog(String),
    ReadLog(String),
    StandLog(String),
    DeleteLog(String),
    /// Streams of this space.
    List(String),
    ShowLimits(String),
    SetLimits(String),
    Health,
    /// What may be asked for.
    Description,
    /// A browser asks what it may ask.
    Preflight,
}

pub const STREAMS: &str = "/v1/stream/";
const LOGS: &str = "/v1/log/";
const LIST: &str = "/v1/list/";
const LIMITS: &str = "/v1/limits/";

impl Route {
    /// Errors: there is no such thing, or it is not asked for so.
    pub fn of(method: &Method, path: &str) -> Result<Route, Fault> {
        if let Some(name) = path.strip_prefix(STREAMS) {
            if method == Method::OPTIONS {
                return Ok(Route::Preflight);
            }
            let name = Name::in_address(name)?;
            return match *method {
                Method::PUT => Ok(Route::Create(name)),
                Method::POST => Ok(Route::Append(name)),
                Method::GET => Ok(Route::Read(name)),
                Method::HEAD => Ok(Route::Stand(name)),
                Method::DELETE => Ok(Route::Delete(name)),
                _ => Err(Fault::method("DELETE, GET, HEAD, OPTIONS, POST, PUT")),
            };
        }
        if let Some(name) = path.strip_prefix(LOGS) {
            if method == Method::OPTIONS {
                return Ok(Route::Preflight);
            }
            let log = log_name(name)?;
            return match *method {
                Method::PUT => Ok(Route::CreateLog(log)),
                Method::POST => Ok(Route::AppendLog(log)),
                Method::GET => Ok(Route::ReadLog(log)),
                Method::HEAD => Ok(Route::StandLog(log)),
                Method::DELETE => Ok(Route::DeleteLog(log)),
                _ => Err(Fault::method("DELETE, GET, HEAD, OPTIONS, POST, PUT")),
            };
        }
        let known = match path {
            "/healthz" => Some(Route::Health),
            "/v1/openapi.json" => Some(Route::Description),
            path => match (path.strip_prefix(LIST), path.strip_prefix(LIMITS)) {
                (Some(space), _) => Some(Route::List(space_name(space)?)),
                (_, Some(space)) if method == Method::PATCH => {
                    return Ok(Route::SetLimits(space_name(space)?));
                }
                (_, Some(space)) => Some(Route::ShowLimits(space_name(space)?)),
                (None, None) => None,
            },
        };
        match (known, method) {
            (None, _) => Err(Fault::new(
                404,
                "no-route",
                "nothing is at this address",
                "streams are below /v1/stream/, /v1/list/default lists them, /v1/limits/default says how many there may be, logs are below /v1/log/, and /v1/openapi.json says all that may be asked for",
            )),
            (Some(_), &Method::OPTIONS) => Ok(Route::Preflight),
            (Some(Route::ShowLimits(_)), method) if !is_read(method) => {
                Err(Fault::method("GET, HEAD, OPTIONS, PATCH"))
            }
            (Some(route), &Method::GET | &Method::HEAD) => Ok(route),
            (Some(_), _) => Err(Fault::method("GET, HEAD, OPTIONS")),
        }
    }

    /// The request, as all doors say it. `is_filled`, `source`: of a stream that is to be created, whether
    /// bytes come with it, and what it is forked from.
    pub fn asked<'a>(&'a self, is_filled: bool, source: Option<&'a Path>) -> Asked<'a> {
        match self {
            Route::Create(Name { space, path }) => Asked::CreateStream {
                space,
                path: path.as_str(),
                is_filled,
                source: source.map(Path::as_str),
            },
            Route::Append(Name { space, path }) => Asked::AppendStream {
                space,
                path: path.as_str(),
            },
            Route::Read(name) | Route::Stand(name) => Asked::ReadStream {
                space: &name.space,
                path: name.path.as_str(),
            },
            Route::Delete(Name { space, path }) => Asked::DeleteStream {
                space,
                path: path.as_str(),
            },
            Route::CreateLog(log) => Asked::CreateLog(log),
            Route::AppendLog(log) => Asked::Append(log),
            Route::ReadLog(log) | Route::StandLog(log) => Asked::Read(log),
            Route::DeleteLog(log) => Asked::DeleteLog(log),
            Route::List(space) => Asked::ListStreams { space },
            Route::ShowLimits(space) => Asked::ShowLimits { space },
            Route::SetLimits(space) => Asked::SetLimits { space },
            Route::Health => Asked::Health,
            Route::Preflight | Route::Description => Asked::DescribeHttp,
        }
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_method_are_a_request() {
        let name = |text: &str| Name::in_address(text).expect("a name");
        let of = |method: Method, path: &str| Route::of(&method, path);
        assert_eq!(
            of(Method::GET, "/v1/stream/a/b"),
            Ok(Route::Read(name("a/b")))
        );
        assert_eq!(
            of(Method::PUT, "/v1/stream/a%20b"),
            Ok(Route::Create(name("a%20b")))
        );
        assert_eq!(of(Method::HEAD, "/healthz"), Ok(Route::Health));
        let log = "ci-7".to_owned();
        assert_eq!(of(Method::POST, "/v1/log/ci-7"), Ok(Route::AppendLog(log)));
        let space = |text: &str| text.to_owned();
        assert_eq!(
            of(Method::GET, "/v1/list/default"),
            Ok(Route::List(space("default")))
        );
        assert_eq!(
            of(Method::PATCH, "/v1/limits/team"),
            Ok(Route::SetLimits(space("team")))
        );
        assert_eq!(
            of(Method::PUT, "/v1/stream/@team/a"),
            Ok(Route::Create(name("@team/a")))
        );
        assert_eq!(of(Method::OPTIONS, "/v1/stream/a"), Ok(Route::Preflight));
        let status = |method: Method, path: &str| of(method, path).map_err(|fault| fault.status);
        for (method, path, expected) in [
            (Method::PATCH, "/v1/stream/a", 405),
            (Method::POST, "/healthz", 405),
            (Method::GET, "/", 404),
            (Method::GET, "/v1/stream", 404),
            (Method::GET, "/v1/list/", 400),
            (Method::GET, "/v1/list/a/b", 400),
            (Method::GET, "/v1/stream/", 400),
            (Method::GET, "/v1/stream/a%2Fb", 400),
            (Method::GET, "/v1/stream/a//b", 400),
            (Method::GET, "/v1/stream/a/../b", 400),
            (Method::GET, "/v1/stream/a%00", 400),
            (Method::GET, "/v1/stream/%ff", 400),
            (Method::PUT, "/v1/stream/@default/a", 400),
            (Method::PUT, "/v1/stream/__ds/subscriptions/a", 400),
            (Method::PATCH, "/v1/log/main", 405),
            (Method::PUT, "/v1/limits/default", 405),
            (Method::PATCH, "/v1/list/default", 405),
            (Method::GET, "/v1/log", 404),
            (Method::GET, "/v1/log/", 400),
            (Method::GET, "/v1/log/a/b", 400),
            (Method::GET, "/v1/log/%6dain", 400),
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
        let needs = |method: Method, path: &str| {
            let route = Route::of(&method, path).expect("a route");
            let source = Path::new("old").expect("a name");
            let needs = route.asked(true, Some(&source)).needs();
            needs.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let chat = "/v1/stream/chat/42";
        assert_eq!(
            needs(Method::POST, chat),
            ["append on stream/default/chat/42"]
        );
        assert_eq!(
            needs(Method::PUT, chat),
            [
                "create on stream/default/chat/42",
                "append on stream/default/chat/42",
                "read on stream/default/old"
            ]
        );
        assert_eq!(
            needs(Method::DELETE, "/v1/stream/@team/a"),
            ["delete on stream/team/a"]
        );
        assert_eq!(needs(Method::HEAD, "/v1/log/a"), ["read on log/a"]);
        assert_eq!(needs(Method::GET, "/v1/log/a"), ["read on log/a"]);
        assert_eq!(needs(Method::POST, "/v1/log/a"), ["append on log/a"]);
        assert_eq!(needs(Method::PUT, "/v1/log/a"), ["create on log/a"]);
        assert_eq!(needs(Method::DELETE, "/v1/log/a"), ["delete on log/a"]);
        let limits = "/v1/limits/default";
        assert_eq!(needs(Method::GET, limits), ["status on cluster"]);
        assert_eq!(needs(Method::PATCH, limits), ["members on cluster"]);
        // Nobody's but the nodes'.
        assert_eq!(needs(Method::GET, "/v1/log/directory").len(), 1);
        assert!(needs(Method::GET, "/healthz").is_empty());
    }
}
