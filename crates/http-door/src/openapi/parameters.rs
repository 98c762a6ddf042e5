//! Parameters behind the question mark: those that an operation describes are those that its address is read for.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::tests::described;
use crate::fault::Fault;
use crate::query::{List, LogQuery, Query};

/// Every word that the parser of addresses matches: names, and some of their values.
fn words() -> BTreeSet<&'static str> {
    let source = include_str!("../query.rs");
    let code = source.split("#[cfg(test)]").next().expect("code");
    let arms = code
        .lines()
        .filter(|line| line.contains("=>") || line.contains("name =="));
    arms.flat_map(|line| line.split('"').skip(1).step_by(2))
        .collect()
}

/// ‡ A parameter that is known stands once, and one that is not known is passed over.
fn is_known<T>(name: &str, parse: impl Fn(&str) -> Result<T, Fault>) -> bool {
    let value = match name {
        "offset" => "-1",
        "live" => "sse",
        "encoding" => "base64",
        "stream" => "1.4.2",
        _ => "1",
    };
    match parse(&format!("{name}={value}&{name}={value}")) {
        Ok(_) => false,
        Err(fault) => {
            assert!(fault.message.contains("twice"), "{fault:?}");
            true
        }
    }
}

fn told(operation: &Json) -> BTreeSet<&str> {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let of_query = parameters.filter(|parameter| parameter["in"] == "query");
    of_query
        .map(|parameter| parameter["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn parameters_that_are_described_are_read_and_no_others_are() {
    let described = described();
    let words = words();
    assert!(words.contains("offset") && words.contains("stream") && words.contains("limit"));
    let known = |is: &dyn Fn(&str) -> bool| words.iter().copied().filter(|word| is(word)).collect();
    let read: BTreeSet<&str> = known(&|name| is_known(name, Query::parse));
    let read_log: BTreeSet<&str> = known(&|name| is_known(name, LogQuery::parse));
    let list: BTreeSet<&str> = known(&|name| is_known(name, List::parse));
    let paths = &described["paths"];
    assert_eq!(told(&paths["/v1/stream/{name}"]["get"]), read);
    assert_eq!(told(&paths["/v1/log/{name}"]["get"]), read_log);
    for method in ["get", "head"] {
        assert_eq!(told(&paths["/v1/list/{name}"][method]), list);
    }
    // A log that is asked where it stands needs only what of it is meant.
    assert!(told(&paths["/v1/log/{name}"]["head"]).is_subset(&read_log));
    // No other operation looks behind the question mark.
    for (path, methods) in paths.as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let reads = path.starts_with("/v1/list/") || ["get", "head"].contains(&&**method);
            assert!(reads || told(operation).is_empty(), "{method} {path}");
        }
    }
}
