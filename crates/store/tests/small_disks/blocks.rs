//! The possible words of each block of a small disk, and one choice for all of them.

use std::convert::Infallible;

use formats::Speaks;
use formats::record::{RECORD_HEADER, RecordError, RecordHeader, RecordKind, ValueKind};
use formats::segment::{SegmentError, SegmentHeader};
use ops::BLOCK;
use store::recovery::{Blocks, First, Said, Taken};
use store::{RecoveredRecord, Replay, recovered};

use super::kernel::script::config;
use super::writer::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The block as it was written, and known durable.
    Sound,
    /// A block that was in flight when the power went: there, as before, or neither.
    New,
    Old,
    HalfWritten,
    /// Damage: zeros, other bytes, what the file held in its earlier use, another segment's block.
    Zeros,
    Torn,
    Stale,
    Strayed,
    /// Damage of a payload alone, behind a sound header in the same block.
    Rotten,
    /// Damage that is seen: the device does not give it.
    Unreadable,
}

impl Kind {
    pub fn is_damage(self) -> bool {
        !matches!(
            self,
            Kind::Sound | Kind::New | Kind::Old | Kind::HalfWritten
        )
    }

    /// Whether the block says something else, and nobody can tell.
    pub fn is_silent_damage(self) -> bool {
        self.is_damage() && self != Kind::Unreadable
    }

    fn is_as_written(self) -> bool {
        matches!(self, Kind::Sound | Kind::New)
    }
}

/// One thing that a block may say.
#[derive(Clone, Debug)]
pub struct Variant {
    pub kind: Kind,
    said: Said,
    first: First,
    /// A record in this one block, with its payload.
    is_whole: bool,
    record: Option<RecoveredRecord>,
    /// The record up to which the writer of this block knew all to be durable.
    pub testifies: u64,
}

/// One block of one file.
#[derive(Clone, Debug)]
pub struct Place {
    pub segment: u64,
    pub variants: Vec<Variant>,
    /// The record that was written here, or the first of the segment for its first block.
    pub record: Option<u64>,
}

/// All blocks of all files, and the present word of each.
pub struct World {
    pub numbers: Vec<u64>,
    pub places: Vec<Place>,
    pub choice: Vec<usize>,
    /// The beginning of each file's places.
    starts: Vec<usize>,
    pub replay: Replay,
}

impl World {
    pub fn of(moment: &Moment) -> World {
        let mut world = World {
            numbers: moment.files.keys().copied().collect(),
            places: Vec::new(),
            choice: Vec::new(),
            starts: Vec::new(),
            replay: Replay::default(),
        };
        for (&segment, blocks) in &moment.files {
            world.starts.push(world.places.len());
            let in_flight = moment.in_flight.iter().filter(|(of, _, _)| *of == segment);
            let in_flight: Vec<_> = in_flight.collect();
            let end = in_flight.iter().map(|(_, at, _)| at + 2).max().unwrap_or(0);
            let mut owner = None;
            for at in 0..blocks.len().max(end) {
                let old = blocks.get(at).copied().unwrap_or([0; BLOCK]);
                let new = in_flight.iter().find(|(_, of, _)| *of == at);
                let written = new.map_or(old, |(_, _, block)| *block);
                let mut contents = match new {
                    None => vec![(Kind::Sound, old)],
                    Some(_) => vec![
                        (Kind::New, written),
                        (Kind::Old, old),
                        (Kind::HalfWritten, torn(&written)),
                    ],
                };
                if new.is_none() {
                    contents.push((Kind::Zeros, [0; BLOCK]));
                    contents.push((Kind::Torn, torn(&written)));
                    contents.extend(rotten(&written).map(|block| (Kind::Rotten, block)));
                }
                let before = moment
                    .before
                    .get(&segment)
                    .and_then(|blocks| blocks.get(at));
                contents.extend(before.map(|block| (Kind::Stale, *block)));
                for (of, other) in &moment.files {
                    let strayed = other.get(at).filter(|_| *of != segment);
                    contents.extend(strayed.map(|block| (Kind::Strayed, *block)));
                }
                let mut known: Vec<[u8; BLOCK]> = Vec::new();
                contents.retain(|(_, block)| {
                    let is_new = !known.contains(block);
                    known.push(*block);
                    is_new
                });
                let mut variants: Vec<Variant> = contents
                    .iter()
                    .map(|(kind, block)| variant(*kind, segment, block))
                    .collect();
                let unreadable = Variant {
                    kind: Kind::Unreadable,
                    said: Said::Unreadable,
                    first: First::Lost,
                    is_whole: false,
                    record: None,
                    testifies: variants[0].testifies,
                };
                variants.push(unreadable);
                owner = match (at, variants[0].first, variants[0].said) {
                    (0, First::Own(header), _) => {
                        world.push(segment, variants, Some(header.predecessor.last_record + 1));
                        continue;
                    }
                    (_, _, Said::Record { header, salt, .. }) if is_own(segment, moment, salt) => {
                        let blocks = header.total_length() / BLOCK;
                        Some((header.number, at + blocks))
                    }
                    _ => owner.filter(|(_, end)| at < *end),
                };
                world.push(segment, variants, owner.map(|(number, _)| number));
            }
        }
        world
    }

