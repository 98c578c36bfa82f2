//! Executing UPDATE and DELETE of points.
//!
//! If the index of series and the store judge the whole condition, and fields are assigned constants, the catalog finds the
//! points. Otherwise the query does. Either way others write meanwhile, and the changes become visible together. If somebody
//! else was first to change one of the points, the statement is executed once more while writers wait.

use super::value::FieldRules;
use super::{AssignedField, PointChange, PointChangeKind};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::measurement::MeasurementTable;
use crate::plan_parameters::with_values;
use crate::rows::Rows;
use crate::session::Outcome;
use crate::session::change::returning::ReturnedRows;
use crate::session::change::selection::Selection;
use crate::session::change::update::whole;
use crate::session::change::work::Chunks;
use crate::session::{Planning, Run, Session, ToPlan};
use crate::statement::Statement;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt32Type};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, TimestampNanosecondArray, UInt32Array};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::ScalarValue;
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{Expr, LogicalPlan};
use nyala_core::arrays::value_at;
use nyala_core::{ErrorKind, TimeRange, Value, before_long_work};
use nyala_db::catalog::{Field, Measurement};
use nyala_db::changes::Changed;
use nyala_db::correct::{CorrectedField, Correction, Others};
use nyala_db::selection::PointSelection;
use nyala_db::series::TagFilter;
use nyala_db::users::Privilege;
use nyala_exec::memory::MemoryCharge;
use std::collections::HashSet;
use std::sync::Arc;

/// What happens to points that a query has found.
enum CorrectionKind<'a> {
    /// The query has their new values behind their keys.
    Update {
        fields: &'a [AssignedField],
        rules: &'a FieldRules,
    },
    Delete,
}

/// A correction that is made.
struct Correcting<'a> {
    change: &'a PointChange,
    measurement: &'a Measurement,
    /// Finds the points.
    plan: &'a LogicalPlan,
    /// Whether it may find one several times.
    may_repeat: bool,
    kind: CorrectionKind<'a>,
    returned: &'a mut Option<ReturnedRows>,
}

/// About what a point takes in the set of those that were seen, bytes.
const SEEN_BYTES: usize = 32;

