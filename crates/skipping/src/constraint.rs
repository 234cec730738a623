//! What a predicate asks of one column, and when one such asks no less than another.
//!
//! Invariants:
//! - A constraint is exact: it holds of exactly the values of which the conditions that it is made of are TRUE.
//! - [`Constraint::implies`] never says yes wrongly; it may say no where a longer look would find a yes.
//! - A span of one value is the set of it, and spans of whole numbers have inclusive ends, so that equal constraints look equal
//!   however they were written.

use crate::value::Value;
use std::collections::BTreeSet;

/// One end of a span.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct End {
    /// Where.
    pub(crate) value: Value,
    /// Whether the value itself is in.
    pub(crate) inclusive: bool,
}

/// Values between two ends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Span {
    pub(crate) low: Option<End>,
    pub(crate) high: Option<End>,
}

/// What is asked of one column.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Constraint {
    /// It is NULL.
    Null,
    /// It is one of these, and not NULL. Empty: nothing satisfies it.
    OneOf(BTreeSet<Value>),
    /// It lies in the span and is none of the exceptions (which lie in the span), and is not NULL.
    Within(Span, BTreeSet<Value>),
}

impl Span {
    fn contains(&self, value: &Value) -> bool {
        let above = self.low.as_ref().is_none_or(|low| *value > low.value || low.inclusive && *value == low.value);
        let below = self.high.as_ref().is_none_or(|high| *value < high.value || high.inclusive && *value == high.value);
        above && below
    }

    /// Whether everything in this span is in the other.
    fn is_in(&self, other: &Span) -> bool {
        let low = match (&self.low, &other.low) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(own), Some(other)) => {
                own.value > other.value || own.value == other.value && (other.inclusive || !own.inclusive)
            }
        };
        let high = match (&self.high, &other.high) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(own), Some(other)) => {
                own.value < other.value || own.value == other.value && (other.inclusive || !own.inclusive)
            }
        };
        low && high
    }

    fn intersect(self, other: Span) -> Span {
        // Of two lower ends the higher one; of equal ones that which leaves the value out.
        let low = match (self.low, other.low) {
            (Some(a), Some(b)) => {
                let key = |end: &End| (end.value.clone(), !end.inclusive);
                Some(if key(&a) >= key(&b) { a } else { b })
            }
            (a, b) => a.or(b),
        };
        let high = match (self.high, other.high) {
            (Some(a), Some(b)) => {
                let key = |end: &End| (end.value.clone(), end.inclusive);
                Some(if key(&a) <= key(&b) { a } else { b })
            }
            (a, b) => a.or(b),
        };
        Span { low, high }
    }
}

impl Constraint {
    /// It is not NULL.
    pub(crate) fn not_null() -> Constraint {
        Constraint::Within(Span::default(), BTreeSet::new())
    }

    /// It lies between two ends.
    pub(crate) fn between(low: Option<End>, high: Option<End>) -> Constraint {
        Constraint::Within(Span { low, high }, BTreeSet::new()).normal()
    }

    /// It is none of these, and not NULL.
    pub(crate) fn none_of(values: BTreeSet<Value>) -> Constraint {
        Constraint::Within(Span::default(), values)
    }

    /// Nothing satisfies it.
    pub(crate) fn is_void(&self) -> bool {
        matches!(self, Constraint::OneOf(values) if values.is_empty())
    }

    /// Both.
    pub(crate) fn and(self, other: Constraint) -> Constraint {
        use Constraint::{Null, OneOf, Within};
        let both = match (self, other) {
            (Null, Null) => Null,
            (Null, _) | (_, Null) => OneOf(BTreeSet::new()),
            (OneOf(mut a), OneOf(b)) => {
                a.retain(|value| b.contains(value));
                OneOf(a)
            }
            (OneOf(mut values), Within(span, except)) | (Within(span, except), OneOf(mut values)) => {
                values.retain(|value| span.contains(value) && !except.contains(value));
                OneOf(values)
            }
            (Within(a, mut except), Within(b, others)) => {
                except.extend(others);
                Within(a.intersect(b), except)
            }
        };
        both.normal()
    }

    /// Whether every value that satisfies this one satisfies the other.
    pub(crate) fn implies(&self, other: &Constraint) -> bool {
        use Constraint::{Null, OneOf, Within};
        match (self, other) {
            (OneOf(values), _) if values.is_empty() => true,
            (Null, Null) => true,
            (OneOf(own), OneOf(other)) => own.is_subset(other),
            (OneOf(own), Within(span, except)) => {
                own.iter().all(|value| span.contains(value) && !except.contains(value))
            }
            (Within(own, own_except), Within(span, except)) => {
                own.is_in(span) && except.iter().all(|value| !own.contains(value) || own_except.contains(value))
            }
            (Null, _) | (_, Null) | (Within(..), OneOf(_)) => false,
        }
    }