    fn push(&mut self, segment: u64, variants: Vec<Variant>, record: Option<u64>) {
        self.places.push(Place {
            segment,
            variants,
            record,
        });
        self.choice.push(0);
    }

    fn said(&self, at: usize, offset: u64) -> Option<(usize, &Variant)> {
        let place = self.starts[at] + (offset / BLOCK as u64) as usize;
        let end = self.starts.get(at + 1).copied();
        let inside = place < end.unwrap_or(self.places.len());
        let variant = inside.then(|| &self.places[place].variants[self.choice[place]]);
        variant.map(|variant| (place, variant))
    }

    /// Whether nothing stands in that file from this offset on, nor in any later one.
    pub fn is_empty_from(&self, at: usize, offset: u64) -> bool {
        let first = self.starts[at] + (offset / BLOCK as u64) as usize;
        let behind = self.places.iter().zip(&self.choice).skip(first);
        let mut said = behind.map(|(place, choice)| place.variants[*choice].said);
        said.all(|said| {
            matches!(
                said,
                Said::Nothing {
                    is_written: false,
                    ..
                }
            )
        })
    }

    /// The disk, for people.
    pub fn shown(&self) -> String {
        let shown = self.places.iter().zip(&self.choice).map(|(place, choice)| {
            let variant = &place.variants[*choice];
            let says = match variant.said {
                Said::Record { header, .. } => {
                    format!(
                        "{:?} {} (knows {})",
                        header.kind, header.number, header.watermark
                    )
                }
                _ => match variant.first {
                    First::Own(header) => {
                        format!("first block, behind {}", header.predecessor.last_record)
                    }
                    other => format!("{other:?}"),
                },
            };
            format!(
                "  {}.seg  was record {:?}: {:?}, {says}\n",
                place.segment, place.record, variant.kind
            )
        });
        shown.collect()
    }
}

/// Whether the salt is that of this segment's writer, by its first block.
fn is_own(segment: u64, moment: &Moment, salt: u64) -> bool {
    let in_flight = moment
        .in_flight
        .iter()
        .find(|(of, at, _)| *of == segment && *at == 0);
    let first = in_flight
        .map(|(_, _, block)| block)
        .or(moment.files[&segment].first());
    let header = first.map(|block| SegmentHeader::decode(Speaks::THIS, block));
    matches!(header, Some(Ok(header)) if header.number == segment && header.salt == salt)
}

fn torn(block: &[u8; BLOCK]) -> [u8; BLOCK] {
    block.map(|byte| byte.rotate_left(3) ^ 0x5a)
}

