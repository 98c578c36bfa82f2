//! Executes what a person or a script says, one after the other.

use crate::answer::{InfluxqlAnswer, Lines, SqlAnswer, first_values};
use crate::command::{self, Command, Name};
use crate::error::{Result, ShellError};
use crate::interrupt::Interrupt;
use crate::language::Language;
use crate::output::screen::Screen;
use crate::output::{Format, Layout};
use crate::schema::Schema;
use crate::server::{Place, Server, SqlForm};
use crate::statement::{Input, Kind, Reader};
use crate::style::escaped;
use crate::{describe, help, insert, password};
use clap::ValueEnum;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, stderr};
use std::time::{Duration, Instant};

/// Rows of a document of InfluxQL.
const CHUNK_ROWS: usize = 1000;
/// A line of a script; longer ones are refused as statements anyway.
const LINE_BYTES_MAX: u64 = 65 << 20;
/// Files may execute files that execute files.
const DEPTH_MAX: usize = 16;

/// Statements of SQL that say something to statements that follow. Each of them is a request, and a session, of its own.
const OF_SESSIONS: [&str; 9] =
    ["ABORT", "BEGIN", "COMMIT", "END", "RESET", "ROLLBACK", "SAVEPOINT", "SET", "START"];

/// How statements are executed and shown.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) language: Language,
    pub(crate) place: Place,
    pub(crate) precision: &'static str,
    pub(crate) format: Format,
    pub(crate) expanded: bool,
    pub(crate) timing: bool,
    pub(crate) pager: bool,
}

/// What happens after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    /// The editor knows what was entered.
    ShowHistory,
    Leave,
}

/// An error that was printed.
#[derive(Debug)]
pub(crate) struct Reported {
    /// The server cannot be reached, or does not let us in.
    pub(crate) is_of_server: bool,
}

/// A shell.
pub(crate) struct Shell {
    server: Server,
    interrupt: Interrupt,
    pub(crate) settings: Settings,
    /// The names that completion offers, at a terminal.
    pub(crate) schema: Option<Schema>,
    /// Where rows go instead of standard output.
    file: Option<File>,
    last_statement: Option<String>,
    depth: usize,
}

/// Units of times that InfluxQL knows.
const PRECISIONS: [&str; 7] = ["rfc3339", "ns", "u", "ms", "s", "m", "h"];

/// The precision of a name.
pub(crate) fn precision(name: &str) -> Result<&'static str> {
    let name = if name == "us" || name == "µ" { "u" } else { name };
    let found = PRECISIONS.iter().find(|own| **own == name).copied();
    found.ok_or_else(|| ShellError::Command(format!("a precision is one of {}", PRECISIONS.join(", "))))
}

impl Shell {
    pub(crate) fn new(server: Server, interrupt: Interrupt, settings: Settings) -> Self {
        Self { server, interrupt, settings, schema: None, file: None, last_statement: None, depth: 0 }
    }

    /// Whether there is a server that lets us in.
    pub(crate) fn check_server(&self) -> Result<()> {
        match self.values_of(describe::DATABASES).map(|_| ()) {
            // Who may not see databases may see something else.
            Err(ShellError::Refused(_)) => Ok(()),
            other => other,
        }
    }

    /// Somebody sits at a terminal: Ctrl-C ends statements only, and names are read for completion.
    pub(crate) fn begin_conversation(&mut self) -> Result<Schema> {
        self.interrupt.listen()?;
        let schema = Schema::new(&self.server);
        self.schema = Some(schema.clone());
        let url = self.server.url();
        self.say(&format!(
            "nyala shell {} at {url}\n\\sql and \\influxql change the language, \\? lists commands, \\q leaves.\n",
            env!("CARGO_PKG_VERSION")
        ))?;
        Ok(schema)
    }

    /// Executes all that a script says, up to the first error, which is printed.
    pub(crate) fn script(
        &mut self,
        name: Option<&str>,
        input: impl Read,
    ) -> std::result::Result<Flow, Reported> {
        let mut lines = BufReader::new(input);
        let mut reader = Reader::default();
        loop {
            let mut line = Vec::new();
            let read = (&mut lines).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let line = read.map_err(ShellError::io("reading statements")).and_then(|_| {
                String::from_utf8(line)
                    .map_err(|_| ShellError::Command("statements have to be UTF-8".to_owned()))
            });
            let line = line.map_err(|error| report(&error, "", name, 0))?;
            let is_end = line.is_empty();
            if !is_end {
                let added = reader.push_line(line.trim_end_matches(['\n', '\r']));
                added.map_err(|words| report(&ShellError::Command(words), "", name, 0))?;
            }
            loop {
                let input = reader.next(self.settings.language);
                let Some(input) = input.or_else(|| if is_end { reader.finish() } else { None }) else {
                    break;
                };
                match self.reported(&input, name)? {
                    Flow::Leave => return Ok(Flow::Leave),
                    Flow::Continue | Flow::ShowHistory => {}
                }
            }
            if is_end {
                return Ok(Flow::Continue);
            }
        }
    }

