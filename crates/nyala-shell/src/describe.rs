//! `\d`, `\dt`, `\l`, `\du`: statements that show what there is, in the language that is spoken.

use crate::command::Name;
use crate::language::Language;

/// What a database has.
pub(crate) fn tables(language: Language) -> String {
    match language {
        Language::Influxql => "SHOW MEASUREMENTS".to_owned(),
        Language::Sql => "SELECT table_schema AS schema, table_name AS name, \
             CASE table_type WHEN 'BASE TABLE' THEN 'table' ELSE lower(table_type) END AS type \
             FROM information_schema.tables WHERE table_schema NOT IN ('information_schema', 'pg_catalog') \
             ORDER BY schema, name"
            .to_owned(),
    }
}

/// The columns of a table, or the tags and fields of a measurement.
pub(crate) fn columns(name: &Name, language: Language) -> String {
    match language {
        Language::Influxql => {
            let mut source =
                name.before.iter().map(|policy| format!("{}.", influxql_name(policy))).collect::<String>();
            source.push_str(&influxql_name(&name.name));
            format!("SHOW TAG KEYS FROM {source}; SHOW FIELD KEYS FROM {source}")
        }
        Language::Sql => {
            let schema = match &name.before {
                Some(schema) => format!(" AND table_schema IN ({})", as_written_or_folded(schema)),
                None => " AND table_schema NOT IN ('information_schema', 'pg_catalog')".to_owned(),
            };
            format!(
                "SELECT table_schema AS schema, column_name AS column, data_type AS type, is_nullable AS nullable, \
                 column_default AS default FROM information_schema.columns WHERE table_name IN ({}){schema} \
                 ORDER BY table_schema, ordinal_position",
                as_written_or_folded(&name.name)
            )
        }
    }
}

/// The databases.
pub(crate) const DATABASES: &str = "SHOW DATABASES";
/// The users.
pub(crate) const USERS: &str = "SHOW USERS";

/// A name of InfluxQL in quotes. A line break ends a name, so it is escaped, too.
pub(crate) fn influxql_name(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// Names without quotes are folded to lower case by SQL, but people also type names as they are stored.
fn as_written_or_folded(name: &str) -> String {
    let text = |name: &str| format!("'{}'", name.replace('\'', "''"));
    format!("{}, {}", text(name), text(&name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, parse};

    #[test]
    fn names_are_escaped_as_in_their_language() {
        let described = |text: &str, language| match parse(text, language).unwrap() {
            Command::Describe(Some(Name { before: None, name })) => name,
            other => panic!("{other:?}"),
        };
        for name in ["a\nb", "C:\\new", "\\", "a\"b", "a\\n"] {
            let quoted = influxql_name(name);
            assert!(!quoted.contains('\n'));
            assert_eq!(described(&format!("\\d {quoted}"), Language::Influxql), name);
        }
        assert_eq!(described(r#"\d "C:\new\\""#, Language::Sql), r"C:\new\\");
    }
}
