//! Runs the shell: from options, a script, or a terminal.

use crate::command::Name;
use crate::editor::{Entered, LineEditor};
use crate::error::{Result, ShellError};
use crate::interrupt::Interrupt;
use crate::language::Language;
use crate::options::ShellArgs;
use crate::server::{Place, Server};
use crate::shell::{Flow, Reported, Settings, Shell, precision, report};
use crate::statement::Reader;
use std::fs::File;
use std::io::{IsTerminal, stdin, stdout};
use std::path::Path;
use std::process::ExitCode;

/// A statement failed.
const FAILED: u8 = 1;
/// There is no server, or it does not let us in.
const NO_SERVER: u8 = 2;

/// Executes what the options say. The address is that of a server of this process, if there is one.
pub fn run(args: &ShellArgs, address: Option<&str>) -> ExitCode {
    let outcome =
        prepare(args, address).map_err(|error| report(&error, "", None, 0)).and_then(|mut shell| {
            if !args.execute.is_empty() {
                return execute(&mut shell, &args.execute);
            }
            if !args.file.is_empty() {
                return files(&mut shell, args);
            }
            match stdin().is_terminal() && stdout().is_terminal() {
                true => converse(&mut shell, args),
                false => shell.script(None, stdin().lock()).map(|_| ()),
            }
        });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Reported { is_of_server: false }) => ExitCode::from(FAILED),
        Err(Reported { is_of_server: true }) => ExitCode::from(NO_SERVER),
    }
}

fn prepare(args: &ShellArgs, address: Option<&str>) -> Result<Shell> {
    let interrupt = Interrupt::default();
    let address = address.map_or_else(|| args.server.address(), str::to_owned);
    let server = Server::of(&args.server.access, &address, interrupt.clone())?;
    let language = if args.sql { Language::Sql } else { Language::Influxql };
    let place = match &args.database {
        None => Place::default(),
        Some(name) => match Name::read(name, language)? {
            Name { before: Some(database), name: policy } => Place { database, policy },
            Name { before: None, name: database } => Place { database, policy: String::new() },
        },
    };
    let settings = Settings {
        language,
        place,
        precision: precision(&args.precision)?,
        format: args.format,
        expanded: args.expanded,
        timing: args.timing,
        pager: false,
    };
    Ok(Shell::new(server, interrupt, settings))
}

fn execute(shell: &mut Shell, texts: &[String]) -> std::result::Result<(), Reported> {
    for text in texts {
        if shell.text(text)? == Flow::Leave {
            break;
        }
    }
    Ok(())
}

fn files(shell: &mut Shell, args: &ShellArgs) -> std::result::Result<(), Reported> {
    for path in &args.file {
        let flow = if path == Path::new("-") {
            shell.script(None, stdin().lock())?
        } else {
            let name = path.display().to_string();
            let file =
                File::open(path).map_err(|error| report(&ShellError::io(&name)(error), "", None, 0))?;
            shell.script(Some(&name), file)?
        };
        if flow == Flow::Leave {
            break;
        }
    }
    Ok(())
}

/// Talks with somebody at a terminal.
fn converse(shell: &mut Shell, args: &ShellArgs) -> std::result::Result<(), Reported> {
    let mut begin = || {
        shell.check_server()?;
        shell.settings.pager = true;
        let schema = shell.begin_conversation()?;
        LineEditor::open(schema, !args.no_history)
    };
    let mut editor = begin().map_err(|error| report(&error, "", None, 0))?;
    loop {
        let Settings { language, place, .. } = &shell.settings;
        let entered = editor.read(&shell.prompt(), *language, &place.database);
        match entered.map_err(|error| report(&error, "", None, 0))? {
            Entered::End => return Ok(()),
            Entered::Interrupted => {}
            Entered::Text(text) => {
                if enter(shell, &editor, &text) == Flow::Leave {
                    return Ok(());
                }
            }
        }
    }
}

/// Executes what was entered, up to the first error.
fn enter(shell: &mut Shell, editor: &LineEditor, text: &str) -> Flow {
    let mut reader = Reader::default();
    if let Err(words) = reader.push_line(text) {
        report(&ShellError::Command(words), "", None, 0);
        return Flow::Continue;
    }
    while let Some(input) = reader.next(shell.settings.language) {
        match shell.reported(&input, None) {
            Ok(Flow::Continue) => {}
            Ok(Flow::ShowHistory) => {
                let entries: String = editor.entries().map(|entry| format!("{entry}\n")).collect();
                if let Err(error) = shell.say(&entries) {
                    report(&error, "", None, 0);
                }
            }
            Ok(Flow::Leave) => return Flow::Leave,
            // What follows may rely on what failed.
            Err(_) => return Flow::Continue,
        }
    }
    Flow::Continue
}
