//! A COPY FROM that is being executed: its rows come from the client, chunk by chunk, and become visible together.
//!
//! What fits into one chunk is written as one batch at the end, more is collected in a stage. The lock of the table is held
//! only at the end, because the client decides how long the rest takes. If this is dropped before, nothing remains.

use super::copy::{CopiedTable, CopyTarget};
use super::insert::{Arbiter, Conflict, Insert, Source};
use super::met_keys::MetKeys;
use super::points::PointsIn;
use super::sink::Sink;
use super::work::{Work, indexes_of};
use crate::awaited::Awaited;
use crate::command_tag::CommandTag;
use crate::copy::{
    COPY_WAIT_MAX, CopiedRows, CopyContext, CopyForm, CopyKind, CopyRows, as_declared, bytes_max, piece_rows,
};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::relation::columns::data_type;
use crate::relation::input::Surroundings;
use crate::relation::rules::{Numbering, Rules, need_plans};
use crate::session::definition::table_of;
use crate::session::{Run, Session};
use crate::statement::Statement;
use crate::transaction::of_commit;
use arrow_array::ArrayRef;
use arrow_schema::{DataType, SchemaRef};
use nyala_core::ErrorKind;
use nyala_core::store::{Stage, StoreRef};
use nyala_db::catalog::Catalog;
use nyala_db::relations::{DeclaredType, Relation};
use nyala_db::users::Privilege;
use nyala_exec::QueryMemory;
use std::sync::Arc;
use tokio::sync::OwnedRwLockReadGuard;

/// A COPY that waits for rows.
pub struct CopyIn {
    table: String,
    schema: SchemaRef,
    types: Vec<DeclaredType>,
    form: CopyForm,
    around: Surroundings,
    run: Run,
    kind: Kind,
    /// Of the values that came so far.
    bytes: u64,
}

enum Kind {
    Rows(Box<RowsIn>),
    Points(Box<PointsIn>),
}

/// Rows on their way into a table.
struct RowsIn {
    catalog: Arc<Catalog>,
    relation: Arc<Relation>,
    insert: Insert,
    rules: Rules,
    /// Where they go; it is missing while they are written.
    sink: Option<Sink>,
    is_in_transaction: bool,
    written: u64,
}

impl Session {
    /// Begins to copy; `None` if a table was altered since the statement was prepared.
    pub(in crate::session) async fn begin_copy(
        &mut self,
        statement: &Statement,
        target: &CopyTarget,
        form: &CopyForm,
    ) -> SqlResult<Option<CopyIn>> {
        let table = target.name().to_owned();
        let database = match target {
            CopyTarget::Rows(table) => &table.relation.database,
            CopyTarget::Points(points) => points.database(),
        };
        if !self.may(Privilege::Write, database) {
            let message = format!("permission denied for table \"{table}\"");
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        self.principal().admit_write()?;
        let freshness = self.server.catalog.follow().await?;
        let around = self.surroundings();
        let (run, kind) = match target {
            CopyTarget::Rows(table) => {
                if !self.is_unchanged(&table.relation) {
                    return Ok(None);
                }
                let snapshot = self.transaction_snapshot().await?;
                self.check_whole(&table.relation, &snapshot)?;
                let run = self.run(statement, freshness, snapshot, Arc::default())?;
                let is_in_transaction = self.transaction.is_some();
                let sink = match is_in_transaction {
                    true => Sink::of_transaction(self.transaction_stage()?),
                    false => Sink::Store(self.server.catalog.store().clone()),
                };
                let rows = self.rows_in(table, sink, is_in_transaction, around)?;
                (run, Kind::Rows(Box::new(rows)))
            }
            CopyTarget::Points(points) => {
                let run = self.run(statement, freshness, Arc::default(), Arc::default())?;
                match self.points_in(points, &run, around).await? {
                    Some(points) => (run, Kind::Points(Box::new(points))),
                    None => return Ok(None),
                }
            }
        };
        let (schema, types, form) = (target.schema(), target.types(), form.clone());
        Ok(Some(CopyIn { table, schema, types, form, around, run, kind, bytes: 0 }))
    }

    fn rows_in(
        &mut self,
        table: &CopiedTable,
        sink: Sink,
        is_in_transaction: bool,
        around: Surroundings,
    ) -> SqlResult<RowsIn> {
        let (catalog, source) = (self.server.catalog.clone(), self.number_source());
        let CopiedTable { relation, columns, named } = table;
        let definition = table_of(relation)?;
        let state = match need_plans(definition) {
            true => {
                let state = self.started_state();
                Some(&*state)
            }
            false => None,
        };
        let capabilities = catalog.store().capabilities();
        let numbering = Some(Numbering { source, database: &relation.database });
        let rules =
            Rules::of(&relation.name, definition, columns.clone(), state, around, capabilities, numbering)?;
        let insert = Insert {
            named: named.clone(),
            source: Source::Defaults,
            conflict: Conflict::Fail,
            arbiter: Arbiter::Key,
        };
        let (relation, sink) = (relation.clone(), Some(sink));
        Ok(RowsIn { catalog, relation, insert, rules, sink, is_in_transaction, written: 0 })
    }

    /// Whether a table is as it was.
    fn is_unchanged(&self, relation: &Relation) -> bool {
        let found = self.relations().find(&relation.database, &relation.name);
        found.is_some_and(|found| found.definition == relation.definition)
    }
}

impl CopyIn {
    /// The name of the table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The form in which rows come.
    pub fn form(&self) -> &CopyForm {
        &self.form
    }

