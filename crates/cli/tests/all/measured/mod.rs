//! Benches as a user runs them: they measure, they end, and they leave nothing. For the tests of both programs.

#![allow(dead_code, reason = "each program's tests use a part of it")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

pub fn command(program: &str, directory: &Path, arguments: &str) -> Command {
    let mut command = Command::new(program);
    command.arg("bench").args(arguments.split_whitespace());
    command.args(["--json", "--directory", &directory.to_string_lossy()]);
    command
}

pub fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

pub fn number(report: &Value, key: &str) -> f64 {
    let value = report[key].as_f64();
    value.unwrap_or_else(|| panic!("{key} in {report}"))
}

pub fn assert_empty(directory: &Path) {
    let left: Vec<_> = std::fs::read_dir(directory).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

/// One page with so many plots and nothing to fetch; it is gone afterwards.
pub fn assert_report(program: &str, path: &Path, plots: usize) {
    let html = std::fs::read_to_string(path).expect("a report was asked for");
    assert_eq!(html.matches("<svg").count(), plots);
    assert_eq!(html.matches("</svg>").count(), plots);
    let name = Path::new(program).file_name().expect("a program");
    let command = format!("<pre>{} bench ", name.to_string_lossy());
    assert!(html.contains("<td>") && html.contains(&command));
    for fetched in ["src=", "href=", "url("] {
        assert!(!html.contains(fetched), "{fetched}");
    }
    std::fs::remove_file(path).unwrap();
}
