//! Which columns a request reads and which it returns.

use crate::files::rowset::gather::BlockTest;
use crate::rows::column_buffer::Column;
use crate::rows::projection::Projection;
use arrow_array::ArrayRef;
use hashbrown::HashMap;
use nyala_core::store::Predicate;
use nyala_core::{ColumnId, ColumnType, Result, TableSchema};

/// Up to so many columns are searched one by one instead of in a hash table.
const FEW_COLUMNS: usize = 16;

/// Where a returned or tested column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnSource {
    /// From the key: this key column.
    Key(usize),
    /// From the cells read: this position.
    Cell(usize),
}

/// Columns of a request, resolved.
#[derive(Debug, Clone)]
pub(crate) struct ScanSpec {
    /// Cells to read, those of predicates first.
    pub(crate) projection: Projection,
    /// How many of them predicates need.
    pub(crate) tested: usize,
    /// The columns to return.
    pub(crate) output: Vec<(ColumnSource, ColumnType)>,
    /// Conditions by place.
    pub(crate) predicates: Vec<(ColumnSource, ColumnType, Predicate)>,
    /// Leave out rows whose returned cells outside the key are all without a value.
    pub(crate) skip_empty_rows: bool,
}

impl ScanSpec {
    /// Resolves columns that were validated.
    pub(crate) fn new(
        schema: &TableSchema,
        columns: &[ColumnId],
        predicates: &[Predicate],
        skip_empty_rows: bool,
    ) -> Self {
        let mut read: Vec<(ColumnId, ColumnType)> = Vec::new();
        // Positions of the columns beyond the first few.
        let mut places: HashMap<ColumnId, usize> = HashMap::new();
        let mut place = |id: ColumnId| {
            let column_type = schema.column(id).expect("requests are validated").column_type;
            let place = match schema.key.iter().position(|key| *key == id) {
                Some(position) => ColumnSource::Key(position),
                None => {
                    let known = read.iter().take(FEW_COLUMNS).position(|(other, _)| *other == id);
                    ColumnSource::Cell(known.or_else(|| places.get(&id).copied()).unwrap_or_else(|| {
                        if read.len() >= FEW_COLUMNS {
                            places.insert(id, read.len());
                        }
                        read.push((id, column_type));
                        read.len() - 1
                    }))
                }
            };
            (place, column_type)
        };
        let predicates: Vec<_> = predicates
            .iter()
            .map(|predicate| {
                let (place, column_type) = place(predicate.column);
                (place, column_type, predicate.clone())
            })
            .collect();
        let cells = predicates.iter().filter_map(|(place, ..)| match place {
            ColumnSource::Cell(position) => Some(position + 1),
            ColumnSource::Key(_) => None,
        });
        let tested = cells.max().unwrap_or(0);
        let output = columns.iter().map(|id| place(*id)).collect();
        Self { projection: Projection::new(read), tested, output, predicates, skip_empty_rows }
    }

    /// The conditions as tests of blocks, each with the cell it is about; `None`: blocks cannot answer some of them.
    pub(crate) fn block_tests(&self) -> Option<Vec<(usize, BlockTest)>> {
        let test = |(place, column_type, predicate): &(ColumnSource, ColumnType, Predicate)| match place {
            ColumnSource::Cell(position) => Some((*position, BlockTest::of(*column_type, predicate)?)),
            ColumnSource::Key(_) => None,
        };
        self.predicates.iter().map(test).collect()
    }

    /// Whether rows are tested at all.
    pub(crate) fn filters(&self) -> bool {
        !self.predicates.is_empty() || self.skip_empty_rows
    }

    /// The returned columns among cells.
    pub(crate) fn returned_cells<'a>(&'a self, cells: &'a [Column]) -> impl Iterator<Item = &'a Column> {
        self.output.iter().filter_map(|(place, _)| match place {
            ColumnSource::Cell(position) => Some(&cells[*position]),
            ColumnSource::Key(_) => None,
        })
    }

    /// The returned columns out of cells and key columns.
    pub(crate) fn arrays(
        &self,
        cells: Vec<Column>,
        mut key: impl FnMut(usize) -> Column,
    ) -> Result<Vec<ArrayRef>> {
        let mut cells: Vec<Option<Column>> = cells.into_iter().map(Some).collect();
        let mut uses: Vec<usize> = vec![0; cells.len()];
        for (place, _) in &self.output {
            if let ColumnSource::Cell(position) = place {
                uses[*position] += 1;
            }
        }
        self.output
            .iter()
            .map(|(place, column_type)| {
                let column = match place {
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
