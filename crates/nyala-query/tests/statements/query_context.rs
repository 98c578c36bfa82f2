//! The context that test queries run in.

use nyala_core::store::Freshness;
use nyala_db::catalog::Catalog;
use nyala_db::users::Principal;
use nyala_db::write::LineWriter;
use nyala_exec::ExecutionContext;
use nyala_query::plan::QueryContext;
use std::sync::Arc;

/// The context of queries of a database.
pub fn query_context(
    catalog: Arc<Catalog>,
    writer: Arc<LineWriter>,
    database: &str,
    now_ns: i64,
) -> QueryContext {
    let (principal, running) = (Principal::Open, Arc::default());
    QueryContext {
        around: ExecutionContext {
            catalog,
            freshness: Freshness::Latest,
            now_ns,
            principal,
            running,
            query: None,
        },
        database: database.to_owned(),
        retention_policy: String::new(),
        writer,
        reporter: Arc::new(|_| Vec::new()),
    }
}
