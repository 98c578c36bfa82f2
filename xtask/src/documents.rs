//! Settings, metrics and statements that no page tells of, and tests that a page names and that are not there.
//!
//! What there is follows from the code: members of `GivenConfig` or of the table `settings!`, those of sessions in `KNOWN`, names
//! of metrics in text, variants of `Statement`.

use crate::tokens;
use crate::workspace::{crates, rust_files};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::path::Path;
use syn::{Expr, ExprLit, Item, Lit, Meta};

const SETTINGS: &str = "crates/nyala/src/config.rs";
const SETTINGS_PAGE: &str = "docs/operations/settings.md";
/// Only the program itself writes metrics.
const METRICS: &str = "crates/nyala/src";
const METRICS_PAGE: &str = "docs/operations/monitoring.md";
const STATEMENTS: &str = "crates/nyala-query/src";
/// What of the security checklist is shown by which test.
const CHECKLIST: &str = "docs/operations/security-checklist.md";
const TESTS: &str = "crates/nyala/tests";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
/// Settings that a session of SQL knows.
const SESSION_SETTINGS: &str = "crates/nyala-sql/src/settings.rs";
const SQL_PAGE: &str = "docs/sql.md";
const STATEMENTS_PAGE: &str = "docs/compat/influxdb.md";

/// Complaints about everything without a line in its page.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut judge = |page: &str, kind: &str, found: &dyn Fn() -> Result<Vec<Named>, String>| {
        let text = match std::fs::read_to_string(root.join(page)) {
            Ok(text) => text,
            Err(error) => return complaints.push(format!("{page}: {error}")),
        };
        match found() {
            Err(error) => complaints.push(error),
            Ok(found) if found.is_empty() => complaints.push(format!("{page}: no {kind} found in the code")),
            Ok(found) => complaints.extend(undocumented(&found, kind, page, &text)),
        }
    };
    judge(SETTINGS_PAGE, "setting", &|| settings(&read(&root.join(SETTINGS))?));
    let packages: Vec<String> = crates(root).iter().map(|(name, _)| name.replace('-', "_")).collect();
    judge(METRICS_PAGE, "metric", &|| metrics(&texts_below(root, METRICS)?, &packages));
    judge(STATEMENTS_PAGE, "statement", &|| statements(&texts_below(root, STATEMENTS)?));
    complaints.extend(check_session_settings(root));
    complaints.extend(check_paths(root));
    complaints.extend(check_tests(root));
    complaints
}

/// Complaints about settings of sessions that the page on SQL does not name.
fn check_session_settings(root: &Path) -> Vec<String> {
    let found = read(&root.join(SESSION_SETTINGS)).and_then(|text| session_settings(&text));
    let (names, page) = match (found, read(&root.join(SQL_PAGE))) {
        (Ok(names), Ok(page)) => (names, page),
        (Err(error), _) | (_, Err(error)) => return vec![error],
    };
    let missing = names.iter().filter(|name| !page.contains(&format!("`{name}`")));
    missing.map(|name| format!("{SQL_PAGE} does not name the setting {name}")).collect()
}

/// The names in the table `KNOWN`, the first of each row: a text, or a constant of the same file.
fn session_settings(text: &str) -> Result<Vec<String>, String> {
    let file = syn::parse_file(text).map_err(|error| format!("{SESSION_SETTINGS}: {error}"))?;
    let value_of = |name: &dyn Fn(&syn::Ident) -> bool| {
        file.items.iter().find_map(|item| match item {
            Item::Const(own) if name(&own.ident) => Some(&*own.expr),
            _ => None,
        })
    };
    let Some(Expr::Array(rows)) = value_of(&|own| own == "KNOWN") else {
        return Err(format!("{SESSION_SETTINGS} has no table KNOWN"));
    };
    let names = rows.elems.iter().map(|row| {
        let first = match row {
            Expr::Tuple(row) => row.elems.first(),
            _ => None,
        };
        let first = match first {
            Some(Expr::Path(path)) => value_of(&|own| path.path.is_ident(own)),
            other => other,
        };
        match first {
            Some(Expr::Lit(ExprLit { lit: Lit::Str(name), .. })) => Ok(name.value()),
            _ => Err(format!("{SESSION_SETTINGS}: a row of KNOWN has no name")),
        }
    });
    names.collect()
}

