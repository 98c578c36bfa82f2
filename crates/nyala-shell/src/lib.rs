//! `nyala shell`: statements of InfluxQL and SQL from a terminal or a script, sent to a server over HTTP.
//!
//! [`options`] is the command line. [`shell`] reads input ([`statement`] says where a statement ends, [`editor`] edits lines
//! of a terminal), executes it ([`server`] sends it, [`answer`] reads what comes back, [`command`] is what the shell does
//! itself) and prints rows ([`output`]). An answer is never held as a whole, except for what a layout needs. Other commands ask a server in the same way ([`client`]).

mod answer;
mod client;
mod command;
mod completion;
mod describe;
mod editor;
mod error;
mod help;
mod highlight;
mod history;
mod insert;
mod interrupt;
mod language;
mod options;
mod output;
mod password;
mod run;
mod schema;
mod server;
mod shell;
mod statement;
mod style;
mod words;

pub use client::Client;
pub use help::EXAMPLES;
pub use options::{ServerArgs, ShellArgs};
pub use run::run;

/// The password of a user, from the environment or typed at the terminal.
pub fn password_of(username: &str) -> Result<String, String> {
    password::of(username).map_err(|error| match error {
        error::ShellError::Command(words) => words,
        _ => "cancelled".to_owned(),
    })
}
