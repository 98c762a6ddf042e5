//! Lines over two axes.

use anyhow::Result;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::axis::Axis;
use super::shade::{Corners, Shade};
use super::{Area, COLOURS, FONT, SIZE, draw, failed, short};

/// Lines in one coordinate system.
pub struct Lines {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
}

#[derive(Clone, Debug, Default)]
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
    /// x, and from where to where a bar stands there.
    pub bars: Vec<(f64, f64, f64)>,
    /// Somebody else's, beside which ours are drawn through.
    pub dashed: bool,
    /// The name of a line whose colour it has, too.
    pub like: String,
}

/// Names of lines stand beside a plot, where they hide nothing: a character, and the most of all of them.
const CHARACTER: u32 = 7;
const NAMES_MAX: u32 = 420;
/// An axis in powers of ten is marked at the places that were measured, unless they are many.
const PLACES_MAX: usize = 10;
/// Lines of so many points show each of them.
const MARKED_MAX: usize = 24;

impl Lines {
    pub fn svg(&self) -> Result<String> {
        self.svg_with(&[])
    }

    /// With what lies beyond limits shaded.
    pub fn svg_with(&self, shades: &[Shade]) -> Result<String> {
        let shown = || {
            let points = self.lines.iter().flat_map(|line| &line.points);
            points.filter(|(x, y)| self.x.shows(*x) && self.y.shows(*y))
        };
        let x = self.x.range(shown().map(|point| point.0));
        let y = self.y.range(shown().map(|point| point.1));
        let shaded: Vec<(&Shade, Corners)> = shades
            .iter()
            .filter_map(|shade| Some((shade, shade.within(&x, &y)?)))
            .collect();
        let mut places: Vec<f64> = shown().map(|point| point.0).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let size = (SIZE.0 + self.names_width(&shaded), SIZE.1);
        draw(size, |area| {
            let (area, beside) = area.split_horizontally(SIZE.0);
            self.draw_names(&beside, &shaded)?;
            let area = &area;
            match (self.x.log, self.y.log, places.len() <= PLACES_MAX) {
                (false, false, _) => self.draw(area, x, y, &shaded),
                (false, true, _) => self.draw(area, x, y.log_scale(), &shaded),
                (true, false, true) => {
                    self.draw(area, x.log_scale().with_key_points(places), y, &shaded)
                }
                (true, true, true) => {
                    let x = x.log_scale().with_key_points(places);
                    self.draw(area, x, y.log_scale(), &shaded)
                }
                (true, false, false) => self.draw(area, x.log_scale(), y, &shaded),
                (true, true, false) => self.draw(area, x.log_scale(), y.log_scale(), &shaded),
            }
        })
    }

    /// The room that the names of lines and limits take.
    fn names_width(&self, shaded: &[(&Shade, Corners)]) -> u32 {
        let lines = self.lines.iter().filter(|line| !line.points.is_empty());
        let names = lines.map(|line| &line.name);
        let names = names.chain(shaded.iter().map(|(shade, _)| &shade.name));
        let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
        (longest as u32 * CHARACTER + 60).min(NAMES_MAX)
    }

    /// The colour of a line: of its own, or that of another one.
    fn colour(&self, line: &Line) -> RGBColor {
        let of = |name: &str| self.lines.iter().position(|other| other.name == name);
        let at = of(&line.like).or_else(|| of(&line.name)).unwrap_or(0);
        COLOURS[at % COLOURS.len()]
    }

