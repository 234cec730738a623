//! Privileges: the kinds of access that a grant allows.

use serde::{Deserialize, Serialize};
use std::fmt;

/// One thing that can be allowed on a table, a schema or the database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Privilege {
    /// Adding rows to a table.
    Insert,
    /// Reading a table.
    Select,
    /// Changing rows of a table.
    Update,
    /// Removing rows of a table.
    Delete,
    /// Removing all rows of a table.
    Truncate,
    /// Looking into a schema.
    Usage,
    /// Making tables in a schema, and tables and schemas in the database.
    Create,
    /// Connecting to the database.
    Connect,
}

/// Every privilege with its name in SQL, and the letter that PostgreSQL's access lists have for it.
const NAMES: [(Privilege, &str, char); 8] = [
    (Privilege::Insert, "INSERT", 'a'),
    (Privilege::Select, "SELECT", 'r'),
    (Privilege::Update, "UPDATE", 'w'),
    (Privilege::Delete, "DELETE", 'd'),
    (Privilege::Truncate, "TRUNCATE", 'D'),
    (Privilege::Usage, "USAGE", 'U'),
    (Privilege::Create, "CREATE", 'C'),
    (Privilege::Connect, "CONNECT", 'c'),
];

impl Privilege {
    /// Its name in SQL, upper case.
    pub fn sql_name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The privilege of a name, in any case.
    pub fn named(name: &str) -> Option<Privilege> {
        NAMES.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(name)).map(|(privilege, ..)| *privilege)
    }
}

/// A set of privileges; written as PostgreSQL's letters.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Privileges(u8);

impl Privileges {
    /// None.
    pub const NONE: Privileges = Privileges(0);
    /// All that there are on a table.
    pub const OF_TABLE: Privileges = Privileges(0b001_1111);
    /// All that there are on the database.
    pub const OF_DATABASE: Privileges = Privileges(0b1100_0000);
    /// All that there are on a schema.
    pub const OF_SCHEMA: Privileges = Privileges(0b0110_0000);

    /// These with one more.
    #[must_use]
    pub fn with(self, privilege: Privilege) -> Privileges {
        Privileges(self.0 | 1 << privilege as u8)
    }

    /// These and those.
    #[must_use]
    pub fn and(self, others: Privileges) -> Privileges {
        Privileges(self.0 | others.0)
    }

    /// These but those.
    #[must_use]
    pub fn without(self, others: Privileges) -> Privileges {
        Privileges(self.0 & !others.0)
    }

    /// Whether there is this one among them.
    pub fn has(self, privilege: Privilege) -> bool {
        self.0 >> privilege as u8 & 1 == 1
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In the order of their letters in access lists.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        NAMES.into_iter().map(|(privilege, ..)| privilege).filter(move |privilege| self.has(*privilege))
    }

    /// Names in SQL, separated by commas.
    pub fn sql_names(self) -> String {
        self.iter().map(Privilege::sql_name).collect::<Vec<_>>().join(", ")
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<I: IntoIterator<Item = Privilege>>(privileges: I) -> Privileges {
        privileges.into_iter().fold(Privileges::NONE, Privileges::with)
    }
}

impl fmt::Display for Privileges {
    /// The letters.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.iter().try_for_each(|privilege| write!(f, "{}", NAMES[privilege as usize].2))
    }
}

impl fmt::Debug for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Privileges({self})")
    }
}

impl From<Privileges> for String {
    fn from(privileges: Privileges) -> String {
        privileges.to_string()
    }
}

impl TryFrom<String> for Privileges {
    type Error = String;

    fn try_from(letters: String) -> Result<Privileges, String> {
        let known =
            |letter: char| NAMES.iter().find(|(_, _, known)| *known == letter).map(|(privilege, ..)| *privilege);
        letters.chars().map(|letter| known(letter).ok_or_else(|| format!("'{letter}' is no privilege"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_privilege_is_where_its_number_says_and_is_read_as_it_is_written() {
        for (at, (privilege, name, letter)) in NAMES.into_iter().enumerate() {
            assert_eq!((privilege as usize, privilege.sql_name()), (at, name));
            assert_eq!(Privilege::named(&name.to_lowercase()), Some(privilege));
            let alone = Privileges::NONE.with(privilege);
            assert_eq!(alone.to_string(), letter.to_string());
            assert_eq!(Privileges::try_from(alone.to_string()), Ok(alone));
        }
        assert_eq!(Privileges::OF_TABLE.to_string(), "arwdD");
        assert_eq!(Privileges::OF_DATABASE.to_string(), "Cc");
        assert_eq!(Privileges::OF_SCHEMA.to_string(), "UC");
        assert!(Privileges::try_from("rx".to_owned()).is_err());
        let some: Privileges = [Privilege::Select, Privilege::Insert].into_iter().collect();
        assert_eq!(some.sql_names(), "INSERT, SELECT");
        assert_eq!(Privileges::OF_TABLE.without(some).to_string(), "wdD");
    }
}
