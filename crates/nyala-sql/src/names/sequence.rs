//! A sequence as a table of one row, which says where it is.

use arrow_array::{BooleanArray, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::{MemTable, TableType};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use nyala_db::catalog::Catalog;
use nyala_db::relations::SequenceDefinition;
use std::fmt;
use std::sync::Arc;

/// The row is read when it is scanned, not when it is planned.
pub(super) struct SequenceTable {
    catalog: Arc<Catalog>,
    sequence: SequenceDefinition,
    schema: SchemaRef,
}

impl SequenceTable {
    pub(super) fn of(catalog: Arc<Catalog>, sequence: &SequenceDefinition) -> Self {
        let schema = Arc::new(Schema::new(vec![
            Field::new("last_value", DataType::Int64, false),
            Field::new("log_cnt", DataType::Int64, false),
            Field::new("is_called", DataType::Boolean, false),
        ]));
        Self { catalog, sequence: sequence.clone(), schema }
    }
}

impl fmt::Debug for SequenceTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SequenceTable({})", self.sequence.id)
    }
}

#[async_trait]
impl TableProvider for SequenceTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sequences = self.catalog.relations().sequences();
        let state = sequences.state(&self.sequence).await;
        let state = state.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let row = RecordBatch::try_new(
            self.schema.clone(),
            vec![
                Arc::new(Int64Array::from(vec![state.last])),
                Arc::new(Int64Array::from(vec![0])),
                Arc::new(BooleanArray::from(vec![state.is_called])),
            ],
        )?;
        MemTable::try_new(self.schema.clone(), vec![vec![row]])?
            .scan(session, projection, filters, limit)
            .await
    }
}
