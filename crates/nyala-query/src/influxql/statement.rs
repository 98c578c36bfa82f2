//! Every statement other than SELECT.

use super::alter::AlterMeasurement;
use super::ast::{Measurement, Select, SortField};
use super::expr::Expr;
use super::regex::Regex;

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `ALTER MEASUREMENT`. InfluxDB does not have it.
    AlterMeasurement(AlterMeasurement),
    /// `ALTER RETENTION POLICY`
    AlterRetentionPolicy(RetentionPolicy),
    /// `CREATE CONTINUOUS QUERY`
    CreateContinuousQuery(Box<CreateContinuousQuery>),
    /// `CREATE DATABASE`
    CreateDatabase(CreateDatabase),
    /// `CREATE RETENTION POLICY`
    CreateRetentionPolicy(RetentionPolicy),
    /// `CREATE SUBSCRIPTION`
    CreateSubscription(CreateSubscription),
    /// `CREATE USER`
    CreateUser(CreateUser),
    /// `CREATE TOKEN …`. InfluxDB 1.x does not have it.
    CreateToken(CreateToken),
    /// `DELETE [FROM …] [WHERE …]`
    Delete(Deletion),
    /// `DRY RUN …`: counts the points that DELETE, UNDO or UPDATE would change. InfluxDB does not have it.
    DryRun(Box<Statement>),
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
    /// `DROP TOKEN name`. InfluxDB 1.x does not have it.
    DropToken {
        /// The token.
        name: String,
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
    /// `SET QUOTA FOR user name = number, …`. InfluxDB does not have it.
    SetQuota {
        /// The user.
        user: String,
        /// Names of quotas, and the most of each; 0 means any number.
        limits: Vec<(String, u64)>,
    },
    /// `SHOW ALIASES [ON database]`: other names of measurements. InfluxDB does not have it.
    ShowAliases {
        /// The database.
        database: Option<String>,
    },
    /// `SHOW CHANGES`: the changes of points that can be undone. InfluxDB does not have it.
    ShowChanges,
    /// `SHOW … [EXACT] CARDINALITY`
    ShowCardinality(ShowCardinality),
    /// `SHOW CONTINUOUS QUERIES`
    ShowContinuousQueries,
    /// `SHOW DATABASES`
    ShowDatabases,
    /// `SHOW DIAGNOSTICS [FOR 'module']`
    ShowDiagnostics {
        /// One module only.
        module: Option<String>,
    },
    /// `SHOW FIELD KEYS`
    ShowFieldKeys(Show),
    /// `SHOW GRANTS FOR user`
    ShowGrants {
        /// The user.
        user: String,
    },
    /// `SHOW MAINTENANCE`: the flushes and merges that run and wait. InfluxDB does not have it.
    ShowMaintenance,
    /// `SHOW MEASUREMENTS`: the source, if there is one, is that of `WITH MEASUREMENT = name` or `=~ /regex/`. Which
    /// operator is written makes no difference.
    ShowMeasurements(Show),
    /// `SHOW QUOTAS`. InfluxDB does not have it.
    ShowQuotas,
    /// `SHOW QUERIES`
    ShowQueries,
    /// `SHOW SLOWEST QUERIES`: those of the last hour that have ended; an extension.
    ShowSlowestQueries,
    /// `SHOW RETENTION POLICIES [ON database]`
    ShowRetentionPolicies {
        /// The database.
        database: Option<String>,
    },
    /// `SHOW SERIES`
    ShowSeries(Show),
    /// `SHOW SHARD GROUPS`
    ShowShardGroups,
    /// `SHOW SHARDS`
    ShowShards,
    /// `SHOW STATS [FOR 'module']`
    ShowStats {
        /// One module only.
        module: Option<String>,
    },
    /// `SHOW STORAGE [ON database] [FROM measurement, …] [LIMIT n]`: what measurements and tables take, or the columns of those that
    /// are named. InfluxDB does not have it.
    ShowStorage(Show),
    /// `SHOW SUBSCRIPTIONS`
    ShowSubscriptions,
    /// `SHOW TAG KEYS`
    ShowTagKeys(Show),
    /// `SHOW TAG VALUES`
    ShowTagValues {
        /// `WITH KEY …`
        keys: TagKeys,
        /// The other clauses.
        show: Show,
    },
    /// `SHOW TOKENS`. InfluxDB 1.x does not have it.
    ShowTokens,
    /// `SHOW USERS`
    ShowUsers,
    /// `UNDO change`: takes a change of points back. InfluxDB does not have it.
    Undo {
        /// The number of the change.
        change: u64,
    },
    /// `UPDATE … SET …` or `DELETE FIELD …`
    Update(Update),
}

