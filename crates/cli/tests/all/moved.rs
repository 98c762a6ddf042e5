//! The shipped program lacks the searches for mistakes, and the switches that make a disk fail.

use std::fs;

use crate::harness::{Node, err, logberg, own_ip, wait_for};

/// Commands that were here once.
const MOVED: [&str; 13] = [
    "sim",
    "torture",
    "bench move",
    "bench auxiliary",
    "bench memory",
    "bench catch-up",
    "bench many-logs",
    "bench reconfigure",
    "bench elections",
    "bench paper",
    "bench recover",
    "bench rivals",
    "bench instructions",
];

fn said(arguments: &str) -> (Option<i32>, String) {
    let words: Vec<&str> = arguments.split(' ').collect();
    let output = logberg("x:1", &words).output().expect("the program runs");
    assert!(output.stdout.is_empty(), "{arguments}");
    (output.status.code(), err(&output))
}

#[test]
fn a_command_that_is_in_the_lab_now_is_answered_by_one_sentence_with_its_new_name() {
    for command in MOVED {
        for more in [
            "",
            " --help",
            " --seeds 0..5 --jobs 2",
            " zero-copy-paxos --quick",
        ] {
            let typed = format!("{command}{more}");
            let (code, said) = said(&typed);
            assert_eq!(code, Some(2), "{typed}: {said}");
            assert_eq!(said.lines().count(), 1, "{typed}: {said}");
            let now = format!(
                "logberg: `logberg {command}` is in another program now: say `logberg-lab {command}`"
            );
            assert!(said.starts_with(&now), "{typed}: {said}");
        }
        let (code, said) = said(&format!("{command} --json"));
        assert_eq!(code, Some(2));
        assert!(said.contains("\"kind\":\"usage\""), "{said}");
    }
    let (code, said) = said("bench failover --times 1 --mode disk-stall");
    assert_eq!(code, Some(2));
    assert!(
        said.contains("`logberg-lab bench failover --mode disk-stall`"),
        "{said}"
    );
}

#[test]
fn help_shows_nothing_of_the_lab() {
    for (group, here) in [("", "demo"), ("bench", "failover")] {
        let arguments = [group, "--help"];
        let arguments = &arguments[usize::from(group.is_empty())..];
        let output = logberg("x:1", arguments).output().expect("it runs");
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let commands = shown.lines().filter_map(|line| line.strip_prefix("  "));
        let commands: Vec<&str> = commands
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert!(commands.contains(&here), "{shown}");
        for moved in MOVED {
            let (of, word) = moved.split_once(' ').unwrap_or(("", moved));
            assert!(of != group || !commands.contains(&word), "{word}: {shown}");
        }
    }
}

/// LOGBERG_FAULTS did once, in this very program.
#[test]
fn neither_the_environment_nor_an_argument_makes_a_disk_fail() {
    let place = tempfile::tempdir().expect("a place");
    let file = place.path().join("faults");
    fs::write(&file, "write-error=EIO\n").expect("room");
    let refused = said(&format!("node --data /nowhere --faults {}", file.display()));
    assert_eq!(refused.0, Some(2), "{}", refused.1);
    assert!(refused.1.contains("--faults"), "{}", refused.1);

    let listen = format!("{}:7001", own_ip());
    let data = place.path().join("node");
    let node = Node::new(data, listen.clone(), &["--bootstrap", "--voters", "1"]);
    let mut command = node.command();
    for name in ["LOGBERG_FAULTS", "FAULTS_OF_THIS_NODE"] {
        command.env(name, &file);
    }
    let log = fs::File::create(place.path().join("log")).expect("room");
    let mut child = command.stderr(log).spawn().expect("the program runs");
    let log = || fs::read_to_string(place.path().join("log")).unwrap_or_default();
    let appended = || {
        let output = logberg(&listen, &["append", "main", "--timeout", "2"]).output();
        output.ok()?.status.success().then_some(())
    };
    wait_for(appended, log);
    child.kill().expect("ours");
    child.wait().expect("ours");
}
