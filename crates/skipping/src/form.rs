//! The normal form of a predicate: what it asks of each column, and the expressions that are only known by their text.
//!
//! Invariants:
//! - A form is TRUE for exactly the rows for which the predicate it was made of is TRUE. NULL is as good as FALSE.
//! - Columns are known by their ids, so a form outlives renames, and a column that came later never passes for one that was dropped.
//! - [`Form::implies`] never says yes wrongly.

use crate::canonical;
use crate::constraint::{Constraint, End, Span};
use crate::value::Value;
use alluvia_space::{DataType, TableDef};
use alluvia_types::ColumnId;
use std::collections::{BTreeMap, BTreeSet};

/// A conjunction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Form {
    /// By column.
    columns: BTreeMap<ColumnId, Constraint>,
    /// Texts of deterministic expressions (see [`canonical`](mod@crate::canonical)).
    opaque: BTreeSet<String>,
}

impl Form {
    /// What is asked of one column.
    pub(crate) fn of_column(column: ColumnId, constraint: Constraint) -> Form {
        Form { columns: BTreeMap::from([(column, constraint)]), opaque: BTreeSet::new() }
    }

    /// An expression known by its text.
    pub(crate) fn of_text(text: String) -> Form {
        Form { columns: BTreeMap::new(), opaque: BTreeSet::from([text]) }
    }

    pub(crate) fn from_parts(columns: BTreeMap<ColumnId, Constraint>, opaque: BTreeSet<String>) -> Form {
        Form { columns, opaque }
    }

    pub(crate) fn columns(&self) -> &BTreeMap<ColumnId, Constraint> {
        &self.columns
    }

    /// The texts of what is not understood.
    pub fn opaque(&self) -> &BTreeSet<String> {
        &self.opaque
    }

    /// The one column that it is about, if it is about one, and that it understands.
    pub(crate) fn only_column(&self) -> Option<ColumnId> {
        let mut columns = self.columns.keys();
        let first = columns.next().filter(|_| self.opaque.is_empty())?;
        columns.next().is_none().then_some(*first)
    }

    /// Whether it is TRUE for every row.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty() && self.opaque.is_empty()
    }

    /// Whether it is seen to be TRUE for no row at all.
    pub(crate) fn is_void(&self) -> bool {
        self.columns.values().any(Constraint::is_void) || self.opaque.iter().any(|text| canonical::is_never(text))
    }

    /// Both.
    pub(crate) fn and(mut self, other: Form) -> Form {
        for (column, constraint) in other.columns {
            let both = match self.columns.remove(&column) {
                Some(own) => own.and(constraint),
                None => constraint,
            };
            self.columns.insert(column, both);
        }
        self.opaque.extend(other.opaque);
        self
    }

    /// Whether every row for which this is TRUE makes the other TRUE.
    pub fn implies(&self, other: &Form) -> bool {
        let follows = |(column, constraint): (&ColumnId, &Constraint)| {
            self.columns.get(column).is_some_and(|own| own.implies(constraint))
        };
        other.opaque.is_subset(&self.opaque) && other.columns.iter().all(follows) || self.is_void()
    }

    /// Memory that it holds, itself included.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.columns.values().map(|constraint| 2 * size_of::<Constraint>() + constraint.heap_bytes());
        let opaque = self.opaque.iter().map(|text| 2 * size_of::<String>() + text.capacity());
        size_of::<Form>() + columns.chain(opaque).sum::<usize>()
    }

    /// As SQL, with the names that columns have now; `def` is `None` for a table that is gone.
    pub fn show(&self, def: Option<&TableDef>) -> String {
        let of_column = |(&id, constraint): (&ColumnId, &Constraint)| {
            let column = def.and_then(|def| def.column_by_id(id));
            show(&column_name(def, id), constraint, column.map(|column| &column.data_type))
        };
        let opaque = self.opaque.iter().map(|text| canonical::show(text, |id| column_name(def, id)));
        let parts: Vec<String> = self.columns.iter().map(of_column).chain(opaque).collect();
        parts.join(" AND ")
    }
}

