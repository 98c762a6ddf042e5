//! Drawn changes: what holds after each of them.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use slots::{Change, Map, Moving, Part, Refused, SLOTS, Span, balanced};

fn span(first: u16, last: u16) -> Span {
    Span::new(first, last).unwrap()
}

fn change() -> impl Strategy<Value = Change> {
    let group = 1..9u32;
    let drawn_span = (0..SLOTS, 0..3_000u16)
        .prop_map(|(first, more)| span(first, first.saturating_add(more).min(SLOTS - 1)));
    prop_oneof![
        proptest::collection::vec(1..9u32, 1..4).prop_map(|groups| Change::Join { groups }),
        group.clone().prop_map(|group| Change::Leave { group }),
        (proptest::collection::vec(drawn_span, 1..3), group)
            .prop_map(|(spans, group)| Change::Move { spans, group }),
        Just(Change::Balance),
    ]
}

fn groups_of(parts: &[Part]) -> Vec<Option<u32>> {
    (0..SLOTS)
        .map(|slot| {
            let part = parts.iter().find(|part| part.span.contains(slot));
            part.map(|part| part.group)
        })
        .collect()
}

fn is_in_order(parts: &[Part]) -> bool {
    parts.windows(2).all(|two| {
        let is_behind = two[0].span.last() < two[1].span.first();
        let touches = two[0].span.last() + 1 == two[1].span.first();
        let is_same = (two[0].group, two[0].since) == (two[1].group, two[1].since);
        is_behind && !(touches && is_same)
    })
}

fn counts(slots: &[Option<u32>], groups: &BTreeSet<u32>) -> BTreeMap<u32, usize> {
    let count = |group: &u32| slots.iter().filter(|slot| **slot == Some(*group)).count();
    groups.iter().map(|group| (*group, count(group))).collect()
}

fn moved(before: &[Option<u32>], after: &[Option<u32>]) -> usize {
    before.iter().zip(after).filter(|(a, b)| a != b).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_change_leaves_a_sound_map(changes in proptest::collection::vec(change(), 1..12)) {
        let mut map = Map::default();
        let mut versions = BTreeMap::new();
        for change in changes {
            let before = map.clone();
            let Ok(after) = map.changed(&change) else { continue };
            let again = after.changed(&change);
            prop_assert_eq!(again.as_ref(), Ok(&after), "twice is once");
            let text = serde_json::to_string(&after).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Map>(&text).unwrap(), &after);
            map = after;
            if map.version() == before.version() {
                prop_assert_eq!(&map, &before);
                continue;
            }
            prop_assert_eq!(map.version(), before.version() + 1);
            prop_assert!(is_in_order(map.wanted()));
            let (was, is) = (groups_of(before.wanted()), groups_of(map.wanted()));
            prop_assert!(is.iter().all(|slot| slot.is_some_and(|group| map.groups().contains(&group))));
            for slot in 0..SLOTS {
                let (old, new) = (before.wanted_at(slot), map.wanted_at(slot).unwrap());
                match old {
                    Some(old) if old.group == new.group => prop_assert_eq!(old.since, new.since),
                    _ => prop_assert_eq!(new.since, map.version()),
                }
            }
            if !matches!(change, Change::Move { .. }) {
                let counts = counts(&is, map.groups());
                let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
                prop_assert!(most - least <= 1);
                prop_assert_eq!(moved(&was, &is), fewest(&was, map.groups()));
            }
            versions.insert(map.version(), map.wanted().to_vec());
        }
        for (version, parts) in versions {
            prop_assert_eq!(map.at(version), Some(&parts[..]));
        }
    }

    #[test]
    fn what_is_served_never_goes_back(
        words in proptest::collection::vec((0..SLOTS, 0..SLOTS, 0..6u32, 1..4u32), 1..30),
    ) {
        let mut map = Map::default().changed(&Change::Join { groups: vec![1, 2, 3] }).unwrap();
        for group in [1, 2, 3] {
            map = map.changed(&Change::Move { spans: vec![span(0, SLOTS - 1)], group }).unwrap();
        }
        for (a, b, since, group) in words {
            let span = span(a.min(b), a.max(b));
            let before = map.clone();
            let is_news = map.is_news(span, since, group);
            prop_assert_eq!(map.serve(span, since, group), is_news);
            prop_assert_eq!(is_news, map != before);
            prop_assert!(is_in_order(map.served()));
            prop_assert_eq!(map.moving(), moving_slot_by_slot(&map));
            for slot in 0..SLOTS {
                let was = before.served_at(slot).map_or(0, |part| part.since);
                let is = map.served_at(slot).map_or(0, |part| part.since);
                prop_assert!(was <= is && is <= map.wanted_at(slot).unwrap().since);
            }
        }
    }
}

