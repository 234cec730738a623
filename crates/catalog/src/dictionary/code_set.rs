//! Sets of codes of a level, a bit for each.

/// A set of codes. It takes as many bits as its greatest member tells.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CodeSet {
    words: Vec<u64>,
}

impl CodeSet {
    /// Adds a code.
    pub fn insert(&mut self, code: u32) {
        let word = code as usize / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (code % 64);
    }

    /// Whether a code is in it.
    pub fn contains(&self, code: u32) -> bool {
        self.words.get(code as usize / 64).is_some_and(|word| word & (1 << (code % 64)) != 0)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Its codes, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.words.len() as u32 * 64).filter(|&code| self.contains(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_kept_in_order_and_once() {
        let mut set = CodeSet::default();
        assert!(set.is_empty() && !set.contains(0) && !set.contains(u32::MAX));
        for code in [63, 0, 64, 200, 64] {
            set.insert(code);
        }
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 200]);
        assert!(!set.contains(199) && !set.contains(201) && !set.is_empty());
    }
}
