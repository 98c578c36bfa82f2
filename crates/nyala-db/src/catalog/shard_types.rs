//! The fields of a table of points, and their types by shard.
//!
//! A field is one nullable column per (name, type). Within one shard a field has one type: the one that was written
//! there first. Types are stored in records beside the series. A field exists as long as a shard has it. Its column
//! remains after its last shard is deleted, invisible, and is used again. Fields that only one member of a group has
//! are kept separately.

use super::field::{Field, FieldType, ShardTypes, fields_of, find, present_fields, sort};
use super::record::{ReadRecords, is_type_key, own_type_key, shard_type_key};
use super::series_table::{Loaded, SeriesTable};
use nyala_core::{ColumnId, Result, TableSchema};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

impl SeriesTable {
    /// Its fields by name, then type. A field occurs once for each type that it has in some shard.
    pub(crate) fn fields(&self) -> Arc<Vec<Field>> {
        self.loaded().fields.read().clone()
    }

    /// Its fields, or those of a member, in the shards that contain times from `first_ns` to `last_ns`.
    pub(crate) async fn fields_between(
        &self,
        member: Option<&str>,
        first_ns: i64,
        last_ns: i64,
    ) -> Result<Arc<Vec<Field>>> {
        let is_outside = |start_ns: &i64| *start_ns < first_ns || *start_ns > last_ns;
        let has_own_outside = |member: &str| self.shard_starts_of_member_ns(member).iter().any(is_outside);
        if !self.loaded().shard_types.read().keys().any(is_outside) && !member.is_some_and(has_own_outside) {
            return Ok(member.map_or_else(|| self.fields(), |member| self.fields_of_member(member)));
        }
        let partitions = self.partitions().await?;
        let overlaps = |start_ns: &i64| {
            let range =
                partitions.iter().map(|partition| partition.range).find(|range| range.contains(*start_ns));
            range.is_some_and(|range| range.start_ns <= last_ns && range.end_ns > first_ns)
        };
        let (shard_types, own_types) = (self.loaded().shard_types.read(), self.loaded().own_types.read());
        let own = member.and_then(|member| own_types.get(member));
        let all = shard_types.iter().chain(own.into_iter().flatten());
        let here = all.filter(|(start_ns, _)| overlaps(start_ns)).map(|(_, types)| types);
        Ok(Arc::new(present_fields(&self.columns.read(), here)))
    }

    /// The fields of a member of its group.
    pub(crate) fn fields_of_member(&self, member: &str) -> Arc<Vec<Field>> {
        // Always locked in this order, because a waiting writer blocks readers.
        let (shard_types, own_types) = (self.loaded().shard_types.read(), self.loaded().own_types.read());
        // Few members have fields of their own.
        let Some(own) = own_types.get(member) else { return self.fields() };
        Arc::new(present_fields(&self.columns.read(), shard_types.values().chain(own.values())))
    }

    /// Recomputes the fields after shards or columns have changed.
    fn update_fields(&self) {
        self.update_fields_of(self.loaded());
    }

    fn update_fields_of(&self, loaded: &Loaded) {
        // All three are locked, so that no later field is lost.
        let (shard_types, columns) = (loaded.shard_types.read(), self.columns.read());
        let mut fields = loaded.fields.write();
        *fields = Arc::new(present_fields(&columns, shard_types.values()));
    }

    /// Every field that has a column, even if no shard has the field any more.
    pub(crate) fn all_fields(&self) -> Vec<Field> {
        self.columns.read().clone()
    }

    /// The columns of some fields; `None` if one has no column.
    pub(crate) fn columns_of(&self, wanted: &[(String, FieldType)]) -> Option<Vec<ColumnId>> {
        let columns = self.columns.read();
        wanted.iter().map(|(name, field_type)| find(&columns, name, *field_type)).collect()
    }