/// The block with one bit of the payload flipped.
fn rotten(block: &[u8; BLOCK]) -> Option<[u8; BLOCK]> {
    let (header, _, _) = RecordHeader::decode(block, None).ok()?;
    let mut block = *block;
    block[RECORD_HEADER] ^= 1;
    (header.payload_length > 0).then_some(block)
}

fn variant(kind: Kind, segment: u64, block: &[u8; BLOCK]) -> Variant {
    let of = config(0, 1);
    let first = match SegmentHeader::decode(Speaks::THIS, block) {
        Err(SegmentError::NoHeader) => First::Lost,
        Err(other) => First::Foreign(other),
        Ok(header) => match header.belongs_to(&of.identity, of.log, segment) {
            Ok(()) => First::Own(header),
            Err(SegmentError::OtherNumber(number)) => First::OtherNumber {
                number,
                salt: header.salt,
            },
            Err(other) => First::Foreign(other),
        },
    };
    let mut variant = Variant {
        kind,
        said: Said::Nothing {
            why: RecordError::NoRecord,
            is_written: block.iter().any(|byte| *byte != 0),
        },
        first,
        is_whole: false,
        record: None,
        testifies: 0,
    };
    if let First::Own(header) = first {
        variant.testifies = header.predecessor.last_record;
    }
    if let Ok((header, checksum, salt)) = RecordHeader::decode(block, None) {
        variant.said = Said::Record {
            header,
            checksum,
            salt,
        };
        let end = RECORD_HEADER + header.payload_length as usize;
        let payload = block.get(RECORD_HEADER..end);
        variant.is_whole = payload.is_some_and(|payload| header.payload_is_right(payload));
        let payload = payload.unwrap_or_default();
        variant.record = recovered(Speaks::THIS, &header, payload).unwrap_or(None);
        variant.testifies = match header.kind {
            RecordKind::Checkpoint => header.number - 1,
            RecordKind::Index => header.number - 2,
            _ => header.watermark,
        };
    }
    if matches!(kind, Kind::Old | Kind::Stale | Kind::Strayed) {
        variant.testifies = 0;
    }
    variant
}

impl Blocks for World {
    type Error = Infallible;

    fn first(&mut self, at: usize) -> Result<First, Infallible> {
        Ok(self.said(at, 0).map_or(First::Lost, |(_, said)| said.first))
    }

    fn block(&mut self, at: usize, offset: u64) -> Result<Option<Said>, Infallible> {
        Ok(self.said(at, offset).map(|(_, variant)| variant.said))
    }

    fn is_whole(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
    ) -> Result<bool, Infallible> {
        let blocks = header.total_length() / BLOCK;
        let Some((place, variant)) = self.said(at, offset) else {
            return Ok(false);
        };
        if blocks == 1 {
            return Ok(variant.is_whole);
        }
        let as_written = |place: usize| {
            let variants = self.places.get(place).map(|place| &place.variants);
            variants.is_some_and(|v| v[self.choice[place]].kind.is_as_written())
        };
        Ok((place..place + blocks).all(as_written))
    }

    fn take(
        &mut self,
        at: usize,
        offset: u64,
        header: &RecordHeader,
        taken: Taken,
    ) -> Result<(), Infallible> {
        if !taken.counts {
            return Ok(());
        }
        let record = self.said(at, offset);
        let record = record.and_then(|(_, said)| said.record.clone());
        let is_content = header.value == ValueKind::Content;
        if let Some(record) = record.filter(|_| taken.is_whole || is_content) {
            self.replay.feed(record);
        }
        if taken.chosen {
            self.replay
                .feed(RecoveredRecord::Chosen(header.first_unchosen));
        }
        Ok(())
    }

    fn take_gap(&mut self, _: usize) {}

    fn take_index(
        &mut self,
        _: usize,
        _: u64,
        _: &RecordHeader,
        _: bool,
    ) -> Result<bool, Infallible> {
        Ok(true)
    }
}
