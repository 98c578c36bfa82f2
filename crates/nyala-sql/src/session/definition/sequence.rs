//! Sequences, and columns that get their numbers: `CREATE SEQUENCE`, `ALTER SEQUENCE`, `DROP SEQUENCE`, `serial` and
//! `GENERATED … AS IDENTITY`.
//!
//! Whatever is done to a sequence is a change of definitions, committed together with that of its table: a statement outside
//! a transaction is one of its own. To restart a sequence is to give it another counter.

use super::{table_of, taken};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::number_source::{default_of, sequence_of, sequence_of_default};
use crate::sequence_statement::{IdentityChange, SequenceOptions, SequenceStatement, is_whole};
use crate::session::Session;
use crate::target::{Place, check_name};
use datafusion::sql::sqlparser::ast::ObjectName;
use nyala_db::relations::{
    Body, ColumnDefinition, DeclaredType, Definition, Identity, OwnedSequence, Relation, RelationChange,
    SequenceDefinition, SequenceState, TableDefinition,
};
use std::sync::Arc;

/// What a new column asks of a sequence of its own.
#[derive(Debug, Clone)]
pub(super) struct NewSequence {
    /// The identity of the column; `None`: it is a `serial`, whose default says it.
    pub(super) identity: Option<Identity>,
    pub(super) options: SequenceOptions,
}

impl Session {
    pub(super) async fn change_sequence(&mut self, statement: &SequenceStatement) -> SqlResult<CommandTag> {
        match statement {
            SequenceStatement::Create { name, is_temporary, if_not_exists, options } => {
                let place = self.new_place(name, *is_temporary)?;
                self.create_sequence(&place, *if_not_exists, options)?;
                Ok(CommandTag::of("CREATE SEQUENCE"))
            }
            SequenceStatement::Alter { name, if_exists, options } => {
                if let Some((place, relation)) = self.existing_sequence(name, *if_exists)? {
                    self.alter_sequence(&place, &relation, options).await?;
                }
                Ok(CommandTag::of("ALTER SEQUENCE"))
            }
            SequenceStatement::Rename { name, if_exists, to } => {
                if let Some((place, relation)) = self.existing_sequence(name, *if_exists)? {
                    self.rename_sequence(&place, &relation, to)?;
                }
                Ok(CommandTag::of("ALTER SEQUENCE"))
            }
            SequenceStatement::Column { table, column, change } => {
                self.change_identity(table, column, change).await?;
                Ok(CommandTag::of("ALTER TABLE"))
            }
        }
    }

    /// Whether a statement of another kind, about these relations, changes sequences too.
    pub(super) fn have_sequences(&self, names: &[ObjectName]) -> bool {
        names.iter().any(|name| {
            let place = self.place(name).ok();
            let relation = place.and_then(|place| place.relation(self.relations()));
            relation.is_some_and(|own| {
                own.sequence().is_some()
                    || own.table().is_some_and(|table| table.columns.iter().any(|own| own.sequence.is_some()))
            })
        })
    }

    fn existing_sequence(
        &self,
        name: &ObjectName,
        if_exists: bool,
    ) -> SqlResult<Option<(Place, Arc<Relation>)>> {
        let place = self.writable_place(name)?;
        match place.relation(self.relations()) {
            Some(relation) => {
                sequence_of(&relation)?;
                Ok(Some((place, relation)))
            }
            None if if_exists => Ok(None),
            None => Err(place.unknown()),
        }
    }

