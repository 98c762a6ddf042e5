//! Every bound of a node in one place.

use std::time::Duration;

use formats::PAYLOAD_BYTES_MAX;
use paxos::{PhaseOne, Timing};

/// The bounds. docs/limits.md lists them.
#[derive(Clone, Debug)]
pub struct Limits {
    pub heartbeat_interval: Duration,
    /// The time after which an unheard peer is silent.
    pub peer_timeout: Duration,
    /// After its connection broke, a peer has this long to come back before it is silent.
    pub peer_reconnect_grace: Duration,
    pub connect_timeout: Duration,
    pub reconnect_delay: Duration,
    /// W: unchosen bytes of one log.
    pub unchosen_bytes_max: u64,
    /// The bytes of one log that a leader keeps in memory: the unchosen, and chosen ones for slower followers.
    pub ring_bytes_max: u64,
    /// The same of all logs together: with more of them that want it, each has a share.
    pub all_rings_bytes_max: u64,
    /// The time for which chosen bytes are kept at the tail of an idle log.
    pub ring_idle: Duration,
    /// Bytes in one send to a follower.
    pub send_bytes_max: usize,
    /// The queue of a disk above which a leader proposes no more bytes of clients, and a follower receives no
    /// more proposals.
    pub store_queue_bytes_max: u64,
    /// The length below which batches are received into memory even where bytes can be received into files.
    pub landing_bytes_min: usize,
    /// Chunks on their way from disk to readers, of all logs and of one.
    pub read_buffers_max: usize,
    pub log_read_buffers_max: usize,
    /// Missing bytes fetched while appends go on; otherwise as many as peers can send.
    pub catch_up_bytes_per_second: u64,
    /// One request for missing bytes; while appends go on.
    pub fetch_bytes_max: u64,
    pub fetch_bytes_busy: u64,
    pub fetch_timeout: Duration,
    /// The rates of a scrubber's pass: one that runs by itself, where 0 is never, and one that somebody asked for.
    pub scrub_bytes_per_second: u64,
    pub scrub_asked_bytes_per_second: u64,
    /// The time between a log's passes that run by themselves; a new leader's first comes after a 24th of it.
    pub scrub_interval: Duration,
    /// New bytes are refused below this much free space, and taken again above twice this.
    pub disk_reserve_bytes: u64,
    /// The time after which a silent active member of a log with auxiliaries changes places with one.
    pub away_after: Duration,
    /// The time after which an outstanding disk write makes a leader hand over.
    pub disk_stall: Duration,
    /// The time by which a connection must have said its first line, or it is closed.
    pub greeting_timeout: Duration,
    /// The time for which a writer may be gone before its leader cuts its stream.
    pub writer_gone_after: Duration,
    /// The time for which a new leader keeps the log for the writer of the stream that it found open.
    pub writer_claim: Duration,
    /// The longest that a request may wait for an election to settle before it is told `no-quorum`.
    pub leader_wait: Duration,
    /// The longest that an answer behind a barrier of the directory may take. Clients leave a node that is
    /// silent for three seconds, and would never hear why.
    pub directory_wait: Duration,
    /// Logs that stand for election at the same time.
    pub standing_logs_max: usize,
    /// Logs that are settled in one round because their time has come.
    pub due_logs_max: usize,
    pub connections_max: usize,
    /// Answers that are made and not yet with the kernel, of all clients together.
    pub answers_bytes_max: u64,
    /// A longer answer is sent in pieces of about so many bytes, each made when the last is with the kernel.
    pub answer_piece_bytes: usize,
    /// The time after which an answer that has not moved is broken off.
    pub answer_timeout: Duration,
    /// The bytes of one part of a log's state on its way to a peer; heartbeats pass between two parts.
    pub part_bytes: usize,
    /// The bytes of unfinished frames of all peers; a frame that is not whole by the timeout ends its connection.
    pub unfinished_bytes_max: usize,
    pub unfinished_timeout: Duration,
    /// Streams of one log that are not trimmed: its state, with all their labels, has to fit into one
    /// control frame.
    pub streams_max: usize,
    /// Bytes that states stand for are trimmed from their log, at least so many at a time.
    pub state_trim_bytes: u64,
    /// A log is kept for a state that lags, or is away, up to so many bytes.
    pub state_lag_bytes_max: u64,
    /// The growth of log 0: with so much more than three times its last snapshot, the next one is taken.
    pub directory_growth_bytes: u64,
    /// The time for which all nodes have spoken a newer version, without a break, before it is prepared:
    /// until then each can go back to its older program.
    pub version_settle: Duration,
    pub segment_bytes_first: u64,
    pub segment_bytes_max: u64,
    pub write_bytes_max: usize,
    pub writes_in_flight_max: usize,
    pub timing: Timing,
    /// When a leader does phase 1: once, but in the lab.
    pub phase_one: PhaseOne,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            heartbeat_interval: Duration::from_millis(50),
            peer_timeout: Duration::from_millis(500),
            peer_reconnect_grace: Duration::from_millis(120),
            connect_timeout: Duration::from_secs(1),
            reconnect_delay: Duration::from_millis(50),
            unchosen_bytes_max: 16 << 20,
            ring_bytes_max: 24 << 20,
            all_rings_bytes_max: 512 << 20,
            ring_idle: Duration::from_secs(1),
            send_bytes_max: 1 << 20,
            store_queue_bytes_max: 16 << 20,
            landing_bytes_min: 16 << 10,
            read_buffers_max: 64,
            log_read_buffers_max: 16,
            catch_up_bytes_per_second: 32_000_000,
            // These are whole records, where records are full.
            fetch_bytes_max: 8 * PAYLOAD_BYTES_MAX as u64,
            fetch_bytes_busy: PAYLOAD_BYTES_MAX as u64,
            fetch_timeout: Duration::from_secs(2),
            scrub_bytes_per_second: 2_000_000,
            scrub_asked_bytes_per_second: 64_000_000,
            scrub_interval: Duration::from_secs(86400),
            disk_reserve_bytes: 256 << 20,
            away_after: Duration::from_secs(30),
            disk_stall: Duration::from_secs(1),
            greeting_timeout: Duration::from_secs(10),
            writer_gone_after: Duration::from_secs(10),
            writer_claim: Duration::from_secs(5),
            leader_wait: Duration::from_secs(2),
            directory_wait: Duration::from_millis(2500),
            standing_logs_max: 64,
            due_logs_max: 500,
            connections_max: 4096,
            answers_bytes_max: 32 << 20,
            answer_piece_bytes: 64 << 10,
            answer_timeout: Duration::from_secs(10),
            part_bytes: 64 << 10,
            unfinished_bytes_max: 192 << 20,
            unfinished_timeout: Duration::from_secs(120),
            streams_max: 180_000,
            state_trim_bytes: 1 << 20,
            state_lag_bytes_max: 4 << 30,
            directory_growth_bytes: 256 << 10,
            version_settle: Duration::from_secs(3600),
            segment_bytes_first: 1 << 20,
            segment_bytes_max: 128 << 20,
            write_bytes_max: 4 << 20,
            writes_in_flight_max: 1,
            timing: Timing::default(),
            phase_one: PhaseOne::PerTerm,
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

    /// The log's state fits into one frame, whatever else it holds.
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
