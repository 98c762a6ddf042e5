//! All commands. Names, arities, flags, groups and places of keys are what clients of Redis 7.0.15 count on. The sentences are our own.

mod connection;
mod hashes;
mod keys;
mod lists;
mod sets;
mod sorted_sets;
mod strings;

use crate::spec::{CommandSpec, Run};

const PARTS: [&[CommandSpec]; 7] = [
    strings::COMMANDS,
    keys::COMMANDS,
    hashes::COMMANDS,
    sets::COMMANDS,
    lists::COMMANDS,
    sorted_sets::COMMANDS,
    connection::COMMANDS,
];

/// All commands, by name.
pub(crate) const COMMANDS: &[CommandSpec] = &merged();

const COUNT: usize = {
    let (mut part, mut count) = (0, 0);
    while part < PARTS.len() {
        count += PARTS[part].len();
        part += 1;
    }
    count
};

/// Each part is in order, so the least of their first ones is the next.
const fn merged() -> [CommandSpec; COUNT] {
    let mut all = [row("", 0, &[], [0, 0, 0]); COUNT];
    let mut taken = [0; PARTS.len()];
    let mut at = 0;
    while at < COUNT {
        let (mut part, mut least) = (0, PARTS.len());
        while part < PARTS.len() {
            let has_more = taken[part] < PARTS[part].len();
            if has_more
                && (least == PARTS.len() || is_before(next(part, &taken), next(least, &taken)))
            {
                least = part;
            }
            part += 1;
        }
        all[at] = PARTS[least][taken[least]];
        taken[least] += 1;
        at += 1;
    }
    all
}

const fn next(part: usize, taken: &[usize; PARTS.len()]) -> &'static [u8] {
    PARTS[part][taken[part]].name.as_bytes()
}

const fn is_before(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() {
        if a[at] != b[at] {
            return a[at] < b[at];
        }
        at += 1;
    }
    a.len() < b.len()
}

const fn row(
    name: &'static str,
    arity: i32,
    flags: &'static [&'static str],
    [first_key, last_key, step]: [i32; 3],
) -> CommandSpec {
    CommandSpec {
        name,
        arity,
        flags,
        first_key,
        last_key,
        step,
        categories: &[],
        group: "",
        since: "",
        complexity: "",
        summary: "",
        run: None,
    }
}

impl CommandSpec {
    const fn about(
        self,
        group: &'static str,
        since: &'static str,
        complexity: &'static str,
    ) -> CommandSpec {
        CommandSpec {
            group,
            since,
            complexity,
            ..self
        }
    }

    const fn says(self, summary: &'static str, categories: &'static [&'static str]) -> CommandSpec {
        CommandSpec {
            summary,
            categories,
            ..self
        }
    }

    const fn on(self, run: Run) -> CommandSpec {
        CommandSpec {
            run: Some(run),
            ..self
        }
    }
}
