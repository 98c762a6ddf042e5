//! The search on objects that keys hold: held to brute force, and to what must come of histories that are known.

use history::{
    Contradiction, Counters, Fields, History, Lease, List, Register, Timed, Verdict, parse_calls,
    search,
};
use history::{counters, lease, list, register};
use proptest::prelude::*;

use crate::drawn::{Real, drawn, spoil};

const STEPS_MAX: u64 = 1_000_000;

/// By the definition alone: is there any order of all that was answered, and of any part of the rest, that respects the times and in
/// which each did what the object does?
fn by_force<M: Real>(model: &M, history: &History<M>) -> bool {
    let mut left: Vec<usize> = (0..history.len()).collect();
    goes_on(model, history, &mut left, &model.first())
}

fn goes_on<M: Real>(
    model: &M,
    history: &History<M>,
    left: &mut Vec<usize>,
    state: &M::State,
) -> bool {
    if left.iter().all(|index| history[*index].answer.is_none()) {
        return true;
    }
    for at in 0..left.len() {
        let timed = &history[left[at]];
        let mut others = left.iter().filter_map(|index| history[*index].completed);
        // What completed before this was invoked is to take effect first.
        if others.any(|completed| completed < timed.invoked) {
            continue;
        }
        let Some(after) = model.step(state, &timed.call, timed.answer.as_ref()) else {
            continue;
        };
        let index = left.remove(at);
        let found = goes_on(model, history, left, &after);
        left.insert(at, index);
        if found {
            return true;
        }
    }
    false
}

/// Numbers of histories of both kinds.
#[derive(Default)]
struct Counts {
    good: u32,
    bad: u32,
}

fn agrees<M: Real>(model: &M, number: u64, steps: u64, counts: &mut Counts) {
    let mut history = drawn(model, number, steps, 6);
    if !number.is_multiple_of(3) {
        spoil::<M>(&mut history, number);
    }
    let verdict = search(model, &history, STEPS_MAX).expect("well-formed");
    match by_force(model, &history) {
        true => {
            assert!(verdict == Verdict::Linearizable, "number {number}");
            counts.good += 1;
        }
        false => {
            let Verdict::Refused(found) = verdict else {
                panic!("number {number} is refused by force");
            };
            is_least(model, &history, &found);
            counts.bad += 1;
        }
    }
}

/// The calls that are named contradict each other behind the quiet moment, and no one of them can be left out.
fn is_least<M: Real>(model: &M, history: &History<M>, found: &Contradiction<M::State>) {
    let only = |left_out: Option<usize>| -> History<M> {
        let is_known = |index: usize, timed: &Timed<_, _>| {
            timed.invoked < found.quiet_at
                || found.calls.contains(&index) && Some(index) != left_out
        };
        let calls = history.iter().cloned().enumerate();
        let calls = calls.map(|(index, timed)| match is_known(index, &timed) {
            true => timed,
            false => timed.open(),
        });
        calls.collect()
    };
    assert!(!by_force(model, &only(None)), "{:?}", found.calls);
    for call in &found.calls {
        assert!(
            by_force(model, &only(Some(*call))),
            "{call} of {:?}",
            found.calls
        );
    }
}

#[test]
fn the_search_agrees_with_brute_force_on_every_object() {
    let mut counts = [(); 5].map(|()| Counts::default());
    for number in 0..600 {
        let steps = 1 + number % 6;
        let [registers, numbers, hashes, lists, leases] = &mut counts;
        agrees(&Register, number, steps, registers);
        agrees(&Counters(2), number, steps, numbers);
        agrees(&Fields, number, steps, hashes);
        agrees(&List, number, steps, lists);
        agrees(&Lease, number, steps, leases);
    }
    for Counts { good, bad } in counts {
        assert!(good > 100 && bad > 60, "{good} good, {bad} bad");
    }
}

