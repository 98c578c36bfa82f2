//! Rows of a measurement: its series by groups, and scans of the store that read them.

use super::order::{SeriesOrder, TimeOrder};
use super::rows::{ReadColumns, Rows, cast, coalesce};
use super::series::BySeries;
use crate::plan::{
    Distinct, MeasurementPlan, Plan, PointLimit, Reference, ReferenceKind, RowCondition, fields_named,
};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{
    Batch, Direction, Order, Predicate, RowSelection, RowStream, ScanRequest, SeriesRun, SeriesSet,
    SnapshotRef,
};
use nyala_core::{ColumnId, Error, Result, SeriesId, TableSchema, TimeRange, before_long_work};
use nyala_db::catalog::{Field, Measurement};
use nyala_db::series::{GroupValues, Numbers, TagWords};
use nyala_exec::aggregate::StoredGroups;
use nyala_exec::expression::Expression;
use nyala_exec::tag::{NO_TEXT, TagColumn, TagTexts};
use nyala_exec::{Column, GroupSeries, QueryMemory, ValueType};
use roaring::RoaringBitmap;
use std::ops::Range;
use std::sync::Arc;

/// What putting a series in order takes, about: its key, and its place.
const SERIES_BYTES: usize = 128;
/// The most series of which a query looks up its tags once, rather than row by row.
const TAGS_BY_SERIES_MAX: usize = 1 << 16;

/// The series of a measurement that a query wants, and how to read them.
pub struct MeasurementRows {
    measurement: Arc<Measurement>,
    snapshot: SnapshotRef,
    time: TimeRange,
    /// The part of the condition that must be evaluated row by row.
    rows_condition: Option<RowCondition>,
    predicates: Vec<Predicate>,
    /// Counts the rows that are read, where their number is bounded.
    pub points: Option<Arc<PointLimit>>,
    /// Tag values per group, sorted.
    pub group_values: Arc<GroupValues>,
    /// Per group its series.
    pub group_series: GroupSeries,
    /// The columns that the snapshot has; `None`: it has not even the table, which was dropped since the plan was made.
    schema: Option<Arc<TableSchema>>,
}

impl MeasurementRows {
    /// Finds the series and groups of a plan in one of its measurements.
    pub async fn find(plan: &Plan, source: &MeasurementPlan, snapshot: SnapshotRef) -> Self {
        let schema = snapshot.schema(source.measurement.table()).ok();
        // A limit on groups counts those too that have no rows at these times.
        let shards = match plan.groups.limit {
            None => source.measurement.shards_within(plan.time_range()).await,
            Some(_) => None,
        };
        let series = source.measurement.series();
        let mut ids = match schema {
            Some(_) => series.select(&source.tags),
            None => RoaringBitmap::new(),
        };
        source.measurement.narrow(&mut ids, shards.as_deref());
        let mut groups = series.group(&ids, &plan.groups.tags);
        drop(series);
        let mut group_series = GroupSeries::of(groups.values.len(), &groups.members);
        if let Some(limit) = plan.groups.limit {
            let kept = limited_groups(&groups.values, &plan.groups.tags, plan.groups.offset, limit);
            group_series = group_series.only(&kept);
            groups.values = groups.values.only(&kept);
        }
        Self {
            measurement: source.measurement.clone(),
            snapshot,
            time: plan.time_range(),
            rows_condition: source.rows.clone(),
            predicates: source.predicates.clone(),
            points: source.points.clone(),
            group_values: Arc::new(groups.values),
            group_series,
            schema,
        }
    }

    /// Times between which its rows lie, if it has any.
    pub async fn time_bounds(&self) -> Result<Option<TimeRange>> {
        match self.schema {
            Some(_) => self.snapshot.time_bounds(self.measurement.table(), self.time).await,
            None => Ok(None),
        }
    }

    /// The measurement.
    pub fn measurement(&self) -> &Arc<Measurement> {
        &self.measurement
    }

