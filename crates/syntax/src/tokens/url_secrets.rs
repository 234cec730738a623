//! Secrets in the URLs of COPY: the user with the password, and the query, which may hold signatures.

use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The tokens that are URLs with secrets, and how they are shown instead.
pub fn secrets(tokens: &[TokenWithSpan]) -> impl Iterator<Item = (&TokenWithSpan, String)> {
    tokens.iter().filter_map(|token| match &token.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
            Some((token, format!("'{}'", without_secrets(text)?.replace('\'', "''"))))
        }
        _ => None,
    })
}

/// A URL with dots in the place of its user and of its query; `None` if it has neither, or is none.
fn without_secrets(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let (rest, has_query) = match rest.split_once(['?', '#']) {
        Some((rest, _)) => (rest, true),
        None => (rest, false),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map(|(_, host)| host);
    if host.is_none() && !has_query {
        return None;
    }
    let user = if host.is_some() { "...@" } else { "" };
    let query = if has_query { "?..." } else { "" };
    Some(format!("{scheme}://{user}{}{path}{query}", host.unwrap_or(authority)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::parse;

    #[test]
    fn users_and_queries_are_not_kept() {
        for (url, shown) in [
            ("https://h.org/a.csv?X-Sig=s3", Some("https://h.org/a.csv?...")),
            ("https://me:pw@h.org:81/a", Some("https://...@h.org:81/a")),
            ("http://me@h.org?x#y", Some("http://...@h.org?...")),
            ("https://h.org/a@b.csv", None),
            ("/data/a?b@c.csv", None),
        ] {
            assert_eq!(without_secrets(url).as_deref(), shown, "{url}");
        }
    }

    #[test]
    fn a_statement_is_shown_without_them() {
        let shown = |sql: &str| parse(sql).unwrap()[0].sql().to_owned();
        let sql = "COPY t FROM 'https://h.org/it''s?sig=1' (FORMAT csv, DELIMITER '?')";
        assert_eq!(shown(sql), "COPY t FROM 'https://h.org/it''s?...' (FORMAT csv, DELIMITER '?')");
        assert_eq!(shown("SELECT 'https://h.org/?a'"), "SELECT 'https://h.org/?a'");
    }
}
