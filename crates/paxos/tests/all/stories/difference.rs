//! Two texts, line by line.

use std::fmt::Write as _;

/// Lines around a difference that are shown too.
const AROUND: usize = 4;

pub fn between(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let marked = marked(&old, &new);
    let differs: Vec<usize> = (0..marked.len())
        .filter(|at| marked[*at].0 != ' ')
        .collect();
    let mut text = String::new();
    let mut skipped = true;
    for (at, (mark, line)) in marked.iter().enumerate() {
        if !differs.iter().any(|other| other.abs_diff(at) <= AROUND) {
            skipped = true;
            continue;
        }
        if std::mem::take(&mut skipped) {
            let _ = writeln!(text, "  ...");
        }
        let _ = writeln!(text, "{mark} {line}");
    }
    text
}

/// By the longest common subsequence.
fn marked<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            common[o][n] = match old[o] == new[n] {
                true => common[o + 1][n + 1] + 1,
                false => common[o + 1][n].max(common[o][n + 1]),
            };
        }
    }
    let (mut o, mut n, mut marked) = (0, 0, Vec::new());
    while o < old.len() || n < new.len() {
        if o < old.len() && n < new.len() && old[o] == new[n] {
            marked.push((' ', old[o]));
            (o, n) = (o + 1, n + 1);
        } else if n == new.len() || o < old.len() && common[o + 1][n] >= common[o][n + 1] {
            marked.push(('-', old[o]));
            o += 1;
        } else {
            marked.push(('+', new[n]));
            n += 1;
        }
    }
    marked
}
