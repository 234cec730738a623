//! Aggregates.

use super::entry::Entry;
use crate::aggregates::bool_and_or::Quantifier;
use crate::aggregates::min_max::Extreme;
use crate::aggregates::moving_frames::Moving;
use crate::aggregates::percentiles::{Kind, Ordered};
use crate::aggregates::sum::CheckedSum;
use crate::casts::kinds::Kind as SqlKind;
use crate::json::aggregates::Gathered;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::datafusion_aggregate("count")
        .postgresql(&["count"])
        .overloads(&["count() -> bigint", "count(VARIADIC any) -> bigint"])
        .doc("The number of rows, or of those in which no argument is NULL.")
        .example("SELECT count(x) FROM (VALUES (1), (NULL), (3)) AS t(x)", "2"),
    Entry::aggregate("sum", || CheckedSum::default().into())
        .postgresql(&["sum"])
        .doc("The sum of the values.")
        .example("SELECT sum(x) FROM (VALUES (1), (2)) AS t(x)", "3"),
    Entry::aggregate("avg", || Moving::average().into())
        .postgresql(&["avg"])
        .doc("The mean of the values.")
        .example("SELECT avg(x) FROM (VALUES (1), (2)) AS t(x)", "1.5"),
    Entry::aggregate("min", || Extreme::least().into())
        .postgresql(&["min"])
        .overloads(&["min(any) -> any"])
        .doc("The least of the values.")
        .example("SELECT min(x) FROM (VALUES (1), (3), (5)) AS t(x)", "1"),
    Entry::aggregate("max", || Extreme::greatest().into())
        .postgresql(&["max"])
        .overloads(&["max(any) -> any"])
        .doc("The greatest of the values.")
        .example("SELECT max(x) FROM (VALUES (1), (3), (5)) AS t(x)", "5"),
    Entry::datafusion_aggregate("any_value")
        .postgresql(&["any_value"])
        .doc("One of the values that are not NULL.")
        .example("SELECT any_value(x) FROM (VALUES (7), (7)) AS t(x)", "7"),
    Entry::datafusion_aggregate("first_value")
        .doc("The first of the values, in the order that ORDER BY says.")
        .example("SELECT first_value(x ORDER BY x DESC) FROM (VALUES (1), (3), (5)) AS t(x)", "5"),
    Entry::datafusion_aggregate("last_value")
        .doc("The last of the values, in the order that ORDER BY says.")
        .example("SELECT last_value(x ORDER BY x DESC) FROM (VALUES (1), (3), (5)) AS t(x)", "1"),
    Entry::datafusion_aggregate("nth_value")
        .overloads(&["nth_value(any, bigint) -> any"])
        .doc("The value of a number, counted from 1, in the order that ORDER BY says.")
        .example("SELECT nth_value(x, 2 ORDER BY x) FROM (VALUES (1), (3), (5)) AS t(x)", "3"),
    Entry::datafusion_aggregate("array_agg")
        .postgresql(&["array_agg"])
        .overloads(&["array_agg(any) -> anyarray"])
        .doc("The values as a list, in the order that ORDER BY says.")
        .example("SELECT array_agg(x ORDER BY x DESC) FROM (VALUES (1), (3), (5)) AS t(x)", "{5,3,1}"),
    Entry::datafusion_aggregate("string_agg")
        .postgresql(&["string_agg"])
        .doc("The texts in one, with a text between neighbours, in the order that ORDER BY says.")
        .example("SELECT string_agg(x, ',' ORDER BY x) FROM (VALUES ('b'), ('a')) AS t(x)", "a,b"),
    Entry::aggregate("json_agg", || Gathered::new("json_agg", SqlKind::Json, false).into())
        .postgresql(&["json_agg"])
        .overloads(&["json_agg(any) -> json"])
        .doc("The values as an array of JSON, NULL among them, in the order that ORDER BY says.")
        .example("SELECT json_agg(x ORDER BY x) FROM (VALUES (2), (1)) AS t(x)", "[1, 2]"),
    Entry::aggregate("jsonb_agg", || Gathered::new("jsonb_agg", SqlKind::Jsonb, false).into())
        .postgresql(&["jsonb_agg"])
        .overloads(&["jsonb_agg(any) -> jsonb"])
        .doc("The values as an array of JSONB, NULL among them, in the order that ORDER BY says.")
        .example("SELECT jsonb_agg(x ORDER BY x) FROM (VALUES (2), (1)) AS t(x)", "[1, 2]"),
    Entry::aggregate("json_object_agg", || Gathered::new("json_object_agg", SqlKind::Json, true).into())
        .postgresql(&["json_object_agg"])
        .overloads(&["json_object_agg(any, any) -> json"])
        .doc("The object of keys and values, in the order that ORDER BY says.")
        .example(
            "SELECT json_object_agg(k, v ORDER BY k) FROM (VALUES ('b', 2), ('a', 1)) AS t(k, v)",
            r#"{ "a" : 1, "b" : 2 }"#,
        ),
    Entry::aggregate("jsonb_object_agg", || Gathered::new("jsonb_object_agg", SqlKind::Jsonb, true).into())
        .postgresql(&["jsonb_object_agg"])
        .overloads(&["jsonb_object_agg(any, any) -> jsonb"])
        .doc("The object of keys and values as JSONB, of keys that come twice with the last value.")
        .example(
            "SELECT jsonb_object_agg(k, v ORDER BY k) FROM (VALUES ('b', 2), ('a', 1)) AS t(k, v)",
            r#"{"a": 1, "b": 2}"#,
        ),
    Entry::aggregate("bool_and", || Quantifier::all().into())
        .postgresql(&["bool_and"])
        .doc("Whether all values are true.")
        .example("SELECT bool_and(x) FROM (VALUES (true), (false)) AS t(x)", "false"),
    Entry::aggregate("bool_or", || Quantifier::any().into())
        .postgresql(&["bool_or"])
        .doc("Whether any value is true.")
        .example("SELECT bool_or(x) FROM (VALUES (true), (false)) AS t(x)", "true"),
    Entry::datafusion_aggregate("bit_and")
        .postgresql(&["bit_and"])
        .doc("The bits that all values have.")
        .example("SELECT bit_and(x) FROM (VALUES (6), (3)) AS t(x)", "2"),
    Entry::datafusion_aggregate("bit_or")
        .postgresql(&["bit_or"])
        .doc("The bits that any value has.")
        .example("SELECT bit_or(x) FROM (VALUES (6), (3)) AS t(x)", "7"),
    Entry::datafusion_aggregate("bit_xor")
        .postgresql(&["bit_xor"])
        .doc("The bits that an odd number of values have.")
        .example("SELECT bit_xor(x) FROM (VALUES (6), (3)) AS t(x)", "5"),
    Entry::aggregate("median", || Ordered::new(Kind::Median).into())
        .overloads(&["median(any) -> any"])
        .doc("The value in the middle, or the mean of the two there.")
        .example("SELECT median(x) FROM (VALUES (1), (2), (4)) AS t(x)", "2"),
    Entry::aggregate("percentile_cont", || Ordered::new(Kind::Between).into())
        .postgresql(&["percentile_cont"])
        .overloads(&[
            "percentile_cont(any, double precision) -> any",
            "percentile_cont(any, double precision[]) -> anyarray",
        ])
        .doc("The value at a fraction of the values in order, interpolated between the two nearest values.")
        .example("SELECT percentile_cont(0.75) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (3), (5)) AS t(x)", "4"),
    Entry::aggregate("percentile_disc", || Ordered::new(Kind::Among).into())
        .postgresql(&["percentile_disc"])
        .overloads(&[
            "percentile_disc(any, double precision) -> any",
            "percentile_disc(any, double precision[]) -> anyarray",
        ])
        .doc("The first of the values in order that a fraction of them does not exceed.")
        .example("SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (3), (5)) AS t(x)", "3"),
    Entry::aggregate("mode", || Ordered::new(Kind::Mode).into())
        .postgresql(&["mode"])
        .overloads(&["mode(any) -> any"])
        .doc("The value that comes most often.")
        .example("SELECT mode() WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (2), (2)) AS t(x)", "2"),
    Entry::aggregate("var", || Moving::variance(true).into())
        .postgresql(&["var_samp"])
        .doc("The variance of the values as a sample.")
        .example("SELECT var_samp(x) FROM (VALUES (1), (3), (5)) AS t(x)", "4"),
    Entry::aggregate("var_pop", || Moving::variance(false).into())
        .postgresql(&["var_pop"])
        .doc("The variance of the values as all there are.")
        .example("SELECT var_pop(x) FROM (VALUES (1), (3)) AS t(x)", "1"),
    Entry::aggregate("stddev", || Moving::deviation(true).into())
        .postgresql(&["stddev", "stddev_samp"])
        .doc("The standard deviation of the values as a sample.")
        .example("SELECT stddev(x) FROM (VALUES (1), (3), (5)) AS t(x)", "2"),
    Entry::aggregate("stddev_pop", || Moving::deviation(false).into())
        .postgresql(&["stddev_pop"])
        .doc("The standard deviation of the values as all there are.")
        .example("SELECT stddev_pop(x) FROM (VALUES (1), (3)) AS t(x)", "1"),
    Entry::aggregate("covar_samp", || Moving::covariance(true).into())
        .postgresql(&["covar_samp"])
        .doc("The covariance of pairs of numbers as a sample.")
        .example("SELECT covar_samp(y, x) FROM (VALUES (1, 1), (3, 3)) AS t(y, x)", "2"),
    Entry::aggregate("covar_pop", || Moving::covariance(false).into())
        .postgresql(&["covar_pop"])
        .doc("The covariance of pairs of numbers as all there are.")
        .example("SELECT covar_pop(y, x) FROM (VALUES (1, 1), (3, 3)) AS t(y, x)", "1"),
    Entry::aggregate("corr", || Moving::correlation().into())
        .postgresql(&["corr"])
        .doc("The coefficient of correlation of pairs of numbers.")
        .example("SELECT corr(y, x) FROM (VALUES (3, 1), (1, 3)) AS t(y, x)", "-1"),
    Entry::datafusion_aggregate("regr_slope")
        .postgresql(&["regr_slope"])
        .doc("The slope of the line through pairs of y and x by least squares.")
        .example("SELECT regr_slope(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "2"),
    Entry::datafusion_aggregate("regr_intercept")
        .postgresql(&["regr_intercept"])
        .doc("The y at which the line through pairs of y and x by least squares has an x of 0.")
        .example("SELECT regr_intercept(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "1"),
    Entry::datafusion_aggregate("regr_count")
        .postgresql(&["regr_count"])
        .doc("The number of pairs of y and x in which neither is NULL.")
        .example("SELECT regr_count(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "3"),
    Entry::datafusion_aggregate("regr_r2")
        .postgresql(&["regr_r2"])
        .doc("The square of the coefficient of correlation of pairs of y and x.")
        .example("SELECT regr_r2(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "1"),
    Entry::datafusion_aggregate("regr_avgx")
        .postgresql(&["regr_avgx"])
        .doc("The mean of x of pairs of y and x.")
        .example("SELECT regr_avgx(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "2"),
    Entry::datafusion_aggregate("regr_avgy")
        .postgresql(&["regr_avgy"])
        .doc("The mean of y of pairs of y and x.")
        .example("SELECT regr_avgy(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "5"),
    Entry::datafusion_aggregate("regr_sxx")
        .postgresql(&["regr_sxx"])
        .doc("The sum of the squares of the distances of x from its mean.")
        .example("SELECT regr_sxx(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "2"),
    Entry::datafusion_aggregate("regr_syy")
        .postgresql(&["regr_syy"])
        .doc("The sum of the squares of the distances of y from its mean.")
        .example("SELECT regr_syy(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "8"),
    Entry::datafusion_aggregate("regr_sxy")
        .postgresql(&["regr_sxy"])
        .doc("The sum of the products of the distances of x and y from their means.")
        .example("SELECT regr_sxy(y, x) FROM (VALUES (3, 1), (5, 2), (7, 3)) AS t(y, x)", "4"),
    Entry::datafusion_aggregate("approx_distinct")
        .overloads(&["approx_distinct(any) -> bigint"])
        .doc("About how many different values there are.")
        .example("SELECT approx_distinct(x) FROM (VALUES (1), (1), (3)) AS t(x)", "2"),
    Entry::datafusion_aggregate("approx_median")
        .doc("About the value in the middle.")
        .example("SELECT approx_median(x) FROM (VALUES (1), (3), (5)) AS t(x)", "3"),
    Entry::datafusion_aggregate("approx_percentile_cont")
        .doc("About the value at a fraction of the values in order.")
        .example(
            "SELECT approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1), (3), (5)) AS t(x)",
            "3",
        ),
    Entry::datafusion_aggregate("approx_percentile_cont_with_weight")
        .doc(
            "About the value at a fraction of the values in order, each of which counts as often as its \
             weight says.",
        )
        .example(
            "SELECT approx_percentile_cont_with_weight(w, 0.5) WITHIN GROUP (ORDER BY x) FROM (VALUES (1, 1), \
             (3, 1), (5, 1)) AS t(x, w)",
            "3",
        ),
    Entry::datafusion_aggregate("grouping")
        .postgresql(&["grouping"])
        .overloads(&["grouping(VARIADIC any) -> integer"])
        .doc("The bits of the columns by which a row of ROLLUP, CUBE or GROUPING SETS is not grouped.")
        .example(
            "SELECT sum(g) FROM (SELECT grouping(x) AS g FROM (VALUES (1), (2)) AS t(x) GROUP BY ROLLUP (x)) \
             AS s",
            "1",
        ),
];
