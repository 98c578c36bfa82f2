//! `nyala completions` and `nyala man`: what shells and `man` know about the command line, made from its definition.

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;
use std::path::{Path, PathBuf};

pub(super) const COMPLETION_EXAMPLES: &str = "\
Examples:
  nyala completions bash > ~/.local/share/bash-completion/completions/nyala
  nyala completions zsh > ~/.zfunc/_nyala
  nyala completions fish > ~/.config/fish/completions/nyala.fish";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  nyala man /usr/local/share/man/man1
  nyala man . && man ./nyala-serve.1";

/// Which shell.
#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Where to write the pages.
#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// A directory that exists; a page of each command is written there
    #[arg(value_name = "DIRECTORY")]
    directory: PathBuf,
}

/// Prints what the shell reads.
pub(super) fn completions(args: &CompletionsArgs, mut program: Command) -> Result<(), String> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "nyala", &mut script);
    io::Write::write_all(&mut io::stdout(), &script).map_err(|error| error.to_string())
}

/// Writes the manual pages.
pub(super) fn man(args: &ManArgs, program: Command) -> Result<(), String> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    write_pages(&program, &args.directory).map_err(|error| format!("{}: {error}", args.directory.display()))
}

/// Writes the page of a command and those of its own commands.
fn write_pages(command: &Command, directory: &Path) -> io::Result<()> {
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render(&mut text)?;
    std::fs::write(directory.join(page.get_filename()), with_lines_kept(&String::from_utf8_lossy(&text)))?;
    command.get_subcommands().try_for_each(|own| write_pages(own, directory))
}

/// A page whose last part, examples and exit codes, keeps its lines. `man` would make paragraphs of them.
fn with_lines_kept(page: &str) -> String {
    const EXTRA: &str = ".SH EXTRA\n";
    let Some((before, rest)) = page.split_once(EXTRA) else { return page.to_owned() };
    let (lines, after) = rest.split_at(rest.find("\n.SH ").map_or(rest.len(), |end| end + 1));
    format!("{before}.SH NOTES\n.nf\n{lines}.fi\n{after}")
}
