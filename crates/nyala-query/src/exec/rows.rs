//! Rows on their way from a source to the aggregates or the answer.
//!
//! A *group* is what one result series is made of. Its rows come from series of a measurement, through a
//! scan of the store, or from frames of an inner query; either way as [`Rows`] with one column per
//! reference asked for.

use super::column::{Column, Scalar};
use super::expression::Expression;
use super::frame::Frame;
use crate::influxql::{DataType, Expr, MAXIMUM_TIME_NS, MINIMUM_TIME_NS, VarRef};
use crate::plan::condition::{predicates, split_tags};
use crate::plan::rewrite::condition_type;
use crate::plan::types::data_type;
use crate::plan::{self, Plan, binary_expression, literal_value};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{
    Batch, Direction, Order, Predicate, RowSelection, RowStream, ScanRequest, SeriesRun, SeriesSet,
    SnapshotRef,
};
use nyala_core::{ColumnId, Result, SeriesId, TimeRange};
use nyala_db::catalog::Measurement;
use std::collections::HashMap;
use std::sync::Arc;

/// Some rows of a group.
pub struct Rows {
    /// Their times, ns.
    pub times_ns: ScalarBuffer<i64>,
    /// One column per reference asked for.
    pub columns: Vec<Column>,
}

/// What is read of each row.
pub struct ReadColumns {
    /// The references, in the order of [`Rows::columns`].
    pub references: Vec<VarRef>,
    /// How many of them, from the first, decide whether a row is shown: it must have a field among them.
    pub shown: usize,
}

/// The series of a measurement that a query wants, and how to read them.
pub struct MeasurementRows {
    measurement: Arc<Measurement>,
    snapshot: SnapshotRef,
    time: TimeRange,
    /// The part of the condition that must be evaluated row by row.
    rows_condition: Option<Expr>,
    predicates: Vec<Predicate>,
    /// Tag values per group, sorted.
    pub group_values: Vec<Vec<String>>,
    /// Per group its series in order of their tags.
    pub group_series: Vec<Vec<SeriesId>>,
}

/// The time range of a plan, half-open.
pub fn time_range(plan: &Plan) -> TimeRange {
    let first_ns = if plan.first_ns <= MINIMUM_TIME_NS { i64::MIN } else { plan.first_ns };
    TimeRange::new(first_ns, plan.last_ns.min(MAXIMUM_TIME_NS).saturating_add(1))
}

impl MeasurementRows {
    /// Finds the series and groups of a plan in one of its measurements.
    pub fn find(plan: &Plan, measurement: &Arc<Measurement>, snapshot: SnapshotRef) -> Result<Self> {
        let split = split_tags(measurement, plan.condition.as_ref())?;
        let (predicates, rows_condition) = match predicates(measurement, split.rows.as_ref()) {
            Some(predicates) => (predicates, None),
            None => (Vec::new(), split.rows),
        };
        let series = measurement.series();
        let ids = series.select(&split.tags);
        let groups = series.group(&ids, &plan.group_tags);
        let mut group_series = vec![Vec::new(); groups.values.len()];
        for (id, group) in groups.members {
            group_series[group as usize].push(id);
        }
        drop(series);
        Ok(Self {
            measurement: measurement.clone(),
            snapshot,
            time: time_range(plan),
            rows_condition,
            predicates,
            group_values: groups.values,
            group_series,
        })
    }

    /// The measurement.
    pub fn measurement(&self) -> &Arc<Measurement> {
        &self.measurement
    }

    /// The snapshot that is read.
    pub fn snapshot(&self) -> &SnapshotRef {
        &self.snapshot
    }

    /// The times that are read.
    pub fn time(&self) -> TimeRange {
        self.time
    }

    /// The conditions the store evaluates, unless some part is left to be evaluated row by row.
    pub fn pushed_down(&self) -> Option<&[Predicate]> {
        self.rows_condition.is_none().then_some(&self.predicates)
    }

    /// Reads the rows of a group in order of time.
    pub async fn read(
        &self,
        group: usize,
        wanted: &ReadColumns,
        ascending: bool,
    ) -> Result<MeasurementReader> {
        let mut members = self.group_series[group].clone();
        members.sort_unstable();
        let direction = if ascending { Direction::Forward } else { Direction::Backward };
        let order = if members.len() == 1 { Order::Key(direction) } else { Order::Time(direction) };
        self.open(members, wanted, order, None).await
    }

