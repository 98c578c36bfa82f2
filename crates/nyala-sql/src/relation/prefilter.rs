//! Conditions that nodes above a scan will test, told to the store: it need not read other columns of rows that fail them.
//!
//! Some are in the plan, as `url LIKE '%google%'`. Others are found out while it is executed: a join knows which values it looks
//! for, and a sort with a limit which is the last of the first rows so far. Whoever told them tests them again, so nothing depends
//! on their being used.

use super::columns::TableColumns;
use super::shown::shown_as;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, conjunction, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;
use nyala_core::ColumnId;
use nyala_core::store::Prefilter;
use std::sync::Arc;

/// What nodes above a scan will test.
#[derive(Debug, Clone, Default)]
pub(super) struct PushedTests {
    of_plan: Vec<Arc<dyn PhysicalExpr>>,
    /// They belong to one execution.
    of_execution: Vec<Arc<dyn PhysicalExpr>>,
}

impl PushedTests {
    /// With more of them; not what may say something else when it is asked again.
    pub(super) fn with(&self, phase: FilterPushdownPhase, mut tests: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        tests.retain(|test| !is_volatile(test));
        let mut all = self.clone();
        match phase {
            FilterPushdownPhase::Pre => all.of_plan.extend(tests),
            FilterPushdownPhase::Post => all.of_execution.extend(tests),
        }
        all
    }

    /// Those that another execution has, too.
    pub(super) fn of_plan(&self) -> Self {
        Self { of_plan: self.of_plan.clone(), of_execution: Vec::new() }
    }

    /// They as a test of rows, whose columns and types a scan shows as `schema`.
    pub(super) fn prefilter(&self, columns: &TableColumns, schema: &SchemaRef) -> Option<Arc<dyn Prefilter>> {
        let tests: Vec<_> = self.of_plan.iter().chain(&self.of_execution).cloned().collect();
        if tests.is_empty() {
            return None;
        }
        let all = conjunction(tests);
        let mut places: Vec<usize> = collect_columns(&all).iter().map(|column| column.index()).collect();
        places.sort_unstable();
        let schema = Arc::new(schema.project(&places).ok()?);
        let id = |name: &str| Some(columns.columns[columns.position(name)?].id);
        let ids: Option<Vec<ColumnId>> = schema.fields().iter().map(|field| id(field.name())).collect();
        let (columns, test) = (ids?, reassign_expr_columns(all, &schema).ok()?);
        Some(Arc::new(TestedColumns { columns, schema, test }))
    }
}

/// A test of some columns.
#[derive(Debug)]
struct TestedColumns {
    columns: Vec<ColumnId>,
    schema: SchemaRef,
    test: Arc<dyn PhysicalExpr>,
}

impl Prefilter for TestedColumns {
    fn columns(&self) -> &[ColumnId] {
        &self.columns
    }

    fn keep(&self, columns: &[ArrayRef]) -> Option<BooleanBuffer> {
        let rows = columns.first()?.len();
        let shown = columns.iter().zip(self.schema.fields());
        let shown = shown.map(|(values, field)| shown_as(values, field.data_type()).ok());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch =
            RecordBatch::try_new_with_options(self.schema.clone(), shown.collect::<Option<_>>()?, &options);
        // A test that fails, fails again where it is written, for a row that is not left out by another.
        let result = self.test.evaluate(&batch.ok()?).ok()?.into_array(rows).ok()?;
        let result = result.as_any().downcast_ref::<BooleanArray>()?;
        Some(match result.nulls() {
            None => result.values().clone(),
            Some(nulls) => result.values() & nulls.inner(),
        })
    }
}
