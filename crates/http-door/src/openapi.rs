//! The door's description, by OpenAPI 3.1, for generators of clients and for people.

use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::body::Body;
use crate::read::set;

/// It is written by hand, and the tests below hold it to the routes and the headers.
const DESCRIPTION: &str = include_str!("openapi.json");

pub fn answer() -> Response<Body> {
    let mut response = Response::new(Body::from(DESCRIPTION));
    let headers = response.headers_mut();
    set(headers, CONTENT_TYPE, "application/json");
    set(headers, CACHE_CONTROL, "no-cache");
    response
}

#[cfg(test)]
mod parameters;
#[cfg(test)]
mod statuses;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hyper::Method;
    use serde_json::Value as Json;

    use super::*;
    use crate::headers::{ASKED, EXPOSED};
    use crate::route::Route;

    const METHODS: [&str; 8] = [
        "delete", "get", "head", "options", "patch", "post", "put", "trace",
    ];

    pub fn described() -> Json {
        serde_json::from_str(DESCRIPTION).expect("JSON")
    }

    fn names(of: &Json) -> BTreeSet<&str> {
        let names = of.as_object().into_iter().flatten();
        names.map(|(name, _)| name.as_str()).collect()
    }

    /// A name for an address that has one.
    pub fn example_of(methods: &Json) -> String {
        let examples = methods["parameters"].as_array().into_iter().flatten();
        let mut examples = examples.filter_map(|parameter| parameter["example"].as_str());
        examples.next().unwrap_or_default().to_owned()
    }

    #[test]
    fn what_is_described_is_asked_for_so_and_nothing_else_is() {
        let described = described();
        let paths = described["paths"].as_object().expect("paths");
        for (path, methods) in paths {
            let address = path.replace("{name}", &example_of(methods));
            for method in METHODS {
                let upper = method.to_uppercase();
                let asked = Method::from_bytes(upper.as_bytes()).expect("a method");
                let route = Route::of(&asked, &address);
                let is_described = methods.get(method).is_some();
                assert_eq!(route.is_ok(), is_described, "{upper} {path}");
            }
        }
        // An address that no path describes has no route.
        for address in [
            "/v1/stream",
            "/v1/list",
            "/v1/openapi.yaml",
            "/v1/log",
            "/v1/logs/main",
        ] {
            assert!(Route::of(&Method::GET, address).is_err(), "{address}");
        }
    }

    #[test]
    fn headers_that_browsers_may_use_are_described_and_no_others_are() {
        let described = described();
        let listed = |text: &'static str| text.split(", ").collect::<BTreeSet<_>>();
        assert_eq!(names(&described["components"]["headers"]), listed(EXPOSED));
        let mut asked = BTreeSet::new();
        let methods = described["paths"].as_object().expect("paths").values();
        for method in methods.flat_map(|methods| methods.as_object().expect("methods").values()) {
            let parameters = method["parameters"].as_array().into_iter().flatten();
            let of_head = parameters.filter(|parameter| parameter["in"] == "header");
            asked.extend(of_head.map(|parameter| parameter["name"].as_str().expect("a name")));
        }
        // It is described as a security scheme.
        asked.insert("Authorization");
        assert_eq!(asked, listed(ASKED));
    }

    /// The statuses of refusals that stand in a source.
    fn refusals_of(source: &str, found: &mut BTreeSet<String>) {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        for made in ["Fault::new(", "Fault::sentence(", "=> (", "=> "] {
            for behind in code.split(made).skip(1) {
                let behind = behind.trim_start();
                let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
                let is_status = digits == 3 && matches!(behind.as_bytes()[0], b'4' | b'5');
                if is_status {
                    found.insert(behind[..digits].to_owned());
                }
            }
        }
    }

    #[test]
    fn each_refusal_of_the_door_is_described_and_no_other_is() {
        let mut made = BTreeSet::new();
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        for directory in [source.to_owned(), format!("{source}/log")] {
            for entry in std::fs::read_dir(directory).expect("the sources are there") {
                let path = entry.expect("it is listed").path();
                if path.extension().is_some_and(|kind| kind == "rs") {
                    let text = std::fs::read_to_string(&path).expect("it is text");
                    refusals_of(&text, &mut made);
                }
            }
        }
        // A method that an address does not know asks for nothing that is described.
        assert!(made.remove("405"));
        let described = described();
        let mut told = BTreeSet::new();
        for (path, methods) in described["paths"].as_object().expect("paths") {
            for method in METHODS {
                let Some(responses) = methods.get(method).map(|method| &method["responses"]) else {
                    continue;
                };
                let of_all = names(responses);
                let errors = of_all.iter().filter(|status| **status >= "400");
                told.extend(errors.map(|status| (*status).to_owned()));
                // ‡ A token that is not good, a page of another machine, and a door that is full or stops are told whatever is asked for. A browser that asks
                // what it may ask is never kept out.
                let mut of_any = vec!["401", "503"];
                of_any.extend((method != "options").then_some("403"));
                let of_space = ["/v1/stream", "/v1/list", "/v1/limits"];
                let is_of_space = of_space.iter().any(|begin| path.starts_with(begin));
                of_any.extend((is_of_space && method != "options").then_some("500"));
                for status in of_any {
                    assert!(of_all.contains(status), "{method} {path}: {status}");
                }
            }
        }
        assert_eq!(told, made);
    }

    #[test]
    fn what_is_referred_to_is_there() {
        let described = described();
        let mut looked = vec![&described];
        let mut referred = 0;
        while let Some(value) = looked.pop() {
            if let Some(place) = value["$ref"].as_str() {
                let pointer = place.strip_prefix('#').expect("within the description");
                assert!(described.pointer(pointer).is_some(), "{place}");
                referred += 1;
            }
            looked.extend(
                value
                    .as_object()
                    .into_iter()
                    .flat_map(|object| object.values()),
            );
            looked.extend(value.as_array().into_iter().flatten());
        }
        assert!(referred > 50);
        let ids = described["paths"].as_object().expect("paths").values();
        let ids = ids.flat_map(|methods| methods.as_object().expect("methods").values());
        let ids: Vec<&str> = ids
            .filter_map(|method| method["operationId"].as_str())
            .collect();
        let unlike: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(unlike.len(), ids.len(), "two requests have one name");
    }
}
