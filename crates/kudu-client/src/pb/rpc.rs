//! Messages of the RPC layer: headers, negotiation, credentials.

use bytes::Bytes;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RemoteMethod {
    #[prost(string, required, tag = "1")]
    pub(crate) service_name: String,
    #[prost(string, required, tag = "2")]
    pub(crate) method_name: String,
}

/// Identifies one logical write so that a retry is applied once.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestId {
    #[prost(string, required, tag = "1")]
    pub(crate) client_id: String,
    #[prost(int64, required, tag = "2")]
    pub(crate) seq_no: i64,
    #[prost(int64, required, tag = "3")]
    pub(crate) first_incomplete_seq_no: i64,
    #[prost(int64, required, tag = "4")]
    pub(crate) attempt_no: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestHeader {
    #[prost(int32, required, tag = "3")]
    pub(crate) call_id: i32,
    #[prost(message, optional, tag = "6")]
    pub(crate) remote_method: Option<RemoteMethod>,
    #[prost(uint32, optional, tag = "10")]
    pub(crate) timeout_millis: Option<u32>,
    #[prost(uint32, repeated, packed = "false", tag = "11")]
    pub(crate) required_feature_flags: Vec<u32>,
    #[prost(message, optional, tag = "15")]
    pub(crate) request_id: Option<RequestId>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(int32, required, tag = "1")]
    pub(crate) call_id: i32,
    #[prost(bool, optional, tag = "2")]
    pub(crate) is_error: Option<bool>,
    #[prost(uint32, repeated, packed = "false", tag = "3")]
    pub(crate) sidecar_offsets: Vec<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ErrorStatus {
    #[prost(string, required, tag = "1")]
    pub(crate) message: String,
    #[prost(int32, optional, tag = "2")]
    pub(crate) code: Option<i32>,
    #[prost(uint32, repeated, packed = "false", tag = "3")]
    pub(crate) unsupported_feature_flags: Vec<u32>,
}

pub(crate) const FEATURE_APPLICATION_FLAGS: i32 = 1;
pub(crate) const FEATURE_TLS: i32 = 2;
pub(crate) const FEATURE_TLS_AUTHENTICATION_ONLY: i32 = 3;

pub(crate) const STEP_SASL_SUCCESS: i32 = 0;
pub(crate) const STEP_NEGOTIATE: i32 = 1;
pub(crate) const STEP_SASL_INITIATE: i32 = 2;
#[cfg(feature = "kerberos")]
pub(crate) const STEP_SASL_CHALLENGE: i32 = 3;
#[cfg(feature = "kerberos")]
pub(crate) const STEP_SASL_RESPONSE: i32 = 4;
pub(crate) const STEP_TLS_HANDSHAKE: i32 = 5;
pub(crate) const STEP_TOKEN_EXCHANGE: i32 = 6;
pub(crate) const STEP_JWT_EXCHANGE: i32 = 7;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SaslMechanism {
    #[prost(string, required, tag = "2")]
    pub(crate) mechanism: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Empty {}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct AuthenticationType {
    #[prost(message, optional, tag = "1")]
    pub(crate) sasl: Option<Empty>,
    #[prost(message, optional, tag = "2")]
    pub(crate) token: Option<Empty>,
    #[prost(message, optional, tag = "3")]
    pub(crate) certificate: Option<Empty>,
    #[prost(message, optional, tag = "4")]
    pub(crate) jwt: Option<Empty>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SignedToken {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) token_data: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) signature: Option<Bytes>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) signing_key_seq_num: Option<i64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct JwtRaw {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) jwt_data: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Negotiate {
    #[prost(int32, repeated, packed = "false", tag = "1")]
    pub(crate) supported_features: Vec<i32>,
    #[prost(int32, required, tag = "2")]
    pub(crate) step: i32,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) token: Option<Bytes>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) sasl_mechanisms: Vec<SaslMechanism>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(crate) tls_handshake: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub(crate) channel_bindings: Option<Bytes>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) authn_types: Vec<AuthenticationType>,
    #[prost(message, optional, tag = "8")]
    pub(crate) authn_token: Option<SignedToken>,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(crate) nonce: Option<Bytes>,
    #[prost(message, optional, tag = "10")]
    pub(crate) jwt_raw: Option<JwtRaw>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConnectionContext {
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(crate) encoded_nonce: Option<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ServerClockRequest {}

/// Of `kudu.server.GenericService`, which every server has.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct ServerClockResponse {
    #[prost(fixed64, optional, tag = "1")]
    pub(crate) timestamp: Option<u64>,
}
