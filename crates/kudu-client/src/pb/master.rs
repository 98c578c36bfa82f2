//! Messages of `kudu.master.MasterService`.

use std::collections::HashMap;

use bytes::Bytes;
use prost::Message;

use super::common::{
    ColumnSchema, ColumnSchemaDelta, HashBucketSchema, HostPort, Partition, PartitionSchema, RowOperations,
    Schema, ServiceError,
};
use super::rpc::SignedToken;

pub(crate) const ROLE_LEADER: i32 = 1;

pub(crate) const FEATURE_RANGE_PARTITION_BOUNDS: u32 = 1;
pub(crate) const FEATURE_ADD_DROP_RANGE_PARTITIONS: u32 = 2;
pub(crate) const FEATURE_CONNECT_TO_MASTER: u32 = 3;
pub(crate) const FEATURE_GENERATE_AUTHZ_TOKEN: u32 = 5;
pub(crate) const FEATURE_RANGE_SPECIFIC_HASH_SCHEMA: u32 = 8;
pub(crate) const FEATURE_IMMUTABLE_COLUMN: u32 = 10;
pub(crate) const FEATURE_AUTO_INCREMENTING_COLUMN: u32 = 11;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TableIdentifier {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) table_id: Option<Bytes>,
    #[prost(string, optional, tag = "2")]
    pub(crate) table_name: Option<String>,
}

impl TableIdentifier {
    pub(crate) fn by_id(id: Bytes) -> Self {
        Self { table_id: Some(id), table_name: None }
    }

    pub(crate) fn by_name(name: &str) -> Self {
        Self { table_id: None, table_name: Some(name.to_owned()) }
    }
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ConnectToMasterRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConnectToMasterResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) role: Option<i32>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub(crate) ca_cert_der: Vec<Bytes>,
    #[prost(message, optional, tag = "4")]
    pub(crate) authn_token: Option<SignedToken>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) master_addrs: Vec<HostPort>,
    #[prost(string, optional, tag = "7")]
    pub(crate) client_location: Option<String>,
    #[prost(string, optional, tag = "8")]
    pub(crate) cluster_id: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CreateTableRequest {
    #[prost(string, required, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) schema: Option<Schema>,
    #[prost(int32, optional, tag = "4")]
    pub(crate) num_replicas: Option<i32>,
    #[prost(message, optional, tag = "6")]
    pub(crate) split_rows_range_bounds: Option<RowOperations>,
    #[prost(message, optional, tag = "7")]
    pub(crate) partition_schema: Option<PartitionSchema>,
    #[prost(string, optional, tag = "8")]
    pub(crate) owner: Option<String>,
    #[prost(map = "string, string", tag = "9")]
    pub(crate) extra_configs: HashMap<String, String>,
    #[prost(string, optional, tag = "10")]
    pub(crate) dimension_label: Option<String>,
    #[prost(string, optional, tag = "13")]
    pub(crate) comment: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TableRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) table: Option<TableIdentifier>,
}

