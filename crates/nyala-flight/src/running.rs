//! The queries that run, so that clients can cancel them.

use crate::registry::Id;
use nyala_sql::CancelHandle;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::Notify;

/// The queries that run; clones are the same list.
#[derive(Clone, Default)]
pub(crate) struct RunningQueries(Arc<Mutex<HashMap<Id, Running>>>);

/// A query that runs.
#[derive(Clone)]
struct Running {
    owner: Option<String>,
    handle: CancelHandle,
    cancelled: Arc<Notify>,
}

/// Keeps a query in the list until it is dropped.
pub(crate) struct ListedQuery {
    list: RunningQueries,
    id: Id,
    cancelled: Arc<Notify>,
}

impl ListedQuery {
    /// Waits until somebody cancels it.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.notified().await;
    }
}

impl Drop for ListedQuery {
    fn drop(&mut self) {
        let mut running = self.list.0.lock();
        if running.get(&self.id).is_some_and(|query| Arc::ptr_eq(&query.cancelled, &self.cancelled)) {
            running.remove(&self.id);
        }
    }
}

impl RunningQueries {
    /// Enters a query. If a ticket is used twice at once, the later query can be cancelled.
    pub(crate) fn list(&self, id: Id, owner: Option<&str>, handle: CancelHandle) -> ListedQuery {
        let cancelled = Arc::new(Notify::new());
        let query = Running { owner: owner.map(str::to_owned), handle, cancelled: cancelled.clone() };
        self.0.lock().insert(id, query);
        ListedQuery { list: self.clone(), id, cancelled }
    }

    /// Cancels a query. Returns whether there is one.
    pub(crate) fn cancel(&self, id: Id, owner: Option<&str>) -> bool {
        let found = self.0.lock().get(&id).filter(|query| query.owner.as_deref() == owner).cloned();
        if let Some(query) = &found {
            query.handle.cancel();
            query.cancelled.notify_one();
        }
        found.is_some()
    }
}