    /// The columns that rows have.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The types that values of the binary form become.
    pub fn value_types(&self) -> Vec<DataType> {
        self.types.iter().map(|declared| data_type(*declared)).collect()
    }

    /// The memory of the statement.
    pub fn memory(&self) -> &QueryMemory {
        self.run.memory()
    }

    /// Where rows are collected before they are written.
    ///
    /// # Errors
    /// Internal, if a type of the table is none of columns.
    pub fn rows(&self) -> SqlResult<CopyRows> {
        CopyRows::of(self.types.iter().copied(), self.around, self.run.memory().hold())
    }

    /// Waits until the statement is stopped, and says why.
    pub async fn stopped(&self) -> SqlError {
        self.run.running.guard.query().stopped().await.into()
    }

    /// Writes the rows that are complete.
    ///
    /// # Errors
    /// PostgreSQL's, if the table cannot have a row.
    pub fn write<'a>(&'a mut self, rows: &'a mut CopyRows) -> Awaited<'a, SqlResult<()>> {
        Box::pin(async move {
            self.run.running.unless_stopped(rows.wait_for_memory()).await?;
            let copied = rows.take();
            self.bytes += copied.bytes() as u64;
            let written = match &mut self.kind {
                Kind::Rows(own) => self.run.running.unless_stopped(own.write(&self.run, &copied, true)).await,
                Kind::Points(own) => self.run.running.unless_stopped(own.write(&copied)).await,
            };
            rows.free();
            written.map_err(|error| self.located(error, &copied))
        })
    }

    /// Writes rows that are columns already, in the order of [`CopyIn::schema`]. The first one has this number.
    ///
    /// # Errors
    /// PostgreSQL's, if the table cannot have a row, or a column cannot have such values.
    pub fn write_columns<'a>(
        &'a mut self,
        columns: &'a [ArrayRef],
        count: usize,
        first: u64,
    ) -> Awaited<'a, SqlResult<()>> {
        Box::pin(async move {
            let piece = piece_rows(columns);
            let mut begin = 0;
            loop {
                let rows = piece.min(count - begin);
                let columns: Vec<ArrayRef> = columns.iter().map(|column| column.slice(begin, rows)).collect();
                self.write_piece(&columns, rows, first + begin as u64).await?;
                begin += rows;
                if begin == count {
                    return Ok(());
                }
            }
        })
    }

    async fn write_piece(&mut self, columns: &[ArrayRef], count: usize, first: u64) -> SqlResult<()> {
        let mut held = self.run.memory().hold();
        held.charge_within(COPY_WAIT_MAX, bytes_max(columns, &self.schema, count)).await?;
        let fields = self.schema.fields();
        let columns = columns.iter().zip(fields).zip(&self.types).enumerate();
        let declared = columns.map(|(place, ((values, field), declared))| {
            let tags = match &self.kind {
                Kind::Points(own) => own.tags(place, values),
                Kind::Rows(_) => None,
            };
            tags.unwrap_or_else(|| as_declared(values, field.name(), *declared, &self.around))
        });
        let mut copied = CopiedRows::numbered(count, first);
        let declared = declared.collect::<SqlResult<Vec<_>>>();
        copied.columns = declared.map_err(|error| self.located(error, &copied))?;
        held.shrink_to(copied.bytes());
        held.charge_within(COPY_WAIT_MAX, copied.bytes() - held.bytes()).await?;
        self.bytes += copied.bytes() as u64;
        let written = match &mut self.kind {
            Kind::Rows(own) => self.run.running.unless_stopped(own.write(&self.run, &copied, true)).await,
            Kind::Points(own) => self.run.running.unless_stopped(own.write(&copied)).await,
        };
        written.map_err(|error| self.located(error, &copied))
    }

    /// The names of the columns that rows have.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }

    /// Checks the rows that are complete, and forgets them: something is wrong with the next one, and the first error counts.
    ///
    /// # Errors
    /// PostgreSQL's, if the table cannot have a row.
    pub fn check<'a>(&'a mut self, rows: &'a mut CopyRows) -> Awaited<'a, SqlResult<()>> {
        Box::pin(async move {
            let copied = rows.take();
            let checked = match &mut self.kind {
                Kind::Rows(own) => own.check(&self.run, &copied).await,
                Kind::Points(own) => own.collect(&copied).map(drop),
            };
            checked.map_err(|error| self.located(error, &copied))
        })
    }

    /// Writes the last rows and makes all of them visible, or a part of the transaction.
    ///
    /// # Errors
    /// PostgreSQL's, if the table cannot have a row. `SERIALIZATION_FAILURE`, if somebody else has written one of them
    /// meanwhile.
    pub fn finish<'a>(
        mut self,
        session: &'a mut Session,
        rows: &'a mut CopyRows,
    ) -> Awaited<'a, SqlResult<CommandTag>> {
        Box::pin(async move {
            self.run.running.unless_stopped(rows.wait_for_memory()).await?;
            let copied = rows.take();
            self.bytes += copied.bytes() as u64;
            let finished = match &mut self.kind {
                Kind::Rows(own) => {
                    let finishing = own.finish(session, &self.run, &copied);
                    self.run.running.unless_stopped(finishing).await
                }
                Kind::Points(own) => match own.write(&copied).await {
                    Ok(()) => self.run.running.unless_stopped(own.finish(session)).await,
                    Err(error) => Err(error),
                },
            };
            let count = finished.map_err(|error| self.located(error, &copied))?;
            session.principal().has_written(count, self.bytes);
            Ok(CommandTag { rows: Some(count), ..CommandTag::of("COPY") })
        })
    }

    /// An error with the line that it is about.
    fn located(&self, error: SqlError, copied: &CopiedRows) -> SqlError {
        let Some((line, text)) =
            error.row.map(|row| row as usize).filter(|row| *row < copied.count()).map(|row| copied.line(row))
        else {
            return error;
        };
        let context = CopyContext { table: &self.table, line };
        let has_text = matches!(self.form.kind, CopyKind::Text | CopyKind::Csv)
            && error.code != SqlState::UNIQUE_VIOLATION;
        error.in_context(if has_text { context.of_text(text) } else { context.of_line() })
    }
}

