//! Every statement other than SELECT.

use super::ast::{Measurement, Select, SortField};
use super::expr::Expr;
use super::regex::Regex;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `ALTER RETENTION POLICY`
    AlterRetentionPolicy(AlterRetentionPolicy),
    /// `CREATE CONTINUOUS QUERY`
    CreateContinuousQuery(Box<CreateContinuousQuery>),
    /// `CREATE DATABASE`
    CreateDatabase(CreateDatabase),
    /// `CREATE RETENTION POLICY`
    CreateRetentionPolicy(CreateRetentionPolicy),
    /// `CREATE SUBSCRIPTION`
    CreateSubscription(CreateSubscription),
    /// `CREATE USER`
    CreateUser(CreateUser),
    /// `DELETE [FROM …] [WHERE …]`
    Delete(Deletion),
    /// `DROP CONTINUOUS QUERY name ON database`
    DropContinuousQuery {
        /// The query.
        name: String,
        /// Its database.
        database: String,
    },
    /// `DROP DATABASE name`
    DropDatabase {
        /// The database.
        name: String,
    },
    /// `DROP MEASUREMENT name`
    DropMeasurement {
        /// The measurement.
        name: String,
    },
    /// `DROP RETENTION POLICY name ON database`
    DropRetentionPolicy {
        /// The policy.
        name: String,
        /// Its database.
        database: String,
    },
    /// `DROP SERIES [FROM …] [WHERE …]`
    DropSeries(Deletion),
    /// `DROP SHARD id`
    DropShard {
        /// The shard.
        id: u64,
    },
    /// `DROP SUBSCRIPTION name ON database.policy`
    DropSubscription {
        /// The subscription.
        name: String,
        /// Its database.
        database: String,
        /// Its retention policy.
        retention_policy: String,
    },
    /// `DROP USER name`
    DropUser {
        /// The user.
        name: String,
    },
    /// `EXPLAIN [ANALYZE] SELECT …`
    Explain {
        /// Whether to run the query.
        analyze: bool,
        /// The query.
        select: Box<Select>,
    },
    /// `GRANT privilege ON database TO user`
    Grant {
        /// What is granted.
        privilege: Privilege,
        /// On which database.
        database: String,
        /// To whom.
        user: String,
    },
    /// `GRANT ALL PRIVILEGES TO user`
    GrantAdmin {
        /// Who becomes an administrator.
        user: String,
    },
    /// `KILL QUERY id [ON host]`
    KillQuery {
        /// The query.
        id: u64,
        /// The server it runs on.
        host: Option<String>,
    },
    /// `REVOKE privilege ON database FROM user`
    Revoke {
        /// What is taken away.
        privilege: Privilege,
        /// On which database.
        database: String,
        /// From whom.
        user: String,
    },
    /// `REVOKE ALL PRIVILEGES FROM user`
    RevokeAdmin {
        /// Who is no longer an administrator.
        user: String,
    },
    /// `SELECT …`
    Select(Box<Select>),
    /// `SET PASSWORD FOR user = 'password'`
    SetPassword {
        /// The user.
        user: String,
        /// The new password.
        password: String,
    },
    /// `SHOW CONTINUOUS QUERIES`
    ShowContinuousQueries,
    /// `SHOW DATABASES`
    ShowDatabases,
    /// `SHOW DIAGNOSTICS [FOR 'module']`
    ShowDiagnostics {
        /// One module only.
        module: Option<String>,
    },
    /// `SHOW FIELD KEY [EXACT] CARDINALITY`
    ShowFieldKeyCardinality(ShowCardinality),
    /// `SHOW FIELD KEYS`
    ShowFieldKeys(ShowFieldKeys),
    /// `SHOW GRANTS FOR user`
    ShowGrants {
        /// The user.
        user: String,
    },
    /// `SHOW MEASUREMENT [EXACT] CARDINALITY`
    ShowMeasurementCardinality(ShowCardinality),
    /// `SHOW MEASUREMENTS`
    ShowMeasurements(ShowMeasurements),
    /// `SHOW QUERIES`
    ShowQueries,
    /// `SHOW RETENTION POLICIES [ON database]`
    ShowRetentionPolicies {
        /// The database.
        database: Option<String>,
    },
    /// `SHOW SERIES`
    ShowSeries(ShowSeries),
    /// `SHOW SERIES [EXACT] CARDINALITY`
    ShowSeriesCardinality(ShowCardinality),
    /// `SHOW SHARD GROUPS`
    ShowShardGroups,
    /// `SHOW SHARDS`
    ShowShards,
    /// `SHOW STATS [FOR 'module']`
    ShowStats {
        /// One module only.
        module: Option<String>,
    },
    /// `SHOW SUBSCRIPTIONS`
    ShowSubscriptions,
    /// `SHOW TAG KEY [EXACT] CARDINALITY`
    ShowTagKeyCardinality(ShowCardinality),
    /// `SHOW TAG KEYS`
    ShowTagKeys(ShowTagKeys),
    /// `SHOW TAG VALUES`
    ShowTagValues(ShowTagValues),
    /// `SHOW TAG VALUES [EXACT] CARDINALITY`
    ShowTagValuesCardinality {
        /// The clauses all cardinalities have.
        cardinality: ShowCardinality,
        /// `WITH KEY …`
        keys: TagKeys,
    },
    /// `SHOW USERS`
    ShowUsers,
}

