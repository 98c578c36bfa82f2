//! A change that is applied to two stores.

use super::super::{
    Alteration, Delete, Freshness, Operation, RowPosition, Store, Update, Upsert, WriteBatch,
};
use super::generate::{Generator, KnownTable};
use crate::error::{ErrorKind, Result};
use crate::ids::{ColumnId, TableId};
use crate::schema::{ColumnSchema, ColumnType, Encoding, Ranges, TableSchema};
use crate::time::{TimeRange, partition_time, window_of_width};

/// A change. It names tables of the naive store.
#[derive(Debug, Clone)]
pub enum Step {
    /// Creates tables.
    Create(Vec<TableSchema>),
    /// Alters tables.
    Alter(Vec<(TableId, Vec<Alteration>)>),
    /// Drops tables.
    DropTables(Vec<TableId>),
    /// Drops partitions.
    DropPartitions(TableId, TimeRange),
    /// Writes a batch.
    Write(WriteBatch),
    /// Deletes rows.
    Delete(Delete),
    /// Updates rows.
    Update(Update),
}

/// What a step returns if it succeeds.
#[derive(Debug, Clone, PartialEq)]
enum Answer {
    Nothing,
    Tables(Vec<TableId>),
    Schemas(Vec<TableSchema>),
    Rows(u64),
    Written(u64, Vec<RowPosition>),
}

/// The outcome of a step when disks fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered correctly.
    Done,
    /// The store could not do it. It says that nothing was stored, or that it does not know, which becomes clear after
    /// the next start at the latest.
    Failed(ErrorKind),
}

impl Generator {
    /// The next random change.
    pub fn step(&mut self) -> Step {
        if self.wants_table() {
            return self.create();
        }
        let table = self.any_table().expect("there are tables");
        match self.below(40) {
            0..4 => Step::Delete(Delete {
                table: table.model,
                rows: self.selection(&table.schema),
                predicates: self.predicates(&table.schema),
            }),
            4..8 => {
                let columns: Vec<_> = table.schema.columns.clone();
                let assignments = (0..1 + self.below(2))
                    .map(|_| {
                        let column = &columns[self.below(columns.len() as u64) as usize];
                        let value = (!self.chance(4)).then(|| self.value(column.column_type));
                        (column.id, value)
                    })
                    .collect();
                Step::Update(Update {
                    table: table.model,
                    rows: self.selection(&table.schema),
                    predicates: self.predicates(&table.schema),
                    assignments,
                })
            }
            8..11 => {
                let mut changes = vec![(table.model, self.alterations(&table))];
                let other = self.any_table().filter(|other| other.model != table.model && self.chance(3));
                if let Some(other) = other.as_ref().filter(|_| self.chance(4)) {
                    return Step::Alter(self.renames(&table, other));
                }
                changes.extend(other.map(|other| (other.model, self.alterations(&other))));
                Step::Alter(changes)
            }
            11 if self.chance(3) => {
                let mut tables = vec![table.model];
                // If one table no longer exists, or is named twice, none is dropped.
                let other = self.any_table().filter(|_| self.chance(3));
                tables.extend(other.map(|other| other.model));
                Step::DropTables(tables)
            }
            12 | 13 => Step::DropPartitions(table.model, self.partition_range(&table)),
            _ => self.batch().map_or_else(|| self.create(), Step::Write),
        }
    }

    fn create(&mut self) -> Step {
        let mut schemas = vec![self.new_table()];
        if self.chance(4) {
            schemas.push(self.new_table());
        }
        if self.chance(20) {
            // The name is taken, so none of the tables is created.
            schemas.push(schemas[0].clone());
        }
        Step::Create(schemas)
    }

    /// One table gets the name of another one, which has or has not given it up before; or both get the same name.
    fn renames(&mut self, one: &KnownTable, other: &KnownTable) -> Vec<(TableId, Vec<Alteration>)> {
        self.names += 1;
        let fresh = format!("table {}", self.names);
        let (first, second) = match self.below(3) {
            0 => (fresh, one.schema.name.clone()),
            1 => (other.schema.name.clone(), fresh),
            _ => (fresh.clone(), fresh),
        };
        vec![(one.model, vec![Alteration::Rename(first)]), (other.model, vec![Alteration::Rename(second)])]
    }

