//! The columns of a measurement: `time`, its tags, its fields, and `time_ns`.
//!
//! Several fields and tags may have one name. None of them is merged with another, so that no value is lost or changed: a
//! tag keeps the name, and a field that shares its name with a tag, or with a stronger type of the same field, is called
//! `name::type`. Floats are stronger than integers, then come unsigned integers, text and booleans, as in InfluxQL.
//!
//! PostgreSQL's times have microseconds. `time_ns` has all digits.

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use nyala_core::ColumnId;
use nyala_core::schema::TIME_COLUMN;
use nyala_db::catalog::{FieldType, Measurement};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of the column of times.
pub(crate) const TIME: &str = "time";
/// The name of the column of times as integers.
pub(crate) const TIME_NS: &str = "time_ns";
/// The key of a field's metadata by which clients know that column: there may be a field or a tag of its name.
pub const COMPUTED_KEY: &str = "nyala_computed";
/// The hidden column of the numbers of series, for statements that change points.
pub(crate) const SERIES: &str = "\u{0}series";
/// The zone of times.
pub(crate) const ZONE: &str = "+00:00";

/// The columns of a measurement.
#[derive(Debug)]
pub(crate) struct Columns {
    /// Their names and types.
    pub(crate) schema: SchemaRef,
    /// What each of them shows.
    pub(crate) sources: Vec<Source>,
    /// Whether floats may be NaN: samples of Prometheus may, no other writer accepts one.
    has_nan: bool,
}

/// What a column shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// The time.
    Time,
    /// The time as an integer, ns since 1970.
    TimeNs,
    /// The tag with this key.
    Tag(String),
    /// A field of this name and type, by its column in the store.
    Field(String, FieldType, ColumnId),
    /// The number of the series, which is hidden.
    Series,
}

impl Source {
    /// The column of the store that has its values, unless it is a tag.
    pub(crate) fn stored(&self) -> Option<ColumnId> {
        match self {
            Source::Time | Source::TimeNs => Some(TIME_COLUMN),
            Source::Tag(_) | Source::Series => None,
            Source::Field(_, _, column) => Some(*column),
        }
    }
}

impl Columns {
    /// The columns that a measurement has now, with the hidden one if `with_hidden`.
    pub(crate) fn of(measurement: &Measurement, with_hidden: bool) -> Self {
        let mut all = Named::default();
        all.add(TIME.to_owned(), time_type(), false, Source::Time);
        for key in measurement.tag_keys() {
            let text = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
            let name = all.free_name(&key, "tag");
            all.add(name, text, true, Source::Tag(key));
        }
        for field in measurement.fields().iter() {
            let name = all.free_name(&field.name, field.field_type.name());
            let data_type = field.field_type.column_type().data_type();
            let source = Source::Field(field.name.clone(), field.field_type, field.column);
            all.add(name, data_type, true, source);
        }
        let name = all.free_name(TIME_NS, "integer");
        all.add(name, DataType::Int64, false, Source::TimeNs);
        all.mark_last(COMPUTED_KEY, TIME);
        if with_hidden {
            all.add(SERIES.to_owned(), DataType::UInt32, false, Source::Series);
        }
        let has_nan = measurement.is_member();
        Self { schema: Arc::new(Schema::new(all.fields)), sources: all.sources, has_nan }
    }

    /// Whether a column may have a value that is no number.
    pub(crate) fn may_be_nan(&self, source: &Source) -> bool {
        self.has_nan && matches!(source, Source::Field(_, FieldType::Float, _))
    }

    /// What the column of a name shows.
    pub(crate) fn source(&self, name: &str) -> Option<&Source> {
        self.schema.index_of(name).ok().map(|position| &self.sources[position])
    }
}

/// The type of times.
pub(crate) fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Nanosecond, Some(ZONE.into()))
}

/// Columns that have their names.
#[derive(Default)]
struct Named {
    fields: Vec<Field>,
    sources: Vec<Source>,
    names: BTreeSet<String>,
}

impl Named {
    /// A name that no column has yet: the one given, or with what it is behind it.
    fn free_name(&self, name: &str, what: &str) -> String {
        let mut free = name.to_owned();
        while self.names.contains(&free) {
            free = format!("{free}::{what}");
        }
        free
    }

    fn add(&mut self, name: String, data_type: DataType, nullable: bool, source: Source) {
        self.names.insert(name.clone());
        self.fields.push(Field::new(name, data_type, nullable));
        self.sources.push(source);
    }

    /// Says something about the last column.
    fn mark_last(&mut self, key: &str, value: &str) {
        if let Some(field) = self.fields.last_mut() {
            field.set_metadata([(key.to_owned(), value.to_owned())].into());
        }
    }
}
