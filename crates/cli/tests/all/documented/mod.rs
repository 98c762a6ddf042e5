//! Commands that the documents tell people to type: each is one. For the tests of both programs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Commands that have commands of their own.
const GROUPS: [&str; 9] = [
    "auth", "bench", "issuer", "kv", "leader", "log", "members", "stream", "token",
];

/// Asks the program for help on every command that is typed to it somewhere. `some`: of those that must be found.
pub fn check(program: &str, some: &[&str]) {
    let name = Path::new(program).file_name().expect("a program");
    let name = name.to_str().expect("plain");
    let mut typed = BTreeSet::new();
    for path in documents() {
        let text = fs::read_to_string(&path).expect("text");
        for line in code(&text) {
            typed.extend(commands(&line, name).map(|command| (command, path.clone())));
        }
    }
    for command in some {
        let found = typed.iter().any(|(typed, _)| typed == command);
        assert!(found, "nobody is told to type {name} {command}: {typed:?}");
    }
    let mut asked = BTreeSet::new();
    for (command, path) in &typed {
        if asked.insert(command) {
            let mut help = Command::new(program);
            let output = help.args(command.split(' ')).arg("--help").output();
            let ended = output.expect("the program runs").status.code();
            assert_eq!(ended, Some(0), "{name} {command}, in {}", path.display());
        }
    }
}

fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = fs::read_dir(root.join("docs")).expect("the documents");
    let pages = pages.map(|page| page.expect("readable").path());
    // The words of programs to each other are nobody's to type.
    let pages = pages.filter(|path| !path.ends_with("wire.md"));
    let others = ["README.md", "ARCHITECTURE.md", "justfile", ".ci/run"];
    let others = others.map(|name| root.join(name));
    pages.filter(|path| path.is_file()).chain(others).collect()
}

/// The text between backticks, also over a line's end, and the lines of blocks. A file that is no page gives
/// every line.
fn code(text: &str) -> Vec<String> {
    let lines = || text.lines().map(str::to_owned);
    if !text.starts_with("# ") {
        return lines().collect();
    }
    let (mut found, mut paragraph, mut in_block) = (Vec::new(), String::new(), false);
    for line in lines().chain([String::new()]) {
        let fence = line.trim_start().starts_with("```");
        if fence || (line.is_empty() && !in_block) {
            let spans = paragraph.split('`').skip(1).step_by(2);
            found.extend(spans.map(str::to_owned));
            paragraph.clear();
        }
        match (fence, in_block) {
            (true, _) => in_block = !in_block,
            (false, true) => found.push(line),
            (false, false) => paragraph += &(line + "\n"),
        }
    }
    found
}

/// The commands among `name A B …`, and among what cargo runs for the program of that name.
fn commands(code: &str, name: &str) -> impl Iterator<Item = String> {
    // The explanation of a command stands beside it.
    let code = code.trim_start().split("  ").next().unwrap_or_default();
    let words: Vec<&str> = code.split_whitespace().collect();
    let of_cargo = words.windows(2).any(|pair| pair == ["cargo", "run"]) && !words.contains(&"-p");
    let built = words.windows(2).find(|pair| pair[0] == "--bin");
    let runs = of_cargo && built.map_or("logberg", |pair| pair[1]) == name;
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let begins = match runs {
            true => *word == "--",
            false => *word == name && !words[..at].contains(&"--bin"),
        };
        if begins {
            found.extend(command(&words[at + 1..]));
        }
    }
    found.into_iter()
}

fn command(words: &[&str]) -> Option<String> {
    let words = match words {
        ["--server", _, rest @ ..] => rest,
        words => words,
    };
    let is_name = |word: &&str| word.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'-'));
    let begins = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    let mut names = words
        .iter()
        .copied()
        .take_while(|word| is_name(word) && begins(word));
    let first = names.next()?;
    match (GROUPS.contains(&first), names.next()) {
        (true, Some(second)) => Some(format!("{first} {second}")),
        _ => Some(first.to_owned()),
    }
}

#[test]
fn what_is_typed_is_found_in_code_alone() {
    let page = "# A\nlogberg is a program; `logberg log\nretain main 1G` and `logberg --help`\n```\nlogberg --server a:1 members   the nodes\ncargo run --release -- demo --bytes 1\ncargo run --bin logberg-lab -- sim\n```\n";
    let typed = |name| {
        let typed = code(page);
        let typed = typed.iter().flat_map(|line| commands(line, name));
        typed.collect::<Vec<_>>()
    };
    assert_eq!(typed("logberg"), ["log retain", "members", "demo"]);
    assert_eq!(typed("logberg-lab"), ["sim"]);
}