    /// Its groups as the store can aggregate them, unless some condition is left to be evaluated row by row, or rows are
    /// counted.
    pub fn pushed_down(&self) -> Option<StoredGroups<'_>> {
        (self.rows_condition.is_none() && self.points.is_none()).then_some(StoredGroups {
            snapshot: &self.snapshot,
            table: self.measurement.table(),
            time: self.time,
            predicates: &self.predicates,
            series: &self.group_series,
        })
    }

    /// Reads the rows of a group in a time range in an order. That of time costs most where there are very many series, because each
    /// slice of time visits all of them; with one series it is that of the key.
    pub async fn read(
        &self,
        group: usize,
        wanted: &ReadColumns,
        order: Order,
        time: TimeRange,
    ) -> Result<MeasurementReader> {
        let mut members = self.group_series[group].to_vec();
        members.sort_unstable();
        let order = match order {
            Order::Time(direction) if members.len() == 1 => Order::Key(direction),
            order => order,
        };
        self.open(members, wanted, (order, &[]), time, None).await
    }

    /// Reads the rows of a group in order of time, rows at one time as [`TimeOrder`] says. `rows_needed`: how
    /// many may be asked for.
    pub async fn read_ordered(
        &self,
        group: usize,
        wanted: &ReadColumns,
        ascending: bool,
        rows_needed: usize,
        memory: &QueryMemory,
    ) -> Result<TimeOrder> {
        let direction = if ascending { Direction::Forward } else { Direction::Backward };
        let series = &self.group_series[group];
        if series.len() < 2 {
            let reader = self.read(group, wanted, Order::Time(direction), self.time).await?;
            return Ok(TimeOrder::new(reader, None, rows_needed, memory.clone()));
        }
        let schema = self.schema.clone().ok_or_else(|| Error::missing("a measurement that was dropped"))?;
        memory.charge(series.len() * SERIES_BYTES)?;
        let order = SeriesOrder::new(&self.measurement, series, &wanted.references, ascending, schema);
        let mut members = series.to_vec();
        members.sort_unstable();
        let by_time = (Order::Time(direction), order.total().unwrap_or_default());
        let reader = self.open(members, wanted, by_time, self.time, None).await?;
        Ok(TimeOrder::new(reader, Some(order), rows_needed, memory.clone()))
    }

    /// Reads the first rows, in order of time, of groups of one series each: all of them, and which are whose.
    pub async fn read_limited(
        &self,
        groups: &[usize],
        wanted: &ReadColumns,
        ascending: bool,
        limit: usize,
    ) -> Result<(Rows, Vec<Range<usize>>)> {
        let mut members: Vec<SeriesId> = groups.iter().map(|group| self.group_series[*group][0]).collect();
        let positions = BySeries::numbered(members.iter().copied());
        members.sort_unstable();
        let direction = if ascending { Direction::Forward } else { Direction::Backward };
        let mut spans = vec![0..0; groups.len()];
        let mut reader =
            self.open(members, wanted, (Order::Key(direction), &[]), self.time, Some(limit)).await?;
        let (mut parts, mut before) = (Vec::new(), 0);
        while let Some((rows, runs)) = reader.next_runs().await? {
            let mut start = 0;
            let mut kept: Vec<u32> = Vec::with_capacity(rows.times_ns.len());
            for run in runs {
                let span: &mut Range<usize> = &mut spans[positions.number(run.series) as usize];
                if span.start == span.end {
                    *span = before + kept.len()..before + kept.len();
                }
                let more = run.rows.min(u32::try_from(limit - span.len()).unwrap_or(u32::MAX));
                span.end += more as usize;
                kept.extend(start..start + more);
                start += run.rows;
            }
            before += kept.len();
            parts.push(if kept.len() == rows.times_ns.len() { rows } else { rows.take(&kept) });
        }
        let nothing = || Rows { times_ns: Vec::new().into(), columns: Vec::new() };
        Ok((if parts.is_empty() { nothing() } else { Rows::concatenate(&parts) }, spans))
    }

    async fn open(
        &self,
        members: Vec<SeriesId>,
        wanted: &ReadColumns,
        (order, ties): (Order, &[SeriesId]),
        time: TimeRange,
        limit_per_series: Option<usize>,
    ) -> Result<MeasurementReader> {
        let mut layout = Layout::of(&self.measurement, self.schema.as_deref());
        let mut cells: Vec<Cell> = wanted.references.iter().map(|reference| layout.cell(reference)).collect();
        let condition = self.rows_condition.as_ref();
        for reference in condition.iter().flat_map(|condition| &condition.references) {
            cells.push(layout.cell(reference));
        }
        let by_series = wanted.tags_by_series && members.len() <= TAGS_BY_SERIES_MAX;
        let tags =
            by_series.then(|| Tags::of(&self.measurement, &members, &cells[..wanted.references.len()]));
        let layout_is_shown = wanted.shown == wanted.references.len();
        let mut columns = vec![TIME_COLUMN];
        columns.extend(layout.columns.into_list());
        let request = ScanRequest {
            table: self.measurement.table(),
            rows: RowSelection::Series {
                series: SeriesSet::Ids(members.into()),
                time: self.time.intersect(time),
            },
            columns,
            predicates: self.predicates.clone(),
            skip_empty_rows: true,
            order,
            ties: ties.into(),
            limit: None,
            // Rows that are dropped only after the scan must not use up the limit.
            limit_per_prefix: limit_per_series.filter(|_| condition.is_none() && layout_is_shown),
        };
        Ok(MeasurementReader {
            stream: self.snapshot.scan(request).await?,
            begun: false,
            points: self.points.clone(),
            measurement: self.measurement.clone(),
            cells,
            tags,
            condition: condition.map(|condition| condition.expression.clone()),
            outputs: wanted.references.len(),
            shown: wanted.shown,
        })
    }
}

