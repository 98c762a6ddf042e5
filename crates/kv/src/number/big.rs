//! Natural numbers of any size, for what a decimal fraction and a binary one have to do with each other. Only what that takes.

use std::cmp::Ordering;

/// Limbs of 32 bits, the low ones first; the last one is not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Big(Vec<u32>);

impl Big {
    pub fn of(number: u64) -> Big {
        let mut big = Big(vec![number as u32, (number >> 32) as u32]);
        big.trim();
        big
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// Multiplies and adds.
    pub fn grow(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.0 {
            let product = u64::from(*limb) * u64::from(factor) + carry;
            *limb = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
        self.trim();
    }

    pub fn times_ten_to(&mut self, exponent: u32) {
        for _ in 0..exponent / 9 {
            self.grow(1_000_000_000, 0);
        }
        for _ in 0..exponent % 9 {
            self.grow(10, 0);
        }
    }

    /// The place of the highest bit, plus one.
    pub fn bits(&self) -> u32 {
        let Some(last) = self.0.last() else {
            return 0;
        };
        self.0.len() as u32 * 32 - last.leading_zeros()
    }

    pub fn shift_left(&mut self, bits: u32) {
        if self.is_zero() {
            return;
        }
        let small = bits % 32;
        if small > 0 {
            self.grow(1 << small, 0);
        }
        let zeros = std::iter::repeat_n(0, (bits / 32) as usize);
        self.0.splice(0..0, zeros);
    }

    fn bit(&self, place: u32) -> bool {
        let limb = self.0.get((place / 32) as usize);
        limb.is_some_and(|limb| limb >> (place % 32) & 1 == 1)
    }

    /// The highest 64 bits, the place of the lowest of them, and whether what is below is half of that or more, and not exactly half.
    pub fn top(&self) -> (u64, u32, Ordering) {
        let low = self.bits().saturating_sub(64);
        let top = (low..self.bits()).rev();
        let mantissa = top.fold(0, |top, place| top << 1 | u64::from(self.bit(place)));
        if low == 0 {
            return (mantissa, 0, Ordering::Less);
        }
        let is_half = self.bit(low - 1);
        let is_more = (0..low - 1).any(|place| self.bit(place));
        let below = match (is_half, is_more) {
            (false, _) => Ordering::Less,
            (true, false) => Ordering::Equal,
            (true, true) => Ordering::Greater,
        };
        (mantissa, low, below)
    }

    fn cmp_to(&self, other: &Big) -> Ordering {
        let lengths = self.0.len().cmp(&other.0.len());
        lengths.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn subtract(&mut self, other: &Big) {
        let mut borrow = 0;
        for (place, limb) in self.0.iter_mut().enumerate() {
            let taken = i64::from(other.0.get(place).copied().unwrap_or(0)) + borrow;
            let left = i64::from(*limb) - taken;
            borrow = i64::from(left < 0);
            *limb = left as u32;
        }
        self.trim();
    }

    /// Divides: 64 bits of the quotient, the power of two of the lowest of them, and how the rest compares to half of it.
    pub fn divided(mut self, mut by: Big) -> (u64, i32, Ordering) {
        let apart = self.bits() as i32 - by.bits() as i32;
        match apart {
            0.. => by.shift_left(apart as u32),
            _ => self.shift_left(apart.unsigned_abs()),
        }
        let mut exponent = apart;
        if self.cmp_to(&by) == Ordering::Less {
            self.shift_left(1);
            exponent -= 1;
        }
        // Now by <= self < 2 by: one bit each round.
        let mut quotient: u64 = 0;
        for _ in 0..64 {
            quotient <<= 1;
            if self.cmp_to(&by) != Ordering::Less {
                self.subtract(&by);
                quotient |= 1;
            }
            self.shift_left(1);
        }
        // `self` is twice the rest.
        (quotient, exponent - 63, self.cmp_to(&by))
    }

    pub fn decimal(&self) -> String {
        let mut limbs = self.0.clone();
        let mut parts = Vec::new();
        while limbs.iter().any(|limb| *limb != 0) {
            let mut rest: u64 = 0;
            for limb in limbs.iter_mut().rev() {
                let number = rest << 32 | u64::from(*limb);
                *limb = (number / 1_000_000_000) as u32;
                rest = number % 1_000_000_000;
            }
            parts.push(rest);
        }
        let mut text = parts.pop().unwrap_or(0).to_string();
        for part in parts.into_iter().rev() {
            text.push_str(&format!("{part:09}"));
        }
        text
    }
}
