//! Slots on their way, for people.

use std::time::Duration;

use client::admin::SlotsUnderWay;
use terminal::show;
use wire::quantity;

/// How many are left to go where, and for how long; nothing where none are.
pub fn table_of(moves: &[SlotsUnderWay]) -> Option<String> {
    let mut table = show::table(&["SLOTS ON THEIR WAY TO", "LEFT", "OF", "MAP VERSION", "FOR"]);
    for one in moves {
        let waited = Duration::from_millis(one.for_ms);
        table.add_row([
            one.to.as_str().into(),
            show::number(one.left),
            show::number(one.slots),
            show::number(one.since),
            show::number(quantity::time(waited)),
        ]);
    }
    (!moves.is_empty()).then(|| show::lines(&table))
}
