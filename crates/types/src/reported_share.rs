//! A share that is told again and again while a statement runs.
//!
//! Invariants:
//! - It never goes back, whoever asks: what is estimated anew to be less, or is not known for a while, stays what it was told to be.
//! - It is never whole: a statement is done when its end is there, and not when it must be near.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most that is told of a statement that has not ended: below 100 % also for whoever rounds it.
const MOST: f64 = 0.99;

/// What was told last.
#[derive(Debug, Default)]
pub struct ReportedShare {
    /// Of a number that is not negative, whose bits are in the order of the numbers.
    bits: AtomicU64,
}

impl ReportedShare {
    /// What there is to tell when `share` is what is known.
    pub fn tell(&self, share: Option<f64>) -> Option<f64> {
        let share = share.filter(|share| share.is_finite());
        let share = share.map(|share| if share > 0.0 { share.min(MOST) } else { 0.0 });
        let before = f64::from_bits(self.bits.fetch_max(share.unwrap_or(0.0).to_bits(), Ordering::Relaxed));
        match share {
            Some(share) => Some(share.max(before)),
            None => Some(before).filter(|before| *before > 0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_never_goes_back_and_is_never_whole() {
        let told = ReportedShare::default();
        assert_eq!(told.tell(None), None);
        assert_eq!(told.tell(Some(0.0)), Some(0.0));
        assert_eq!(told.tell(None), None, "nothing was told that anybody could hold on to");
        assert_eq!(told.tell(Some(0.5)), Some(0.5));
        assert_eq!(told.tell(Some(0.25)), Some(0.5));
        assert_eq!((told.tell(None), told.tell(Some(f64::NAN))), (Some(0.5), Some(0.5)));
        assert_eq!((told.tell(Some(-0.0)), told.tell(Some(-1.0))), (Some(0.5), Some(0.5)));
        assert_eq!((told.tell(Some(1.0)), told.tell(Some(7.0))), (Some(MOST), Some(MOST)));
    }
}
