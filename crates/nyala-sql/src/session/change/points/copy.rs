//! COPY into a measurement: rows of a client become points.

use super::columns::as_tags;
use super::insert::Collected;
use super::inserted_column::{InsertedColumn, declared_of, inserted_columns};
use super::source_of;
use super::value::FieldRules;
use crate::copy::{COPY_WAIT_MAX, CopiedRows};
use crate::error::{SqlError, SqlResult};
use crate::measurement::{MeasurementTable, Source};
use crate::relation::columns::data_type;
use crate::relation::input::Surroundings;
use crate::relation::shown_as;
use crate::session::{Run, Session};
use crate::target::Place;
use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{Field, Schema, SchemaRef};
use nyala_db::relations::DeclaredType;
use nyala_exec::memory::MemoryCharge;
use std::sync::Arc;

/// A measurement whose points are sent by a client.
#[derive(Debug)]
pub(crate) struct CopiedPoints {
    place: Place,
    policy: String,
    table: MeasurementTable,
    columns: Arc<Vec<InsertedColumn>>,
}

/// Points on their way into a measurement.
pub(in crate::session::change) struct PointsIn {
    place: Place,
    policy: String,
    columns: Arc<Vec<InsertedColumn>>,
    rules: FieldRules,
    collected: Collected,
    held: MemoryCharge,
}

impl CopiedPoints {
    pub(in crate::session::change) async fn of(
        session: &Session,
        place: Place,
        policy: String,
        names: &[String],
    ) -> SqlResult<Self> {
        let catalog = session.server.catalog.clone();
        let found = catalog.measurement(&place.database, &policy, &place.name).await?;
        let measurement = found.ok_or_else(|| place.unknown())?;
        let table = MeasurementTable::of(measurement, &place.database, &policy, false);
        let columns = inserted_columns(&table, &place, names)?.into_iter();
        let columns = columns.map(|(name, source)| InsertedColumn { name, source, is_unknown: false });
        let columns = Arc::new(columns.collect());
        Ok(Self { place, policy, table, columns })
    }

    pub(in crate::session::change) fn name(&self) -> &str {
        &self.place.name
    }

    pub(in crate::session::change) fn database(&self) -> &str {
        &self.place.database
    }

    pub(in crate::session::change) fn names(&self) -> Vec<&str> {
        self.columns.iter().map(|column| &*column.name).collect()
    }

    pub(in crate::session::change) fn check_column(&self, name: &str) -> SqlResult<()> {
        source_of(&self.table, &self.place, name).map(drop)
    }

    pub(in crate::session::change) fn types(&self) -> Vec<DeclaredType> {
        self.columns.iter().map(|column| declared_of(&column.source)).collect()
    }

    pub(in crate::session::change) fn schema(&self) -> SchemaRef {
        let field =
            |column: &InsertedColumn| Field::new(&column.name, data_type(declared_of(&column.source)), true);
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }
}

impl Session {
    /// Begins to copy points; `None` if the measurement is another one since the statement was prepared.
    pub(in crate::session::change) async fn points_in(
        &self,
        points: &CopiedPoints,
        run: &Run,
        around: Surroundings,
    ) -> SqlResult<Option<PointsIn>> {
        if self.transaction.is_some() {
            return Err(SqlError::unsupported("changing points inside a transaction")
                .with_hint("Execute the statement before BEGIN or after COMMIT."));
        }
        let catalog = self.server.catalog.clone();
        let CopiedPoints { place, policy, table, columns } = points;
        let found = catalog.measurement(&place.database, policy, &place.name).await?;
        let measurement = found.ok_or_else(|| place.unknown())?;
        if !Arc::ptr_eq(&measurement, &table.measurement) {
            return Ok(None);
        }
        let rules = FieldRules {
            around,
            capabilities: catalog.store().capabilities(),
            accepts_all_floats: measurement.is_member(),
        };
        let (place, policy, columns) = (place.clone(), policy.clone(), columns.clone());
        let collected = Collected::of(self, &place, &policy, &rules);
        let held = run.memory().hold();
        Ok(Some(PointsIn { place, policy, columns, rules, collected, held }))
    }
}

impl PointsIn {
    /// Collects rows, and waits while there is no memory for them.
    pub(in crate::session::change) async fn write(&mut self, copied: &CopiedRows) -> SqlResult<()> {
        let bytes = self.collect(copied)?;
        Ok(self.held.charge_within(COPY_WAIT_MAX, bytes).await?)
    }

    /// Collects rows. Says what more memory they take.
    pub(in crate::session::change) fn collect(&mut self, copied: &CopiedRows) -> SqlResult<usize> {
        let stored = self.columns.iter().zip(&copied.columns).map(|(own, values)| {
            if is_tag(own) && values.as_any_dictionary_opt().is_some() {
                return Ok((own, values.clone()));
            }
            let values = shown_as(values, &data_type(declared_of(&own.source)))?;
            Ok((own, own.stored(&values, &self.rules)?))
        });
        let stored = stored.collect::<SqlResult<_>>()?;
        self.collected.add(&self.place.name, stored, copied.count())
    }

    /// Writes all of them, and says how many.
    pub(in crate::session::change) async fn finish(&mut self, session: &Session) -> SqlResult<u64> {
        self.collected.write(session, &self.place.database, &self.policy, self.rules.around.now_ns).await
    }

    /// A column that is a tag and came as a dictionary stays one; `None`: it is another one.
    pub(in crate::session::change) fn tags(
        &self,
        column: usize,
        values: &ArrayRef,
    ) -> Option<SqlResult<ArrayRef>> {
        let takes_them = self.collected.takes_dictionaries() && is_tag(self.columns.get(column)?);
        (takes_them && values.as_any_dictionary_opt().is_some()).then(|| as_tags(values))
    }
}

fn is_tag(column: &InsertedColumn) -> bool {
    matches!(column.source, Source::Tag(_))
}
