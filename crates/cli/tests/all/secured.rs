//! The commands of docs/security.md, as they stand there: somebody types them, and is told what the page says.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::outside;

use outside::{Running, free_ports};

const PAGE: &str = include_str!("../../../../docs/security.md");

/// A line of the page, and what is to come of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step<'a> {
    typed: &'a str,
    ends_with: i32,
    says: &'a str,
}

/// The lines of the first block below that heading.
fn block<'a>(page: &'a str, heading: &str) -> Vec<&'a str> {
    let lines = page.lines().skip_while(|line| *line != heading);
    let lines = lines.skip_while(|line| *line != "```").skip(1);
    lines.take_while(|line| *line != "```").collect()
}

/// `command   # words`, or `command   # exit code 4: words`
fn step(line: &str) -> Step<'_> {
    let (typed, said) = line.split_once("  # ").unwrap_or((line, ""));
    let typed = typed.trim_end();
    let Some(ends) = said.strip_prefix("exit code ") else {
        let says = said;
        return Step {
            typed,
            ends_with: 0,
            says,
        };
    };
    let (code, says) = ends.split_once(": ").expect("exit code N: words");
    let ends_with = code.parse().expect("an exit code");
    Step {
        typed,
        ends_with,
        says,
    }
}

/// Types all of it into one shell, in that directory, and returns each line's exit code and what it said.
fn typed(steps: &[Step], place: &Path, servers: &str) -> Vec<(i32, String)> {
    let mut script = String::new();
    for (number, step) in steps.iter().enumerate() {
        // What it says goes to a file, so that a `>` of its own comes first.
        script += &format!("{{ {}\n}} >said.{number} 2>&1\n", step.typed);
        script += &format!("echo $? >ended.{number}\n");
    }
    let program = Path::new(env!("CARGO_BIN_EXE_logberg"));
    let directory = program.parent().expect("it is in one");
    let path = std::env::var("PATH").unwrap_or_default();
    let shell = Command::new("sh")
        .args(["-c", &script])
        .current_dir(place)
        .env("PATH", format!("{}:{path}", directory.display()))
        .env("LOGBERG_SERVER", servers)
        .env_remove("LOGBERG_TOKEN")
        .output()
        .expect("a shell");
    assert!(shell.stderr.is_empty(), "{shell:?}");
    let read = |name: String| fs::read_to_string(place.join(name)).expect("it was written");
    (0..steps.len())
        .map(|number| {
            let ended = read(format!("ended.{number}"));
            let ended = ended.trim().parse().expect("an exit code");
            (ended, read(format!("said.{number}")))
        })
        .collect()
}

/// Types the block of the page below that heading into a new cluster, and looks at what is said. `some`: ‡ a page that lost its commands
/// would be true for ever.
fn type_block(heading: &str, begins: &str, some: &[&str]) -> (tempfile::TempDir, String) {
    let lines = block(PAGE, heading);
    let steps: Vec<Step> = lines.iter().map(|line| step(line)).collect();
    let (first, steps) = steps.split_first().expect("commands");
    assert_eq!(first.typed, begins, "the cluster comes first");
    for some in some {
        let is_there = steps.iter().any(|step| step.typed.contains(some));
        assert!(is_there, "the page has no `{some}`");
    }
    let place = tempfile::tempdir().expect("a place");
    // As the page has it, but for ports that nobody else uses now.
    let directory = place.path().join("logberg-dev");
    let port = free_ports(3).to_string();
    let mut dev = Running::start(&[
        "dev",
        "--json",
        "--dir",
        directory.to_str().expect("plain"),
        "--port",
        &port,
    ]);
    let ready: serde_json::Value = serde_json::from_str(&dev.first_line()).expect("it gets ready");
    let servers = ready["servers"].as_array().expect("a list").iter();
    let servers: Vec<&str> = servers.filter_map(|server| server.as_str()).collect();

    let results = typed(steps, place.path(), &servers.join(","));
    let mut story = String::new();
    for (step, (ended, said)) in steps.iter().zip(&results) {
        story += &format!("$ {}\n{said}", step.typed);
        assert_eq!(*ended, step.ends_with, "{story}");
        assert!(said.contains(step.says), "no {:?}:\n{story}", step.says);
    }
    dev.signal(rustix::process::Signal::INT);
    assert_eq!(dev.wait().code(), Some(0));
    (place, story)
}

#[test]
fn a_plain_cluster_has_two_tokens_once_the_page_was_typed() {
    let some = [
        "auth enable",
        "token create ci",
        "token rotate",
        "token revoke",
        "audit",
    ];
    let (place, story) = type_block("## Tokens", "logberg dev", &some);
    // Two tokens were made and printed, each into its file.
    for (file, begins) in [("root.token", "lgb_root_"), ("ci.token", "lgb_ci_")] {
        let token = fs::read_to_string(place.path().join(file)).expect("it was made");
        assert!(token.starts_with(begins) && token.lines().count() == 1);
        let secret = crate::tokens::secret_of(&token);
        assert!(!story.contains(secret), "a secret was told");
    }
}

#[test]
fn a_ticket_is_signed_shown_and_refused_as_the_page_has_it() {
    let some = ["issuer add", "issuer ticket", "whoami", "issuer remove"];
    let (place, story) = type_block("### Tickets", "logberg dev", &some);
    let ticket = fs::read_to_string(place.path().join("alice.ticket")).expect("it was signed");
    assert_eq!(ticket.trim().split('.').count(), 3);
    assert!(!story.contains(ticket.trim()), "a ticket was told");
}

/// The page and the program part: that is seen.
#[test]
fn a_line_that_is_not_so_is_found() {
    let page = "# A\n\n## Tokens\n\nWords.\n\n```\ntrue\nfalse   # exit code 1: no\n```\n\n```\nother\n```\n";
    let lines = block(page, "## Tokens");
    assert_eq!(lines, ["true", "false   # exit code 1: no"]);
    let no = Step {
        typed: "false",
        ends_with: 1,
        says: "no",
    };
    assert_eq!(step(lines[1]), no);
    assert_eq!((step("a # b").typed, step("a  # b").says), ("a # b", "b"));
    let place = tempfile::tempdir().expect("a place");
    let steps = [
        step("export WORD=kept"),
        step("echo $WORD  # kept"),
        step("echo aside >file"),
        step("logberg token nothing  # exit code 2: unrecognized"),
    ];
    let results = typed(&steps, place.path(), "127.0.0.1:1");
    assert_eq!(results[1], (0, "kept\n".to_owned()));
    assert_eq!(results[2], (0, String::new()));
    assert_eq!(results[3].0, 2, "{:?}", results[3]);
}
