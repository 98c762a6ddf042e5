//! A bench's printed object, as a table: benches have objects of their own, each of another shape.

use serde_json::Value;

use crate::study::tables::Table;

/// More rows are samples, and no table.
const ROWS_MAX: usize = 200;

/// All that lies below a path such as `figures` or `machine.kernel`, or all of it. Things that have the same keys are a table of these keys, and else
/// each number and each word is a row. `None`: there is nothing, or too much.
pub fn of(said: &Value, path: Option<&str>) -> Option<Table> {
    let mut found = said;
    for key in path.into_iter().flat_map(|path| path.split('.')) {
        found = match key.parse::<usize>() {
            Ok(at) if found.is_array() => found.get(at)?,
            _ => found.get(key)?,
        };
    }
    let table = alike(found).unwrap_or_else(|| flat(found));
    (1..=ROWS_MAX).contains(&table.rows.len()).then_some(table)
}

/// The parts of an object or a list, with their names.
fn parts(of: &Value) -> Vec<(String, &Value)> {
    match of {
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(all) => {
            let numbered = all.iter().enumerate();
            numbered
                .map(|(at, value)| (at.to_string(), value))
                .collect()
        }
        _ => Vec::new(),
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(is_so) => Some(is_so.to_string()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// A row for each part, if all of them are things that say the same numbers and words. What lies deeper is left out.
fn alike(of: &Value) -> Option<Table> {
    let parts = parts(of);
    let first = parts.first()?.1.as_object()?;
    let said = first.iter().filter(|(_, value)| text(value).is_some());
    let keys: Vec<&String> = said.map(|(key, _)| key).collect();
    let row = |(name, part): &(String, &Value)| {
        let cells = keys.iter().map(|key| text(part.get(key)?));
        std::iter::once(Some(name.clone()))
            .chain(cells)
            .collect::<Option<Vec<String>>>()
    };
    let mut headings = vec![String::new()];
    headings.extend(keys.iter().map(|key| (*key).clone()));
    let rows = parts.iter().map(row).collect::<Option<_>>()?;
    (!keys.is_empty()).then_some(Table { headings, rows })
}

fn flat(of: &Value) -> Table {
    let mut rows = Vec::new();
    add(&mut rows, "", of);
    Table {
        headings: ["figure", "value"].map(str::to_owned).to_vec(),
        rows,
    }
}

fn add(rows: &mut Vec<Vec<String>>, path: &str, value: &Value) {
    if let Some(text) = text(value) {
        rows.push(vec![path.to_owned(), text]);
        return;
    }
    for (name, part) in parts(value) {
        let below = match path {
            "" => name,
            path => format!("{path}.{name}"),
        };
        add(rows, &below, part);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_that_are_alike_are_rows_of_one_table() {
        let said = json!({"bench": "append", "ratio": 0.9, "figures": {
            "mb_per_s": {"cluster": 500.0, "floor": 400, "ratio": null, "turns": [1]},
            "p50_ms": {"cluster": 1.5, "floor": 1.0, "ratio": 1.5},
        }});
        let table = of(&said, Some("figures")).expect("there");
        assert_eq!(table.headings, ["", "cluster", "floor", "ratio"]);
        assert_eq!(table.rows[0], ["mb_per_s", "500.0", "400", ""]);
        let one = of(&said, Some("figures.p50_ms.cluster")).expect("there");
        assert_eq!(one.rows, [["", "1.5"]]);
        let all = of(&said, None).expect("there");
        assert_eq!(all.rows[0], ["bench", "append"]);
        assert_eq!(all.rows.len(), 9);
        assert_eq!(of(&said, Some("nothing")), None);
        assert_eq!(of(&json!({"samples": vec![1; 1000]}), None), None);
    }
}
