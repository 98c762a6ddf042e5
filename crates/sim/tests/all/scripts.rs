//! Every script in `testdata/` is replayed: a script that once showed a mistake shows none any more.

use std::fs;
use std::path::Path;

use sim::Scenario;
use sim::workload::{self, Checker, run_scenario, script, shrink};

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

#[test]
fn a_failing_run_is_made_smaller_and_the_same_way_every_time() {
    let mut scenario = Scenario {
        // Nothing can become well in no time.
        calm_us: 1_000,
        ..workload::draw(5)
    };
    scenario.harm_us = 1_000_000;
    let violation = run_scenario(&scenario).expect_err("it cannot end well");
    assert_eq!(violation.checker, Checker::Liveness);
    let small = shrink(&scenario, &violation, 40);
    assert_eq!(small.violation.checker, Checker::Liveness);
    assert_eq!(small.scenario.swarm.only_turns, Some([].into()));
    assert!(small.scenario.readers_per_writer <= 1);
    assert!(small.scenario.bytes_per_writer < scenario.bytes_per_writer);
    let again = shrink(&scenario, &violation, 40);
    assert_eq!(again.scenario, small.scenario);
    assert_eq!(again.violation, small.violation);
    let written = script::write(&small.scenario, Some(&small.violation));
    assert!(written.starts_with("# liveness: seed 5"), "{written}");
    let replayed = run_scenario(&script::read(&written).unwrap());
    assert_eq!(replayed, Err(small.violation));
}
