//! What of a scan is asked of the servers.

use crate::cells::series_value;
use crate::error::of_read;
use crate::kudu_tables::{Physical, name_of, stored};
use crate::merge::MergedRows;
use crate::options::KuduOptions;
use crate::rows::{CountedReads, NoRows, Read, RowFilter, Rows, SERIES_LISTED, Source};
use crate::sheets::Sheet;
use crate::state::TableState;
use kudu_client::{Predicate as KuduPredicate, ReadMode, ScanBuilder, TabletScanner, Timestamp};
use nyala_core::schema::{ColumnType, TableSchema};
use nyala_core::store::{Comparison, KeyBound, Predicate, RowSelection, RowStream, ScanRequest, SeriesSet};
use nyala_core::{ColumnId, Result, Value};
use std::collections::{HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

/// What scans of a snapshot read.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) physical: &'a Physical,
    pub(crate) table: &'a TableState,
    pub(crate) at: Timestamp,
    pub(crate) options: &'a KuduOptions,
    pub(crate) reads: &'a Arc<CountedReads>,
}

impl Reader<'_> {
    /// Opens a scan of a validated request forwards by key.
    pub(crate) async fn rows(self, request: &ScanRequest) -> Result<Box<dyn RowStream>> {
        let Some((scan, filter)) = self.plan(request) else { return Ok(Box::new(NoRows)) };
        let source = self.opened(scan).await?;
        Ok(Box::new(Rows::new(source, filter, request.limit, self.reads.clone())))
    }

    /// The same of several sheets of a table of series.
    pub(crate) async fn merged(
        sheets: &[(Sheet, Self)],
        request: &ScanRequest,
    ) -> Result<Box<dyn RowStream>> {
        let [(_, Self { table, .. }), ..] = sheets else { return Ok(Box::new(NoRows)) };
        let schema = &table.schema;
        let mut columns: Vec<ColumnId> = request.columns.clone();
        columns.extend(request.predicates.iter().map(|predicate| predicate.column));
        columns.retain(|id| !schema.is_key(*id));
        columns.sort_unstable();
        columns.dedup();
        let mut places = vec![None; columns.len()];
        let mut opened = Vec::with_capacity(sheets.len());
        for (number, (sheet, reader)) in sheets.iter().enumerate() {
            let mut read = schema.key.clone();
            for (place, column) in places.iter_mut().zip(&columns) {
                if sheet.has(schema, *column) {
                    *place = Some((number, read.len()));
                    read.push(*column);
                }
            }
            let part = ScanRequest::by_key(request.table, request.rows.clone(), read);
            let Some((scan, filter)) = reader.plan(&part) else { return Ok(Box::new(NoRows)) };
            opened.push(Rows::new(reader.opened(scan).await?, filter, None, reader.reads.clone()));
        }
        let filter = sheets[0].1.filter_over(request, &[schema.key.clone(), columns].concat());
        Ok(Box::new(MergedRows::open(opened, filter, places, request.limit).await?))
    }

    async fn opened(self, scan: ScanBuilder) -> Result<Source> {
        let scanner = scan.sorted().open().await.map_err(of_read)?;
        self.reads.add(scanner.tablets(), scanner.tablets());
        Ok(Source::Table(scanner))
    }

    /// The same by tablet: the rows of each are in the order of their keys. With the tablets' hash buckets.
    pub(crate) async fn tablets(self, request: &ScanRequest) -> Result<Vec<(Vec<u32>, Rows)>> {
        let Some((scan, filter)) = self.plan(request) else { return Ok(Vec::new()) };
        let tablets = scan.fault_tolerant().into_tablets().await.map_err(of_read)?;
        let rows = |tablet: TabletScanner| {
            let buckets = tablet.hash_buckets().to_vec();
            (buckets, Rows::new(Source::Tablet(tablet), filter.clone(), request.limit, self.reads.clone()))
        };
        Ok(tablets.into_iter().map(rows).collect())
    }

    /// What the servers are asked, and what becomes of their rows; `None`: no row is selected.
    fn plan(self, request: &ScanRequest) -> Option<(ScanBuilder, Arc<RowFilter>)> {
        let Self { physical, table, at, options, .. } = self;
        let mut columns: Vec<ColumnId> = table.schema.key.clone();
        let mut known: HashSet<ColumnId> = columns.iter().copied().collect();
        let judged = request.predicates.iter().map(|predicate| &predicate.column);
        columns.extend(request.columns.iter().chain(judged).filter(|id| known.insert(**id)));
        let names = columns.iter().filter(|id| physical.place(**id).is_some()).map(|id| name_of(*id));
        let scan = physical.table.scan().project(names);
        let scan = scan.read_mode(ReadMode::Snapshot(Some(at))).timeout(options.read_timeout);
        let scan = select(scan, &table.schema, physical, request)?;
        Some((scan, Arc::new(self.filter_over(request, &columns))))
    }

    /// What becomes of rows of these columns, of which the first are the key.
    fn filter_over(self, request: &ScanRequest, columns: &[ColumnId]) -> RowFilter {
        let schema = &self.table.schema;
        let places: HashMap<ColumnId, usize> =
            columns.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let place = |id: ColumnId| places[&id];
        let wanted: Vec<usize> = request.columns.iter().map(|id| place(*id)).collect();
        let judged = request.predicates.iter();
        let predicates =
            judged.map(|predicate| (place(predicate.column), predicate.comparison.clone())).collect();
        let fields = request.columns.iter().zip(&wanted).filter(|(id, _)| !schema.is_key(**id));
        let not_all_null = request.skip_empty_rows.then(|| fields.map(|(_, place)| *place).collect());
        let read = |id: &ColumnId| {
            let column = schema.column(*id).expect("requests are validated");
            match self.physical.place(*id) {
                Some(_) => Read::Stored(stored(schema, column)),
                None => Read::Absent(column.column_type),
            }
        };
        let read = columns.iter().map(read).collect();
        let (schema, rows) = (schema.clone(), request.rows.clone());
        RowFilter { schema, read, wanted, predicates, not_all_null, rows }
    }
}