    fn alterations(&mut self, table: &KnownTable) -> Vec<Alteration> {
        let any = |generator: &mut Self| {
            let columns = &table.schema.columns;
            columns[generator.below(columns.len() as u64) as usize].id
        };
        let next = table.schema.next_column;
        let is_series_keyed = table.schema.is_series_keyed();
        let add = |generator: &mut Self, id: ColumnId| match is_series_keyed {
            true => Alteration::add_column(format!("column {id}"), generator.column_type()),
            false => {
                let column = generator.new_column(id);
                Alteration::AddColumn(ColumnSchema {
                    // The store chooses the id, whatever it is here.
                    id: ColumnId(7),
                    // A column that is not nullable needs a default, which not every store supports.
                    nullable: column.nullable || !generator.chance(4),
                    default: column.default.filter(|_| generator.chance(3)),
                    ..column
                })
            }
        };
        match self.below(15) {
            0..4 => vec![add(self, next)],
            4 if self.chance(2) => vec![add(self, next), add(self, ColumnId(next.0 + 1))],
            4 => {
                // One that is there, or its name with another type, or a new one.
                let name =
                    table.schema.column(any(self)).map(|column| (column.name.clone(), column.column_type));
                let (name, column_type) = name.expect("it is one of them");
                let column_type = if self.chance(2) { column_type } else { self.column_type() };
                let name = if self.chance(3) { format!("ensured {}", self.below(5)) } else { name };
                vec![Alteration::EnsureColumn(name, column_type), add(self, next)]
            }
            10 => {
                let id = any(self);
                let column_type =
                    table.schema.column(id).map_or(ColumnType::Bool, |column| column.column_type);
                vec![Alteration::SetDefault(id, (!self.chance(4)).then(|| self.value(column_type)))]
            }
            11 if self.chance(6) => vec![add(self, next), Alteration::SetNullable(next, false)],
            11 => vec![Alteration::SetNullable(any(self), self.chance(2))],
            12 => {
                let (hidden, encoding) =
                    (self.chance(2), if self.chance(2) { Encoding::Size } else { Encoding::Speed });
                vec![Alteration::SetHidden(any(self), hidden), Alteration::SetEncoding(any(self), encoding)]
            }
            13 => {
                let (id, wider) = (any(self), self.column_type());
                vec![Alteration::Widen(id, wider)]
            }
            14 if matches!(table.schema.partitioning.ranges, Ranges::Keys { .. }) || self.chance(8) => {
                let span = self.key_span(&table.schema);
                vec![if self.chance(2) { Alteration::AddRange(span) } else { Alteration::DropRange(span) }]
            }
            5 | 6 => vec![Alteration::DropColumn(any(self))],
            7 => vec![Alteration::RenameColumn(any(self), format!("renamed {}", self.below(100)))],
            8 => {
                self.names += 1;
                vec![Alteration::Rename(format!("table {}", self.names))]
            }
            _ if table.schema.partitioning.time_width_ns().is_some() => {
                vec![Alteration::SetPartitionWidth(200 + self.below(2000) as i64)]
            }
            _ => vec![Alteration::DropColumn(ColumnId(998))],
        }
    }

    fn partition_range(&mut self, table: &KnownTable) -> TimeRange {
        match table.schema.partitioning.time_width_ns() {
            Some(width_ns) if !table.width_changed && !self.chance(6) => {
                let first = window_of_width(partition_time(self.time()), width_ns);
                let more_ns = width_ns * self.below(3) as i64;
                TimeRange::new(first.start_ns, first.end_ns.saturating_add(more_ns))
            }
            _ => TimeRange::ALL,
        }
    }
}

/// Replaces the table ids of a batch.
pub(super) fn rename_tables(batch: &mut WriteBatch, rename: impl Fn(TableId) -> TableId) {
    for operation in &mut batch.operations {
        let (Operation::Upsert(Upsert { table, .. }) | Operation::DeleteKeys { table, .. }) = operation;
        *table = rename(*table);
    }
}

impl Step {
    /// The same step with other table ids.
    fn with_tables(&self, rename: impl Fn(TableId) -> TableId) -> Self {
        let mut step = self.clone();
        match &mut step {
            Step::Create(_) => {}
            Step::Alter(changes) => changes.iter_mut().for_each(|(table, _)| *table = rename(*table)),
            Step::DropTables(tables) => tables.iter_mut().for_each(|table| *table = rename(*table)),
            Step::DropPartitions(table, _) => *table = rename(*table),
            Step::Write(batch) => rename_tables(batch, rename),
            Step::Delete(delete) => delete.table = rename(delete.table),
            Step::Update(update) => update.table = rename(update.table),
        }
        step
    }

    /// Applies the step to one store, which has its tables under other ids.
    pub async fn apply_alone(&self, store: &dyn Store, rename: impl Fn(TableId) -> TableId) -> Result<()> {
        self.with_tables(rename).apply(store).await.map(drop)
    }