/// Which columns a scan asks for.
struct Layout<'a> {
    fields: Arc<Vec<Field>>,
    /// What the snapshot has: a field may have got its column only since it was taken.
    schema: Option<&'a TableSchema>,
    columns: Distinct<ColumnId>,
}

/// Where the values of a reference come from.
enum Cell {
    /// The tag of the row's series, or NULL.
    Tag(String),
    /// The tag of the row's series.
    GroupTag(String),
    /// The columns of a field, by position after the time column, each of another type, and the type wanted.
    Field(Vec<usize>, ValueType),
    /// Nothing has the name.
    Nothing,
}

impl<'a> Layout<'a> {
    fn of(measurement: &Measurement, schema: Option<&'a TableSchema>) -> Self {
        Self { fields: measurement.fields(), schema, columns: Distinct::default() }
    }

    fn cell(&mut self, reference: &Reference) -> Cell {
        match reference.kind {
            ReferenceKind::Nothing => return Cell::Nothing,
            ReferenceKind::Tag => return Cell::Tag(reference.name.clone()),
            ReferenceKind::GroupTag => return Cell::GroupTag(reference.name.clone()),
            ReferenceKind::Field(_) | ReferenceKind::AnyField => {}
        }
        let mut positions = Vec::new();
        let mut strongest: Option<ValueType> = None;
        let is_there =
            |field: &&Field| self.schema.is_some_and(|schema| schema.column(field.column).is_some());
        for field in fields_named(&self.fields, &reference.name).iter().filter(is_there) {
            let here = ValueType::of_field(field.field_type);
            strongest = Some(strongest.map_or(here, |found| found.min(here)));
            positions.push(self.columns.place(field.column));
        }
        match (reference.kind, strongest) {
            (ReferenceKind::Field(wanted), Some(_)) | (_, Some(wanted)) => Cell::Field(positions, wanted),
            _ => Cell::Nothing,
        }
    }
}

/// The tags of the series that are read.
struct Tags {
    positions: BySeries,
    /// Per cell the texts of the series, if it is a tag.
    texts: Vec<Option<Arc<TagTexts>>>,
}

impl Tags {
    fn of(measurement: &Measurement, members: &[SeriesId], cells: &[Cell]) -> Self {
        let series = measurement.series();
        let words: Vec<TagWords<'_>> = members.iter().map(|id| series.tag_words(*id)).collect();
        let texts = cells.iter().map(|cell| {
            let (Cell::Tag(key) | Cell::GroupTag(key)) = cell else { return None };
            let values = series.tag_values(key);
            let mut known = Numbers::of(values.count(), members.len());
            // The numbers that values have here, and the values.
            let (mut numbers, mut texts) = (Vec::with_capacity(members.len()), Vec::new());
            for words in &words {
                let number = values.number_in(*words);
                numbers.push(match number.map(|value| (value, known.number(value))) {
                    None => NO_TEXT,
                    Some((value, (number, is_new))) => {
                        if is_new {
                            texts.push(values.text(value));
                        }
                        number
                    }
                });
            }
            Some(Arc::new(TagTexts::new(numbers, texts, |text| cell.shown_tag(text))))
        });
        Self { texts: texts.collect(), positions: BySeries::numbered(members.iter().copied()) }
    }

