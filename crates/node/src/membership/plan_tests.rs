use paxos::Member;
use proptest::prelude::*;

use super::*;

fn configuration(weights: &[u32], auxiliary: &[u32]) -> Option<Configuration> {
    let members = (1..).zip(weights).filter(|(_, weight)| **weight > 0);
    let members = members.map(|(node, weight)| Member {
        node: NodeId(node),
        weight: *weight,
        auxiliary: auxiliary.contains(&node),
    });
    Configuration::new(members).ok()
}

fn wanted(weights: &[u32]) -> BTreeMap<u32, u32> {
    let weights = (1..).zip(weights.iter().copied());
    weights.filter(|(_, weight)| *weight > 0).collect()
}

/// A letter for each node; a blank is none.
fn zones(letters: &str) -> BTreeMap<u32, String> {
    let zones = (1..).zip(letters.chars());
    let zones = zones.filter(|(_, letter)| *letter != ' ');
    zones
        .map(|(node, letter)| (node, letter.to_string()))
        .collect()
}

fn weights_of(configuration: &Configuration, count: usize) -> Weights {
    let nodes = (1..=count as u32).map(NodeId);
    nodes.map(|node| configuration.weight(node)).collect()
}

const NOBODY: &BTreeSet<u32> = &BTreeSet::new();
const NO_ZONES: &BTreeMap<u32, String> = &BTreeMap::new();

fn goal(weights: &BTreeMap<u32, u32>) -> Goal<'_> {
    Goal {
        weights,
        zones: NO_ZONES,
        silent: NOBODY,
    }
}

/// Every configuration on the way, the first and the last included.
fn way(now: &[u32], end: &[u32], letters: &str) -> Vec<Weights> {
    way_without(now, end, letters, NOBODY)
}

fn way_without(now: &[u32], end: &[u32], letters: &str, silent: &BTreeSet<u32>) -> Vec<Weights> {
    let (weights, zones) = (wanted(end), zones(letters));
    let goal = Goal {
        zones: &zones,
        silent,
        ..goal(&weights)
    };
    let mut at = configuration(now, &[]).unwrap();
    let mut seen = vec![now.to_vec()];
    for change in plan(&at, goal).expect("a plan") {
        at = at.apply(change).expect("a legal step");
        seen.push(weights_of(&at, now.len()));
    }
    assert_eq!(seen.last().unwrap(), end);
    seen
}

#[test]
fn a_node_is_added_before_another_is_taken_away() {
    let silent = BTreeSet::from([3]);
    let way = way_without(&[1, 1, 1, 0], &[1, 1, 0, 1], "", &silent);
    assert_eq!(way[1..], [vec![1, 1, 1, 1], vec![1, 1, 0, 1]]);
}

#[test]
fn while_all_are_well_each_era_begins_by_a_casting_vote() {
    for (now, end) in [
        (vec![1, 1, 1, 0], vec![1, 1, 0, 1]),
        (vec![1, 1, 1, 1, 1, 0], vec![0, 1, 1, 1, 1, 1]),
    ] {
        for weights in way(&now, &end, "") {
            let voters: Vec<u32> = weights.iter().copied().filter(|w| *w > 0).collect();
            let most = voters.iter().max().unwrap();
            let leader = voters.iter().position(|weight| weight == most).unwrap();
            let others: Vec<u32> = (0..voters.len())
                .filter(|n| *n != leader)
                .map(|n| voters[n])
                .collect();
            // The answer is held against every way there is to deal the others out.
            let total: u32 = voters.iter().sum();
            let part = |mask: u32| -> u32 {
                let chosen = others
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| mask & 1 << n != 0);
                chosen.map(|(_, weight)| weight).sum()
            };
            let mut masks = 0..1u32 << others.len();
            let has = |mask: u32| {
                let (one, all) = (part(mask), part(u32::MAX));
                2 * (most + one) > total && 2 * (most + all - one) > total
            };
            assert!(masks.any(has), "{weights:?} in {:?}", way(&now, &end, ""));
        }
    }
}

/// Turner, 2016: the example of the paper.
#[test]
fn a_node_is_replaced_within_its_zone_which_never_has_half_of_the_weight() {
    let way = way(&[1, 1, 1, 0], &[1, 1, 0, 1], "abcc");
    let between: [[u32; 4]; 6] = [
        [2, 2, 2, 0],
        [2, 2, 2, 1],
        [2, 2, 1, 1],
        [2, 2, 1, 2],
        [2, 2, 0, 2],
        [1, 1, 0, 1],
    ];
    assert_eq!(way[1..], between.map(|weights| weights.to_vec()));
}

#[test]
fn weights_are_scaled_where_that_is_shorter_or_nobody_gets_half() {
    assert_eq!(way(&[1, 1, 1], &[4, 4, 4], "").len(), 2);
    assert_eq!(way(&[6, 6, 6], &[4, 4, 4], "").len(), 3);
    let half = way(&[1, 1, 1], &[3, 2, 2], "");
    assert_eq!(half[1..], [vec![2, 2, 2], vec![3, 2, 2]]);
}

#[test]
fn one_node_grows_to_three_and_three_shrink_to_one() {
    let all = BTreeSet::from([1, 2, 3]);
    let way = |now: &[u32], end: &[u32]| way_without(now, end, "", &all);
    let up = way(&[1, 0, 0], &[1, 1, 1]);
    assert_eq!(up[1..], [vec![1, 1, 0], vec![1, 1, 1]]);
    let down = way(&[1, 1, 1], &[0, 1, 0]);
    assert_eq!(down.len(), 3);
    let moved = way(&[1, 0], &[0, 1]);
    assert_eq!(moved[1..], [vec![1, 1], vec![0, 1]]);
}

