//! The exponential clock of `random`, in 32.32 fixed point and whole numbers only, so that every machine agrees.

use super::Draw;

/// ln 2 in 1/2^64.
const LN_2: u128 = 0xb172_17f7_d1cf_79ac;

/// Bits of a logarithm's fraction that are worked out.
const BITS: u32 = 38;

/// An exponential variate of mean 1 from a draw, in 1/2^32: at least 1, at most 64·ln 2.
#[must_use]
pub fn exponential(draw: Draw) -> u64 {
    // −ln u = ln 2 · (zeros + 1 − log2 m), where u = m · 2^−(zeros + 1) and 1 ≤ m < 2.
    let u = draw.0.max(1);
    let zeros = u.leading_zeros();
    let mut m = u << zeros;
    let mut log2 = 0_u128;
    for _ in 0..BITS {
        let square = u128::from(m) * u128::from(m);
        let carry = square >> 127;
        m = u64::try_from(square >> (63 + carry)).unwrap_or(u64::MAX);
        log2 = log2 << 1 | carry;
    }
    let halvings = (u128::from(zeros + 1) << BITS) - log2;
    let value = (halvings * LN_2) >> (64 + BITS - 32);
    u64::try_from(value).unwrap_or(u64::MAX).max(1)
}