/// `ALTER RETENTION POLICY name ON database …`: only what is written changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterRetentionPolicy {
    /// The policy.
    pub name: String,
    /// Its database.
    pub database: String,
    /// `DURATION`, in nanoseconds; 0 is infinite.
    pub duration_ns: Option<i64>,
    /// `REPLICATION`
    pub replication: Option<u32>,
    /// `SHARD DURATION`, in nanoseconds.
    pub shard_duration_ns: Option<i64>,
    /// `FUTURE LIMIT` and `PAST LIMIT`.
    pub limits: WriteLimits,
    /// `DEFAULT`
    pub default: bool,
}

/// How far from now a written point's time may lie (InfluxDB 1.12), in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteLimits {
    /// `FUTURE LIMIT`
    pub future_ns: Option<i64>,
    /// `PAST LIMIT`
    pub past_ns: Option<i64>,
}

/// `CREATE CONTINUOUS QUERY …`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateContinuousQuery {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// `RESAMPLE EVERY`, in nanoseconds; 0 where it is not written.
    pub resample_every_ns: i64,
    /// `RESAMPLE FOR`, in nanoseconds; 0 where it is not written.
    pub resample_for_ns: i64,
    /// The query, which has a target.
    pub select: Select,
}

/// `CREATE DATABASE …`
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CreateDatabase {
    /// Its name.
    pub name: String,
    /// The default retention policy, where `WITH …` describes one.
    pub retention_policy: Option<DatabaseRetentionPolicy>,
}

/// What `CREATE DATABASE … WITH` says of the default retention policy.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DatabaseRetentionPolicy {
    /// `DURATION`, in nanoseconds; 0 is infinite.
    pub duration_ns: Option<i64>,
    /// `REPLICATION`
    pub replication: Option<u32>,
    /// `SHARD DURATION`, in nanoseconds; 0 lets the server choose.
    pub shard_duration_ns: i64,
    /// `FUTURE LIMIT` and `PAST LIMIT`.
    pub limits: WriteLimits,
    /// `NAME`
    pub name: Option<String>,
}

/// `CREATE RETENTION POLICY …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRetentionPolicy {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// `DURATION`, in nanoseconds; 0 is infinite.
    pub duration_ns: i64,
    /// `REPLICATION`
    pub replication: u32,
    /// `SHARD DURATION`, in nanoseconds; 0 lets the server choose.
    pub shard_duration_ns: i64,
    /// `FUTURE LIMIT` and `PAST LIMIT`.
    pub limits: WriteLimits,
    /// `DEFAULT`
    pub default: bool,
}

/// `CREATE SUBSCRIPTION name ON database.policy DESTINATIONS mode 'url', …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSubscription {
    /// Its name.
    pub name: String,
    /// Its database.
    pub database: String,
    /// Its retention policy.
    pub retention_policy: String,
    /// Which destinations get a point.
    pub mode: SubscriptionMode,
    /// The URLs.
    pub destinations: Vec<String>,
}