impl RowsIn {
    /// Writes rows. If more of them follow, they are collected in a stage.
    async fn write(&mut self, run: &Run, copied: &CopiedRows, has_more: bool) -> SqlResult<()> {
        if copied.count() == 0 {
            return Ok(());
        }
        let sink =
            self.sink.take().ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the rows have failed"))?;
        let mut sink = match sink {
            Sink::Store(store) if has_more => Sink::kept(stage_of(&store).await?),
            sink => sink,
        };
        let mut work = work(&self.catalog, &self.relation, &self.rules, run, &mut sink)?;
        work.insert(&self.insert, copied.columns.clone(), copied.count()).await?;
        self.written += work.changed;
        self.sink = Some(sink);
        Ok(())
    }

    async fn check(&mut self, run: &Run, copied: &CopiedRows) -> SqlResult<()> {
        let Some(mut sink) = self.sink.take().filter(|_| copied.count() > 0) else { return Ok(()) };
        let work = work(&self.catalog, &self.relation, &self.rules, run, &mut sink)?;
        let rows = work.completed(&self.insert.named, copied.columns.clone(), copied.count()).await?;
        self.rules.check(&rows)
    }

    async fn finish(&mut self, session: &mut Session, run: &Run, copied: &CopiedRows) -> SqlResult<u64> {
        if self.is_in_transaction {
            self.write(run, copied, false).await?;
            self.sink = None;
            self.hold_unaltered(session).await?;
            if let Some(transaction) = &mut session.transaction {
                transaction.refresh().await?;
            }
            return Ok(self.written);
        }
        if matches!(self.sink, Some(Sink::Stage(_))) {
            self.write(run, copied, false).await?;
        }
        let shared = self.hold_unaltered(session).await?;
        if matches!(self.sink, Some(Sink::Store(_))) {
            self.write(run, copied, false).await?;
        }
        if let Some(sink) = self.sink.take() {
            sink.commit().await.map_err(of_commit)?;
        }
        drop(shared);
        session.end_rows_of(&self.relation).await?;
        Ok(self.written)
    }

    /// Waits for whoever alters the table, and fails if somebody has since the rows began to come.
    async fn hold_unaltered(&self, session: &Session) -> SqlResult<OwnedRwLockReadGuard<()>> {
        let shared = self.relation.lock.clone().read_owned().await;
        self.catalog.follow().await?;
        if session.is_unchanged(&self.relation) {
            return Ok(shared);
        }
        let message = format!("table \"{}\" was altered while rows were copied", self.relation.name);
        Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, message))
    }
}

/// What rows are inserted with.
fn work<'a>(
    catalog: &'a Arc<Catalog>,
    relation: &'a Relation,
    rules: &'a Rules,
    run: &'a Run,
    sink: &'a mut Sink,
) -> SqlResult<Work<'a>> {
    let table = table_of(relation)?;
    Ok(Work {
        catalog,
        table,
        indexes: indexes_of(table, rules),
        rules,
        parameters: &[],
        run,
        returning: None,
        conflict: None,
        sink,
        changed: 0,
        held: run.memory().hold(),
        met: MetKeys::new(run.memory()),
    })
}

async fn stage_of(store: &StoreRef) -> SqlResult<Box<dyn Stage>> {
    store.stage().await.map_err(|error| match error.kind() {
        ErrorKind::Unsupported => {
            SqlError::from(error).with_hint("The rows do not fit into one batch: copy fewer at once.")
        }
        _ => error.into(),
    })
}
