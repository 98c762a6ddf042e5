//! Numbers of bytes, and times, as people write and read them.

use std::time::Duration;

/// Reads a number of bytes: `4096`, `64KiB`, `1.5M`. k, M, G and T are powers of 1000 (with or without
/// a B); KiB, MiB, GiB and TiB are powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no number of bytes; write 4096, 64KiB or 1.5M");
    let text = text.trim();
    let digits = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "" | "B" => 1,
        "k" | "K" | "kB" | "KB" => 1000,
        "M" | "MB" => 1000 * 1000,
        "G" | "GB" => 1000 * 1000 * 1000,
        "T" | "TB" => 1000 * 1000 * 1000 * 1000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    if let Ok(whole) = number.trim().parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(wrong);
    }
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let bytes = number * factor as f64;
    // There is no half of a byte; of a kilobyte there is.
    match factor > 1 && bytes >= 0.0 && bytes < (1u64 << 53) as f64 {
        true => Ok(bytes as u64),
        false => Err(wrong()),
    }
}

/// Like [`bytes`], and at least one. A rate may end in `/s`.
pub fn bytes_per_second(text: &str) -> Result<u64, String> {
    at_least_one(text.strip_suffix("/s").unwrap_or(text))
}

pub fn at_least_one(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("it must be at least 1".to_owned()),
        bytes => Ok(bytes),
    }
}

/// A number of things: `1 stream`, `2 streams`. Regular nouns alone.
pub fn counted(count: impl Into<u64>, noun: &str) -> String {
    match count.into() {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}

/// Parses a duration in seconds: `20`, `500ms`, `20s`, `1.5m`.
pub fn seconds(text: &str) -> Result<f64, String> {
    match timed(text) {
        Some(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("a time, as 20, 500ms, 20s or 1.5m: more than 0 and at most a day".to_owned()),
    }
}

/// Parses a duration of whole seconds: `90`, `90s`, `15m`, `1h`, `7d`.
pub fn whole_seconds(text: &str) -> Result<u64, String> {
    match timed(text) {
        Some(seconds) if seconds.fract() == 0.0 && (0.0..1e15).contains(&seconds) => {
            Ok(seconds as u64)
        }
        _ => Err(format!(
            "{text:?} is no time in whole seconds; write 90, 90s, 15m, 1h or 7d"
        )),
    }
}

fn timed(text: &str) -> Option<f64> {
    let text = text.trim();
    let letters = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (number, unit) = text.split_at(letters.len());
    let number: f64 = number.trim().parse().ok()?;
    // One division, so that 500ms is a half to the last digit.
    match unit {
        "ms" => Some(number / 1000.0),
        "" | "s" => Some(number),
        "m" | "min" => Some(number * 60.0),
        "h" => Some(number * 3600.0),
        "d" => Some(number * 86_400.0),
        _ => None,
    }
}

/// `1536` as `1.5 KiB`.
pub fn shown(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in units {
        // 1023.95 of one unit would be shown as 1024.0 of it.
        let least = if unit == "B" { 1024.0 } else { 1023.95 };
        if value < least {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ => format!("{value:.1} {unit}"),
    }
}

/// A time in the unit that people would say it in: `40 ms`, `1.2 s`, `57 s`, `10 min`.
pub fn time(time: Duration) -> String {
    let ms = time.as_millis();
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms} ms"),
        1..10 => format!("{seconds}.{} s", ms % 1000 / 100),
        10..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_k_is_a_thousand_and_a_kib_is_1024() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("20M"), Ok(20_000_000));
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert_eq!(bytes("1.5k"), Ok(1500));
        assert_eq!(bytes("2TiB"), Ok(2 << 40));
        assert_eq!(bytes_per_second("1 MiB/s"), Ok(1 << 20));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "k", "-1", "1x", "99999999999G", "1e400", "nan", "inf"] {
            assert!(bytes(text).is_err(), "{text}");
        }
        assert!(at_least_one("0").is_err());
        assert!(bytes_per_second("0.1").is_err());
    }

    #[test]
    fn times_have_units_or_are_seconds() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert_eq!(seconds("500ms"), Ok(0.5));
        assert_eq!(seconds("1.5m"), Ok(90.0));
        assert_eq!(seconds("1d"), Ok(86_400.0));
        assert_eq!(whole_seconds("1h"), Ok(3600));
        assert_eq!(whole_seconds("0"), Ok(0));
        for text in ["", "s", "0", "-1", "2d", "1y", "nan", "inf", "1e9"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        for text in ["", "0.5", "-1", "1y", "nan", "inf", "1e400"] {
            assert!(whole_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_the_unit_that_people_use() {
        let said = [40, 1_260, 57_000, 600_000, 10_000_000, 864_000_000];
        let said = said.map(|ms| time(Duration::from_millis(ms)));
        assert_eq!(said, ["40 ms", "1.2 s", "57 s", "10 min", "2 h", "10 days"]);
    }

    #[test]
    fn sizes_are_shown_with_one_digit() {
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1536), "1.5 KiB");
        assert_eq!(shown((1 << 20) - 1), "1.0 MiB");
        assert_eq!(shown(69_578_470_195), "64.8 GiB");
        assert_eq!(shown(u64::MAX), "16.0 EiB");
    }
}
