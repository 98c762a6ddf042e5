//! The alert rules that are shipped speak of metrics and warnings that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).expect("it is there")
}

/// The names that samples have, by the page, which another test holds to what a node serves.
fn samples() -> BTreeSet<String> {
    let page = read("docs/operations.md");
    let rows = page.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let name = cells.get(1)?.strip_prefix("`logberg_")?.strip_suffix('`')?;
        Some((format!("logberg_{name}"), cells.get(3)?.to_string()))
    });
    let mut names = BTreeSet::new();
    for (name, meaning) in rows {
        match meaning.split(':').next() {
            Some("counter") => names.extend([format!("{name}_total")]),
            Some("histogram") => {
                names.extend(["bucket", "count", "sum"].map(|end| format!("{name}_{end}")));
            }
            _ => names.extend([name]),
        }
    }
    names
}

/// The rules, each as its keys and values.
fn rules() -> Vec<BTreeMap<String, String>> {
    let text = read("packaging/alerts.yaml");
    let mut rules: Vec<BTreeMap<String, String>> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with("      - alert: ") {
            rules.push(BTreeMap::new());
        }
        let Some(rule) = rules.last_mut() else {
            continue;
        };
        let (key, value) = line.split_once(':').expect("a key");
        let key = key.trim_start_matches([' ', '-']).to_owned();
        let value = value.trim();
        // What YAML would take for something else stands in quotes.
        let bare = value.starts_with(|c: char| c.is_ascii_alphanumeric()) && !value.contains(": ");
        let quoted = value.len() > 1 && value.starts_with('\'') && value.ends_with('\'');
        assert!(value.is_empty() || bare || quoted, "{line}");
        assert!(rule.insert(key, value.to_owned()).is_none(), "{line}");
    }
    rules
}

/// The words of an expression outside of strings, and the strings.
fn words(expression: &str) -> (Vec<String>, Vec<String>) {
    let parts: Vec<&str> = expression.split('"').collect();
    assert!(parts.len() % 2 == 1, "a quote is open: {expression}");
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let outside = parts.iter().step_by(2);
    let words = outside.flat_map(|part| part.split(|c| !is_word(c)));
    let strings = parts.iter().skip(1).step_by(2);
    (
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect(),
        strings.map(ToString::to_string).collect(),
    )
}

fn check_brackets(expression: &str) {
    let mut open = Vec::new();
    for c in expression.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' => assert_eq!(open.pop(), Some(c), "{expression}"),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{expression}");
}

#[test]
fn alert_rules_speak_of_metrics_and_warnings_that_there_are() {
    let samples = samples();
    assert!(
        samples.contains("logberg_disk_full_total") && samples.len() > 50,
        "{samples:?}"
    );
    let page = read("docs/operations.md");
    let codes: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let rules = rules();
    let names: BTreeSet<&String> = rules.iter().map(|rule| &rule["alert"]).collect();
    assert!(rules.len() > 8 && names.len() == rules.len(), "{names:?}");
    for rule in &rules {
        for key in ["severity", "summary", "description"] {
            assert!(
                rule.get(key).is_some_and(|value| !value.is_empty()),
                "{key}: {rule:?}"
            );
        }
        let severity = rule["severity"].as_str();
        assert!(["critical", "warning"].contains(&severity), "{rule:?}");
        let expression = &rule["expr"];
        check_brackets(expression);
        let (words, strings) = words(expression);
        let ours = words.iter().filter(|word| word.starts_with("logberg_"));
        for metric in ours {
            assert!(
                samples.contains(metric),
                "no node serves {metric}: {expression}"
            );
        }
        let is_metric = |word: &String| word.starts_with("logberg_") || word == "up";
        assert!(words.iter().any(is_metric), "{expression}");
        // Codes of the door for HTTP stand in a table of its page, and classes of statuses here.
        let is_of_http = words.iter().any(|word| word.starts_with("logberg_http_"));
        let http = format!("`2xx` `3xx` `4xx` `5xx` {}", read("docs/http.md"));
        let is_told = |code: &str| http.contains(&format!("`{code}`"));
        for told in strings.iter().filter(|string| *string != "logberg") {
            for code in told.split('|') {
                assert!(
                    codes.contains(code) || is_of_http && is_told(code),
                    "no warning is called {code}: {expression}"
                );
            }
        }
    }
}
