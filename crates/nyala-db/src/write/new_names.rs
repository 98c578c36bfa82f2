//! Which measurements and fields a request may still bring into being.

use crate::catalog::{FieldType, Measurement};
use nyala_core::TableId;
use std::collections::HashSet;

/// Measurements and fields that one request brings into being, at most: so many take a second or two, and a mistake
/// of a client (names made of values) is told before it has filled the memory.
const NEW_NAMES_MAX: usize = 1 << 14;

/// The new names of a request.
#[derive(Default)]
pub(super) struct NewNames {
    /// How many there are.
    count: usize,
    /// Fields among them: they get their columns only later.
    fields: HashSet<(TableId, String, FieldType)>,
    /// Why there may be none, if there is no memory for others.
    full: Option<String>,
}

impl NewNames {
    /// Takes note of whether there is memory for names; if not, of what is said then.
    pub(super) fn set_full(&mut self, full: Option<String>) {
        self.full = full;
    }

    /// Whether so many other names may come into being.
    pub(super) fn take(&mut self, count: usize) -> bool {
        let may = self.full.is_none() && self.count + count <= NEW_NAMES_MAX;
        self.count += if may { count } else { 0 };
        may
    }

    /// Admits a field of a measurement that was made, with which it was taken.
    pub(super) fn admit(&mut self, measurement: &Measurement, name: String, field_type: FieldType) {
        self.fields.insert((measurement.table(), name, field_type));
    }

    /// Whether a field may be written: it is known, or may be made.
    pub(super) fn admits_field(
        &mut self,
        measurement: &Measurement,
        name: &str,
        field_type: FieldType,
    ) -> bool {
        if measurement.stored().has_column(name, field_type) {
            return true;
        }
        let key = (measurement.table(), name.to_owned(), field_type);
        if self.fields.contains(&key) {
            return true;
        }
        let may = self.take(1);
        if may {
            self.fields.insert(key);
        }
        may
    }

    /// Why there may be no other name; `what`: of what it would have been.
    pub(super) fn words(&self, what: &str) -> String {
        match &self.full {
            Some(reason) => format!("no new {what}: {reason}"),
            None => format!(
                "no new {what}: one request may bring {NEW_NAMES_MAX} measurements and fields into being; write in several, and check that names hold no values"
            ),
        }
    }
}