    fn normal(self) -> Constraint {
        let Constraint::Within(mut span, mut except) = self else { return self };
        if let Some(low) = span.low.as_mut().filter(|low| !low.inclusive)
            && let Some(next) = low.value.next()
        {
            *low = End { value: next, inclusive: true };
        }
        if let Some(high) = span.high.as_mut().filter(|high| !high.inclusive)
            && let Some(previous) = high.value.previous()
        {
            *high = End { value: previous, inclusive: true };
        }
        except.retain(|value| span.contains(value));
        if let (Some(low), Some(high)) = (&span.low, &span.high) {
            if low.value > high.value || low.value == high.value && !(low.inclusive && high.inclusive) {
                return Constraint::OneOf(BTreeSet::new());
            }
            if low.value == high.value {
                let only = BTreeSet::from([low.value.clone()]);
                return Constraint::OneOf(if except.is_empty() { only } else { BTreeSet::new() });
            }
        }
        Constraint::Within(span, except)
    }

    /// Memory that it holds beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let set = |values: &BTreeSet<Value>| {
            values.iter().map(|value| 2 * size_of::<Value>() + value.heap_bytes()).sum::<usize>()
        };
        let end = |end: &Option<End>| end.as_ref().map_or(0, |end| end.value.heap_bytes());
        match self {
            Constraint::Null => 0,
            Constraint::OneOf(values) => set(values),
            Constraint::Within(span, except) => end(&span.low) + end(&span.high) + set(except),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A value of a row, or NULL.
    fn holds(constraint: &Constraint, value: Option<&Value>) -> bool {
        match (constraint, value) {
            (Constraint::Null, value) => value.is_none(),
            (_, None) => false,
            (Constraint::OneOf(values), Some(value)) => values.contains(value),
            (Constraint::Within(span, except), Some(value)) => span.contains(value) && !except.contains(value),
        }
    }

    fn value(whole: bool) -> impl Strategy<Value = Value> {
        (0i128..8).prop_map(move |n| if whole { Value::Whole(n) } else { Value::Bytes(vec![b'a' + n as u8]) })
    }

    fn end(whole: bool) -> impl Strategy<Value = Option<End>> {
        prop::option::of((value(whole), any::<bool>()).prop_map(|(value, inclusive)| End { value, inclusive }))
    }

    fn atom(whole: bool) -> impl Strategy<Value = Constraint> {
        let set = move |least: usize| prop::collection::btree_set(value(whole), least..4);
        prop_oneof![
            1 => Just(Constraint::Null),
            1 => Just(Constraint::not_null()),
            3 => set(0).prop_map(Constraint::OneOf),
            5 => (end(whole), end(whole)).prop_map(|(low, high)| Constraint::between(low, high)),
            2 => set(1).prop_map(Constraint::none_of),
        ]
    }

    fn constraints(whole: bool) -> impl Strategy<Value = (Vec<Constraint>, Vec<Constraint>)> {
        let some = move || prop::collection::vec(atom(whole), 1..4);
        (some(), some())
    }

    fn check(whole: bool, a: Vec<Constraint>, b: Vec<Constraint>) -> Result<(), TestCaseError> {
        let all = |atoms: &[Constraint]| atoms.iter().cloned().reduce(Constraint::and).expect("one at least");
        let (left, right) = (all(&a), all(&b));
        let domain: Vec<Option<Value>> = (0..8)
            .map(|n| Some(if whole { Value::Whole(n) } else { Value::Bytes(vec![b'a' + n as u8]) }))
            .chain([None, (!whole).then(|| Value::Bytes(b"cc".to_vec()))])
            .collect();
        let mut follows = true;
        for value in &domain {
            let value = value.as_ref();
            prop_assert_eq!(holds(&left, value), a.iter().all(|atom| holds(atom, value)));
            follows &= !holds(&left, value) || holds(&right, value);
        }
        prop_assert!(follows || !left.implies(&right), "{:?} does not imply {:?}", left, right);
        prop_assert!(left.implies(&left));
        prop_assert!(left.clone().and(right.clone()).implies(&right));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]
        #[test]
        fn conjunction_is_exact_and_implication_is_never_wrong(
            (a, b) in constraints(true),
            (c, d) in constraints(false),
        ) {
            check(true, a, b)?;
            check(false, c, d)?;
        }
    }

    #[test]
    fn what_is_asked_for_is_found() {
        let whole = |n| Value::Whole(n);
        let above = |n, inclusive| Constraint::between(Some(End { value: whole(n), inclusive }), None);
        let below = |n, inclusive| Constraint::between(None, Some(End { value: whole(n), inclusive }));
        let set = |values: &[i128]| Constraint::OneOf(values.iter().copied().map(Value::Whole).collect());
        assert!(above(5, false).implies(&above(5, true)));
        assert!(above(6, true).implies(&above(5, false)), "whole numbers have neighbours");
        assert!(!above(5, true).implies(&above(5, false)));
        assert!(above(3, true).and(below(5, true)).implies(&above(2, true)));
        assert!(set(&[4, 5]).implies(&above(3, false)));
        assert!(set(&[4]).implies(&set(&[3, 4])));
        assert!(above(3, true).and(below(3, true)).implies(&set(&[3])));
        assert!(above(3, true).implies(&Constraint::not_null()));
        assert!(set(&[4]).implies(&Constraint::none_of([whole(5)].into())));
        assert!(below(5, false).implies(&Constraint::none_of([whole(5), whole(9)].into())));
        assert!(above(5, false).and(below(5, false)).is_void());
        assert!(!Constraint::Null.implies(&above(5, false)));
    }
}