/// `IsCreateTableDone` and `IsAlterTableDone` answer in the same shape.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct IsDoneResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(bool, optional, tag = "3")]
    pub(crate) done: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AddColumn {
    #[prost(message, optional, tag = "1")]
    pub(crate) schema: Option<ColumnSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DropColumn {
    #[prost(string, required, tag = "1")]
    pub(crate) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RenameColumn {
    #[prost(string, required, tag = "1")]
    pub(crate) old_name: String,
    #[prost(string, required, tag = "2")]
    pub(crate) new_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CustomHashSchema {
    #[prost(message, repeated, tag = "1")]
    pub(crate) hash_schema: Vec<HashBucketSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AddRangePartition {
    #[prost(message, optional, tag = "1")]
    pub(crate) range_bounds: Option<RowOperations>,
    #[prost(string, optional, tag = "2")]
    pub(crate) dimension_label: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(crate) custom_hash_schema: Option<CustomHashSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DropRangePartition {
    #[prost(message, optional, tag = "1")]
    pub(crate) range_bounds: Option<RowOperations>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlterColumn {
    #[prost(message, optional, tag = "1")]
    pub(crate) delta: Option<ColumnSchemaDelta>,
}

pub(crate) const STEP_ADD_COLUMN: i32 = 1;
pub(crate) const STEP_DROP_COLUMN: i32 = 2;
pub(crate) const STEP_RENAME_COLUMN: i32 = 3;
pub(crate) const STEP_ALTER_COLUMN: i32 = 4;
pub(crate) const STEP_ADD_RANGE_PARTITION: i32 = 5;
pub(crate) const STEP_DROP_RANGE_PARTITION: i32 = 6;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlterStep {
    #[prost(int32, optional, tag = "1")]
    pub(crate) step_type: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(crate) add_column: Option<AddColumn>,
    #[prost(message, optional, tag = "3")]
    pub(crate) drop_column: Option<DropColumn>,
    #[prost(message, optional, tag = "4")]
    pub(crate) rename_column: Option<RenameColumn>,
    #[prost(message, optional, tag = "5")]
    pub(crate) add_range_partition: Option<AddRangePartition>,
    #[prost(message, optional, tag = "6")]
    pub(crate) drop_range_partition: Option<DropRangePartition>,
    #[prost(message, optional, tag = "7")]
    pub(crate) alter_column: Option<AlterColumn>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlterTableRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) table: Option<TableIdentifier>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) alter_schema_steps: Vec<AlterStep>,
    #[prost(string, optional, tag = "3")]
    pub(crate) new_table_name: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub(crate) schema: Option<Schema>,
    #[prost(map = "string, string", tag = "6")]
    pub(crate) new_extra_configs: HashMap<String, String>,
    #[prost(string, optional, tag = "7")]
    pub(crate) new_table_owner: Option<String>,
    #[prost(string, optional, tag = "10")]
    pub(crate) new_table_comment: Option<String>,
    #[prost(int32, optional, tag = "11")]
    pub(crate) num_replicas: Option<i32>,
}

/// The answer of methods for which only success matters.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PlainResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteTableRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) table: Option<TableIdentifier>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) reserve_seconds: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RecallDeletedTableRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) table: Option<TableIdentifier>,
    #[prost(string, optional, tag = "2")]
    pub(crate) new_table_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListTablesRequest {
    #[prost(string, optional, tag = "1")]
    pub(crate) name_filter: Option<String>,
    #[prost(bool, optional, tag = "4")]
    pub(crate) show_soft_deleted: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListedTable {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) id: Bytes,
    #[prost(string, required, tag = "2")]
    pub(crate) name: String,
    #[prost(int64, optional, tag = "3")]
    pub(crate) live_row_count: Option<i64>,
    #[prost(int32, optional, tag = "4")]
    pub(crate) num_tablets: Option<i32>,
    #[prost(int32, optional, tag = "5")]
    pub(crate) num_replicas: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListTablesResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) tables: Vec<ListedTable>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetTableSchemaResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(message, optional, tag = "2")]
    pub(crate) schema: Option<Schema>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) num_replicas: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) table_id: Option<Bytes>,
    #[prost(message, optional, tag = "5")]
    pub(crate) partition_schema: Option<PartitionSchema>,
    #[prost(string, optional, tag = "7")]
    pub(crate) table_name: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub(crate) authz_token: Option<SignedToken>,
    #[prost(map = "string, string", tag = "9")]
    pub(crate) extra_configs: HashMap<String, String>,
    #[prost(string, optional, tag = "10")]
    pub(crate) owner: Option<String>,
    #[prost(string, optional, tag = "11")]
    pub(crate) comment: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetTableStatisticsResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) on_disk_size: Option<i64>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) live_row_count: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetTableLocationsRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) table: Option<TableIdentifier>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) partition_key_start: Option<Bytes>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) max_returned_locations: Option<u32>,
    #[prost(bool, optional, tag = "7")]
    pub(crate) intern_ts_infos_in_response: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TabletServerInfo {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) permanent_uuid: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(crate) rpc_addresses: Vec<HostPort>,
    #[prost(string, optional, tag = "3")]
    pub(crate) location: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct InternedReplica {
    #[prost(uint32, required, tag = "1")]
    pub(crate) ts_info_index: u32,
    #[prost(int32, required, tag = "2")]
    pub(crate) role: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TabletLocations {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) tablet_id: Bytes,
    #[prost(message, optional, tag = "6")]
    pub(crate) partition: Option<Partition>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) interned_replicas: Vec<InternedReplica>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GetTableLocationsResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) tablet_locations: Vec<TabletLocations>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) ttl_millis: Option<u32>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) ts_infos: Vec<TabletServerInfo>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ListTabletServersRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeInstance {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) permanent_uuid: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServerRegistration {
    #[prost(message, repeated, tag = "1")]
    pub(crate) rpc_addresses: Vec<HostPort>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListedTabletServer {
    #[prost(message, optional, tag = "1")]
    pub(crate) instance_id: Option<NodeInstance>,
    #[prost(message, optional, tag = "2")]
    pub(crate) registration: Option<ServerRegistration>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) millis_since_heartbeat: Option<i32>,
    #[prost(string, optional, tag = "4")]
    pub(crate) location: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ListTabletServersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) servers: Vec<ListedTabletServer>,
}

/// Every answer of a master may contain an error in field 1.
pub(crate) trait MasterAnswer: Message + Default {
    fn error(&self) -> Option<&ServiceError>;
}

macro_rules! master_answers {
    ($($name:ident),* $(,)?) => {
        $(impl MasterAnswer for $name {
            fn error(&self) -> Option<&ServiceError> {
                self.error.as_ref()
            }
        })*
    };
}

master_answers!(
    ConnectToMasterResponse,
    IsDoneResponse,
    PlainResponse,
    ListTablesResponse,
    GetTableSchemaResponse,
    GetTableStatisticsResponse,
    GetTableLocationsResponse,
    ListTabletServersResponse,
);