impl Session {
    /// Executes a change of points; `None` if the measurement is another one since it was planned.
    pub(in crate::session) async fn change_points(
        &mut self,
        statement: &Statement,
        change: &PointChange,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<Option<Outcome>> {
        let place = &change.place;
        if !self.principal().may(Privilege::Write, &place.database) {
            let message = format!("permission denied for measurement \"{}\"", place.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if self.transaction.is_some() {
            return Err(SqlError::unsupported("changing points inside a transaction")
                .with_hint("Execute the statement before BEGIN or after COMMIT."));
        }
        let catalog = self.server.catalog.clone();
        let freshness = catalog.follow().await?;
        let found = catalog.measurement(&place.database, &change.policy, &place.name).await?;
        let measurement = match found {
            Some(found) if Arc::ptr_eq(&found, &change.table.measurement) => found,
            Some(_) => return Ok(None),
            None => return Err(place.unknown()),
        };
        let run = self.run(statement, freshness, Arc::default(), values.clone())?;
        let rules = FieldRules {
            around: self.surroundings(),
            capabilities: catalog.store().capabilities(),
            accepts_all_floats: measurement.is_member(),
        };
        if statement.is_dry_run {
            let points = self.count_points(change, &measurement, &run, &rules, values).await?;
            return Ok(Some(Outcome::Rows(Rows::counted(points))));
        }
        let mut returned = match &change.returning {
            Some(returning) => {
                let state = self.started_state();
                Some(returning.compiled(state, &values, run.memory().hold())?)
            }
            None => None,
        };
        let outcome = |tag, returned: Option<ReturnedRows>| match returned {
            Some(returned) => returned.answer(tag),
            None => Outcome::Done(tag),
        };
        let (command, changed) = match &change.kind {
            PointChangeKind::Insert(insert) => {
                let rows = self.insert_points(change, insert, &run, &rules, values, &mut returned).await?;
                let tag = CommandTag { rows: Some(rows), ..CommandTag::of("INSERT") };
                return Ok(Some(outcome(tag, returned)));
            }
            PointChangeKind::Update { selection, fields, may_repeat } => {
                let plan = self.optimized(selection, values)?;
                let constants = constants_of(&plan, fields, &rules)?;
                let changed = match (selected_by(&plan)?, constants) {
                    (Some(selected), Some(constants)) if returned.is_none() => {
                        let corrected = catalog.set_fields(&measurement, &selected, constants);
                        run.running.unless_stopped(corrected).await?
                    }
                    _ => {
                        let kind = CorrectionKind::Update { fields, rules: &rules };
                        let (may_repeat, returned) = (*may_repeat, &mut returned);
                        let (plan, measurement) = (&plan, &*measurement);
                        let correcting = Correcting { change, measurement, plan, may_repeat, kind, returned };
                        self.correct(&run, correcting).await?
                    }
                };
                ("UPDATE", changed)
            }
            PointChangeKind::Delete { selection, may_repeat } => {
                let plan = self.optimized(selection, values)?;
                let changed = match selected_by(&plan)?.filter(|_| returned.is_none()) {
                    Some(selected) => {
                        let deleted = catalog.delete_selected(&measurement, &selected, true);
                        run.running.unless_stopped(deleted).await?
                    }
                    None => {
                        let kind = CorrectionKind::Delete;
                        let (may_repeat, returned) = (*may_repeat, &mut returned);
                        let (plan, measurement) = (&plan, &*measurement);
                        let correcting = Correcting { change, measurement, plan, may_repeat, kind, returned };
                        self.correct(&run, correcting).await?
                    }
                };
                ("DELETE", changed)
            }
        };
        let author = self.author(statement, &place.database);
        let noted = catalog.note_change(&author, Some(changed.points), changed.part.as_slice()).await;
        // The points are changed: the statement must not begin anew.
        let id = noted.map_err(|error| SqlError::new(SqlState::IO_ERROR, error.to_string()))?;
        self.server.note_changed(&author, id);
        Ok(Some(outcome(CommandTag { command, rows: Some(changed.points), change: id }, returned)))
    }

    /// How many points a change would change.
    async fn count_points(
        &mut self,
        change: &PointChange,
        measurement: &Measurement,
        run: &Run,
        rules: &FieldRules,
        values: Arc<[ScalarValue]>,
    ) -> SqlResult<u64> {
        let (selection, may_repeat, fields) = match &change.kind {
            PointChangeKind::Insert(_) => {
                return Err(SqlError::unsupported("DRY RUN INSERT of points").with_hint(
                    "An inserted point replaces the fields that a point of the same tags and time has.",
                ));
            }
            PointChangeKind::Update { selection, fields, may_repeat } => {
                (selection, *may_repeat, &fields[..])
            }
            PointChangeKind::Delete { selection, may_repeat } => (selection, *may_repeat, &[][..]),
        };
        let plan = self.optimized(selection, values)?;
        let are_constant = fields.is_empty() || constants_of(&plan, fields, rules)?.is_some();
        if let Some(selected) = selected_by(&plan)?.filter(|_| are_constant) {
            let counted = self.server.catalog.count_points(measurement, &selected);
            return run.running.unless_stopped(counted).await;
        }
        let planning = Planning::Needed(ToPlan { plan: &plan, is_optimized: true });
        let stream = self.stream(run, run.execution.clone(), planning, Arc::default()).await?;
        let mut chunks = Chunks::of(stream, run, false);
        let mut seen = may_repeat.then(|| Seen { points: HashSet::new(), held: run.memory().hold() });
        let mut count = 0;
        while let Some(mut rows) = whole(&chunks.next().await?)? {
            if let Some(seen) = &mut seen {
                rows = seen.first_ones(&rows)?;
            }
            for (own, values) in fields.iter().zip(&rows.columns()[2..]) {
                rules.stored(values, own.is_unknown, &own.name, own.field.field_type)?;
            }
            count += rows.num_rows() as u64;
        }
        Ok(count)
    }

    /// The optimised plan of a query, in which parameters have their values and functions of the time theirs.
    fn optimized(&mut self, selection: &Selection, values: Arc<[ScalarValue]>) -> SqlResult<LogicalPlan> {
        let state = self.started_state();
        Ok(state.optimize(&with_values(selection.plan().clone(), values.to_vec())?)?)
    }

    /// Corrects the points that a query finds, all at once.
    async fn correct(&mut self, run: &Run, mut correcting: Correcting<'_>) -> SqlResult<Changed> {
        // A series whose points are deleted may have to be removed.
        let catalog = self.server.catalog.clone();
        let _pin = catalog.reload_series(correcting.measurement, TimeRange::ALL, &TagFilter::All).await?;
        match self.correct_beside(Others::Write, run, &mut correcting).await {
            // Somebody else was first, or it is not known any more who was.
            Err(SqlError { code: SqlState::SERIALIZATION_FAILURE | SqlState::TOO_FEW_RESOURCES, .. }) => {
                if let Some(returned) = correcting.returned {
                    returned.clear();
                }
                self.correct_beside(Others::Wait, run, &mut correcting).await
            }
            done => done,
        }
    }

    async fn correct_beside(
        &mut self,
        others: Others,
        run: &Run,
        correcting: &mut Correcting<'_>,
    ) -> SqlResult<Changed> {
        let catalog = self.server.catalog.clone();
        let Correcting { measurement, plan, may_repeat, .. } = *correcting;
        let begun = async { catalog.begin_correction(measurement, others).await.map_err(unstaged) };
        let mut correction = run.running.unless_stopped(begun).await?;
        let execution = run.over(correction.snapshot().await?);
        let planning = Planning::Needed(ToPlan { plan, is_optimized: true });
        let mut chunks = Chunks::of(self.stream(run, execution, planning, Arc::default()).await?, run, false);
        let mut seen = may_repeat.then(|| Seen { points: HashSet::new(), held: run.memory().hold() });
        while let Some(mut rows) = whole(&chunks.next().await?)? {
            if let Some(seen) = &mut seen {
                rows = seen.first_ones(&rows)?;
            }
            if rows.num_rows() > 0 {
                correcting.stage(&mut correction, &rows).await?;
            }
            // It can be stopped here.
            before_long_work().await;
        }
        Ok(correction.commit().await?)
    }
}

impl Correcting<'_> {
    /// Stages the changes of points that the query has found.
    async fn stage(&mut self, correction: &mut Correction<'_>, rows: &RecordBatch) -> SqlResult<()> {
        let FoundPoints { series, times } = FoundPoints::of(rows);
        let behind_key = &rows.columns()[2..];
        let (fields, rules) = match &self.kind {
            CorrectionKind::Delete => {
                if let Some(returned) = self.returned {
                    returned.add(&self.change.found(behind_key, &[])?)?;
                }
                return Ok(correction.delete(series, times).await?);
            }
            CorrectionKind::Update { fields, rules } => (fields, rules),
        };
        let new = fields.iter().zip(behind_key).map(|(own, values)| {
            let values = rules.stored(values, own.is_unknown, &own.name, own.field.field_type)?;
            Ok(CorrectedField { field: own.field.clone(), values })
        });
        let new = new.collect::<SqlResult<Vec<_>>>()?;
        if let Some(returned) = self.returned {
            let names = fields.iter().map(|own| &*own.name);
            let named: Vec<_> = names.zip(new.iter().map(|own| own.values.clone())).collect();
            returned.add(&self.change.found(&behind_key[fields.len()..], &named)?)?;
        }
        Ok(correction.update(series, times, new).await?)
    }
}

/// The keys of points that a query has found.
struct FoundPoints {
    series: UInt32Array,
    times: TimestampNanosecondArray,
}

impl FoundPoints {
    fn of(rows: &RecordBatch) -> Self {
        let series = rows.column(0).as_primitive::<UInt32Type>().clone();
        let times = rows.column(1).as_primitive::<Int64Type>();
        Self { series, times: TimestampNanosecondArray::new(times.values().clone(), None) }
    }
}

/// The points that were found so far: a join may find one several times, and only the first counts.
struct Seen {
    points: HashSet<(u32, i64)>,
    held: MemoryCharge,
}

impl Seen {
    fn first_ones(&mut self, rows: &RecordBatch) -> SqlResult<RecordBatch> {
        let FoundPoints { series, times } = FoundPoints::of(rows);
        let keys = series.values().iter().zip(times.values());
        let before = self.points.len();
        let first: BooleanArray =
            keys.map(|(id, time_ns)| Some(self.points.insert((*id, *time_ns)))).collect();
        self.held.charge((self.points.len() - before) * SEEN_BYTES)?;
        Ok(filter_record_batch(rows, &first).map_err(DataFusionError::from)?)
    }
}

/// The points that a plan reads, if the index of series and the store judge its whole condition.
fn selected_by(plan: &LogicalPlan) -> SqlResult<Option<PointSelection>> {
    match plan {
        LogicalPlan::Projection(projection) => selected_by(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => selected_by(&alias.input),
        LogicalPlan::TableScan(scan) if scan.fetch.is_none() => {
            let provider = source_as_provider(&scan.source)?;
            let Some(table) = provider.downcast_ref::<MeasurementTable>() else { return Ok(None) };
            Ok(Some(table.selection(&scan.filters)?))
        }
        _ => Ok(None),
    }
}

/// Per field its constant, or none.
type Constants = Vec<(Field, Option<Value>)>;

/// What fields are assigned, if they are constants.
fn constants_of(
    plan: &LogicalPlan,
    fields: &[AssignedField],
    rules: &FieldRules,
) -> SqlResult<Option<Constants>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(None) };
    let mut constants = Vec::with_capacity(fields.len());
    for (own, expression) in fields.iter().zip(&projection.expr[2..]) {
        let Expr::Literal(value, _) = expression.clone().unalias() else { return Ok(None) };
        let value: ArrayRef = value.to_array_of_size(1)?;
        let stored = rules.stored(&value, own.is_unknown, &own.name, own.field.field_type)?;
        constants.push((own.field.clone(), value_at(&stored, 0)));
    }
    Ok(Some(constants))
}

fn unstaged(error: nyala_core::Error) -> SqlError {
    let is_unsupported = error.kind() == ErrorKind::Unsupported;
    let error = SqlError::from(error);
    match is_unsupported {
        true => error.with_hint(
            "This store changes points only if times, tags and fields are compared with constants, and set to constants.",
        ),
        false => error,
    }
}
