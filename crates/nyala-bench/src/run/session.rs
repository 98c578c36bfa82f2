//! What the benchmarks have in common: a server, and the options for loading and querying it.

use super::load::{LoadSettings, load, settle};
use super::queries::{QueryName, QuerySettings, run_queries};
use super::question::{Endpoints, Question};
use crate::cli::{CommonArgs, Language, ServerArgs};
use crate::client::database::prepare_database;
use crate::client::dialect::Dialect;
use crate::error::{BenchError, Result};
use crate::query::generator::{Query, QueryGenerator};
use crate::query::kind::QueryKind;
use crate::query::sql::sql;
use crate::query::text::request;
use crate::report::progress::Progress;
use crate::report::result::{LoadResult, QueryResult};
use crate::report::table;
use crate::server::{Launch, Server};
use crate::workload::Workload;
use nyala_client::Connection;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A server and the options of a run.
pub struct Session<'a> {
    /// The server.
    pub server: Server,
    /// The options of the run.
    pub args: &'a CommonArgs,
}

impl<'a> Session<'a> {
    /// Finds the server that the options name, or starts one.
    pub fn open(args: &'a CommonArgs, launch: Launch<'_>) -> Result<Session<'a>> {
        let server = Server::find(&args.server, launch)?;
        if args.query.language.contains(&Language::Sql) && server.postgres.is_none() {
            return Err(BenchError::Invalid(
                "--language sql needs --postgres HOST:PORT of the target".to_owned(),
            ));
        }
        Ok(Session { server, args })
    }

    /// A connection for statements and single queries.
    pub fn connection(&self) -> Connection {
        Connection::new(&self.server.target, Duration::from_secs(self.args.server.timeout as u64))
    }

    /// Creates an empty database.
    pub fn prepare_database(&self) -> Result<()> {
        self.replace_database(self.args.server.overwrite || self.server.fresh)
    }

    /// Creates an empty database. With `overwrite` it replaces one that exists.
    pub fn replace_database(&self, overwrite: bool) -> Result<()> {
        if self.args.server.dialect == Dialect::Influx {
            prepare_database(&mut self.connection(), &self.args.server.database, overwrite)?;
        }
        Ok(())
    }

    /// Settings for loading, from the options. With a rate, loading is limited to it.
    pub fn load_settings(&self, rows_per_second: Option<f64>) -> LoadSettings {
        LoadSettings {
            target: self.server.target.clone(),
            dialect: self.args.server.dialect,
            database: self.args.server.database.clone(),
            workers: self.args.load.workers.map_or_else(super::cores, usize::from),
            gzip: self.args.load.gzip,
            rows_per_second,
            timeout: Duration::from_secs(self.args.server.timeout as u64),
            time_limit: Duration::from_secs(self.args.load.load_limit as u64),
        }
    }

    /// Loads until the workload ends, limited to `rate` rows per second if given.
    pub fn load<W: Workload>(&self, phase: &str, workload: &W, rate: Option<f64>) -> Result<LoadResult> {
        self.load_with(phase, workload, &self.load_settings(rate))
    }

    /// Loads with settings that differ from the options.
    pub fn load_with<W: Workload>(
        &self,
        phase: &str,
        workload: &W,
        settings: &LoadSettings,
    ) -> Result<LoadResult> {
        let mut progress = Progress::start(phase);
        let stop = AtomicBool::new(false);
        let mut result = load(workload, settings, &self.server.probe, &stop, Some(&mut progress))?;
        phase.clone_into(&mut result.phase);
        let (rows, rate) = (table::count(result.rows as f64), table::count(result.values_per_second));
        progress.finish(&format!("{rows} rows in {:.1} s, {rate} values/s", result.seconds));
        Ok(result)
    }

    /// Waits until the server is idle and adds what it used meanwhile to the result.
    pub fn settle(&self, result: &mut LoadResult) {
        settle(result, &self.server.probe, Duration::from_secs(self.args.load.settle as u64));
    }

    /// Runs queries of one type over this many connections.
    pub fn run_queries(
        &self,
        kind: &QueryName,
        questions: &[Question],
        workers: usize,
    ) -> Result<QueryResult> {
        let settings = QuerySettings {
            endpoints: self.endpoints(),
            workers,
            time_limit: Duration::from_secs(self.args.query.query_limit as u64),
        };
        run_queries(kind, questions, &settings, &self.server.probe)
    }

    /// Where and how questions are asked.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            target: self.server.target.clone(),
            postgres: self.server.postgres.clone(),
            database: self.args.server.database.clone(),
            gzip: self.args.load.gzip,
            timeout: Duration::from_secs(self.args.server.timeout as u64),
        }
    }

    /// The languages of questions, each with what is appended to the names of its results.
    pub fn languages(&self) -> impl Iterator<Item = (Language, &'static str)> {
        let suffix = |language| if language == Language::Sql { " in SQL" } else { "" };
        self.args.query.language.iter().map(move |&language| (language, suffix(language)))
    }

    /// The query as it is sent; `None` if the language cannot express it.
    pub fn question(&self, query: &Query, language: Language) -> Option<Question> {
        match language {
            Language::Sql => Some(Question::Sql(sql(query))),
            Language::Own => {
                let ServerArgs { dialect, database, .. } = &self.args.server;
                request(query, *dialect, database).map(Question::Http)
            }
        }
    }

    /// Runs types of queries on `cpu`, each with every number of connections. `suffix` is appended to their names.
    pub fn run_kinds(
        &self,
        kinds: &[QueryKind],
        generator: impl Fn(&QueryKind) -> QueryGenerator,
        suffix: &str,
    ) -> Result<Vec<QueryResult>> {
        let mut results = Vec::new();
        for (kind, (language, in_language)) in
            kinds.iter().flat_map(|kind| self.languages().map(move |language| (kind, language)))
        {
            let mut generator = generator(kind);
            let name = QueryName { name: format!("{}{in_language}{suffix}", kind.name), heavy: kind.heavy };
            for workers in self.worker_counts(kind.heavy) {
                // New queries for each number of workers, because a server may cache answers.
                let draw = |_| self.question(&generator.draw(), language);
                let questions: Vec<Question> = (0..self.query_count(kind.heavy)).map_while(draw).collect();
                if questions.is_empty() {
                    let dialect = self.args.server.dialect.name();
                    Progress::start(kind.name).finish(&format!("not available in {dialect}, skipped"));
                    break;
                }
                results.push(self.run_queries(&name, &questions, workers)?);
            }
        }
        Ok(results)
    }

    /// Refuses `--verify` with other dialects than InfluxDB's.
    pub fn check_verify(&self) -> Result<()> {
        if self.args.query.verify && self.args.server.dialect != Dialect::Influx {
            return Err(BenchError::Invalid("--verify works only with InfluxQL".to_owned()));
        }
        Ok(())
    }

    /// How many queries of a type are run.
    pub fn query_count(&self, heavy: bool) -> u32 {
        if heavy { self.args.query.heavy_count } else { self.args.query.query_count }
    }

    /// The numbers of connections with which a type of query is run.
    pub fn worker_counts(&self, heavy: bool) -> Vec<usize> {
        let args = &self.args.query;
        if heavy {
            return vec![usize::from(args.heavy_workers)];
        }
        if args.query_workers.is_empty() {
            return vec![super::cores(), 2 * super::cores()];
        }
        args.query_workers.iter().map(|&workers| usize::from(workers)).collect()
    }
}
