//! Continuous queries: their texts, and how far each has come.
//!
//! How far is a record of its own, written after the results it speaks of: after a crash between the two the same
//! results are written again, over themselves. It goes with the query, so that another of the same name begins anew.

use super::database::run_key;
use super::{Catalog, Database};
use crate::records::{TRIES, always_changed};
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
        self.change_existing(database, |changed| {
            match changed.continuous_queries.iter().find(|own| own.name == query.name) {
                Some(own) if own.text == query.text => Ok(()),
                Some(_) => Err(Error::conflict("continuous query already exists")),
                None => {
                    changed.continuous_queries.push(query.clone());
                    Ok(())
                }
            }
        })
        .await
    }

    /// Drops a continuous query; one that does not exist is no error, nor is its database.
    pub async fn drop_continuous_query(&self, database: &str, name: &str) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_database(database, |existing| {
            let Some(existing) = existing else { return Ok(None) };
            let mut changed = Database::clone(existing);
            changed.continuous_queries.retain(|query| query.name != name);
            Ok((changed != *existing).then_some(changed))
        })
        .await
    }

    /// Until when a continuous query has run, ns; `None` where it never has.
    pub async fn last_run_ns(&self, database: &str, name: &str) -> Result<Option<i64>> {
        let found = self.database_records.find(&run_key(database, name)).await?;
        Ok(found.and_then(|value| value.try_into().ok()).map(i64::from_le_bytes))
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
        for _ in 0..TRIES {
            if !self.database(database).is_some_and(|known| known.continuous_queries.contains(query)) {
                return Ok(false);
            }
            let run = (run_key(database, &query.name), Some(last_ns.to_le_bytes().to_vec()));
            if self.database_records.change(vec![run]).await? {
                return Ok(true);
            }
            self.read_databases_again().await?;
        }
        Err(always_changed(&format!("the run of continuous query {}", query.name)))
    }
}
