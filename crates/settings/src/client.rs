//! Settings that PostgreSQL's clients send or ask for, and that change nothing here.
//!
//! Invariants:
//! - A name that is not listed is an error: a setting that does nothing would be believed to do something.
//! - A listed one takes only values under which Alluvia behaves as it always does, and reads back as it was set. Where any value
//!   would (a name, a limit that nothing here can reach), any is taken.
//!
//! The list is what libpq and psql, psycopg, asyncpg, SQLAlchemy, pgjdbc, pgx, node-postgres, Npgsql and DBeaver send at the
//! start or set by themselves, and what they SHOW.

use alluvia_types::{Error, ErrorKind, Result};

/// What a setting may be.
#[derive(Clone, Copy)]
enum Takes {
    /// Anything.
    Any,
    /// One of these, in any case.
    Only(&'static [&'static str]),
    /// A number of these.
    Number(i64, i64),
    /// It can only be shown.
    Nothing,
}

/// Name, value at the start, what it takes.
const KNOWN: &[(&str, &str, Takes)] = &[
    ("application_name", "", Takes::Any),
    ("backslash_quote", "safe_encoding", Takes::Only(&["safe_encoding", "on", "off"])),
    ("bytea_output", "hex", Takes::Only(&["hex"])),
    ("check_function_bodies", "on", Takes::Any),
    ("client_encoding", "UTF8", Takes::Only(&["utf8", "utf-8", "unicode", "auto", "sql_ascii"])),
    (
        "client_min_messages",
        "notice",
        Takes::Only(&[
            "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning", "error",
            "fatal", "panic",
        ]),
    ),
    (
        "datestyle",
        "ISO, MDY",
        Takes::Only(&["iso", "iso, mdy", "iso, dmy", "iso, ymd", "iso,mdy", "iso,dmy", "iso,ymd"]),
    ),
    ("default_table_access_method", "heap", Takes::Any),
    ("default_tablespace", "", Takes::Any),
    ("default_transaction_deferrable", "off", Takes::Only(&["off", "false"])),
    ("extra_float_digits", "1", Takes::Number(-15, 3)),
    ("in_hot_standby", "off", Takes::Nothing),
    ("integer_datetimes", "on", Takes::Nothing),
    ("intervalstyle", "postgres", Takes::Only(&["postgres"])),
    ("is_superuser", "on", Takes::Nothing),
    ("jit", "off", Takes::Any),
    ("lc_collate", "C", Takes::Nothing),
    ("lc_ctype", "C.UTF-8", Takes::Nothing),
    ("lc_messages", "C", Takes::Any),
    ("lc_monetary", "C", Takes::Any),
    ("lc_numeric", "C", Takes::Any),
    ("lc_time", "C", Takes::Any),
    ("max_identifier_length", "63", Takes::Nothing),
    ("max_index_keys", "32", Takes::Nothing),
    ("options", "", Takes::Nothing),
    ("password_encryption", "scram-sha-256", Takes::Only(&["scram-sha-256", "on"])),
    ("plan_cache_mode", "auto", Takes::Any),
    ("row_security", "on", Takes::Any),
    ("server_encoding", "UTF8", Takes::Nothing),
    ("server_version", SERVER_VERSION, Takes::Nothing),
    ("server_version_num", "160000", Takes::Nothing),
    ("session_authorization", "alluvia", Takes::Nothing),
    ("standard_conforming_strings", "on", Takes::Only(&["on", "true", "yes", "1"])),
    ("synchronize_seqscans", "on", Takes::Any),
    ("synchronous_commit", "on", Takes::Only(&["on", "true", "yes", "1", "local", "remote_write", "remote_apply"])),
    ("tcp_keepalives_idle", "0", Takes::Any),
    ("transaction_isolation", "read committed", Takes::Nothing),
    ("transaction_read_only", "off", Takes::Nothing),
    ("wal_level", "replica", Takes::Nothing),
    ("xmloption", "content", Takes::Any),
];

/// The PostgreSQL version whose protocol and catalog this is like; clients choose features by its number.
pub const SERVER_VERSION: &str = concat!("16.0 (Alluvia ", env!("CARGO_PKG_VERSION"), ")");

/// The canonical name, if it is listed.
pub fn canonical(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, ..)| known.eq_ignore_ascii_case(name)).map(|(known, ..)| *known)
}

/// Names and values at the start.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().map(|(name, value, _)| (*name, *value))
}

/// The value at the start.
pub fn at_start(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| *value)
}

/// The value as it will be shown, if the setting may be that.
pub fn check(name: &str, text: &str) -> Result<String> {
    let Some((name, at_start, takes)) = KNOWN.iter().find(|(known, ..)| *known == name) else {
        return Err(Error::internal(format!("the setting {name} is not listed")));
    };
    let refused =
        |hint: String| Err(Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be {text:?}")).with_hint(hint));
    match takes {
        Takes::Any => Ok(text.to_owned()),
        Takes::Only(values) => {
            if !values.iter().any(|value| value.eq_ignore_ascii_case(text)) {
                return refused(format!("it takes {}", values.join(", ")));
            }
            Ok(match *name {
                // What psql asks for in a terminal of the C locale: bytes as they are.
                "client_encoding" if text.eq_ignore_ascii_case("sql_ascii") => "SQL_ASCII".to_owned(),
                "client_encoding" => "UTF8".to_owned(),
                "datestyle" if text.eq_ignore_ascii_case("iso") => (*at_start).to_owned(),
                "datestyle" => text.to_ascii_uppercase().replace(' ', "").replace(',', ", "),
                "standard_conforming_strings" => "on".to_owned(),
                _ => text.to_ascii_lowercase(),
            })
        }
        Takes::Number(least, most) => match text.parse::<i64>() {
            Ok(number) if (*least..=*most).contains(&number) => Ok(number.to_string()),
            _ => refused(format!("it takes a whole number from {least} to {most}")),
        },
        Takes::Nothing if text == *at_start => Ok(text.to_owned()),
        Takes::Nothing => Err(Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be changed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_takes_what_it_is_at_the_start() {
        for (name, value) in all() {
            assert_eq!(check(name, value).unwrap(), value, "{name}");
            assert_eq!(canonical(&name.to_uppercase()), Some(name));
        }
    }

    #[test]
    fn values_that_would_change_behaviour_are_refused() {
        for (name, value) in [
            ("client_encoding", "LATIN1"),
            ("standard_conforming_strings", "off"),
            ("bytea_output", "escape"),
            ("datestyle", "German"),
            ("extra_float_digits", "9"),
            ("server_version", "9.6"),
            ("synchronous_commit", "off"),
        ] {
            assert!(check(name, value).is_err(), "{name}");
        }
        assert_eq!(check("datestyle", "iso, dmy").unwrap(), "ISO, DMY");
        assert_eq!(check("client_encoding", "unicode").unwrap(), "UTF8");
        assert_eq!(check("client_encoding", "sql_ascii").unwrap(), "SQL_ASCII");
        assert!(canonical("freshnes").is_none());
    }
}