    /// Those of some fields that have no column.
    pub(crate) fn without_column<'a>(&self, wanted: &'a [(String, FieldType)]) -> Vec<(&'a str, FieldType)> {
        let columns = self.columns.read();
        let fields = wanted.iter().map(|(name, field_type)| (name.as_str(), *field_type));
        fields.filter(|(name, field_type)| find(&columns, name, *field_type).is_none()).collect()
    }

    /// Whether a field has a column, even if no shard has the field any more.
    pub(crate) fn has_column(&self, name: &str, field_type: FieldType) -> bool {
        find(&self.columns.read(), name, field_type).is_some()
    }

    /// Replaces what is known of the types of fields by records, and what was given here and is not registered yet. Returns
    /// false if a record is malformed.
    pub(super) fn set_types(&self, loaded: &Loaded, records: &[(Vec<u8>, Vec<u8>)]) -> bool {
        let (mut types, mut own_types) = (loaded.shard_types.write(), loaded.own_types.write());
        let mut read = ReadRecords::default();
        let mut is_whole = true;
        for (key, code) in self.unsaved().lock().names.iter().filter(|(key, _)| is_type_key(key)) {
            is_whole &= read.take(key, &[*code]).is_some();
        }
        for (key, value) in records {
            is_whole &= read.take(key, value).is_some();
        }
        if !is_whole {
            return false;
        }
        let is_gone = |(start_ns, fields): (&i64, &HashMap<String, FieldType>)| {
            let left = read.types.get(start_ns);
            fields.keys().any(|field| left.is_none_or(|left| !left.contains_key(field)))
        };
        if types.iter().any(is_gone) {
            // Writers here give them again.
            self.table_lock().note_removal();
            self.forget_shard_starts();
        }
        (*types, *own_types) = (read.types, read.own_types);
        drop((types, own_types));
        self.update_fields_of(loaded);
        true
    }

    /// Notes the columns of its table, which another server may have added.
    pub(crate) fn follow_columns(&self, schema: &TableSchema) {
        if self.set_columns(schema) && self.is_loaded() {
            self.update_fields();
        }
    }

    /// Notes the columns of its table. Columns are never dropped, so a schema with fewer of them is older. Returns whether
    /// there are more columns now.
    pub(crate) fn set_columns(&self, schema: &TableSchema) -> bool {
        let fields = fields_of(schema, &self.column_names.read());
        let mut columns = self.columns.write();
        let are_more = fields.len() > columns.len();
        if are_more {
            *columns = fields;
        }
        are_more
    }

    /// Sets the names of columns whose fields were renamed.
    pub(super) fn set_column_names(&self, names: BTreeMap<ColumnId, String>) {
        *self.column_names.write() = names;
        // A table that was dropped meanwhile is not asked any more.
        if let Ok(schema) = self.store().schema(self.table()) {
            *self.columns.write() = fields_of(&schema, &self.column_names.read());
        }
    }

    /// Gives columns other names, and the types of a field in shards its new name. The records are written. The caller holds
    /// the table lock exclusively.
    pub(super) fn rename_field(&self, from: &str, to: &str, columns: Vec<(ColumnId, String)>) {
        let mut names = self.column_names.read().clone();
        names.extend(columns);
        self.set_column_names(names);
        for types in self.loaded().shard_types.write().values_mut() {
            if let Some(field_type) = types.remove(from) {
                types.insert(to.to_owned(), field_type);
            }
        }
        self.update_fields();
    }

    /// Notes that a field has one type in all of its shards. The records are written. The caller holds the table lock
    /// exclusively.
    pub(super) fn set_field_type(&self, field: &str, field_type: FieldType) {
        for types in self.loaded().shard_types.write().values_mut() {
            if let Some(own) = types.get_mut(field) {
                *own = field_type;
            }
        }
        self.update_fields();
    }

    /// The types of a field by the starts of shards.
    pub(super) fn types_of_field(&self, field: &str) -> Vec<(i64, FieldType)> {
        let types = self.loaded().shard_types.read();
        types.iter().filter_map(|(start_ns, own)| Some((*start_ns, *own.get(field)?))).collect()
    }

    /// Notes that some shard has these fields, which have columns.
    pub(crate) fn show_fields<'a>(&self, fields: impl Iterator<Item = &'a (String, FieldType)>) {
        let columns = self.columns.read();
        let mut shown = self.loaded().fields.write();
        let mut all: Option<Vec<Field>> = None;
        for (name, field_type) in fields {
            if find(&shown, name, *field_type).is_some() {
                continue;
            }
            if let Some(column) = find(&columns, name, *field_type) {
                let field = Field { name: name.clone(), field_type: *field_type, column };
                all.get_or_insert_with(|| Vec::clone(&shown)).push(field);
            }
        }
        if let Some(mut all) = all {
            sort(&mut all);
            all.dedup();
            *shown = Arc::new(all);
        }
    }

    /// The type of a field in a shard, if it has one there. `owner`: the member that has the field for itself.
    pub(crate) fn shard_type(
        &self,
        owner: Option<&str>,
        shard_start_ns: i64,
        field: &str,
    ) -> Option<FieldType> {
        let find =
            |types: &ShardTypes| types.get(&shard_start_ns).and_then(|types| types.get(field)).copied();
        match owner {
            None => find(&self.loaded().shard_types.read()),
            Some(owner) => self.loaded().own_types.read().get(owner).and_then(find),
        }
    }

    /// The type of a field in a shard. If the field is new there, it gets the given type.
    pub(crate) fn claim_shard_type(
        &self,
        owner: Option<&str>,
        shard_start_ns: i64,
        field: &str,
        field_type: FieldType,
    ) -> FieldType {
        if let Some(known) = self.shard_type(owner, shard_start_ns, field) {
            return known;
        }
        let claim = |types: &mut ShardTypes, key: &dyn Fn() -> Vec<u8>| {
            *types.entry(shard_start_ns).or_default().entry(field.to_owned()).or_insert_with(|| {
                self.unsaved().lock().add_name(key(), field_type.code());
                field_type
            })
        };
        match owner {
            None => {
                let key = || shard_type_key(self.table(), shard_start_ns, field);
                claim(&mut self.loaded().shard_types.write(), &key)
            }
            Some(owner) => {
                let key = || own_type_key(self.table(), shard_start_ns, owner, field);
                let mut all = self.loaded().own_types.write();
                claim(all.entry(owner.to_owned()).or_default(), &key)
            }
        }
    }

    /// The starts of the shards in which a member has fields of its own.
    pub(crate) fn shard_starts_of_member_ns(&self, name: &str) -> Vec<i64> {
        let own_types = self.loaded().own_types.read();
        own_types.get(name).into_iter().flat_map(BTreeMap::keys).copied().collect()
    }

    /// Forgets the types of a member's own fields in some shards, which are named by their starts. Their records are
    /// removed with the next batch.
    pub(crate) fn forget_member_types(&self, name: &str, is_gone: impl Fn(i64) -> bool) {
        let keys = self.take_own_types(|member, start_ns| member == name && is_gone(start_ns));
        self.unsaved().lock().remove_keys(&RoaringBitmap::new(), keys);
    }

    /// Forgets types of members' own fields. Returns the keys of their records.
    pub(super) fn take_own_types(&self, is_gone: impl Fn(&str, i64) -> bool) -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        self.loaded().own_types.write().retain(|member, shards| {
            shards.retain(|start_ns, types| {
                let gone = is_gone(member, *start_ns);
                if gone {
                    keys.extend(
                        types.keys().map(|field| own_type_key(self.table(), *start_ns, member, field)),
                    );
                }
                !gone
            });
            !shards.is_empty()
        });
        let mut unsaved = self.unsaved().lock();
        keys.iter().for_each(|key| {
            unsaved.names.remove(key);
        });
        keys
    }

    /// The starts of the shards that have fields.
    pub(crate) fn shard_starts_ns(&self) -> Vec<i64> {
        self.loaded().shard_types.read().keys().copied().collect()
    }

    /// Forgets the types of dropped shards, which are named by their starts. Their records are removed with the
    /// next batch, of whomever.
    pub(crate) fn forget_shard_types(&self, is_gone: impl Fn(i64) -> bool) {
        let keys = self.take_shard_types(is_gone);
        self.unsaved().lock().remove_keys(&RoaringBitmap::new(), keys);
    }

    /// The same, but returns the keys of the records, which the caller removes.
    pub(crate) fn take_shard_types(&self, is_gone: impl Fn(i64) -> bool) -> Vec<Vec<u8>> {
        let mut forgotten = self.take_own_types(|_, start_ns| is_gone(start_ns));
        self.loaded().witnesses.lock().retain(|start_ns, _| !is_gone(*start_ns));
        self.loaded().shard_types.write().retain(|start_ns, fields| {
            let gone = is_gone(*start_ns);
            if gone {
                forgotten.extend(fields.keys().map(|field| shard_type_key(self.table(), *start_ns, field)));
            }
            !gone
        });
        self.update_fields();
        let mut unsaved = self.unsaved().lock();
        for key in &forgotten {
            unsaved.names.remove(key);
        }
        forgotten
    }
}
