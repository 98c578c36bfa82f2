//! Messages shared by masters and tablet servers: status, schema, partitions, row operations.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AppStatus {
    #[prost(int32, required, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, optional, tag = "2")]
    pub(crate) message: Option<String>,
}

/// `MasterErrorPB` and `TabletServerErrorPB`: same shape, different code tables.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ServiceError {
    #[prost(int32, required, tag = "1")]
    pub(crate) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) status: Option<AppStatus>,
}

#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct HostPort {
    #[prost(string, required, tag = "1")]
    pub(crate) host: String,
    #[prost(uint32, required, tag = "2")]
    pub(crate) port: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ColumnTypeAttributes {
    #[prost(int32, optional, tag = "1")]
    pub(crate) precision: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) scale: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) length: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ColumnSchema {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) id: Option<u32>,
    #[prost(string, required, tag = "2")]
    pub(crate) name: String,
    #[prost(int32, required, tag = "3")]
    pub(crate) data_type: i32,
    #[prost(bool, optional, tag = "4")]
    pub(crate) is_key: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) is_nullable: Option<bool>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub(crate) read_default_value: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub(crate) write_default_value: Option<Bytes>,
    #[prost(int32, optional, tag = "8")]
    pub(crate) encoding: Option<i32>,
    #[prost(int32, optional, tag = "9")]
    pub(crate) compression: Option<i32>,
    #[prost(int32, optional, tag = "10")]
    pub(crate) cfile_block_size: Option<i32>,
    #[prost(message, optional, tag = "11")]
    pub(crate) type_attributes: Option<ColumnTypeAttributes>,
    #[prost(string, optional, tag = "12")]
    pub(crate) comment: Option<String>,
    #[prost(bool, optional, tag = "13")]
    pub(crate) immutable: Option<bool>,
    #[prost(bool, optional, tag = "14")]
    pub(crate) is_auto_incrementing: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Schema {
    #[prost(message, repeated, tag = "1")]
    pub(crate) columns: Vec<ColumnSchema>,
}

/// Changes to one column's storage attributes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ColumnSchemaDelta {
    #[prost(string, optional, tag = "1")]
    pub(crate) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) new_name: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) default_value: Option<Bytes>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) remove_default: Option<bool>,
    #[prost(int32, optional, tag = "6")]
    pub(crate) encoding: Option<i32>,
    #[prost(int32, optional, tag = "7")]
    pub(crate) compression: Option<i32>,
    #[prost(int32, optional, tag = "8")]
    pub(crate) block_size: Option<i32>,
    #[prost(string, optional, tag = "9")]
    pub(crate) new_comment: Option<String>,
    #[prost(bool, optional, tag = "10")]
    pub(crate) immutable: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RowOperations {
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) rows: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) indirect_data: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ColumnIdentifier {
    #[prost(int32, optional, tag = "1")]
    pub(crate) id: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HashBucketSchema {
    #[prost(message, repeated, tag = "1")]
    pub(crate) columns: Vec<ColumnIdentifier>,
    #[prost(int32, required, tag = "2")]
    pub(crate) num_buckets: i32,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) seed: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeSchema {
    #[prost(message, repeated, tag = "1")]
    pub(crate) columns: Vec<ColumnIdentifier>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeWithHashSchema {
    #[prost(message, optional, tag = "1")]
    pub(crate) range_bounds: Option<RowOperations>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) hash_schema: Vec<HashBucketSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartitionSchema {
    #[prost(message, repeated, tag = "1")]
    pub(crate) hash_schema: Vec<HashBucketSchema>,
    #[prost(message, optional, tag = "2")]
    pub(crate) range_schema: Option<RangeSchema>,
    #[prost(message, repeated, tag = "5")]
    pub(crate) custom_hash_schema_ranges: Vec<RangeWithHashSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Partition {
    #[prost(int32, repeated, packed = "true", tag = "1")]
    pub(crate) hash_buckets: Vec<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) partition_key_start: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) partition_key_end: Option<Bytes>,
}