/// Complaints about tests that the security checklist names and nobody has: `file: test` below the tests of the program, or
/// with its path below `crates`.
fn check_tests(root: &Path) -> Vec<String> {
    let text = match std::fs::read_to_string(root.join(CHECKLIST)) {
        Ok(text) => text,
        Err(error) => return vec![format!("{CHECKLIST}: {error}")],
    };
    let is_name = |name: &str| {
        name.chars().all(|letter| letter.is_ascii_lowercase() || matches!(letter, '_' | '0'..='9'))
    };
    let named = text.split('`').skip(1).step_by(2).filter_map(|code| code.split_once(": "));
    let named: Vec<(&str, &str)> = named.filter(|(_, test)| is_name(test)).collect();
    let has = |(file, test): &(&str, &str)| {
        let below = root.join("crates").join(file);
        let own = root.join(TESTS).join(file);
        let places = [own.with_extension("rs"), own.join("main.rs"), below];
        places.iter().any(|place| {
            std::fs::read_to_string(place).is_ok_and(|text| text.contains(&format!("fn {test}(")))
        })
    };
    match named.is_empty() {
        true => vec![format!("{CHECKLIST} names no tests")],
        false => {
            let missing = named.iter().filter(|named| !has(named));
            missing.map(|(file, test)| format!("{CHECKLIST}: {file} has no test {test}")).collect()
        }
    }
}

/// Complaints about paths of the page on architecture that do not exist. A path without a crate is in that of the path before
/// it.
fn check_paths(root: &Path) -> Vec<String> {
    let (text, files) = match (read(&root.join(ARCHITECTURE)), below(&root.join("crates"))) {
        (Ok(text), Ok(files)) => (text, files),
        (Err(error), _) | (_, Err(error)) => return vec![error],
    };
    let is_path = |code: &&str| !code.contains(' ') && !code.starts_with('/');
    let (mut complaints, mut of_crate) = (Vec::new(), String::new());
    for path in text.split('`').skip(1).step_by(2).filter(is_path).flat_map(expanded) {
        let named = path.strip_prefix("crates/").unwrap_or(&path);
        let first = named.split('/').next().unwrap_or(named);
        let is_there = if files.iter().any(|file| file == first) {
            of_crate = format!("{first}/");
            files.iter().any(|file| file == named.trim_end_matches('/'))
        } else if (path.ends_with(".rs") || path.ends_with('/')) && !root.join(first).exists() {
            let end = format!("/{}", path.trim_end_matches('/'));
            files.iter().any(|file| file.starts_with(&of_crate) && file.ends_with(&end))
        } else {
            true
        };
        if !is_there {
            complaints.push(format!("{ARCHITECTURE}: {path} does not exist"));
        }
    }
    complaints
}

/// All files and folders below a folder, relative to it.
fn below(folder: &Path) -> Result<Vec<String>, String> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder_of) = open.pop() {
        let entries =
            std::fs::read_dir(&folder_of).map_err(|error| format!("{}: {error}", folder_of.display()))?;
        for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
            if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                found.push(name.to_owned());
            }
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(found)
}

/// The paths that `a/{b,c}/d` stands for.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let Some((among, after)) = rest.split_once('}') else { return vec![path.to_owned()] };
    among.split(',').map(|one| format!("{before}{one}{after}")).collect()
}

/// A thing by the ways to write it; a page needs one of them.
type Named = Vec<String>;

fn undocumented(found: &[Named], kind: &str, page: &str, text: &str) -> Vec<String> {
    let rows = rows(text);
    let is_told = |names: &&Named| names.iter().any(|name| rows.iter().any(|row| tells(row, name)));
    let missing = found.iter().filter(|names| !is_told(names));
    missing.map(|names| format!("{page} has no line for the {kind} {}", names[0])).collect()
}

/// Whether `name` begins the row, as whole words.
fn tells(row: &str, name: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || character == '_' || character == '-';
    row.strip_prefix(name).is_some_and(|rest| !rest.starts_with(is_word))
}

/// The first cells of all tables, without backticks. Rows below `| SHOW |` leave this word out.
fn rows(text: &str) -> Vec<String> {
    let mut rows = Vec::new();
    let mut before = "";
    for line in text.lines() {
        let Some(cell) = line.strip_prefix('|').and_then(|line| line.split('|').next()) else {
            before = "";
            continue;
        };
        let cell = cell.trim().replace('`', "");
        if cell == "SHOW" {
            before = "SHOW ";
        }
        rows.push(format!("{before}{cell}"));
    }
    rows
}

