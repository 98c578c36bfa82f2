//! Names: databases as catalogues, retention policies as schemas, measurements as tables. Tables and views that users
//! declare are in the schema `public` of their database.
//!
//! A name without a schema is looked for in `pg_catalog`, in `public`, then in the default policy: a table was declared on purpose,
//! while a measurement appears when somebody writes a point. A user sees the databases that they may read, and no others.

mod returned;
mod sequence;
mod temporary;
pub(crate) mod view;

use crate::awaited::{Awaited, at_once};
use crate::dialect::analyzed_expression;
use crate::error::{SqlError, SqlState, outside};
use crate::expression::KnownForms;
use crate::identifier::{PUBLIC, is_temporary_schema};
use crate::influxql::{self, InfluxqlQuery, InfluxqlTable};
use crate::long_values::BATCH_ROWS;
use crate::measurement::MeasurementTable;
use crate::relation::RelationTable;
use crate::rewrite::rewritten_expression;
use crate::server::SqlServer;
use crate::system_catalog::{
    self, INFORMATION_SCHEMA, MAINTENANCE_DATABASE, PG_CATALOG, SystemSchema, Viewer,
};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionConfig;
use nyala_core::store::Freshness;
use nyala_db::catalog::Catalog;
use nyala_db::relations::{Body, Relation, RelationChange, SeenRelations, TEMPORARY, UncommittedRelations};
use nyala_db::users::{Principal, Privilege};
pub(crate) use returned::{RETURNED, ReturnedTable, ReturnedTables};
use sequence::SequenceTable;
use std::fmt;
use std::sync::Arc;
pub(crate) use temporary::TemporaryNames;
use view::view_table;

/// A table, if there is one.
type FoundTable = Awaited<'static, Result<Option<Arc<dyn TableProvider>>>>;

/// The schema that a name without one is looked for in. No policy has such a name.
pub(crate) const SEARCHED: &str = "\u{0}searched";
/// The schema in which a table shows its hidden key too: for statements that change rows. With the name of a policy behind
/// it, that of its measurements with the numbers of their series.
pub(crate) const CHANGED: &str = "\u{0}changed";
/// How deeply views may stand on views.
const VIEW_DEPTH_MAX: usize = 32;
/// What is read ahead of a merge of sorted rows. DataFusion's own limit is larger than the memory of a statement.
const READ_AHEAD_BYTES: usize = 4 << 20;
/// Merging sorted rows that are on the disk takes memory, which is reserved: this part (1/16) of that of a statement, …
const MERGE_SHARE: usize = 16;
/// … and no more than DataFusion's own default.
const MERGE_BYTES_MAX: usize = 10 << 20;

/// A relation that a statement makes of a query.
#[derive(Debug)]
pub(crate) struct MadeRelation {
    pub(crate) database: String,
    pub(crate) name: String,
}

/// All databases that somebody may read.
#[derive(Clone)]
pub(crate) struct DatabaseNames {
    pub(crate) server: Arc<SqlServer>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) principal: Principal,
    /// The time zone of the session.
    pub(crate) zone: String,
    /// Whether rules of ours change plans.
    pub(crate) pushes_down: bool,
    /// How many views these names are looked up for.
    pub(crate) depth: usize,
    /// Who looks at the system catalogue.
    pub(crate) viewer: Arc<Viewer>,
    /// The relations that only the session sees.
    pub(crate) uncommitted: Arc<UncommittedRelations>,
    /// What names mean of the temporary relations.
    pub(crate) temporary: TemporaryNames,
    /// The relation that is being made of a query, in which names without a schema mean what they meant before.
    pub(crate) made: Option<Arc<MadeRelation>>,
    /// What changes in the same statement return.
    pub(crate) returned: ReturnedTables,
    /// What relations are to become: plans show whether queries would still be right.
    pub(crate) changes: Arc<[RelationChange]>,
}