    async fn apply(&self, store: &dyn Store) -> Result<Answer> {
        Ok(match self.clone() {
            Step::Create(schemas) => Answer::Tables(store.create_tables(schemas).await?),
            Step::Alter(changes) => {
                let schemas = store.alter_tables(changes).await?;
                Answer::Schemas(schemas.iter().map(|schema| TableSchema::clone(schema)).collect())
            }
            Step::DropTables(tables) => {
                store.drop_tables(tables).await?;
                Answer::Nothing
            }
            Step::DropPartitions(table, range) => {
                store.drop_partitions(table, range).await?;
                Answer::Nothing
            }
            Step::Write(batch) => {
                let written = store.write(batch).await?;
                let snapshot = store.snapshot(Freshness::AtLeast(written.sequence)).await?;
                assert!(
                    snapshot.sequence() >= written.sequence,
                    "what was written is in the snapshot that asks for it"
                );
                Answer::Written(written.affected, written.conflicts)
            }
            Step::Delete(delete) => {
                store.delete(delete).await?;
                Answer::Nothing
            }
            Step::Update(update) => Answer::Rows(store.update(update).await?.affected),
        })
    }

    /// Applies the step to both stores and compares the answers. The generator learns which tables exist. Returns
    /// whether the step succeeded, rather than failed in both.
    pub async fn apply_to_both(
        &self,
        generator: &mut Generator,
        subject: &dyn Store,
        model: &dyn Store,
    ) -> std::result::Result<bool, String> {
        let expected = self.apply(model).await;
        let found = self.apply_to_subject(generator, subject).await;
        self.compare(generator, found, expected)
    }

    fn compare(
        &self,
        generator: &mut Generator,
        found: Result<Answer>,
        expected: Result<Answer>,
    ) -> std::result::Result<bool, String> {
        match (found, expected) {
            (Ok(Answer::Tables(subjects)), Ok(Answer::Tables(models))) if subjects.len() == models.len() => {
                self.learn(generator, &subjects.into_iter().zip(models).collect::<Vec<_>>());
                Ok(true)
            }
            (Ok(found), Ok(expected)) if found == expected => {
                self.learn(generator, &[]);
                Ok(true)
            }
            (Err(found), Err(expected)) if found.kind() == expected.kind() => Ok(false),
            (found, expected) => Err(format!("answered {found:?}, not {expected:?}")),
        }
    }

    /// The same when disks fail: what the store could not do because of a disk is not done to the model.
    pub async fn try_on_both(
        &self,
        generator: &mut Generator,
        subject: &dyn Store,
        model: &dyn Store,
    ) -> std::result::Result<Outcome, String> {
        match self.apply_to_subject(generator, subject).await {
            Err(error) if matches!(error.kind(), ErrorKind::Retry | ErrorKind::Unknown | ErrorKind::Io) => {
                Ok(Outcome::Failed(error.kind()))
            }
            found => {
                self.compare(generator, found, self.apply(model).await)?;
                Ok(Outcome::Done)
            }
        }
    }

    /// Applies the step to the naive store alone: the state if a step happened whose outcome is unknown.
    pub async fn apply_to_model(&self, model: &dyn Store) {
        // What it refuses, the other store has refused too.
        let _ = self.apply(model).await;
    }

    async fn apply_to_subject(&self, generator: &Generator, subject: &dyn Store) -> Result<Answer> {
        let rename = |model: TableId| {
            let known = generator.tables.iter().find(|table| table.model == model);
            known.map_or(TableId(u32::MAX), |table| table.subject)
        };
        self.with_tables(rename).apply(subject).await
    }

    fn learn(&self, generator: &mut Generator, made: &[(TableId, TableId)]) {
        match self {
            Step::Create(schemas) => {
                generator.tables.extend(schemas.iter().zip(made).map(|(schema, (subject, model))| {
                    KnownTable {
                        subject: *subject,
                        model: *model,
                        schema: schema.clone(),
                        width_changed: false,
                    }
                }));
            }
            Step::Alter(changes) => {
                for (id, alterations) in changes {
                    let table = generator.tables.iter_mut().find(|table| table.model == *id);
                    let table = table.expect("known tables are altered");
                    table.width_changed |=
                        alterations.iter().any(|each| matches!(each, Alteration::SetPartitionWidth(_)));
                    table.schema.alter(alterations.clone(), |_| false).expect("the stores took it");
                }
            }
            Step::DropTables(tables) => {
                for id in tables {
                    let at = generator.tables.iter().position(|table| table.model == *id);
                    let table = generator.tables.remove(at.expect("known tables are dropped"));
                    generator.dropped.push((table.subject, table.model));
                }
            }
            _ => {}
        }
    }
}
