//! `change-members`.

use formats::LogId;
use wire::Refusal;

use super::awaiting::{Answer, Commands, Want, perhaps_done};
use crate::greeting::Caller;
use crate::membership::change::{Ask, Worked};
use crate::node::Node;

pub(super) struct ChangeMembers {
    pub ask: Ask,
    /// The change as it was worked out, once it is proposed.
    pub proposed: Option<Worked>,
}

impl Want for ChangeMembers {
    fn answer(&mut self, node: &mut Node, commands: &mut Commands) -> Answer {
        node.answer_change(self, commands)
    }

    fn on_late(&self, _: &Node, refusal: Refusal) -> Refusal {
        match self.proposed {
            Some(_) => perhaps_done("look with `logberg members`"),
            None => refusal,
        }
    }
}

impl Node {
    /// `change-members …`
    pub(super) fn change_members(&mut self, caller: &Caller) -> Result<(), Refusal> {
        let Caller { request, .. } = caller;
        let ask = Ask::parse(request)?;
        let proposed = None;
        self.await_directory(caller, ChangeMembers { ask, proposed })
    }

    /// Answers once the directory has chosen the change, and each log that it concerns too.
    fn answer_change(&mut self, change: &mut ChangeMembers, commands: &mut Commands) -> Answer {
        if !self.logs.can_direct() {
            return Answer::Wait;
        }
        let worked = self.work_out(&change.ask);
        if let Some(before) = &change.proposed {
            return match worked {
                Ok(now) if now.nothing => self.once_in_force(before),
                // The version may be another one because of something else. Nobody knows what becomes of the command
                // before it is applied.
                _ if !self.cluster.has_applied_its_own(&self.logs) => Answer::Wait,
                _ => Answer::Line(overtaken()),
            };
        }
        match worked {
            Err(refusal) => Answer::Line(refusal.encode()),
            Ok(worked) if change.ask.plan => Answer::Line(answer(&worked)),
            Ok(worked) if worked.nothing && !change.ask.changes_weights() => {
                Answer::Line(answer(&worked))
            }
            Ok(worked) if worked.nothing => self.once_in_force(&worked),
            Ok(mut worked) => {
                commands.extend(worked.command.take());
                change.proposed = Some(worked);
                Answer::Wait
            }
        }
    }

    fn once_in_force(&self, worked: &Worked) -> Answer {
        let mut waiting = self.cluster.unheard(&self.logs);
        if !worked.logs.is_empty() {
            let concerned = |id: &LogId| worked.logs.iter().any(|log| log.id == id.0);
            waiting.retain(concerned);
        }
        match waiting.is_empty() {
            true => Answer::Line(answer(worked)),
            false => Answer::Until(self.cluster.agreed_only(&waiting)),
        }
    }

    fn work_out(&self, ask: &Ask) -> Result<Worked, Refusal> {
        self.cluster
            .with_view(self.sight(), |view| ask.work_out(view))
    }
}

fn answer(worked: &Worked) -> Vec<u8> {
    wire::ok(worked).into_bytes()
}

fn overtaken() -> Vec<u8> {
    let sentence = "the change was not made, since another one of the members came before it: look at the new plan, and ask again";
    Refusal::new("refused", sentence).encode()
}
