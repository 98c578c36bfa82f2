//! Altering tables: columns, ranges, name, owner, options.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::partition::{HashPartition, RangePartition, row_operations};
use crate::pb;
use crate::pb::master::*;
use crate::row::EncodedRows;
use crate::schema::{Column, Compression, Encoding};
use crate::table::Table;
use crate::value::Value;

/// Changes to a table, from [`Table::alter`]; all are applied together, or none.
#[derive(Clone, Debug)]
pub struct TableAlterer {
    table: Table,
    steps: Vec<Result<AlterStep>>,
    features: Vec<u32>,
    new_name: Option<String>,
    owner: Option<String>,
    comment: Option<String>,
    replicas: Option<i32>,
    extra_configs: HashMap<String, String>,
    names_ranges: bool,
}

/// Changes to the storage of a column, for [`TableAlterer::change_column`].
#[derive(Clone, Debug, Default)]
pub struct ColumnChange {
    /// A new default value.
    pub default_value: Option<Value>,
    /// Removes the default value.
    pub remove_default: bool,
    /// A new encoding for data written from now on.
    pub encoding: Option<Encoding>,
    /// A new compression for data written from now on.
    pub compression: Option<Compression>,
    /// A new block size.
    pub block_size_bytes: Option<i32>,
    /// A new comment.
    pub comment: Option<String>,
}

impl Table {
    /// Begins to change the table.
    pub fn alter(&self) -> TableAlterer {
        TableAlterer {
            table: self.clone(),
            steps: Vec::new(),
            features: Vec::new(),
            new_name: None,
            owner: None,
            comment: None,
            replicas: None,
            extra_configs: HashMap::new(),
            names_ranges: false,
        }
    }
}

impl TableAlterer {
    fn step(mut self, step: Result<AlterStep>) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a column. A NOT NULL column needs a default.
    #[must_use]
    pub fn add_column(mut self, column: &Column) -> Self {
        if column.is_immutable {
            self.features.push(FEATURE_IMMUTABLE_COLUMN);
        }
        let step = column.to_pb().map(|schema| AlterStep {
            step_type: Some(STEP_ADD_COLUMN),
            add_column: Some(AddColumn { schema: Some(schema) }),
            ..Default::default()
        });
        self.step(step)
    }

    /// Drops a column with its data.
    #[must_use]
    pub fn drop_column(self, name: &str) -> Self {
        self.step(Ok(AlterStep {
            step_type: Some(STEP_DROP_COLUMN),
            drop_column: Some(DropColumn { name: name.into() }),
            ..Default::default()
        }))
    }

    /// Renames a column.
    #[must_use]
    pub fn rename_column(self, old_name: &str, new_name: &str) -> Self {
        self.step(Ok(AlterStep {
            step_type: Some(STEP_RENAME_COLUMN),
            rename_column: Some(RenameColumn { old_name: old_name.into(), new_name: new_name.into() }),
            ..Default::default()
        }))
    }

    /// Changes the storage of a column.
    #[must_use]
    pub fn change_column(self, name: &str, change: ColumnChange) -> Self {
        let delta = (|| {
            let schema = self.table.schema();
            let to_wire = |value: &Value| value.to_wire(schema.columns()[schema.find(name)?].data_type);
            let default_value = change.default_value.as_ref().map(to_wire).transpose()?;
            Ok(pb::ColumnSchemaDelta {
                name: Some(name.into()),
                new_name: None,
                default_value,
                remove_default: change.remove_default.then_some(true),
                encoding: change.encoding.map(Encoding::code),
                compression: change.compression.map(Compression::code),
                block_size: change.block_size_bytes,
                new_comment: change.comment,
                immutable: None,
            })
        })();
        let step = delta.map(|delta| AlterStep {
            step_type: Some(STEP_ALTER_COLUMN),
            alter_column: Some(AlterColumn { delta: Some(delta) }),
            ..Default::default()
        });
        self.step(step)
    }

