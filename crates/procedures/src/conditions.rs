//! Conditions by name, as RAISE has them.

/// Names and SQLSTATEs of PostgreSQL's appendix A that procedures raise.
const CONDITIONS: [(&str, &str); 62] = [
    ("ambiguous_column", "42702"),
    ("array_subscript_error", "2202E"),
    ("assert_failure", "P0004"),
    ("cardinality_violation", "21000"),
    ("case_not_found", "20000"),
    ("character_not_in_repertoire", "22021"),
    ("check_violation", "23514"),
    ("connection_exception", "08000"),
    ("data_exception", "22000"),
    ("datatype_mismatch", "42804"),
    ("datetime_field_overflow", "22008"),
    ("deadlock_detected", "40P01"),
    ("dependent_objects_still_exist", "2BP01"),
    ("division_by_zero", "22012"),
    ("duplicate_column", "42701"),
    ("duplicate_object", "42710"),
    ("duplicate_table", "42P07"),
    ("error_in_assignment", "22005"),
    ("exclusion_violation", "23P01"),
    ("feature_not_supported", "0A000"),
    ("foreign_key_violation", "23503"),
    ("insufficient_privilege", "42501"),
    ("insufficient_resources", "53000"),
    ("integrity_constraint_violation", "23000"),
    ("internal_error", "XX000"),
    ("invalid_cursor_state", "24000"),
    ("invalid_datetime_format", "22007"),
    ("invalid_name", "42602"),
    ("invalid_parameter_value", "22023"),
    ("invalid_password", "28P01"),
    ("invalid_regular_expression", "2201B"),
    ("invalid_text_representation", "22P02"),
    ("invalid_transaction_state", "25000"),
    ("lock_not_available", "55P03"),
    ("no_data_found", "P0002"),
    ("not_null_violation", "23502"),
    ("null_value_not_allowed", "22004"),
    ("numeric_value_out_of_range", "22003"),
    ("object_in_use", "55006"),
    ("object_not_in_prerequisite_state", "55000"),
    ("operator_intervention", "57000"),
    ("out_of_memory", "53200"),
    ("plpgsql_error", "P0000"),
    ("program_limit_exceeded", "54000"),
    ("query_canceled", "57014"),
    ("raise_exception", "P0001"),
    ("read_only_sql_transaction", "25006"),
    ("restrict_violation", "23001"),
    ("serialization_failure", "40001"),
    ("statement_too_complex", "54001"),
    ("string_data_right_truncation", "22001"),
    ("syntax_error", "42601"),
    ("system_error", "58000"),
    ("too_many_rows", "P0003"),
    ("transaction_rollback", "40000"),
    ("triggered_action_exception", "09000"),
    ("undefined_column", "42703"),
    ("undefined_function", "42883"),
    ("undefined_object", "42704"),
    ("undefined_table", "42P01"),
    ("unique_violation", "23505"),
    ("warning", "01000"),
];

/// The SQLSTATE of a condition.
pub(crate) fn sqlstate_of(name: &str) -> Option<&'static str> {
    CONDITIONS.iter().find(|(known, _)| *known == name).map(|(_, sqlstate)| *sqlstate)
}

/// Whether a text is an SQLSTATE that can be raised: five digits and capital letters, and not success.
pub(crate) fn is_sqlstate(text: &str) -> bool {
    text.len() == 5
        && !text.starts_with("00")
        && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_their_sqlstates_can_be_raised() {
        assert!(CONDITIONS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(CONDITIONS.iter().all(|(_, sqlstate)| is_sqlstate(sqlstate)));
        assert_eq!((sqlstate_of("unique_violation"), sqlstate_of("others")), (Some("23505"), None));
        assert!(!is_sqlstate("00000") && !is_sqlstate("2350") && !is_sqlstate("2350a"));
    }
}
