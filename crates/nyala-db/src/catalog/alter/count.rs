//! What a change of a measurement concerns, before it is made.

use super::tag::tables_with_tag;
use super::{AlteredMeasurement, MeasurementChange, Place, check_part, has_field, lacks};
use crate::catalog::{Catalog, Field, Measurement, add_shards, shard_starts, times_of};
use crate::series::TagFilter;
use nyala_core::schema::TIME_COLUMN;
use nyala_core::store::{RowSelection, ScanRequest, SeriesSet};
use nyala_core::{ColumnId, Error, Result, SeriesId, TimeRange};
use roaring::RoaringBitmap;
use std::collections::BTreeSet;

/// How much of a measurement a change concerns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AlterCounts {
    /// The retention policy.
    pub policy: String,
    /// Series with such points.
    pub series: u64,
    /// Points that have the field or the tag, or all.
    pub points: u64,
    /// Shards with such points.
    pub shards: u64,
}

impl Catalog {
    /// Counts what a change concerns, by retention policy. Everything that can be wrong with it is found, as far as nothing
    /// changes meanwhile.
    pub async fn would_alter(
        &self,
        altered: AlteredMeasurement<'_>,
        change: &MeasurementChange,
        check: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<Vec<AlterCounts>> {
        let places = self.load_altered(altered).await?;
        let mut all = Vec::new();
        match change {
            MeasurementChange::Rename { to: name, .. } | MeasurementChange::AddAlias(name) => {
                if altered.name == name {
                    return Err(Error::invalid(format!("measurement {name:?} has this name already")));
                }
                self.check_free(&places, name)?;
            }
            MeasurementChange::DropAlias(_) => {}
            MeasurementChange::RenameTag { from, to } => drop(tables_with_tag(&places, from, to)?),
            MeasurementChange::FieldType { field, to } => {
                self.check_convertible(&places, field, *to, check).await?;
            }
            MeasurementChange::RenameField { from, to } => {
                let with_field: Vec<&Place> = places.iter().filter(|(_, own)| has_field(own, from)).collect();
                if with_field.is_empty() {
                    return Err(lacks(&places[0].1, "field", from));
                }
                with_field.iter().try_for_each(|(_, own)| check_part(own, "field", from, to))?;
            }
        }
        for ((_, policy), own) in &places {
            let columns = |is_concerned: &dyn Fn(&Field) -> bool| -> Option<Vec<ColumnId>> {
                let fields = own.fields();
                Some(fields.iter().filter(|own| is_concerned(own)).map(|own| own.column).collect())
            };
            let mut tags = TagFilter::All;
            let columns = match change {
                MeasurementChange::RenameField { from, .. } => columns(&|own| own.name == *from),
                MeasurementChange::FieldType { field, to } => {
                    columns(&|own| own.name == *field && own.field_type != *to)
                }
                MeasurementChange::RenameTag { from, .. } => {
                    tags = TagFilter::NotEqual(from.clone(), String::new());
                    None
                }
                _ => None,
            };
            let mut counts = self.count_concerned(own, tags, columns).await?;
            counts.policy.clone_from(policy);
            all.push(counts);
        }
        Ok(all)
    }

    /// Counts points of series that a filter selects, and if columns are given only those that have a value of one.
    pub(super) async fn count_concerned(
        &self,
        measurement: &Measurement,
        tags: TagFilter,
        columns: Option<Vec<ColumnId>>,
    ) -> Result<AlterCounts> {
        let _pin = self.reload_series(measurement, TimeRange::ALL, &tags).await?;
        let selected = measurement.series().select(&tags);
        if columns.as_ref().is_some_and(Vec::is_empty) || selected.is_empty() {
            return Ok(AlterCounts::default());
        }
        let series = SeriesSet::Ids(selected.iter().map(SeriesId).collect());
        let rows = RowSelection::Series { series, time: TimeRange::ALL };
        let with_values = columns.is_some();
        let columns = std::iter::once(TIME_COLUMN).chain(columns.into_iter().flatten()).collect();
        let request = ScanRequest {
            skip_empty_rows: with_values,
            ..ScanRequest::by_key(measurement.table(), rows, columns)
        };
        let snapshot = self.snapshot().await?;
        let (mut counts, mut found, mut shards) =
            (AlterCounts::default(), RoaringBitmap::new(), BTreeSet::new());
        let Some(mut stream) = measurement.scan(&snapshot, request).await? else { return Ok(counts) };
        let starts = shard_starts(measurement.stored(), &snapshot).await?;
        while let Some(batch) = stream.next().await? {
            counts.points += batch.rows as u64;
            found.extend(batch.series.iter().map(|run| run.series.0));
            add_shards(&mut shards, times_of(&batch), &starts);
        }
        (counts.series, counts.shards) = (found.len(), shards.len() as u64);
        Ok(counts)
    }
}
