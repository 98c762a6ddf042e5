//! The routes: what each asks for, and what that is called where grants are judged.

use access::Asked;
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
    CreateLog(String),
    AppendLog(String),
    ReadLog(String),
    StandLog(String),
    DeleteLog(String),
    List,
    ShowLimits,
    SetLimits,
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
                (Some(SPACE), _) => Some(Route::List),
                (_, Some(SPACE)) if method == Method::PATCH => return Ok(Route::SetLimits),
                (_, Some(SPACE)) => Some(Route::ShowLimits),
                (Some(_), _) | (_, Some(_)) => {
                    return Err(Fault::new(
                        404,
                        "no-space",
                        "there is no such space",
                        "this server has the space default alone: ask /v1/list/default, or /v1/limits/default",
                    ));
                }
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
            (Some(Route::ShowLimits), method) if !is_read(method) => {
                Err(Fault::method("GET, HEAD, OPTIONS, PATCH"))
            }
            (Some(route), &Method::GET | &Method::HEAD) => Ok(route),
            (Some(_), _) => Err(Fault::method("GET, HEAD, OPTIONS")),
        }
    }

    /// The request, as all doors say it. `is_filled`, `source`: of a stream that is to be created, whether
    /// bytes come with it, and what it is forked from.
    pub fn asked<'a>(&'a self, is_filled: bool, source: Option<&'a Path>) -> Asked<'a> {
        let space = SPACE;
        match self {
            Route::Create(path) => Asked::CreateStream {
                space,
                path: path.as_str(),
                is_filled,
                source: source.map(Path::as_str),
            },
            Route::Append(path) => Asked::AppendStream {
                space,
                path: path.as_str(),
            },
            Route::Read(path) | Route::Stand(path) => Asked::ReadStream {
                space,
                path: path.as_str(),
            },
            Route::Delete(path) => Asked::DeleteStream {
                space,
                path: path.as_str(),
            },
            Route::CreateLog(log) => Asked::CreateLog(log),
            Route::AppendLog(log) => Asked::Append(log),
            Route::ReadLog(log) | Route::StandLog(log) => Asked::Read(log),
            Route::DeleteLog(log) => Asked::DeleteLog(log),
            Route::List => Asked::ListStreams { space },
            Route::ShowLimits => Asked::ShowLimits { space },
            Route::SetLimits => Asked::SetLimits { space },
            Route::Health => Asked::Health,
            Route::Preflight | Route::Description => Asked::DescribeHttp,
        }
    }
}

fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The name of a log, as it stands in an address.
///
/// Errors: it is none. (Which names there may be is said by whoever makes one.)
fn log_name(encoded: &str) -> Result<String, Fault> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    // None of these need be encoded, so a name has one address.
    match !encoded.is_empty() && encoded.bytes().all(is_plain) {
        true => Ok(encoded.to_owned()),
        false => Err(Fault::new(
            400,
            "bad-path",
            "this is no name of a log",
            "a log's name has letters, digits, '-', '_' and '.', as they are",
        )),
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
        let log = "ci-7".to_owned();
        assert_eq!(of(Method::POST, "/v1/log/ci-7"), Ok(Route::AppendLog(log)));
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
            (Method::PATCH, "/v1/log/main", 405),
            (Method::PUT, "/v1/limits/default", 405),
            (Method::PATCH, "/v1/limits/other", 404),
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
