//! Rights in words: names as SQL writes them, access lists as PostgreSQL shows them.

use alluvia_catalog::rights::{PUBLIC, Privileges, Rights, RoleId};
use alluvia_space::keywords::quoted_for_letters;

/// One item of an access list: `grantee=letters/grantor`.
pub(crate) fn aclitem(rights: &Rights, to: RoleId, privileges: Privileges, owner: RoleId) -> String {
    // As there, without regard to keywords.
    let to = if to == PUBLIC { String::new() } else { quoted_for_letters(rights.name(to)) };
    format!("{to}={privileges}/{}", quoted_for_letters(rights.name(owner)))
}
