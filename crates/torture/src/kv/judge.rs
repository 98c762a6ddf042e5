//! The verdict on every object.

use std::collections::BTreeMap;
use std::fmt::{Debug, Display, Write as _};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use history::{
    Contradiction, Counters, Fields, Lease, List, Model, Register, Timed, Verdict, search,
};
use serde::Serialize;

use super::book::{Book, Record};
use super::growing;
use super::objects::{Kind, Object};

/// What the search may take for one object.
const STEPS_MAX: u64 = 5_000_000;

#[derive(Debug, Default, Serialize)]
pub struct Judged {
    pub objects: u64,
    /// In the histories that were checked.
    pub operations: u64,
    pub linearizable: u64,
    /// The names of objects whose answers no order explains …
    pub refused: Vec<String>,
    /// … and of those for which the search took too long.
    pub undecided: Vec<String>,
    #[serde(skip)]
    pub violations: Vec<String>,
    /// The files' names and contents, of objects that are not as they must be.
    #[serde(skip)]
    pub files: BTreeMap<String, String>,
}

enum Found {
    Linearizable,
    Refused(Vec<String>),
    Undecided,
}

pub fn judge(book: &Book) -> Judged {
    book.with_records(|records| {
        let mut judged = Judged::default();
        for (object, record) in records {
            judged.one(object, record);
        }
        judged
    })
}

impl Judged {
    fn one(&mut self, object: &Object, record: &Record) {
        let (found, operations, lines) = match record {
            Record::Register(all) => of(&Register, all),
            Record::Counters(all) => of(&Counters(counters(object.kind)), all),
            Record::Fields(all) => of(&Fields, all),
            Record::List(all) => of(&List, all),
            Record::Lease(all) => of(&Lease, all),
            Record::Growing(all) => of_growing(&growing::operations(all)),
        };
        let name = object.name();
        self.objects += 1;
        self.operations += operations as u64;
        match found {
            Found::Linearizable => {
                self.linearizable += 1;
                return;
            }
            Found::Undecided => self.undecided.push(name.clone()),
            Found::Refused(sentences) => {
                self.refused.push(name.clone());
                let told = sentences
                    .iter()
                    .map(|sentence| format!("{name}: {sentence}"));
                self.violations.extend(told);
            }
        }
        let file = format!(
            "{}-{}-{}.{}.jsonl",
            object.era,
            object.kind.name(),
            object.tag,
            model(object.kind)
        );
        self.files.insert(file, lines);
    }

    /// Writes the histories of objects that are not as they must be.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let place = directory.join("history");
        fs::create_dir_all(&place)?;
        for (name, lines) in &self.files {
            let path = place.join(name);
            fs::write(&path, lines).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

fn counters(kind: Kind) -> usize {
    match kind {
        Kind::Accounts => 2,
        _ => 1,
    }
}

/// As the second checker reads it (crates/history/porcupine).
fn model(kind: Kind) -> &'static str {
    match kind {
        Kind::Register | Kind::Pair => "register",
        Kind::Counter | Kind::Accounts => "counters",
        Kind::Fields => "fields",
        Kind::List => "list",
        Kind::Lease => "lease",
        Kind::Lines | Kind::Text => "growing",
    }
}

fn of<M: Model>(model: &M, all: &[Timed<M::Call, M::Answer>]) -> (Found, usize, String)
where
    M::Call: Display + Serialize,
    M::Answer: Display + Serialize,
    M::State: Debug,
{
    let found = match search(model, all, STEPS_MAX) {
        Ok(Verdict::Linearizable) => Found::Linearizable,
        Ok(Verdict::Undecided) => Found::Undecided,
        Ok(Verdict::Refused(contradiction)) => {
            Found::Refused(vec![sentence::<M>(&contradiction, all)])
        }
        Err(error) => Found::Refused(vec![error.to_string()]),
    };
    (found, all.len(), lines(all))
}

fn of_growing(all: &[history::Operation]) -> (Found, usize, String) {
    let found = match history::check(all) {
        Ok(violations) if violations.is_empty() => Found::Linearizable,
        Ok(violations) => {
            let sentences = violations.iter().map(ToString::to_string);
            Found::Refused(sentences.collect())
        }
        Err(error) => Found::Refused(vec![error.to_string()]),
    };
    (found, all.len(), lines(all))
}

fn lines<T: Serialize>(all: &[T]) -> String {
    let lines = all.iter().filter_map(|one| serde_json::to_string(one).ok());
    let mut text = lines.collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// More states than these are not told.
const STATES_TOLD: usize = 3;

fn sentence<M: Model>(found: &Contradiction<M::State>, all: &[Timed<M::Call, M::Answer>]) -> String
where
    M::Call: Display,
    M::Answer: Display,
    M::State: Debug,
{
    let states = found.then.iter().take(STATES_TOLD);
    let mut states: Vec<String> = states.map(|state| format!("{state:?}")).collect();
    if found.then.len() > STATES_TOLD {
        states.push(format!("{} more", found.then.len() - STATES_TOLD));
    }
    let mut text = format!(
        "no order explains these answers, where it was {} at {}:",
        states.join(" or "),
        seconds(found.quiet_at)
    );
    for timed in found.calls.iter().filter_map(|index| all.get(*index)) {
        let completed = timed.completed.map_or_else(|| "?".to_owned(), seconds);
        let answer = timed.answer.as_ref().map(ToString::to_string);
        let _ = write!(
            text,
            "\n  client {} from {} to {completed}: {} → {}",
            timed.client,
            seconds(timed.invoked),
            timed.call,
            answer.unwrap_or_default()
        );
    }
    text
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
}
