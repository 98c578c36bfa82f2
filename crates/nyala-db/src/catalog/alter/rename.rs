//! Another name for a measurement: another name for its tables in the store, by one change of it.
//!
//! What the past shows and the alias are written before. If the change then does not happen, they mean nothing: the past
//! name is that of now, and so is the alias.

use super::Place;
use crate::catalog::name_records::NameChanges;
use crate::catalog::{Catalog, Measurement, SEPARATOR};
use nyala_core::store::{Alteration, Freshness};
use nyala_core::{Error, Result};
use std::sync::Arc;

impl Catalog {
    /// Renames measurements. The caller holds their table locks exclusively, and `changing`.
    pub(super) async fn rename_measurement(
        &self,
        places: &[Place],
        to: &str,
        keeps_alias: bool,
    ) -> Result<()> {
        let from = places[0].1.name();
        if from == to {
            return Err(Error::invalid(format!("measurement {from:?} has this name already")));
        }
        self.check_free(places, to)?;
        let mut names = NameChanges::new(&self.store).await?;
        let until = self.store.snapshot(Freshness::Latest).await?.sequence();
        for ((database, policy), own) in places {
            match keeps_alias {
                true => names.add_alias(own.table(), from),
                false => names.remove_alias(own.table(), from),
            }
            if let Some(begin) = self.store.past_begin() {
                let name = table_name(database, policy, from);
                names.note_past_name((own.table(), &*name), until, begin.sequence).await?;
            }
        }
        names.write().await?;
        let rename = |((database, policy), own): &Place| {
            (own.table(), vec![Alteration::Rename(table_name(database, policy, to))])
        };
        self.store.alter_tables(places.iter().map(rename).collect()).await?;
        let mut state = self.state.write();
        for (key, own) in places {
            let stored = own.stored();
            // Whoever looked it up by its old name looks again.
            own.mark_dropped();
            stored.set_name(to);
            let all = state.measurements.entry(key.clone()).or_default();
            all.rename(from, Arc::new(Measurement::whole(to.to_owned(), stored.clone())));
            if keeps_alias {
                all.add_alias(Arc::new(Measurement::whole(from.to_owned(), stored.clone())));
            }
        }
        Ok(())
    }
}

/// The name of a measurement's table in the store.
fn table_name(database: &str, policy: &str, name: &str) -> String {
    format!("{database}{SEPARATOR}{policy}{SEPARATOR}{name}")
}