impl DatabaseNames {
    /// What plans are made with in which these are the names. Names without a database belong to the given one.
    pub(crate) fn planner(&self, database: &str) -> SessionState {
        let mut planner = self.plain_planner(database);
        let (names, of) = (self.clone(), database.to_owned());
        let make_planner = Arc::new(move || names.plain_planner(&of));
        let registered = system_catalog::register(&mut planner, &self.viewer, make_planner);
        registered.expect("no function is refused");
        planner
    }

    /// The same without what only clients use that look around.
    fn plain_planner(&self, database: &str) -> SessionState {
        let mut config = SessionConfig::new()
            .with_default_catalog_and_schema(database, SEARCHED)
            .with_create_default_catalog_and_schema(false)
            .with_batch_size(BATCH_ROWS)
            .with_extension(Arc::new(KnownForms {
                written: rewritten_expression,
                planned: analyzed_expression,
            }));
        let options = config.options_mut();
        options.sql_parser.dialect = datafusion::config::Dialect::PostgreSQL;
        options.sql_parser.collect_spans = true;
        // A number with a point is a decimal: 0.1 + 0.2 = 0.3.
        options.sql_parser.parse_float_as_decimal = true;
        // The physical planner takes `x IS TRUE` for something that may be NULL, and the logical one does not.
        options.execution.skip_physical_aggregate_schema_check = true;
        options.execution.time_zone = Some(self.zone.clone());
        let reserved = self.server.statement_bytes / MERGE_SHARE;
        options.execution.sort_spill_reservation_bytes = reserved.min(MERGE_BYTES_MAX);
        options.execution.sort_pushdown_buffer_capacity = READ_AHEAD_BYTES;
        SqlServer::planner(self.pushes_down)
            .with_config(config)
            .with_catalog_list(Arc::new(self.clone()))
            .build()
    }

    /// A relation, as it is or is to become.
    fn find(&self, database: &str, name: &str) -> Option<Arc<Relation>> {
        let mut changes = self.changes.iter().filter(|change| change.before.database == database);
        if let Some(change) = changes.clone().find(|change| change.name == name) {
            let definition = change.after.clone()?;
            return Some(Arc::new(Relation {
                name: name.to_owned(),
                definition,
                ..(*change.before).clone()
            }));
        }
        match changes.any(|change| change.before.name == name) {
            true => None,
            false => self.relations().find(database, name),
        }
    }

    fn relations(&self) -> SeenRelations<'_> {
        self.uncommitted.above(self.catalog.relations())
    }

    fn may_read(&self, database: &str) -> bool {
        self.principal.may(Privilege::Read, database)
    }

    /// A temporary relation that a name without a schema means.
    fn find_temporary(&self, database: &str, name: &str) -> Option<Arc<Relation>> {
        if !self.temporary.are_seen || database != self.viewer.database || self.is_made(TEMPORARY, name) {
            return None;
        }
        self.find(TEMPORARY, name)
    }

    /// Whether a relation is the one that is being made.
    fn is_made(&self, database: &str, name: &str) -> bool {
        self.made.as_deref().is_some_and(|made| made.database == database && made.name == name)
    }

    fn measurement(self, database: String, policy: String, name: String, with_hidden: bool) -> FoundTable {
        Box::pin(async move {
            let found = self.catalog.measurement(&database, &policy, &name).await.map_err(outside)?;
            let table = |measurement| MeasurementTable::of(measurement, &database, &policy, with_hidden);
            Ok(found.map(|measurement| Arc::new(table(measurement)) as Arc<dyn TableProvider>))
        })
    }

    /// The answer to a query of InfluxQL.
    fn answer(self, database: String, text: String) -> FoundTable {
        Box::pin(async move {
            let context = self.server.context(self.principal.clone(), Freshness::Latest);
            let query = InfluxqlQuery { text, database, context };
            let table = InfluxqlTable::of(self.server.influxql.clone(), &query).await?;
            Ok(Some(Arc::new(table) as Arc<dyn TableProvider>))
        })
    }

    /// A relation as a table of plans.
    pub(crate) fn relation(self, relation: Arc<Relation>, with_hidden: bool) -> FoundTable {
        Box::pin(async move {
            let table = match &relation.definition.body {
                Body::Table(table) => {
                    let table = RelationTable::of(self.catalog.clone(), &relation, table, with_hidden);
                    Arc::new(table) as Arc<dyn TableProvider>
                }
                Body::Sequence(sequence) => Arc::new(SequenceTable::of(self.catalog.clone(), sequence)),
                Body::View(_) if self.depth >= VIEW_DEPTH_MAX => {
                    let words = format!("view \"{}\" stands on itself, or on too many others", relation.name);
                    return Err(SqlError::new(SqlState::LIMIT_EXCEEDED, words).into());
                }
                Body::View(view) => {
                    let mut names = Self { depth: self.depth + 1, ..self.clone() };
                    names.temporary.are_seen = relation.database == TEMPORARY;
                    view_table(&relation.name, view, &names).await?
                }
            };
            Ok(Some(table))
        })
    }
}

