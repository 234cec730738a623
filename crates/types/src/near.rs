//! Near names: suggestions for a name that is not known, by edit distance.

/// Up to three of `known` that resemble `wanted`, best first, each once, and never `wanted` itself; for "did you mean"
/// hints.
///
/// Distance is Damerau-Levenshtein (adjacent transpositions count once) on lower-cased characters; a name counts as
/// near when at most a third of the longer name (but at least one character) has to change, or when one contains the
/// other.
pub fn near_names<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let exactly = wanted;
    let wanted: Vec<char> = wanted.to_lowercase().chars().take(64).collect();
    let mut found: Vec<(usize, &str)> = known
        .into_iter()
        .filter(|name| *name != exactly)
        .filter_map(|name| {
            let lower: Vec<char> = name.to_lowercase().chars().take(64).collect();
            let changes = distance(&wanted, &lower);
            let limit = (wanted.len().max(lower.len()) / 3).max(1);
            let contains = wanted.len() >= 3 && lower.len() >= 3 && {
                let (a, b): (String, String) = (wanted.iter().collect(), lower.iter().collect());
                a.contains(&b) || b.contains(&a)
            };
            // Of names of one letter each is one change away from every other.
            let has_all_changed = changes >= wanted.len().max(lower.len());
            (changes <= limit && !has_all_changed || contains).then_some((changes, name))
        })
        .collect();
    found.sort();
    found.dedup();
    found.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitute = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitute.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::near_names;

    #[test]
    fn near_names_finds_typos_and_parts_and_nothing_else() {
        let known = ["country", "county", "city", "price", "sold_at"];
        assert_eq!(near_names("contry", known), ["country", "county"]);
        assert_eq!(near_names("pirce", known), ["price"]);
        assert_eq!(near_names("sold", known), ["sold_at"]);
        assert!(near_names("zzz", known).is_empty());
        assert!(near_names("c", ["a", "b"]).is_empty());
        assert_eq!(near_names("a", ["A", "b", "ab"]), ["A", "ab"]);
        assert_eq!(near_names("contry", ["country", "county", "country"]), ["country", "county"]);
        assert_eq!(near_names("price", ["price", "Price"]), ["Price"]);
    }
}
