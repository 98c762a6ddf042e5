//! Two checkers and a brute force say the same of every small history.

use history::{Action, Malformed, Operation, check, is_linearizable};
use proptest::prelude::*;

use crate::small::history;

/// ⟨chain, position⟩, or a read's or a peek's number in the history.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Byte(u32, u64),
    Seen(usize),
}

/// By the definition alone: is there any order of all that was completed, and of any part of the
/// rest, that respects the times and in which each did what the object does?
fn by_force(history: &[Operation]) -> bool {
    let mut units = Vec::new();
    for (index, operation) in history.iter().enumerate() {
        let times = (operation.invoked, operation.completed);
        match operation.action {
            Action::Append { chain, from, to } => {
                units.extend((from..to).map(|position| (Unit::Byte(chain, position), times)));
            }
            _ => units.push((Unit::Seen(index), times)),
        }
    }
    let mut order = Vec::new();
    permute(history, &mut units, &mut order)
}

type Timed = (Unit, (u64, Option<u64>));

fn permute(history: &[Operation], left: &mut Vec<Timed>, order: &mut Vec<Timed>) -> bool {
    let rest_may_be_missing = left.iter().all(|(_, (_, completed))| completed.is_none());
    if rest_may_be_missing && is_possible(history, order) {
        return true;
    }
    for index in 0..left.len() {
        let unit = left.remove(index);
        order.push(unit);
        let found = is_possible(history, order) && permute(history, left, order);
        order.pop();
        left.insert(index, unit);
        if found {
            return true;
        }
    }
    false
}

fn is_possible(history: &[Operation], order: &[Timed]) -> bool {
    for (index, (_, (_, completed))) in order.iter().enumerate() {
        // Nothing that comes before was invoked after this had completed.
        let before = &order[..index];
        if before
            .iter()
            .any(|(_, (invoked, _))| completed.is_some_and(|completed| completed < *invoked))
        {
            return false;
        }
    }
    let mut output = Vec::new();
    for (unit, _) in order {
        match unit {
            Unit::Byte(chain, position) => {
                let held = output.iter().filter(|(of, _)| of == chain).count() as u64;
                if held != *position {
                    return false;
                }
                output.push((*chain, *position));
            }
            Unit::Seen(index) => {
                let (from, length, seen) = match &history[*index].action {
                    Action::Read { from, length, seen } => (*from, Some(*length), seen),
                    Action::Peek { from, seen } => (*from, None, seen),
                    Action::Append { .. } => unreachable!("appends are bytes"),
                };
                if length.is_some_and(|length| length != output.len() as u64) {
                    return false;
                }
                let bytes: Vec<(u32, u64)> = seen
                    .iter()
                    .flat_map(|extent| (extent.from..extent.to).map(|p| (extent.chain, p)))
                    .collect();
                let shown = output.get(from as usize..from as usize + bytes.len());
                if !bytes.is_empty() && shown != Some(&bytes[..]) {
                    return false;
                }
            }
        }
    }
    true
}

fn units(history: &[Operation]) -> u64 {
    let of = |operation: &Operation| match operation.action {
        Action::Append { from, to, .. } => to - from,
        _ => 1,
    };
    history.iter().map(of).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn the_exact_check_and_the_search_agree_with_brute_force(number: u64, steps in 1..6u64) {
        let history = history(number, steps);
        prop_assume!(units(&history) <= 8);
        let searched = is_linearizable(&history).expect("well-formed");
        prop_assert_eq!(searched, by_force(&history), "{:#?}", &history);
        match check(&history) {
            Ok(violations) => prop_assert_eq!(
                violations.is_empty(), searched, "{:?} of {:#?}", violations, &history
            ),
            // Bytes behind a hole that nobody looked into cannot be judged.
            Err(Malformed::Unseen(_)) => {}
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }

    #[test]
    fn the_exact_check_and_the_search_agree_on_longer_ones(number: u64, steps in 5..25u64) {
        let history = history(number, steps);
        let Ok(violations) = check(&history) else { return Ok(()); };
        let searched = is_linearizable(&history).expect("well-formed");
        prop_assert_eq!(violations.is_empty(), searched, "{:?} of {:#?}", violations, &history);
    }
}

#[test]
fn the_small_histories_are_of_both_kinds_and_seldom_unseen() {
    let mut counts = [0; 3];
    for number in 0..2000 {
        match check(&history(number, 12)) {
            Ok(violations) if violations.is_empty() => counts[0] += 1,
            Ok(_) => counts[1] += 1,
            Err(_) => counts[2] += 1,
        }
    }
    assert!(counts[0] > 500 && counts[1] > 200, "{counts:?}");
    assert!(counts[2] < 700, "{counts:?}");
}

#[test]
fn lines_are_read_as_they_were_written() {
    for number in 0..50 {
        let history = history(number, 12);
        let lines: Vec<String> = history.iter().map(history::to_line).collect();
        let text = format!("# number {number}\n\n{}\n", lines.join("\n"));
        assert_eq!(history::parse(&text), Ok(history));
    }
    let wrong = "{\"op\":\"append\",\"client\":1}";
    assert!(matches!(
        history::parse(wrong),
        Err(Malformed::Line { line: 1, .. })
    ));
}

#[test]
fn a_million_operations_are_checked_in_seconds() {
    let mut operations = Vec::new();
    for number in 0..500_000u64 {
        operations.push(Operation {
            client: 1,
            action: Action::Append {
                chain: 1,
                from: 10 * number,
                to: 10 * number + 10,
            },
            invoked: 5 * number,
            completed: Some(5 * number + 4),
        });
        let (from, length) = (10 * number, 10 * number + 10);
        let extent = (1, from, length).into();
        operations.push(Operation {
            client: 2,
            action: Action::Read {
                from,
                length,
                seen: vec![extent],
            },
            invoked: 5 * number + 1,
            completed: Some(5 * number + 3),
        });
    }
    let began = std::time::Instant::now();
    assert_eq!(check(&operations), Ok(Vec::new()));
    // The read of the middle now begins after the append behind it was acknowledged.
    operations[500_001].invoked += 9;
    operations[500_001].completed = operations[500_001].completed.map(|time| time + 9);
    let violations = check(&operations).expect("well-formed");
    assert_eq!(violations.len(), 1, "{violations:?}");
    assert_eq!(violations[0].observer(), Some(500_001));
    let took = began.elapsed();
    assert!(took.as_secs() < 30, "{took:?}");
}