impl fmt::Debug for DatabaseNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatabaseNames")
    }
}

impl CatalogProviderList for DatabaseNames {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        let databases = self.catalog.databases();
        databases
            .iter()
            .map(|database| database.name.to_string())
            .filter(|name| self.may_read(name))
            .collect()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        // A session has a system catalogue even where there is nothing else.
        let is_own = [&self.viewer.database, MAINTENANCE_DATABASE, TEMPORARY].contains(&name);
        if !is_own && self.catalog.database(name).is_none_or(|_| !self.may_read(name)) {
            return None;
        }
        Some(Arc::new(SchemaNames { databases: self.clone(), database: name.to_owned() }))
    }
}

/// The schemas of a database.
#[derive(Debug)]
struct SchemaNames {
    databases: DatabaseNames,
    database: String,
}

impl SchemaNames {
    /// Whether it is the database of the session.
    fn is_of_session(&self) -> bool {
        self.database == self.databases.viewer.database
    }
}

impl CatalogProvider for SchemaNames {
    fn schema_names(&self) -> Vec<String> {
        let database = self.databases.catalog.database(&self.database);
        let policies = database.iter().flat_map(|known| known.policies.iter().map(|own| own.name.clone()));
        let mut names: Vec<String> = policies.filter(|name| name != PUBLIC).collect();
        names.extend([PUBLIC, PG_CATALOG, INFORMATION_SCHEMA].map(str::to_owned));
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if self.database == TEMPORARY || (self.is_of_session() && is_temporary_schema(name)) {
            return Some(Arc::new(TableNames::of_temporary(&self.databases, name == CHANGED)));
        }
        if let Some(schema) = SystemSchema::of(name, &self.databases.viewer, &self.database) {
            return Some(Arc::new(schema));
        }
        if name == RETURNED && !self.databases.returned.is_empty() {
            return Some(Arc::new(self.databases.returned.clone()));
        }
        if name == influxql::SCHEMA {
            let (databases, database) = (self.databases.clone(), self.database.clone());
            return Some(Arc::new(InfluxqlNames { databases, database }));
        }
        let database = self.databases.catalog.database(&self.database);
        let database = database.filter(|_| self.databases.may_read(&self.database));
        let policies = database.as_ref().map(|known| &known.policies[..]).unwrap_or_default();
        let policy = match name {
            SEARCHED => {
                database.as_ref().and_then(|known| known.policy("")).map(|policy| policy.name.clone())
            }
            CHANGED => None,
            name => {
                let name = name.strip_prefix(CHANGED).unwrap_or(name);
                policies.iter().find(|policy| policy.name == name).map(|own| own.name.clone())
            }
        };
        if database.is_none() && name != SEARCHED {
            return None;
        }
        let has_relations = matches!(name, SEARCHED | CHANGED | PUBLIC);
        if !has_relations && policy.is_none() {
            return None;
        }
        Some(Arc::new(TableNames {
            databases: self.databases.clone(),
            database: self.database.clone(),
            policy,
            has_relations: has_relations && database.is_some(),
            system: (name == SEARCHED)
                .then(|| SystemSchema::of(PG_CATALOG, &self.databases.viewer, &self.database))
                .flatten(),
            with_hidden: name.starts_with(CHANGED),
        }))
    }
}

