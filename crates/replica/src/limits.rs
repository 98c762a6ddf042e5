//! Every bound of a node in one place.

use formats::PAYLOAD_BYTES_MAX;
use paxos::Timing;

/// Times are microseconds, sizes bytes, rates bytes per second. docs/limits.md lists them.
#[derive(Clone, Debug)]
pub struct Limits {
    pub heartbeat_interval: u64,
    /// A peer unheard for so long is silent.
    pub peer_timeout: u64,
    /// After its connection broke, a peer has this long to come back before it is silent.
    pub peer_reconnect_grace: u64,
    pub connect_timeout: u64,
    pub reconnect_delay: u64,
    /// W: unchosen bytes of one log.
    pub unchosen_bytes_max: u64,
    /// What a leader keeps in memory of one log: the unchosen, and chosen for slower followers.
    pub ring_bytes_max: u64,
    /// Of all logs together: with more of them that want it, each has a share.
    pub all_rings_bytes_max: u64,
    /// Chosen bytes kept at the tail of an idle log for this long.
    pub ring_idle: u64,
    /// Bytes in one send to a follower.
    pub send_bytes_max: usize,
    /// While so much waits for its disk a leader proposes no more bytes of clients, and a follower
    /// receives no more proposals.
    pub store_queue_bytes_max: u64,
    /// Where bytes can be received into files, shorter batches are received into memory all the same.
    pub landing_bytes_min: usize,
    /// Chunks on their way from disk to readers, of all logs and of one.
    pub read_buffers_max: usize,
    pub log_read_buffers_max: usize,
    /// Missing bytes fetched while appends go on; otherwise as many as peers can send.
    pub catch_up_rate: u64,
    /// One request for missing bytes; while appends go on.
    pub fetch_bytes_max: u64,
    pub fetch_bytes_busy: u64,
    pub fetch_timeout: u64,
    /// Read by a pass of the scrubber that runs by itself; 0 is never. And by one that somebody asked for.
    pub scrub_rate: u64,
    pub scrub_rate_asked: u64,
    /// Between a log's passes that run by themselves; a new leader's first comes after a 24th of it.
    pub scrub_interval: u64,
    /// New bytes are refused below this much free space, and taken again above twice this.
    pub disk_reserve_bytes: u64,
    /// An active member of a log with auxiliaries that was silent for so long changes places with one.
    pub away_after: u64,
    /// A disk write outstanding so long makes a leader hand over.
    pub disk_stall: u64,
    /// A connection that has not said its first line by then is closed.
    pub greeting_timeout: u64,
    /// How long a request may wait for an election to settle before it is told `no-quorum`.
    pub leader_wait: u64,
    /// How long an answer that stands behind a barrier of the directory may take. Clients leave a node that is
    /// silent for three seconds, and would never hear why.
    pub directory_wait: u64,
    pub connections_max: usize,
    /// Answers that are made and not yet with the kernel, of all clients together.
    pub answers_bytes_max: u64,
    /// A longer answer is sent in pieces of about so many bytes, each made when the last is with the kernel.
    pub answer_piece_bytes: usize,
    /// An answer of which nothing has moved for so long is broken off.
    pub answer_timeout: u64,
    /// The state of a log goes to a peer in parts of so many bytes, between which heartbeats pass.
    pub part_bytes: usize,
    /// Of frames of all peers that are not whole; one that is not whole by then ends its connection.
    pub unfinished_bytes_max: usize,
    pub unfinished_time: u64,
    /// Streams of one log that are not trimmed: its state, with all their labels, has to fit into one
    /// control frame.
    pub streams_max: usize,
    /// Of log 0: with so much more than three times its last snapshot, the next one is taken.
    pub directory_growth_bytes: u64,
    /// All nodes have spoken a newer version for so long, without a break, before it is prepared: until
    /// then each can go back to its older program.
    pub version_settle: u64,
    pub segment_bytes_first: u64,
    pub segment_bytes_max: u64,
    pub write_bytes_max: usize,
    pub writes_in_flight_max: usize,
    pub timing: Timing,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            heartbeat_interval: 50_000,
            peer_timeout: 500_000,
            peer_reconnect_grace: 120_000,
            connect_timeout: 1_000_000,
            reconnect_delay: 50_000,
            unchosen_bytes_max: 16 << 20,
            ring_bytes_max: 24 << 20,
            all_rings_bytes_max: 512 << 20,
            ring_idle: 1_000_000,
            send_bytes_max: 1 << 20,
            store_queue_bytes_max: 16 << 20,
            landing_bytes_min: 16 << 10,
            read_buffers_max: 64,
            log_read_buffers_max: 16,
            catch_up_rate: 32_000_000,
            // Whole records, where they are full.
            fetch_bytes_max: 8 * PAYLOAD_BYTES_MAX as u64,
            fetch_bytes_busy: PAYLOAD_BYTES_MAX as u64,
            fetch_timeout: 2_000_000,
            scrub_rate: 2_000_000,
            scrub_rate_asked: 64_000_000,
            scrub_interval: 86_400_000_000,
            disk_reserve_bytes: 256 << 20,
            away_after: 30_000_000,
            disk_stall: 1_000_000,
            greeting_timeout: 10_000_000,
            leader_wait: 2_000_000,
            directory_wait: 2_500_000,
            connections_max: 4096,
            answers_bytes_max: 32 << 20,
            answer_piece_bytes: 64 << 10,
            answer_timeout: 10_000_000,
            part_bytes: 64 << 10,
            unfinished_bytes_max: 192 << 20,
            unfinished_time: 120_000_000,
            streams_max: 180_000,
            directory_growth_bytes: 256 << 10,
            version_settle: 3_600_000_000,
            segment_bytes_first: 1 << 20,
            segment_bytes_max: 128 << 20,
            write_bytes_max: 4 << 20,
            writes_in_flight_max: 1,
            timing: Timing::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use formats::codec::Encode;
    use formats::frame::BODY_BYTES_MAX;
    use paxos::{
        Configuration, LABEL_BYTES_MAX, LogState, NodeId, Slot, StreamEnd, StreamName,
        StreamPosition, StreamSequence, StreamState,
    };

    use super::*;

    /// And whatever else the state holds.
    #[test]
    fn a_log_of_as_many_streams_as_it_may_have_fits_into_one_frame() {
        let name = |counter| StreamName {
            owner: NodeId(1),
            sequence: StreamSequence {
                incarnation: 1,
                counter,
            },
        };
        let stream = |counter| StreamState {
            name: name(counter),
            label: "x".repeat(LABEL_BYTES_MAX),
            metadata: Vec::new(),
            continues: Some((name(counter), StreamPosition(1))),
            continued_by: Some(name(counter)),
            opened: Slot(u64::from(counter)),
            length: StreamPosition(1),
            trimmed: StreamPosition(0),
            end: StreamEnd::Cut,
            chain: Some((name(counter), StreamPosition(1))),
        };
        let mut state = LogState::new(Configuration::equal([NodeId(1)]).expect("one is enough"));
        let most = Limits::default().streams_max as u32;
        state.streams = (0..most).map(stream).collect();
        let mut bytes = Vec::new();
        state.put(&mut bytes);
        let room = (BODY_BYTES_MAX as usize).checked_sub(bytes.len());
        assert!(room > Some(1 << 20), "{} bytes", bytes.len());
    }
}