    fn draw<X, Y>(&self, area: &Area, x: X, y: Y, shaded: &[(&Shade, Corners)]) -> Result<()>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 18))
            .margin(10)
            .x_label_area_size(42)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        chart
            .configure_mesh()
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .x_label_formatter(&|value| short(*value))
            .y_label_formatter(&|value| short(*value))
            .label_style(FONT)
            .light_line_style(WHITE)
            .draw()
            .map_err(failed)?;
        for (shade, corners) in shaded {
            let rectangle = Rectangle::new(*corners, shade.colour().filled());
            chart.draw_series([rectangle]).map_err(failed)?;
        }
        for line in self.lines.iter().filter(|line| !line.points.is_empty()) {
            let colour = self.colour(line);
            let points = line.points.iter().copied();
            let points = points.filter(|(x, y)| self.x.shows(*x) && self.y.shows(*y));
            let bars = line.bars.iter().copied();
            let bars = bars.filter(|(x, low, high)| {
                self.x.shows(*x) && self.y.shows(*low) && self.y.shows(*high)
            });
            let bars =
                bars.map(|(x, low, high)| PathElement::new([(x, low), (x, high)], colour.mix(0.6)));
            chart.draw_series(bars).map_err(failed)?;
            if line.dashed {
                let dashes = DashedLineSeries::new(points, 6, 5, colour.stroke_width(2));
                chart.draw_series(dashes).map_err(failed)?;
                continue;
            }
            let drawn = LineSeries::new(points, colour.filled().stroke_width(2));
            // A single point is no line, and of a few each was measured apart.
            let marks = if line.points.len() <= MARKED_MAX {
                3
            } else {
                0
            };
            chart.draw_series(drawn.point_size(marks)).map_err(failed)?;
        }
        Ok(())
    }

    /// Each line's name beside its colour, and each limit's.
    fn draw_names(&self, area: &Area, shaded: &[(&Shade, Corners)]) -> Result<()> {
        let lines = self.lines.iter().filter(|line| !line.points.is_empty());
        let lines = lines.map(|line| (&line.name, self.colour(line).to_rgba(), line.dashed));
        let shades = shaded
            .iter()
            .map(|(shade, _)| (&shade.name, shade.colour(), false));
        for ((name, colour, is_dashed), y) in lines.chain(shades).zip((48..).step_by(18)) {
            // As a dashed line, or as a box.
            let marks = match is_dashed {
                true => vec![[(6, y - 1), (11, y + 1)], [(15, y - 1), (20, y + 1)]],
                false => vec![[(6, y - 5), (20, y + 5)]],
            };
            for mark in marks {
                area.draw(&Rectangle::new(mark, colour.filled()))
                    .map_err(failed)?;
            }
            area.draw(&Text::new(name.clone(), (26, y - 6), FONT))
                .map_err(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(log: bool, points: Vec<(f64, f64)>) -> Lines {
        Lines {
            title: "a < b".to_owned(),
            x: Axis { label: "x", log },
            y: Axis { label: "y", log },
            lines: vec![Line {
                name: "cluster".to_owned(),
                points,
                ..Line::default()
            }],
        }
    }

    #[test]
    fn a_plot_is_one_svg_whatever_it_is_given() {
        for log in [false, true] {
            for points in [
                vec![],
                vec![(1.0, 1.0)],
                vec![(0.0, -1.0), (f64::NAN, 2.0), (3.0, f64::INFINITY)],
                vec![(0.001, 1.0), (1e6, 1e-5)],
            ] {
                let svg = lines(log, points).svg().unwrap();
                assert!(svg.starts_with("<svg"), "{svg}");
                assert!(svg.trim_end().ends_with("</svg>"));
                assert!(svg.contains("a &lt; b"), "what is said is no markup");
            }
        }
    }

    #[test]
    fn what_lies_beyond_a_limit_is_shaded_where_there_is_room() {
        let shade = |x, y| Shade {
            name: "limit of ours".to_owned(),
            x,
            y,
            published: false,
        };
        let plot = lines(false, vec![(1.0, 1.0), (10.0, 10.0)]);
        let shaded = |shade| plot.svg_with(&[shade]).unwrap().contains("limit of ours");
        assert!(shaded(shade(Some(5.0), None)) && shaded(shade(None, Some(5.0))));
        assert!(!shaded(shade(Some(50.0), None)));
    }
}
