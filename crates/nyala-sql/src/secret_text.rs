//! Statements as they are kept where many can read them: without what may be a secret.

use crate::parser_dialect::SqlDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// What names of secrets contain.
const NAMES: [&str; 6] = ["secret", "password", "passwd", "token", "credential", "access_key"];

/// A text in which no literal stands behind a word that names a secret. One that has no tokens is not shown.
pub(crate) fn without_secrets(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    if !NAMES.iter().any(|name| lower.contains(name)) {
        return text.to_owned();
    }
    let Ok(tokens) = Tokenizer::new(&SqlDialect, text).with_unescape(false).tokenize() else {
        return "(a text that names a secret, and is no SQL)".to_owned();
    };
    let mut shown = String::with_capacity(text.len());
    let mut is_secret = false;
    for token in &tokens {
        match token {
            Token::Word(word) => {
                let word = word.value.to_ascii_lowercase();
                is_secret = NAMES.iter().any(|name| word.contains(name));
            }
            Token::Whitespace(_) | Token::Eq | Token::Assignment => {}
            Token::LParen | Token::RParen | Token::Comma | Token::SemiColon => is_secret = false,
            _ if is_secret => {
                shown.push_str("'***'");
                is_secret = false;
                continue;
            }
            _ => {}
        }
        shown.push_str(&token.to_string());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::without_secrets;

    #[test]
    fn literals_behind_names_of_secrets_are_not_shown() {
        for (text, shown) in [
            (
                "COPY m TO 's3://b/x' WITH (secret_access_key 'Hush''Six', region 'eu')",
                "COPY m TO 's3://b/x' WITH (secret_access_key '***', region 'eu')",
            ),
            ("ALTER USER a WITH PASSWORD = 'x'", "ALTER USER a WITH PASSWORD = '***'"),
            ("SELECT token, 'x' FROM t WHERE token = $1", "SELECT token, 'x' FROM t WHERE token = '***'"),
            ("SELECT 'it''s'", "SELECT 'it''s'"),
            ("password 'x", "(a text that names a secret, and is no SQL)"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
    }
}
