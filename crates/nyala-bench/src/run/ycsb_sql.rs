//! YCSB on a table of a server, in SQL over PostgreSQL's protocol with prepared statements.

use super::ycsb::KeyValueStore;
use crate::cli::YcsbArgs;
use crate::client::sql::{Prepared, Rows, SqlConnection};
use crate::error::{BenchError, Result};
use crate::measure::counters::{MetricsReader, StoreCounters};
use crate::measure::server::ServerProbe;
use crate::server::Server;
use crate::workload::ycsb::RowShape;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A server that refuses a write for want of memory is asked again after this pause.
const REFUSED_PAUSE: Duration = Duration::from_millis(10);
/// Refused for want of memory, of a log or of a disk; nothing was changed.
const OUT_OF_MEMORY: &str = "53200";

/// The table, and idle sessions to work on it with.
pub(super) struct SqlTable {
    pub(super) shape: RowShape,
    batch: u64,
    address: String,
    database: String,
    timeout: Duration,
    probe: ServerProbe,
    metrics: MetricsReader,
    /// Writes that the server has refused.
    refused: AtomicU64,
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
    /// By the number of fields, once they were asked for.
    scans: BTreeMap<u32, Prepared>,
}

impl SqlTable {
    /// The table on a server that speaks PostgreSQL's protocol at an address, which is loaded with batches of so many rows.
    pub(super) fn of(args: &YcsbArgs, server: &Server, address: String, batch: u64) -> SqlTable {
        let YcsbArgs { fields, field_bytes, ordered, seed, .. } = *args;
        SqlTable {
            shape: RowShape { fields, field_bytes, ordered, seed },
            batch,
            address,
            database: args.server.database.clone(),
            timeout: Duration::from_secs(args.server.timeout as u64),
            probe: server.probe.clone(),
            metrics: MetricsReader::new(&server.target),
            refused: AtomicU64::new(0),
            idle: Mutex::default(),
        }
    }

    fn columns(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.shape.fields).map(|field| format!("field{field}"))
    }

    pub(super) fn create(&self, overwrite: bool) -> Result<()> {
        let mut connection = SqlConnection::open(&self.address, &self.database, self.timeout)?;
        if overwrite {
            connection.ask("DROP TABLE IF EXISTS usertable", Rows::Count)?;
        }
        let columns: String = self.columns().map(|column| format!(", {column} text")).collect();
        let create = format!("CREATE TABLE usertable (ycsb_key text PRIMARY KEY{columns})");
        connection.ask(&create, Rows::Count).map(drop)
    }

    /// Reads the key and the first fields of rows.
    fn scan_of(&self, fields: u32) -> String {
        let fields: String =
            self.columns().take(fields as usize).map(|column| format!(", {column}")).collect();
        format!("SELECT ycsb_key{fields} FROM usertable WHERE ycsb_key >= $1 ORDER BY ycsb_key LIMIT $2")
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
            scans: BTreeMap::new(),
            connection,
        })
    }

    /// Does something in an idle session, or in a new one. What the server refuses for want of memory is done again, until
    /// that has taken as long as an answer may.
    fn with<T>(&self, work: impl Fn(&mut PreparedSession) -> Result<T>) -> std::result::Result<T, String> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut session = match idle {
            Some(session) => session,
            None => self.prepare().map_err(|error| error.to_string())?,
        };
        let begun = Instant::now();
        let done = loop {
            match work(&mut session) {
                Err(BenchError::Sql { code, .. })
                    if code == OUT_OF_MEMORY && begun.elapsed() < self.timeout =>
                {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(REFUSED_PAUSE);
                }
                done => break done.map_err(|error| error.to_string())?,
            }
        };
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
        if rows.len() as u64 == self.batch {
            return self.with(|session| session.write(|session| &session.insert_batch, rows));
        }
        rows.chunks(1).try_for_each(|row| self.with(|session| session.write(|session| &session.insert, row)))
    }

    fn write(&self, rows: &[(String, Vec<String>)]) -> std::result::Result<(), String> {
        rows.chunks(1).try_for_each(|row| self.with(|session| session.write(|session| &session.upsert, row)))
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

    fn scan(&self, from: &str, rows: usize, fields: u32) -> std::result::Result<usize, String> {
        let rows = rows.to_string();
        self.with(|session| {
            let scan = match session.scans.entry(fields) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => place.insert(session.connection.prepare(&self.scan_of(fields))?),
            };
            Ok(session.connection.execute(scan, &[from, &rows])?.rows as usize)
        })
    }

    fn counters(&self) -> StoreCounters {
        let told = self.metrics.counters();
        // As this client has seen it, if the server does not count.
        let refused = self.refused.load(Ordering::Relaxed) as f64;
        StoreCounters { rejected_writes: told.rejected_writes.or(Some(refused)), ..told }
    }

    fn statistics(&self) -> Vec<(String, f64)> {
        Vec::new()
    }

    fn probe(&self) -> ServerProbe {
        self.probe.clone()
    }
}
