//! Reads the rows of a group of a measurement: which columns of the store a query needs, and what it makes of them.

use super::row_batch::{RowBatch, cast, coalesce};
use crate::plan::{PointLimit, Reference, ReferenceKind, fields_named};
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use nyala_core::store::{Batch, RowStream, SeriesRun};
use nyala_core::{ColumnId, Result, SeriesId, TableSchema, before_long_work};
use nyala_db::catalog::{Field, Measurement};
use nyala_db::series::{Numbers, TagWords};
use nyala_exec::expression::Expression;
use nyala_exec::tag::{NO_TEXT, TagColumn, TagTexts};
use nyala_exec::{Column, Distinct, SeriesNumbers, ValueType};
use std::sync::Arc;

/// The columns of a scan.
pub struct ScanColumns<'a> {
    fields: Arc<Vec<Field>>,
    /// The table in the snapshot: the column of a field may be newer than the snapshot.
    schema: Option<&'a TableSchema>,
    /// The columns that the scan reads, time not among them.
    pub columns: Distinct<ColumnId>,
}

/// Where the values of a reference come from.
pub enum ColumnSource {
    /// The tag of the row's series, or NULL.
    Tag(String),
    /// The tag of the row's series.
    GroupTag(String),
    /// The columns of a field, one for each of its types, by position after the time column; and the type they are cast to.
    Field(Vec<usize>, ValueType),
    /// No field or tag has the name.
    Nothing,
}

impl<'a> ScanColumns<'a> {
    /// For what a measurement has in a snapshot.
    pub fn of(measurement: &Measurement, schema: Option<&'a TableSchema>) -> Self {
        Self { fields: measurement.fields(), schema, columns: Distinct::default() }
    }

    /// Where the values of a reference come from.
    pub fn source(&mut self, reference: &Reference) -> ColumnSource {
        match reference.kind {
            ReferenceKind::Nothing => return ColumnSource::Nothing,
            ReferenceKind::Tag => return ColumnSource::Tag(reference.name.clone()),
            ReferenceKind::GroupTag => return ColumnSource::GroupTag(reference.name.clone()),
            ReferenceKind::Field(_) | ReferenceKind::AnyField => {}
        }
        let mut positions = Vec::new();
        let mut strongest: Option<ValueType> = None;
        let is_there =
            |field: &&Field| self.schema.is_some_and(|schema| schema.column(field.column).is_some());
        for field in fields_named(&self.fields, &reference.name).iter().filter(is_there) {
            let here = ValueType::of_field(field.field_type);
            strongest = Some(strongest.map_or(here, |found| found.min(here)));
            positions.push(self.columns.position(field.column));
        }
        match (reference.kind, strongest) {
            (ReferenceKind::Field(wanted), Some(_)) | (_, Some(wanted)) => {
                ColumnSource::Field(positions, wanted)
            }
            _ => ColumnSource::Nothing,
        }
    }
}

/// The tags of the series that are read, looked up once per series.
pub struct Tags {
    positions: SeriesNumbers,
    /// For each source the texts of the series, if it is a tag.
    texts: Vec<Option<Arc<TagTexts>>>,
}

impl Tags {
    /// Looks up the tags among `sources` of all series.
    pub fn of(measurement: &Measurement, members: &[SeriesId], sources: &[ColumnSource]) -> Self {
        let series = measurement.series();
        let words: Vec<TagWords<'_>> = members.iter().map(|id| series.tag_words(*id)).collect();
        let texts = sources.iter().map(|source| {
            let (ColumnSource::Tag(key) | ColumnSource::GroupTag(key)) = source else { return None };
            let values = series.tag_values(key);
            let mut known = Numbers::of(values.count(), members.len());
            // The number of each series' value here, and the distinct values.
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
            Some(Arc::new(TagTexts::new(numbers, texts, |text| source.shown_tag(text))))
        });
        Self { texts: texts.collect(), positions: SeriesNumbers::numbered(members.iter().copied()) }
    }

    /// The position of the series of each row of a batch.
    fn positions_of(&self, batch: &Batch) -> ScalarBuffer<u32> {
        let mut positions = Vec::with_capacity(batch.rows);
        for run in &batch.series {
            positions.resize(positions.len() + run.rows as usize, self.positions.number(run.series));
        }
        positions.into()
    }
}