/// What a statement says of a retention policy.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PolicyClauses {
    /// `DURATION`, in nanoseconds; 0 is infinite.
    pub duration_ns: Option<i64>,
    /// `REPLICATION`
    pub replication: Option<u32>,
    /// `SHARD DURATION`, in nanoseconds. In a policy that is created, 0 lets the server choose.
    pub shard_duration_ns: Option<i64>,
    /// `FUTURE LIMIT`: how far after now a written point's time may lie (InfluxDB 1.12), in nanoseconds.
    pub future_limit_ns: Option<i64>,
    /// `PAST LIMIT`: how far before now it may lie.
    pub past_limit_ns: Option<i64>,
    /// `DEFAULT`
    pub default: bool,
}

/// `CREATE` and `ALTER RETENTION POLICY name ON database …`; a policy that is created has a duration and a replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// The policy.
    pub name: String,
    /// Its database.
    pub database: String,
    /// The other clauses.
    pub clauses: PolicyClauses,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateDatabase {
    /// Its name.
    pub name: String,
    /// The default retention policy, where `WITH …` describes one; `NAME` is its name.
    pub retention_policy: Option<(PolicyClauses, Option<String>)>,
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
    /// `ALL`: every destination gets each point. `ANY`: one of them, in turn.
    pub to_all: bool,
    /// The URLs.
    pub destinations: Vec<String>,
}

/// `CREATE TOKEN name FOR user [ON database privilege, …] [EXPIRES 'time' | EXPIRES IN duration]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateToken {
    /// The token.
    pub name: String,
    /// Its user.
    pub user: String,
    /// The most that it allows, by database; empty: what its user may do.
    pub scope: Vec<(String, Privilege)>,
    /// Until when it is valid; without it, until it is dropped.
    pub expires: Option<Expiry>,
}

/// Until when something is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// A time, ns since 1970.
    At(i64),
    /// So long after it was created, ns.
    In(i64),
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

/// `UPDATE measurement SET field = value, … [WHERE …]`, or `DELETE FIELD field, … FROM measurement [WHERE …]`. InfluxDB has
/// neither.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Where the points are.
    pub measurement: Measurement,
    /// The fields, each with a literal or, to take its value away, nothing.
    pub fields: Vec<(String, Option<Expr>)>,
    /// `WHERE …`
    pub condition: Option<Expr>,
}

/// The clauses of statements that show what a database has. A clause that a statement lacks is empty.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Show {
    /// `ON database`
    pub database: Option<String>,
    /// `FROM …`
    pub sources: Vec<Measurement>,
    /// `WHERE …`
    pub condition: Option<Expr>,
    /// `GROUP BY …`
    pub dimensions: Vec<Expr>,
    /// `ORDER BY …`
    pub order: Option<SortField>,
    /// `LIMIT n`: in all, or keys or values of each measurement; 0 means all.
    pub limit: u64,
    /// `OFFSET n`
    pub offset: u64,
    /// `SLIMIT n`: measurements; 0 means all.
    pub slimit: u64,
    /// `SOFFSET n`
    pub soffset: u64,
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

/// `SHOW … [EXACT] CARDINALITY`
#[derive(Clone, Debug, PartialEq)]
pub struct ShowCardinality {
    /// What is counted.
    pub counted: Counted,
    /// `EXACT`: counted rather than estimated.
    pub exact: bool,
    /// The other clauses.
    pub show: Show,
}

/// What a cardinality counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// `SERIES`
    Series,
    /// `MEASUREMENT`
    Measurements,
    /// `TAG KEY`
    TagKeys,
    /// `TAG VALUES … WITH KEY …`
    TagValues(TagKeys),
    /// `FIELD KEY`
    FieldKeys,
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
