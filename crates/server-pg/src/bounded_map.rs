//! A map with bounds, for what a connection keeps by name until its client closes it: prepared statements, portals.
//!
//! Invariants:
//! - Their number is bounded, and so are the bytes of those that have a name, together.
//! - The one without a name makes room for the next, and is as long as a message may be: it is not counted with the rest, so that a
//!   statement that is run once may be long.

use alluvia_types::{Error, ErrorKind, Result};
use std::collections::HashMap;

/// How many there may be, and how large.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// What they are called, more than one.
    pub(crate) what: &'static str,
    pub(crate) count_max: usize,
    pub(crate) bytes_max: usize,
    /// What the client can do about it.
    pub(crate) hint: &'static str,
}

/// Things by name, each with its bytes.
pub(crate) struct BoundedMap<T> {
    bounds: &'static Bounds,
    by_name: HashMap<String, (usize, T)>,
    /// Of those that have a name.
    bytes: usize,
}

impl<T> BoundedMap<T> {
    /// None yet.
    pub(crate) fn new(bounds: &'static Bounds) -> BoundedMap<T> {
        BoundedMap { bounds, by_name: HashMap::new(), bytes: 0 }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&T> {
        self.by_name.get(name).map(|(_, kept)| kept)
    }

    /// Refuses what there is no room for. It takes the place of another of its name.
    pub(crate) fn check(&self, name: &str, bytes: usize) -> Result<()> {
        let Bounds { what, count_max, bytes_max, hint } = self.bounds;
        let before = self.by_name.get(name).map(|(bytes, _)| *bytes);
        if before.is_none() && self.by_name.len() >= *count_max {
            let message = format!("this connection has {count_max} {what} already, and no more are allowed");
            return Err(Error::new(ErrorKind::Busy, message).with_hint(*hint));
        }
        let others = self.bytes - if name.is_empty() { 0 } else { before.unwrap_or(0) };
        if !name.is_empty() && others.saturating_add(bytes) > *bytes_max {
            let message = format!(
                "{what} with names may take {bytes_max} bytes on one connection: {others} are in use, and this one has {bytes}"
            );
            return Err(Error::new(ErrorKind::TooLarge, message).with_hint(*hint));
        }
        Ok(())
    }

    /// Keeps it, in the place of another of its name.
    pub(crate) fn insert(&mut self, name: String, bytes: usize, kept: T) {
        drop(self.remove(&name));
        self.bytes += if name.is_empty() { 0 } else { bytes };
        self.by_name.insert(name, (bytes, kept));
    }

    /// What is kept by this name has become larger by so much; `false`, and nothing is counted, if there is no room for that.
    pub(crate) fn grow(&mut self, name: &str, bytes: usize) -> bool {
        if name.is_empty() {
            return true;
        }
        let is_room = self.bytes.saturating_add(bytes) <= self.bounds.bytes_max;
        match self.by_name.get_mut(name).filter(|_| is_room) {
            Some((of_it, _)) => {
                *of_it += bytes;
                self.bytes += bytes;
                true
            }
            None => false,
        }
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<T> {
        let (bytes, kept) = self.by_name.remove(name)?;
        self.bytes -= if name.is_empty() { 0 } else { bytes };
        Some(kept)
    }

    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
        self.bytes = 0;
    }

    /// Keeps those alone that are to be kept.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&T) -> bool) {
        self.by_name.retain(|_, (_, kept)| is_kept(kept));
        self.bytes = self.by_name.iter().filter(|(name, _)| !name.is_empty()).map(|(_, (bytes, _))| bytes).sum();
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.by_name.values().map(|(_, kept)| kept)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.by_name.values_mut().map(|(_, kept)| kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { what: "things", count_max: 3, bytes_max: 100, hint: "Close those" };

    /// Keeps it if there is room; the SQLSTATE of the refusal if not.
    fn keep(kept: &mut BoundedMap<u32>, name: &str, bytes: usize) -> &'static str {
        match kept.check(name, bytes) {
            Ok(()) => {
                kept.insert(name.to_owned(), bytes, bytes as u32);
                ""
            }
            Err(error) => {
                assert!(error.message().contains("things") && error.hint() == Some("Close those"), "{error}");
                error.kind().sqlstate()
            }
        }
    }

    #[test]
    fn number_and_bytes_are_bounded_but_for_the_one_without_a_name() {
        let mut kept = BoundedMap::new(&BOUNDS);
        assert_eq!([keep(&mut kept, "a", 60), keep(&mut kept, "b", 41), keep(&mut kept, "b", 40)], ["", "54000", ""]);
        assert_eq!([keep(&mut kept, "", 1_000), keep(&mut kept, "", 2_000)], ["", ""]);
        assert_eq!(keep(&mut kept, "c", 0), "53300");
        // What takes the place of another has its room, and no more.
        assert_eq!([keep(&mut kept, "a", 61), keep(&mut kept, "a", 20), keep(&mut kept, "a", 60)], ["54000", "", ""]);
        assert_eq!((kept.remove("b"), kept.remove("b"), kept.remove("")), (Some(40), None, Some(2_000)));
        assert_eq!(
            [keep(&mut kept, "c", 41), keep(&mut kept, "c", usize::MAX), keep(&mut kept, "c", 40)],
            ["54000", "54000", ""]
        );
        kept.clear();
        assert_eq!(keep(&mut kept, "d", 100), "");
    }

    #[test]
    fn what_grows_and_what_is_left_over_is_counted() {
        let mut kept = BoundedMap::new(&BOUNDS);
        assert_eq!([keep(&mut kept, "a", 30), keep(&mut kept, "b", 50), keep(&mut kept, "", 1_000)], ["", "", ""]);
        assert!(kept.grow("a", 20) && !kept.grow("b", 1) && !kept.grow("none", 0) && kept.grow("", 5_000));
        kept.retain(|bytes| *bytes != 50);
        assert!(!kept.contains("b") && kept.contains("a") && kept.get("") == Some(&1_000));
        // 50 of `a`, which has grown, are left.
        assert_eq!([keep(&mut kept, "c", 51), keep(&mut kept, "c", 50)], ["54000", ""]);
        kept.values_mut().for_each(|bytes| *bytes += 1);
        assert_eq!(kept.values().sum::<u32>(), 31 + 51 + 1_001);
        assert_eq!(kept.remove("a"), Some(31));
        assert_eq!(keep(&mut kept, "a", 50), "");
    }
}