    /// Reads the first rows, in order of time, of groups of one series each.
    pub async fn read_limited(
        &self,
        groups: &[usize],
        wanted: &ReadColumns,
        ascending: bool,
        limit: usize,
    ) -> Result<Vec<Option<Rows>>> {
        let mut members: Vec<SeriesId> = groups.iter().map(|group| self.group_series[*group][0]).collect();
        let positions: HashMap<SeriesId, usize> =
            members.iter().enumerate().map(|(position, id)| (*id, position)).collect();
        members.sort_unstable();
        let direction = if ascending { Direction::Forward } else { Direction::Backward };
        let mut found: Vec<Option<Rows>> = Vec::new();
        found.resize_with(groups.len(), || None);
        let mut reader = self.open(members, wanted, Order::Key(direction), Some(limit)).await?;
        while let Some((rows, runs)) = reader.next_runs().await? {
            let mut start = 0;
            for run in runs {
                let length = run.rows as usize;
                let rows = rows.slice(start, length);
                start += length;
                let place = &mut found[positions[&run.series]];
                *place = Some(match place.take() {
                    None => rows,
                    Some(known) => known.append(&rows),
                });
            }
        }
        found.iter_mut().flatten().for_each(|rows| {
            if rows.times_ns.len() > limit {
                *rows = rows.slice(0, limit);
            }
        });
        Ok(found)
    }

    async fn open(
        &self,
        members: Vec<SeriesId>,
        wanted: &ReadColumns,
        order: Order,
        limit_per_series: Option<usize>,
    ) -> Result<MeasurementReader> {
        let mut layout = Layout::default();
        let mut cells: Vec<Cell> =
            wanted.references.iter().map(|reference| layout.cell(&self.measurement, reference)).collect();
        let mut condition_references = Vec::new();
        let condition = match &self.rows_condition {
            None => None,
            Some(condition) => Some(row_condition(condition, &mut |reference| {
                plan::position(&mut condition_references, reference) + wanted.references.len()
            })?),
        };
        for reference in &condition_references {
            let mut reference = reference.clone();
            reference.data_type = Some(condition_type(&self.measurement, &reference));
            cells.push(layout.cell(&self.measurement, &reference));
        }
        let layout_is_shown = wanted.shown == wanted.references.len();
        let mut columns = vec![TIME_COLUMN];
        columns.extend(&layout.columns);
        let request = ScanRequest {
            table: self.measurement.table(),
            rows: RowSelection::Series { series: SeriesSet::Ids(members.into()), time: self.time },
            columns,
            predicates: self.predicates.clone(),
            skip_empty_rows: true,
            order,
            limit: None,
            // Rows that are dropped only after the scan must not use up the limit.
            limit_per_prefix: limit_per_series.filter(|_| condition.is_none() && layout_is_shown),
        };
        Ok(MeasurementReader {
            stream: self.snapshot.scan(request).await?,
            measurement: self.measurement.clone(),
            cells,
            condition,
            outputs: wanted.references.len(),
            shown: wanted.shown,
        })
    }
}

/// Which columns a scan asks for.
#[derive(Default)]
struct Layout {
    columns: Vec<ColumnId>,
}

/// Where the values of a reference come from.
enum Cell {
    /// The tag of the row's series.
    Tag(String),
    /// The columns of a field, by position after the time column, each of another type, and the type wanted.
    Field(Vec<usize>, DataType),
    /// Nothing has the name.
    Nothing,
}

impl Layout {
    fn cell(&mut self, measurement: &Measurement, reference: &VarRef) -> Cell {
        if plan::is_tag(reference) {
            return Cell::Tag(reference.name.clone());
        }
        let mut positions = Vec::new();
        let mut strongest = None;
        for field in measurement.fields().iter().filter(|field| field.name == reference.name) {
            strongest = plan::types::stronger(strongest, Some(data_type(field.field_type)));
            positions.push(self.position(field.column));
        }
        match reference.data_type.filter(|cast| *cast != DataType::AnyField).or(strongest) {
            Some(wanted) if !positions.is_empty() => Cell::Field(positions, wanted),
            _ => Cell::Nothing,
        }
    }

    fn position(&mut self, column: ColumnId) -> usize {
        self.columns.iter().position(|other| *other == column).unwrap_or_else(|| {
            self.columns.push(column);
            self.columns.len() - 1
        })
    }
}