    fn create_sequence(
        &mut self,
        place: &Place,
        if_not_exists: bool,
        options: &SequenceOptions,
    ) -> SqlResult<()> {
        self.check_writable_place(place)?;
        place.check_new()?;
        self.check_sequences()?;
        if place.relation(self.relations()).is_some() && if_not_exists {
            return Ok(());
        }
        if self.is_name_taken(&place.database, &place.name) {
            return Err(taken(&place.name));
        }
        if options.restart.is_some() || options.name.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid sequence option for CREATE SEQUENCE"));
        }
        let sequence = defined(options, options.declared_type.unwrap_or(DeclaredType::Int8), self.new_id())?;
        self.put_sequence(&place.database, &place.name, sequence);
        if let Some(owner) = &options.owner {
            self.own_sequence(place, owner.as_ref())?;
        }
        Ok(())
    }

    async fn alter_sequence(
        &mut self,
        place: &Place,
        relation: &Arc<Relation>,
        options: &SequenceOptions,
    ) -> SqlResult<()> {
        if options.name.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "invalid sequence option SEQUENCE NAME"));
        }
        if let Some(owner) = &options.owner {
            self.own_sequence(place, owner.as_ref())?;
        }
        let before = sequence_of(relation)?;
        let only_owner = SequenceOptions { owner: options.owner.clone(), ..SequenceOptions::default() };
        if *options == only_owner {
            return Ok(());
        }
        let state = self.server.catalog.relations().sequences().state(before).await?;
        let after = altered(before, options, state, self.new_id())?;
        self.put_sequence(&place.database, &relation.name, after);
        Ok(())
    }

    fn rename_sequence(&mut self, place: &Place, relation: &Arc<Relation>, to: &str) -> SqlResult<()> {
        check_name(to)?;
        if self.is_name_taken(&place.database, to) {
            return Err(taken(to));
        }
        for table in self.relations().of(&place.database) {
            let Some(mut own) = table.table().cloned() else { continue };
            for column in &mut own.columns {
                if let Some(sequence) = column.sequence.as_mut().filter(|own| own.name == relation.name) {
                    to.clone_into(&mut sequence.name);
                }
                if column.default.as_deref().and_then(sequence_of_default).as_ref() == Some(&relation.name) {
                    column.default = Some(default_of(to));
                }
            }
            self.put_table(&table, own);
        }
        self.put_uncommitted(&place.database, &relation.name, None);
        self.put_uncommitted(&place.database, to, Some(relation.definition.clone()));
        Ok(())
    }

    /// Makes a sequence belong to a column, or to none.
    fn own_sequence(&mut self, place: &Place, owner: Option<&(ObjectName, String)>) -> SqlResult<()> {
        for table in self.relations().of(&place.database) {
            let Some(mut own) = table.table().cloned() else { continue };
            for column in &mut own.columns {
                match &column.sequence {
                    Some(sequence) if sequence.name == place.name => {
                        if sequence.identity.is_some() {
                            let words = "cannot change ownership of identity sequence";
                            let detail =
                                format!("Sequence \"{}\" is linked to table \"{}\".", place.name, table.name);
                            return Err(SqlError::new(SqlState::UNSUPPORTED, words).with_detail(detail));
                        }
                        column.sequence = None;
                    }
                    _ => {}
                }
            }
            self.put_table(&table, own);
        }
        let Some((table, column)) = owner else { return Ok(()) };
        let (of_table, relation) = self.existing_table(table)?;
        if of_table.database != place.database {
            return Err(SqlError::unsupported("a sequence that belongs to a table of another database"));
        }
        let mut own = table_of(&relation)?.clone();
        let owned = OwnedSequence { name: place.name.clone(), identity: None };
        column_of(&mut own, column, &relation.name)?.sequence = Some(owned);
        self.put_table(&relation, own);
        Ok(())
    }

    async fn change_identity(
        &mut self,
        name: &ObjectName,
        column: &str,
        change: &IdentityChange,
    ) -> SqlResult<()> {
        let (place, relation) = self.existing_table(name)?;
        let mut table = table_of(&relation)?.clone();
        let own = column_of(&mut table, column, &relation.name)?;
        let known = own.sequence.clone().filter(|own| own.identity.is_some());
        let of = format!("column \"{column}\" of relation \"{}\"", relation.name);
        let no_identity = || SqlError::new(SqlState::WRONG_STATE, format!("{of} is not an identity column"));
        match change {
            IdentityChange::Add { identity, options } => {
                if known.is_some() {
                    let message = format!("{of} is already an identity column");
                    return Err(SqlError::new(SqlState::WRONG_STATE, message));
                }
                check_whole(own)?;
                if own.nullable {
                    let message = format!("{of} must be declared NOT NULL before identity can be added");
                    return Err(SqlError::new(SqlState::WRONG_STATE, message));
                }
                if own.default.is_some() {
                    let message = format!("{of} already has a default value");
                    return Err(SqlError::new(SqlState::WRONG_STATE, message));
                }
                let new = NewSequence { identity: Some(*identity), options: options.clone() };
                self.number_column(&place, &mut table, column, new)?;
            }
            IdentityChange::Set { identity, options } => {
                let mut known = known.ok_or_else(no_identity)?;
                if let Some(identity) = identity {
                    known.identity = Some(*identity);
                    own.sequence = Some(known.clone());
                }
                if *options != SequenceOptions::default() {
                    let found = self.relations().find(&place.database, &known.name);
                    let sequence = found.ok_or_else(|| place.unknown())?;
                    let of_sequence = Place { name: known.name, ..place.clone() };
                    self.alter_sequence(&of_sequence, &sequence, options).await?;
                }
            }
            IdentityChange::Drop { if_exists } => match known {
                Some(known) => {
                    own.sequence = None;
                    self.put_uncommitted(&place.database, &known.name, None);
                }
                None if *if_exists => return Ok(()),
                None => return Err(no_identity()),
            },
        }
        self.put_table(&relation, table);
        Ok(())
    }

    /// Makes the sequence of a new column of a table.
    pub(super) fn number_column(
        &mut self,
        place: &Place,
        table: &mut TableDefinition,
        column: &str,
        new: NewSequence,
    ) -> SqlResult<()> {
        self.check_sequences()?;
        let own = column_of(table, column, &place.name)?;
        check_whole(own)?;
        let name = match &new.options.name {
            Some(name) => {
                let named = self.writable_place(name)?;
                if self.is_name_taken(&named.database, &named.name) {
                    return Err(taken(&named.name));
                }
                named.name
            }
            None => {
                let base = shortened(&place.name, column);
                let numbered = (1..).map(|number| format!("{base}{number}"));
                let is_free =
                    |name: &String| *name != place.name && !self.is_name_taken(&place.database, name);
                std::iter::once(base.clone()).chain(numbered).find(is_free).unwrap_or_default()
            }
        };
        check_name(&name)?;
        let declared = new.options.declared_type.unwrap_or(own.declared_type);
        let sequence = defined(&new.options, declared, self.new_id())?;
        own.default = new.identity.is_none().then(|| default_of(&name));
        own.sequence = Some(OwnedSequence { name: name.clone(), identity: new.identity });
        self.put_sequence(&place.database, &name, sequence);
        Ok(())
    }

    /// Fails if tables are to be dropped with sequences that others get numbers from.
    pub(super) fn check_numbered<'a>(
        &self,
        dropped: impl Iterator<Item = &'a Arc<Relation>> + Clone,
    ) -> SqlResult<()> {
        for relation in dropped.clone() {
            let columns = relation.table().into_iter().flat_map(|table| &table.columns);
            for owned in columns.filter_map(|own| own.sequence.as_ref()) {
                let others = self.relations().of(&relation.database).into_iter();
                let others = others.filter(|other| !dropped.clone().any(|own| own.name == other.name));
                for other in others {
                    let table = other.table().into_iter().flat_map(|table| &table.columns);
                    check_unused(&owned.name, &format!("table {}", relation.name), &other.name, table)?;
                }
            }
        }
        Ok(())
    }

    /// Drops the sequences of a table that is dropped.
    pub(super) fn drop_owned(&mut self, database: &str, table: &TableDefinition) {
        for sequence in table.columns.iter().filter_map(|own| own.sequence.as_ref()) {
            self.put_uncommitted(database, &sequence.name, None);
        }
    }

    /// The changes that drop the sequences of columns of a table which are gone, unless others get numbers from them.
    pub(super) fn changes_of_owned(
        &self,
        relation: &Relation,
        before: &TableDefinition,
        after: &TableDefinition,
    ) -> SqlResult<Vec<RelationChange>> {
        let mut changes = Vec::new();
        for own in before.columns.iter().filter(|own| after.column(&own.name).is_none()) {
            let Some(owned) = &own.sequence else { continue };
            for other in self.relations().of(&relation.database) {
                let table = if other.name == relation.name { Some(after) } else { other.table() };
                let columns = table.into_iter().flat_map(|table| &table.columns);
                let dropped = format!("column {} of table {}", own.name, relation.name);
                check_unused(&owned.name, &dropped, &other.name, columns)?;
            }
            if let Some(sequence) = self.relations().find(&relation.database, &owned.name) {
                let name = sequence.name.clone();
                changes.push(RelationChange { name, before: sequence, after: None });
            }
        }
        Ok(changes)
    }

    /// Lets the sequences of a table begin again.
    pub(super) fn restart_owned(&mut self, database: &str, table: &TableDefinition) -> SqlResult<()> {
        let options = SequenceOptions { restart: Some(None), ..SequenceOptions::default() };
        for own in table.columns.iter().filter_map(|own| own.sequence.as_ref()) {
            let Some(relation) = self.relations().find(database, &own.name) else { continue };
            let before = sequence_of(&relation)?;
            let after = altered(before, &options, before.beginning, self.new_id())?;
            self.put_sequence(database, &relation.name, after);
        }
        Ok(())
    }

    /// Drops a sequence on which nothing depends, or what depends on it, too.
    pub(super) fn drop_sequence(&mut self, relation: &Relation, is_cascade: bool) -> SqlResult<()> {
        let (database, name) = (&relation.database, &relation.name);
        for table in self.relations().of(database) {
            let Some(mut own) = table.table().cloned() else { continue };
            for column in &mut own.columns {
                if let Some(owned) = column.sequence.as_ref().filter(|own| own.name == *name) {
                    if owned.identity.is_some() {
                        let of = format!("column {} of table {}", column.name, table.name);
                        let message = format!("cannot drop sequence {name} because {of} requires it");
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
                            .with_hint(format!("You can drop {of} instead.")));
                    }
                    column.sequence = None;
                }
                if column.default.as_deref().and_then(sequence_of_default).as_ref() == Some(name) {
                    if !is_cascade {
                        let message =
                            format!("cannot drop sequence {name} because other objects depend on it");
                        let of = format!("column {} of table {}", column.name, table.name);
                        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
                            .with_detail(format!("default value for {of} depends on sequence {name}"))
                            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
                    }
                    column.default = None;
                }
            }
            self.put_table(&table, own);
        }
        self.put_uncommitted(database, name, None);
        Ok(())
    }

    /// Notes what a table is to be, if that is something else.
    fn put_table(&mut self, relation: &Relation, table: TableDefinition) {
        let body = Body::Table(table);
        if relation.definition.body != body {
            let definition = Definition { body, ..relation.definition.clone() };
            self.put_uncommitted(&relation.database, &relation.name, Some(definition));
        }
    }

    fn put_sequence(&mut self, database: &str, name: &str, sequence: SequenceDefinition) {
        let comment = self.relations().find(database, name).and_then(|own| own.definition.comment.clone());
        let definition = Definition { comment, body: Body::Sequence(sequence) };
        self.put_uncommitted(database, name, Some(definition));
    }

    /// A number that no other counter has.
    fn new_id(&self) -> u64 {
        self.server.catalog.relations().row_ids(self.server.clock.now_ns(), 1).unsigned_abs()
    }

    /// Fails where several servers would have to agree on numbers.
    fn check_sequences(&self) -> SqlResult<()> {
        match self.server.catalog.store().capabilities().is_shared {
            false => Ok(()),
            true => Err(SqlError::unsupported("a sequence in a store that other servers write, too,")
                .with_hint(
                    "A table without a primary key numbers its rows itself; or use a key that clients make.",
                )),
        }
    }
}

