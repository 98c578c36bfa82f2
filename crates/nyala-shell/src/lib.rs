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

pub use client::{Client, CtrlC, access, basic, log_in, password_of};
pub use error::{RefusedPoints, UnreadableLine};
pub use help::EXAMPLES;
pub use options::{AccessArgs, ServerArgs, ShellArgs};
pub use run::run;
pub use style::escaped;