/// Queries of InfluxQL, whose texts are names of tables.
struct InfluxqlNames {
    databases: DatabaseNames,
    database: String,
}

impl fmt::Debug for InfluxqlNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InfluxqlNames({})", self.database)
    }
}

#[async_trait]
impl SchemaProvider for InfluxqlNames {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn table<'life0, 'life1, 'awaited>(
        &'life0 self,
        name: &'life1 str,
    ) -> Awaited<'awaited, Result<Option<Arc<dyn TableProvider>>, DataFusionError>>
    where
        Self: 'awaited,
        'life0: 'awaited,
        'life1: 'awaited,
    {
        self.databases.clone().answer(self.database.clone(), name.to_owned())
    }

    fn table_exist(&self, _: &str) -> bool {
        true
    }
}

/// The tables of a schema.
struct TableNames {
    databases: DatabaseNames,
    database: String,
    /// The policy whose measurements are in it.
    policy: Option<String>,
    /// Whether the relations of the database are in it.
    has_relations: bool,
    /// What is searched before them.
    system: Option<SystemSchema>,
    /// Whether tables show their hidden keys, and measurements the numbers of their series.
    with_hidden: bool,
}

impl fmt::Debug for TableNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableNames({}, {:?})", self.database, self.policy)
    }
}

impl TableNames {
    /// Those of the schema of temporary relations.
    fn of_temporary(databases: &DatabaseNames, with_hidden: bool) -> Self {
        Self {
            databases: databases.clone(),
            database: TEMPORARY.to_owned(),
            policy: None,
            has_relations: true,
            system: None,
            with_hidden,
        }
    }
}

#[async_trait]
impl SchemaProvider for TableNames {
    fn table_names(&self) -> Vec<String> {
        let catalog = &self.databases.catalog;
        let mut names = match self.has_relations {
            true => {
                self.databases.relations().of(&self.database).iter().map(|own| own.name.clone()).collect()
            }
            false => Vec::new(),
        };
        if let Some(policy) = &self.policy {
            names.extend(catalog.measurement_names(&self.database, policy));
        }
        names
    }

    fn table<'life0, 'life1, 'awaited>(
        &'life0 self,
        name: &'life1 str,
    ) -> Awaited<'awaited, Result<Option<Arc<dyn TableProvider>>, DataFusionError>>
    where
        Self: 'awaited,
        'life0: 'awaited,
        'life1: 'awaited,
    {
        if self.system.is_some()
            && let Some(relation) = self.databases.find_temporary(&self.database, name)
        {
            self.databases.temporary.note_used();
            return self.databases.clone().relation(relation, self.with_hidden);
        }
        if let Some(table) = self.system.as_ref().and_then(|system| system.find(name)) {
            return at_once(Ok(Some(table)));
        }
        let is_hidden = self.system.is_some() && self.databases.is_made(&self.database, name);
        if self.has_relations
            && !is_hidden
            && let Some(relation) = self.databases.find(&self.database, name)
        {
            if self.database == TEMPORARY {
                self.databases.temporary.note_used();
            }
            return self.databases.clone().relation(relation, self.with_hidden);
        }
        match self.policy.clone() {
            Some(policy) => {
                let (database, name) = (self.database.clone(), name.to_owned());
                self.databases.clone().measurement(database, policy, name, self.with_hidden)
            }
            None => at_once(Ok(None)),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
