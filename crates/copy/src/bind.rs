//! Which column of the table each field of a file goes to.
//!
//! Invariants:
//! - A field that has no column is an error, unless the statement lists columns: then the list says what is wanted.
//! - What rows say of themselves (`_op`) goes by name, or by the list, and is at no position otherwise.
//! - Names match exactly, else without regard to case where that is unambiguous.

use crate::body::Hints;
use crate::operations::{Operations, is_apart, is_op};
use alluvia_space::{Column, OP_COLUMN, TableDef, without_key};
use alluvia_types::{Error, ErrorKind, Result, near_names};
use alluvia_values::time_zone::Zone;
use std::collections::HashMap;
use std::sync::Arc;

/// The table's columns that a COPY fills: those listed, or all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Indices in the table's columns.
    pub columns: Vec<usize>,
    /// Whether the statement lists them.
    pub listed: bool,
    /// How they are listed, for hints.
    how: &'static str,
    /// Whether their values must be written as inference reads them: `EXACT`.
    pub is_exact: bool,
    /// What rows may do besides coming.
    pub operations: Option<Arc<Operations>>,
    /// Of moments that say none.
    pub time_zone: Zone,
}

impl Wanted {
    /// From the statement's column list; empty means all.
    pub fn new(table: &TableDef, listed: &[String]) -> Result<Wanted> {
        let how = Hints::default().columns;
        if listed.is_empty() {
            let columns = (0..table.columns.len()).filter(|at| !is_apart(&table.columns[*at])).collect();
            return Ok(Wanted {
                columns,
                listed: false,
                how,
                is_exact: false,
                operations: None,
                time_zone: Zone::utc(),
            });
        }
        let mut columns = Vec::new();
        for name in listed {
            let is_named = |column: &Column| column.name == *name && (is_op(column) || !is_apart(column));
            let found = table.columns.iter().position(is_named);
            let at = found.ok_or_else(|| no_such_column(table, name, "the column list", None))?;
            if columns.contains(&at) {
                return Err(Error::new(ErrorKind::DuplicateColumn, format!("column {name} is listed twice")));
            }
            columns.push(at);
        }
        Ok(Wanted { columns, listed: true, how, is_exact: false, operations: None, time_zone: Zone::utc() })
    }

    /// Listed in another way than COPY's.
    pub(crate) fn hinting(self, how: &'static str) -> Wanted {
        Wanted { how, ..self }
    }

    /// With values that must be written as inference reads them, or need not.
    pub fn exactly(self, is_exact: bool) -> Wanted {
        Wanted { is_exact, ..self }
    }

    /// In a session of a time zone.
    pub fn in_zone(self, time_zone: &Zone) -> Wanted {
        Wanted { time_zone: time_zone.clone(), ..self }
    }

    /// Of rows that may do so.
    pub(crate) fn doing(self, operations: Option<Arc<Operations>>) -> Wanted {
        Wanted { operations, ..self }
    }

    /// Refuses a header whose names are not those of the wanted columns, in their order (`HEADER match`); `place` is where it is.
    pub fn check_header<S: AsRef<str>>(&self, table: &TableDef, names: &[S], place: &str) -> Result<()> {
        let differs = |message: String| {
            Err(Error::new(ErrorKind::InvalidValue, format!("{place}: {message}"))
                .with_hint("HEADER match wants the names of the columns in their order; HEADER true goes by the names"))
        };
        let columns = self.columns.iter().map(|at| table.columns[*at].name.as_str());
        for (at, (name, column)) in names.iter().zip(columns.clone()).enumerate() {
            if name.as_ref() != column {
                return differs(format!("field {} of the header is {}, and not {column}", at + 1, name.as_ref()));
            }
        }
        if names.len() != columns.len() {
            let fields = |count: usize| if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
            return differs(format!("the header has {}, and {} wanted", fields(names.len()), are(columns.len())));
        }
        Ok(())
    }

    /// Names of a file's fields, to columns of the table.
    pub fn names<'a>(&self, table: &'a TableDef) -> Names<'a> {
        let mut exact = HashMap::new();
        let mut folded: HashMap<String, Option<usize>> = HashMap::new();
        let apart = (0..table.columns.len()).filter(|at| !self.listed && is_op(&table.columns[*at]));
        for at in self.columns.iter().copied().chain(apart) {
            let name = table.columns[at].name.as_str();
            exact.insert(name, at);
            folded.entry(name.to_lowercase()).and_modify(|known| *known = None).or_insert(Some(at));
        }
        Names { exact, folded }
    }

    /// What is to be done about a field's name that no column of the table has.
    pub(crate) fn unknown_hint(&self, table: &TableDef, name: &str) -> String {
        unknown_hint(table, name, Some(self.how))
    }

    /// For each field name of `file`, its column: by name, each column at most once. A name without a column is an error, or
    /// left out if the statement lists columns.
    pub fn by_name<'a>(
        &self,
        table: &TableDef,
        fields: impl Iterator<Item = &'a str>,
        file: &str,
    ) -> Result<Vec<Option<usize>>> {
        let names = self.names(table);
        let mut seen = Vec::new();
        fields
            .map(|field| match names.find(field) {
                Some(at) if seen.contains(&at) => {
                    Err(Error::new(ErrorKind::DuplicateColumn, format!("{file} has column {field} twice")))
                }
                Some(at) => {
                    seen.push(at);
                    Ok(Some(at))
                }
                None if self.listed => Ok(None),
                None => Err(no_such_column(table, field, file, Some(self.how))),
            })
            .collect()
    }
}