/// Of long histories that are possible, and of the same with one answer that nobody could have been given.
fn long<M: Real>(model: &M, number: u64, impossible: impl Fn(&mut M::Answer) -> bool) {
    let mut history = drawn(model, number, 300, 100);
    let verdict = search(model, &history, STEPS_MAX);
    assert!(verdict == Ok(Verdict::Linearizable), "number {number}");
    let from = 150 + number as usize % 100;
    let wrong = history[from..]
        .iter_mut()
        .position(|call| call.answer.as_mut().is_some_and(&impossible));
    let wrong = from + wrong.expect("some call was answered so");
    match search(model, &history, STEPS_MAX) {
        Ok(Verdict::Refused(found)) => assert!(found.calls.contains(&wrong), "{number}"),
        _ => panic!("number {number} is not refused"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn long_histories_are_taken_as_they_were_and_refused_when_one_answer_is_spoiled(number: u64) {
        // Swaps are drawn blindly, so the calls of a register that can happen are those without.
        long(&Counters(1), number, |answer| {
            answer.0[0] += 1000;
            true
        });
        long(&Fields, number, |answer| match answer {
            history::fields::Answer::Value(value) => {
                *value = Some("nobody's".to_owned());
                true
            }
            _ => false,
        });
        long(&List, number, |answer| match answer {
            list::Answer::All(items) => {
                items.push("nobody's".to_owned());
                true
            }
            _ => false,
        });
    }
}

fn timed<C, A>(call: C, answer: Option<A>, invoked: u64, completed: u64) -> Timed<C, A> {
    Timed {
        client: 1,
        call,
        completed: answer.is_some().then_some(completed),
        answer,
        invoked,
    }
}

fn set(value: &str, invoked: u64, completed: u64) -> Timed<register::Call, register::Answer> {
    let call = register::Call::Set(value.to_owned());
    timed(call, Some(register::Answer::Done), invoked, completed)
}

fn get(value: &str, invoked: u64, completed: u64) -> Timed<register::Call, register::Answer> {
    let value = register::Answer::Value(Some(value.to_owned()));
    timed(register::Call::Get, Some(value), invoked, completed)
}

/// Writes one after the other, and readers all the time.
fn calm(writes: u64) -> History<Register> {
    let mut history = Vec::new();
    for number in 0..writes {
        history.push(set(&format!("v{number}"), 100 * number, 100 * number + 50));
        let (from, to) = (100 * number + 60, 100 * number + 90);
        history.push(get(&format!("v{number}"), from, to));
    }
    history
}

#[test]
fn a_client_that_reads_backwards_is_refused_and_the_calls_are_named_that_say_so() {
    let mut history = calm(300);
    // It sees the new value while that is written, and the old one later: each alone could be.
    history[402] = set("v201", 20_100, 20_190);
    history[401] = get("v201", 20_110, 20_120);
    history[403] = get("v200", 20_130, 20_140);
    let verdict = search(&Register, &history, STEPS_MAX);
    let found = Contradiction {
        quiet_at: 20_100,
        then: vec![Some("v200".to_owned())],
        calls: vec![401, 403],
    };
    assert_eq!(verdict, Ok(Verdict::Refused(found)));
    // A stale read long after all was quiet.
    let mut history = calm(300);
    history[401] = get("v199", 20_060, 20_090);
    let Ok(Verdict::Refused(found)) = search(&Register, &history, STEPS_MAX) else {
        panic!("a stale read is taken");
    };
    assert_eq!(found.then, [Some("v200".to_owned())]);
    assert_eq!(found.calls, [401]);
}

#[test]
fn calls_that_were_never_answered_may_take_effect_late_and_at_most_once() {
    let add = |answer: Option<i64>, invoked, completed| {
        let answer = answer.map(|number| counters::Answer(vec![number]));
        timed(counters::Call(vec![(0, 1)]), answer, invoked, completed)
    };
    let read = |number, invoked, completed| {
        let answer = Some(counters::Answer(vec![number]));
        timed(counters::Call(vec![(0, 0)]), answer, invoked, completed)
    };
    let mut history: History<Counters> = (0..60).map(|at| add(None, at, at)).collect();
    history.extend((0..50).map(|at| read(at, 1000 + 10 * at as u64, 1005 + 10 * at as u64)));
    history.push(add(Some(60), 2000, 2010));
    let verdict = |history: &History<Counters>| search(&Counters(1), history, STEPS_MAX);
    assert_eq!(verdict(&history), Ok(Verdict::Linearizable));
    history.push(read(61, 2020, 2030));
    assert_eq!(verdict(&history), Ok(Verdict::Linearizable));
    history.push(read(62, 2040, 2050));
    assert!(matches!(verdict(&history), Ok(Verdict::Refused(_))));
}

#[test]
fn what_takes_too_long_is_undecided_and_so_is_too_much_at_once() {
    // Any order of the pushes could be, until the last read says that none was.
    let push = |at: u64| {
        let call = list::Call::PushBack(format!("i{at}"));
        timed(call, None::<list::Answer>, at, at)
    };
    let all = list::Answer::All(vec!["nobody's".to_owned()]);
    let mut history: History<List> = (0..12).map(push).collect();
    history.push(timed(list::Call::All, Some(all), 100, 110));
    assert_eq!(search(&List, &history, 10_000), Ok(Verdict::Undecided));
    let mut history: History<List> = (0..200).map(push).collect();
    let none = list::Answer::All(Vec::new());
    history.push(timed(list::Call::All, Some(none), 1000, 1010));
    assert_eq!(search(&List, &history, STEPS_MAX), Ok(Verdict::Undecided));
}

/// A lease of 100, taken from 0 to 10 and answered so; then what others were answered.
fn leased(others: &[(lease::Ask, lease::Answer, u64, u64)]) -> bool {
    let take = lease::Ask::Take {
        value: "a".to_owned(),
        gone_from: 100,
        gone_by: Some(110),
    };
    let first = [(take, lease::Answer::Did(true), 0, 10)];
    let all = first.iter().chain(others);
    let history: History<Lease> = all
        .map(|(ask, answer, begun, ended)| {
            let call = lease::Call {
                ask: ask.clone(),
                begun: *begun,
                ended: Some(*ended),
            };
            timed(call, Some(answer.clone()), *begun, *ended)
        })
        .collect();
    search(&Lease, &history, STEPS_MAX) == Ok(Verdict::Linearizable)
}

#[test]
fn a_lease_is_neither_gone_early_nor_there_late_and_never_comes_back() {
    let there = lease::Answer::Value(Some("a".to_owned()));
    let gone = lease::Answer::Value(None);
    let get =
        |answer: &lease::Answer, begun, ended| (lease::Ask::Get, answer.clone(), begun, ended);
    assert!(leased(&[
        get(&there, 20, 30),
        get(&there, 105, 130),
        get(&gone, 120, 130)
    ]));
    assert!(leased(&[get(&gone, 95, 101)]));
    assert!(!leased(&[get(&gone, 20, 99)]), "early");
    assert!(!leased(&[get(&there, 111, 120)]), "late");
    assert!(
        !leased(&[get(&gone, 100, 102), get(&there, 103, 104)]),
        "again"
    );
    let again = |begun, ended| {
        let take = lease::Ask::Take {
            value: "b".to_owned(),
            gone_from: 1000,
            gone_by: None,
        };
        (take, lease::Answer::Did(true), begun, ended)
    };
    assert!(leased(&[again(99, 101)]));
    assert!(!leased(&[again(50, 90)]), "two hold it");
}

#[test]
fn calls_are_read_as_they_were_written() {
    let history = drawn(&Fields, 7, 50, 6);
    let lines: Vec<String> = history
        .iter()
        .map(|timed| serde_json::to_string(timed).expect("JSON"))
        .collect();
    assert_eq!(parse_calls(&lines.join("\n\n")), Ok(history));
    let mut history = calm(1);
    history[1].completed = None;
    assert_eq!(
        search(&Register, &history, STEPS_MAX),
        Err(history::Malformed::Answer(1))
    );
}
