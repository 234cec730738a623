//! The beginning of a long statement, as logs and messages show it.

/// Longer statements are cut in the ring; the end of a long INSERT tells nothing.
pub const SQL_BYTES_MAX: usize = 4_096;

/// The beginning of a text, as long as is kept.
pub fn cut(sql: &str) -> &str {
    let mut cut = sql.len().min(SQL_BYTES_MAX);
    while !sql.is_char_boundary(cut) {
        cut -= 1;
    }
    &sql[..cut]
}
