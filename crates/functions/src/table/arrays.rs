//! Functions of lists.

use super::entry::{Entry, Output};
use crate::arrays::changed::{Changed, Does};
use crate::arrays::joined::Joined;
use crate::arrays::lengths::{Counted, Counts};
use crate::arrays::subscripts::Trimmed;
use crate::datetime::generate_series::ListedSeries;
use crate::in_slices::InSlices;
use crate::output_size::estimate::OutputSize;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::datafusion("make_array", Output::Counted(OutputSize::AllArguments))
        .overloads(&["make_array(VARIADIC any) -> anyarray"])
        .doc("A list of the arguments, as ARRAY[...] gives it.")
        .example("make_array(1, 2)", "{1,2}"),
    Entry::wrapping("array_append", Output::Counted(OutputSize::AllArguments), |inner| {
        Changed::new(inner, Does::Join).into()
    })
    .postgresql(&["array_append"])
    .doc("The list with an element behind it.")
    .example("array_append(ARRAY[1, 2], 3)", "{1,2,3}"),
    Entry::wrapping("array_prepend", Output::Counted(OutputSize::AllArguments), |inner| {
        Changed::new(inner, Does::Join).into()
    })
    .postgresql(&["array_prepend"])
    .doc("The list with an element before it.")
    .example("array_prepend(0, ARRAY[1, 2])", "{0,1,2}"),
    Entry::wrapping("array_concat", Output::Counted(OutputSize::AllArguments), |inner| {
        Changed::new(inner, Does::Join).into()
    })
    .postgresql(&["array_cat"])
    .overloads(&["array_concat(VARIADIC anyarray) -> anyarray"])
    .doc("The elements of all lists in one.")
    .example("array_concat(ARRAY[1], ARRAY[2, 3])", "{1,2,3}"),
    Entry::datafusion("array_repeat", Output::Counted(OutputSize::Elements))
        .doc("A list of a value as often as the number says.")
        .example("array_repeat('a', 3)", "{a,a,a}"),
    Entry::datafusion("array_resize", Output::Counted(OutputSize::Resized))
        .doc("The list cut to a length, or filled up to it by NULL or a third argument.")
        .example("array_resize(ARRAY[1, 2], 4, 0)", "{1,2,0,0}"),
    Entry::wrapping("generate_series", Output::Counted(OutputSize::Numbers), |inner| ListedSeries::new(inner).into())
        .overloads(&[
            "generate_series(bigint) -> bigint[]",
            "generate_series(bigint, bigint) -> bigint[]",
            "generate_series(bigint, bigint, bigint) -> bigint[]",
            "generate_series(timestamp, timestamp, interval) -> timestamp without time zone[]",
            "generate_series(timestamptz, timestamptz, interval) -> timestamp with time zone[]",
        ])
        .doc("The numbers or moments from one to another, the last among them, by a step, as a list.")
        .example("generate_series(1, 7, 3)", "{1,4,7}"),
    Entry::wrapping("range", Output::Counted(OutputSize::Numbers), |inner| ListedSeries::new(inner).into())
        .overloads(&[
            "range(bigint) -> bigint[]",
            "range(bigint, bigint) -> bigint[]",
            "range(bigint, bigint, bigint) -> bigint[]",
            "range(timestamp, timestamp, interval) -> timestamp without time zone[]",
            "range(timestamptz, timestamptz, interval) -> timestamp with time zone[]",
        ])
        .doc("The numbers or moments from one up to but not including another, by a step, as a list.")
        .example("range(1, 7, 3)", "{1,4}"),
    Entry::wrapping("array_length", Output::Small, |inner| Counted::new(inner, Counts::Length).into())
        .postgresql(&["array_length"])
        .doc("The number of elements of a list, in one of its dimensions if that is given.")
        .example("array_length(ARRAY[1, 2, 3], 1)", "3"),
    Entry::scalar("array_lower", Output::Small, || Counted::named("array_lower", Counts::Lower).into())
        .doc("The first subscript of a list in a dimension, which is 1.")
        .example("array_lower(ARRAY[1, 2, 3], 1)", "1"),
    Entry::scalar("array_upper", Output::Small, || Counted::named("array_upper", Counts::Length).into())
        .doc("The last subscript of a list in a dimension.")
        .example("array_upper(ARRAY[1, 2, 3], 1)", "3"),
    Entry::wrapping("array_ndims", Output::Small, |inner| Counted::new(inner, Counts::Dimensions).into())
        .postgresql(&["array_ndims"])
        .doc("The number of dimensions of a list.")
        .example("array_ndims(ARRAY[ARRAY[1, 2], ARRAY[3, 4]])", "2"),
    Entry::datafusion("array_dims", Output::Small)
        .postgresql(&["array_dims"])
        .doc("The lengths of a list in its dimensions, as a list.")
        .example("array_dims(ARRAY[1, 2, 3])", "{3}"),
    Entry::wrapping("cardinality", Output::Small, |inner| Counted::new(inner, Counts::Other).into())
        .postgresql(&["cardinality"])
        .doc("The number of elements of a list in all of its dimensions.")
        .example("cardinality(ARRAY[ARRAY[1, 2], ARRAY[3, 4]])", "4"),
    Entry::datafusion("empty", Output::Small)
        .doc("Whether a list has no elements.")
        .example("empty(ARRAY[1])", "false"),
    Entry::datafusion("array_element", Output::NoMoreThanGiven)
        .doc("The element of a list at a place, counted from 1, or from the end where the place is below zero.")
        .example("array_element(ARRAY[10, 20, 30], 2)", "20"),
    Entry::datafusion("array_slice", Output::NoMoreThanGiven)
        .doc("The elements of a list from one place to another, both among them, by a step if one is given.")
        .example("array_slice(ARRAY[1, 2, 3, 4], 2, 3)", "{2,3}"),
    Entry::datafusion("array_any_value", Output::NoMoreThanGiven)
        .doc("The first element of a list that is not NULL.")
        .example("array_any_value(ARRAY[NULL, 1, 2])", "1"),
    Entry::datafusion("array_pop_front", Output::NoMoreThanGiven)
        .doc("The list without its first element.")
        .example("array_pop_front(ARRAY[1, 2, 3])", "{2,3}"),
    Entry::datafusion("array_pop_back", Output::NoMoreThanGiven)
        .doc("The list without its last element.")
        .example("array_pop_back(ARRAY[1, 2, 3])", "{1,2}"),
    Entry::scalar("trim_array", Output::NoMoreThanGiven, || Trimmed::default().into())
        .postgresql(&["trim_array"])
        .overloads(&["trim_array(anyarray, bigint) -> anyarray"])
        .doc("The list without so many elements at its end.")
        .example("trim_array(ARRAY[1, 2, 3], 2)", "{1}"),
    Entry::datafusion("array_has", Output::Small)
        .doc("Whether a value is among the elements of a list.")
        .example("array_has(ARRAY[1, 2], 2)", "true"),
    Entry::datafusion("array_has_all", Output::Small)
        .doc("Whether all elements of the second list are among those of the first.")
        .example("array_has_all(ARRAY[1, 2, 3], ARRAY[3, 1])", "true"),
    Entry::datafusion("array_has_any", Output::Small)
        .doc("Whether any element of the second list is among those of the first.")
        .example("array_has_any(ARRAY[1, 2], ARRAY[2, 3])", "true"),
    Entry::wrapping("array_position", Output::Small, |inner| Counted::new(inner, Counts::Other).into())
        .postgresql(&["array_position"])
        .doc("The place of the first element that is equal to a value, counted from 1, or NULL if there is none.")
        .example("array_position(ARRAY['a', 'b'], 'b')", "2"),
    Entry::wrapping("array_positions", Output::NoMoreThanGiven, |inner| Counted::new(inner, Counts::Positions).into())
        .postgresql(&["array_positions"])
        .doc("The places of all elements that are equal to a value, counted from 1, as a list.")
        .example("array_positions(ARRAY[1, 2, 1], 1)", "{1,3}"),
    Entry::wrapping("array_remove", Output::NoMoreThanGiven, |inner| Changed::new(inner, Does::Remove).into())
        .postgresql(&["array_remove"])
        .doc("The list without the elements that are equal to a value.")
        .example("array_remove(ARRAY[1, 2, 2, 3], 2)", "{1,3}"),
    Entry::datafusion("array_remove_n", Output::NoMoreThanGiven)
        .doc("The list without the first so many elements that are equal to a value.")
        .example("array_remove_n(ARRAY[2, 1, 2, 2], 2, 2)", "{1,2}"),
    Entry::datafusion("array_remove_all", Output::NoMoreThanGiven)
        .doc("The list without all elements that are equal to a value.")
        .example("array_remove_all(ARRAY[2, 1, 2], 2)", "{1}"),
    Entry::wrapping("array_replace", Output::Counted(OutputSize::ElementsReplaced), |inner| {
        Changed::new(inner, Does::Replace).into()
    })
    .postgresql(&["array_replace"])
    .doc("The list with another value in the place of the elements that are equal to one.")
    .example("array_replace(ARRAY[1, 2, 5, 2], 2, 9)", "{1,9,5,9}"),
    Entry::datafusion("array_replace_n", Output::Counted(OutputSize::ElementsReplaced))
        .doc("The list with another value in the place of the first so many elements that are equal to one.")
        .example("array_replace_n(ARRAY[2, 2, 2], 2, 9, 2)", "{9,9,2}"),
    Entry::datafusion("array_replace_all", Output::Counted(OutputSize::ElementsReplaced))
        .doc("The list with another value in the place of all elements that are equal to one.")
        .example("array_replace_all(ARRAY[2, 1, 2], 2, 9)", "{9,1,9}"),
    Entry::datafusion("array_compact", Output::NoMoreThanGiven)
        .doc("The list without the elements that are NULL.")
        .example("array_compact(ARRAY[1, NULL, 2])", "{1,2}"),
    Entry::wrapping("array_distinct", Output::NoMoreThanGiven, InSlices::of)
        .doc("The list with each of its elements once.")
        .example("array_distinct(ARRAY[1, 1, 2])", "{1,2}"),
    Entry::wrapping("array_union", Output::NoMoreThanGiven, InSlices::of)
        .doc("The elements of both lists, each once.")
        .example("array_union(ARRAY[1, 2], ARRAY[2, 3])", "{1,2,3}"),
    Entry::wrapping("array_intersect", Output::NoMoreThanGiven, InSlices::of)
        .doc("The elements that both lists have, each once.")
        .example("array_intersect(ARRAY[1, 2, 3], ARRAY[2, 3, 4])", "{2,3}"),
    Entry::wrapping("array_except", Output::NoMoreThanGiven, InSlices::of)
        .doc("The elements of the first list that the second has not, each once.")
        .example("array_except(ARRAY[1, 2, 3], ARRAY[2])", "{1,3}"),
    Entry::wrapping("array_sort", Output::NoMoreThanGiven, InSlices::of)
        .postgresql(&["array_sort"])
        .doc("The elements of a list in order, which 'DESC' and 'NULLS LAST' as further arguments change.")
        .example("array_sort(ARRAY[3, 1, 2])", "{1,2,3}"),
    Entry::datafusion("array_reverse", Output::NoMoreThanGiven)
        .postgresql(&["array_reverse"])
        .doc("The elements of a list in reverse order.")
        .example("array_reverse(ARRAY[1, 2, 3])", "{3,2,1}"),
    Entry::datafusion("flatten", Output::NoMoreThanGiven)
        .doc("The elements of the lists of a list in one.")
        .example("flatten(ARRAY[ARRAY[1, 2], ARRAY[3, 4]])", "{1,2,3,4}"),
    Entry::datafusion("arrays_zip", Output::Counted(OutputSize::Zipped))
        .overloads(&["arrays_zip(VARIADIC anyarray) -> anyarray"])
        .doc("A list of structs of the elements at the same place of each list, NULL where a list is shorter.")
        .example("cardinality(arrays_zip(ARRAY[1, 2], ARRAY[3, 4]))", "2"),
    Entry::wrapping("array_to_string", Output::Counted(OutputSize::ElementsJoined), |inner| Joined::new(inner).into())
        .postgresql(&["array_to_string"])
        .doc(
            "The texts of the elements of a list, with a text between neighbours, and a third text, if given, \
             for NULL.",
        )
        .example("array_to_string(ARRAY[1, NULL, 3], ',', '*')", "1,*,3"),
    Entry::datafusion("string_to_array", Output::NoMoreThanGiven)
        .postgresql(&["string_to_array"])
        .doc("The parts of a text between occurrences of a delimiter, as a list.")
        .example("string_to_array('a,b', ',')", "{a,b}"),
    Entry::datafusion("array_max", Output::NoMoreThanGiven)
        .doc("The greatest element of a list.")
        .example("array_max(ARRAY[3, 1, 2])", "3"),
    Entry::datafusion("array_min", Output::NoMoreThanGiven)
        .doc("The least element of a list.")
        .example("array_min(ARRAY[3, 1, 2])", "1"),
    Entry::datafusion("array_sum", Output::Small)
        .overloads(&["array_sum(anyarray) -> double precision"])
        .doc("The sum of the elements of a list of numbers.")
        .example("array_sum(ARRAY[1.0, 2.5])", "3.5"),
    Entry::datafusion("array_avg", Output::Small)
        .overloads(&["array_avg(anyarray) -> double precision"])
        .doc("The mean of the elements of a list of numbers.")
        .example("array_avg(ARRAY[1.0, 2.0])", "1.5"),
    Entry::datafusion("array_product", Output::Small)
        .overloads(&["array_product(anyarray) -> double precision"])
        .doc("The product of the elements of a list of numbers.")
        .example("array_product(ARRAY[2, 3])", "6"),
    Entry::datafusion("array_add", Output::NoMoreThanGiven)
        .overloads(&["array_add(anyarray, anyarray) -> double precision[]"])
        .doc("The sums of the elements at the same place of two lists of numbers.")
        .example("array_add(ARRAY[1.0, 2.0], ARRAY[10.0, 20.5])", "{11,22.5}"),
    Entry::datafusion("array_subtract", Output::NoMoreThanGiven)
        .overloads(&["array_subtract(anyarray, anyarray) -> double precision[]"])
        .doc("The differences of the elements at the same place of two lists of numbers.")
        .example("array_subtract(ARRAY[10.0, 20.5], ARRAY[1.0, 2.0])", "{9,18.5}"),
    Entry::datafusion("array_scale", Output::NoMoreThanGiven)
        .overloads(&["array_scale(anyarray, double precision) -> double precision[]"])
        .doc("The elements of a list of numbers, each multiplied by a number.")
        .example("array_scale(ARRAY[1.0, 2.5], 3)", "{3,7.5}"),
    Entry::datafusion("array_normalize", Output::NoMoreThanGiven)
        .overloads(&["array_normalize(anyarray) -> double precision[]"])
        .doc("The list of numbers as a vector of length 1.")
        .example("array_normalize(ARRAY[3.0, 4.0])", "{0.6,0.8}"),
    Entry::datafusion("array_distance", Output::Small)
        .overloads(&["array_distance(anyarray, anyarray) -> double precision"])
        .doc("The Euclidean distance of two lists of numbers.")
        .example("array_distance(ARRAY[1, 2], ARRAY[1, 4])", "2"),
    Entry::datafusion("cosine_distance", Output::Small)
        .overloads(&["cosine_distance(anyarray, anyarray) -> double precision"])
        .doc("One less the cosine of the angle between two lists of numbers.")
        .example("cosine_distance(ARRAY[1.0, 0.0], ARRAY[0.0, 1.0])", "1"),
    Entry::datafusion("inner_product", Output::Small)
        .overloads(&["inner_product(anyarray, anyarray) -> double precision"])
        .doc("The sum of the products of the elements at the same place of two lists of numbers.")
        .example("inner_product(ARRAY[1.0, 2.0], ARRAY[3.0, 4.0])", "11"),
];
