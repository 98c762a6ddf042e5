//! Requests about the cluster's nodes: who is a member, and who becomes one.

use formats::parse_hex16;
use formats::version::Speaks;
use ops::ConnId;
use wire::{Refusal, Request};

use crate::membership::change::Ask;
use crate::node::{ChangeMembers, JoinCluster, Node, Wants};
use crate::status::LogList;

impl Node {
    /// `members [local] [after=ID] [limit=N]`
    pub(super) fn on_members(&mut self, conn: ConnId, request: &Request) -> Result<(), Refusal> {
        request.allow(0, &["local", "after", "limit"])?;
        let list = LogList::asked(request)?;
        if !request.flag("local")? {
            return self.await_directory(conn, Wants::Members(list));
        }
        let line = self.members_line(list);
        self.env.answer(conn, line);
        Ok(())
    }

    /// `change-members …`
    pub(super) fn on_change_members(
        &mut self,
        conn: ConnId,
        request: &Request,
    ) -> Result<(), Refusal> {
        let ask = Ask::parse(request)?;
        let proposed = None;
        self.await_directory(conn, Wants::ChangeMembers(ChangeMembers { ask, proposed }))
    }

    /// `join address=HOST:PORT disk=… [speaks=…]`, and what a newer node may say more.
    pub(super) fn on_join(&mut self, conn: ConnId, request: &Request) -> Result<(), Refusal> {
        let address = request.require("address")?.to_string();
        super::peer::check_address(&address)?;
        let disk = request.require("disk")?;
        if parse_hex16(disk).is_none() || !address.contains(':') {
            return Err(Refusal::new(
                "bad-request",
                "join needs address=HOST:PORT and disk=32 hex digits",
            ));
        }
        let speaks = request.parsed("speaks")?.unwrap_or(Speaks::UNSAID);
        let needed = self.directory.versions.prepared;
        self.check_speaks("the node that joins", speaks, needed)?;
        let join = JoinCluster {
            address,
            disk: disk.to_string(),
            newest: speaks.newest(),
            slot: None,
            proposed: false,
        };
        let awaited = self.await_directory(conn, Wants::Join(join));
        awaited.map_err(|refusal| self.naming_others(refusal))
    }
}
