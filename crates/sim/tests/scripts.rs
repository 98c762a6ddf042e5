//! Every script in `testdata/` is replayed: what once showed a mistake shows none any more.

use std::fs;
use std::path::Path;

use sim::workload::{run_scenario, script};

#[test]
fn no_script_shows_a_mistake() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut paths: Vec<_> = fs::read_dir(directory)
        .expect("scripts are there")
        .map(|entry| entry.expect("and can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    paths.sort();
    assert!(!paths.is_empty());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a script can be read");
        let scenario = script::read(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if let Err(violation) = run_scenario(&scenario) {
            panic!("{}: {violation}", path.display());
        }
    }
}
