//! The codes of errors that decide what this client does, under Kudu's names.

/// `ErrorStatusPB.RpcErrorCodePB`.
pub(crate) mod rpc {
    pub(crate) const ERROR_NO_SUCH_METHOD: i32 = 2;
    pub(crate) const ERROR_NO_SUCH_SERVICE: i32 = 3;
    pub(crate) const ERROR_SERVER_TOO_BUSY: i32 = 4;
    pub(crate) const ERROR_INVALID_REQUEST: i32 = 5;
    pub(crate) const ERROR_REQUEST_STALE: i32 = 6;
    pub(crate) const ERROR_UNAVAILABLE: i32 = 7;
    pub(crate) const FATAL_UNKNOWN: i32 = 10;
    pub(crate) const FATAL_SERVER_SHUTTING_DOWN: i32 = 11;
    pub(crate) const FATAL_INVALID_RPC_HEADER: i32 = 12;
    pub(crate) const FATAL_DESERIALIZING_REQUEST: i32 = 13;
    pub(crate) const FATAL_VERSION_MISMATCH: i32 = 14;
    pub(crate) const FATAL_UNAUTHORIZED: i32 = 15;
    pub(crate) const FATAL_INVALID_AUTHENTICATION_TOKEN: i32 = 16;
    pub(crate) const ERROR_INVALID_AUTHORIZATION_TOKEN: i32 = 17;
    pub(crate) const FATAL_INVALID_JWT: i32 = 18;
}

/// `MasterErrorPB.Code`.
pub(crate) mod master {
    pub(crate) const INVALID_SCHEMA: i32 = 2;
    pub(crate) const TABLE_NOT_FOUND: i32 = 3;
    pub(crate) const TABLE_ALREADY_PRESENT: i32 = 4;
    pub(crate) const CATALOG_MANAGER_NOT_INITIALIZED: i32 = 6;
    pub(crate) const NOT_THE_LEADER: i32 = 7;
    pub(crate) const REPLICATION_FACTOR_TOO_HIGH: i32 = 8;
    pub(crate) const TABLET_NOT_RUNNING: i32 = 9;
    pub(crate) const EVEN_REPLICATION_FACTOR: i32 = 10;
    pub(crate) const ILLEGAL_REPLICATION_FACTOR: i32 = 11;
    pub(crate) const NOT_AUTHORIZED: i32 = 14;
}

/// `TabletServerErrorPB.Code`.
pub(crate) mod tserver {
    pub(crate) const UNKNOWN_ERROR: i32 = 1;
    pub(crate) const MISMATCHED_SCHEMA: i32 = 5;
    pub(crate) const TABLET_NOT_FOUND: i32 = 6;
    pub(crate) const SCANNER_EXPIRED: i32 = 7;
    pub(crate) const TABLET_HAS_A_NEWER_SCHEMA: i32 = 11;
    pub(crate) const TABLET_NOT_RUNNING: i32 = 12;
    pub(crate) const INVALID_SNAPSHOT: i32 = 13;
    pub(crate) const NOT_THE_LEADER: i32 = 15;
    pub(crate) const WRONG_SERVER_UUID: i32 = 16;
    pub(crate) const THROTTLED: i32 = 19;
    pub(crate) const TABLET_FAILED: i32 = 20;
    pub(crate) const NOT_AUTHORIZED: i32 = 21;
    pub(crate) const TXN_LOCKED_RETRY_OP: i32 = 25;
}

/// `AppStatusPB.ErrorCode`.
pub(crate) mod status {
    pub(crate) const NOT_FOUND: i32 = 1;
    pub(crate) const NOT_SUPPORTED: i32 = 3;
    pub(crate) const INVALID_ARGUMENT: i32 = 4;
    pub(crate) const ALREADY_PRESENT: i32 = 6;
    pub(crate) const NETWORK_ERROR: i32 = 8;
    pub(crate) const ILLEGAL_STATE: i32 = 9;
    pub(crate) const NOT_AUTHORIZED: i32 = 10;
    pub(crate) const ABORTED: i32 = 11;
    pub(crate) const SERVICE_UNAVAILABLE: i32 = 13;
    pub(crate) const TIMED_OUT: i32 = 14;
    pub(crate) const UNINITIALIZED: i32 = 15;
}
