//! Casts to types that arguments say, and names of types.

use super::entry::{Entry, Output};
use crate::casts::pg_typeof::TypeName;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::scalar("pg_typeof", Output::Small, || TypeName::default().into())
        .postgresql(&["pg_typeof"])
        .overloads(&["pg_typeof(any) -> text"])
        .doc("The name of a value's type, as PostgreSQL writes it.")
        .example("pg_typeof(1::bigint)", "bigint"),
    Entry::datafusion("arrow_typeof", Output::Small)
        .overloads(&["arrow_typeof(any) -> text"])
        .doc("The name of a value's type, as Arrow writes it.")
        .example("arrow_typeof(1::bigint)", "Int64"),
    Entry::datafusion("arrow_cast", Output::Cast)
        .overloads(&["arrow_cast(any, text) -> any"])
        .doc("The value as one of the type that Arrow calls so.")
        .example("arrow_cast('42', 'Int32')", "42"),
    Entry::datafusion("arrow_try_cast", Output::Cast)
        .overloads(&["arrow_try_cast(any, text) -> any"])
        .doc("The value as one of the type that Arrow calls so, or NULL where it is none.")
        .example("arrow_try_cast('x', 'Int64')", "NULL"),
    Entry::datafusion("cast_to_type", Output::Cast)
        .overloads(&["cast_to_type(any, any) -> any"])
        .doc("The first value as one of the type of the second.")
        .example("cast_to_type('42', 0::bigint)", "42"),
    Entry::datafusion("try_cast_to_type", Output::Cast)
        .overloads(&["try_cast_to_type(any, any) -> any"])
        .doc("The first value as one of the type of the second, or NULL where it is none.")
        .example("try_cast_to_type('x', 0::bigint)", "NULL"),
];
