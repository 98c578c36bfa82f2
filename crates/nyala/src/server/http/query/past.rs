//! Databases as they were.

use nyala_core::store::StoreRef;
use nyala_core::store::past::PastStore;
use nyala_core::{Result, before_long_work};
use nyala_db::catalog::Catalog;
use std::sync::Arc;

/// All databases at a moment of the past, ns since 1970.
pub(super) async fn catalog_at(store: StoreRef, moment_ns: i64) -> Result<Arc<Catalog>> {
    before_long_work().await;
    let store = PastStore::open(store, moment_ns).await?;
    Catalog::open(Arc::new(store)).await.map(Arc::new)
}
