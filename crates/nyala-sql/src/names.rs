//! Names: databases as catalogues, retention policies as schemas, measurements as tables.
//!
//! A user sees the databases that they may read, and no others.

use crate::error::outside;
use crate::measurement::MeasurementTable;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::DataFusionError;
use nyala_db::catalog::Catalog;
use nyala_db::users::{Principal, Privilege};
use std::fmt;
use std::sync::Arc;

/// All databases that somebody may read.
#[derive(Clone)]
pub(crate) struct DatabaseNames {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) principal: Principal,
}

impl DatabaseNames {
    fn may_read(&self, database: &str) -> bool {
        self.principal.may(Privilege::Read, database)
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
        self.catalog.database(name).filter(|_| self.may_read(name))?;
        Some(Arc::new(PolicyNames { databases: self.clone(), database: name.to_owned() }))
    }
}

/// The retention policies of a database.
#[derive(Debug)]
struct PolicyNames {
    databases: DatabaseNames,
    database: String,
}

impl CatalogProvider for PolicyNames {
    fn schema_names(&self) -> Vec<String> {
        let database = self.databases.catalog.database(&self.database);
        database
            .map_or_else(Vec::new, |known| known.policies.iter().map(|policy| policy.name.clone()).collect())
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let database = self.databases.catalog.database(&self.database)?;
        let policy = database.policy(name)?.name.clone();
        let catalog = self.databases.catalog.clone();
        Some(Arc::new(MeasurementNames { catalog, database: self.database.clone(), policy }))
    }
}

/// The measurements of a retention policy.
struct MeasurementNames {
    catalog: Arc<Catalog>,
    database: String,
    policy: String,
}

impl fmt::Debug for MeasurementNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MeasurementNames({}.{})", self.database, self.policy)
    }
}

#[async_trait]
impl SchemaProvider for MeasurementNames {
    fn table_names(&self) -> Vec<String> {
        self.catalog.measurement_names(&self.database, &self.policy)
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let found = self.catalog.measurement(&self.database, &self.policy, name).await.map_err(outside)?;
        let table = |measurement| MeasurementTable::of(measurement, &self.database, &self.policy);
        Ok(found.map(|measurement| Arc::new(table(measurement)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
