//! Who may ask from where: a web page of anybody is no user of this machine.
//!
//! While there are no credentials, whoever reaches the door may do all. A browser reaches it on its own machine for every page that it shows, so requests
//! of pages are told from those of programs: by their origin, and by the name under which they reach us.

use hyper::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CONTENT_SECURITY_POLICY, FORWARDED,
    HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, VARY, VIA, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode, Uri};

use crate::body::Body;
use crate::fault::Fault;
use crate::headers;
use crate::read::set;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

/// The words of a request by which a browser's page is told from a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a> {
    pub host: Option<&'a str>,
    pub origin: Option<&'a str>,
    /// `Sec-Fetch-Site`
    pub site: Option<&'a str>,
}

/// The word that is of somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    Host,
    Origin,
    Site,
}

impl Words<'_> {
    /// The first word that is not of this machine, for every door the same. `is_ours`: whether a host, without its port, is another name
    /// or address of it.
    pub fn foreign(&self, is_ours: impl Fn(&str) -> bool) -> Option<Foreign> {
        let is_good = |host: &str| is_loopback(host) || name_of(host).is_some_and(&is_ours);
        // ‡ A page's own name may be made to lead here.
        if !self.host.is_some_and(is_good) {
            return Some(Foreign::Host);
        }
        if let Some(origin) = self.origin
            && !host_of(origin).is_some_and(is_loopback)
        {
            return Some(Foreign::Origin);
        }
        (self.site == Some("cross-site")).then_some(Foreign::Site)
    }
}

/// The name or address of HOST:PORT, or of HOST alone.
pub fn name_of(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(address, _)| address),
        None => host.split(':').next(),
    }
}

/// Whether this is the machine itself: a name or an address that leads nowhere else.
fn is_loopback(host: &str) -> bool {
    let Some(name) = name_of(host) else {
        return false;
    };
    if host.starts_with('[') {
        let is_address = |ip: std::net::Ipv6Addr| ip.is_loopback();
        return name.parse().is_ok_and(is_address);
    }
    let is_address = |ip: std::net::Ipv4Addr| ip.is_loopback();
    name.eq_ignore_ascii_case("localhost")
        || name.to_ascii_lowercase().ends_with(".localhost")
        || name.parse().is_ok_and(is_address)
}

/// The host of an origin.
fn host_of(origin: &str) -> Option<&str> {
    let host = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"))?;
    (!host.is_empty() && !host.contains('/')).then_some(host)
}

fn refuse(message: &str, remedy: &str) -> Fault {
    Fault::new(403, "forbidden", message, remedy)
}

/// The host that a request is for.
pub fn host<'a>(uri: &'a Uri, asked: &'a HeaderMap) -> Option<&'a str> {
    let said = asked.get(HOST).and_then(|host| host.to_str().ok());
    // HTTP/2 says it in the address.
    said.or_else(|| uri.authority().map(|authority| authority.as_str()))
}

/// Whether somebody without a credential may ask this.
///
/// `is_open`: the door is for other machines too, by its owner's word. `is_secured`: it was asked by TLS, where a certificate
/// stands behind the name.
///
/// Errors: no; whatever the method.
pub fn check(
    uri: &Uri,
    asked: &HeaderMap,
    (is_open, is_secured): (bool, bool),
) -> Result<(), Fault> {
    // ‡ Whoever stands before this door might take the other one.
    if asked.get_all(HOST).iter().count() > 1 {
        return Err(Fault::bad_header("Host", "send one"));
    }
    let word = |name| asked.get(name).map(|value| value.to_str().unwrap_or(""));
    // ‡ An address that names another host is not believed for its header's sake.
    let authority = uri.authority().map(|authority| authority.as_str());
    let other = authority.filter(|named| !is_loopback(named));
    let named = other.or_else(|| host(uri, asked));
    let words = Words {
        host: Some(named.unwrap_or_default()),
        origin: word(ORIGIN),
        site: word(SEC_FETCH_SITE),
    };
    match words.foreign(|_| is_open || is_secured) {
        None => {}
        Some(Foreign::Host) => {
            return Err(refuse(
                "the request is for a host of another name",
                "reach this door as localhost or 127.0.0.1",
            ));
        }
        Some(Foreign::Origin) => {
            return Err(refuse(
                "a web page of another machine asks, and this door has no credentials",
                "serve the page from localhost, or ask from its server",
            ));
        }
        Some(Foreign::Site) => {
            return Err(refuse(
                "a web page of another site asks, and this door has no credentials",
                "serve the page from the same name as this door, or ask from its server",
            ));
        }
    }
    let is_forwarding = |name: &HeaderName| {
        *name == FORWARDED || *name == VIA || name.as_str().starts_with("x-forwarded-")
    };
    if asked.keys().any(is_forwarding) && !is_open {
        return Err(refuse(
            "a proxy hands on requests of others, and this door has no credentials",
            "start the node with --plain-is-private and ask for tokens (logberg auth enable), or with --insecure if everybody behind that proxy may do all",
        ));
    }
    Ok(())
}

