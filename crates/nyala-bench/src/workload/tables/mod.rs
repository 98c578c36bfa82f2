//! Tables of relational benchmarks: how they are created, and their rows as record batches.

pub mod clickbench;
pub mod generated;
pub mod star;
pub mod tpch;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};

/// A table of a benchmark.
pub struct Table {
    /// Its name.
    pub name: String,
    /// What its `CREATE TABLE` has between the brackets.
    pub definition: String,
    /// The columns of its rows.
    pub schema: SchemaRef,
    /// Its rows, which are made while they are asked for.
    pub rows: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>,
}

/// A query of a benchmark.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the benchmark calls it.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// The queries that `names` (separated by commas) mean; an unknown name is returned as the error.
pub fn chosen(queries: Vec<Query>, names: &str) -> Result<Vec<Query>, String> {
    if names == "all" {
        return Ok(queries);
    }
    let find = |name: &str| queries.iter().find(|query| query.name == name).cloned();
    names.split(',').map(|name| find(name.trim()).ok_or_else(|| name.to_owned())).collect()
}
