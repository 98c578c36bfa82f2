//! The table of `docs/compat/influxdb.md`: in which scripts each thing that InfluxDB has is answered as it does.
//!
//! `testdata/influx/checklist.txt` says what there is and by which words a step is known; the answers in the scripts are
//! the real server's. The table is made, never edited: the layout check fails where it is stale, or a cell empty.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const PAGE: &str = "docs/compat/influxdb.md";
const BEGIN: &str = "<!-- made by `cargo xtask coverage` -->\n";
const END: &str = "<!-- end -->\n";
/// Scripts that a cell names.
const NAMED_SCRIPTS: usize = 4;

/// Writes the table anew.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let page = std::fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    let (before, after) = around(&page)?;
    let page = format!("{before}{}{after}", table(root)?);
    std::fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))
}

/// What is wrong with the table as it stands.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let judge = || {
        let page = std::fs::read_to_string(root.join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
        let (before, after) = around(&page)?;
        match page == format!("{before}{}{after}", table(root)?) {
            true => Ok(()),
            false => Err(format!("{PAGE}: its table is stale: run cargo xtask coverage")),
        }
    };
    judge().err().into_iter().collect()
}

fn around(page: &str) -> Result<(&str, &str), String> {
    let missing = || format!("{PAGE}: the lines around the table are not there");
    let begin = page.find(BEGIN).ok_or_else(missing)? + BEGIN.len();
    let end = page.find(END).ok_or_else(missing)?;
    Ok((&page[..begin], &page[end..]))
}

/// A request of a script and whether the real server refused it.
struct Step {
    tokens: Vec<String>,
    refused: bool,
}

fn table(root: &Path) -> Result<String, String> {
    let directory = root.join("testdata/influx");
    let scripts = scripts(&directory)?;
    let checklist = directory.join("checklist.txt");
    let checklist = std::fs::read_to_string(&checklist).map_err(|error| format!("checklist.txt: {error}"))?;
    let mut text = String::new();
    let mut last = "";
    let mut empty = Vec::new();
    for line in checklist.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
        let [kind, name, patterns] = parts[..] else { return Err(format!("checklist.txt: {line}")) };
        if kind != last {
            write!(text, "\n| {kind} | scripts |\n|---|---|\n").expect("text grows");
            last = kind;
        }
        let cell = match patterns.strip_prefix("file:").map(str::trim) {
            Some(file) if root.join(file).is_file() => format!("`{file}`"),
            Some(_) => String::new(),
            None => found(
                &scripts,
                patterns,
                name.contains("error)") || name.contains("(refused") || name.contains("(undefined"),
            ),
        };
        if cell.is_empty() {
            empty.push(format!("{kind}: {name}"));
        }
        writeln!(text, "| {name} | {cell} |").expect("text grows");
    }
    match empty.is_empty() {
        true => Ok(format!("{text}\n")),
        false => Err(format!("no script has: {}", empty.join("; "))),
    }
}

/// The first scripts with a step that a pattern finds, as a cell.
fn found(scripts: &BTreeMap<String, Vec<Step>>, patterns: &str, may_be_refused: bool) -> String {
    let patterns: Vec<Vec<Vec<String>>> =
        patterns.split(" or ").map(|pattern| pattern.split('…').map(tokens).collect()).collect();
    let mut names = Vec::new();
    for (name, steps) in scripts {
        let holds = |step: &Step| {
            (may_be_refused || !step.refused) && patterns.iter().any(|pattern| has(&step.tokens, pattern))
        };
        if steps.iter().any(holds) {
            names.push(name.as_str());
        }
    }
    let more = if names.len() > NAMED_SCRIPTS { ", …" } else { "" };
    names.truncate(NAMED_SCRIPTS);
    format!("{}{more}", names.join(", "))
}

/// Whether the parts follow each other in some tokens.
fn has(tokens: &[String], parts: &[Vec<String>]) -> bool {
    let mut rest = tokens;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Words in capitals, and every other character alone.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut in_word = false;
    for character in text.chars() {
        let is_word = character.is_alphanumeric() || character == '_';
        if is_word && in_word {
            let word = tokens.last_mut().expect("a word was begun");
            word.extend(character.to_uppercase());
        } else if !character.is_whitespace() {
            tokens.push(character.to_uppercase().collect());
        }
        in_word = is_word;
    }
    tokens
}

/// The steps of all scripts that are played to both servers.
fn scripts(directory: &Path) -> Result<BTreeMap<String, Vec<Step>>, String> {
    let entries =
        std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut scripts = BTreeMap::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|extension| extension != "script") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        scripts.insert(name, steps(&text));
    }
    Ok(scripts)
}

/// Steps are apart by empty lines; what is asked stands before `---`, what was answered behind it.
fn steps(text: &str) -> Vec<Step> {
    let step = |block: &str| {
        let asked: Vec<&str> =
            block.lines().take_while(|line| *line != "---").filter(|line| !line.starts_with("# ")).collect();
        let mut answer =
            block.lines().skip_while(|line| *line != "---").take_while(|line| !line.starts_with("--- "));
        let refused = answer.any(|line| line.contains("\"error\""));
        Step { tokens: tokens(&asked.join("\n")), refused }
    };
    text.split("\n\n").map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_by_words_in_order() {
        let text = "# A comment.\nquery db=x\nSELECT max(v) INTO y FROM m\n---\n200\n\nquery\nSELECT top(v)\n---\n{\"error\":1}\n";
        let scripts = BTreeMap::from([("a".to_owned(), steps(text))]);
        assert_eq!(found(&scripts, "SELECT … INTO", false), "a");
        assert_eq!(found(&scripts, "INTO … SELECT", false), "");
        assert_eq!(found(&scripts, "MAX (", false), "a");
        assert_eq!(
            (found(&scripts, "TOP (", false), found(&scripts, "TOP (", true)),
            (String::new(), "a".to_owned())
        );
    }
}