    /// Executes a text that is one statement of InfluxQL, or statements of SQL, or a command.
    pub(crate) fn text(&mut self, text: &str) -> std::result::Result<Flow, Reported> {
        let is_statement = !crate::statement::is_command(text, self.settings.language);
        if self.settings.language == Language::Influxql && is_statement {
            return self
                .reported(&Input { kind: Kind::Statement, text: text.trim().to_owned(), line: 1 }, None);
        }
        self.script(None, text.as_bytes())
    }

    /// Executes an input, and prints the error if it fails.
    pub(crate) fn reported(
        &mut self,
        input: &Input,
        name: Option<&str>,
    ) -> std::result::Result<Flow, Reported> {
        self.interrupt.begin();
        self.execute(input).map_err(|error| report(&error, &input.text, name, input.line))
    }

    fn execute(&mut self, input: &Input) -> Result<Flow> {
        match input.kind {
            Kind::Statement => {
                self.last_statement = Some(input.text.clone());
                let statement = input.text.clone();
                self.timed(|shell| shell.statement(&statement))?;
                Ok(Flow::Continue)
            }
            Kind::Command => self.command(command::parse(&input.text, self.settings.language)?),
        }
    }

    fn timed(&mut self, run: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let begun = Instant::now();
        let outcome = run(self);
        if self.settings.timing {
            self.say(&format!("Time: {:.3} ms\n", begun.elapsed().as_secs_f64() * 1e3))?;
        }
        outcome
    }

    /// Sends a statement and shows what comes.
    fn statement(&mut self, statement: &str) -> Result<()> {
        let word = statement.split([' ', '\n', '\t', ';']).next().unwrap_or_default().to_ascii_uppercase();
        if self.settings.language == Language::Sql && OF_SESSIONS.contains(&&*word) {
            return Err(ShellError::Command(format!(
                "{word} would end with its request: there are no transactions and settings here. Use psql, with the port of \
                 PostgreSQL's protocol"
            )));
        }
        let outcome = match self.settings.language {
            Language::Influxql => self.influxql(statement),
            Language::Sql => self.sql(statement),
        };
        if let Some(schema) =
            self.schema.as_ref().filter(|_| !["SELECT", "SHOW", "EXPLAIN"].contains(&&*word))
        {
            schema.forget();
        }
        outcome
    }

    fn influxql(&self, statement: &str) -> Result<()> {
        let Settings { format, expanded, place, precision, .. } = &self.settings;
        let mut screen = self.screen();
        let (mut lines, mut answer) = (Lines::default(), InfluxqlAnswer::default());
        // Documents are shown as they are, but an error in one of them is an error of the statement.
        let mut layout = (*format != Format::Json).then(|| Layout::new(*format, *expanded));
        let mut show = |line: &[u8]| {
            if layout.is_none() {
                screen
                    .write_all(line)
                    .and_then(|()| screen.write_all(b"\n"))
                    .map_err(ShellError::io("printing"))?;
            }
            answer.document(line, layout.as_mut(), &mut screen)
        };
        self.server
            .influxql(statement, place, precision, CHUNK_ROWS, &mut |piece| lines.push(piece, &mut show))?;
        lines.finish(&mut show)?;
        let finished = answer.finish(layout.as_mut(), &mut screen);
        screen.finish().map_err(ShellError::io("printing"))?;
        finished
    }

