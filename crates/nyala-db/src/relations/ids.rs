//! How ids of the store are written in records: as numbers.

pub(super) mod table_id {
    use nyala_core::TableId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::relations) fn serialize<S: Serializer>(id: &TableId, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(id.0)
    }

    pub(in crate::relations) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TableId, D::Error> {
        u32::deserialize(from).map(TableId)
    }
}

pub(super) mod column_id {
    use nyala_core::ColumnId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::relations) fn serialize<S: Serializer>(id: &ColumnId, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u32(id.0)
    }

    pub(in crate::relations) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<ColumnId, D::Error> {
        u32::deserialize(from).map(ColumnId)
    }
}

pub(super) mod column_ids {
    use nyala_core::ColumnId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::relations) fn serialize<S: Serializer>(ids: &[ColumnId], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(ids.iter().map(|id| id.0))
    }

    pub(in crate::relations) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<ColumnId>, D::Error> {
        Ok(Vec::<u32>::deserialize(from)?.into_iter().map(ColumnId).collect())
    }
}
