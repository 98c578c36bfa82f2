//! The names that completion offers. They are read in the background, when the shell comes to a database and when somebody
//! completes after a statement that may have changed them, and there is a bound on how many are kept.

use crate::answer::{Lines, first_values, values_of_row};
use crate::error::{Result, ShellError};
use crate::server::{Place, Server, SqlForm};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names that are kept of a kind; more could not be chosen from.
const NAMES_MAX: usize = 10_000;

/// The names of a database.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) databases: BTreeSet<String>,
    /// Measurements, tables and views.
    pub(crate) tables: BTreeSet<String>,
    /// Tags, fields, and columns of tables.
    pub(crate) columns: BTreeSet<String>,
}

/// Names, as far as they are known.
#[derive(Clone)]
pub(crate) struct Schema {
    server: Server,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    names: Arc<Names>,
    /// The database they are of; `None` before they are read.
    of: Option<String>,
    /// A statement may have changed them.
    is_stale: bool,
    is_loading: bool,
}

impl Schema {
    /// Knows nothing yet.
    pub(crate) fn new(server: &Server) -> Self {
        Self { server: server.in_background(), state: Arc::default() }
    }

    /// The names that are known of a database. If they may be old, they are read for the next time.
    pub(crate) fn names(&self, database: &str) -> Arc<Names> {
        if self.state().is_stale {
            self.load(database);
        } else {
            self.prepare(database);
        }
        self.state().names.clone()
    }

    /// Reads the names of a database, if they are not known yet.
    pub(crate) fn prepare(&self, database: &str) {
        let is_known = self.state().of.as_deref() == Some(database);
        if !is_known {
            self.load(database);
        }
    }

    /// What there is may have changed.
    pub(crate) fn forget(&self) {
        self.state().is_stale = true;
    }

    /// Begins to read the names, unless somebody does.
    fn load(&self, database: &str) {
        if std::mem::replace(&mut self.state().is_loading, true) {
            return;
        }
        let (schema, database) = (self.clone(), database.to_owned());
        let body = move || {
            // What cannot be read is not offered; the statement that needs it will say why.
            let names = Arc::new(read(&schema.server, &database));
            *schema.state() = State { names, of: Some(database), is_stale: false, is_loading: false };
        };
        // Without a thread there is no completion, which is no reason to stop.
        if std::thread::Builder::new().name("names".into()).spawn(body).is_err() {
            self.state().is_loading = false;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(server: &Server, database: &str) -> Names {
    let mut names = Names::default();
    let place = Place { database: database.to_owned(), policy: String::new() };
    let influxql = |statement: &str, into: &mut BTreeSet<String>| {
        let mut lines = Lines::default();
        let mut take = |line: &[u8]| first_values(line, |name| keep(name, into));
        // Enough names are as good as all.
        let _ = server.influxql(statement, &place, "ns", 1000, &mut |piece| lines.push(piece, &mut take));
    };
    influxql("SHOW DATABASES", &mut names.databases);
    if database.is_empty() {
        return names;
    }
    influxql(&format!("SHOW MEASUREMENTS LIMIT {NAMES_MAX}"), &mut names.tables);
    influxql("SHOW FIELD KEYS", &mut names.columns);
    influxql("SHOW TAG KEYS", &mut names.columns);
    names.columns.insert("time".to_owned());
    let statement = format!(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' LIMIT {NAMES_MAX}"
    );
    let mut lines = Lines::default();
    let mut take = |line: &[u8]| {
        let values = values_of_row(line);
        let mut values = values.into_iter();
        values.next().map_or(Ok(()), |table| keep(table, &mut names.tables))?;
        values.next().map_or(Ok(()), |column| keep(column, &mut names.columns))
    };
    let _ = server.sql(&statement, database, SqlForm::Table, &mut |piece| lines.push(piece, &mut take));
    names
}

fn keep(name: String, into: &mut BTreeSet<String>) -> Result<()> {
    // A name that a terminal would obey is never typed for somebody.
    if name.contains(crate::style::is_escaped) {
        return Ok(());
    }
    into.insert(name);
    match into.len() < NAMES_MAX {
        true => Ok(()),
        false => Err(ShellError::Closed),
    }
}
