//! The lives that are looked at.

use super::writer::Act::{self, *};
use super::writer::Script;

fn script(name: &'static str, acts: &[Act]) -> Script {
    Script {
        name,
        acts: acts.to_vec(),
    }
}

pub fn all() -> Vec<Script> {
    vec![
        script("one segment", &[Promise, NoOp(0), Number(1), Rest]),
        script(
            "two writes in flight",
            &[Promise, Then, NoOp(0), Then, NoOp(1), Rest],
        ),
        script(
            "a value over another",
            &[NoOp(0), Promise, Number(0), Chosen(1), NoOp(1), Rest],
        ),
        script("a wide record", &[Promise, Wide(0), Rest, NoOp(5_000)]),
        script(
            "a state from a peer",
            &[NoOp(0), Promise, Jump(3), NoOp(3), Rest],
        ),
        script("a roll", &[Promise, NoOp(0), Roll, Number(1), Rest]),
        script(
            "a roll under way",
            &[NoOp(0), Then, Roll, Then, Promise, Rest],
        ),
        script("nothing after a roll", &[NoOp(0), Promise, Roll]),
        script("two rolls", &[NoOp(0), Roll, Promise, Roll, NoOp(1), Rest]),
        script(
            "two rolls and chosen",
            &[NoOp(0), Roll, Promise, Number(0), Chosen(1), Roll, NoOp(1)],
        ),
        script(
            "killed",
            &[Promise, NoOp(0), Kill { wrote: false }, NoOp(1), Rest],
        ),
        script(
            "killed in a write",
            &[NoOp(0), Then, Promise, Then, Kill { wrote: true }, NoOp(1)],
        ),
        script(
            "killed twice",
            &[
                NoOp(0),
                Kill { wrote: true },
                Promise,
                Kill { wrote: true },
                Rest,
            ],
        ),
        script(
            "at rest, then killed",
            &[NoOp(0), Rest, Kill { wrote: true }, Number(1), Rest],
        ),
        script(
            "at rest, killed twice",
            &[
                Promise,
                Rest,
                Kill { wrote: true },
                NoOp(0),
                Rest,
                Kill { wrote: true },
                NoOp(1),
            ],
        ),
        script(
            "at rest, then killed in its first write",
            &[
                Promise,
                Rest,
                Kill { wrote: true },
                NoOp(0),
                Then,
                Number(1),
                Then,
                Kill { wrote: false },
                Promise,
                Rest,
            ],
        ),
        script(
            "at rest, then a wide record",
            &[Promise, Rest, Kill { wrote: true }, Wide(0), Rest],
        ),
        script(
            "at rest, then a roll",
            &[
                NoOp(0),
                Rest,
                Kill { wrote: true },
                Promise,
                Roll,
                Number(1),
                Rest,
            ],
        ),
        script(
            "a later segment at rest",
            &[
                NoOp(0),
                Roll,
                Promise,
                Rest,
                Kill { wrote: true },
                Number(1),
                Rest,
            ],
        ),
        script(
            "a late write",
            &[NoOp(0), Rest, Promise, Then, KillLate, Promise, Rest],
        ),
        script(
            "a late acceptance",
            &[
                NoOp(0),
                Rest,
                Number(1),
                Then,
                KillLate,
                Promise,
                NoOp(1),
                Rest,
            ],
        ),
        script(
            "a file used again",
            &[NoOp(0), Roll, Promise, TrimFirst, NoOp(1), Rest],
        ),
        script(
            "a used file under way",
            &[
                NoOp(0),
                NoOp(1),
                Roll,
                TrimFirst,
                Promise,
                Then,
                Number(2),
                Rest,
            ],
        ),
        script(
            "a used file alone",
            &[
                NoOp(0),
                Promise,
                Roll,
                TrimFirst,
                NoOp(1),
                TrimFirst,
                Promise,
                Rest,
            ],
        ),
    ]
}