/// Fails if the default of one of a table's columns takes numbers from a sequence, which is dropped together with something.
fn check_unused<'a>(
    sequence: &str,
    dropped: &str,
    table: &str,
    mut columns: impl Iterator<Item = &'a ColumnDefinition>,
) -> SqlResult<()> {
    let uses = |own: &&ColumnDefinition| {
        own.default.as_deref().and_then(sequence_of_default).as_deref() == Some(sequence)
    };
    let Some(column) = columns.find(uses) else { return Ok(()) };
    let detail =
        format!("default value for column {} of table {table} depends on sequence {sequence}", column.name);
    let message = format!("cannot drop {dropped} because other objects depend on it");
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS, message)
        .with_detail(detail)
        .with_hint("Give that column another default first."))
}

fn column_of<'a>(
    table: &'a mut TableDefinition,
    name: &str,
    of: &str,
) -> SqlResult<&'a mut ColumnDefinition> {
    let found = table.columns.iter_mut().find(|column| column.name == name);
    found.ok_or_else(|| crate::target::unknown_column(name, of))
}

/// Fails unless a column can get numbers.
fn check_whole(column: &ColumnDefinition) -> SqlResult<()> {
    if is_whole(column.declared_type) {
        return Ok(());
    }
    let words = "identity column type must be smallint, integer, or bigint";
    Err(SqlError::new(SqlState::INVALID_PARAMETER, words))
}