/// Names of settings as files and flags have them.
fn settings(text: &str) -> Result<Vec<Named>, String> {
    let mut names = Vec::new();
    let tokens: Vec<TokenTree> = tokens::parse(text)?.into_iter().collect();
    for window in tokens.windows(3) {
        let words = [&window[0], &window[1]].map(TokenTree::to_string);
        if let (["struct", "GivenConfig"] | ["settings", "!"], TokenTree::Group(group)) =
            (words.each_ref().map(String::as_str), &window[2])
        {
            members(group.stream(), &mut names);
        }
    }
    Ok(names.into_iter().map(|name| vec![name.replace('_', "-")]).collect())
}

/// What stands before a colon in these braces and those within.
fn members(stream: TokenStream, names: &mut Vec<String>) {
    let mut last = None;
    for token in stream {
        match &token {
            TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Alone => {
                names.extend(last.take());
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                members(group.stream(), names);
            }
            _ => {}
        }
        last = match token {
            TokenTree::Ident(ident) => Some(ident.to_string()),
            _ => None,
        };
    }
}

/// Names of metrics in the text of the code.
fn metrics(texts: &[(String, String)], packages: &[String]) -> Result<Vec<Named>, String> {
    let mut names = BTreeSet::new();
    for (file, text) in texts {
        let tokens = tokens::without_tests(text).map_err(|error| format!("{file}: {error}"))?;
        for literal in tokens.iter().filter(|token| matches!(token, TokenTree::Literal(_))) {
            let literal = literal.to_string();
            if !literal.contains('"') {
                continue;
            }
            if literal.contains("nyala_{") {
                return Err(format!("{file}: {literal} puts the name of a metric together; write it whole"));
            }
            let words =
                literal.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
            let words = words.filter(|word| word.starts_with("nyala_") || word.starts_with("process_"));
            names.extend(words.map(str::to_owned).filter(|word| !packages.contains(word)));
        }
    }
    Ok(names.into_iter().map(|name| vec![name]).collect())
}

/// Statements by the words of their variant, and by those of its documentation.
fn statements(texts: &[(String, String)]) -> Result<Vec<Named>, String> {
    for (file, text) in texts.iter().filter(|(_, text)| text.contains("enum Statement")) {
        let parsed = syn::parse_file(text).map_err(|error| format!("{file}: {error}"))?;
        for item in parsed.items {
            let Item::Enum(item) = item else { continue };
            if item.ident == "Statement" {
                let names = item.variants.iter().map(|variant| {
                    let documented =
                        variant.attrs.iter().find_map(|attribute| documentation(&attribute.meta));
                    let documented = documented.map(|text| capitals(&text)).filter(|words| !words.is_empty());
                    std::iter::once(words(&variant.ident.to_string())).chain(documented).collect()
                });
                return Ok(names.collect());
            }
        }
    }
    Err(format!("{STATEMENTS} has no enum Statement"))
}

/// `ShowTagKeys` as `SHOW TAG KEYS`.
fn words(name: &str) -> String {
    let mut words = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(character.to_uppercase());
    }
    words
}

/// The keywords that a documented statement begins with, optional ones left out.
fn capitals(text: &str) -> String {
    let is_keyword = |word: &&str| word.chars().all(|character| character.is_ascii_uppercase());
    let words = text.split(['`', ' ']).filter(|word| !word.is_empty());
    let words = words.filter(|word| !word.starts_with('[')).take_while(is_keyword);
    words.collect::<Vec<_>>().join(" ")
}

fn documentation(meta: &Meta) -> Option<String> {
    match meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    }
}

