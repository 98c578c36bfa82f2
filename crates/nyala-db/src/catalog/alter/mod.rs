//! Altering measurements: other names for them, their fields and tags, other types for fields, aliases.
//!
//! A change concerns the measurement of a name in one retention policy or in all. It is checked as a whole, then made at
//! once: by one change of the store, by one batch, or by one stage. Writers of the measurement wait meanwhile, so every
//! point is written before the change or after it. A crash leaves the measurement as it was, or as it is to be.
//!
//! `rename` gives names, `alias` keeps old ones, `field` and `tag` rename parts, `field_type` converts values.

mod alias;
mod count;
mod field;
mod field_type;
mod rename;
mod tag;

pub use count::AlterCounts;

use super::policy_measurements::{PolicyKey, PolicyMeasurements};
use super::series_table::SeriesTable;
use super::{Catalog, DropLocks, FieldType, Measurement};
use crate::ingest::begins_otherwise;
use nyala_core::{Error, Result};
use std::sync::Arc;

/// A measurement that is altered.
#[derive(Debug, Clone, Copy)]
pub struct AlteredMeasurement<'a> {
    /// Its database.
    pub database: &'a str,
    /// Its retention policy; `None`: all policies that have a measurement of the name.
    pub policy: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
}

/// How a measurement is altered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MeasurementChange {
    /// It gets another name.
    Rename {
        /// The new name.
        to: String,
        /// Whether the old name becomes an alias.
        keeps_alias: bool,
    },
    /// A field gets another name.
    RenameField {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A tag gets another name.
    RenameTag {
        /// The old name.
        from: String,
        /// The new name.
        to: String,
    },
    /// A field gets another type.
    FieldType {
        /// The field.
        field: String,
        /// The new type.
        to: FieldType,
    },
    /// A name by which it can be written and read, too.
    AddAlias(String),
    /// Such a name is taken away.
    DropAlias(String),
}

/// A measurement in a retention policy.
type Place = (PolicyKey, Arc<Measurement>);

/// The most bytes of a name. Line protocol has no longer keys.
const NAME_BYTES_MAX: usize = 65_535;

impl Catalog {
    /// Alters a measurement. Returns how many values were converted. `check` fails if the statement must stop.
    ///
    /// # Errors
    /// Missing if there is no such measurement, field, tag or alias. Conflict if a new name is taken. Unsupported if other
    /// servers use the store, too, or if the measurement shares a table.
    pub async fn alter_measurement(
        &self,
        altered: AlteredMeasurement<'_>,
        change: &MeasurementChange,
        check: &(dyn Fn() -> Result<()> + Send + Sync),
    ) -> Result<u64> {
        self.load_altered(altered).await?;
        let find = || self.places_of(altered).unwrap_or_default().iter().map(table_of).collect();
        let locks = self.lock_for_drop(find).await;
        let places = self.load_altered(altered).await?;
        use MeasurementChange as C;
        let DropLocks { _tables: _locked, _changing: changing } = locks;
        // What is inside of tables needs no lock but theirs.
        let concerns_names = matches!(change, C::Rename { .. } | C::AddAlias(_) | C::DropAlias(_));
        let _changing = concerns_names.then_some(changing);
        match change {
            C::Rename { to, keeps_alias } => self.rename_measurement(&places, to, *keeps_alias).await?,
            C::AddAlias(alias) => self.add_alias(&places, alias).await?,
            C::DropAlias(alias) => self.drop_alias(&places, alias).await?,
            C::RenameField { from, to } => self.rename_field(&places, from, to).await?,
            C::RenameTag { from, to } => self.rename_tag(&places, from, to, check).await?,
            C::FieldType { field, to } => {
                return self.change_field_type(&places, field, *to, check).await;
            }
        }
        Ok(0)
    }

    /// The measurements that are altered, with their series loaded.
    async fn load_altered(&self, altered: AlteredMeasurement<'_>) -> Result<Vec<Place>> {
        let places = self.places_of(altered)?;
        SeriesTable::load_all(places.iter().map(|(_, own)| own.stored())).await?;
        Ok(places)
    }

    fn places_of(&self, altered: AlteredMeasurement<'_>) -> Result<Vec<Place>> {
        let AlteredMeasurement { database, policy, name } = altered;
        let known = self.existing_database(database)?;
        if self.is_shared() {
            let words =
                "ALTER MEASUREMENT in a store that several servers share: they would go on by the old names";
            return Err(Error::unsupported(words));
        }
        let policies = match policy {
            Some(policy) => vec![known.existing_policy(policy)?.name.clone()],
            None => known.policies.iter().map(|policy| policy.name.clone()).collect(),
        };
        let mut places = Vec::new();
        for policy in policies {
            self.check_readable(database, &policy)?;
            let key = (database.to_owned(), policy);
            let state = self.state.read();
            let Some(all) = state.measurements.get(&key) else { continue };
            let Some(found) = all.get(name).cloned() else { continue };
            if found.is_member() {
                return Err(Error::unsupported(format!(
                    "measurement {name:?} is a metric of Prometheus, whose table it shares with others: it cannot be \
                     altered"
                )));
            }
            if let Some(meaning) = all.meaning_of(name) {
                return Err(Error::invalid(format!(
                    "{name:?} is an alias of measurement {meaning:?}: alter that"
                )));
            }
            places.push((key, found));
        }
        match places.is_empty() {
            true => Err(Error::missing(format!("measurement not found: {name}"))),
            false => Ok(places),
        }
    }

