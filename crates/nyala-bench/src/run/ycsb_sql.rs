//! `ycsb`: YCSB on a table of a server, in SQL over PostgreSQL's protocol with prepared statements.

use super::ycsb::{KeyValueStore, Ycsb, YcsbOptions};
use crate::cli::YcsbArgs;
use crate::client::database::prepare_database;
use crate::client::sql::{Prepared, Rows, SqlConnection};
use crate::error::{BenchError, Result};
use crate::measure::server::ServerProbe;
use crate::report::ycsb::{YcsbResult, page};
use crate::server::{Launch, Server};
use crate::workload::ycsb::RowShape;
use nyala_client::Connection;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most parameters of a statement: the protocol counts them in 16 bits.
const PARAMETERS_MAX: u64 = 65_535;

/// Runs the benchmark. Writes progress to standard error and results to standard output and the files of the options.
pub fn run(args: &YcsbArgs, launch: Launch<'_>) -> Result<()> {
    if args.batch * (u64::from(args.fields) + 1) > PARAMETERS_MAX {
        return Err(BenchError::Invalid(format!(
            "an INSERT of {} rows with a key and {} fields has more than {PARAMETERS_MAX} values: make --batch smaller",
            args.batch, args.fields
        )));
    }
    let server = Server::find(&args.server, launch)?;
    let address = server.postgres.clone();
    let address = address
        .ok_or_else(|| BenchError::Invalid("ycsb needs --postgres HOST:PORT of the target".to_owned()))?;
    let table = SqlTable::of(args, &server, address);
    if server.fresh {
        prepare_database(&mut Connection::new(&server.target, table.timeout), &table.database, true)?;
    }
    if !args.query_only {
        table.create(args.server.overwrite || server.fresh)?;
    }
    let shape = table.shape;
    let options = YcsbOptions {
        shape,
        rows: args.rows,
        batch: args.batch,
        threads: args.threads,
        seconds: args.seconds as u64,
    };
    let ycsb = Ycsb::new(&table, options);
    let mut results = Vec::new();
    let mut progress = std::io::stderr();
    let mut done = |result: std::result::Result<YcsbResult, String>| -> Result<()> {
        let result = result.map_err(BenchError::Protocol)?;
        super::print(&result.text())?;
        results.push(result);
        Ok(())
    };
    match args.query_only {
        true => ycsb.assume_loaded(),
        false => done(ycsb.load(&mut progress))?,
    }
    for workload in &args.workloads {
        done(ycsb.run_workload(*workload, &mut progress))?;
    }
    let label = args.report.label.clone().unwrap_or_else(|| server.default_label());
    if let Some(path) = &args.report.json {
        let json = serde_json::to_vec_pretty(&results).expect("results have no keys but strings");
        std::fs::write(path, json).map_err(BenchError::io(format!("writing {}", path.display())))?;
    }
    if let Some(path) = &args.report.html {
        let html = page(&[(label, results)]);
        std::fs::write(path, html).map_err(BenchError::io(format!("writing {}", path.display())))?;
    }
    Ok(())
}

/// The table, and idle sessions to work on it with.
struct SqlTable {
    shape: RowShape,
    batch: u64,
    address: String,
    database: String,
    timeout: Duration,
    probe: ServerProbe,
    idle: Mutex<Vec<PreparedSession>>,
}

/// A session with its statements.
struct PreparedSession {
    connection: SqlConnection,
    insert_batch: Prepared,
    insert: Prepared,
    upsert: Prepared,
    updates: Vec<Prepared>,
    read: Prepared,
    scan: Prepared,
}

impl SqlTable {
    fn of(args: &YcsbArgs, server: &Server, address: String) -> SqlTable {
        let YcsbArgs { fields, field_bytes, ordered, seed, .. } = *args;
        SqlTable {
            shape: RowShape { fields, field_bytes, ordered, seed },
            batch: args.batch,
            address,
            database: args.server.database.clone(),
            timeout: Duration::from_secs(args.server.timeout as u64),
            probe: server.probe.clone(),
            idle: Mutex::default(),
        }
    }