    fn sql(&self, statement: &str) -> Result<()> {
        let Settings { format, expanded, place, .. } = &self.settings;
        let mut screen = self.screen();
        let printing = || ShellError::io("printing");
        let form = match format {
            Format::Csv => SqlForm::Csv,
            Format::Json => SqlForm::Json,
            Format::Table | Format::Line => {
                let (mut lines, mut answer) = (Lines::default(), SqlAnswer::default());
                let mut layout = Layout::new(*format, *expanded);
                let mut show = |line: &[u8]| answer.line(line, &mut layout, &mut screen);
                self.server.sql(statement, &place.database, SqlForm::Table, &mut |piece| {
                    lines.push(piece, &mut show)
                })?;
                lines.finish(&mut show)?;
                answer.finish(&mut layout, &mut screen)?;
                return screen.finish().map_err(printing());
            }
        };
        let mut show = |piece: &[u8]| screen.write_all(piece).map_err(printing());
        self.server.sql(statement, &place.database, form, &mut show)?;
        if form == SqlForm::Json {
            screen.write_all(b"\n").map_err(printing())?;
        }
        screen.finish().map_err(printing())
    }

    fn command(&mut self, command: Command) -> Result<Flow> {
        match command {
            Command::Speak(language) => self.settings.language = language,
            Command::Describe(None) | Command::Tables => {
                self.statement(&describe::tables(self.settings.language))?
            }
            Command::Describe(Some(name)) => {
                self.statement(&describe::columns(&name, self.settings.language))?
            }
            Command::Databases => self.influxql(describe::DATABASES)?,
            Command::Users => self.influxql(describe::USERS)?,
            Command::Use(name) => self.change_database(name)?,
            Command::Precision(None) => self.say(&format!("{}\n", self.settings.precision))?,
            Command::Precision(Some(name)) => self.settings.precision = precision(&name)?,
            Command::Insert(line) => {
                let Settings { place, precision, .. } = self.settings.clone();
                self.timed(|shell| insert::insert(&shell.server, &line, &place, precision))?;
                self.schema.iter().for_each(Schema::forget);
            }
            Command::Format(None) => self.say(&format!("{}\n", self.settings.format.name()))?,
            Command::Format(Some(name)) => {
                self.settings.format = Format::from_str(&name, true).map_err(|_| {
                    ShellError::Command("a format is one of table, csv, json, line".to_owned())
                })?;
            }
            Command::Expanded(on) => self.settings.expanded = on.unwrap_or(!self.settings.expanded),
            Command::Timing(on) => self.settings.timing = on.unwrap_or(!self.settings.timing),
            Command::Pager(on) => self.settings.pager = on.unwrap_or(!self.settings.pager),
            Command::Output(path) => {
                let open = |path: String| File::create(&path).map_err(ShellError::io(path));
                self.file = path.map(open).transpose()?;
            }
            Command::Include(path) => return self.include(&path),
            Command::Watch { seconds, times } => self.watch(seconds, times)?,
            Command::Authenticate(None) => {
                return Err(ShellError::Command("auth needs the name of a user".to_owned()));
            }
            Command::Authenticate(Some(name)) => self.authenticate(&name)?,
            Command::Clear => self.settings.place = Place::default(),
            Command::Help => self.say(help::COMMANDS)?,
            Command::HelpOfStatements => self.say(help::statements(self.settings.language))?,
            Command::History => return Ok(Flow::ShowHistory),
            Command::Settings => self.say(&self.settings_text())?,
            Command::Leave => return Ok(Flow::Leave),
        }
        Ok(Flow::Continue)
    }

    /// Makes another database the one of statements, if there is such a database.
    pub(crate) fn change_database(&mut self, name: Option<Name>) -> Result<()> {
        let Some(Name { before, name }) = name else {
            return Err(ShellError::Command("use needs the name of a database".to_owned()));
        };
        let place = match before {
            Some(database) => Place { database, policy: name },
            None => Place { database: name, policy: String::new() },
        };
        // As in influx: the name is not checked if the user may not list databases.
        let there = match self.values_of(describe::DATABASES) {
            Ok(databases) => databases.contains(&place.database),
            Err(ShellError::Refused(_)) => true,
            Err(error) => return Err(error),
        };
        if !there {
            let words = format!("there is no database {} (SHOW DATABASES lists them)", place.database);
            return Err(ShellError::Command(words));
        }
        if !place.policy.is_empty() && self.settings.language == Language::Sql {
            self.say("SQL reads the default policy where none is named: write POLICY.MEASUREMENT\n")?;
        }
        self.settings.place = place;
        Ok(())
    }

    fn authenticate(&mut self, name: &str) -> Result<()> {
        let password = password::of(name, &password::VARIABLES)?;
        let before = self.server.clone();
        self.server.log_in(name, &password)?;
        if let Err(error) = self.check_server() {
            self.server = before;
            return Err(error);
        }
        if self.schema.is_some() {
            self.schema = Some(Schema::new(&self.server));
        }
        Ok(())
    }