/// Looks columns up by a file's names.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    exact: HashMap<&'a str, usize>,
    folded: HashMap<String, Option<usize>>,
}

impl Names<'_> {
    /// The column of this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.exact.get(name).copied().or_else(|| self.folded.get(&name.to_lowercase()).copied().flatten())
    }
}

fn are(count: usize) -> String {
    if count == 1 { "1 is".to_owned() } else { format!("{count} are") }
}

/// Names a field that the table lacks, with what is to be done.
fn no_such_column(table: &TableDef, name: &str, found_in: &str, how: Option<&str>) -> Error {
    if name == OP_COLUMN && table.key.is_none() {
        return without_key(&table.name, &format!("{OP_COLUMN} in {found_in}"));
    }
    let message = format!("table {} has no column {name}, which {found_in} names", table.name);
    Error::new(ErrorKind::UndefinedColumn, message).with_hint(unknown_hint(table, name, how))
}

/// Names near to one that the table lacks, and how columns are listed where they were not.
fn unknown_hint(table: &TableDef, name: &str, how: Option<&str>) -> String {
    let columns = || table.columns.iter().filter(|column| !is_apart(column)).map(|column| column.name.as_str());
    let near = near_names(name, columns()).join(" or ");
    match (near.as_str(), how) {
        ("", Some(how)) => format!("list the columns to load: {how}"),
        ("", None) => format!("the table's columns are {}", columns().collect::<Vec<&str>>().join(", ")),
        (near, Some(how)) => format!("did you mean {near}? Or list the columns to load: {how}"),
        (near, None) => format!("did you mean {near}?"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::table;

    #[test]
    fn names_match_exactly_then_without_case() {
        let table = table("id BIGINT, \"Name\" TEXT, name TEXT, City TEXT");
        let all = Wanted::new(&table, &[]).unwrap();
        let by_name = |names: &[&str]| all.by_name(&table, names.iter().copied(), "f.csv");
        assert_eq!(by_name(&["CITY", "name", "Name"]).unwrap(), [Some(3), Some(2), Some(1)]);
        assert_eq!(by_name(&["NAME"]).unwrap_err().kind(), ErrorKind::UndefinedColumn, "ambiguous");
        assert_eq!(by_name(&["id", "ID"]).unwrap_err().kind(), ErrorKind::DuplicateColumn);
        let near = by_name(&["ctiy"]).unwrap_err();
        assert!(near.hint().unwrap().contains("City") && near.message().contains("f.csv"), "{near}");

        let near = all.clone().hinting("?columns=a,b").by_name(&table, ["ctiy"].into_iter(), "the body").unwrap_err();
        assert_eq!(near.hint(), Some("did you mean City? Or list the columns to load: ?columns=a,b"));
        let not_there = Wanted::new(&table, &["nowhere".into()]).unwrap_err();
        assert_eq!(not_there.hint(), Some("the table's columns are id, Name, name, City"));

        let header = |names: &[&str]| {
            all.check_header(&table, names, "f.csv, line 1").map_err(|error| error.message().to_owned())
        };
        assert_eq!(header(&["id", "Name", "name", "City"]), Ok(()));
        assert_eq!(header(&["id", "name"]), Err("f.csv, line 1: field 2 of the header is name, and not Name".into()));
        assert_eq!(header(&["id", "Name"]), Err("f.csv, line 1: the header has 2 fields, and 4 are wanted".into()));

        let listed = Wanted::new(&table, &["name".into()]).unwrap();
        assert_eq!(listed.by_name(&table, ["id", "name"].into_iter(), "f").unwrap(), [None, Some(2)]);
        assert_eq!(Wanted::new(&table, &["nmae".into()]).unwrap_err().kind(), ErrorKind::UndefinedColumn);
        assert_eq!(Wanted::new(&table, &["id".into(), "id".into()]).unwrap_err().kind(), ErrorKind::DuplicateColumn);
    }
}
