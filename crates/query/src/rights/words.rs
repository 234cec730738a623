//! Rights in words: names as SQL writes them, access lists as PostgreSQL shows them.

use alluvia_catalog::rights::{PUBLIC, Privileges, Rights, RoleId};

/// A name as it is written in SQL.
pub(crate) fn quoted(name: &str) -> String {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// One item of an access list: `grantee=letters/grantor`.
pub(crate) fn aclitem(rights: &Rights, to: RoleId, privileges: Privileges, owner: RoleId) -> String {
    let to = if to == PUBLIC { String::new() } else { quoted(rights.name(to)) };
    format!("{to}={privileges}/{}", quoted(rights.name(owner)))
}