#[test]
fn another_node_is_given_weight_while_one_is_away() {
    let weights = wanted(&[1, 1, 1]);
    let goal = goal(&weights);
    let one = configuration(&[1, 0, 0], &[]).unwrap();
    let step = next_step(&one, goal, |node| node != NodeId(2));
    assert_eq!(step, Some(Change::Increment(NodeId(3))));
    let two = configuration(&[1, 0, 1], &[]).unwrap();
    let step = next_step(&two, goal, |node| node != NodeId(2));
    assert_eq!(
        step,
        Some(Change::Increment(NodeId(2))),
        "who asks waits for it"
    );
}

#[test]
fn nobody_is_taken_away_for_one_that_cannot_be_given_its_weight() {
    let weights = wanted(&[1, 1, 0, 1]);
    let silent = BTreeSet::from([4]);
    let goal = Goal {
        silent: &silent,
        ..goal(&weights)
    };
    let mut at = configuration(&[1, 1, 1, 0], &[]).unwrap();
    loop {
        match next_step(&at, goal, |_| false).unwrap() {
            Change::Increment(node) => break assert_eq!(node, NodeId(4)),
            change @ Change::Multiply(_) => at = at.apply(change).unwrap(),
            other => panic!("{other:?} while node 4 is away"),
        }
    }
}

#[test]
fn an_auxiliary_is_made_active_before_the_active_ones_are_no_quorum() {
    let marked = configuration(&[1, 1, 1], &[3]).unwrap();
    let weights = wanted(&[0, 1, 1]);
    let goal = goal(&weights);
    let changes = plan(&marked, goal).unwrap();
    let (unmark, take) = (
        Change::UnmarkAuxiliary(NodeId(3)),
        Change::Decrement(NodeId(1)),
    );
    assert_eq!(changes, [unmark, take]);
}

#[test]
fn what_takes_too_many_steps_or_too_much_weight_has_no_plan() {
    let plan =
        |now: &[u32], end: &[u32]| plan(&configuration(now, &[]).unwrap(), goal(&wanted(end)));
    assert_eq!(plan(&[1, 1, 1], &[997, 499, 500]), None);
    assert_eq!(plan(&[1, 1, 1], &[1 << 20, 1, 1]), None);
    assert!(
        plan(&[1, 1, 1], &[300_000; 3]).is_some(),
        "one multiplication"
    );
}

fn some_weights() -> impl Strategy<Value = Weights> {
    let weights = proptest::collection::vec(0u32..6, 6);
    weights.prop_filter("somebody has weight", |weights| total(weights) > 0)
}

fn some_zones() -> impl Strategy<Value = String> {
    "[abc ]{6}"
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The whole contract of a plan. (That its steps are legal, `way` insists on.)
    #[test]
    fn every_way_ends_at_the_goal_and_nobody_rules_alone_on_it(
        now in some_weights(), end in some_weights(), letters in some_zones()
    ) {
        let way = way(&now, &end, &letters);
        let ends = |check: fn(&[u32]) -> bool| check(&now) || check(&end);
        for weights in &way {
            prop_assert!(!is_ruled_by_one(weights) || ends(is_ruled_by_one), "{way:?}");
            prop_assert!(total(weights) <= u64::from(WEIGHT_TOTAL_MAX));
        }
        // Weights are not scaled without need: where an era can begin by no casting vote anyway.
        let distance: u32 = now.iter().zip(&end).map(|(a, b)| a.abs_diff(*b)).sum();
        let worst = way.iter().map(|weights| tolerance(weights)).min().unwrap_or_default();
        if letters.trim().is_empty() && worst >= tolerance(&end) && distance > 0 {
            let everybody = (1..).take(now.len()).collect();
            let way = way_without(&now, &end, &letters, &everybody);
            prop_assert!(way.len() <= 1 + distance.max(2) as usize, "{way:?}");
        }
    }

    #[test]
    fn as_many_failures_are_survived_on_the_way_as_before_or_after_it(
        now in some_weights(), end in some_weights()
    ) {
        let way = way(&now, &end, "");
        let least = tolerance(&now).min(tolerance(&end));
        for weights in &way {
            prop_assert!(tolerance(weights) >= least, "{way:?}");
        }
    }

    /// The next leader works out the rest anew, and nodes come and go meanwhile.
    #[test]
    fn steps_that_are_worked_out_one_by_one_end_too(
        now in some_weights(), end in some_weights(), letters in some_zones(),
        away in proptest::collection::vec(0u32..64, 200)
    ) {
        let (weights, zones) = (wanted(&end), zones(&letters));
        let goal = Goal { zones: &zones, ..goal(&weights) };
        let mut at = configuration(&now, &[]).unwrap();
        let mut away = away.into_iter();
        let mut steps = 0;
        loop {
            let away = away.next().unwrap_or_default();
            let may_gain = |node: NodeId| away & 1 << (node.0 - 1) == 0;
            match next_step(&at, goal, may_gain) {
                None => break,
                Some(Change::Increment(node)) if !may_gain(node) => continue,
                Some(change) => at = at.apply(change).expect("a legal step"),
            }
            steps += 1;
            prop_assert!(steps < 200, "it goes in circles: {:?}", weights_of(&at, 6));
        }
        prop_assert_eq!(weights_of(&at, 6), end);
    }
}
