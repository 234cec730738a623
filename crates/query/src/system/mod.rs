//! `alluvia.*`: the database described by tables.

mod queries;

pub use queries::{QueryLog, QueryRow};

/// One setting, as `alluvia.settings` and SHOW ALL show it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingRow {
    /// Its name.
    pub name: String,
    /// Its value now, as SHOW prints it.
    pub value: String,
    /// Its value after RESET.
    pub default_value: String,
    /// `session` or `database`.
    pub scope: &'static str,
    /// What it does, in one sentence.
    pub description: String,
}

/// Where `alluvia.settings` gets the session's settings from.
pub trait SettingsView: Send + Sync + std::fmt::Debug {
    /// All settings, in name order.
    fn settings(&self) -> Vec<SettingRow>;
}
