//! Aliases: more names by which a measurement is written and read.
//!
//! Whoever writes points under an alias writes them to the measurement, and a query from an alias answers under the name
//! that it asked for. Lists show measurements by their own names only.

use super::Place;
use crate::catalog::name_records::NameChanges;
use crate::catalog::{Catalog, Measurement};
use nyala_core::{Error, Result};
use std::sync::Arc;

impl Catalog {
    /// Adds an alias. The caller holds `changing`.
    pub(super) async fn add_alias(&self, places: &[Place], alias: &str) -> Result<()> {
        let name = places[0].1.name();
        if name == alias {
            return Err(Error::invalid(format!("{alias:?} is the name of the measurement itself")));
        }
        self.check_free(places, alias)?;
        let mut names = NameChanges::new(&self.store).await?;
        places.iter().for_each(|(_, own)| names.add_alias(own.table(), alias));
        names.write().await?;
        let mut state = self.state.write();
        for (key, own) in places {
            let other_name = Measurement::whole(alias.to_owned(), own.stored().clone());
            state.measurements.entry(key.clone()).or_default().add_alias(Arc::new(other_name));
        }
        Ok(())
    }

    /// Takes an alias away. The caller holds the table locks of the measurements exclusively, and `changing`.
    pub(super) async fn drop_alias(&self, places: &[Place], alias: &str) -> Result<()> {
        let has_it = |(key, own): &&Place| {
            let state = self.state.read();
            let meaning = state.measurements.get(key).and_then(|all| all.meaning_of(alias));
            meaning.is_some_and(|meaning| *meaning == *own.name())
        };
        let places: Vec<&Place> = places.iter().filter(has_it).collect();
        if places.is_empty() {
            return Err(Error::missing(format!("the measurement has no alias {alias:?}")));
        }
        let mut names = NameChanges::new(&self.store).await?;
        places.iter().for_each(|(_, own)| names.remove_alias(own.table(), alias));
        names.write().await?;
        let mut state = self.state.write();
        for (key, _) in places {
            let all = state.measurements.entry(key.clone()).or_default();
            if let Some(gone) = all.remove_alias(alias) {
                // Whoever looked it up looks again.
                gone.mark_dropped();
            }
        }
        Ok(())
    }
}
