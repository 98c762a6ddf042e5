//! Numbers of 64 significant bits, as INCRBYFLOAT and HINCRBYFLOAT reckon.
//!
//! Redis reckons there in C's `long double`, which on x86-64 is a number of the x87: 64 bits of mantissa and 15 of exponent. Here it is
//! done in integers, with the same roundings: a decimal fraction becomes the nearest such number (ties to even), a sum is rounded once, and
//! text is the exact number rounded to 17 places. So 3.0 + 1.1 is 4.1 here as there.
//!
//! Results can differ from those of a Redis on x86-64 only: for numbers below 2^-16382 (where the x87 has fewer bits: 17 places do not show them),
//! and for numbers in base 16, which are not read here. A Redis on other machines has other `long double`s, and differs from both.

use std::cmp::Ordering;

use super::big::Big;

/// The longest text that is read.
const TEXT_BYTES_MAX: usize = 5 * 1024;

/// Numbers are less than two to this.
const EXPONENT_MAX: i32 = 16_384;
/// Numbers below half of two to this are zero.
const EXPONENT_MIN: i32 = -16_445;

/// mantissa · 2^exponent; the mantissa's highest bit is set, or all is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    is_negative: bool,
    mantissa: u64,
    exponent: i32,
}

/// A number that is read, or that a sum came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wide {
    Finite(Extended),
    TooLarge,
    TooSmall,
}

