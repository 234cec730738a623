//! Columns that are not there, or of which there are several.
//!
//! Invariant: what a hint tells to write means what the hint says. A name that would be read as something else stands in double quotes:
//! `count(*)` without them counts rows.

use alluvia_space::keywords::quoted;
use alluvia_types::{Error, ErrorKind, near_names};
use datafusion_common::{Column, SchemaError, TableReference};

/// Columns that a hint lists.
const SHOWN_MAX: usize = 12;

pub(super) fn schema_error(error: &SchemaError) -> Error {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => field_not_found(field, valid_fields),
        SchemaError::AmbiguousReference { field } => {
            Error::new(ErrorKind::AmbiguousColumn, format!("column {} is ambiguous", shown(field)))
                .with_hint("put the table's name or alias before it: t.column")
        }
        SchemaError::DuplicateQualifiedField { name, .. } | SchemaError::DuplicateUnqualifiedField { name } => {
            Error::new(ErrorKind::DuplicateColumn, format!("column {name} appears twice"))
                .with_hint("give one of them another name with AS")
        }
    }
}

/// As messages name it.
fn shown(column: &Column) -> String {
    match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), column.name),
        None => column.name.clone(),
    }
}

/// As it is to be written.
fn written(column: &Column) -> String {
    match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), quoted(&column.name)),
        None => quoted(&column.name),
    }
}

fn field_not_found(field: &Column, valid: &[Column]) -> Error {
    let error = Error::new(ErrorKind::UndefinedColumn, format!("there is no column {}", shown(field)));
    // Of another table.
    let mut elsewhere: Vec<String> = valid.iter().filter(|column| column.name == field.name).map(written).collect();
    elsewhere.sort();
    elsewhere.dedup();
    elsewhere.truncate(3);
    if !elsewhere.is_empty() && elsewhere != [written(field)] {
        return error.with_hint(format!("did you mean {}?", elsewhere.join(" or ")));
    }
    let near = near_names(&field.name, valid.iter().map(|column| column.name.as_str()));
    match near.first() {
        Some(text) if text.contains('(') => return error.with_hint(to_be_named(text, &field.name)),
        Some(_) => {
            let named = near.iter().filter(|name| !name.contains('(')).map(|name| quoted(name));
            return error.with_hint(format!("did you mean {}?", named.collect::<Vec<String>>().join(" or ")));
        }
        None => {}
    }
    let mut hints = Vec::new();
    if !valid.is_empty() {
        hints.push(format!("columns here are {}", listed(valid)));
    }
    // Whether it was written in double quotes is not known any more; behind a table's name it was meant to be a column.
    if field.relation.is_none() {
        hints.push(format!("a text is written in single quotes: '{}'", field.name.replace('\'', "''")));
    }
    if hints.is_empty() { error } else { error.with_hint(hints.join("; ")) }
}

/// The first columns of each table, each once.
fn listed(valid: &[Column]) -> String {
    let mut tables: Vec<(Option<&TableReference>, Vec<String>)> = Vec::new();
    for column in valid {
        let name = written(column);
        match tables.iter_mut().find(|(table, _)| *table == column.relation.as_ref()) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => tables.push((column.relation.as_ref(), vec![name])),
        }
    }
    let each = (SHOWN_MAX / tables.len().max(1)).max(1);
    let has_few = tables.iter().map(|(_, names)| names.len()).sum::<usize>() <= SHOWN_MAX;
    let mut shown: Vec<String> = Vec::new();
    for (_, mut names) in tables {
        if !has_few && names.len() > each {
            names.truncate(each);
            names.push("...".to_owned());
        }
        shown.append(&mut names);
    }
    shown.join(", ")
}

/// For who asks by a name for a column that has none but the text of what computes it.
fn to_be_named(text: &str, name: &str) -> String {
    let (call, _) = text.split_once('(').unwrap_or((text, ""));
    let is_call = !call.is_empty() && call.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // DataFusion's text of a call of plain columns is SQL; that of literals, orders and other calls within it need not be.
    let is_sql = text.ends_with(')') && text.matches('(').count() == 1 && !text.contains(['[', '"']);
    let named = match (is_call, is_sql) {
        (true, true) => format!("{text} AS"),
        (true, false) => format!("{call}(...) AS"),
        (false, _) => "... AS".to_owned(),
    };
    format!("name it where it is computed: {named} {}, or quote it: {}", quoted(name), quoted(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn not_found(name: &str, valid: &[&str]) -> (String, String) {
        let valid_fields = valid.iter().map(|name| Column::from_qualified_name(*name)).collect();
        let error = SchemaError::FieldNotFound { field: Box::new(Column::from_qualified_name(name)), valid_fields };
        let error = schema_error(&error);
        assert_eq!(error.kind(), ErrorKind::UndefinedColumn);
        (error.message().to_owned(), error.hint().unwrap_or_default().to_owned())
    }

    #[test]
    fn unknown_columns_list_near_names_or_all() {
        let here = ["t.country", "t.price"];
        assert_eq!(not_found("contry", &here).1, "did you mean country?");
        let (message, hint) = not_found("x.zzzzzz", &here);
        assert_eq!(
            (message.as_str(), hint.as_str()),
            ("there is no column x.zzzzzz", "columns here are t.country, t.price")
        );
        let twice = ["t.country", "u.country", "u.price"];
        assert_eq!(not_found("x.country", &twice).1, "did you mean t.country or u.country?");
        assert_eq!(not_found("x.contry", &twice).1, "did you mean country?");
        assert_eq!(not_found("t.price", &twice).1, "did you mean u.price?");
    }

    #[test]
    fn every_table_has_its_part_of_the_list_and_every_column_one_place() {
        let names = |table: &str, count: usize| (0..count).map(|at| format!("{table}.c{at}")).collect::<Vec<String>>();
        let hint = |names: Vec<String>| {
            let hint = not_found("x.zzzzzz", &names.iter().map(String::as_str).collect::<Vec<&str>>()).1;
            hint.strip_prefix("columns here are ").unwrap_or_default().to_owned()
        };
        let once = names("t", 3);
        assert_eq!(hint([once.clone(), once.clone()].concat()), once.join(", "));
        assert_eq!(hint(names("t", 13)), format!("{}, ...", names("t", 12).join(", ")));
        let wanted = [names("t", 6), vec!["...".to_owned()], names("u", 2)].concat().join(", ");
        assert_eq!(hint([names("t", 20), names("u", 2)].concat()), wanted);
    }

    #[test]
    fn what_may_be_a_text_is_told_how_texts_are_written() {
        let text = "a text is written in single quotes: 'zzzzzz'";
        assert_eq!(not_found("zzzzzz", &["t.price"]).1, format!("columns here are t.price; {text}"));
        assert_eq!(not_found("zzzzzz", &[]).1, text);
        assert_eq!(not_found("t.zzzzzz", &[]).1, "");
    }

    #[test]
    fn the_text_of_an_expression_is_told_to_be_named() {
        for (text, name, told) in [
            ("count(*)", "count", "count(*) AS"),
            ("sum(t.price)", "total", "sum(t.price) AS"),
            ("count(Int64(1))", "count", "count(...) AS"),
            ("t.id + Int64(1)", "id", "... AS"),
        ] {
            let hint = to_be_named(text, name);
            assert!(hint.starts_with(&format!("name it where it is computed: {told} ")), "{hint}");
            assert!(hint.ends_with(&format!("or quote it: \"{text}\"")), "{hint}");
        }
    }
}
