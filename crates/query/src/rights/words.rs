//! Rights in words: names as SQL writes them, access lists as PostgreSQL shows them.

use alluvia_catalog::rights::{PUBLIC, Privileges, Rights, RoleId};
use alluvia_space::keywords::quoted_for_letters;

/// One item of an access list: `grantee=letters/grantor`.
pub(crate) fn aclitem(rights: &Rights, to: RoleId, privileges: Privileges, owner: RoleId) -> String {
    // As there, without regard to keywords.
    let to = if to == PUBLIC { String::new() } else { quoted_for_letters(rights.name(to)) };
    format!("{to}={privileges}/{}", quoted_for_letters(rights.name(owner)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_and_names_with_other_letters_are_quoted() {
        assert!(KEYWORDS.is_sorted());
        for (name, written) in [
            ("a_1", "a_1"),
            ("select", "\"select\""),
            ("user", "\"user\""),
            ("name", "name"),
            ("A\"b", "\"A\"\"b\""),
            ("", "\"\""),
        ] {
            assert_eq!(quoted(name), written);
        }
    }
}