impl Extended {
    /// Reads a word; infinity is told apart, since it is read but no result.
    pub fn parse(word: &[u8]) -> Option<Result<Extended, Infinite>> {
        let text = std::str::from_utf8(word).ok()?;
        if text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, digits) = match text.as_bytes().first()? {
            b'-' => (true, text.get(1..)?),
            b'+' => (false, text.get(1..)?),
            _ => (false, text),
        };
        let lower = digits.to_ascii_lowercase();
        if lower == "inf" || lower == "infinity" {
            return Some(Err(Infinite));
        }
        match magnitude(digits)? {
            Wide::Finite(number) => Some(Ok(Extended {
                is_negative,
                ..number
            })),
            Wide::TooLarge | Wide::TooSmall => None,
        }
    }

    /// The sum, if it is finite.
    pub fn plus(self, other: Extended) -> Result<Extended, Infinite> {
        let is_larger = |a: &Extended, b: &Extended| {
            b.mantissa == 0
                || a.mantissa != 0 && (a.exponent, a.mantissa) >= (b.exponent, b.mantissa)
        };
        let (large, small) = match is_larger(&self, &other) {
            true => (self, other),
            false => (other, self),
        };
        match large.plus_smaller(small) {
            Wide::Finite(sum) => Ok(sum),
            Wide::TooLarge => Err(Infinite),
            Wide::TooSmall => Ok(Extended::ZERO),
        }
    }

    const ZERO: Extended = Extended {
        is_negative: false,
        mantissa: 0,
        exponent: 0,
    };

    fn plus_smaller(self, small: Extended) -> Wide {
        if small.mantissa == 0 {
            return Wide::Finite(self);
        }
        // 62 bits below both mantissas; what is shifted out of them, is remembered.
        let apart = self.exponent.saturating_sub(small.exponent).unsigned_abs();
        let large = u128::from(self.mantissa) << 62;
        let shifted = u128::from(small.mantissa) << 62;
        let below = shifted.checked_shr(apart).unwrap_or(0);
        let is_lost = below.checked_shl(apart).unwrap_or(0) != shifted;
        let sum = match self.is_negative == small.is_negative {
            true => large + below,
            false => large - below - u128::from(is_lost),
        };
        if sum == 0 && !is_lost {
            return Wide::Finite(Extended::ZERO);
        }
        let low = (128 - sum.leading_zeros()).saturating_sub(64);
        let (mantissa, rest) = ((sum >> low) as u64, sum & ((1 << low) - 1));
        let half = 1_u128 << low >> 1;
        let order = match rest.cmp(&half) {
            _ if low == 0 => Ordering::Less,
            Ordering::Equal if is_lost => Ordering::Greater,
            order => order,
        };
        rounded(
            self.is_negative,
            mantissa,
            self.exponent - 62 + low as i32,
            order,
        )
    }

    /// As Redis shows it to people: 17 places, without the zeros at the end.
    pub fn text(self) -> String {
        let digits = match self.exponent {
            0.. => {
                let mut whole = Big::of(self.mantissa);
                whole.shift_left(self.exponent.unsigned_abs());
                whole.decimal()
            }
            _ => self.fraction(),
        };
        match digits.as_str() {
            "0" => digits,
            _ if self.is_negative => format!("-{digits}"),
            _ => digits,
        }
    }

    fn fraction(self) -> String {
        const PLACES: u128 = 100_000_000_000_000_000;
        let scaled = u128::from(self.mantissa) * PLACES;
        let shift = self.exponent.unsigned_abs();
        let mut whole = scaled.checked_shr(shift).unwrap_or(0);
        let rest = scaled - whole.checked_shl(shift).unwrap_or(0);
        let half = 1_u128.checked_shl(shift - 1).unwrap_or(u128::MAX);
        if rest > half || rest == half && whole % 2 == 1 {
            whole += 1;
        }
        let text = format!("{}.{:017}", whole / PLACES, whole % PLACES);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

/// The number is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Infinite;

/// Rounds to 64 bits; `below` is how what is left compares to half of the lowest.
fn rounded(is_negative: bool, mantissa: u64, exponent: i32, below: Ordering) -> Wide {
    let is_up = match below {
        Ordering::Less => false,
        Ordering::Equal => mantissa % 2 == 1,
        Ordering::Greater => true,
    };
    let (mut mantissa, mut exponent) = (mantissa, exponent);
    if is_up {
        match mantissa.checked_add(1) {
            Some(next) => mantissa = next,
            None => {
                mantissa = 1 << 63;
                exponent += 1;
            }
        }
    }
    if mantissa == 0 {
        return Wide::Finite(Extended::ZERO);
    }
    exponent -= mantissa.leading_zeros() as i32;
    mantissa <<= mantissa.leading_zeros();
    if exponent + 64 > EXPONENT_MAX {
        return Wide::TooLarge;
    }
    if exponent + 63 < EXPONENT_MIN {
        return Wide::TooSmall;
    }
    Wide::Finite(Extended {
        is_negative,
        mantissa,
        exponent,
    })
}

/// Digits with a point and an exponent, without a sign.
fn magnitude(text: &str) -> Option<Wide> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent_of(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut number = Big::of(0);
    for digit in whole.bytes().chain(fraction.bytes()) {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        if number.is_zero() {
            number = Big::of(u64::from(digit));
        } else {
            number.grow(10, u32::from(digit));
        }
    }
    if number.is_zero() {
        return Some(Wide::Finite(Extended::ZERO));
    }
    Some(scaled(number, exponent - fraction.len() as i32))
}

/// The number behind `e`; very large ones are as good as larger ones.
fn exponent_of(text: &str) -> Option<i32> {
    let (is_negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent = digits.bytes().fold(0_i32, |exponent, digit| {
        (exponent * 10 + i32::from(digit - b'0')).min(20_000)
    });
    Some(if is_negative { -exponent } else { exponent })
}

/// number · 10^exponent
fn scaled(mut number: Big, exponent: i32) -> Wide {
    let decimal_digits = number.bits() as i32 * 30_103 / 100_000;
    if exponent + decimal_digits > 5_000 {
        return Wide::TooLarge;
    }
    if exponent + decimal_digits < -5_100 {
        return Wide::TooSmall;
    }
    if exponent >= 0 {
        number.times_ten_to(exponent.unsigned_abs());
        let (mantissa, exponent, below) = number.top();
        return rounded(false, mantissa, exponent as i32, below);
    }
    let mut divisor = Big::of(1);
    divisor.times_ten_to(exponent.unsigned_abs());
    let (mantissa, exponent, below) = number.divided(divisor);
    rounded(false, mantissa, exponent, below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Extended {
        match Extended::parse(text.as_bytes()) {
            Some(Ok(number)) => number,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn sum(a: &str, b: &str) -> String {
        read(a).plus(read(b)).expect("finite").text()
    }

    /// The sums are those that Redis 7.0.15 answered on x86-64.
    #[test]
    fn sums_are_those_of_a_long_double() {
        for (a, b, text) in [
            ("3", "1.1", "4.1"),
            ("3.0", "1.000000000000000005", "4.00000000000000001"),
            ("1000.1", "0", "1000.09999999999999998"),
            ("123456.789", "0.1", "123456.8890000000000029"),
            ("10.5", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0", "-0", "0"),
            ("1", "-1", "0"),
            ("-1.23", "0", "-1.23"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1000000000000000000000", "1", "1000000000000000000000"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "-1", "18446744073709551615"),
            ("1e20", "0.5", "100000000000000000000"),
            ("0.00000000000000001", "0", "0.00000000000000001"),
            ("1e-30", "0", "0"),
        ] {
            assert_eq!(sum(a, b), text, "{a} + {b}");
        }
    }

    #[test]
    fn what_is_no_number_is_not_read() {
        for text in [
            "", "a", "1a", " 1", "1 ", "nan", ".", "e1", "1e", "1e5000", "1e-6000", "+-1",
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Extended::parse(b"-inf"), Some(Err(Infinite)));
        let large = read("1e4932");
        assert_eq!(large.plus(large), Err(Infinite));
        assert_eq!(large.text().len(), 4933);
    }

    /// With fewer bits it is the arithmetic of doubles, which the machine does.
    #[test]
    fn doubles_survive() {
        for number in [
            0.5,
            0.1,
            1.0 / 3.0,
            1e10,
            123456.789,
            2.0_f64.powi(60) + 256.0,
        ] {
            let text = format!("{number:?}");
            let close: f64 = read(&text).text().parse().expect("a number");
            assert!((close - number).abs() <= number * 1e-16, "{text}");
        }
    }
}
