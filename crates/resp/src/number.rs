//! Numbers as text.

/// The number that this text is, as Redis reads one: no space, no plus, no zero in front, nothing beyond 64 bits.
///
/// ```
/// assert_eq!(resp::integer_of(b"-12"), Some(-12));
/// for none in ["", "+1", "01", "-0", "1 ", "9223372036854775808"] {
///     assert_eq!(resp::integer_of(none.as_bytes()), None);
/// }
/// ```
pub fn integer_of(text: &[u8]) -> Option<i64> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !is_negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut number: i64 = 0;
    for digit in digits {
        let digit = i64::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?);
        let next = number.checked_mul(10)?;
        number = match is_negative {
            true => next.checked_sub(digit)?,
            false => next.checked_add(digit)?,
        };
    }
    Some(number)
}

/// A double as Redis 7.0 writes it: C's `%.17g`, which tells every double from every other.
///
/// ```
/// assert_eq!(resp::double_text(3.0), "3");
/// assert_eq!(resp::double_text(1.1), "1.1000000000000001");
/// assert_eq!(resp::double_text(1e300), "1.0000000000000001e+300");
/// assert_eq!(resp::double_text(f64::NEG_INFINITY), "-inf");
/// ```
pub fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let digits: String = mantissa.chars().filter(|char| *char != '.').collect();
    let digits = digits.trim_end_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    format!("{sign}{}", placed(digits, exponent))
}

/// Digits whose first stands for this power of ten.
fn placed(digits: &str, exponent: i32) -> String {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if !(-4..17).contains(&exponent) {
        let (first, rest) = digits.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{first}{point}{rest}e{sign}{:02}", exponent.abs());
    }
    if exponent < 0 {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("0.{zeros}{digits}");
    }
    if count <= exponent + 1 {
        let zeros = "0".repeat(usize::try_from(exponent + 1 - count).unwrap_or(0));
        return format!("{digits}{zeros}");
    }
    let (whole, rest) = digits.split_at(usize::try_from(exponent + 1).unwrap_or(0));
    format!("{whole}.{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_written_as_c_writes_them() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.5, "1.5"),
            (0.1, "0.10000000000000001"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (123456789.125, "123456789.125"),
            (-2.5e-7, "-2.4999999999999999e-07"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ];
        for (number, text) in cases {
            assert_eq!(double_text(number), text);
        }
    }

    #[test]
    fn integers_have_one_form() {
        assert_eq!(integer_of(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer_of(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(integer_of(b"0"), Some(0));
        for none in [
            "-",
            "00",
            "1a",
            "-9223372036854775809",
            " 1",
            "99999999999999999999",
        ] {
            assert_eq!(integer_of(none.as_bytes()), None, "{none}");
        }
    }
}
