//! The cluster as a store sees it: what verbs, snapshots and writes work with.

use crate::options::KuduOptions;
use crate::physical::PhysicalTables;
use crate::schema_log::SchemaLog;
use kudu_client::Client;

/// What the store and its snapshots share.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) options: KuduOptions,
    pub(crate) log: SchemaLog,
    pub(crate) tables: PhysicalTables,
}