    /// Adds a range partition.
    #[must_use]
    pub fn add_range(mut self, range: &RangePartition) -> Self {
        self.names_ranges = true;
        if range.hash.is_some() {
            self.features.push(FEATURE_RANGE_SPECIFIC_HASH_SCHEMA);
        }
        let custom_hash_schema = range.hash.as_ref().map(|dimensions| CustomHashSchema {
            hash_schema: dimensions.iter().map(HashPartition::to_pb).collect(),
        });
        let step = self.encode(range).map(|bounds| AlterStep {
            step_type: Some(STEP_ADD_RANGE_PARTITION),
            add_range_partition: Some(AddRangePartition {
                range_bounds: Some(bounds),
                dimension_label: None,
                custom_hash_schema,
            }),
            ..Default::default()
        });
        self.step(step)
    }

    /// Drops a range partition with its data. The bounds must be exactly those of the partition.
    #[must_use]
    pub fn drop_range(mut self, range: &RangePartition) -> Self {
        self.names_ranges = true;
        let step = self.encode(range).map(|bounds| AlterStep {
            step_type: Some(STEP_DROP_RANGE_PARTITION),
            drop_range_partition: Some(DropRangePartition { range_bounds: Some(bounds) }),
            ..Default::default()
        });
        self.step(step)
    }

    fn encode(&self, range: &RangePartition) -> Result<pb::RowOperations> {
        let mut bounds = EncodedRows::default();
        range.encode(self.table.schema(), &mut bounds)?;
        Ok(row_operations(bounds))
    }

    /// Renames the table.
    #[must_use]
    pub fn rename(mut self, name: impl Into<String>) -> Self {
        self.new_name = Some(name.into());
        self
    }

    /// Gives the table to another owner.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.owner = Some(owner.into());
        self
    }

    /// Sets the table's comment.
    #[must_use]
    pub fn comment(mut self, comment: impl Into<String>) -> Self {
        self.comment = Some(comment.into());
        self
    }

    /// Changes the number of replicas of each tablet.
    #[must_use]
    pub fn replicas(mut self, replicas: i32) -> Self {
        self.replicas = Some(replicas);
        self
    }

    /// Changes an option of the table; an empty value removes it.
    #[must_use]
    pub fn extra_config(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.extra_configs.insert(name.into(), value.into());
        self
    }

    /// Applies the changes, waits until every tablet has them, and opens the changed table.
    ///
    /// # Errors
    /// When the masters refuse the changes; then nothing is changed.
    pub async fn apply(self) -> Result<Table> {
        let steps: Vec<AlterStep> = self.steps.into_iter().collect::<Result<_>>()?;
        let mut features = self.features;
        if self.names_ranges {
            features.push(FEATURE_ADD_DROP_RANGE_PARTITIONS);
        }
        let schema = self.names_ranges.then(|| self.table.schema().to_plain_pb());
        let request = AlterTableRequest {
            table: Some(TableIdentifier::by_name(self.table.name())),
            alter_schema_steps: steps,
            new_table_name: self.new_name.clone(),
            schema,
            new_extra_configs: self.extra_configs,
            new_table_owner: self.owner,
            new_table_comment: self.comment,
            num_replicas: self.replicas,
        };
        let client = self.table.client();
        let cluster = &client.cluster;
        let deadline = cluster.admin_deadline();
        let mut repeated = false;
        let answer: Result<PlainResponse> = cluster
            .call_master_noting_repeats("AlterTable", &request, &features, deadline, &mut repeated)
            .await;
        if let Err(error) = answer {
            return Err(if repeated {
                // An earlier attempt may have been applied, and may be the reason for the refusal.
                Error::new(
                    crate::ErrorKind::OutcomeUnknown,
                    format!("the change may have been applied: {error}"),
                )
            } else {
                error
            });
        }
        let name = self.new_name.as_deref().unwrap_or(self.table.name());
        cluster.wait_until_done("IsAlterTableDone", name, deadline).await?;
        if self.names_ranges {
            self.table.forget_locations();
        }
        client.open_table(name).await
    }
}
