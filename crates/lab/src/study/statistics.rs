//! Medians, and intervals of them that assume nothing about how values are spread.

/// A ratio of two variants: the median of the rounds' ratios, and the interval that holds the true median.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Ratio {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// With which the interval holds it; at least 0.95, unless the rounds are too few for that.
    pub confidence: f64,
    pub rounds: usize,
}

/// The least confidence that is looked for.
const CONFIDENCE: f64 = 0.95;

/// The ratio of pairs that were measured beside each other. `None`: there are none.
///
/// Shape:  n ratios -> the order statistics k and n + 1 - k, by the sign test: the true median lies outside of them as often as
///         fewer than k of n fair coins fall on one side.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Ratio> {
    let mut ratios: Vec<f64> = pairs
        .iter()
        .map(|(a, b)| a / b)
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let count = ratios.len();
    let (below, confidence) = ends(count)?;
    Some(Ratio {
        ratio: median_of_sorted(&ratios)?,
        low: ratios[below],
        high: ratios[count - 1 - below],
        confidence,
        rounds: count,
    })
}

/// How many order statistics are cut off on each side, and the confidence of what is left.
fn ends(count: usize) -> Option<(usize, f64)> {
    // As a logarithm: half to the power of more than a thousand is no number that a f64 has.
    let mut chance = -(count as f64) * std::f64::consts::LN_2;
    let mut outside = 0.0;
    let mut best = None;
    for cut in 0..count.div_ceil(2) {
        // `cut + 1` values at least must fall on one side for the interval to miss the median.
        outside += chance.exp();
        chance += ((count - cut) as f64 / (cut + 1) as f64).ln();
        let confidence = 1.0 - 2.0 * outside;
        if best.is_some() && confidence < CONFIDENCE {
            break;
        }
        best = Some((cut, confidence.max(0.0)));
    }
    best
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => Some(sorted[middle]),
        _ if sorted.is_empty() => None,
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The value that this part of all values does not exceed.
pub fn quantile(values: &[f64], part: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

/// The exponent e of `y = c x^e` that fits best, by least squares of the logarithms. `None`: fewer than two points.
pub fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let logs = points.iter().map(|(x, y)| (x.ln(), y.ln()));
    let logs: Vec<(f64, f64)> = logs
        .filter(|(x, y)| x.is_finite() && y.is_finite())
        .collect();
    let count = logs.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = logs.iter().map(|point| (point.0 - x).powi(2)).sum();
    let along: f64 = logs.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    (spread > 0.0).then_some(along / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_order_statistics_is_that_of_the_tables() {
        // The tables of the sign test: of 6 values the whole range has 96.9 %, of 60 those from the 22nd to the 39th 97.3 %.
        for (count, cut, confidence) in [(6, 0, 0.96875), (10, 1, 0.978_515_6), (60, 21, 0.9725)] {
            let (found, with) = ends(count).expect("some");
            assert_eq!(found, cut, "of {count}");
            assert!((with - confidence).abs() < 0.001, "of {count}: {with}");
        }
        let (cut, with) = ends(5).expect("some");
        assert!(cut == 0 && (with - 0.9375).abs() < 1e-9, "too few for 95 %");
        // By the normal distribution 750 less 1.96 of its deviations, which are 19.4.
        let (cut, with) = ends(1500).expect("some");
        assert!(
            (710..=713).contains(&cut) && (with - 0.95).abs() < 0.01,
            "{cut} {with}"
        );
        assert_eq!(ends(0), None);
    }

    #[test]
    fn a_ratio_is_of_rounds_and_not_of_medians() {
        // The machine is ten times slower in some rounds: both sides are.
        let pairs: Vec<(f64, f64)> = (0..20)
            .map(|round| match round % 3 {
                0 => (30.0, 20.0),
                _ => (3.0, 2.0),
            })
            .collect();
        let found = ratio(&pairs).expect("some");
        assert_eq!((found.ratio, found.low, found.high), (1.5, 1.5, 1.5));
        assert!(ratio(&[(1.0, 0.0)]).is_none());
    }

    #[test]
    fn exponents_are_found_again() {
        let points: Vec<(f64, f64)> = (1..9)
            .map(|n| (f64::from(n), 3.0 * f64::from(n).powf(1.8)))
            .collect();
        let found = exponent(&points).expect("a line");
        assert!((found - 1.8).abs() < 1e-9, "{found}");
        assert_eq!(exponent(&[(1.0, 1.0)]), None);
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(median(&values), Some(3.0));
        assert_eq!(quantile(&values, 0.99), Some(5.0));
        assert_eq!(quantile(&values, 0.2), Some(1.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[]), None);
    }
}
