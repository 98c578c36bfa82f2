//! The rows of a SELECT as a table of another query language: which columns it has is known before it is executed.

use super::{built, rewritten_of};
use crate::exec::SelectStream;
use crate::influxql::{DataType, Select};
use crate::plan::types::types_of_columns;
use crate::plan::{Plan, QueryContext};
use nyala_core::Result;
use nyala_core::store::SnapshotRef;
use nyala_exec::{QueryMemory, ValueType};
use std::sync::Arc;

/// A SELECT that is planned.
pub struct SelectTable {
    plan: Arc<Plan>,
    types: Vec<Option<ValueType>>,
}

impl SelectTable {
    /// Plans a SELECT, which must have no INTO.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn of(select: Select, context: &QueryContext) -> Result<Self> {
        let (rewritten, extra_windows) = rewritten_of(select, context).await?;
        let types = types_of_columns(&rewritten);
        let plan = built(rewritten, extra_windows, context).await?;
        let types = plan.outputs.columns.iter().map(|column| {
            Some(match types.get(&column.reference_name).copied().flatten()? {
                DataType::Float => ValueType::Float,
                DataType::Integer => ValueType::Integer,
                DataType::Unsigned => ValueType::Unsigned,
                DataType::Boolean => ValueType::Boolean,
                DataType::String | DataType::Tag => ValueType::String,
                DataType::AnyField => return None,
            })
        });
        let types = types.collect();
        Ok(Self { plan: Arc::new(plan), types })
    }

    /// The name of the column of times.
    pub fn time_column(&self) -> &str {
        &self.plan.outputs.time_column
    }

    /// The tags that rows are grouped by.
    pub fn tags(&self) -> &[String] {
        &self.plan.groups.tags
    }

    /// The selected columns; a column without a type has no values.
    pub fn columns(&self) -> impl Iterator<Item = (&str, Option<ValueType>)> {
        self.plan.outputs.columns.iter().map(|column| column.name.as_str()).zip(self.types.iter().copied())
    }

    /// Executes it.
    pub async fn open(self, snapshot: SnapshotRef, memory: QueryMemory) -> Result<SelectStream> {
        SelectStream::open(self.plan, snapshot, memory).await
    }
}
