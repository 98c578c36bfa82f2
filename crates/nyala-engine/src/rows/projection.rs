//! Which columns are read: memtables and rowsets are read by the same projection.

use crate::rows::column_buffer::{Column, Kind};
use nyala_core::{ColumnId, ColumnType};
use std::sync::Arc;

/// The columns outside the key that a reader asks for.
#[derive(Debug, Clone)]
pub(crate) struct Projection {
    /// With their types.
    pub(crate) columns: Vec<(ColumnId, ColumnType)>,
    /// Their kinds.
    pub(crate) kinds: Vec<Kind>,
    /// If strings are among them: the same columns as words, which are addresses of the strings.
    pub(crate) addresses: Option<Arc<Projection>>,
}

impl Projection {
    pub(crate) fn new(columns: Vec<(ColumnId, ColumnType)>) -> Self {
        let kinds: Vec<Kind> = columns.iter().map(|(_, column_type)| Kind::of(*column_type)).collect();
        let addresses = kinds.contains(&Kind::Bytes).then(|| {
            let kinds = vec![Kind::Word; columns.len()];
            Arc::new(Self { columns: columns.clone(), kinds, addresses: None })
        });
        Self { columns, kinds, addresses }
    }

    /// The first ones, without rows.
    pub(crate) fn empty_columns(&self, count: usize) -> Vec<Column> {
        self.kinds[..count].iter().map(|kind| Column::new(*kind)).collect()
    }

    /// No column: for readers of keys.
    pub(crate) fn keys_only() -> Self {
        Self::new(Vec::new())
    }
}
