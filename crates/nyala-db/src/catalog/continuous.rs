//! Continuous queries: their texts, which stand in the record of their database, and how far each has come.
//!
//! How far is a record of its own, written after the results it speaks of: after a crash between the two the same
//! results are written again, over themselves. It goes before the query does, so that another of the same name begins
//! anew.

use super::{Catalog, Database};
use nyala_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// A continuous query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContinuousQuery {
    /// Its name.
    pub name: String,
    /// The statement that creates it, with all names in full.
    pub text: String,
}

impl Catalog {
    /// Adds a continuous query to a database. One that is there with the same text is left alone.
    pub async fn create_continuous_query(&self, database: &str, query: ContinuousQuery) -> Result<()> {
        let _changing = self.changing.lock().await;
        let mut changed = Database::clone(&*self.existing_database(database)?);
        match changed.continuous_queries.iter().find(|own| own.name == query.name) {
            Some(own) if own.text == query.text => return Ok(()),
            Some(_) => return Err(Error::conflict("continuous query already exists")),
            None => changed.continuous_queries.push(query),
        }
        self.save(changed).await
    }

    /// Drops a continuous query; one that does not exist is no error, nor is its database.
    pub async fn drop_continuous_query(&self, database: &str, name: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        let Some(known) = self.database(database) else { return Ok(()) };
        let mut changed = Database::clone(&known);
        changed.continuous_queries.retain(|query| query.name != name);
        if changed == *known {
            return Ok(());
        }
        self.forget_run(database, name).await?;
        self.save(changed).await
    }

    /// Until when a continuous query has run, ns; `None` where it never has.
    pub async fn last_run_ns(&self, database: &str, name: &str) -> Result<Option<i64>> {
        let (mut found, key) = (None, run_key(database, name));
        self.continuous_records
            .visit(&key, |own, value| {
                if own == key {
                    found = value.try_into().ok().map(i64::from_le_bytes);
                }
            })
            .await?;
        Ok(found)
    }

    /// Says until when a continuous query has run; whether it is still there.
    pub async fn set_last_run_ns(
        &self,
        database: &str,
        query: &ContinuousQuery,
        last_ns: i64,
    ) -> Result<bool> {
        // It cannot be dropped meanwhile, and leave its record to another.
        let _changing = self.changing.lock().await;
        if !self.database(database).is_some_and(|known| known.continuous_queries.contains(query)) {
            return Ok(false);
        }
        let (key, value) = (run_key(database, &query.name), last_ns.to_le_bytes());
        let record = self.continuous_records.put([(key.as_slice(), value.as_slice())]);
        self.continuous_records.write(vec![record]).await.map(|()| true)
    }

    /// Forgets how far the queries of a database that is about to go have come.
    pub(super) async fn forget_runs(&self, database: &Database) -> Result<()> {
        for query in &database.continuous_queries {
            self.forget_run(&database.name, &query.name).await?;
        }
        Ok(())
    }

    async fn forget_run(&self, database: &str, name: &str) -> Result<()> {
        let key = run_key(database, name);
        self.continuous_records.write(vec![self.continuous_records.remove([key.as_slice()])]).await
    }
}

/// Names of databases hold no zero byte.
fn run_key(database: &str, name: &str) -> Vec<u8> {
    [database.as_bytes(), &[0], name.as_bytes()].concat()
}