/// The source files below a folder of the checkout at `root`: their names and texts.
fn texts_below(root: &Path, folder: &str) -> Result<Vec<(String, String)>, String> {
    let shown = |file: &Path| file.strip_prefix(root).unwrap_or(file).display().to_string();
    rust_files(&root.join(folder)).iter().map(|file| Ok((shown(file), read(file)?))).collect()
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> [(String, String); 1] {
        [("x.rs".to_owned(), text.to_owned())]
    }

    #[test]
    fn settings_are_members_of_the_struct_or_lines_of_the_table() {
        let members = "pub struct GivenConfig { /// A: b.\n #[arg(long, env = \"X\")] pub data_dir: Option<a::B>, pub wal_sync: Option<C> }";
        assert_eq!(settings(members), Ok(vec![vec!["data-dir".to_owned()], vec!["wal-sync".to_owned()]]));
        let table = "macro_rules! settings { ($name:ident) => { pub struct GivenConfig { $(pub $name: u8)* } } }\n\
                     settings! { \"Data\" { data_dir: PathBuf = \"x: y\", \"DIRECTORY\", \"Where.\"; #[arg(a)] wal_sync: a::B = (\"\"); } }";
        assert_eq!(settings(table), settings(members));
    }

    #[test]
    fn settings_of_sessions_are_in_a_table() {
        let text = "const R: &str = \"read\"; const KNOWN: [(&str, u8); 2] = [(\"a.b\", 1), (R, 2)];";
        assert_eq!(session_settings(text), Ok(vec!["a.b".to_owned(), "read".to_owned()]));
        assert!(session_settings("const KNOWN: [u8; 1] = [1];").is_err());
        assert!(session_settings("const OTHER: u8 = 1;").is_err());
    }

    #[test]
    fn metrics_are_names_in_text() {
        let text = "fn f() { counter(\"nyala_a_total\"); g!(\"# HELP process_b_bytes B\", nyala_c, \"nyala_db\"); }\n\
                    #[cfg(test)] mod tests { fn f() { g(\"nyala_d\") } }";
        let names = |found: &[&str]| found.iter().map(|name| vec![(*name).to_owned()]).collect::<Vec<_>>();
        assert_eq!(
            metrics(&file(text), &["nyala_db".to_owned()]),
            Ok(names(&["nyala_a_total", "process_b_bytes"]))
        );
        assert!(metrics(&file("fn f() { format!(\"nyala_{name}\") }"), &[]).is_err());
    }

    #[test]
    fn statements_are_variants_in_words() {
        let text = "enum Statement { /// `SHOW TAG KEY [EXACT] CARDINALITY`\n ShowTagKeyCardinality, /// `GRANT ALL PRIVILEGES TO user`\n GrantAdmin { user: String }, Select(Box<Select>) }";
        let found = statements(&file(text)).unwrap();
        assert_eq!(
            found,
            [
                vec!["SHOW TAG KEY CARDINALITY", "SHOW TAG KEY CARDINALITY"],
                vec!["GRANT ADMIN", "GRANT ALL PRIVILEGES TO"],
                vec!["SELECT"]
            ]
        );
        let page = "| Statements | scripts |\n|---|---|\n| SELECT | x |\n\n| SHOW | scripts |\n|---|---|\n| TAG KEY CARDINALITY | y |\n";
        assert_eq!(
            undocumented(&found, "statement", "page.md", page),
            ["page.md has no line for the statement GRANT ADMIN"]
        );
    }

    #[test]
    fn a_line_tells_of_what_it_begins_with() {
        let page = "| setting | meaning |\n|---|---|\n| `data-dir`<br>`NYALA_DATA_DIR` | `wal-sync` |\n| `wal-sync-policy` | x |\n`wal-limit`\n";
        let found: Vec<Named> =
            ["data-dir", "wal-sync", "wal-limit"].iter().map(|name| vec![(*name).to_owned()]).collect();
        assert_eq!(
            undocumented(&found, "setting", "page.md", page),
            ["page.md has no line for the setting wal-sync", "page.md has no line for the setting wal-limit"]
        );
    }

    #[test]
    fn paths_of_the_architecture_exist() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("crates/a/src/b")).unwrap();
        std::fs::create_dir_all(folder.path().join("crates/e/src")).unwrap();
        std::fs::write(folder.path().join("crates/a/src/b/f.rs"), "").unwrap();
        let page = "`crates/a/src/{b,c}/`, `f.rs`, `b/f.rs`, `g.rs`, `x y.rs`, `a/src/q.rs`, `e/src`, `f.rs`, `nyala-x/d.rs`";
        std::fs::write(folder.path().join(ARCHITECTURE), page).unwrap();
        let expected = ["crates/a/src/c/", "g.rs", "a/src/q.rs", "f.rs", "nyala-x/d.rs"];
        assert_eq!(
            check_paths(folder.path()),
            expected.map(|path| format!("{ARCHITECTURE}: {path} does not exist"))
        );
    }
}