impl ColumnSource {
    /// What is shown of the value of a tag: an absent tag is NULL, unless rows are grouped by it.
    fn shown_tag<'a>(&self, value: &'a str) -> Option<&'a str> {
        (!matches!(self, ColumnSource::Tag(_)) || !value.is_empty()).then_some(value)
    }
}

/// Reads the rows of one group of a measurement.
pub struct MeasurementReader {
    pub(super) stream: Box<dyn RowStream>,
    pub(super) begun: bool,
    pub(super) points: Option<Arc<PointLimit>>,
    pub(super) measurement: Arc<Measurement>,
    pub(super) sources: Vec<ColumnSource>,
    /// The tags among the outputs, if they are looked up once per series.
    pub(super) tags: Option<Tags>,
    pub(super) condition: Option<Expression>,
    pub(super) outputs: usize,
    pub(super) shown: usize,
}

impl MeasurementReader {
    /// The next rows, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<RowBatch>> {
        while let Some(batch) = self.next_batch().await? {
            let (rows, _) = self.rows_of(&batch)?;
            if !rows.times_ns.is_empty() {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// The next rows and which series they belong to, or `None` at the end.
    pub async fn next_runs(&mut self) -> Result<Option<(RowBatch, Vec<SeriesRun>)>> {
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

    /// The next batch. Before every batch but the first the query may be cancelled, or move to another thread.
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

    /// The rows of a batch that are shown, and which these are unless all.
    fn rows_of(&self, batch: &Batch) -> Result<(RowBatch, Option<BooleanBuffer>)> {
        let times_ns = batch.columns[0].as_primitive::<TimestampNanosecondType>().values().clone();
        let tags = self.tags.as_ref().map(|tags| (tags.positions_of(batch), &tags.texts));
        let tag_of = |source: usize| {
            let (positions, texts) = tags.as_ref()?;
            Some(Column::Tag(TagColumn::new(positions.clone(), texts.get(source)?.clone()?)))
        };
        let sources = self.sources.iter().enumerate();
        let column_of = |(number, source)| tag_of(number).unwrap_or_else(|| self.column_of(source, batch));
        let mut columns: Vec<Column> = sources.map(column_of).collect();
        let mut keep = shown_rows(&columns[..self.shown], &self.sources[..self.shown], batch.rows);
        if let Some(condition) = &self.condition {
            let satisfied = condition.filter(&columns[self.outputs..], batch.rows)?;
            keep = Some(match keep {
                Some(keep) => &keep & &satisfied,
                None => satisfied,
            });
        }
        columns.truncate(self.outputs);
        let rows = RowBatch { times_ns, columns };
        Ok(match keep {
            Some(keep) if keep.count_set_bits() < batch.rows => (rows.filter(&keep), Some(keep)),
            _ => (rows, None),
        })
    }

    fn column_of(&self, source: &ColumnSource, batch: &Batch) -> Column {
        match source {
            ColumnSource::Nothing => Column::Null(batch.rows),
            ColumnSource::Tag(key) | ColumnSource::GroupTag(key) => {
                let series = self.measurement.series();
                let value_of = series.values_by_series(key);
                let runs = batch
                    .series
                    .iter()
                    .map(|run| (source.shown_tag(value_of(run.series)), run.rows as usize));
                Column::of_runs(runs, batch.rows)
            }
            ColumnSource::Field(positions, wanted) => {
                let casts = positions
                    .iter()
                    .map(|position| cast(Column::from_array(&batch.columns[position + 1]), *wanted));
                coalesce(casts.collect())
            }
        }
    }
}

/// The rows that have a value among the fields shown; `None`: all.
fn shown_rows(columns: &[Column], sources: &[ColumnSource], rows: usize) -> Option<BooleanBuffer> {
    let mut shown: Option<BooleanBuffer> = None;
    for (column, source) in columns.iter().zip(sources) {
        if matches!(source, ColumnSource::Tag(_) | ColumnSource::GroupTag(_)) {
            continue;
        }
        let valid = column.nulls()?.into_inner();
        shown = Some(match shown {
            Some(shown) => &shown | &valid,
            None => valid,
        });
    }
    // Without any field no row is shown.
    Some(shown.unwrap_or_else(|| BooleanBuffer::new_unset(rows)))
}
