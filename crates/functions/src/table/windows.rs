//! Window functions.

use super::entry::Entry;
use crate::windows::ranks::SignedRank;
use datafusion_functions_window::{ntile, rank, row_number};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::window("row_number", || SignedRank::new(row_number::row_number_udwf()).into())
        .postgresql(&["row_number"])
        .doc("The number of a row in its partition, counted from 1.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY r) FROM (SELECT row_number() OVER (ORDER BY x) AS r FROM \
             (VALUES (4), (2), (4)) AS t(x)) AS s",
            "1 2 3",
        ),
    Entry::window("rank", || SignedRank::new(rank::rank_udwf()).into())
        .postgresql(&["rank"])
        .doc("The number of the first row of the peers of a row, so that numbers are left out behind peers.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY r) FROM (SELECT rank() OVER (ORDER BY x) AS r FROM \
             (VALUES (1), (1), (3)) AS t(x)) AS s",
            "1 1 3",
        ),
    Entry::window("dense_rank", || SignedRank::new(rank::dense_rank_udwf()).into())
        .postgresql(&["dense_rank"])
        .doc("The number of the peers of a row, so that no number is left out.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY r) FROM (SELECT dense_rank() OVER (ORDER BY x) AS r FROM \
             (VALUES (1), (1), (3)) AS t(x)) AS s",
            "1 1 2",
        ),
    Entry::datafusion_window("percent_rank")
        .postgresql(&["percent_rank"])
        .doc("The rank of a row less one, as a share of all other rows.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY r) FROM (SELECT percent_rank() OVER (ORDER BY x) AS r \
             FROM (VALUES (1), (2), (3)) AS t(x)) AS s",
            "0 0.5 1",
        ),
    Entry::datafusion_window("cume_dist")
        .postgresql(&["cume_dist"])
        .doc("The share of rows that come no later than a row and its peers.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY r) FROM (SELECT cume_dist() OVER (ORDER BY x) AS r FROM \
             (VALUES (1), (2)) AS t(x)) AS s",
            "0.5 1",
        ),
    Entry::window("ntile", || SignedRank::new(ntile::ntile_udwf()).into())
        .postgresql(&["ntile"])
        .doc("The number of the part that a row is in, where the partition is cut into so many parts.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY r) FROM (SELECT ntile(2) OVER (ORDER BY x) AS r FROM \
             (VALUES (1), (2), (3)) AS t(x)) AS s",
            "1 1 2",
        ),
    Entry::datafusion_window("lag")
        .postgresql(&["lag"])
        .overloads(&["lag(any) -> any", "lag(any, bigint) -> any", "lag(any, bigint, any) -> any"])
        .doc(
            "The value in the row that comes so many rows before, by default one, or else NULL or a third \
             argument.",
        )
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY x) FROM (SELECT x, lag(x, 1, 0) OVER (ORDER BY x) AS r \
             FROM (VALUES (1), (2), (3)) AS t(x)) AS s",
            "0 1 2",
        ),
    Entry::datafusion_window("lead")
        .postgresql(&["lead"])
        .overloads(&["lead(any) -> any", "lead(any, bigint) -> any", "lead(any, bigint, any) -> any"])
        .doc(
            "The value in the row that comes so many rows later, by default one, or else NULL or a third \
             argument.",
        )
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY x) FROM (SELECT x, lead(x, 1, 0) OVER (ORDER BY x) AS r \
             FROM (VALUES (1), (2), (3)) AS t(x)) AS s",
            "2 3 0",
        ),
    Entry::datafusion_window("first_value")
        .postgresql(&["first_value"])
        .overloads(&["first_value(any) -> any"])
        .doc("The value in the first row of the frame.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY x) FROM (SELECT x, first_value(x) OVER (ORDER BY x) AS r \
             FROM (VALUES (1), (2), (3)) AS t(x)) AS s",
            "1 1 1",
        ),
    Entry::datafusion_window("last_value")
        .postgresql(&["last_value"])
        .overloads(&["last_value(any) -> any"])
        .doc("The value in the last row of the frame.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY x) FROM (SELECT x, last_value(x) OVER (ORDER BY x) AS r \
             FROM (VALUES (1), (2), (3)) AS t(x)) AS s",
            "1 2 3",
        ),
    Entry::datafusion_window("nth_value")
        .postgresql(&["nth_value"])
        .overloads(&["nth_value(any, bigint) -> any"])
        .doc("The value in the row of a number of the frame, counted from 1, or NULL where the frame has fewer.")
        .example(
            "SELECT string_agg(r::text, ' ' ORDER BY x) FROM (SELECT x, coalesce(nth_value(x, 2) OVER (ORDER \
             BY x), 0) AS r FROM (VALUES (1), (2), (3)) AS t(x)) AS s",
            "0 2 2",
        ),
];
