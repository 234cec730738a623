//! Numbers as people read them in sentences: with commas between the thousands.

/// The text of a number with commas between its thousands; any other text as it is.
pub fn with_commas(text: &str) -> String {
    let digits_from = usize::from(text.starts_with('-'));
    let whole = text.find('.').unwrap_or(text.len());
    let digits = &text[digits_from..whole];
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.to_owned();
    }
    let mut written = text[..digits_from].to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            written.push(',');
        }
        written.push(digit);
    }
    written + &text[whole..]
}

/// So many of something: `1 batch`, `1,204 rows`. `many` is the word for more than one, and for none.
pub fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", with_commas(&count.to_string()), if count == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_stand_between_thousands() {
        let texts = ["1", "-1234", "123456.7890", "1e20", "NaN", "", "-", "1000000"].map(with_commas);
        assert_eq!(texts, ["1", "-1,234", "123,456.7890", "1e20", "NaN", "", "-", "1,000,000"]);
        let counts = [0, 1, 1_204].map(|count| counted(count, "row", "rows"));
        assert_eq!(counts, ["0 rows", "1 row", "1,204 rows"]);
    }
}
