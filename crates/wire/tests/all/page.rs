//! docs/wire.md says what stands here, and nothing else: verbs, keys, codes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wire::{Code, Verb};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/wire.md")).expect("the page is there")
}

/// The keys in a line of usage: words before a `=`.
fn keys_in(usage: &str) -> BTreeSet<String> {
    let usage = usage.split('→').next().unwrap_or(usage);
    let before = usage.match_indices('=').map(|(at, _)| &usage[..at]);
    let key = |text: &str| {
        let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let start = text.trim_end_matches(part).len();
        text[start..].to_owned()
    };
    before.map(key).filter(|key| !key.is_empty()).collect()
}

/// The lines of fenced blocks, each with those that go on with it, which are indented.
fn usages(page: &str) -> Vec<String> {
    let mut usages: Vec<String> = Vec::new();
    let mut fenced = false;
    for line in page.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        match (fenced, line.starts_with(' '), usages.last_mut()) {
            (true, true, Some(last)) => last.push_str(line),
            (true, false, _) => usages.push(line.to_owned()),
            _ => {}
        }
    }
    usages
}

#[test]
fn the_page_has_every_verb_with_its_keys_and_no_other() {
    let page = page();
    let usages = usages(&page);
    for verb in Verb::ALL.iter().filter(|verb| !verb.is_of_nodes()) {
        let begins = |usage: &&String| usage.split(' ').next() == Some(verb.as_str());
        let usage = usages.iter().find(begins);
        let usage = usage.unwrap_or_else(|| panic!("{verb} is not on the page"));
        let mut said = keys_in(usage);
        if *verb == Verb::ChangeMembers {
            let actions = usages.iter().find(|usage| usage.starts_with("ACTION ="));
            said.extend(keys_in(actions.expect("its actions are on the page")));
        }
        let declared: BTreeSet<String> = verb.keys().iter().map(|key| (*key).to_owned()).collect();
        assert_eq!(said, declared, "{verb}: {usage}");
    }
}

#[test]
fn the_page_has_every_code_and_no_other() {
    let page = page();
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| code |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let said: BTreeSet<&str> = cells.flat_map(|cell| cell.split('`')).collect();
    let is_code = |word: &&str| word.bytes().any(|b| b.is_ascii_lowercase());
    let said: BTreeSet<&str> = said.into_iter().filter(is_code).collect();
    let declared: BTreeSet<&str> = Code::ALL.iter().map(Code::as_str).collect();
    assert_eq!(said, declared);
}

/// An undeclared code of a node would be understood by nobody.
#[test]
fn every_code_that_a_node_says_is_declared() {
    let mut said = BTreeSet::new();
    for part in ["crates/node/src", "crates/replica/src", "crates/wire/src"] {
        codes_under(&root().join(part), &mut said);
    }
    assert!(said.len() > 15, "{said:?}");
    for code in &said {
        assert!(
            !matches!(Code::from(code.as_str()), Code::Other(_)),
            "{code}"
        );
    }
}

fn codes_under(folder: &Path, said: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of the workspace") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            codes_under(&path, said);
            continue;
        }
        let text = fs::read_to_string(&path).expect("source is text");
        for call in text.split("Refusal::new(").skip(1) {
            if let Some(code) = call.trim_start().strip_prefix('"') {
                said.extend(code.split('"').next().map(str::to_owned));
            }
        }
    }
}
