//! Names of relations, keys and indexes: a database has each of them once.

use super::{Definition, Relation, Relations};
use nyala_core::{Error, Result};

/// A relation as it is to become.
pub(super) struct Named<'a> {
    pub(super) database: &'a str,
    pub(super) name: &'a str,
    pub(super) definition: &'a Definition,
    /// What it was before.
    pub(super) before: Option<&'a Relation>,
}

impl Named<'_> {
    fn has(&self, name: &str) -> bool {
        self.name == name || self.definition.inner_names().any(|own| own == name)
    }

    /// The names that it has not had.
    fn new_names(&self) -> impl Iterator<Item = &str> {
        let all = std::iter::once(self.name).chain(self.definition.inner_names());
        all.filter(|name| self.before.is_none_or(|before| !before.has_name(name)))
    }
}

impl Relations {
    /// Fails if one of some relations takes a name that another one has, among these or those that stay as they are: whose
    /// database and name `is_changed` does not have.
    ///
    /// # Errors
    /// Conflict, with the name.
    pub(super) fn check_names(
        &self,
        become_so: &[Named<'_>],
        is_changed: impl Fn(&str, &str) -> bool,
    ) -> Result<()> {
        if become_so.iter().all(|own| own.new_names().next().is_none()) {
            return Ok(());
        }
        let all = self.all();
        for (place, own) in become_so.iter().enumerate() {
            for name in own.new_names() {
                let stays = |other: &&std::sync::Arc<Relation>| {
                    other.database == own.database && !is_changed(&other.database, &other.name)
                };
                let others = become_so.iter().enumerate().filter(|(other, _)| *other != place);
                let mut others = others.filter(|(_, other)| other.database == own.database);
                let twice = std::iter::once(own.name).chain(own.definition.inner_names());
                if all.iter().filter(stays).any(|other| other.has_name(name))
                    || others.any(|(_, other)| other.has(name))
                    || twice.filter(|own| *own == name).count() > 1
                {
                    return Err(Error::conflict(format!("relation {name:?} exists")));
                }
            }
        }
        Ok(())
    }
}
