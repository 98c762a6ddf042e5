//! Limits in a plot, beyond which it is shaded.

use std::ops::Range;

use plotters::style::{Color, RGBAColor};

use super::COLOURS;

/// A limit, beyond which a plot is shaded.
#[derive(Clone, Debug)]
pub struct Shade {
    pub name: String,
    /// From here on to the right.
    pub x: Option<f64>,
    /// From here on upwards.
    pub y: Option<f64>,
    /// Somebody else's.
    pub published: bool,
}

/// Two opposite corners of a rectangle.
pub(super) type Corners = [(f64, f64); 2];

impl Shade {
    pub(super) fn colour(&self) -> RGBAColor {
        match self.published {
            true => COLOURS[6].mix(0.2),
            false => COLOURS[4].mix(0.25),
        }
    }

    /// The part of a plot that lies beyond it. `None`: nothing of it does.
    pub(super) fn within(&self, x: &Range<f64>, y: &Range<f64>) -> Option<Corners> {
        let left = self.x.unwrap_or(x.start).max(x.start);
        let low = self.y.unwrap_or(y.start).max(y.start);
        (left < x.end && low < y.end).then_some([(left, low), (x.end, y.end)])
    }
}
