//! A query of InfluxQL as a table of plans.

use super::scan::InfluxqlScan;
use super::{InfluxqlColumns, InfluxqlQueries, InfluxqlQuery};
use crate::error::SqlResult;
use crate::measurement::time_type;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use nyala_exec::ValueType;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

/// A query whose columns are known.
pub(crate) struct InfluxqlTable {
    text: Arc<str>,
    database: Arc<str>,
    columns: Arc<InfluxqlColumns>,
    schema: SchemaRef,
    queries: Arc<dyn InfluxqlQueries>,
}

impl InfluxqlTable {
    pub(crate) async fn of(queries: Arc<dyn InfluxqlQueries>, query: &InfluxqlQuery) -> SqlResult<Self> {
        let columns = queries.columns(query).await?;
        let schema = schema_of(&columns);
        let (text, database) = (query.text.as_str().into(), query.database.as_str().into());
        Ok(Self { text, database, columns: Arc::new(columns), schema, queries })
    }
}

/// The names and types of the columns. One whose name is taken is told apart by what it is.
fn schema_of(columns: &InfluxqlColumns) -> SchemaRef {
    let mut taken = BTreeSet::new();
    let mut free = |name: &str, what: &str| {
        let mut name = name.to_owned();
        while !taken.insert(name.clone()) {
            name = format!("{name}::{what}");
        }
        name
    };
    let mut fields = vec![
        Field::new(free(&columns.time, "time"), time_type(), false),
        Field::new(free("name", "measurement"), DataType::Utf8, false),
    ];
    fields.extend(columns.tags.iter().map(|tag| Field::new(free(tag, "tag"), DataType::Utf8, true)));
    let column = |(name, value_type): &(String, Option<ValueType>)| {
        let data_type = match value_type {
            Some(ValueType::Float) => DataType::Float64,
            Some(ValueType::Integer) => DataType::Int64,
            Some(ValueType::Unsigned) => DataType::UInt64,
            Some(ValueType::Boolean) => DataType::Boolean,
            Some(ValueType::String) | None => DataType::Utf8,
        };
        Field::new(free(name, "column"), data_type, true)
    };
    fields.extend(columns.columns.iter().map(column));
    Arc::new(Schema::new(fields))
}

impl fmt::Debug for InfluxqlTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfluxqlTable({})", self.text)
    }
}

#[async_trait]
impl TableProvider for InfluxqlTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (text, database) = (self.text.clone(), self.database.clone());
        let scan = InfluxqlScan::new(
            self.queries.clone(),
            text,
            database,
            self.columns.clone(),
            &self.schema,
            projection,
        )?;
        Ok(Arc::new(scan))
    }
}