/// A condition as an expression over columns that `place` gives to references.
pub fn row_condition(condition: &Expr, place: &mut impl FnMut(&VarRef) -> usize) -> Result<Expression> {
    Ok(match condition {
        Expr::VarRef(reference) => Expression::Column(place(reference)),
        Expr::Paren(inner) => row_condition(inner, place)?,
        Expr::Binary(binary) => binary_expression(binary, &mut |operand| row_condition(operand, place))?,
        Expr::Call(call) => match super::expression::MathFunction::named(&call.name) {
            Some(function) => {
                let arguments =
                    call.args.iter().map(|argument| row_condition(argument, place)).collect::<Result<_>>()?;
                Expression::Math(function, arguments)
            }
            None => {
                let words = format!("invalid function call in condition: {}", Expr::Call(call.clone()));
                return Err(nyala_core::Error::invalid(words));
            }
        },
        literal => Expression::Literal(literal_value(literal)?),
    })
}

/// Reads the rows of one group of a measurement.
pub struct MeasurementReader {
    stream: Box<dyn RowStream>,
    measurement: Arc<Measurement>,
    cells: Vec<Cell>,
    condition: Option<Expression>,
    outputs: usize,
    shown: usize,
}

impl MeasurementReader {
    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Rows>> {
        while let Some(batch) = self.stream.next().await? {
            let (rows, _) = self.rows_of(&batch)?;
            if !rows.times_ns.is_empty() {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The next rows and which series they belong to, or `None` at the end.
    async fn next_runs(&mut self) -> Result<Option<(Rows, Vec<SeriesRun>)>> {
        let Some(batch) = self.stream.next().await? else { return Ok(None) };
        let (rows, keep) = self.rows_of(&batch)?;
        let mut runs = batch.series;
        if let Some(keep) = keep {
            let mut start = 0;
            for run in &mut runs {
                let length = run.rows as usize;
                run.rows = keep.slice(start, length).count_set_bits() as u32;
                start += length;
            }
            runs.retain(|run| run.rows > 0);
        }
        Ok(Some((rows, runs)))
    }

    /// The rows of a batch that are shown, and which those are unless all.
    fn rows_of(&self, batch: &Batch) -> Result<(Rows, Option<BooleanBuffer>)> {
        let times_ns = batch.columns[0].as_primitive::<TimestampNanosecondType>().values().clone();
        let mut columns: Vec<Column> = self.cells.iter().map(|cell| self.column_of(cell, batch)).collect();
        let mut keep = shown_rows(&columns[..self.shown], &self.cells[..self.shown], batch.rows);
        if let Some(condition) = &self.condition {
            let satisfied = condition.filter(&columns, batch.rows)?;
            keep = Some(match keep {
                Some(keep) => &keep & &satisfied,
                None => satisfied,
            });
        }
        columns.truncate(self.outputs);
        let rows = Rows { times_ns, columns };
        Ok(match keep {
            Some(keep) if keep.count_set_bits() < batch.rows => (rows.filter(&keep), Some(keep)),
            _ => (rows, None),
        })
    }

    fn column_of(&self, cell: &Cell, batch: &Batch) -> Column {
        match cell {
            Cell::Nothing => Column::Null(batch.rows),
            Cell::Tag(key) => {
                let series = self.measurement.series();
                let parts: Vec<Column> = batch
                    .series
                    .iter()
                    .map(|run| Column::repeat_text(series.value_of(run.series, key), run.rows as usize))
                    .collect();
                Column::concatenate(&parts)
            }
            Cell::Field(positions, wanted) => {
                let casts = positions
                    .iter()
                    .map(|position| cast(Column::from_array(&batch.columns[position + 1]), *wanted));
                coalesce(casts.collect())
            }
        }
    }
}

/// The rows that have a value among the fields shown; `None`: all.
fn shown_rows(columns: &[Column], cells: &[Cell], rows: usize) -> Option<BooleanBuffer> {
    let mut shown: Option<BooleanBuffer> = None;
    for (column, cell) in columns.iter().zip(cells) {
        if let Cell::Tag(_) = cell {
            continue;
        }
        let valid = column.nulls()?.into_inner();
        shown = Some(match shown {
            Some(shown) => &shown | &valid,
            None => valid,
        });
    }
    // Without any field among them no row is shown.
    Some(shown.unwrap_or_else(|| BooleanBuffer::new_unset(rows)))
}

/// A column as another type: numbers are converted, other types only stay what they are.
pub fn cast(column: Column, wanted: DataType) -> Column {
    let rows = column.len();
    match (column, wanted) {
        (column @ Column::Float(_), DataType::Float)
        | (column @ Column::Integer(_), DataType::Integer)
        | (column @ Column::Unsigned(_), DataType::Unsigned)
        | (column @ Column::String(_), DataType::String | DataType::Tag)
        | (column @ Column::Boolean(_), DataType::Boolean)
        | (column, DataType::AnyField) => column,
        (column, DataType::Float) if column.is_number() => Column::Float(column.to_floats()),
        (Column::Float(array), DataType::Integer) => Column::Integer(array.unary(|value| value as i64)),
        (Column::Unsigned(array), DataType::Integer) => Column::Integer(array.unary(|value| value as i64)),
        (Column::Float(array), DataType::Unsigned) => Column::Unsigned(array.unary(|value| value as u64)),
        (Column::Integer(array), DataType::Unsigned) => Column::Unsigned(array.unary(|value| value as u64)),
        _ => Column::Null(rows),
    }
}

/// Per row the first value among columns of one type.
fn coalesce(mut columns: Vec<Column>) -> Column {
    if columns.len() == 1 {
        return columns.remove(0);
    }
    let rows = columns.first().map_or(0, Column::len);
    let values: Vec<Option<Scalar>> =
        (0..rows).map(|row| columns.iter().find_map(|column| column.scalar(row))).collect();
    Column::from_scalars(&values)
}

impl Rows {
    /// The rows where `keep` is set.
    #[must_use]
    pub fn filter(&self, keep: &BooleanBuffer) -> Self {
        let positions: Vec<Option<u32>> = keep.set_indices_u32().map(Some).collect();
        let times_ns = keep.set_indices().map(|row| self.times_ns[row]).collect();
        Self { times_ns, columns: self.columns.iter().map(|column| column.take(&positions)).collect() }
    }
}

impl Rows {
    /// Rows `[start, start + length)` without a copy.
    #[must_use]
    pub fn slice(&self, start: usize, length: usize) -> Self {
        let columns = self.columns.iter().map(|column| column.slice(start, length)).collect();
        Self { times_ns: self.times_ns.slice(start, length), columns }
    }

    fn append(&self, other: &Self) -> Self {
        let times_ns = self.times_ns.iter().chain(&*other.times_ns).copied().collect();
        let pairs = self.columns.iter().zip(&other.columns);
        let columns = pairs.map(|(a, b)| Column::concatenate(&[a.clone(), b.clone()])).collect();
        Self { times_ns, columns }
    }

    /// Bytes held in memory, about.
    pub fn memory_bytes(&self) -> usize {
        8 * self.times_ns.len() + self.columns.iter().map(Column::memory_bytes).sum::<usize>()
    }
}

/// The rows of frames of an inner query as an outer one reads them.
pub fn rows_of_frame(frame: &Frame, wanted: &ReadColumns, condition: Option<&Expr>) -> Result<Option<Rows>> {
    let rows = frame.times_ns.len();
    let column = |reference: &VarRef| {
        if let Some(position) = frame.reference_names.iter().position(|name| *name == reference.name) {
            let column = frame.columns[position].clone();
            return match reference.data_type {
                Some(wanted) => cast(column, wanted),
                None => column,
            };
        }
        let tag = frame.tags.iter().find(|(key, _)| *key == reference.name);
        tag.map_or(Column::Null(rows), |(_, value)| Column::repeat_text(value, rows))
    };
    let mut columns: Vec<Column> = wanted.references.iter().map(column).collect();
    let outputs = columns.len();
    let kept = match condition {
        None => None,
        Some(condition) => {
            let mut references = Vec::new();
            let expression = row_condition(condition, &mut |reference| {
                plan::position(&mut references, reference) + outputs
            })?;
            columns.extend(references.iter().map(column));
            Some(expression.filter(&columns, rows)?)
        }
    };
    columns.truncate(outputs);
    let all = Rows { times_ns: frame.times_ns.clone().into(), columns };
    let rows = match kept {
        Some(kept) => all.filter(&kept),
        None => all,
    };
    Ok((!rows.times_ns.is_empty()).then_some(rows))
}