fn column_name(def: Option<&TableDef>, id: ColumnId) -> String {
    match def.and_then(|def| def.column_by_id(id)) {
        Some(column) => column.name.clone(),
        None => format!("(dropped column {id})"),
    }
}

/// Values of a long list that are shown.
const SHOWN_MAX: usize = 20;

fn show(name: &str, constraint: &Constraint, of: Option<&DataType>) -> String {
    let list = |values: &BTreeSet<Value>| {
        let mut shown: Vec<String> = values.iter().take(SHOWN_MAX).map(|value| value.show(of)).collect();
        if values.len() > SHOWN_MAX {
            shown.push(format!("... {} more", values.len() - SHOWN_MAX));
        }
        shown.join(", ")
    };
    match constraint {
        Constraint::Null => format!("{name} IS NULL"),
        Constraint::OneOf(values) if values.is_empty() => "false".to_owned(),
        Constraint::OneOf(values) if values.len() == 1 => format!("{name} = {}", list(values)),
        Constraint::OneOf(values) => format!("{name} IN ({})", list(values)),
        Constraint::Within(span, except) => {
            let mut parts = show_span(name, span, of);
            match except.len() {
                0 if parts.is_empty() => parts.push(format!("{name} IS NOT NULL")),
                0 => {}
                1 => parts.push(format!("{name} <> {}", list(except))),
                _ => parts.push(format!("{name} NOT IN ({})", list(except))),
            }
            parts.join(" AND ")
        }
    }
}

fn show_span(name: &str, span: &Span, of: Option<&DataType>) -> Vec<String> {
    if let (Some(DataType::Text), Some(prefix)) = (of, prefix_of(span)) {
        return vec![format!("{name} LIKE '{}%'", prefix.replace('\'', "''"))];
    }
    let end = |end: &End, strict: &str| {
        let operator = if end.inclusive { format!("{strict}=") } else { strict.to_owned() };
        format!("{name} {operator} {}", end.value.show(of))
    };
    let low = span.low.as_ref().map(|low| end(low, ">"));
    low.into_iter().chain(span.high.as_ref().map(|high| end(high, "<"))).collect()
}

/// The prefix, if the span is that of all texts that begin with one.
fn prefix_of(span: &Span) -> Option<&str> {
    let (Some(low), Some(high)) = (&span.low, &span.high) else { return None };
    let Value::Bytes(prefix) = &low.value else { return None };
    let is_prefix = low.inclusive && !high.inclusive && Value::after_prefix(prefix).as_ref() == Some(&high.value);
    std::str::from_utf8(prefix).ok().filter(|_| is_prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(value: i128) -> Constraint {
        Constraint::OneOf(BTreeSet::from([Value::Whole(value)]))
    }

    #[test]
    fn a_conjunction_implies_each_of_its_parts_and_nothing_else() {
        let a = Form::of_column(ColumnId(1), equal(5));
        let b = Form::of_column(ColumnId(2), Constraint::Null);
        let c = Form::of_text("({1} % {Int64|7})".to_owned());
        let all = a.clone().and(b.clone()).and(c.clone());
        for part in [&a, &b, &c] {
            assert!(all.implies(part) && !part.implies(&all));
        }
        assert!(all.implies(&Form::default()) && !Form::default().implies(&a));
        assert!(!a.implies(&Form::of_column(ColumnId(2), equal(5))), "another column");
        let never = a.clone().and(Form::of_column(ColumnId(1), equal(6)));
        assert!(never.is_void() && never.implies(&c), "what is never TRUE implies anything");
        assert!(!a.is_void() && !c.is_void() && !Form::default().is_void());
    }

    #[test]
    fn only_one_understood_column_is_alone() {
        let a = Form::of_column(ColumnId(1), equal(5));
        assert_eq!(a.only_column(), Some(ColumnId(1)));
        assert_eq!(a.clone().and(Form::of_column(ColumnId(2), equal(5))).only_column(), None);
        assert_eq!(a.and(Form::of_text("x".to_owned())).only_column(), None);
        assert_eq!(Form::default().only_column(), None);
    }
}
