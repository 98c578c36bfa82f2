//! Parses script files, and rewrites their expected answers.
//!
//! `testdata/influx/README.md` describes the format. A step knows the lines of its expected answer, so that rewriting
//! changes nothing else: comments, inputs and the answers that nyala may give instead stay.

use std::ops::Range;
use std::path::{Path, PathBuf};

use regex::Regex;

/// One file of steps, played in order against a server that starts empty.
pub(crate) struct Script {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) steps: Vec<Step>,
    /// How the server is started.
    pub(crate) settings: Vec<(String, String)>,
    lines: Vec<String>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// POST to /write; the input is line protocol.
    Write,
    /// Writes in batches; the input is a template of lines.
    Generate,
    /// POST (or GET) to /query; the input is InfluxQL.
    Query,
    /// Any request, written out.
    Http { method: String, target: String },
    /// Stops the server in order and starts it on the same data.
    Restart,
    /// Kills the server and starts it on the same data.
    Crash,
}

/// One request and the answer that it must get.
pub(crate) struct Step {
    /// Counted from 1: the line of the step's head.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    /// Parameters of the URL, in order.
    pub(crate) parameters: Vec<(String, String)>,
    /// Words with `@`: for the player, not for the server.
    pub(crate) options: Vec<(String, String)>,
    /// What is replaced by `<masked>` in the answer.
    pub(crate) masks: Vec<Regex>,
    pub(crate) input: Vec<String>,
    pub(crate) expected: Vec<String>,
    /// If nyala differs on purpose: the reason, and its own answer.
    pub(crate) deviation: Option<(String, Vec<String>)>,
    /// The lines of `expected`, counted from 0; an empty range at the place where they belong.
    expected_lines: Range<usize>,
    /// Whether `---` is already before them.
    has_separator: bool,
}

impl Step {
    /// The value of an option, empty for a bare word.
    pub(crate) fn option(&self, name: &str) -> Option<&str> {
        let found = self.options.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Options that a step may carry; anything else is a typing error.
const OPTIONS: [&str; 11] =
    ["unordered", "brief", "mask", "gzip", "percent", "get", "url", "show", "count", "accept", "prometheus"];

/// All scripts of a directory whose name contains `filter`, in order of name.
pub(crate) fn load_directory(directory: &Path, filter: &str) -> Vec<Script> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|e| panic!("cannot list {}: {e}", directory.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a directory entry is readable").path())
        .filter(|path| path.extension().is_some_and(|e| e == "script"))
        .collect();
    paths.sort();
    let scripts = paths.iter().map(|path| {
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|e| panic!("cannot read {}: {e}", path.display()));
        Script::parse(path, &text).unwrap_or_else(|e| panic!("{}:{e}", path.display()))
    });
    scripts.filter(|s| s.name.contains(filter)).collect()
}

impl Script {
    fn parse(path: &Path, text: &str) -> Result<Script, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut write_defaults = Vec::new();
        let mut query_defaults = Vec::new();
        let mut steps = Vec::new();
        let mut settings = Vec::new();
        let mut at = 0;
        while at < lines.len() {
            let head = lines[at].trim_end();
            if head.is_empty() || head.starts_with('#') {
                at += 1;
                continue;
            }
            let words = split_words(head).map_err(|e| format!("{}: {e}", at + 1))?;
            if words[0] == "settings" {
                let pair = |word: &String| {
                    let (name, value) = word.split_once('=').unwrap_or((word, "true"));
                    (name.to_owned(), value.to_owned())
                };
                settings.extend(words[1..].iter().map(pair));
                at += 1;
                continue;
            }
            if words[0] == "defaults" {
                let target = match words.get(1).map(String::as_str) {
                    Some("write") => &mut write_defaults,
                    Some("query") => &mut query_defaults,
                    _ => return Err(format!("{}: defaults of write or query?", at + 1)),
                };
                *target = words[2..].to_vec();
                at += 1;
                continue;
            }
            let defaults = match words[0].as_str() {
                "write" | "generate" => write_defaults.clone(),
                "query" => query_defaults.clone(),
                _ => Vec::new(),
            };
            let mut step = parse_head(&words, defaults).map_err(|e| format!("{}: {e}", at + 1))?;
            step.line = at + 1;
            at = parse_rest(&mut step, &lines, at + 1);
            steps.push(step);
        }
        let name = path.file_stem().unwrap_or_default();
        Ok(Script {
            path: path.to_owned(),
            name: name.to_string_lossy().into_owned(),
            steps,
            settings,
            lines,
        })
    }

    /// The file with other expected answers: one per step, none for steps without an answer.
    pub(crate) fn rewritten(&self, answers: &[Option<Vec<String>>]) -> String {
        assert_eq!(answers.len(), self.steps.len(), "one answer per step");
        let mut text = String::new();
        let mut at = 0;
        let copy = |text: &mut String, range: Range<usize>| {
            for line in &self.lines[range] {
                text.push_str(line);
                text.push('\n');
            }
        };
        for (step, answer) in self.steps.iter().zip(answers) {
            let Some(answer) = answer else { continue };
            copy(&mut text, at..step.expected_lines.start);
            if !step.has_separator {
                text.push_str("---\n");
            }
            for line in answer {
                text.push_str(line);
                text.push('\n');
            }
            at = step.expected_lines.end;
        }
        copy(&mut text, at..self.lines.len());
        text
    }
}

