//! `meta.db`: databases, retention policies, shards, continuous queries, subscriptions and users, as one message of
//! Protocol Buffers.

use prost::Message;

/// All settings.
#[derive(Clone, PartialEq, Message)]
pub struct Meta {
    /// The databases.
    #[prost(message, repeated, tag = "5")]
    pub databases: Vec<Database>,
    /// The users.
    #[prost(message, repeated, tag = "6")]
    pub users: Vec<User>,
}

/// A database.
#[derive(Clone, PartialEq, Message)]
pub struct Database {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The policy that is used where none is named.
    #[prost(string, tag = "2")]
    pub default_policy: String,
    /// Its policies.
    #[prost(message, repeated, tag = "3")]
    pub policies: Vec<Policy>,
    /// Its continuous queries.
    #[prost(message, repeated, tag = "4")]
    pub continuous_queries: Vec<ContinuousQuery>,
}

/// A retention policy.
#[derive(Clone, PartialEq, Message)]
pub struct Policy {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// How long points are kept, ns; 0: for ever.
    #[prost(int64, tag = "2")]
    pub duration_ns: i64,
    /// The width of a shard, ns.
    #[prost(int64, tag = "3")]
    pub shard_duration_ns: i64,
    /// The number of copies.
    #[prost(uint32, tag = "4")]
    pub replication: u32,
    /// Shards by the times that they hold.
    #[prost(message, repeated, tag = "5")]
    pub shard_groups: Vec<ShardGroup>,
    /// Who gets copies of points.
    #[prost(message, repeated, tag = "6")]
    pub subscriptions: Vec<Subscription>,
}

/// Shards of the same times.
#[derive(Clone, PartialEq, Message)]
pub struct ShardGroup {
    /// The first time, ns.
    #[prost(int64, tag = "2")]
    pub start_ns: i64,
    /// The time after the last one, ns.
    #[prost(int64, tag = "3")]
    pub end_ns: i64,
    /// When it was deleted, ns.
    #[prost(int64, tag = "4")]
    pub deleted_ns: i64,
    /// The shards.
    #[prost(message, repeated, tag = "5")]
    pub shards: Vec<Shard>,
}

/// What Go writes for "never" where it writes nanoseconds since 1970: a time of the year 1, which does not fit.
const GO_ZERO_TIME_NS: i64 = -6_795_364_578_871_345_152;

impl ShardGroup {
    /// Whether queries do not see it.
    pub fn is_deleted(&self) -> bool {
        self.deleted_ns != 0 && self.deleted_ns != GO_ZERO_TIME_NS
    }
}

/// A shard.
#[derive(Clone, PartialEq, Message)]
pub struct Shard {
    /// Its number, the name of its directory.
    #[prost(uint64, tag = "1")]
    pub id: u64,
}

/// A subscription.
#[derive(Clone, PartialEq, Message)]
pub struct Subscription {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// `ALL` or `ANY`.
    #[prost(string, tag = "2")]
    pub mode: String,
    /// The URLs of the destinations.
    #[prost(string, repeated, tag = "3")]
    pub destinations: Vec<String>,
}

/// A continuous query.
#[derive(Clone, PartialEq, Message)]
pub struct ContinuousQuery {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The statement that creates it.
    #[prost(string, tag = "2")]
    pub text: String,
}

/// A user.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub struct User {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// A bcrypt hash of the password.
    #[prost(string, tag = "2")]
    pub password_hash: String,
    /// Whether it may do everything.
    #[prost(bool, tag = "3")]
    pub admin: bool,
    /// What it may do.
    #[prost(message, repeated, tag = "4")]
    pub privileges: Vec<Privilege>,
}

/// What a user may do with a database.
#[derive(Clone, PartialEq, Message)]
pub struct Privilege {
    /// The database.
    #[prost(string, tag = "1")]
    pub database: String,
    /// 0 nothing, 1 read, 2 write, 3 both.
    #[prost(int32, tag = "2")]
    pub privilege: i32,
}

/// Hashes are not printed.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("admin", &self.admin).finish_non_exhaustive()
    }
}

/// Decodes the file.
pub fn decode(bytes: &[u8]) -> Result<Meta, String> {
    Meta::decode(bytes).map_err(|error| format!("it is no message with InfluxDB's settings: {error}"))
}
