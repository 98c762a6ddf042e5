//! Ranges of a sorted set, as commands mean them.

/// One end of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScoreEnd {
    pub score: f64,
    /// The score itself does not belong to it.
    pub is_open: bool,
}

/// One end of a range of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameEnd {
    Lowest,
    Highest,
    At { name: Vec<u8>, is_open: bool },
}

/// A range of a sorted set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Between {
    Scores(ScoreEnd, ScoreEnd),
    /// Ends by name: all members have one score.
    Names(NameEnd, NameEnd),
}

impl Between {
    pub const ALL: Between = Between::Scores(
        ScoreEnd {
            score: f64::NEG_INFINITY,
            is_open: false,
        },
        ScoreEnd {
            score: f64::INFINITY,
            is_open: false,
        },
    );

    pub fn holds(&self, score: f64, member: &[u8]) -> bool {
        match self {
            Between::Scores(min, max) => {
                let above = score > min.score || score == min.score && !min.is_open;
                above && (score < max.score || score == max.score && !max.is_open)
            }
            Between::Names(min, max) => is_above(member, min) && is_below(member, max),
        }
    }
}

fn is_above(member: &[u8], min: &NameEnd) -> bool {
    match min {
        NameEnd::Lowest => true,
        NameEnd::Highest => false,
        NameEnd::At { name, is_open } => member > name || member == name && !is_open,
    }
}

fn is_below(member: &[u8], max: &NameEnd) -> bool {
    match max {
        NameEnd::Lowest => false,
        NameEnd::Highest => true,
        NameEnd::At { name, is_open } => member < name || member == name && !is_open,
    }
}