    fn columns(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.shape.fields).map(|field| format!("field{field}"))
    }

    fn create(&self, overwrite: bool) -> Result<()> {
        let mut connection = SqlConnection::open(&self.address, &self.database, self.timeout)?;
        if overwrite {
            connection.ask("DROP TABLE IF EXISTS usertable", Rows::Count)?;
        }
        let columns: String = self.columns().map(|column| format!(", {column} text")).collect();
        let create = format!("CREATE TABLE usertable (ycsb_key text PRIMARY KEY{columns})");
        connection.ask(&create, Rows::Count).map(drop)
    }

    fn prepare(&self) -> Result<PreparedSession> {
        let mut connection = SqlConnection::open(&self.address, &self.database, self.timeout)?;
        let width = self.shape.fields as usize + 1;
        let insert = |rows: usize| {
            let row = |row: usize| {
                let parameters: Vec<String> =
                    (1..=width).map(|at| format!("${}", row * width + at)).collect();
                format!("({})", parameters.join(", "))
            };
            let rows: Vec<String> = (0..rows).map(row).collect();
            format!("INSERT INTO usertable VALUES {}", rows.join(", "))
        };
        let all: Vec<String> = self.columns().map(|column| format!("{column} = excluded.{column}")).collect();
        let upsert = format!("{} ON CONFLICT (ycsb_key) DO UPDATE SET {}", insert(1), all.join(", "));
        let update = |column| format!("UPDATE usertable SET {column} = $2 WHERE ycsb_key = $1");
        let updates = self.columns().map(|column| connection.prepare(&update(column)));
        Ok(PreparedSession {
            updates: updates.collect::<Result<Vec<_>>>()?,
            insert_batch: connection.prepare(&insert(self.batch as usize))?,
            insert: connection.prepare(&insert(1))?,
            upsert: connection.prepare(&upsert)?,
            read: connection.prepare("SELECT * FROM usertable WHERE ycsb_key = $1")?,
            scan: connection
                .prepare("SELECT * FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2")?,
            connection,
        })
    }

    /// Does something in an idle session, or in a new one.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut PreparedSession) -> Result<T>,
    ) -> std::result::Result<T, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = match idle {
            Some(session) => session,
            None => self.prepare().map_err(|error| error.to_string())?,
        };
        let done = work(&mut session).map_err(|error| error.to_string())?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        Ok(done)
    }
}

/// Which statement of a session.
type Choice = fn(&PreparedSession) -> &Prepared;

impl PreparedSession {
    fn write(&mut self, statement: Choice, rows: &[(String, Vec<String>)]) -> Result<()> {
        let mut cells: Vec<&str> = Vec::new();
        for (key, values) in rows {
            cells.push(key);
            cells.extend(values.iter().map(String::as_str));
        }
        let changed = self.connection.execute(&statement(self).clone(), &cells)?.rows;
        check_changed(changed, rows.len() as u64)
    }
}

fn check_changed(changed: u64, wanted: u64) -> Result<()> {
    match changed == wanted {
        true => Ok(()),
        false => Err(BenchError::Protocol(format!("{changed} rows changed instead of {wanted}"))),
    }
}

impl KeyValueStore for SqlTable {
    fn insert(&self, rows: &[(String, Vec<String>)]) -> std::result::Result<(), String> {
        self.with(|session| match rows.len() as u64 == self.batch {
            true => session.write(|session| &session.insert_batch, rows),
            false => rows.chunks(1).try_for_each(|row| session.write(|session| &session.insert, row)),
        })
    }

    fn write(&self, rows: &[(String, Vec<String>)]) -> std::result::Result<(), String> {
        self.with(|session| rows.chunks(1).try_for_each(|row| session.write(|session| &session.upsert, row)))
    }

    fn update(&self, key: &str, field: u32, value: &str) -> std::result::Result<(), String> {
        self.with(|session| {
            let done = session.connection.execute(&session.updates[field as usize], &[key, value])?;
            check_changed(done.rows, 1)
        })
    }

    fn read(&self, key: &str) -> std::result::Result<bool, String> {
        self.with(|session| Ok(session.connection.execute(&session.read, &[key])?.rows == 1))
    }

    fn scan(&self, from: &str, rows: usize) -> std::result::Result<usize, String> {
        let rows = rows.to_string();
        let scan = |session: &mut PreparedSession| session.connection.execute(&session.scan, &[from, &rows]);
        self.with(|session| Ok(scan(session)?.rows as usize))
    }

    fn statistics(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    fn probe(&self) -> ServerProbe {
        self.probe.clone()
    }
}
