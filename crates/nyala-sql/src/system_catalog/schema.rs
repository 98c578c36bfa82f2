//! A schema of the system, as plans look names up in it.

use super::system_table::{self, SystemTables};
use super::table::CatalogTable;
use super::viewer::Viewer;
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

/// A schema of the system in a database.
#[derive(Debug)]
pub(crate) struct SystemSchema {
    tables: &'static SystemTables,
    viewer: Arc<Viewer>,
    database: String,
}

impl SystemSchema {
    /// A schema by name; `None` if it is none of the system.
    pub(crate) fn of(name: &str, viewer: &Arc<Viewer>, database: &str) -> Option<Self> {
        let tables = system_table::of_schema(name)?;
        Some(Self { tables, viewer: viewer.clone(), database: database.to_owned() })
    }

    /// A table by name.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let table = self.tables.get(name)?;
        Some(Arc::new(CatalogTable::of(table, self.viewer.clone(), self.database.clone())))
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().map(|name| (*name).to_owned()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        Ok(self.find(name))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}