/// The slots that are on their way, by a look at each.
fn moving_slot_by_slot(map: &Map) -> Vec<Moving> {
    let mut all: Vec<Moving> = Vec::new();
    for slot in 0..SLOTS {
        let (wanted, served) = (map.wanted_at(slot), map.served_at(slot));
        let said = |part: &Part| (part.group, part.since);
        let Some(wanted) = wanted.filter(|part| served.map(said) != Some(said(part))) else {
            continue;
        };
        let one = Moving {
            span: span(slot, slot),
            from: served.map(|part| part.group),
            to: wanted.group,
            since: wanted.since,
        };
        let alike =
            |last: &Moving| (last.from, last.to, last.since) == (one.from, one.to, one.since);
        match all.last_mut() {
            Some(last) if last.span.last() + 1 == slot && alike(last) => {
                last.span = span(last.span.first(), slot);
            }
            _ => all.push(one),
        }
    }
    all
}

/// The fewest slots that have to move, counted: with the larger quotas where they save most.
fn fewest(slots: &[Option<u32>], groups: &BTreeSet<u32>) -> usize {
    let mut has: Vec<usize> = counts(slots, groups).into_values().collect();
    has.sort_unstable_by(|a, b| b.cmp(a));
    let (least, larger) = (slots.len() / groups.len(), slots.len() % groups.len());
    let stays = has
        .iter()
        .enumerate()
        .map(|(place, has)| (*has).min(least + usize::from(place < larger)));
    slots.len() - stays.sum::<usize>()
}

/// All ways to give few slots to few groups evenly, and the fewest moves among them.
fn fewest_of_all(slots: &[Option<u32>], groups: &BTreeSet<u32>) -> usize {
    let groups: Vec<u32> = groups.iter().copied().collect();
    let ways = groups.len().pow(slots.len() as u32);
    let mut fewest = usize::MAX;
    for way in 0..ways {
        let mut rest = way;
        let given: Vec<Option<u32>> = slots
            .iter()
            .map(|_| {
                let group = groups[rest % groups.len()];
                rest /= groups.len();
                Some(group)
            })
            .collect();
        let count = |group: &u32| given.iter().filter(|slot| **slot == Some(*group)).count();
        let counts: Vec<usize> = groups.iter().map(count).collect();
        if counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1 {
            fewest = fewest.min(moved(slots, &given));
        }
    }
    fewest
}

#[test]
fn no_way_to_balance_moves_fewer_slots() {
    // All maps of six slots to four groups or nobody, and all sets of groups that are left.
    for map in 0..5usize.pow(6) {
        let mut rest = map;
        let slots: Vec<Option<u32>> = (0..6)
            .map(|_| {
                let group = (rest % 5) as u32;
                rest /= 5;
                (group > 0).then_some(group)
            })
            .collect();
        if map % 7 != 0 {
            continue;
        }
        for left in 1..16u32 {
            let groups: BTreeSet<u32> = (1..=4)
                .filter(|group| left & (1 << (group - 1)) != 0)
                .collect();
            let after = balanced(&slots, &groups);
            let counts = counts(&after, &groups);
            assert!(counts.values().max().unwrap() - counts.values().min().unwrap() <= 1);
            assert_eq!(counts.values().sum::<usize>(), 6);
            assert_eq!(
                moved(&slots, &after),
                fewest_of_all(&slots, &groups),
                "{slots:?} {groups:?}"
            );
        }
    }
}

#[test]
fn none_one_twice_and_the_last() {
    let none = Map::default();
    assert_eq!(none.changed(&Change::Balance).as_ref(), Ok(&none));
    assert_eq!(
        none.changed(&Change::Leave { group: 1 }).as_ref(),
        Ok(&none)
    );
    assert_eq!(
        none.changed(&Change::Move {
            spans: vec![span(0, 1)],
            group: 1
        }),
        Err(Refused::NotIn(1))
    );
    assert!(none.is_settled() && none.wanted().is_empty() && none.may_go(1).is_ok());
    let one = none.changed(&Change::Join { groups: vec![7] }).unwrap();
    assert_eq!(
        one.wanted(),
        [Part {
            span: span(0, SLOTS - 1),
            group: 7,
            since: 1
        }]
    );
    assert_eq!(
        one.changed(&Change::Join { groups: vec![7, 7] }).as_ref(),
        Ok(&one)
    );
    assert_eq!(one.changed(&Change::Leave { group: 7 }), Err(Refused::Last));
    let move_of = |spans| Change::Move { spans, group: 7 };
    assert_eq!(one.changed(&move_of(vec![])), Err(Refused::NoSlots));
    assert_eq!(
        one.changed(&move_of(vec![span(0, 5), span(5, 6)])),
        Err(Refused::Twice(5))
    );
    assert_eq!(
        one.changed(&move_of(vec![span(0, 5)])).as_ref(),
        Ok(&one),
        "they are there"
    );
    let groups: Vec<u32> = (1..=1_025).collect();
    assert_eq!(
        none.changed(&Change::Join { groups }),
        Err(Refused::TooMany)
    );
}

