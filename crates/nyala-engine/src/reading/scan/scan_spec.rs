//! Which columns a request reads and which it returns.

use crate::files::rowset::gather::BlockTest;
use crate::rows::column_buffer::Column;
use crate::rows::projection::Projection;
use arrow_array::ArrayRef;
use arrow_buffer::BooleanBuffer;
use hashbrown::HashMap;
use nyala_core::store::{Predicate, Prefilter};
use nyala_core::{ColumnId, ColumnType, Result, TableSchema};
use std::sync::Arc;

/// Up to this many columns are searched one by one instead of in a hash table.
const FEW_COLUMNS: usize = 16;

/// Where a returned or tested column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// From the key: the key column at this position.
    Key(usize),
    /// From the columns outside the key: the one at this position of the projection.
    Cell(usize),
}

/// How many columns of a projection have to be read to have some of them: the first ones.
fn cells_of<'a>(sources: impl Iterator<Item = &'a ColumnSource>) -> usize {
    let cells = sources.filter_map(|source| match source {
        ColumnSource::Cell(position) => Some(position + 1),
        ColumnSource::Key(_) => None,
    });
    cells.max().unwrap_or(0)
}

/// Columns of a request, resolved.
#[derive(Debug, Clone)]
pub(crate) struct ScanSpec {
    /// The columns outside the key to read, those of predicates first.
    pub(crate) projection: Projection,
    /// How many of them predicates test: the first ones.
    pub(crate) tested: usize,
    /// The columns to return.
    pub(crate) output: Vec<(ColumnSource, ColumnType)>,
    /// The conditions, each with the column that it tests.
    pub(crate) predicates: Vec<(ColumnSource, ColumnType, Predicate)>,
    /// Whether rows are left out that have no value in any returned column outside the key.
    pub(crate) skip_empty_rows: bool,
    /// What the caller tests, if it saves reading other columns.
    pub(crate) prefilter: Option<ResolvedPrefilter>,
}

/// A condition that the caller tests, with the columns that it looks at.
#[derive(Debug, Clone)]
pub(crate) struct ResolvedPrefilter {
    pub(crate) prefilter: Arc<dyn Prefilter>,
    pub(crate) columns: Vec<(ColumnSource, ColumnType)>,
    /// How many of the columns of the projection are to be read for it and for predicates: the first ones.
    pub(crate) cells: usize,
}

impl ResolvedPrefilter {
    /// Which rows are of use, if it can say, by the columns that were read for it and those of the key.
    pub(crate) fn keep(
        &self,
        cells: &[Column],
        key: impl Fn(usize) -> Column,
    ) -> Result<Option<BooleanBuffer>> {
        let array = |(source, column_type): &(ColumnSource, ColumnType)| {
            let column = match source {
                ColumnSource::Key(position) => key(*position),
                ColumnSource::Cell(position) => cells[*position].clone(),
            };
            column.into_array(*column_type)
        };
        let columns: Vec<ArrayRef> = self.columns.iter().map(array).collect::<Result<_>>()?;
        Ok(self.prefilter.keep(&columns))
    }
}

impl ScanSpec {
    /// Resolves columns that were validated.
    pub(crate) fn new(
        schema: &TableSchema,
        columns: &[ColumnId],
        predicates: &[Predicate],
        skip_empty_rows: bool,
        prefilter: Option<&Arc<dyn Prefilter>>,
    ) -> Self {
        let mut read: Vec<(ColumnId, ColumnType)> = Vec::new();
        // Positions of the columns beyond the first few.
        let mut positions: HashMap<ColumnId, usize> = HashMap::new();
        let mut resolve = |id: ColumnId| {
            let column_type = schema.column(id).expect("requests are validated").column_type;
            let source = match schema.key.iter().position(|key| *key == id) {
                Some(position) => ColumnSource::Key(position),
                None => {
                    let known = read.iter().take(FEW_COLUMNS).position(|(other, _)| *other == id);
                    ColumnSource::Cell(known.or_else(|| positions.get(&id).copied()).unwrap_or_else(|| {
                        if read.len() >= FEW_COLUMNS {
                            positions.insert(id, read.len());
                        }
                        read.push((id, column_type));
                        read.len() - 1
                    }))
                }
            };
            (source, column_type)
        };
        let predicates: Vec<_> = predicates
            .iter()
            .map(|predicate| {
                let (source, column_type) = resolve(predicate.column);
                (source, column_type, predicate.clone())
            })
            .collect();
        let tested = cells_of(predicates.iter().map(|(source, ..)| source));
        let prefilter = prefilter.map(|prefilter| {
            let columns: Vec<_> = prefilter.columns().iter().map(|id| resolve(*id)).collect();
            let cells = tested.max(cells_of(columns.iter().map(|(source, _)| source)));
            ResolvedPrefilter { prefilter: prefilter.clone(), columns, cells }
        });
        let output = columns.iter().map(|id| resolve(*id)).collect();
        let projection = Projection::new(read);
        // With nothing left to be read, the caller's own test is as good.
        let prefilter = prefilter.filter(|own| own.cells < projection.kinds.len());
        Self { projection, tested, output, predicates, skip_empty_rows, prefilter }
    }

    /// The conditions as tests of blocks, each with the position of its column in the projection. `None` if blocks cannot
    /// decide all of them.
    pub(crate) fn block_tests(&self) -> Option<Vec<(usize, BlockTest)>> {
        let test = |(source, column_type, predicate): &(ColumnSource, ColumnType, Predicate)| match source {
            ColumnSource::Cell(position) => Some((*position, BlockTest::of(*column_type, predicate)?)),
            ColumnSource::Key(_) => None,
        };
        self.predicates.iter().map(test).collect()
    }

    /// Whether rows are tested at all.
    pub(crate) fn filters(&self) -> bool {
        !self.predicates.is_empty() || self.skip_empty_rows
    }

    /// Those of the columns read (`cells`) that are returned.
    pub(crate) fn returned_cells<'a>(&'a self, cells: &'a [Column]) -> impl Iterator<Item = &'a Column> {
        self.output.iter().filter_map(|(source, _)| match source {
            ColumnSource::Cell(position) => Some(&cells[*position]),
            ColumnSource::Key(_) => None,
        })
    }

    /// The returned columns, taken from the columns read (`cells`) and the key columns.
    pub(crate) fn arrays(
        &self,
        cells: Vec<Column>,
        mut key: impl FnMut(usize) -> Column,
    ) -> Result<Vec<ArrayRef>> {
        let mut cells: Vec<Option<Column>> = cells.into_iter().map(Some).collect();
        let mut uses: Vec<usize> = vec![0; cells.len()];
        for (source, _) in &self.output {
            if let ColumnSource::Cell(position) = source {
                uses[*position] += 1;
            }
        }
        self.output
            .iter()
            .map(|(source, column_type)| {
                let column = match source {
                    ColumnSource::Key(position) => key(*position),
                    ColumnSource::Cell(position) => {
                        uses[*position] -= 1;
                        let cells = &mut cells[*position];
                        if uses[*position] == 0 { cells.take() } else { cells.clone() }
                            .expect("taken with its last use")
                    }
                };
                column.into_array(*column_type)
            })
            .collect()
    }
}