/// The name of a sequence of a column, cut as PostgreSQL does: the longer of the two names first.
fn shortened(table: &str, column: &str) -> String {
    let room = nyala_db::relations::NAME_MAX_BYTES - "__seq".len();
    let (mut of_table, mut of_column) = (table, column);
    while of_table.len() + of_column.len() > room {
        let longer = if of_table.len() > of_column.len() { &mut of_table } else { &mut of_column };
        let mut end = longer.len() - 1;
        while !longer.is_char_boundary(end) {
            end -= 1;
        }
        *longer = &longer[..end];
    }
    format!("{of_table}_{of_column}_seq")
}

/// The least and the greatest number of a type.
fn bounds(declared: DeclaredType) -> (i64, i64) {
    match declared {
        DeclaredType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        DeclaredType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// A new sequence.
fn defined(options: &SequenceOptions, declared: DeclaredType, id: u64) -> SqlResult<SequenceDefinition> {
    let increment = options.increment.unwrap_or(1);
    let (least, greatest) = bounds(declared);
    let minimum = options.minimum.flatten().unwrap_or(if increment > 0 { 1 } else { least });
    let maximum = options.maximum.flatten().unwrap_or(if increment > 0 { greatest } else { -1 });
    let start = options.start.unwrap_or(if increment > 0 { minimum } else { maximum });
    let sequence = SequenceDefinition {
        id,
        beginning: SequenceState { last: start, is_called: false },
        declared_type: declared,
        start,
        increment,
        minimum,
        maximum,
        cache: options.cache.unwrap_or(1),
        cycles: options.cycles.unwrap_or(false),
    };
    check(&sequence, start)?;
    Ok(sequence)
}

/// A sequence of which something becomes different. `state` is where it is, `id` that of a new counter.
fn altered(
    before: &SequenceDefinition,
    options: &SequenceOptions,
    state: SequenceState,
    id: u64,
) -> SqlResult<SequenceDefinition> {
    let declared = options.declared_type.unwrap_or(before.declared_type);
    let increment = options.increment.unwrap_or(before.increment);
    let (least, greatest) = bounds(declared);
    // Bounds that came of the old type become those of the new one.
    let (old_least, old_greatest) = bounds(before.declared_type);
    let kept =
        |own: i64, old: i64, new: i64| if declared != before.declared_type && own == old { new } else { own };
    let minimum = match options.minimum {
        Some(own) => own.unwrap_or(if increment > 0 { 1 } else { least }),
        None => kept(before.minimum, old_least, least),
    };
    let maximum = match options.maximum {
        Some(own) => own.unwrap_or(if increment > 0 { greatest } else { -1 }),
        None => kept(before.maximum, old_greatest, greatest),
    };
    let start = options.start.unwrap_or(before.start);
    let mut sequence = SequenceDefinition {
        declared_type: declared,
        start,
        increment,
        minimum,
        maximum,
        cache: options.cache.unwrap_or(before.cache),
        cycles: options.cycles.unwrap_or(before.cycles),
        ..before.clone()
    };
    let mut last = state.last;
    if let Some(restart) = options.restart {
        last = restart.unwrap_or(start);
        sequence.id = id;
        sequence.beginning = SequenceState { last, is_called: false };
    }
    check(&sequence, last)?;
    Ok(sequence)
}

/// Checks that a sequence has a next number. `last` is where it is.
fn check(sequence: &SequenceDefinition, last: i64) -> SqlResult<()> {
    let refused = |words: String| Err(SqlError::new(SqlState::INVALID_PARAMETER, words));
    let SequenceDefinition { minimum, maximum, start, .. } = *sequence;
    let (least, greatest) = bounds(sequence.declared_type);
    let name = match sequence.declared_type {
        DeclaredType::Int2 => "smallint",
        DeclaredType::Int4 => "integer",
        _ => "bigint",
    };
    if !is_whole(sequence.declared_type) {
        return refused("sequence type must be smallint, integer, or bigint".to_owned());
    }
    if sequence.increment == 0 {
        return refused("INCREMENT must not be zero".to_owned());
    }
    if !(least..=greatest).contains(&maximum) {
        return refused(format!("MAXVALUE ({maximum}) is out of range for sequence data type {name}"));
    }
    if !(least..=greatest).contains(&minimum) {
        return refused(format!("MINVALUE ({minimum}) is out of range for sequence data type {name}"));
    }
    if minimum >= maximum {
        return refused(format!("MINVALUE ({minimum}) must be less than MAXVALUE ({maximum})"));
    }
    for (what, number) in [("START", start), ("RESTART", last)] {
        if number < minimum {
            return refused(format!("{what} value ({number}) cannot be less than MINVALUE ({minimum})"));
        }
        if number > maximum {
            return refused(format!("{what} value ({number}) cannot be greater than MAXVALUE ({maximum})"));
        }
    }
    if sequence.cache <= 0 {
        return refused(format!("CACHE ({}) must be greater than zero", sequence.cache));
    }
    Ok(())
}