    /// Fails if a measurement cannot get a name, or an alias, in some policies, because something else has it.
    fn check_free(&self, places: &[Place], name: &str) -> Result<()> {
        check_name("measurement", name)?;
        if begins_otherwise(name) {
            return Err(Error::invalid(
                "the new name of a measurement begins with #, a tab or a zero byte, which no line can begin with",
            ));
        }
        let state = self.state.read();
        for (key, own) in places {
            let all = state.measurements.get(key);
            let found = all.and_then(|all| all.get(name)).filter(|found| found.table() != own.table());
            if found.is_none() {
                continue;
            }
            let meaning = all.and_then(|all| all.meaning_of(name));
            let of = meaning.map_or_else(String::new, |meaning| format!(" as an alias of {meaning:?}"));
            let policy = &key.1;
            return Err(Error::conflict(format!(
                "measurement {name:?} exists in retention policy {policy:?}{of}: nothing was changed"
            )));
        }
        let database = &places[0].0.0;
        match self.relations().find(database, name) {
            Some(_) => {
                Err(Error::conflict(format!("a table of SQL has the name {name:?}: nothing was changed")))
            }
            None => Ok(()),
        }
    }

    /// The aliases of the measurements of a retention policy, in order, each with the name that it stands for.
    pub fn aliases(&self, database: &str, policy: &str) -> Vec<(String, Arc<str>)> {
        let key = (database.to_owned(), policy.to_owned());
        let state = self.state.read();
        let aliases = state.measurements.get(&key).into_iter().flat_map(PolicyMeasurements::aliases);
        aliases.map(|(alias, meaning)| (alias.clone(), meaning)).collect()
    }
}

fn table_of((_, measurement): &Place) -> Arc<SeriesTable> {
    measurement.stored().clone()
}

/// Fails if no writer could use a name. `what` says of what it is.
fn check_name(what: &str, name: &str) -> Result<()> {
    let problem = match name {
        "" => "is empty",
        name if name.len() > NAME_BYTES_MAX => "is longer than 65535 bytes",
        name if name.contains(['\n', '\0']) => "has a line break or a zero byte",
        _ => return Ok(()),
    };
    Err(Error::invalid(format!("the new name of a {what} {problem}")))
}

/// Fails if a field or tag of a measurement cannot get a name. `what`: field or tag.
fn check_part(measurement: &Measurement, what: &str, from: &str, to: &str) -> Result<()> {
    check_name(what, to)?;
    let owner = measurement.name();
    if from == to {
        return Err(Error::invalid(format!("{what} {from:?} of {owner:?} has this name already")));
    }
    if matches!(to, "time" | "time_ns") {
        return Err(Error::invalid(format!("no {what} can be called {to:?}: it is the name of the time")));
    }
    let taken = if has_field(measurement, to) {
        "a field"
    } else if measurement.has_tag_key(to) {
        "a tag"
    } else {
        return Ok(());
    };
    Err(Error::conflict(format!("{owner:?} has {taken} {to:?} already: nothing was changed")))
}

/// The error if a measurement has no field or tag of a name.
fn lacks(measurement: &Measurement, what: &str, name: &str) -> Error {
    let owner = measurement.name();
    let is_other = match what {
        "field" => measurement.has_tag_key(name),
        _ => has_field(measurement, name),
    };
    let other = if what == "field" { "a tag" } else { "a field" };
    match is_other {
        true => Error::invalid(format!("{name:?} of {owner:?} is {other}, not a {what}")),
        false => Error::missing(format!("{owner:?} has no {what} {name:?}")),
    }
}

/// Whether a measurement has a field.
fn has_field(measurement: &Measurement, name: &str) -> bool {
    measurement.fields().iter().any(|field| field.name == name)
}

/// The types of a field, each once.
fn types_of(measurement: &Measurement, name: &str) -> Vec<FieldType> {
    let fields = measurement.fields();
    fields.iter().filter(|field| field.name == name).map(|field| field.field_type).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nyala_core::ErrorKind;
    use nyala_core::store::memory::MemoryStore;
    use nyala_core::store::{Capabilities, Feature, Store, StoreRef};

    /// What a change of the only measurement of a store answers.
    async fn answer(capabilities: Capabilities, change: &MeasurementChange) -> Result<u64> {
        let store: StoreRef = Arc::new(MemoryStore::with_capabilities(capabilities));
        let catalog = Catalog::open(store).await?;
        catalog.create_database("d", None).await?;
        let policy = catalog.existing_database("d")?.existing_policy("")?.clone();
        catalog.create_measurements("d", &policy, vec!["m".to_owned()]).await?;
        let altered = AlteredMeasurement { database: "d", policy: None, name: "m" };
        catalog.alter_measurement(altered, change, &|| Ok(())).await
    }

    #[tokio::test]
    async fn what_a_store_cannot_do_is_refused_by_name() {
        let rename = MeasurementChange::Rename { to: "n".into(), keeps_alias: true };
        let own = MemoryStore::default().capabilities();
        assert!(answer(own, &rename).await.is_ok());
        let refused = answer(Capabilities { is_shared: true, ..own }, &rename).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(refused.message().contains("several servers share"), "{refused}");
        let without_stages = Capabilities { features: own.features.without(Feature::StagedWrites), ..own };
        assert!(answer(without_stages, &rename).await.is_ok());
        let retype = MeasurementChange::FieldType { field: "f".into(), to: FieldType::Float };
        let refused = answer(without_stages, &retype).await.unwrap_err();
        assert!(refused.message().contains("staged writes"), "{refused}");
    }
}
