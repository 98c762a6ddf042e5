//! The last record of the log, on which the next one builds.

use formats::past::End;
use formats::record::{RecordHeader, RecordKind};
use paxos::Slot;

use super::super::RecordContext;

#[derive(Default)]
pub(crate) struct Tail {
    number: u64,
    checksum: u32,
    watermark: u64,
    /// The last record that is more than a watermark.
    last_fact: u64,
    accepted_up_to: Slot,
    learn_past: Slot,
    context: RecordContext,
    /// Whether the context says more than the last record, and the next start should know it.
    context_is_news: bool,
}

impl Tail {
    /// The tail that a recovery found.
    pub fn found(
        number: u64,
        checksum: u32,
        context: RecordContext,
        accepted_up_to: Slot,
        learn_past: Slot,
    ) -> Tail {
        Tail {
            number,
            checksum,
            context,
            accepted_up_to,
            learn_past,
            ..Tail::default()
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    pub fn context(&self) -> RecordContext {
        self.context
    }

    pub fn learn_past(&self) -> Slot {
        self.learn_past
    }

    /// The promise and the acceptances.
    pub fn end(&self) -> End {
        End {
            promised: self.context.promised,
            accepted_up_to: self.accepted_up_to,
        }
    }

    pub fn accept(&mut self, up_to: Slot) {
        self.accepted_up_to = self.accepted_up_to.max(up_to);
    }

    /// The log goes on behind records that a recovery found, which are durable.
    pub fn rest_at(&mut self, watermark: u64) {
        self.watermark = watermark;
    }

    /// Completes the header of the next record with what it says of those before it.
    pub fn complete(&mut self, header: &mut RecordHeader, context: RecordContext, watermark: u64) {
        if self.learn_past <= context.first_unchosen {
            self.learn_past = Slot(0);
        }
        header.number = self.number + 1;
        header.watermark = watermark;
        header.chain = self.checksum;
        header.promised = context.promised;
        header.first_unchosen = context.first_unchosen;
        header.accepted_up_to = self.accepted_up_to;
        header.learn_past = self.learn_past;
    }

    /// The record with this header is the last one now.
    pub fn advance(&mut self, header: &RecordHeader, context: RecordContext, checksum: u32) {
        self.context = context;
        self.context_is_news = false;
        self.number = header.number;
        self.checksum = checksum;
        self.watermark = header.watermark;
        if header.kind != RecordKind::Idle {
            self.last_fact = header.number;
        }
    }

    /// Known to be chosen by now, and not said by any record.
    pub fn bear_out(&mut self, context: RecordContext) {
        let before = &mut self.context;
        if context.first_unchosen > before.first_unchosen && context.promised >= before.promised {
            *before = context;
            self.context_is_news = true;
        }
    }

    /// Whether the last record is a fact that no watermark covers, or says less than is known.
    pub fn lags(&self) -> bool {
        self.last_fact > self.watermark || self.context_is_news
    }
}
