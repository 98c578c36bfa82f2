//! What the shell does itself: commands with a backslash, as in psql, and words, as in influx.

use crate::error::{Result, ShellError};
use crate::language::Language;

/// A command.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Speak(Language),
    Describe(Option<Name>),
    Tables,
    Databases,
    Users,
    Use(Option<Name>),
    Precision(Option<String>),
    Insert(String),
    Format(Option<String>),
    /// `None` changes it to the other.
    Expanded(Option<bool>),
    Timing(Option<bool>),
    Pager(Option<bool>),
    /// `None` is standard output.
    Output(Option<String>),
    Include(String),
    Watch {
        seconds: f64,
        times: Option<u64>,
    },
    Authenticate(Option<String>),
    Clear,
    Help,
    HelpOfStatements,
    History,
    Settings,
    Leave,
}

/// A name, and what stands before its point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) before: Option<String>,
    pub(crate) name: String,
}

/// Commands with a backslash that completion offers.
pub(crate) const COMMANDS: [&str; 22] = [
    "\\?",
    "\\c",
    "\\d",
    "\\dt",
    "\\du",
    "\\format",
    "\\h",
    "\\history",
    "\\i",
    "\\influxql",
    "\\l",
    "\\o",
    "\\pager",
    "\\precision",
    "\\q",
    "\\settings",
    "\\sql",
    "\\timing",
    "\\use",
    "\\watch",
    "\\x",
    "\\auth",
];

/// Reads a command; the text is what [`crate::statement::is_command`] takes for one. Names in quotes are of `language`.
///
/// # Errors
/// There is no such command, or it needs other words behind it.
pub(crate) fn parse(text: &str, language: Language) -> Result<Command> {
    let text = text.trim().trim_end_matches(';').trim_end();
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let given = (!rest.is_empty()).then(|| rest.to_owned());
    let lower = word.to_ascii_lowercase();
    let missing = |what: &str| ShellError::Command(format!("{word} needs {what}"));
    Ok(match lower.as_str() {
        "\\influxql" => Command::Speak(Language::Influxql),
        "\\sql" => Command::Speak(Language::Sql),
        "\\d" | "\\d+" => Command::Describe(given.map(|name| Name::read(&name, language)).transpose()?),
        "\\dt" | "\\dv" | "\\dm" => Command::Tables,
        "\\l" => Command::Databases,
        "\\du" => Command::Users,
        "\\use" | "\\c" | "\\connect" | "use" => {
            Command::Use(given.map(|name| Name::read(&name, language)).transpose()?)
        }
        "\\precision" | "precision" => Command::Precision(given),
        "insert" => Command::Insert(given.ok_or_else(|| missing("a point in line protocol"))?),
        "\\format" | "format" => Command::Format(given),
        "\\x" => Command::Expanded(switch(word, rest)?),
        "\\timing" => Command::Timing(switch(word, rest)?),
        "\\pager" => Command::Pager(switch(word, rest)?),
        "\\o" | "\\out" => Command::Output(given),
        "\\i" | "\\include" => Command::Include(given.ok_or_else(|| missing("the name of a file"))?),
        "\\watch" => watch(rest)?,
        "\\auth" | "auth" => Command::Authenticate(given),
        "\\clear" | "clear" => Command::Clear,
        "\\?" | "help" => Command::Help,
        "\\h" | "\\help" => Command::HelpOfStatements,
        "\\s" | "\\history" | "history" => Command::History,
        "\\settings" | "\\conninfo" | "settings" => Command::Settings,
        "\\q" | "\\quit" | "exit" | "quit" => Command::Leave,
        "chunked" | "pretty" | "consistency" | "connect" => {
            return Err(ShellError::Command(format!(
                "{lower} is a command of influx that this shell has no use for; \\? lists what there is"
            )));
        }
        _ => return Err(ShellError::Command(format!("there is no command {word}; \\? lists what there is"))),
    })
}