/// The answer to a browser that asks what it may ask.
pub fn preflight() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let answered = response.headers_mut();
    set(
        answered,
        ACCESS_CONTROL_ALLOW_METHODS,
        "DELETE, GET, HEAD, OPTIONS, POST, PUT",
    );
    set(answered, ACCESS_CONTROL_ALLOW_HEADERS, headers::ASKED);
    set(answered, ACCESS_CONTROL_MAX_AGE, 600);
    response
}

/// What every answer says.
///
/// ‡ A stream's writer writes what a browser may show: as a page of nobody's, which runs nothing.
pub fn seal(response: &mut Response<Body>, origin: Option<HeaderValue>) {
    let answered = response.headers_mut();
    let fixed = HeaderValue::from_static;
    answered.insert(X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    answered.insert(RESOURCE_POLICY, fixed("same-site"));
    answered.insert(
        CONTENT_SECURITY_POLICY,
        fixed("sandbox; default-src 'none'"),
    );
    answered.insert(VARY, fixed("Authorization, Origin"));
    if let Some(origin) = origin {
        answered.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        answered.insert(ACCESS_CONTROL_EXPOSE_HEADERS, fixed(headers::EXPOSED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    fn may(pairs: &[(&'static str, &'static str)], is_open: bool) -> bool {
        let how = (is_open, false);
        check(&Uri::from_static("/v1/stream/a"), &asked(pairs), how).is_ok()
    }

    #[test]
    fn by_tls_a_host_may_have_any_name_and_pages_and_proxies_are_refused_still() {
        let may = |pairs: &[(&'static str, &'static str)]| {
            let how = (false, true);
            check(&Uri::from_static("/v1/stream/a"), &asked(pairs), how).is_ok()
        };
        let named = ("host", "n1.example:4437");
        assert!(may(&[named]));
        assert!(!may(&[named, ("origin", "https://evil.example")]));
        assert!(!may(&[named, ("origin", "null")]));
        assert!(!may(&[named, ("sec-fetch-site", "cross-site")]));
        assert!(!may(&[named, ("x-forwarded-for", "10.0.0.9")]));
    }

    #[test]
    fn a_web_page_of_another_machine_is_refused() {
        let here = ("host", "localhost:4437");
        assert!(may(&[here], false));
        assert!(may(&[("host", "127.0.0.1:4437")], false));
        assert!(!may(&[here, ("host", "evil.example")], false));
        let whole = Uri::from_static("http://evil.example/v1/stream/a");
        assert!(check(&whole, &asked(&[here]), (false, false)).is_err());
        assert!(may(&[("host", "[::1]:4437")], false));
        assert!(may(&[here, ("origin", "http://localhost:3000")], false));
        assert!(may(
            &[
                here,
                ("origin", "http://[::1]:3000"),
                ("sec-fetch-site", "same-site")
            ],
            false
        ));
        for pairs in [
            &[("host", "evil.example:4437")][..],
            &[("host", "localhost.evil.example")],
            &[("host", "127.0.0.1.evil.example")],
            &[],
            &[here, ("origin", "null")],
            &[here, ("origin", "https://evil.example")],
            &[here, ("origin", "http://localhost.evil.example")],
            &[here, ("origin", "file://localhost")],
            &[here, ("sec-fetch-site", "cross-site")],
            &[here, ("x-forwarded-for", "10.0.0.1")],
            &[here, ("via", "1.1 proxy")],
            &[here, ("forwarded", "for=10.0.0.1")],
        ] {
            assert!(!may(pairs, false), "{pairs:?}");
        }
        // Whoever opens the door has no more pages than before.
        assert!(may(
            &[("host", "streams.example"), ("via", "1.1 proxy")],
            true
        ));
        assert!(!may(
            &[
                ("host", "streams.example"),
                ("origin", "https://evil.example")
            ],
            true
        ));
    }
}
