//! Queries of InfluxQL for sessions of SQL: `SELECT … FROM influxql('SELECT …')`.

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_core::store::SnapshotRef;
use nyala_db::write::LineWriter;
use nyala_exec::QueryMemory;
use nyala_query::influxql::{Params, Select, Statement, parse_query_and_regexes};
use nyala_query::plan::QueryContext;
use nyala_query::report::Reporter;
use nyala_query::statement::{SelectTable, authorize};
use nyala_sql::{
    InfluxqlColumns, InfluxqlFrames, InfluxqlQueries, InfluxqlQuery, SqlError, SqlResult, SqlState,
};
use std::sync::Arc;

/// Executes queries of InfluxQL for SQL.
pub(crate) struct InfluxqlTables {
    pub(crate) writer: Arc<LineWriter>,
    pub(crate) reporter: Reporter,
}

impl InfluxqlTables {
    fn context(&self, query: &InfluxqlQuery) -> QueryContext {
        QueryContext {
            around: query.context.clone(),
            database: query.database.clone(),
            retention_policy: String::new(),
            writer: self.writer.clone(),
            reporter: self.reporter.clone(),
        }
    }

    async fn planned(&self, query: &InfluxqlQuery, memory: Option<&QueryMemory>) -> SqlResult<SelectTable> {
        let select = select_of(query, memory)?;
        Ok(SelectTable::of(select, &self.context(query)).await?)
    }
}

/// The only statement of a text, if its user may execute it.
fn select_of(query: &InfluxqlQuery, memory: Option<&QueryMemory>) -> SqlResult<Select> {
    let (statements, regexes) =
        parse_query_and_regexes(&query.text, &Params::default()).map_err(|error| {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("influxql: error parsing query: {error}"))
        })?;
    if let Some(memory) = memory {
        for regex in &regexes {
            regex.compile_charged(|bytes| memory.charge(bytes))?;
        }
    }
    authorize(&statements, &query.context.principal, &query.database).map_err(|words| {
        SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, format!("influxql: error authorizing query: {words}"))
    })?;
    match <[Statement; 1]>::try_from(statements) {
        Ok([Statement::Select(select)]) if select.as_of.is_some() => {
            Err(SqlError::unsupported("influxql: AS OF")
                .with_hint("Write it at the end of the statement of SQL."))
        }
        Ok([Statement::Select(select)]) if select.target.is_none() => Ok(*select),
        _ => Err(SqlError::unsupported("influxql: anything but one SELECT without INTO")),
    }
}

impl InfluxqlQueries for InfluxqlTables {
    fn columns<'a>(&'a self, query: &'a InfluxqlQuery) -> BoxFuture<'a, SqlResult<InfluxqlColumns>> {
        let found = async move {
            let table = self.planned(query, None).await?;
            let columns = table.columns().map(|(name, value_type)| (name.to_owned(), value_type));
            Ok::<_, SqlError>(InfluxqlColumns {
                time: table.time_column().to_owned(),
                tags: table.tags().to_vec(),
                columns: columns.collect(),
            })
        };
        found.boxed()
    }

    fn frames<'a>(
        &'a self,
        query: &'a InfluxqlQuery,
        snapshot: SnapshotRef,
        memory: QueryMemory,
    ) -> BoxFuture<'a, SqlResult<InfluxqlFrames>> {
        let opened = async move {
            let table = self.planned(query, Some(&memory)).await?;
            let stream = table.open(snapshot, memory).await?;
            let frames = futures::stream::try_unfold(stream, |mut stream| async {
                let list = stream.next_list().await?;
                Ok::<_, nyala_core::Error>((!list.is_empty()).then_some((list, stream)))
            });
            Ok::<_, SqlError>(frames.boxed())
        };
        opened.boxed()
    }
}