fn switch(word: &str, rest: &str) -> Result<Option<bool>> {
    match rest.to_ascii_lowercase().as_str() {
        "" => Ok(None),
        "on" | "true" | "1" => Ok(Some(true)),
        "off" | "false" | "0" => Ok(Some(false)),
        _ => Err(ShellError::Command(format!("{word} takes on, off, or nothing to change it"))),
    }
}

/// `\watch [seconds [times]]`.
fn watch(rest: &str) -> Result<Command> {
    const SECONDS: f64 = 2.0;
    const SECONDS_MAX: f64 = 86_400.0;
    let wrong = || ShellError::Command("\\watch takes seconds, and how many times: \\watch 2 10".to_owned());
    let mut words = rest.split_whitespace();
    let seconds = words.next().map_or(Ok(SECONDS), str::parse).map_err(|_| wrong())?;
    let times = words.next().map(str::parse).transpose().map_err(|_| wrong())?;
    if words.next().is_some() || !(0.0..=SECONDS_MAX).contains(&seconds) {
        return Err(wrong());
    }
    Ok(Command::Watch { seconds, times })
}

impl Name {
    /// Reads `name`, `before.name`, with double quotes around either. A backslash escapes what follows as it does in a name
    /// of the language: in InfluxQL only.
    ///
    /// # Errors
    /// A quote is not closed, or there are other words.
    pub(crate) fn read(text: &str, language: Language) -> Result<Self> {
        let wrong =
            || ShellError::Command(format!("{text} is no name; put double quotes around one with blanks"));
        let (first, rest) = part(text, language).ok_or_else(wrong)?;
        match rest.strip_prefix('.') {
            None if rest.is_empty() => Ok(Self { before: None, name: first }),
            None => Err(wrong()),
            Some(rest) => {
                let (name, rest) = part(rest, language).ok_or_else(wrong)?;
                match rest.is_empty() {
                    true => Ok(Self { before: Some(first), name }),
                    false => Err(wrong()),
                }
            }
        }
    }
}

/// A part of a name, and what comes after it.
fn part(text: &str, language: Language) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(['.', '"', ' ', '\t']).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut name = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let next = letters.peek().map(|(_, next)| *next);
        match (letter, next) {
            ('\\', Some(escaped @ ('"' | '\\' | 'n'))) if language == Language::Influxql => {
                letters.next();
                name.push(if escaped == 'n' { '\n' } else { escaped });
            }
            ('"', Some('"')) => {
                letters.next();
                name.push('"');
            }
            ('"', _) => return Some((name, &quoted[at + 1..])),
            (letter, _) => name.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_what_they_need() {
        let parse = |text: &str| super::parse(text, Language::Influxql);
        let name = |before: Option<&str>, name: &str| Name {
            before: before.map(str::to_owned),
            name: name.to_owned(),
        };
        assert_eq!(parse("use d;").unwrap(), Command::Use(Some(name(None, "d"))));
        assert_eq!(parse("USE \"a b\".\"c\"\"d\"").unwrap(), Command::Use(Some(name(Some("a b"), "c\"d"))));
        assert_eq!(parse("insert m,h=a v=1 1").unwrap(), Command::Insert("m,h=a v=1 1".to_owned()));
        assert_eq!(parse("\\watch 0.5 3").unwrap(), Command::Watch { seconds: 0.5, times: Some(3) });
        assert_eq!(parse("\\x on").unwrap(), Command::Expanded(Some(true)));
        for wrong in [
            "\\y",
            "\\watch -1",
            "\\watch nan",
            "\\i",
            "\\x maybe",
            "\\d a b",
            "use \"a",
            "chunked",
            "insert",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn completion_offers_commands_that_exist() {
        for command in COMMANDS {
            let text = format!("{command} x");
            let exists = |text: &str| {
                !parse(text, Language::Sql).is_err_and(|error| error.text("").contains("there is no command"))
            };
            assert!(exists(&text) && exists(command), "{command}");
        }
    }
}
