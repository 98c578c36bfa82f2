//! The cluster as a store sees it: what verbs, snapshots and writes work with.

use crate::clock::ClusterClock;
use crate::kudu_tables::PhysicalTables;
use crate::options::KuduOptions;
use crate::schema_log::SchemaLog;
use crate::seen_marks::SeenMarks;
use kudu_client::Client;
use std::sync::Arc;

/// What the store and its snapshots share.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) options: KuduOptions,
    pub(crate) clock: Arc<ClusterClock>,
    pub(crate) log: SchemaLog,
    pub(crate) tables: PhysicalTables,
    pub(crate) marks: SeenMarks,
}
