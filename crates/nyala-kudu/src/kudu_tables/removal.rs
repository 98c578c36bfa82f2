//! Ranges of sheets that are dropped from the cluster.
//!
//! The masters say that a range is gone before its servers delete the tablets, and these take writes until then. Whoever has not
//! heard of the drop would lose what it writes there after the drop was acknowledged. So a drop ends when too few replicas are
//! left to take a write.

use super::{Follows, PhysicalTables, name_of, partition, time_column};
use crate::error::{of_read, of_write};
use crate::sheets::{self, Sheet};
use crate::state::{RangeState, TableState};
use kudu_client::{ErrorKind as KuduKind, Predicate, Table, TabletScanner};
use nyala_core::schema::TableSchema;
use nyala_core::{Error, Result, TableId, TimeRange};
use std::time::Duration;
use tokio::time::Instant;

/// Servers delete the tablets of a range that was dropped so long at most, before the drop is given up.
const DELETED_WITHIN: Duration = Duration::from_secs(30);

impl PhysicalTables {
    /// Drops ranges with their rows. The cluster is asked to do so until a moment, and not afterwards.
    pub(crate) async fn drop_ranges(
        &self,
        table: TableId,
        state: &TableState,
        ranges: &[RangeState],
        until: Instant,
    ) -> Result<()> {
        for sheet in sheets::all(table, &state.schema) {
            let its: Vec<RangeState> = sheet.ranges(ranges).collect();
            if !its.is_empty() {
                self.drop_ranges_of(sheet, state, &its, until).await?;
            }
        }
        Ok(())
    }

    /// The same of one sheet.
    pub(crate) async fn drop_ranges_of(
        &self,
        id: Sheet,
        state: &TableState,
        ranges: &[RangeState],
        until: Instant,
    ) -> Result<()> {
        let slot = self.slot(id);
        let schema = &*state.schema;
        let _changing = slot.changing.lock().await;
        let known = match slot.covering(schema) {
            Some(known) => Some(known),
            None => self.open(id, state, &slot, Follows::NewColumns).await?,
        };
        let Some(known) = known else { return Ok(()) };
        let tablets = self.tablets_of(&known.table, schema, ranges).await?;
        let mut deleted = Vec::new();
        for (range, tablets) in ranges.iter().zip(tablets) {
            slot.ranges.lock().remove(&range.number);
            if Instant::now() >= until {
                return Err(Error::retry(format!("ranges of table {} take too long to drop", id.table)));
            }
            match known.table.alter().drop_range(&partition(schema, range.time)).apply().await {
                Ok(_) => deleted.extend(tablets),
                // It was never made, or is gone already, or something else is wrong.
                Err(error) if matches!(error.kind(), KuduKind::NotFound | KuduKind::InvalidArgument) => {
                    if ranges_in_cluster(&known.table).await?.contains(&range.time) {
                        return Err(of_write(error));
                    }
                    tracing::debug!(%error, "a range that is not there was dropped");
                }
                Err(error) => return Err(of_write(error)),
            }
        }
        known.table.forget_locations();
        let deadline = until + DELETED_WITHIN;
        for tablet in deleted {
            let left = deadline.saturating_duration_since(Instant::now());
            tablet.wait_until_deleted(left).await.map_err(of_write)?;
        }
        Ok(())
    }

    /// The tablets of each range, as far as they are there.
    async fn tablets_of(
        &self,
        table: &Table,
        schema: &TableSchema,
        ranges: &[RangeState],
    ) -> Result<Vec<Vec<TabletScanner>>> {
        let Some(column) = time_column(schema) else {
            return Ok(ranges.iter().map(|_| Vec::new()).collect());
        };
        table.forget_locations();
        let mut tablets = Vec::with_capacity(ranges.len());
        for range in ranges {
            let time = name_of(column);
            let scan = table.scan().filter(Predicate::ge(&time, range.time.start_ns));
            let scan = scan.filter(Predicate::lt(&time, range.time.end_ns));
            tablets.push(match scan.timeout(self.options.read_timeout).into_tablets().await {
                Err(error) if error.kind() == KuduKind::NotFound => Vec::new(),
                found => found.map_err(of_read)?,
            });
        }
        Ok(tablets)
    }
}

/// The ranges that a sheet has in the cluster, whatever the log says; none, if it is gone.
pub(crate) async fn ranges_in_cluster(table: &Table) -> Result<Vec<TimeRange>> {
    let found = match table.int64_ranges().await {
        Err(error) if error.kind() == KuduKind::NotFound => Vec::new(),
        found => found.map_err(of_read)?,
    };
    let range = |(start, end): (Option<i64>, Option<i64>)| {
        TimeRange::new(start.unwrap_or(i64::MIN), end.unwrap_or(i64::MAX))
    };
    Ok(found.into_iter().map(range).collect())
}