    fn include(&mut self, path: &str) -> Result<Flow> {
        if self.depth >= DEPTH_MAX {
            return Err(ShellError::Command(format!("\\i within more than {DEPTH_MAX} files")));
        }
        let file = File::open(path).map_err(ShellError::io(path))?;
        self.depth += 1;
        let outcome = self.script(Some(path), file);
        self.depth -= 1;
        // The error was printed where it happened.
        outcome.map_err(|reported| ShellError::Reported { is_of_server: reported.is_of_server })
    }

    fn watch(&mut self, seconds: f64, times: Option<u64>) -> Result<()> {
        let statement = self.last_statement.clone();
        let statement = statement.ok_or_else(|| {
            ShellError::Command("\\watch repeats a statement: execute one before".to_owned())
        })?;
        let pager = std::mem::replace(&mut self.settings.pager, false);
        let mut repeat = || {
            for number in 1.. {
                self.timed(|shell| shell.statement(&statement))?;
                if times.is_some_and(|times| number >= times) {
                    return Ok(());
                }
                if self.interrupt.is_pressed_within(Duration::from_secs_f64(seconds)) {
                    return Ok(());
                }
            }
            Ok(())
        };
        let outcome = repeat();
        self.settings.pager = pager;
        outcome
    }

    /// The first values of the rows of a statement of InfluxQL.
    fn values_of(&self, statement: &str) -> Result<Vec<String>> {
        let (mut values, mut lines) = (Vec::new(), Lines::default());
        let mut take = |line: &[u8]| {
            first_values(line, |value| {
                values.push(value);
                Ok(())
            })
        };
        let place = Place::default();
        self.server
            .influxql(statement, &place, "ns", CHUNK_ROWS, &mut |piece| lines.push(piece, &mut take))?;
        lines.finish(&mut take)?;
        Ok(values)
    }

    fn screen(&self) -> Screen<'_> {
        match &self.file {
            Some(file) => Screen::file(file),
            None => Screen::stdout(self.settings.pager),
        }
    }

    /// Prints words of the shell itself.
    pub(crate) fn say(&self, words: &str) -> Result<()> {
        let mut screen = self.screen();
        screen.write_all(words.as_bytes()).map_err(ShellError::io("printing"))?;
        screen.finish().map_err(ShellError::io("printing"))
    }

    fn settings_text(&self) -> String {
        let Settings { language, place, precision, format, expanded, timing, pager } = &self.settings;
        let on = |is_on: &bool| if *is_on { "on" } else { "off" };
        let lines = [
            ("server", self.server.url()),
            ("user", self.server.username.clone().unwrap_or_default()),
            ("language", language.name().to_owned()),
            ("database", place.database.clone()),
            ("policy", place.policy.clone()),
            ("precision", (*precision).to_owned()),
            ("format", format.name().to_owned()),
            ("expanded", on(expanded).to_owned()),
            ("timing", on(timing).to_owned()),
            ("pager", on(pager).to_owned()),
        ];
        lines.iter().map(|(name, value)| format!("{name:<10}{}\n", escaped(value))).collect()
    }

    /// `home sql> `.
    pub(crate) fn prompt(&self) -> String {
        let Settings { language, place, .. } = &self.settings;
        let language = language.name();
        match (place.database.as_str(), place.policy.as_str()) {
            ("", _) => format!("{language}> "),
            (database, "") => format!("{} {language}> ", escaped(database)),
            (database, policy) => format!("{}.{} {language}> ", escaped(database), escaped(policy)),
        }
    }
}

/// Prints an error to standard error, with the place in the script.
pub(crate) fn report(error: &ShellError, statement: &str, script: Option<&str>, line: usize) -> Reported {
    if let ShellError::Reported { is_of_server } = error {
        return Reported { is_of_server: *is_of_server };
    }
    let mut text = error.text(statement);
    if let Some(script) = script.filter(|_| !text.is_empty()) {
        let place =
            if line > 0 { format!("{}:{line}: ", escaped(script)) } else { format!("{}: ", escaped(script)) };
        text.insert_str(0, &place);
    }
    // There is nowhere else to report to.
    let _ = stderr().write_all(text.as_bytes());
    Reported { is_of_server: matches!(error, ShellError::Unreachable { .. } | ShellError::Unauthorized(_)) }
}
