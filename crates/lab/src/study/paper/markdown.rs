//! A table, and where a number comes from, as Markdown.

use super::kept::Kept;
use super::parts::Part;
use crate::study::tables::Table;

pub fn tables(parts: &[Part]) -> String {
    let all = parts.iter().map(|part| {
        let title = match part.title.is_empty() {
            true => String::new(),
            false => format!("*{}.*\n\n", escaped(&part.title)),
        };
        title + &table(&part.table)
    });
    all.collect::<Vec<_>>().join("\n\n")
}

pub fn table(table: &Table) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |", cells.join(" | "))
    };
    let mut lines = vec![line(&table.headings)];
    let rule = |at: usize| match is_number(table, at) {
        true => "---:",
        false => "---",
    };
    let rule: Vec<&str> = (0..table.headings.len()).map(rule).collect();
    lines.push(format!("|{}|", rule.join("|")));
    lines.extend(table.rows.iter().map(|row| line(row)));
    lines.join("\n")
}

/// Whether a column holds numbers alone, which stand to the right.
fn is_number(table: &Table, at: usize) -> bool {
    let cells = table.rows.iter().filter_map(|row| row.get(at));
    let mut said = cells.filter(|cell| !cell.is_empty()).peekable();
    said.peek().is_some() && said.all(|cell| cell.parse::<f64>().is_ok())
}

/// A cell's bars are no bars of the table, and its stars no emphasis.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
        .replace('*', "\\*")
        .replace('\n', " ")
}

/// The file of a run, its command, its program and its machine, which begins with the date.
pub fn origin(name: &str, kept: &Kept) -> String {
    let (run, program) = match (kept, kept.circumstances()) {
        (_, Some(both)) => both,
        (Kept::Bench(bench), None) => {
            return format!(
                "From [{name}](runs/{name}.json.gz): what `bench {}` printed with --json; {}.",
                bench.name,
                bench.machine()
            );
        }
        (_, None) => return format!("From [{name}](runs/{name}.json.gz)."),
    };
    let commit = match &program.commit {
        Some(commit) => format!("commit {commit}"),
        None => "a commit that it does not name".to_owned(),
    };
    let ended = match run.complete {
        true => "",
        false => "; it was ended before it had all of its rounds",
    };
    format!(
        "From [{name}](runs/{name}.json.gz): `{}`, a {} build of {commit}; {}{ended}.",
        command(&run.command),
        program.profile,
        run.machine
    )
}

/// The command without what says where its output and its files are.
fn command(typed: &str) -> String {
    let mut words = typed.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--json" => {}
            "--directory" | "--report" => drop(words.next()),
            _ if word.starts_with("--directory=") || word.starts_with("--report=") => {}
            word => kept.push(word),
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_what_somebody_would_type_elsewhere() {
        let typed = "logberg-lab mex fill --bytes 1GB --directory /data/scratch --json";
        assert_eq!(command(typed), "logberg-lab mex fill --bytes 1GB");
        assert_eq!(command("lab all --report=a.html"), "lab all");
    }

    #[test]
    fn a_table_is_markdown() {
        let of = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let shown = table(&Table {
            headings: of(&["a", "b", "c"]),
            rows: vec![of(&["x|y", "1.5", "1 to 2"])],
        });
        let wanted = "| a | b | c |\n|---|---:|---|\n| x\\|y | 1.5 | 1 to 2 |";
        assert_eq!(shown, wanted);
    }
}
