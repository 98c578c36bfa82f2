//! A SELECT after the first phase of planning.

use crate::influxql::{DataType, Expr, Select};
use nyala_db::catalog::{Field, Measurement};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// A SELECT without wildcards, whose references have types.
pub struct Rewritten {
    /// The statement. Its condition and sources are in the fields below.
    pub select: Select,
    /// Its first and last time, ns.
    pub time_ns: (i64, i64),
    /// The rest of its condition.
    pub condition: Option<Expr>,
    /// Its sources, in the order of the text; those that do not exist are left out.
    pub sources: Vec<RewrittenSource>,
    /// The name of the time column.
    pub time_column: String,
    /// A warning, if the query probably means something else than it says.
    pub hint: Option<String>,
    /// The types of its columns, once an outer query needs one.
    pub types: OnceLock<HashMap<String, Option<DataType>>>,
}

/// A source that exists.
pub enum RewrittenSource {
    /// Stored rows, and the fields that they may have.
    Measurement(Arc<Measurement>, Arc<Vec<Field>>),
    /// The rows of another query.
    Subquery(Box<Rewritten>),
}

impl Rewritten {
    /// The tags the rows are grouped by.
    pub fn group_tags(&self) -> impl Iterator<Item = &str> {
        self.select.dimensions.iter().filter_map(|dimension| match dimension {
            Expr::VarRef(reference) => Some(reference.name.as_str()),
            _ => None,
        })
    }
}
