//! Plots as SVG: lines over two axes, and bars of stacked parts.
//!
//! | module | what it holds |
//! |---|---|
//! | `axis` | an axis: its words, its range, what of a value it shows |
//! | `shade` | limits, beyond which a plot is shaded |
//! | `lines` | lines in one coordinate system, ours drawn through and others' dashed |
//! | `bars` | groups of stacked bars |

mod axis;
mod bars;
mod lines;
mod shade;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

pub use axis::Axis;
pub use bars::Bars;
pub use lines::{Line, Lines};
pub use shade::Shade;

const SIZE: (u32, u32) = (760, 420);
/// Colours that people who see few colours can tell apart too (Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];
const FONT: (&str, i32) = ("sans-serif", 14);

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(size: (u32, u32), draws: impl FnOnce(&Area) -> Result<()>) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE).map_err(failed)?;
        draws(&area)?;
        area.present().map_err(failed)?;
    }
    Ok(svg)
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("a plot could not be drawn: {error}")
}

/// As few digits as tell a mark from its neighbours.
fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 1e6 => format!("{}M", trimmed(value / 1e6, 2)),
        _ if size >= 1e4 => format!("{}k", trimmed(value / 1e3, 1)),
        _ if size >= 1.0 => trimmed(value, 2),
        _ if size >= 1e-3 => trimmed(value, 4),
        _ => format!("{value:.0e}"),
    }
}

fn trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_short() {
        for (value, text) in [(0.0, "0"), (1.5, "1.5"), (20_000.0, "20k"), (0.05, "0.05")] {
            assert_eq!(short(value), text);
        }
        assert_eq!(short(1e-5), "1e-5");
        assert_eq!(short(2.5e6), "2.5M");
    }
}
