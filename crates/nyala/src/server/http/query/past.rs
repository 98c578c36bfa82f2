//! Databases as they were.

use nyala_core::{Result, before_long_work};
use nyala_db::catalog::Catalog;
use std::sync::Arc;

/// All databases at a moment of the past, ns since 1970.
pub(super) async fn catalog_at(catalog: Arc<Catalog>, moment_ns: i64) -> Result<Arc<Catalog>> {
    before_long_work().await;
    catalog.at(moment_ns).await.map(Arc::new)
}
