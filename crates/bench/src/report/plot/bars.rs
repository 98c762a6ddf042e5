//! Groups of stacked bars.

use std::ops::Range;

use anyhow::Result;
use plotters::prelude::*;

use super::axis::Axis;
use super::{Area, COLOURS, FONT, SIZE, draw, failed, short};

/// Groups of one bar each, every bar made of the same parts.
pub struct Bars {
    pub title: String,
    pub unit: &'static str,
    pub parts: Vec<String>,
    /// A name, and a value for each part.
    pub groups: Vec<(String, Vec<f64>)>,
}

impl Bars {
    pub fn svg(&self) -> Result<String> {
        let heights = self
            .groups
            .iter()
            .map(|(_, parts)| parts.iter().sum::<f64>());
        let height = Axis::linear(self.unit).range(heights);
        draw(SIZE, |area| self.draw(area, height))
    }

    fn draw(&self, area: &Area, height: Range<f64>) -> Result<()> {
        let count = self.groups.len().max(1);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d((0..count - 1).into_segmented(), height)
            .map_err(failed)?;
        let name = |at: &SegmentValue<usize>| match at {
            SegmentValue::CenterOf(at) => {
                let group = self.groups.get(*at);
                group.map_or_else(String::new, |(name, _)| name.clone())
            }
            _ => String::new(),
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .y_desc(self.unit)
            .x_labels(count)
            .x_label_formatter(&name)
            .y_label_formatter(&|value| short(*value))
            .label_style(("sans-serif", 12))
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (part, label) in self.parts.iter().enumerate() {
            let colour = COLOURS[part % COLOURS.len()];
            let bars = self.groups.iter().enumerate().map(|(at, (_, parts))| {
                let below: f64 = parts.iter().take(part).sum();
                let above = below + parts.get(part).copied().unwrap_or(0.0);
                let (left, right) = (SegmentValue::Exact(at), SegmentValue::Exact(at + 1));
                let mut bar = Rectangle::new([(left, below), (right, above)], colour.filled());
                bar.set_margin(0, 0, 12, 12);
                bar
            });
            chart
                .draw_series(bars)
                .map_err(failed)?
                .label(label)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
                });
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.8))
            .border_style(RGBColor(200, 200, 200))
            .label_font(FONT)
            .draw()
            .map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_named() {
        let bars = Bars {
            title: "CPU".to_owned(),
            unit: "s/GB",
            parts: vec!["user".to_owned(), "system".to_owned()],
            groups: vec![
                ("leader".to_owned(), vec![0.1, 0.4]),
                ("follower".to_owned(), vec![0.2, 0.3]),
            ],
        };
        let svg = bars.svg().unwrap();
        for word in ["leader", "follower", "user", "system"] {
            assert!(svg.contains(word), "{word}");
        }
    }
}