/// Which destinations of a subscription get each point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriptionMode {
    /// Every one.
    All,
    /// One of them, in turn.
    Any,
}

/// `CREATE USER name WITH PASSWORD 'password' [WITH ALL PRIVILEGES]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateUser {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
    /// Whether the user is an administrator.
    pub admin: bool,
}

/// What `DELETE` and `DROP SERIES` remove. At least one of the two is written; measurements name no database.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    /// `FROM …`; empty means every measurement.
    pub sources: Vec<Measurement>,
    /// `WHERE …`
    pub condition: Option<Expr>,
}

/// What a user may do with a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// `READ`
    Read,
    /// `WRITE`
    Write,
    /// `ALL [PRIVILEGES]`
    All,
}

impl Privilege {
    /// The privilege as `SHOW GRANTS` prints it.
    pub fn as_str(self) -> &'static str {
        match self {
            Privilege::Read => "READ",
            Privilege::Write => "WRITE",
            Privilege::All => "ALL PRIVILEGES",
        }
    }
}

/// The clauses of `SHOW … [EXACT] CARDINALITY`.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ShowCardinality {
    /// `EXACT`: counted rather than estimated.
    pub exact: bool,
    /// `ON database`
    pub database: Option<String>,
    /// `FROM …`
    pub sources: Vec<Measurement>,
    /// `WHERE …`
    pub condition: Option<Expr>,
    /// `GROUP BY …`
    pub dimensions: Vec<Expr>,
    /// `LIMIT n`; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
}

/// `SHOW FIELD KEYS …`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ShowFieldKeys {
    /// `ON database`
    pub database: Option<String>,
    /// `FROM …`
    pub sources: Vec<Measurement>,
    /// `ORDER BY …`
    pub order: Option<SortField>,
    /// `LIMIT n`; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
}

/// `SHOW MEASUREMENTS …`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ShowMeasurements {
    /// `ON database`
    pub database: Option<String>,
    /// `WITH MEASUREMENT = name` or `=~ /regex/`; which operator is written makes no difference.
    pub source: Option<Measurement>,
    /// `WHERE …`
    pub condition: Option<Expr>,
    /// `ORDER BY …`
    pub order: Option<SortField>,
    /// `LIMIT n`; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
}

/// `SHOW SERIES …`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ShowSeries {
    /// `ON database`
    pub database: Option<String>,
    /// `FROM …`
    pub sources: Vec<Measurement>,
    /// `WHERE …`
    pub condition: Option<Expr>,
    /// `ORDER BY …`
    pub order: Option<SortField>,
    /// `LIMIT n`; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
}

/// `SHOW TAG KEYS …`
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ShowTagKeys {
    /// `ON database`
    pub database: Option<String>,
    /// `FROM …`
    pub sources: Vec<Measurement>,
    /// `WHERE …`
    pub condition: Option<Expr>,
    /// `ORDER BY …`
    pub order: Option<SortField>,
    /// `LIMIT n`: keys of each measurement; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
    /// `SLIMIT n`: measurements; 0 means all.
    pub slimit: u64,
    /// `SOFFSET n`
    pub soffset: u64,
}

/// `SHOW TAG VALUES …`
#[derive(Clone, Debug, PartialEq)]
pub struct ShowTagValues {
    /// `ON database`
    pub database: Option<String>,
    /// `FROM …`
    pub sources: Vec<Measurement>,
    /// `WITH KEY …`
    pub keys: TagKeys,
    /// `WHERE …`
    pub condition: Option<Expr>,
    /// `ORDER BY …`
    pub order: Option<SortField>,
    /// `LIMIT n`: values of each measurement; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
}

/// `WITH KEY …`: which keys' values to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagKeys {
    /// `IN (a, b)`
    In(Vec<String>),
    /// `= a`
    Equal(String),
    /// `!= a`
    NotEqual(String),
    /// `=~ /a/`
    Matches(Regex),
    /// `!~ /a/`
    NotMatches(Regex),
}
