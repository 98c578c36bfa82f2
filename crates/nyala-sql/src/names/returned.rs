//! What changes in WITH have returned, as tables for the other parts of their statement.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session, TableProvider};
use datafusion::datasource::{MemTable, TableType};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use nyala_exec::memory::MemoryCharge;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The schema that they are in. Only statements that have such parts know it.
pub(crate) const RETURNED: &str = "with changes";

/// The tables of a statement that is being planned, by name.
#[derive(Debug, Clone, Default)]
pub(crate) struct ReturnedTables(Arc<HashMap<String, Arc<ReturnedTable>>>);

/// A table whose rows come when the change is executed.
pub(crate) struct ReturnedTable {
    schema: SchemaRef,
    rows: Mutex<Vec<RecordBatch>>,
}

/// The rows of a table, which it has until this is dropped: the table stays with the plans of its statement.
pub(crate) struct FilledTable {
    table: Arc<ReturnedTable>,
    /// Their memory.
    _held: MemoryCharge,
}

impl Drop for FilledTable {
    fn drop(&mut self) {
        self.table.set(Vec::new());
    }
}

impl ReturnedTables {
    /// These and another one.
    pub(crate) fn with(&self, name: &str, table: Arc<ReturnedTable>) -> Self {
        let mut all = (*self.0).clone();
        all.insert(name.to_owned(), table);
        Self(Arc::new(all))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl ReturnedTable {
    pub(crate) fn of(schema: SchemaRef) -> Self {
        Self { schema, rows: Mutex::default() }
    }

    /// Gives it rows, whose memory is charged.
    pub(crate) fn fill(self: &Arc<Self>, rows: Vec<RecordBatch>, held: MemoryCharge) -> FilledTable {
        self.set(rows);
        FilledTable { table: self.clone(), _held: held }
    }

    fn set(&self, rows: Vec<RecordBatch>) {
        *self.rows.lock().unwrap_or_else(PoisonError::into_inner) = rows;
    }
}

impl fmt::Debug for ReturnedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReturnedTable")
    }
}

#[async_trait]
impl SchemaProvider for ReturnedTables {
    fn table_names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.0.get(name).map(|table| table.clone() as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
}

#[async_trait]
impl TableProvider for ReturnedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let rows = MemTable::try_new(self.schema.clone(), vec![rows])?;
        rows.scan(session, projection, filters, limit).await
    }
}
