//! Names as they are written in SQL.

use crate::keyword::is_reserved;
use datafusion::sql::sqlparser::ast::Ident;
use nyala_db::relations::TEMPORARY;

/// The schema of tables, views and sequences that users declare.
pub(crate) const PUBLIC: &str = "public";

/// The schema of the temporary relations of a session, as the first session of a PostgreSQL has it.
pub(crate) const TEMPORARY_SCHEMA: &str = "pg_temp_3";

/// Whether a schema is that of the temporary relations of the session.
pub(crate) fn is_temporary_schema(name: &str) -> bool {
    matches!(name, "pg_temp" | TEMPORARY_SCHEMA)
}

/// The schema of the tables of a database.
pub(crate) fn schema_of(database: &str) -> &'static str {
    if database == TEMPORARY { TEMPORARY_SCHEMA } else { PUBLIC }
}

/// The parts of a name: small letters unless they are in quotes. `None` if it is none.
pub(crate) fn parts_of(name: &str) -> Option<Vec<String>> {
    let (mut parts, mut part, mut letters) = (Vec::new(), String::new(), name.trim().chars().peekable());
    while let Some(letter) = letters.next() {
        match letter {
            '"' => loop {
                match letters.next()? {
                    '"' if letters.peek() == Some(&'"') => part.extend(letters.next()),
                    '"' => break,
                    other => part.push(other),
                }
            },
            '.' => parts.push(std::mem::take(&mut part)),
            blank if blank.is_whitespace() => {}
            other => part.extend(other.to_lowercase()),
        }
    }
    parts.push(part);
    parts.iter().all(|part| !part.is_empty()).then_some(parts)
}

/// An identifier as names are compared: in small letters unless it is in quotes.
pub(crate) fn folded(identifier: &Ident) -> String {
    match identifier.quote_style {
        Some(_) => identifier.value.clone(),
        None => identifier.value.to_lowercase(),
    }
}

/// Whether a name needs quotes. PostgreSQL writes them around one with `$`, too, though it reads it without.
pub(crate) fn needs_quotes(name: &str) -> bool {
    let begins = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let goes_on = |letter: char| begins(letter) || letter.is_ascii_digit();
    !name.starts_with(begins) || !name.chars().all(goes_on) || is_reserved(name)
}

/// A name as it is written in SQL: in quotes where it needs them.
pub(crate) fn quoted(name: &str) -> String {
    if needs_quotes(name) { quoted_name(name) } else { name.to_owned() }
}

/// A name in quotes, whether it needs them or not.
pub fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in quotes. A backslash is a letter like others.
pub fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::{parts_of, quoted};

    #[test]
    fn names_have_parts() {
        let parts = |name| parts_of(name).map(|parts| parts.join("|"));
        assert_eq!(parts("Public . \"A \"\"b\"\".c\"").as_deref(), Some("public|A \"b\".c"));
        assert_eq!([parts(""), parts("a."), parts("\"a")], [None, None, None]);
    }

    #[test]
    fn names_have_quotes_where_they_need_them() {
        assert_eq!(
            ["plain_1", "Upper", "order", "two words", "a\"b", "1st", "a$b", ""].map(quoted),
            [
                "plain_1",
                "\"Upper\"",
                "\"order\"",
                "\"two words\"",
                "\"a\"\"b\"",
                "\"1st\"",
                "\"a$b\"",
                "\"\""
            ]
        );
    }
}