/// Conditions that the servers judge exactly as the contract does, or too generously; `None`: no row meets them.
fn select(
    mut scan: ScanBuilder,
    schema: &TableSchema,
    physical: &Physical,
    request: &ScanRequest,
) -> Option<ScanBuilder> {
    let first = name_of(schema.key[0]);
    match &request.rows {
        RowSelection::All => {}
        RowSelection::Series { series, time } => {
            if time.is_empty() {
                return None;
            }
            let time_column = name_of(schema.key[1]);
            scan = scan.filter(KuduPredicate::ge(&time_column, time.start_ns));
            scan = scan.filter(KuduPredicate::lt(&time_column, time.end_ns));
            if let SeriesSet::Ids(ids) = series {
                let (least, most) = (ids.first()?, ids.last()?);
                scan = match ids.len() {
                    1..=SERIES_LISTED => {
                        let listed = ids.iter().map(|id| series_value(id.0));
                        scan.filter(KuduPredicate::in_list(&first, listed))
                    }
                    _ => scan
                        .filter(KuduPredicate::ge(&first, series_value(least.0)))
                        .filter(KuduPredicate::le(&first, series_value(most.0))),
                };
            }
        }
        RowSelection::Keys { start, end } => {
            let key = stored(schema, schema.column(schema.key[0])?);
            let bound = |bound: &KeyBound| match bound {
                Bound::Included(values) | Bound::Excluded(values) => {
                    values.first().and_then(|value| key.value(value))
                }
                Bound::Unbounded => None,
            };
            if let Some(value) = bound(start) {
                scan = scan.filter(KuduPredicate::ge(&first, value));
            }
            if let Some(value) = bound(end) {
                scan = scan.filter(KuduPredicate::le(&first, value));
            }
        }
    }
    for predicate in &request.predicates {
        if physical.place(predicate.column).is_some()
            && let Some(pushed) = pushed(schema, predicate)
        {
            scan = scan.filter(pushed);
        }
    }
    Some(scan)
}

/// A condition for the servers, which no row fails that meets the given one. Servers take NaN for equal to every number; such
/// rows are left out here.
fn pushed(schema: &TableSchema, predicate: &Predicate) -> Option<KuduPredicate> {
    let column = schema.column(predicate.column)?;
    let stored = stored(schema, column);
    let name = name_of(column.id);
    // A number may have no exact counterpart of 32 bits.
    let can_be_compared = |value: &Value| match value {
        Value::Float(number) => !number.is_nan() && column.column_type != ColumnType::Float32,
        _ => true,
    };
    let value = |value: &Value| stored.value(value).filter(|_| can_be_compared(value));
    Some(match &predicate.comparison {
        Comparison::IsNull if !stored.is_key => KuduPredicate::is_null(&name),
        Comparison::IsNotNull if !stored.is_key => KuduPredicate::is_not_null(&name),
        Comparison::Equal(other) => KuduPredicate::eq(&name, value(other)?),
        Comparison::Less(other) => KuduPredicate::lt(&name, value(other)?),
        Comparison::LessOrEqual(other) => KuduPredicate::le(&name, value(other)?),
        Comparison::Greater(other) => KuduPredicate::gt(&name, value(other)?),
        Comparison::GreaterOrEqual(other) => KuduPredicate::ge(&name, value(other)?),
        _ => return None,
    })
}
