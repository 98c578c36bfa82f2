//! Asks a query of the server and of the peers, cold and warm, and compares the answers.

use super::loading::{Parquet, connect};
use super::recording::Recording;
use crate::cli::sql::SuiteArgs;
use crate::client::sql::{Rows, SqlAnswer, SqlConnection};
use crate::error::{BenchError, Result};
use crate::measure::server::Usage;
use crate::peer::Peer;
use crate::report::progress::Progress;
use crate::report::sql::{QueryTimes, Times, Verdict};
use crate::run::queries::ANSWER_LIMIT_BYTES;
use crate::server::Server;
use crate::verify::order::Order;
use crate::verify::tables::{TableAnswer, compare};
use crate::workload::tables::Query;
use std::path::Path;
use std::time::Instant;

/// The server and its peers, and what they have answered.
pub struct Asker<'a> {
    server: Server,
    peers: Vec<Peer>,
    parquet: Option<Parquet>,
    args: &'a SuiteArgs,
    /// DuckDB's answers, to be recorded.
    answers: Vec<(String, TableAnswer)>,
    /// The most memory that the server had in use.
    pub peak_resident_bytes: Option<u64>,
}

impl<'a> Asker<'a> {
    /// All tables are loaded.
    pub fn new(server: Server, peers: Vec<Peer>, parquet: Option<Parquet>, args: &'a SuiteArgs) -> Asker<'a> {
        Asker { server, peers, parquet, args, answers: Vec::new(), peak_resident_bytes: None }
    }

    /// Asks a query of everybody.
    pub fn ask(&mut self, query: &Query, recording: Option<&Recording>) -> Result<QueryTimes> {
        let progress = Progress::start(format!("query {}", query.name));
        let (own, answered) = match self.ask_server(query) {
            Ok((times, answer)) => (times, Ok(answer)),
            // Only what the server says about the query is a result.
            Err(BenchError::Sql { code, message }) => (Times::default(), Err(format!("{code}: {message}"))),
            Err(error) => return Err(error),
        };
        let mut expected = recording.and_then(|recording| recording.answer(&query.name)).cloned().map(Ok);
        let mut peers = Vec::new();
        for at in 0..self.peers.len() {
            let (times, answer) = self.ask_peer(at, query)?;
            peers.push(times);
            let is_judge = at == 0 && self.args.duckdb.is_some();
            expected = if is_judge { Some(answer) } else { expected };
        }
        let verdict = judge(query, &answered, expected.as_ref());
        if let (true, Some(Ok(answer))) = (self.args.record.is_some(), expected) {
            self.answers.push((query.name.clone(), answer));
        }
        progress.clear();
        let rows = answered.map_or(0, |answer| answer.rows.len() as u64);
        Ok(QueryTimes { name: query.name.clone(), rows, own, busy_ms: None, peers, verdict })
    }

    /// How long a query takes with warm caches; nothing if it is refused.
    pub fn ask_warm(&self, query: &Query) -> Result<Option<f64>> {
        let mut session = self.connect()?;
        let mut times = Vec::new();
        for _ in 0..self.args.warm {
            let begun = Instant::now();
            match session.ask(&query.text, Rows::Count) {
                Ok(_) => times.push(begun.elapsed().as_secs_f64() * 1e3),
                Err(BenchError::Sql { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(median(times))
    }

    /// Starts the server again, with nothing in memory. Returns whether it was.
    pub fn restart(&mut self) -> Result<bool> {
        Ok(!self.args.no_cold && self.server.drop_caches()?)
    }

    /// The server.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Notes where a server that was not started here is reached besides.
    pub fn reached_at(&mut self, flight: Option<&str>, files_dir: Option<&Path>) {
        let server = &mut self.server;
        server.flight = flight.map(str::to_owned).or(server.flight.take());
        server.files_dir = files_dir.map(Path::to_owned).or(server.files_dir.take());
    }

    /// Another session.
    pub fn connect(&self) -> Result<SqlConnection> {
        connect(self.args, &self.server)
    }

    /// What DuckDB has answered.
    pub fn recording(self, benchmark: &str) -> Recording {
        let source = self.peers.first().map_or_else(String::new, |peer| peer.version.clone());
        Recording { benchmark: benchmark.to_owned(), source, answers: self.answers }
    }

    fn ask_server(&mut self, query: &Query) -> Result<(Times, SqlAnswer)> {
        let is_cold = self.restart()?;
        let mut session = connect(self.args, &self.server)?;
        let mut once = || {
            let mut answer = SqlAnswer::default();
            let begun = Instant::now();
            session.ask(&query.text, Rows::Keep { into: &mut answer, limit_bytes: ANSWER_LIMIT_BYTES })?;
            Ok::<_, BenchError>((begun.elapsed().as_secs_f64() * 1e3, answer))
        };
        let (first_ms, answer) = once()?;
        let before = self.server.probe.usage();
        let warm = (0..self.args.warm)
            .map(|_| once().map(|(elapsed_ms, _)| elapsed_ms))
            .collect::<Result<Vec<_>>>()?;
        let after = self.server.probe.usage();
        self.peak_resident_bytes = self.peak_resident_bytes.max(after.peak_resident_bytes);
        let cpu_ms = self.per_warm_query_ms(&before, &after);
        let warm_ms = median(warm).or((!is_cold).then_some(first_ms));
        Ok((Times { cold_ms: is_cold.then_some(first_ms), warm_ms, cpu_ms }, answer))
    }

    fn per_warm_query_ms(&self, before: &Usage, after: &Usage) -> Option<f64> {
        let seconds = after.cpu_since(before)?;
        (self.args.warm > 0).then(|| seconds * 1e3 / f64::from(self.args.warm))
    }

    fn ask_peer(
        &mut self,
        at: usize,
        query: &Query,
    ) -> Result<(Times, std::result::Result<TableAnswer, String>)> {
        if let Some(parquet) = &self.parquet {
            parquet.evict();
        }
        let first = self.peers[at].ask(&query.text, !self.args.no_cold, 1)?;
        let first = match first {
            Ok(first) => first,
            Err(words) => return Ok((Times::default(), Err(format!("{}: {words}", self.peers[at].version)))),
        };
        let mut times =
            Times { cold_ms: (!self.args.no_cold).then_some(first.seconds * 1e3), ..Times::default() };
        if self.args.warm > 0 {
            let before = self.peers[at].probe().usage();
            let warm = self.peers[at].ask(&query.text, false, self.args.warm)?;
            times.cpu_ms = self.per_warm_query_ms(&before, &self.peers[at].probe().usage());
            times.warm_ms = warm.ok().map(|warm| warm.seconds * 1e3);
        }
        Ok((times, Ok(first.answer)))
    }
}

fn median(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied()
}

type Answered<T> = std::result::Result<T, String>;

fn judge(query: &Query, own: &Answered<SqlAnswer>, expected: Option<&Answered<TableAnswer>>) -> Verdict {
    let own = match own {
        Ok(own) => own,
        Err(words) => return Verdict::Refused(words.clone()),
    };
    let compared = match expected {
        None => return Verdict::Unchecked,
        Some(Ok(expected)) => {
            Order::of(&query.text, &own.columns).and_then(|order| compare(own, expected, &order))
        }
        Some(Err(words)) => Err(words.clone()),
    };
    compared.map_or_else(Verdict::Differs, |()| Verdict::Equal)
}
