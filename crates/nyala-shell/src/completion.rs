//! What can stand at the cursor: commands, words of the language, and names of the schema, in quotes where they need them.

use crate::command::COMMANDS;
use crate::describe::influxql_name;
use crate::language::Language;
use crate::schema::Names;
use crate::words::{functions, is_keyword, keywords};

/// More could not be looked through.
const OFFERED_MAX: usize = 500;

/// What kind of names stands at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    Tables,
    Databases,
    Any,
}

/// Where the text begins that is replaced, and what may replace it.
pub(crate) fn offered(text: &str, language: Language, names: &Names) -> (usize, Vec<String>) {
    let (from, is_quoted) = match unclosed_quote(text, language) {
        Some((_, '\'')) => return (text.len(), Vec::new()),
        Some((at, _)) => (at, true),
        None => {
            let is_of_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '\\';
            (
                text.rfind(|letter| !is_of_word(letter))
                    .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8)),
                false,
            )
        }
    };
    let typed = &text[from + usize::from(is_quoted)..];
    if typed.starts_with('\\') {
        let is_first = text[..from].trim().is_empty();
        let commands = COMMANDS.iter().filter(|command| is_first && command.starts_with(typed));
        return (from, commands.map(|command| (*command).to_owned()).collect());
    }
    let expected = expected(&text[..from], language);
    let matches = |name: &&String| begins_with(name, typed);
    let named = |name: &String| match is_quoted {
        true => quoted(name, language),
        false => written(name, language),
    };
    let mut offered: Vec<String> = match expected {
        Expected::Tables => names.tables.iter().filter(matches).map(named).collect(),
        Expected::Databases => names.databases.iter().filter(matches).map(named).collect(),
        Expected::Any => names.columns.iter().chain(&names.tables).filter(matches).map(named).collect(),
    };
    // Words of the language are few.
    offered.truncate(OFFERED_MAX);
    if !is_quoted && !typed.is_empty() {
        let is_lower = typed.chars().all(|letter| !letter.is_uppercase());
        let words = keywords(language).iter().filter(|word| begins_with(word, typed));
        offered.extend(words.map(|word| if is_lower { word.to_lowercase() } else { (*word).to_owned() }));
        if expected == Expected::Any {
            let functions = functions(language).iter().filter(|name| begins_with(name, typed));
            offered.extend(functions.map(|name| format!("{name}(")));
        }
    }
    offered.sort();
    offered.dedup();
    (from, offered)
}

/// The quote at the end of a text that is not closed, and where it is. In SQL a backslash is a letter like others, but in
/// texts with the prefix `E`.
fn unclosed_quote(text: &str, language: Language) -> Option<(usize, char)> {
    let mut open: Option<(usize, char)> = None;
    let mut letters = text.char_indices();
    let escapes = |at: usize| match language {
        Language::Influxql => true,
        Language::Sql => text[..at].ends_with(['e', 'E']) && text[at..].starts_with('\''),
    };
    while let Some((at, letter)) = letters.next() {
        match (open, letter) {
            (Some((begin, _)), '\\') if escapes(begin) => drop(letters.next()),
            (Some((_, quote)), letter) if letter == quote => open = None,
            (None, '\'' | '"') => open = Some((at, letter)),
            _ => {}
        }
    }
    open
}

/// What the word before the cursor asks for.
fn expected(before: &str, language: Language) -> Expected {
    let words = before.rsplit(|letter: char| letter.is_whitespace() || letter == '(');
    // `FROM policy.` and `FROM a, ` go on with what came before.
    let mut words = words.filter(|word| !word.is_empty() && !word.ends_with(['.', ',']));
    let last = words.next().unwrap_or_default().to_ascii_uppercase();
    match last.as_str() {
        "FROM" | "INTO" | "UPDATE" | "JOIN" | "TABLE" | "MEASUREMENT" | "TRUNCATE" | "COPY" | "UPSERT"
        | "\\D" => Expected::Tables,
        "USE" | "\\USE" | "\\C" | "DATABASE" => Expected::Databases,
        "ON" if language == Language::Influxql => Expected::Databases,
        _ => Expected::Any,
    }
}

fn begins_with(name: &str, typed: &str) -> bool {
    name.get(..typed.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(typed))
}

/// A name as it has to be written.
fn written(name: &str, language: Language) -> String {
    let is_plain = |letter: char| match language {
        Language::Influxql => letter.is_ascii_alphanumeric() || letter == '_',
        // Without quotes, names are folded to lower case.
        Language::Sql => letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_',
    };
    let begins_well = name.starts_with(|letter: char| !letter.is_ascii_digit());
    match begins_well && name.chars().all(is_plain) && (name == "time" || !is_keyword(name, language)) {
        true => name.to_owned(),
        false => quoted(name, language),
    }
}

fn quoted(name: &str, language: Language) -> String {
    match language {
        Language::Influxql => influxql_name(name),
        Language::Sql => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Names {
            databases: set(&["home", "My db"]),
            tables: set(&["temperature", "te mp", "Cpu"]),
            columns: set(&["time", "celsius", "select"]),
        }
    }

    #[test]
    fn names_are_offered_where_they_can_stand() {
        let offers = |text: &str, language| offered(text, language, &names());
        let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            offers("select * from te", Language::Sql),
            (14, strings(&["\"te mp\"", "temperature", "text"]))
        );
        assert_eq!(offers("select * from C", Language::Sql).1[0], "\"Cpu\"");
        assert_eq!(
            offers("select * from \"te", Language::Influxql),
            (14, strings(&["\"te mp\"", "\"temperature\""]))
        );
        assert_eq!(offers("use ", Language::Influxql).1, ["\"My db\"", "home"]);
        assert_eq!(offers("select cel", Language::Sql), (7, strings(&["celsius"])));
        assert_eq!(offers("SEL", Language::Influxql).1, ["\"select\"", "SELECT"]);
        assert_eq!(offers("sel", Language::Sql).1, ["\"select\"", "select"]);
        assert_eq!(offers("select 'te", Language::Sql).1, strings(&[]));
        assert_eq!(offers("\\ti", Language::Sql), (0, strings(&["\\timing"])));
        assert_eq!(offers("é日sel", Language::Sql).0, 0);
        assert_eq!(offers("select 'C:\\' , cel", Language::Sql).1, strings(&["celsius"]));
        assert_eq!(offers("select E'\\' , cel", Language::Sql).1, strings(&[]));
        assert_eq!(offers("select * from autogen.Cp", Language::Influxql).1, strings(&["Cpu"]));
        assert_eq!(offers("select * from temperature, Cp", Language::Influxql).1, strings(&["Cpu"]));
    }
}
