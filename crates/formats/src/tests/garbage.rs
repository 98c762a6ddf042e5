//! Round trips; and bytes that nobody wrote never panic and never pass for something else.

use ops::BLOCK;
use paxos::*;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::strategies::*;
use crate::LogId;
use crate::codec::{self, DecodeError, Encode};
use crate::frame::{TOLD_MAX, Told, *};
use crate::record::*;
use crate::segment::{SegmentError, SegmentHeader};
use crate::version::{FIRST, Speaks};

fn round_trip<T: Encode + PartialEq + std::fmt::Debug>(value: &T) -> Vec<u8> {
    let bytes = codec::encode(FIRST, value);
    assert_eq!(codec::decode::<T>(Speaks::THIS, &bytes).as_ref(), Ok(value));
    for length in 0..bytes.len() {
        assert!(
            codec::decode::<T>(Speaks::THIS, &bytes[..length]).is_err(),
            "cut at {length}"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert_eq!(
        codec::decode::<T>(Speaks::THIS, &longer),
        Err(DecodeError::Trailing(1))
    );
    bytes
}

/// A value that decodes has exactly one encoding: the one it was decoded from.
fn canonical<T: Encode>(bytes: &[u8]) {
    if let Ok(value) = codec::decode::<T>(Speaks::THIS, bytes) {
        // It says itself in which version it is, perhaps by what was damaged.
        assert_eq!(codec::encode(bytes[0], &value), bytes);
    }
}

fn decode_control(bytes: &[u8]) -> Result<Frame, FrameError> {
    let prefix = bytes
        .first_chunk()
        .ok_or(FrameError::Body(DecodeError::Short))?;
    decode_control_body(
        &decode_control_prefix(Speaks::THIS, prefix)?,
        &bytes[CONTROL_PREFIX..],
    )
}

/// At least one bit differs.
fn damage(bytes: &[u8], at: Index, flip: u8) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    let at = at.index(damaged.len());
    damaged[at] ^= flip.max(1);
    damaged
}

fn told(number: u64) -> Told {
    Told {
        by: NodeId(number as u32),
        code: number as u8,
        about: NodeId(number as u32),
        with: NodeId(0),
        log: LogId(number as u32),
        logs: 1,
        amount: number,
        is_active: number.is_multiple_of(2),
    }
}

fn frame() -> impl Strategy<Value = Frame> {
    let heartbeat = (any::<[u64; 3]>(), vec((any::<u32>(), status()), 0..4));
    prop_oneof![
        (any::<u32>(), message()).prop_map(|(log, message)| Frame::Engine {
            log: LogId(log),
            message
        }),
        heartbeat.prop_map(|(numbers, entries)| Frame::Heartbeat(Heartbeat {
            round: numbers[0],
            answers: numbers[1],
            entries: entries
                .into_iter()
                .map(|(log, entry)| (LogId(log), entry))
                .collect(),
            free_bytes: numbers[2],
            disk_version: numbers[2] as u8,
            members_version: numbers[1],
            parted: vec![(LogId(numbers[0] as u32), NodeId(numbers[1] as u32))],
            warnings: (numbers[0] % 4 < 3).then(|| vec![told(numbers[2]); numbers[0] as usize % 4]),
        })),
        vec(any::<u32>(), 0..4)
            .prop_map(|groups| { Frame::Leads(groups.into_iter().map(LogId).collect()) }),
        (any::<u64>(), vec(any::<u8>(), 0..40), any::<bool>()).prop_map(
            |(request, bytes, asks)| {
                let piece = crate::frame::Piece {
                    log: LogId(0),
                    request,
                    bytes,
                };
                match asks {
                    true => Frame::AskDirector(piece),
                    false => Frame::TellDirector(piece),
                }
            }
        ),
        (any::<u32>(), stream(), any::<u64>(), 0..u64::MAX).prop_map(
            |(log, stream, request, from)| Frame::FetchBytes(FetchBytes {
                log: LogId(log),
                request,
                stream,
                from: StreamPosition(from),
                to: StreamPosition(from + 1),
            })
        ),
        (any::<u32>(), any::<u64>(), any::<Option<Option<u32>>>()).prop_map(
            |(log, request, found)| Frame::TellDigest(TellDigest {
                log: LogId(log),
                request,
                found: match found {
                    Some(Some(digest)) => Examined::Digest(Digest(digest)),
                    Some(None) => Examined::NotHere,
                    None => Examined::Damaged,
                },
            })
        ),
        (
            any::<u32>(),
            stream(),
            0..u64::MAX - PIECE_BYTES_MAX,
            1..=PIECE_BYTES_MAX
        )
            .prop_map(|(log, stream, from, length)| Frame::AskDigest(AskDigest {
                log: LogId(log),
                request: length,
                stream,
                from: StreamPosition(from),
                to: StreamPosition(from + length),
            })),
        (any::<u32>(), any::<bool>(), vec(any::<u8>(), 0..300)).prop_map(|(log, last, bytes)| {
            Frame::Part(Part {
                log: LogId(log),
                last,
                bytes,
            })
        }),
    ]
}

fn data_header() -> impl Strategy<Value = DataHeader> {
    let header = (any::<u32>(), stream(), term(), any::<[u32; 4]>(), 0u8..4);
    header.prop_map(|(log, stream, term, numbers, kind)| {
        let [start, length, digest, offset] = numbers;
        let payload_length = 1 + length % PAYLOAD_BYTES_MAX as u32;
        let start = Slot(start as u64 + offset as u64);
        let (value, count) = match kind {
            0 => {
                return DataHeader::Bytes(BytesHeader {
                    log: LogId(log),
                    request: offset as u64,
                    stream,
                    position: StreamPosition(start.0),
                    digest: Digest(digest),
                    payload_length,
                });
            }
            1 => (ProposedValue::NoOp, length as u64 + 1),
            2 => (ProposedValue::Action, 1),
            _ => {
                let offset = Offset(offset as u64);
                (
                    ProposedValue::Content { stream, offset },
                    payload_length as u64,
                )
            }
        };
        let is_no_op = value == ProposedValue::NoOp;
        DataHeader::Propose(ProposeHeader {
            log: LogId(log),
            term,
            slots: SlotRange::new(start, Slot(start.0 + count)),
            value,
            digest: Digest(if is_no_op { 0 } else { digest }),
            chosen_up_to: Slot(offset as u64),
            payload_length: if is_no_op { 0 } else { payload_length },
        })
    })
}

proptest! {
    #[test]
    fn values_come_back_as_they_were(
        action in action(),
        state in state(),
        promised in term(),
        accepted in vec(run(), 0..4),
        value in value(),
    ) {
        round_trip(&action);
        round_trip(&state);
        round_trip(&value);
        let checkpoint = Checkpoint { promised: PromisedTerm(promised), finishing: None, state, accepted };
        let bytes = codec::encode(FIRST, &checkpoint);
        let decoded = codec::decode::<Checkpoint>(Speaks::THIS, &bytes).unwrap();
        prop_assert_eq!(decoded.promised, checkpoint.promised);
        prop_assert_eq!(&decoded.state, &checkpoint.state);
        prop_assert_eq!(&decoded.accepted, &checkpoint.accepted);
    }

    #[test]
    fn garbage_is_no_value(mut bytes in vec(any::<u8>(), 0..200), small in any::<bool>()) {
        if small {
            // Tags and counts that make sense reach further into the decoders.
            bytes.iter_mut().for_each(|byte| *byte %= 4);
        }
        if let Some(version) = bytes.first_mut() {
            *version = FIRST;
        }
        canonical::<Action>(&bytes);
        canonical::<Value>(&bytes);
        canonical::<LogState>(&bytes);
        canonical::<Checkpoint>(&bytes);
        canonical::<Message>(&bytes);
        canonical::<Heartbeat>(&bytes);
        let _ = decode_control(&bytes);
        let _ = DataHeader::decode(Speaks::THIS, &bytes);
        let _ = RecordHeader::decode(&bytes, None);
        let _ = SegmentHeader::decode(Speaks::THIS, &bytes);
    }

    #[test]
    fn mutated_values_do_not_panic(
        state in state(),
        accepted in vec(run(), 0..4),
        at in any::<Index>(),
        flip in any::<u8>(),
    ) {
        let checkpoint = Checkpoint { promised: PromisedTerm::default(), finishing: None, state, accepted };
        canonical::<Checkpoint>(&damage(&codec::encode(FIRST, &checkpoint), at, flip));
    }

    #[test]
    fn damaged_control_frames_are_refused(
        frame in frame(),
        at in any::<Index>(),
        flip in any::<u8>(),
    ) {
        let bytes = encode_control(FIRST, &frame);
        prop_assert_eq!(decode_control(&bytes), Ok(frame));
        prop_assert!(decode_control(&damage(&bytes, at, flip)).is_err());
        prop_assert!(decode_control(&bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn damaged_data_frames_are_refused(
        header in data_header(),
        at in any::<Index>(),
        flip in any::<u8>(),
    ) {
        let bytes = header.encode(FIRST);
        prop_assert_eq!(DataHeader::decode(Speaks::THIS, &bytes), Ok(header));
        prop_assert!(DataHeader::decode(Speaks::THIS, &damage(&bytes, at, flip)).is_err());
        prop_assert!(DataHeader::decode(Speaks::THIS, &bytes[..at.index(bytes.len())]).is_err());
    }

    #[test]
    fn damaged_records_are_refused(
        stream in stream(),
        number in 1u64..,
        salt in any::<u64>(),
        other_salt in any::<u64>(),
        payload in vec(any::<u8>(), 1..100),
        at in any::<Index>(),
        flip in any::<u8>(),
    ) {
        let header = RecordHeader {
            kind: RecordKind::Bytes,
            number,
            watermark: number - 1,
            stream,
            payload_length: payload.len() as u32,
            digest: crate::digest(&payload),
            ..RecordHeader::default()
        };
        let mut bytes = vec![0; RECORD_HEADER];
        header.encode(salt, &mut bytes);
        prop_assert_eq!(RecordHeader::decode(&bytes, Some(salt)).unwrap().0, header);
        prop_assert!(RecordHeader::decode(&damage(&bytes, at, flip), Some(salt)).is_err());
        prop_assert!(salt == other_salt || RecordHeader::decode(&bytes, Some(other_salt)).is_err());
        prop_assert!(header.payload_is_right(&payload));
        prop_assert!(!header.payload_is_right(&damage(&payload, at, flip)));
    }

    #[test]
    fn a_damaged_first_block_is_no_header(at in any::<Index>(), flip in any::<u8>()) {
        let header = SegmentHeader {
            version: FIRST,
            identity: crate::Identity::default(),
            log: LogId(1),
            number: 1,
            salt: 1,
            predecessor: Default::default(),
            birth: Default::default(),
        };
        let damaged = damage(&header.encode(), at, flip);
        prop_assert_eq!(SegmentHeader::decode(Speaks::THIS, &damaged), Err(SegmentError::NoHeader));
        prop_assert_eq!(SegmentHeader::decode(Speaks::THIS, &damaged[..BLOCK - 1]), Err(SegmentError::NoHeader));
    }
}

#[test]
fn an_unknown_action_says_what_to_do() {
    let error = codec::decode::<Action>(Speaks::THIS, &[FIRST, 99]).unwrap_err();
    assert_eq!(error, DecodeError::UnknownAction(99));
    assert!(error.to_string().contains("upgrade"));
}

#[test]
fn a_newer_format_is_refused_as_such() {
    let error = codec::decode::<Action>(Speaks::THIS, &[9, 1]).unwrap_err();
    assert_eq!(
        error,
        DecodeError::Version(Speaks::THIS.check(9).unwrap_err())
    );
}

#[test]
fn a_count_that_cannot_be_right_allocates_nothing() {
    let bytes = [FIRST, 255, 255, 255, 255];
    let decoded = codec::decode::<Vec<u64>>(Speaks::THIS, &bytes);
    assert_eq!(decoded, Err(DecodeError::Short));
}

#[test]
#[should_panic(expected = "data frame")]
fn a_proposal_never_travels_in_a_control_frame() {
    let proposal = Proposal {
        term: Term::default(),
        slots: SlotRange::default(),
        value: Value::NoOp,
        digest: Digest(0),
        chosen_up_to: Slot(0),
    };
    let log = LogId(1);
    encode_control(
        FIRST,
        &Frame::Engine {
            log,
            message: Message::Propose(proposal),
        },
    );
}

#[test]
fn a_heartbeat_carries_nothing_but_statuses() {
    let log = LogId(1);
    let message = Message::OfferCatchUp {
        first_unchosen: Slot(1),
    };
    let frame = Frame::Heartbeat(Heartbeat {
        round: 1,
        answers: 0,
        entries: vec![(log, message)],
        free_bytes: 0,
        disk_version: 1,
        members_version: 0,
        parted: Vec::new(),
        warnings: None,
    });
    assert!(decode_control(&encode_control(FIRST, &frame)).is_err());
}

#[test]
fn a_heartbeat_with_more_warnings_than_any_node_sends_is_refused() {
    let with = |count: usize| {
        let frame = Frame::Heartbeat(Heartbeat {
            round: 1,
            answers: 0,
            entries: Vec::new(),
            free_bytes: 0,
            disk_version: 1,
            members_version: 0,
            parted: Vec::new(),
            warnings: Some(vec![told(7); count]),
        });
        decode_control(&encode_control(FIRST, &frame))
    };
    assert!(with(TOLD_MAX).is_ok());
    assert!(with(TOLD_MAX + 1).is_err());
}
