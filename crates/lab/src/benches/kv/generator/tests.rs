use super::*;
use crate::benches::kv::fake::{Conduct, Fake};

const KEYS: u32 = 200;
const LENGTH: Length = Length {
    warm_up: Duration::from_millis(20),
    counted: Duration::from_millis(200),
};

fn load(op: Op) -> Load {
    Load {
        op,
        clients: 4,
        pipeline: 5,
    }
}

fn turn(generator: &mut Generator, op: Op) -> Result<Turn> {
    generator.turn(load(op), LENGTH, &Watched::new(Vec::new(), None))
}

fn filled(fake: &Fake) -> Generator {
    let doors = [fake.address.to_string()];
    let map = Map::of_cluster(&doors, KEYS).unwrap();
    let mut generator = Generator::new(map, 64).unwrap();
    generator.fill(|_| ()).unwrap();
    generator
}

#[test]
fn an_honest_server_shows_no_wrong_value() {
    let fake = Fake::start(Conduct::Honest);
    let mut generator = filled(&fake);
    for op in [Op::Set, Op::Get, Op::Set, Op::Get] {
        let turn = turn(&mut generator, op).unwrap();
        assert_eq!((turn.failed, turn.wrong), (0, 0), "{:?}", turn.why);
        assert!(turn.figures.get("ops_per_s").unwrap() > 0.0);
        assert!(turn.figures.get("p50_ms") <= turn.figures.get("p99_ms"));
        let at_once = turn.figures.get("replies_at_once").unwrap();
        assert!(
            (1.0..=5.0).contains(&at_once),
            "{at_once} of a pipeline of 5"
        );
    }
}

#[test]
fn a_value_that_is_older_than_what_was_answered_is_wrong() {
    let fake = Fake::start(Conduct::Stale);
    let mut generator = filled(&fake);
    let none = turn(&mut generator, Op::Get).unwrap();
    assert_eq!(none.wrong, 0, "each key was written once: {:?}", none.why);
    turn(&mut generator, Op::Set).unwrap();
    // It may be that none of the values is right.
    let wrong = match turn(&mut generator, Op::Get) {
        Ok(turn) => turn.wrong > 0 && turn.why.unwrap().contains("was written before"),
        Err(error) => error.to_string().contains("was written before"),
    };
    assert!(wrong, "an old value was taken for a right one");
}

#[test]
fn a_client_follows_a_redirect_and_asks_for_nothing_twice() {
    let leads = Fake::start(Conduct::Honest);
    let mut generator = filled(&leads);
    let follows = Fake::start(Conduct::Elsewhere(leads.address));
    for range in &mut generator.shared.map.ranges {
        range.server = 1;
    }
    generator.shared.map.servers.push(follows.address);
    let turn = turn(&mut generator, Op::Set).unwrap();
    assert_eq!((turn.failed, turn.wrong), (0, 0), "{:?}", turn.why);
    assert_eq!(generator.shared.map.ranges[0].server, 0, "it was learnt");
}

#[test]
fn what_a_lost_connection_was_asked_for_is_an_error_and_the_load_goes_on() {
    let fake = Fake::start(Conduct::Honest);
    let mut generator = filled(&fake);
    fake.behave(Conduct::Deaf);
    let nothing = turn(&mut generator, Op::Set).unwrap_err().to_string();
    assert!(nothing.contains("a connection ended"), "{nothing}");
    fake.behave(Conduct::Honest);
    let turn = turn(&mut generator, Op::Get).unwrap();
    assert_eq!((turn.failed, turn.wrong), (0, 0), "{:?}", turn.why);
}
