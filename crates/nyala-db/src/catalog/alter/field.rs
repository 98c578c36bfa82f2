//! Another name for a field: its columns keep their numbers and values. Records say that they are called otherwise than
//! the store calls them, and which types the field has in shards. All of them are written in one batch.
//!
//! A column of the new name may be left over from points that were deleted. It gets the old name in exchange, and is used
//! again when somebody writes a field of that name.

use super::{Place, check_part, has_field, lacks, types_of};
use crate::catalog::record::{column_name_key, shard_type_key};
use crate::catalog::{Catalog, Measurement};
use nyala_core::store::{Operation, WriteBatch};
use nyala_core::{ColumnId, Result};

impl Catalog {
    /// Renames a field of measurements. The caller holds their table locks exclusively.
    pub(super) async fn rename_field(&self, places: &[Place], from: &str, to: &str) -> Result<()> {
        let with_field: Vec<&Measurement> =
            places.iter().map(|(_, own)| &**own).filter(|own| has_field(own, from)).collect();
        if with_field.is_empty() {
            return Err(lacks(&places[0].1, "field", from));
        }
        with_field.iter().try_for_each(|own| check_part(own, "field", from, to))?;
        let (mut operations, mut renamed) = (Vec::new(), Vec::new());
        for own in with_field {
            own.stored().save_removals().await?;
            let columns = columns_of(own, from, to);
            operations.extend(operations_of(own, &columns, from, to));
            renamed.push((own, columns));
        }
        self.store.write(WriteBatch { operations }).await?;
        for (own, columns) in renamed {
            own.stored().rename_field(from, to, columns);
        }
        Ok(())
    }
}

/// The columns that get other names.
fn columns_of(measurement: &Measurement, from: &str, to: &str) -> Vec<(ColumnId, String)> {
    let types = types_of(measurement, from);
    let all = measurement.stored().all_fields();
    let renamed = |own: &crate::catalog::Field| match &own.name {
        name if name == from && types.contains(&own.field_type) => Some((own.column, to.to_owned())),
        name if name == to && types.contains(&own.field_type) => Some((own.column, from.to_owned())),
        _ => None,
    };
    all.iter().filter_map(renamed).collect()
}

fn operations_of(
    measurement: &Measurement,
    columns: &[(ColumnId, String)],
    from: &str,
    to: &str,
) -> Vec<Operation> {
    let (table, records) = (measurement.table(), measurement.stored().records());
    let types = measurement.stored().types_of_field(from);
    let gone: Vec<_> = types.iter().map(|(start_ns, _)| shard_type_key(table, *start_ns, from)).collect();
    let names =
        columns.iter().map(|(column, name)| (column_name_key(table, *column), name.clone().into_bytes()));
    let types = types.iter().map(|(start_ns, own)| (shard_type_key(table, *start_ns, to), vec![own.code()]));
    let put: Vec<(Vec<u8>, Vec<u8>)> = names.chain(types).collect();
    vec![
        records.remove(gone.iter().map(Vec::as_slice)),
        records.put(put.iter().map(|(key, value)| (&**key, &**value))),
    ]
}
