//! Numbers of bytes, and times, as people write and read them.

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
    match bytes >= 0.0 && bytes < (1u64 << 53) as f64 {
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

/// Parses a duration in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= 86_400.0 => Ok(seconds),
        _ => Err("a time in seconds, more than 0 and at most a day".to_owned()),
    }
}

/// `1536` as `1.5 KiB`.
pub fn shown(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = "B";
    for larger in units {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    match unit {
        "B" => format!("{bytes} B"),
        _ => format!("{value:.1} {unit}"),
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
    fn sizes_are_shown_with_one_digit() {
        assert_eq!(shown(1023), "1023 B");
        assert_eq!(shown(1536), "1.5 KiB");
        assert_eq!(shown(u64::MAX), "16.0 EiB");
    }
}