#[test]
fn a_group_goes_once_nothing_can_be_on_its_way_to_it() {
    let mut map = Map::default()
        .changed(&Change::Join { groups: vec![1, 2] })
        .unwrap();
    let serve_all = |map: &mut Map| {
        for part in map.wanted().to_vec() {
            map.serve(part.span, part.since, part.group);
        }
    };
    assert_eq!(map.may_go(1), Err(Refused::HasSlots(1)));
    serve_all(&mut map);
    assert!(map.is_settled() && map.moving().is_empty());
    let mut map = map.changed(&Change::Leave { group: 1 }).unwrap();
    assert_eq!(map.may_go(1), Err(Refused::Moving));
    assert_eq!(map.may_go(9), Ok(()), "it never had a slot");
    assert_eq!(map.moving().len(), 1);
    serve_all(&mut map);
    assert_eq!(map.may_go(1), Ok(()));
}

#[test]
fn groups_that_are_left_share_what_the_lost_ones_had() {
    let mut map = Map::default()
        .changed(&Change::Join {
            groups: vec![1, 2, 3],
        })
        .unwrap();
    for part in map.wanted().to_vec() {
        map.serve(part.span, 1, part.group);
    }
    let same = map.clone();
    map.keep_only(&BTreeSet::from([1, 2, 3, 4]));
    assert_eq!(map, same);
    map.keep_only(&BTreeSet::from([1, 3, 4]));
    assert_eq!(
        map.moving(),
        moving_slot_by_slot(&map),
        "nobody serves some"
    );
    assert_eq!(
        (map.slots_of(1), map.slots_of(3), map.slots_of(2)),
        (8_192, 8_192, 0)
    );
    assert_eq!(map.served_by(2), 0);
}

#[test]
fn a_map_is_this_json() {
    let map = Map::default()
        .changed(&Change::Join { groups: vec![3, 5] })
        .unwrap();
    let mut map = map
        .changed(&Change::Move {
            spans: vec![span(0, 9)],
            group: 5,
        })
        .unwrap();
    assert!(
        !map.serve(span(0, 9), 2, 3),
        "by that wish another group is to serve them"
    );
    assert!(map.serve(span(0, 4), 2, 5));
    let text = serde_json::to_string(&map).unwrap();
    assert_eq!(
        text,
        r#"{"version":2,"groups":[3,5],"wanted":[[[0,9],5,2],[[10,8191],3,1],[[8192,16383],5,1]],"served":[[[0,4],5,2],[[5,8191],3,1],[[8192,16383],5,1]],"founders":[[[0,8191],3,1],[[8192,16383],5,1]],"past":{"1":[[[0,8191],3,1],[[8192,16383],5,1]],"2":[[[0,9],5,2],[[10,8191],3,1],[[8192,16383],5,1]]}}"#
    );
}

#[test]
fn the_map_of_another_cluster_is_adopted_once() {
    let parts = |version: u32| {
        let halves = [(span(0, 99), 4, version), (span(100, SLOTS - 1), 9, 1)];
        let parts = halves.map(|(span, group, since)| Part { span, group, since });
        Change::Adopt {
            version,
            parts: parts.to_vec(),
        }
    };
    let none = Map::default();
    let map = none.changed(&parts(7)).unwrap();
    assert!(map.is_settled() && map.version() == 7);
    assert_eq!(map.changed(&parts(7)).as_ref(), Ok(&map), "twice is once");
    assert_eq!(map.changed(&parts(8)), Err(Refused::Begun));
    let part = |first, last, since| Part {
        span: span(first, last),
        group: 4,
        since,
    };
    for parts in [
        vec![],
        vec![part(0, 99, 1)],
        vec![part(0, SLOTS - 1, 9)],
        vec![part(0, SLOTS - 1, 1), part(5, 5, 1)],
    ] {
        let adopt = Change::Adopt { version: 2, parts };
        assert_eq!(none.changed(&adopt), Err(Refused::Unsound));
    }
}

#[test]
fn the_first_groups_begin_with_even_parts_in_the_order_of_their_names() {
    for groups in [vec![9, 3, 5], vec![2], (1..=7).rev().collect()] {
        let map = Map::default()
            .changed(&Change::Join {
                groups: groups.clone(),
            })
            .unwrap();
        let order: Vec<u32> = map.wanted().iter().map(|part| part.group).collect();
        assert_eq!(order, groups);
        for (place, part) in map.wanted().iter().enumerate() {
            let first = place as u32 * u32::from(SLOTS) / groups.len() as u32;
            assert_eq!(u32::from(part.span.first()), first);
        }
    }
}
