//! Names of functions that `syntax` writes in the place of SQL that DataFusion has no form for, and that `functions` implements.

/// The function that compares a value with the elements of a list: its first argument is a word of [`quantified_by`].
pub const QUANTIFIED_CALL: &str = "any_or_all";

/// The operator that a word names, `< any`, and whether one comparison is enough.
pub fn quantified_by(word: &str) -> Option<(&str, bool)> {
    match word.split_once(' ')? {
        (sign, "any") => Some((sign, true)),
        (sign, "all") => Some((sign, false)),
        _ => None,
    }
}

/// `substring` with a pattern.
pub const SUBSTRING: &str = "regexp_substring";

/// All that `regexp_matches` gives, as a list of lists.
pub const ALL_MATCHES: &str = "regexp_all_matches";

/// The parts that `regexp_split_to_table` gives, as a list.
pub const PARTS: &str = "regexp_split_to_array";

/// The function that has the type of its second argument, if that is a number or a boolean, and the value of its first one.
pub const TEXT_BESIDE: &str = "text_beside";
