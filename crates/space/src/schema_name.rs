//! What a schema can be called, and what no schema is called, so that the engine has names of its own.

/// What the name of a schema that the engine has for itself begins with. Nobody can make a schema of such a name, and a
/// reference that a statement writes to one is refused.
pub const ENGINES_OWN: char = '\u{1}';
/// Bytes of a schema's name at most.
pub const SCHEMA_NAME_BYTES_MAX: usize = 63;

/// Whether a schema can be called so.
pub fn is_schema_name(name: &str) -> bool {
    (1..=SCHEMA_NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_schema_is_called_as_the_engine_calls_its_own() {
        assert!(is_schema_name("search path") && is_schema_name("given") && is_schema_name(&"é".repeat(31)));
        for name in [String::new(), format!("{ENGINES_OWN}given"), "a\0".to_owned(), "é".repeat(32)] {
            assert!(!is_schema_name(&name), "{name:?}");
        }
    }
}