    /// Per row of a batch the position of its series.
    fn positions_of(&self, batch: &Batch) -> ScalarBuffer<u32> {
        let mut positions = Vec::with_capacity(batch.rows);
        for run in &batch.series {
            positions.resize(positions.len() + run.rows as usize, self.positions.number(run.series));
        }
        positions.into()
    }
}

impl Cell {
    /// What is shown of the value of a tag: a tag that is no group's is NULL where it is absent.
    fn shown_tag<'a>(&self, value: &'a str) -> Option<&'a str> {
        (!matches!(self, Cell::Tag(_)) || !value.is_empty()).then_some(value)
    }
}

/// Reads the rows of one group of a measurement.
pub struct MeasurementReader {
    stream: Box<dyn RowStream>,
    begun: bool,
    points: Option<Arc<PointLimit>>,
    measurement: Arc<Measurement>,
    cells: Vec<Cell>,
    /// The tags among the outputs, where they are looked up once per series.
    tags: Option<Tags>,
    condition: Option<Expression>,
    outputs: usize,
    shown: usize,
}

impl MeasurementReader {
    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Rows>> {
        while let Some(batch) = self.next_batch().await? {
            let (rows, _) = self.rows_of(&batch)?;
            if !rows.times_ns.is_empty() {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The next rows and which series they belong to, or `None` at the end.
    pub async fn next_runs(&mut self) -> Result<Option<(Rows, Vec<SeriesRun>)>> {
        let Some(batch) = self.next_batch().await? else { return Ok(None) };
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

    /// The next batch. Before every one but the first whoever waits for the rows may give them up, or go on elsewhere.
    async fn next_batch(&mut self) -> Result<Option<Batch>> {
        if std::mem::replace(&mut self.begun, true) {
            before_long_work().await;
        }
        let batch = self.stream.next().await?;
        if let (Some(points), Some(batch)) = (&self.points, &batch) {
            points.count(batch.rows)?;
        }
        Ok(batch)
    }

    /// The rows of a batch that are shown, and which those are unless all.
    fn rows_of(&self, batch: &Batch) -> Result<(Rows, Option<BooleanBuffer>)> {
        let times_ns = batch.columns[0].as_primitive::<TimestampNanosecondType>().values().clone();
        let tags = self.tags.as_ref().map(|tags| (tags.positions_of(batch), &tags.texts));
        let tag_of = |cell: usize| {
            let (positions, texts) = tags.as_ref()?;
            Some(Column::Tag(TagColumn::new(positions.clone(), texts.get(cell)?.clone()?)))
        };
        let cells = self.cells.iter().enumerate();
        let column_of = |(number, cell)| tag_of(number).unwrap_or_else(|| self.column_of(cell, batch));
        let mut columns: Vec<Column> = cells.map(column_of).collect();
        let mut keep = shown_rows(&columns[..self.shown], &self.cells[..self.shown], batch.rows);
        if let Some(condition) = &self.condition {
            let satisfied = condition.filter(&columns[self.outputs..], batch.rows)?;
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
            Cell::Tag(key) | Cell::GroupTag(key) => {
                let series = self.measurement.series();
                let value_of = series.values_by_series(key);
                let runs =
                    batch.series.iter().map(|run| (cell.shown_tag(value_of(run.series)), run.rows as usize));
                Column::of_runs(runs, batch.rows)
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
        if matches!(cell, Cell::Tag(_) | Cell::GroupTag(_)) {
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

/// The groups that a limit lets through, in rising order. They are counted in the order of the keys of the tags they
/// have and then of the values, which is not the order they are shown in.
fn limited_groups(values: &GroupValues, tags: &[String], offset: usize, limit: usize) -> Vec<usize> {
    let key = |group: &usize| {
        let present = || tags.iter().zip(values.of(*group)).filter(|(_, value)| !value.is_empty());
        let names = present().map(|(name, _)| name.as_str());
        names.chain(present().map(|(_, value)| value)).collect::<Vec<_>>().join("|")
    };
    let mut groups: Vec<usize> = (0..values.len()).collect();
    groups.sort_by_cached_key(key);
    let mut kept: Vec<usize> = groups.into_iter().skip(offset).take(limit).collect();
    kept.sort_unstable();
    kept
}
