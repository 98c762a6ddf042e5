//! Scripts that nobody wrote: what comes of every line is the same on both kernels.
//!
//! Drawn are scripts whose outcomes leave no freedom: every op on files is waited for, and of
//! connections it is asked what arrives in all, not when.

use proptest::prelude::*;
use proptest::sample::select;

use crate::KERNELS;
use crate::kernels::{on_linux, on_sim};
use crate::script::{Line, Script};

const NAMES: [&str; 7] = ["a", "b", "d", "d/a", "d/b", "d/e", "a/b"];
const FILES: [&str; 3] = ["f", "g", "h"];

fn file_line() -> impl Strategy<Value = String> {
    let name = || select(&NAMES[..]);
    let file = || select(&FILES[..]);
    prop_oneof![
        2 => (file(), name()).prop_map(|(f, n)| format!("create {f} {n}")),
        2 => (file(), name()).prop_map(|(f, n)| format!("open {f} {n}")),
        1 => (file(), name()).prop_map(|(f, n)| format!("open-read {f} {n}")),
        1 => file().prop_map(|f| format!("close-file {f}")),
        4 => (file(), 0..6, 1..4).prop_map(|(f, at, n)| format!("write {f} {at} {n}")),
        4 => (file(), 0..8, 1..8).prop_map(|(f, at, n)| format!("read {f} {at} {n}")),
        2 => name().prop_map(|n| format!("mkdir {n}")),
        2 => (name(), 0..9000).prop_map(|(n, length)| format!("write-file {n} {length}")),
        2 => (name(), name()).prop_map(|(from, to)| format!("rename {from} {to}")),
        1 => name().prop_map(|n| format!("remove {n}")),
        1 => name().prop_map(|n| format!("space {n}")),
    ]
}

/// Of two connections, a to b and c to d; afterwards all say their end and read the other's.
fn socket_line() -> impl Strategy<Value = String> {
    let end = || select(&["a", "b", "c", "d"][..]);
    prop_oneof![
        6 => (end(), 0..20_000).prop_map(|(e, n)| format!("& send {e} {n}")),
        3 => (end(), 1..20_000).prop_map(|(e, n)| format!("& receive {e} {n} whole")),
        2 => end().prop_map(|e| format!("& receive {e} 1 there")),
        1 => end().prop_map(|e| format!("shutdown {e}")),
        1 => Just("pause 1".to_string()),
    ]
}

fn script(title: &str, lines: &[String]) -> Script {
    Script {
        title: title.to_string(),
        lines: lines.iter().map(|line| Line::read(line)).collect(),
    }
}

fn agree(script: &Script, seed: u64) -> Result<(), TestCaseError> {
    let simulated = on_sim(script, seed);
    for (mover, ink) in KERNELS {
        let real = on_linux(script, mover, ink).expect("nothing special is needed");
        for ((line, real), simulated) in script.lines.iter().zip(&real).zip(&simulated) {
            prop_assert_eq!(
                real,
                simulated,
                "`{}` ({}, {}): real, simulated",
                line,
                mover,
                ink
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 200,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_files(
        lines in proptest::collection::vec(file_line(), 1..40),
        seed in 0_u64..1000,
    ) {
        // Letters are as many as the alphabet has.
        let mut lines = lines;
        let writes = |line: &str| line.starts_with("write");
        let mut left = 26;
        lines.retain(|line| !writes(line) || { left -= 1; left >= 0 });
        lines.push("look".to_string());
        agree(&script("random files", &lines), seed)?;
    }

    #[test]
    fn random_connections(
        lines in proptest::collection::vec(socket_line(), 1..40),
        seed in 0_u64..1000,
    ) {
        let mut all: Vec<String> = ["listen p", "pair a b p", "pair c d p"].map(String::from).into();
        all.extend(lines);
        for end in ["a", "b", "c", "d"] {
            all.push(format!("shutdown {end}"));
        }
        for how in ["a", "b 3000 there", "c 70 there", "d"] {
            all.push(format!("& drain {how}"));
        }
        all.push("settle".to_string());
        agree(&script("random connections", &all), seed)?;
    }
}
