//! Messages of `kudu.tserver.TabletServerService`.

use bytes::Bytes;
use prost::Message;

use super::common::{AppStatus, ColumnSchema, RowOperations, Schema, ServiceError};
use super::rpc::SignedToken;

pub(crate) const FEATURE_COLUMN_PREDICATES: u32 = 1;
pub(crate) const FEATURE_COLUMNAR_LAYOUT: u32 = 5;
pub(crate) const FEATURE_BLOOM_FILTER_PREDICATE_V2: u32 = 6;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WriteRequest {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) tablet_id: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(crate) schema: Option<Schema>,
    #[prost(message, optional, tag = "3")]
    pub(crate) row_operations: Option<RowOperations>,
    #[prost(int32, optional, tag = "4")]
    pub(crate) external_consistency_mode: Option<i32>,
    #[prost(fixed64, optional, tag = "5")]
    pub(crate) propagated_timestamp: Option<u64>,
    #[prost(message, optional, tag = "6")]
    pub(crate) authz_token: Option<SignedToken>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PerRowError {
    #[prost(int32, required, tag = "1")]
    pub(crate) row_index: i32,
    #[prost(message, required, tag = "2")]
    pub(crate) error: AppStatus,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WriteResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) per_row_errors: Vec<PerRowError>,
    #[prost(fixed64, optional, tag = "3")]
    pub(crate) timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangePredicate {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) lower: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) upper: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EqualityPredicate {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) value: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InListPredicate {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub(crate) values: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct BlockBloomFilter {
    #[prost(int32, optional, tag = "1")]
    pub(crate) log_space_bytes: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) bloom_data: Option<Bytes>,
    #[prost(bool, optional, tag = "3")]
    pub(crate) always_false: Option<bool>,
    #[prost(int32, optional, tag = "4")]
    pub(crate) hash_algorithm: Option<i32>,
    #[prost(uint32, optional, tag = "5")]
    pub(crate) hash_seed: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct InBloomFilterPredicate {
    #[prost(message, repeated, tag = "1")]
    pub(crate) bloom_filters: Vec<BlockBloomFilter>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) lower: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) upper: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ColumnPredicate {
    #[prost(string, optional, tag = "1")]
    pub(crate) column: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(crate) range: Option<RangePredicate>,
    #[prost(message, optional, tag = "3")]
    pub(crate) equality: Option<EqualityPredicate>,
    #[prost(message, optional, tag = "4")]
    pub(crate) is_not_null: Option<super::rpc::Empty>,
    #[prost(message, optional, tag = "5")]
    pub(crate) in_list: Option<InListPredicate>,
    #[prost(message, optional, tag = "6")]
    pub(crate) is_null: Option<super::rpc::Empty>,
    #[prost(message, optional, tag = "7")]
    pub(crate) in_bloom_filter: Option<InBloomFilterPredicate>,
}

pub(crate) const READ_LATEST: i32 = 1;
pub(crate) const READ_AT_SNAPSHOT: i32 = 2;
pub(crate) const READ_YOUR_WRITES: i32 = 3;

pub(crate) const UNORDERED: i32 = 1;
pub(crate) const ORDERED: i32 = 2;

/// `row_format_flags`: one sidecar per column instead of rows.
pub(crate) const COLUMNAR_LAYOUT: u64 = 2;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NewScanRequest {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) tablet_id: Bytes,
    #[prost(uint64, optional, tag = "2")]
    pub(crate) limit: Option<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) projected_columns: Vec<ColumnSchema>,
    #[prost(int32, optional, tag = "5")]
    pub(crate) read_mode: Option<i32>,
    #[prost(fixed64, optional, tag = "6")]
    pub(crate) snap_timestamp: Option<u64>,
    #[prost(fixed64, optional, tag = "7")]
    pub(crate) propagated_timestamp: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    pub(crate) start_primary_key: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(crate) stop_primary_key: Option<Bytes>,
    #[prost(bool, optional, tag = "10")]
    pub(crate) cache_blocks: Option<bool>,
    #[prost(int32, optional, tag = "11")]
    pub(crate) order_mode: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "12")]
    pub(crate) last_primary_key: Option<Bytes>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) column_predicates: Vec<ColumnPredicate>,
    #[prost(uint64, optional, tag = "14")]
    pub(crate) row_format_flags: Option<u64>,
    #[prost(message, optional, tag = "15")]
    pub(crate) authz_token: Option<SignedToken>,
    #[prost(fixed64, optional, tag = "16")]
    pub(crate) snap_start_timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScanRequest {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) scanner_id: Option<Bytes>,
    #[prost(message, optional, tag = "2")]
    pub(crate) new_scan_request: Option<NewScanRequest>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) call_seq_id: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    pub(crate) batch_size_bytes: Option<u32>,
    #[prost(bool, optional, tag = "5")]
    pub(crate) close_scanner: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct RowwiseRowBlock {
    #[prost(int32, optional, tag = "1")]
    pub(crate) num_rows: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) rows_sidecar: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) indirect_data_sidecar: Option<i32>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ColumnarColumn {
    #[prost(int32, optional, tag = "1")]
    pub(crate) data_sidecar: Option<i32>,
    #[prost(int32, optional, tag = "2")]
    pub(crate) varlen_data_sidecar: Option<i32>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) non_null_bitmap_sidecar: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ColumnarRowBlock {
    #[prost(message, repeated, tag = "1")]
    pub(crate) columns: Vec<ColumnarColumn>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) num_rows: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScanResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) scanner_id: Option<Bytes>,
    #[prost(bool, optional, tag = "3")]
    pub(crate) has_more_results: Option<bool>,
    #[prost(message, optional, tag = "4")]
    pub(crate) data: Option<RowwiseRowBlock>,
    #[prost(message, optional, tag = "5")]
    pub(crate) columnar_data: Option<ColumnarRowBlock>,
    #[prost(fixed64, optional, tag = "6")]
    pub(crate) snap_timestamp: Option<u64>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub(crate) last_primary_key: Option<Bytes>,
    #[prost(fixed64, optional, tag = "9")]
    pub(crate) propagated_timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScannerKeepAliveRequest {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) scanner_id: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScannerKeepAliveResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SplitKeyRangeRequest {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(crate) tablet_id: Bytes,
    #[prost(uint64, optional, tag = "4")]
    pub(crate) target_chunk_size_bytes: Option<u64>,
    #[prost(message, optional, tag = "6")]
    pub(crate) authz_token: Option<SignedToken>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyRange {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) start_primary_key: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) stop_primary_key: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SplitKeyRangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) error: Option<ServiceError>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) ranges: Vec<KeyRange>,
}
