//! `influxql('SELECT …')` in FROM: the series of a query of InfluxQL as rows.
//!
//! Query languages do not know each other, so the server that knows both executes the query ([`InfluxqlQueries`]). The text
//! of the query stands for a table in plans: [`table`] says which columns it has, [`scan`] reads it, and [`rows`] makes
//! rows of the answer. Its first columns are the time, the name of the measurement, and the tags of GROUP BY.

mod rows;
mod scan;
mod table;

pub(crate) use table::InfluxqlTable;

use crate::error::SqlResult;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use nyala_core::store::SnapshotRef;
use nyala_exec::{ExecutionContext, Frame, QueryMemory, ValueType};

/// The name of the function.
pub(crate) const FUNCTION: &str = "influxql";
/// The schema whose tables are queries of InfluxQL. No policy has such a name.
pub(crate) const SCHEMA: &str = "\u{0}influxql";

/// A query of InfluxQL.
#[derive(Clone)]
pub struct InfluxqlQuery {
    /// What is asked.
    pub text: String,
    /// The database of measurements without one.
    pub database: String,
    /// Who asks, and which databases there are.
    pub context: ExecutionContext,
}

/// The columns of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfluxqlColumns {
    /// The name of the column of times.
    pub time: String,
    /// The tags that rows are grouped by.
    pub tags: Vec<String>,
    /// The selected columns; one without a type has no values.
    pub columns: Vec<(String, Option<ValueType>)>,
}

/// Frames of an answer, some at a time.
pub type InfluxqlFrames = BoxStream<'static, nyala_core::Result<Vec<Frame>>>;

/// Executes queries of InfluxQL.
pub trait InfluxqlQueries: Send + Sync {
    /// The columns of the answer to a query that its user may ask.
    fn columns<'a>(&'a self, query: &'a InfluxqlQuery) -> BoxFuture<'a, SqlResult<InfluxqlColumns>>;

    /// The answer, on a snapshot.
    fn frames<'a>(
        &'a self,
        query: &'a InfluxqlQuery,
        snapshot: SnapshotRef,
        memory: QueryMemory,
    ) -> BoxFuture<'a, SqlResult<InfluxqlFrames>>;
}
