//! Which measurements and fields a request may still create.

use super::new_series::NoSeries;
use crate::catalog::{FieldType, Measurement};
use nyala_core::TableId;
use std::collections::HashSet;

/// The most measurements and fields that one request may create. Creating them takes a second or two. A client that
/// uses values as names gets an error before it has filled the memory.
const NEW_NAMES_MAX: usize = 1 << 14;

/// The new names of a request.
#[derive(Default, Clone)]
pub(super) struct NewNames {
    /// How many measurements and fields the request creates.
    count: usize,
    /// The fields among them. Their columns are created later.
    fields: HashSet<(TableId, String, FieldType)>,
    /// Why no name may be created, if memory is full.
    pub(super) memory_full_message: Option<String>,
    /// The quota because of which no measurement may be created.
    pub(super) series_quota: Option<u64>,
}

impl NewNames {
    /// Counts this many more names if they may be created, and returns whether they may.
    pub(super) fn take(&mut self, count: usize) -> bool {
        let may = self.memory_full_message.is_none() && self.count + count <= NEW_NAMES_MAX;
        self.count += if may { count } else { 0 };
        may
    }

    /// Admits a field that was counted with its new measurement.
    pub(super) fn admit(&mut self, measurement: &Measurement, name: String, field_type: FieldType) {
        self.fields.insert((measurement.table(), name, field_type));
    }

    /// Whether a field may be written: it exists, or it may be created and is counted.
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

    /// Why a measurement may not be created.
    pub(super) fn measurement_message(&self, name: &str) -> String {
        let what = format!("measurement {name:?}");
        match self.series_quota {
            Some(most) => NoSeries::of_quota(most, &what),
            None => self.message(&what),
        }
    }

    /// Why a name may not be created. `what` names the thing.
    pub(super) fn message(&self, what: &str) -> String {
        match &self.memory_full_message {
            Some(reason) => format!("no new {what}: {reason}"),
            None => format!(
                "no new {what}: one request may bring {NEW_NAMES_MAX} measurements and fields into being; write in several, and check that names hold no values"
            ),
        }
    }
}
