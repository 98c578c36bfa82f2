//! `sql`: tables are loaded, and queries asked, cold and warm, beside peers that read Parquet of the same rows.

pub mod asking;
pub mod clickbench;
pub mod loading;
pub mod recording;
pub mod star;
pub mod tpch;

use crate::cli::sql::{SqlCommand, SuiteArgs};
use crate::error::{BenchError, Result};
use crate::measure::server::machine;
use crate::peer::{Engine, Peer};
use crate::report::result::Machine;
use crate::report::sql::SqlResult;
use crate::server::{Launch, Server};
use crate::workload::tables::{Query, Table, chosen};
use asking::Asker;
use loading::{Parquet, load, settled_disk_bytes};
use recording::Recording;
use std::path::Path;

/// Tables, and queries about them.
pub struct Suite {
    /// Its name, with its size.
    pub name: String,
    /// The tables.
    pub tables: Vec<Table>,
    /// The queries.
    pub queries: Vec<Query>,
}

/// Runs a benchmark of tables.
pub fn run(command: &SqlCommand, launch: Launch<'_>) -> Result<()> {
    match command {
        SqlCommand::Tpch(args) => tpch::run(args, launch),
        SqlCommand::Star(args) => star::run(args, launch),
        SqlCommand::Clickbench(args) => clickbench::run(args, launch),
    }
}

/// A run of a suite.
pub struct Run<'a> {
    /// Whom is asked.
    pub asker: Asker<'a>,
    /// What was measured so far.
    pub result: SqlResult,
    /// The columns of the table that was loaded last, the largest one.
    pub columns_of_events: Vec<String>,
    queries: Vec<Query>,
    expected: Option<Recording>,
    args: &'a SuiteArgs,
}

impl<'a> Run<'a> {
    /// Loads the tables of a suite, and starts the peers.
    pub fn start(suite: Suite, args: &'a SuiteArgs, launch: Launch<'_>) -> Result<Run<'a>> {
        let unknown = |name| BenchError::Invalid(format!("there is no query '{name}'"));
        let queries = chosen(suite.queries, &args.queries).map_err(unknown)?;
        let expected = args.expected.as_deref().map(|path| Recording::read(path, &suite.name)).transpose()?;
        let mut server = Server::find(&args.server, launch)?;
        let (cores, processor, memory_bytes) = machine();
        let mut result = SqlResult {
            benchmark: suite.name.clone(),
            machine: Machine { cores, processor, memory_bytes },
            ..SqlResult::default()
        };
        let last = suite.tables.last().map(|table| table.schema.clone());
        let columns_of_events =
            last.iter().flat_map(|schema| schema.fields()).map(|field| field.name().clone()).collect();
        let needs_parquet = args.duckdb.is_some() || args.datafusion.is_some();
        let parquet = needs_parquet.then(|| Parquet::create(&args.parquet_dir)).transpose()?;
        load(suite.tables, args, &server, parquet.as_ref(), &mut result)?;
        // Starts again, so that queries find what is on disk.
        server.drop_caches()?;
        result.disk_bytes = match args.no_cold {
            true => server.probe.disk_bytes(),
            false => settled_disk_bytes(&server),
        };
        result.parquet_bytes = parquet.as_ref().map(Parquet::bytes);
        let peers = start_peers(args, parquet.as_ref().map(Parquet::path))?;
        result.peers = peers.iter().map(|peer| peer.version.clone()).collect();
        let asker = Asker::new(server, peers, parquet, args);
        Ok(Run { asker, result, columns_of_events, queries, expected, args })
    }

    /// Asks all queries of everybody.
    pub fn ask_all(&mut self) -> Result<()> {
        for query in &self.queries {
            let asked = self.asker.ask(query, self.expected.as_ref())?;
            self.result.queries.push(asked);
        }
        Ok(())
    }

    /// How long each query takes now, with warm caches.
    pub fn ask_warm(&self) -> Result<Vec<Option<f64>>> {
        self.queries.iter().map(|query| self.asker.ask_warm(query)).collect()
    }

    /// Reports. Answers that are wrong or missing are an error.
    pub fn finish(self) -> Result<()> {
        let Run { asker, mut result, args, .. } = self;
        result.peak_resident_bytes = asker.peak_resident_bytes;
        if let Some(path) = &args.record {
            asker.recording(&result.benchmark).write(path)?;
        }
        super::print(&result.text())?;
        if let Some(path) = &args.json {
            let json = serde_json::to_vec_pretty(&result).expect("results have no keys but strings");
            std::fs::write(path, json).map_err(BenchError::io(format!("writing {}", path.display())))?;
        }
        match result.faults() {
            (0, _) => Ok(()),
            (wrong, compared) => Err(BenchError::WrongAnswers { wrong, compared }),
        }
    }
}

/// Loads the tables of a suite, asks its queries, and reports.
pub fn run_suite(suite: Suite, args: &SuiteArgs, launch: Launch<'_>) -> Result<()> {
    let mut run = Run::start(suite, args, launch)?;
    run.ask_all()?;
    run.finish()
}

/// DuckDB, whose answers are compared, is the first one.
fn start_peers(args: &SuiteArgs, parquet: Option<&Path>) -> Result<Vec<Peer>> {
    let Some(parquet) = parquet else { return Ok(Vec::new()) };
    let engines = [(&args.duckdb, Engine::DuckDb), (&args.datafusion, Engine::DataFusion)];
    let named = engines.into_iter().filter_map(|(python, engine)| Some((python.as_deref()?, engine)));
    named.map(|(python, engine)| Peer::start(python, engine, parquet)).collect()
}
