//! The batches of a session that wait for their tablets.
//!
//! Each tablet has a queue, whose batches are sent one after the other, so that operations on a row keep their order. When a
//! range is dropped and added again, its keys get other tablets, and rows for the old ones may still wait. They find out when
//! they are sent, and go to the new tablets then. Later rows of these keys must not overtake them: they queue behind them
//! until that queue is empty.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

use super::batch::Batch;
use crate::location_cache::Tablet;

/// The queues of a session, by the tablets that they were made for.
#[derive(Debug, Default)]
pub(super) struct TabletQueues {
    pub(super) by_tablet: HashMap<Bytes, TabletQueue>,
    /// Those whose keys other tablets have, too.
    replaced: Vec<Bytes>,
    pub(super) last_number: u64,
}

/// The batches for one tablet, and for those that have its keys since.
#[derive(Debug)]
pub(super) struct TabletQueue {
    /// The tablet that it was made for, and its keys.
    pub(super) id: Bytes,
    start: Bytes,
    end: Bytes,
    pub(super) open: Option<Batch>,
    pub(super) sealed: VecDeque<Batch>,
    pub(super) is_sending: bool,
}

impl TabletQueues {
    /// The queue, if it is another than the tablet's, behind whose rows a row of this key has to wait.
    pub(super) fn before(&mut self, tablet: &Tablet, key: &[u8]) -> Option<Bytes> {
        if !self.by_tablet.contains_key(&tablet.id) {
            for queue in self.by_tablet.values().filter(|queue| queue.overlaps(tablet)) {
                if !self.replaced.contains(&queue.id) {
                    self.replaced.push(queue.id.clone());
                }
            }
        }
        let has_key = |id: &&Bytes| self.by_tablet.get(*id).is_some_and(|queue| queue.has_key(key));
        self.replaced.iter().find(has_key).filter(|id| **id != tablet.id).cloned()
    }

    /// Removes a queue, which is empty.
    pub(super) fn remove(&mut self, id: &Bytes) {
        self.by_tablet.remove(id);
        self.replaced.retain(|replaced| replaced != id);
    }
}

impl TabletQueue {
    pub(super) fn of(tablet: &Tablet) -> Self {
        Self {
            id: tablet.id.clone(),
            start: tablet.start.clone(),
            end: tablet.end.clone(),
            open: None,
            sealed: VecDeque::new(),
            is_sending: false,
        }
    }

    fn has_key(&self, key: &[u8]) -> bool {
        &self.start[..] <= key && (self.end.is_empty() || key < &self.end[..])
    }

    fn overlaps(&self, tablet: &Tablet) -> bool {
        let begins_before_end = |start: &Bytes, end: &Bytes| end.is_empty() || start < end;
        begins_before_end(&self.start, &tablet.end) && begins_before_end(&tablet.start, &self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location_cache::tablets_from_pb;
    use crate::pb::Partition;
    use crate::pb::master::{GetTableLocationsResponse, TabletLocations};
    use std::sync::Arc;
    use std::time::Duration;

    fn tablet(id: &'static str, start: &'static str, end: &'static str) -> Arc<Tablet> {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let partition = Partition {
            hash_buckets: vec![],
            partition_key_start: Some(bytes(start)),
            partition_key_end: Some(bytes(end)),
        };
        let location =
            TabletLocations { tablet_id: bytes(id), partition: Some(partition), interned_replicas: vec![] };
        let answer = GetTableLocationsResponse { tablet_locations: vec![location], ..Default::default() };
        tablets_from_pb(&answer, Duration::from_secs(60)).unwrap().remove(0)
    }

    /// The queue that a row gets into.
    fn place(queues: &mut TabletQueues, tablet: &Arc<Tablet>, key: &str) -> String {
        let id = queues.before(tablet, key.as_bytes()).unwrap_or_else(|| tablet.id.clone());
        queues.by_tablet.entry(id.clone()).or_insert_with(|| TabletQueue::of(tablet));
        String::from_utf8_lossy(&id).into_owned()
    }

    #[test]
    fn rows_wait_behind_rows_of_their_keys_that_were_for_another_tablet() {
        let mut queues = TabletQueues::default();
        let (old, beside) = (tablet("old", "b", "d"), tablet("beside", "d", ""));
        assert_eq!(place(&mut queues, &old, "b"), "old");
        assert_eq!(place(&mut queues, &beside, "x"), "beside");
        // The new one is wider: keys of its own need not wait.
        let new = tablet("new", "a", "d");
        assert_eq!(place(&mut queues, &new, "c"), "old");
        assert_eq!(place(&mut queues, &new, "a"), "new");
        assert_eq!(place(&mut queues, &new, "c"), "old", "still, although it has a queue now");
        assert_eq!(place(&mut queues, &beside, "d"), "beside");
        // One after the next waits, too.
        let newest = tablet("newest", "a", "d");
        assert_eq!(place(&mut queues, &newest, "c"), "old");
        assert_eq!(place(&mut queues, &newest, "a"), "new");
        queues.remove(&old.id);
        queues.remove(&new.id);
        assert_eq!(place(&mut queues, &newest, "c"), "newest");
        queues.remove(&newest.id);
        queues.remove(&beside.id);
        assert!(queues.by_tablet.is_empty() && queues.replaced.is_empty());
    }
}
