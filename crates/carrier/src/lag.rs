//! How much later bytes arrive.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Hardly a way on earth takes longer; with 300 ms nodes take each other for silent now and then.
pub const LAG_MAX: Duration = Duration::from_millis(200);

/// The time that is added to each way: always as much, or drawn evenly between two times.
///
/// Shape: `20ms`, `0.5ms`, `250us` or `5ms..38ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    least: Duration,
    most: Duration,
}

/// A text that is no lag; it says how one is written.
#[derive(Debug, PartialEq, Eq)]
pub struct NotALag;

impl fmt::Display for NotALag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = LAG_MAX.as_millis();
        write!(
            f,
            "say a time of at most {most} ms as 20ms or 250us, or two as 5ms..38ms, the shorter one first"
        )
    }
}

impl Error for NotALag {}

impl Lag {
    /// Nothing is added.
    pub fn is_zero(self) -> bool {
        self.most.is_zero()
    }

    /// The next one, of 64 random bits.
    pub(crate) fn draw(self, random: u64) -> Duration {
        let span = (self.most - self.least).as_micros() as u64 + 1;
        self.least + Duration::from_micros(random % span)
    }
}

impl FromStr for Lag {
    type Err = NotALag;

    fn from_str(text: &str) -> Result<Lag, NotALag> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (time(least)?, time(most)?);
        match least <= most && most <= LAG_MAX {
            true => Ok(Lag { least, most }),
            false => Err(NotALag),
        }
    }
}

impl fmt::Display for Lag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_micros() as f64 / 1e3;
        match self.least == self.most {
            true => write!(f, "{}ms", ms(self.least)),
            false => write!(f, "{}ms..{}ms", ms(self.least), ms(self.most)),
        }
    }
}

fn time(text: &str) -> Result<Duration, NotALag> {
    let text = text.trim();
    let (number, micros) = match text.strip_suffix("us") {
        Some(number) => (number, 1.0),
        None => (text.strip_suffix("ms").ok_or(NotALag)?, 1e3),
    };
    let number: f64 = number.trim().parse().map_err(|_| NotALag)?;
    let micros = number * micros;
    // Not a number, too.
    match (0.0..=LAG_MAX.as_micros() as f64).contains(&micros) {
        true => Ok(Duration::from_micros(micros.round() as u64)),
        false => Err(NotALag),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lags_are_read_and_shown() {
        for (text, shown) in [
            ("20ms", "20ms"),
            ("0.5ms", "0.5ms"),
            ("250us", "0.25ms"),
            ("5ms..38ms", "5ms..38ms"),
            ("0ms", "0ms"),
        ] {
            let lag: Lag = text.parse().expect(text);
            assert_eq!(lag.to_string(), shown);
            assert_eq!(lag.to_string().parse(), Ok(lag));
        }
        for text in [
            "", "20", "20s", "-1ms", "NaNms", "infms", "201ms", "9ms..5ms", "1ms..", "..", "1e9ms",
        ] {
            assert_eq!(text.parse::<Lag>(), Err(NotALag), "{text}");
        }
    }

    #[test]
    fn draws_are_between_both_ends() {
        let lag: Lag = "5ms..38ms".parse().expect("a lag");
        let micros = |random| lag.draw(random).as_micros();
        assert_eq!(
            (micros(0), micros(33_000), micros(33_001)),
            (5_000, 38_000, 5_000)
        );
        assert!((5_000..=38_000).contains(&micros(u64::MAX)));
    }
}
