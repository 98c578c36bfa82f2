//! Continuous queries: their texts, and the time until which each has run.
//!
//! The time until which a query has run is a record of its own, written after the results. After a crash between the
//! two, the same results are written again over themselves. The record is removed with the query, so that a new query
//! of the same name starts afresh.

use super::Catalog;
use super::database::{ContinuousQuery, Database, run_key};
use nyala_core::{Error, Result};

impl Catalog {
    /// Adds a continuous query to a database. If it exists with the same text, nothing happens. As in
    /// InfluxDB, texts are the same whose letters differ in case only: the one that is there stays.
    pub async fn create_continuous_query(&self, database: &str, query: ContinuousQuery) -> Result<()> {
        let _changing = self.changing.lock().await;
        self.change_existing(database, |changed| {
            match changed.continuous_queries.iter().find(|own| own.name == query.name) {
                Some(own) if own.text.to_lowercase() == query.text.to_lowercase() => Ok(()),
                Some(_) => Err(Error::conflict("continuous query already exists")),
                None => {
                    changed.continuous_queries.push(query.clone());
                    Ok(())
                }
            }
        })
        .await
    }

    /// Drops a continuous query. It is no error if the query or its database does not exist.
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

    /// The time until which a continuous query has run, ns; `None` if it never has.
    pub async fn last_run_ns(&self, database: &str, name: &str) -> Result<Option<i64>> {
        let found = self.database_records.find(&run_key(database, name)).await?;
        Ok(found.and_then(|value| value.try_into().ok()).map(i64::from_le_bytes))
    }

    /// Stores the time until which a continuous query has run. Returns whether the query still exists.
    pub async fn set_last_run_ns(
        &self,
        database: &str,
        query: &ContinuousQuery,
        last_ns: i64,
    ) -> Result<bool> {
        // The query cannot be dropped meanwhile. Otherwise the record would apply to the next query of this name.
        let _changing = self.changing.lock().await;
        let decide = || {
            let known = self.database(database);
            let is_known = known.is_some_and(|known| known.continuous_queries.contains(query));
            let run = (run_key(database, &query.name), Some(last_ns.to_le_bytes().to_vec()));
            Ok(is_known.then(|| (vec![run], ())))
        };
        let what = format!("the run of continuous query {}", query.name);
        Ok(self.change_database_records(&what, decide).await?.is_some())
    }
}