fn parse_head(words: &[String], defaults: Vec<String>) -> Result<Step, String> {
    let (kind, rest) = match words[0].as_str() {
        "write" => (Kind::Write, &words[1..]),
        "generate" => (Kind::Generate, &words[1..]),
        "query" => (Kind::Query, &words[1..]),
        "restart" => (Kind::Restart, &words[1..]),
        "crash" => (Kind::Crash, &words[1..]),
        "http" => {
            let [_, method, target, rest @ ..] = words else {
                return Err("http needs a method and a target".into());
            };
            let (method, target) = (method.clone(), target.clone());
            (Kind::Http { method, target }, rest)
        }
        other => return Err(format!("no step is called {other:?}")),
    };
    let mut step = Step {
        line: 0,
        kind,
        parameters: Vec::new(),
        options: Vec::new(),
        masks: Vec::new(),
        input: Vec::new(),
        expected: Vec::new(),
        deviation: None,
        expected_lines: 0..0,
        has_separator: false,
    };
    for word in defaults.iter().chain(rest) {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if let Some(option) = name.strip_prefix('@') {
            if !OPTIONS.contains(&option) {
                return Err(format!("no option is called {option:?}"));
            }
            if option == "mask" {
                let mask = Regex::new(value).map_err(|e| e.to_string())?;
                step.masks.push(mask);
            } else {
                step.options.push((option.to_owned(), value.to_owned()));
            }
        } else if let Some(dropped) = name.strip_prefix('-') {
            step.parameters.retain(|(n, _)| n != dropped);
        } else if matches!(step.kind, Kind::Http { .. } | Kind::Restart | Kind::Crash) {
            return Err(format!("{word:?} has no meaning here"));
        } else {
            // A step's own parameter takes the place of the default of that name.
            if rest.contains(word) && defaults.iter().any(|d| d.split('=').next() == Some(name)) {
                step.parameters.retain(|(n, _)| n != name);
            }
            step.parameters.push((name.to_owned(), value.to_owned()));
        }
    }
    Ok(step)
}

/// Reads a step's input and answers, and returns the line after them.
fn parse_rest(step: &mut Step, lines: &[String], from: usize) -> usize {
    let mut at = from;
    let line_at = |at: usize| lines.get(at).map(String::as_str).filter(|l| !l.is_empty());
    while let Some(line) = line_at(at).filter(|l| *l != "---") {
        step.input.push(line.to_owned());
        at += 1;
    }
    if line_at(at) == Some("---") {
        step.has_separator = true;
        at += 1;
    }
    let expected_from = at;
    while let Some(line) = line_at(at).filter(|l| !l.starts_with("--- nyala")) {
        step.expected.push(line.to_owned());
        at += 1;
    }
    step.expected_lines = expected_from..at;
    if let Some(line) = line_at(at) {
        let reason = line.trim_start_matches("--- nyala").trim_start_matches(':');
        at += 1;
        let mut answer = Vec::new();
        while let Some(line) = line_at(at) {
            answer.push(line.to_owned());
            at += 1;
        }
        step.deviation = Some((reason.trim().to_owned(), answer));
    }
    at
}

/// Words are separated by blanks; single quotes hold blanks together and have no escape.
fn split_words(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(character),
        }
    }
    if quoted {
        return Err("a quote is left open".into());
    }
    if !word.is_empty() {
        words.push(word);
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# A comment.\ndefaults query db=x epoch=ns\n\nquery epoch=s params='{\"a\": 1}' @get\nSELECT 1\n---\n200\n|old\n--- nyala: because\n200\n\nwrite -db\nm v=1\n";

    #[test]
    fn steps_are_read_with_their_defaults() {
        let script = Script::parse(Path::new("a/topic.script"), TEXT).unwrap();
        let query = &script.steps[0];
        let names: Vec<&str> = query.parameters.iter().map(|(n, _)| n.as_str()).collect();
        assert_eq!(names, ["db", "epoch", "params"]);
        assert_eq!(query.parameters[1].1, "s");
        assert_eq!(query.parameters[2].1, "{\"a\": 1}");
        assert_eq!(query.option("get"), Some(""));
        assert_eq!(query.expected, ["200", "|old"]);
        let (reason, answer) = query.deviation.as_ref().unwrap();
        assert_eq!((reason.as_str(), answer.len()), ("because", 1));
        assert_eq!((script.name.as_str(), script.steps[1].line), ("topic", 12));
    }

    #[test]
    fn rewriting_touches_only_expected_answers() {
        let script = Script::parse(Path::new("topic.script"), TEXT).unwrap();
        let answers = [Some(vec!["204".to_owned()]), Some(vec!["400".to_owned()])];
        let expected = TEXT.replace("200\n|old\n", "204\n") + "---\n400\n";
        assert_eq!(script.rewritten(&answers), expected);
    }

    #[test]
    fn unknown_words_are_errors() {
        for bad in ["querry db=x", "query @maks=x", "restart now", "query 'a"] {
            assert!(Script::parse(Path::new("x"), bad).is_err(), "{bad}");
        }
    }
}
