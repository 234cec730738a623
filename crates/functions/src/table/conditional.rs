//! Functions that choose one of their arguments.

use super::entry::{Entry, Output};
use crate::conditional::coalesce::ReadingCoalesce;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::scalar("coalesce", Output::NoMoreThanGiven, || ReadingCoalesce::default().into())
        .postgresql(&["coalesce"])
        .overloads(&["coalesce(VARIADIC any) -> any"])
        .doc("The first argument that is not NULL.")
        .example("coalesce(NULL, 'x', 'y')", "x"),
    Entry::datafusion("nullif", Output::NoMoreThanGiven)
        .postgresql(&["nullif"])
        .doc("The first argument, or NULL where it is equal to the second.")
        .example("nullif(1, 1)", "NULL"),
    Entry::datafusion("greatest", Output::NoMoreThanGiven)
        .postgresql(&["greatest"])
        .overloads(&["greatest(VARIADIC any) -> any"])
        .doc("The greatest of the arguments that are not NULL.")
        .example("greatest(1, 3, NULL)", "3"),
    Entry::datafusion("least", Output::NoMoreThanGiven)
        .postgresql(&["least"])
        .overloads(&["least(VARIADIC any) -> any"])
        .doc("The least of the arguments that are not NULL.")
        .example("least(2, 3, NULL)", "2"),
    Entry::datafusion("nvl", Output::NoMoreThanGiven)
        .overloads(&["nvl(any, any) -> any"])
        .doc("The first argument, or the second where the first is NULL.")
        .example("nvl(NULL, 'x')", "x"),
    Entry::datafusion("nvl2", Output::NoMoreThanGiven)
        .overloads(&["nvl2(any, any, any) -> any"])
        .doc("The second argument, or the third where the first is NULL.")
        .example("nvl2('x', 'a', 'b')", "a"),
];
