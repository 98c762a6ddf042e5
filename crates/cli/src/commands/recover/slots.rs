//! What becomes of the slots of groups of keys.

use node::rescue::RescuedSlots;
use wire::told::SlotsRun;

use super::states::CarriedState;
use crate::commands::kv::view::{shown, spans_of};

fn listed(runs: &[SlotsRun]) -> String {
    let spans = spans_of(runs.iter().map(|run| (run.first, run.last)));
    let spans: Vec<String> = spans.into_iter().map(shown).collect();
    spans.join(", ")
}

/// For people. The states are those of the groups' logs, if they are here.
pub fn remarks(slots: &[RescuedSlots], states: &[CarriedState]) -> Vec<String> {
    let mut remarks = Vec::new();
    for of in slots {
        let RescuedSlots { group, served, .. } = of;
        let state = states.iter().find(|state| state.log == *group);
        let is_lost = state.is_some_and(CarriedState::is_lost_for_good);
        let served = listed(served);
        match (served.is_empty(), of.absent, is_lost) {
            (true, ..) => {}
            (false, true, _) => remarks.push(format!(
                "{group}: all keys of slots {served} are LOST: this node holds nothing of the group, and no other group has them"
            )),
            (false, false, true) => remarks.push(format!(
                "{group}: all keys of slots {served} are LOST with its state"
            )),
            (false, false, false) => remarks.push(format!(
                "{group}: slots {served} keep the keys that this node knows; what others acknowledged since is LOST"
            )),
        }
        if !of.on_their_way.is_empty() {
            remarks.push(format!(
                "{group}: slots {} were on their way. What this node knows of the two groups may be of different moments: compare their keys with a backup, and see `logberg kv map` after the start, where a slot that nobody has any more stays on its way",
                listed(&of.on_their_way)
            ));
        }
    }
    remarks
}
