//! The committed histories get the verdict in their names; and where Go and its modules can be
//! had, Porcupine says the same of them, and of hundreds more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use history::{
    Counters, Fields, Lease, List, Operation, Register, Verdict, check, is_linearizable, search,
    to_line,
};
use serde::Serialize;

use crate::drawn::{Real, drawn, spoil};
use crate::small;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// ⟨name, history, whether it is good⟩.
fn committed() -> Vec<(PathBuf, Vec<Operation>, bool)> {
    let entries = fs::read_dir(here().join("testdata")).expect("our files");
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("our file");
        let history = history::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.file_name().expect("a file").to_string_lossy();
        let good = match name.split('-').next() {
            Some("good") => true,
            Some("bad") => false,
            _ => panic!("{name} says no verdict"),
        };
        (path, history, good)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn committed_histories_get_the_verdict_in_their_names() {
    let all = committed();
    assert!(all.iter().filter(|(_, _, good)| *good).count() >= 8);
    assert!(all.iter().filter(|(_, _, good)| !*good).count() >= 8);
    for (path, history, good) in all {
        let violations = check(&history).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        assert_eq!(
            violations.is_empty(),
            good,
            "{}: {violations:?}",
            path.display()
        );
        assert_eq!(is_linearizable(&history), Ok(good), "{}", path.display());
    }
}

/// The program in `porcupine/`, built; or why it cannot be.
fn porcupine(into: &Path) -> Result<PathBuf, String> {
    let program = into.join("porcupine");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(here().join("porcupine"))
        .output()
        .map_err(|error| format!("go cannot be run: {error}"))?;
    match built.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&built.stderr).trim().to_owned()),
    }
}

#[test]
fn porcupine_gives_the_same_verdicts() {
    let place = tempfile::tempdir().expect("a place");
    let program = match porcupine(place.path()) {
        Ok(program) => program,
        Err(why) => {
            println!("not run (1 skipped): Porcupine cannot be built here: {why}");
            return;
        }
    };
    let mut expected = Vec::new();
    let mut paths = Vec::new();
    for (path, _, good) in committed() {
        paths.push(path);
        expected.push(good);
    }
    for number in 0..400 {
        let history = small::history(number, 4 + number % 10);
        let Ok(violations) = check(&history) else {
            continue;
        };
        let path = place.path().join(format!("{number}.jsonl"));
        let lines: Vec<String> = history.iter().map(to_line).collect();
        fs::write(&path, lines.join("\n")).expect("room");
        paths.push(path);
        expected.push(violations.is_empty());
    }
    for number in 0..150 {
        let mut add = |(path, good)| {
            paths.push(path);
            expected.push(good);
        };
        add(of_object(&Register, "register", number, place.path()));
        add(of_object(&Counters(2), "counters", number, place.path()));
        add(of_object(&Fields, "fields", number, place.path()));
        add(of_object(&List, "list", number, place.path()));
        add(of_object(&Lease, "lease", number, place.path()));
    }
    assert!(expected.len() > 1000);
    let output = Command::new(&program).args(&paths).output().expect("built");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let verdicts: Vec<&str> = said.lines().collect();
    assert_eq!(verdicts.len(), paths.len(), "{errors}");
    for ((path, good), verdict) in paths.iter().zip(&expected).zip(verdicts) {
        let ours = if *good { "linearizable" } else { "illegal" };
        let text = fs::read_to_string(path).expect("it was just there");
        assert_eq!(verdict, ours, "{}:\n{text}", path.display());
    }
    let good = expected.iter().filter(|good| **good).count();
    println!(
        "Porcupine agrees on {} histories, {good} of them linearizable",
        expected.len()
    );
}

/// A history of an object, spoiled or not, in a file; and our verdict.
fn of_object<M: Real>(model: &M, name: &str, number: u64, place: &Path) -> (PathBuf, bool)
where
    M::Call: Serialize,
    M::Answer: Serialize,
{
    let mut history = drawn(model, number, 8 + number % 20, 8);
    if number.is_multiple_of(2) {
        spoil::<M>(&mut history, number);
    }
    let lines = history.iter().map(serde_json::to_string);
    let lines: Vec<String> = lines.map(|line| line.expect("JSON")).collect();
    let path = place.join(format!("{number}.{name}.jsonl"));
    fs::write(&path, lines.join("\n")).expect("room");
    let verdict = search(model, &history, 10_000_000).expect("well-formed");
    assert!(verdict != Verdict::Undecided, "{name} {number}");
    (path, verdict == Verdict::Linearizable)
}
