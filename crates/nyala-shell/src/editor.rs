//! Lines of a terminal, by rustyline: completion, colours, earlier statements, and statements of several lines.

use crate::completion;
use crate::error::{Result, ShellError};
use crate::highlight::highlighted;
use crate::history;
use crate::language::Language;
use crate::schema::Schema;
use crate::statement::is_complete;
use crate::style::is_plain;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, Helper};
use std::borrow::Cow;
use std::path::PathBuf;

/// What somebody did at the prompt.
pub(crate) enum Entered {
    Text(String),
    /// Ctrl-C: begin again.
    Interrupted,
    /// Ctrl-D: leave.
    End,
}

/// The line editor.
pub(crate) struct LineEditor {
    editor: Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
}

impl LineEditor {
    /// An editor of the terminal. Earlier statements are read, and kept, unless that is not wanted.
    pub(crate) fn open(schema: Schema, has_history: bool) -> Result<Self> {
        let color_mode = if is_plain() { ColorMode::Disabled } else { ColorMode::Enabled };
        let config = Config::builder()
            .max_history_size(history::STATEMENTS_MAX)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(failed)?
            .completion_type(CompletionType::List)
            .color_mode(color_mode)
            .build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Assistant { schema, language: Language::Influxql, database: String::new() }));
        let history = if has_history { history::file() } else { None };
        if let Some(path) = &history {
            // Without earlier statements the shell works, too.
            let _ = editor.load_history(path);
        }
        Ok(Self { editor, history })
    }

    /// Reads a statement or a command.
    pub(crate) fn read(&mut self, prompt: &str, language: Language, database: &str) -> Result<Entered> {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.language = language;
            database.clone_into(&mut assistant.database);
            assistant.schema.prepare(database);
        }
        match self.editor.readline(prompt) {
            Ok(text) => {
                self.remember(&text);
                Ok(Entered::Text(text))
            }
            Err(ReadlineError::Interrupted) => Ok(Entered::Interrupted),
            Err(ReadlineError::Eof) => Ok(Entered::End),
            Err(error) => Err(failed(error)),
        }
    }

    /// What was entered, the oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &String> {
        self.editor.history().iter()
    }

    fn remember(&mut self, text: &str) {
        if !history::is_remembered(text) {
            return;
        }
        let is_new = self.editor.add_history_entry(text.trim_end()).unwrap_or(false);
        if let Some(path) = self.history.as_ref().filter(|_| is_new) {
            // A full disk is no reason to stop.
            let _ = self.editor.append_history(path);
        }
    }
}

fn failed(error: ReadlineError) -> ShellError {
    ShellError::Command(format!("reading from the terminal: {error}"))
}

/// Helps while a line is edited.
struct Assistant {
    schema: Schema,
    language: Language,
    database: String,
}

impl Helper for Assistant {}

impl Hinter for Assistant {
    type Hint = String;
}

impl Validator for Assistant {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match is_complete(context.input(), self.language) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(&self, line: &str, cursor: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let names = self.schema.names(&self.database);
        let (from, offered) = completion::offered(&line[..cursor], self.language, &names);
        let pair = |text: String| Pair { display: text.clone(), replacement: text };
        Ok((from, offered.into_iter().map(pair).collect()))
    }
}

impl Highlighter for Assistant {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        Cow::Owned(highlighted(line, self.language))
    }

    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        kind != CmdKind::MoveCursor
    }
}
