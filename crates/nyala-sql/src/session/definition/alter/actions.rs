//! What the actions of `ALTER TABLE` make of a definition.
//!
//! As in PostgreSQL, they are done in the order of their kinds, not of the statement: first what drops something, then types,
//! new columns, new constraints and defaults, and NOT NULL at last.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::parsed;
use crate::identifier::folded;
use crate::number_source::{default_of, sequence_of_default};
use crate::relation::declared_type::declared_type;
use crate::relation::input::Surroundings;
use crate::relation::literal::{datum, is_literal};
use crate::session::definition::check_key_type;
use crate::session::definition::create_table::{check_count, columns_in, refused_constraint, with_check};
use crate::session::definition::new_column::NewColumn;
use crate::session::definition::new_index::check_enforced;
use crate::target::check_name;
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, DataType, DropBehavior, Expr, Ident,
    TableConstraint,
};
use nyala_core::store::{Capabilities, Feature};
use nyala_core::{ColumnId, ColumnSchema, ColumnType, Ranges, TableSchema};
use nyala_db::relations::{ColumnDefinition, DeclaredType, DroppedColumn, Key, TableDefinition};
use std::collections::BTreeSet;

/// What a statement makes of a table.
pub(super) struct Altered {
    /// The table as it was.
    pub(super) before: TableDefinition,
    /// The table as it is to be.
    pub(super) table: TableDefinition,
    /// The new columns of the store, by id.
    pub(super) new: Vec<NewValues>,
    /// The checks that rows have not been compared with.
    pub(super) checks: BTreeSet<String>,
    /// The columns in which rows may still have NULL, and must not.
    pub(super) not_null: BTreeSet<ColumnId>,
    /// The columns of the store in which rows may have NULL from now on.
    pub(super) nullable: Vec<ColumnId>,
    /// Columns that were dropped, and whether views that use them are dropped, too.
    pub(super) dropped: Vec<(String, bool)>,
    /// Columns that get another type.
    pub(super) retyped: Vec<String>,
    /// Columns that are new.
    pub(super) added: Vec<String>,
    /// Whether the rows go to other tables of the store: a column gets another type by which they are stored, or found.
    pub(super) is_rebuilt: bool,
}

/// A new column of the store, and what rows that are there have in it.
pub(super) struct NewValues {
    pub(super) schema: ColumnSchema,
    pub(super) source: Source,
}

/// Where the values of rows come from.
pub(super) enum Source {
    /// They are NULL.
    Null,
    /// They are the default of the column in the store, which gives it to all rows.
    Stored,
    /// They are the default that the column got first.
    Default(String),
    /// They are computed from the row as it was.
    Expression(Box<Expr>),
}

impl NewValues {
    /// Whether rows have to be written.
    pub(super) fn is_computed(&self) -> bool {
        matches!(self.source, Source::Default(_) | Source::Expression(_))
    }
}

impl Altered {
    /// Notes what is the same for all rows: nothing, and what the store can give them by itself.
    pub(super) fn note_constants(
        &mut self,
        capabilities: Capabilities,
        around: &Surroundings,
    ) -> SqlResult<()> {
        let features = capabilities.features;
        let leaves_it = !features.has(Feature::StagedWrites) && features.has(Feature::AddedDefaults);
        for new in &mut self.new {
            let Source::Default(text) = &new.source else { continue };
            let written = parsed(text)?;
            let column = self.table.columns.iter().find(|column| column.id == new.schema.id);
            let (true, Some(column)) = (is_literal(&written), column) else { continue };
            match datum(&written, &[], around)?.stored(&column.name, column.declared_type, around)? {
                None => new.source = Source::Null,
                Some(value) if leaves_it => {
                    new.schema.default = Some(value);
                    new.source = Source::Stored;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether rows have to be looked at or written.
    pub(super) fn concerns_rows(&self) -> bool {
        !self.checks.is_empty() || !self.not_null.is_empty() || self.new.iter().any(NewValues::is_computed)
    }

    /// Whether the store hides a column from users.
    pub(super) fn hides(&self, id: ColumnId) -> bool {
        matches!(&self.table.key, Key::Hidden { column } if *column == id)
    }
}

/// Actions that are being done.
pub(super) struct Actions<'a> {
    name: &'a str,
    schema: &'a TableSchema,
    now_ns: i64,
    next: ColumnId,
    altered: Altered,
}

impl<'a> Actions<'a> {
    pub(super) fn new(name: &'a str, before: &TableDefinition, schema: &'a TableSchema, now_ns: i64) -> Self {
        let altered = Altered {
            before: before.clone(),
            table: before.clone(),
            new: Vec::new(),
            checks: BTreeSet::new(),
            not_null: BTreeSet::new(),
            nullable: Vec::new(),
            dropped: Vec::new(),
            retyped: Vec::new(),
            added: Vec::new(),
            is_rebuilt: false,
        };
        Self { name, schema, now_ns, next: schema.next_column, altered }
    }

    pub(super) fn apply(mut self, operations: &[AlterTableOperation]) -> SqlResult<Altered> {
        let mut ordered = Vec::with_capacity(operations.len());
        for operation in operations {
            ordered.push((pass(operation)?, operation));
        }
        ordered.sort_by_key(|(pass, _)| *pass);
        for (_, operation) in ordered {
            self.act(operation)?;
        }
        Ok(self.altered)
    }

    fn act(&mut self, operation: &AlterTableOperation) -> SqlResult<()> {
        match operation {
            AlterTableOperation::DropColumn { column_names, if_exists, drop_behavior, .. } => {
                let is_cascade = is_cascade(drop_behavior.as_ref());
                column_names.iter().try_for_each(|name| self.drop_column(name, *if_exists, is_cascade))
            }
            AlterTableOperation::DropConstraint { if_exists, name, .. } => {
                self.drop_constraint(&folded(name), *if_exists)
            }
            AlterTableOperation::AddColumn { if_not_exists, column_def, column_position, .. } => {
                match column_position {
                    Some(_) => Err(SqlError::unsupported("the place of a new column: it is the last one,")),
                    None => self.add_column(column_def, *if_not_exists),
                }
            }
            AlterTableOperation::AddConstraint { constraint, not_valid } => {
                self.add_constraint(constraint, *not_valid)
            }
            AlterTableOperation::AlterColumn { column_name, op } => self.alter_column(column_name, op),
            other => Err(refused(other)),
        }
    }

    fn drop_column(&mut self, name: &Ident, if_exists: bool, is_cascade: bool) -> SqlResult<()> {
        let name = folded(name);
        let table = &mut self.altered.table;
        let Some(column) = table.column(&name) else {
            return if if_exists { Ok(()) } else { Err(self.unknown(&name)) };
        };
        let id = column.id;
        if table.is_key(id) {
            let message = format!("dropping column \"{name}\", which is part of the primary key,");
            return Err(SqlError::unsupported(message).with_hint(
                "Rows are stored by their key. Create a table with another one, and copy the rows: INSERT … SELECT.",
            ));
        }
        table.columns.retain(|column| column.id != id);
        table.indexes.retain(|index| !index.columns.contains(&id));
        table.dropped.push(DroppedColumn { id, at_ns: self.now_ns });
        table
            .checks
            .retain(|check| parsed(&check.expression).map_or(true, |own| !columns_in(&own).contains(&name)));
        self.allow_null(id);
        self.altered.dropped.push((name, is_cascade));
        Ok(())
    }

    fn drop_constraint(&mut self, name: &str, if_exists: bool) -> SqlResult<()> {
        let table = &mut self.altered.table;
        if matches!(&table.key, Key::Declared { name: own, .. } if own == name) {
            return Err(SqlError::unsupported("dropping a primary key")
                .with_hint("Create a table without it, and copy the rows: INSERT … SELECT."));
        }
        let count = table.checks.len() + table.indexes.len();
        table.checks.retain(|check| check.name != name);
        table.indexes.retain(|index| !index.is_constraint || index.name != name);
        if table.checks.len() + table.indexes.len() == count && !if_exists {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", self.name);
            return Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message));
        }
        Ok(())
    }

    fn add_column(&mut self, written: &ColumnDef, if_not_exists: bool) -> SqlResult<()> {
        let new = NewColumn::of(written)?;
        let name = new.definition.name.clone();
        check_name(&name)?;
        if self.altered.table.column(&name).is_some() {
            return match if_not_exists {
                true => Ok(()),
                false => Err(self.duplicate(&name)),
            };
        }
        if new.key.is_some() {
            return Err(self.refused_key());
        }
        if !new.unique.is_empty() {
            return Err(refused_unique());
        }
        if new.sequence.is_some() {
            return Err(SqlError::unsupported("a new column with a sequence of its own").with_hint(
                "Add a column of integers, number its rows, then ALTER COLUMN … ADD GENERATED … AS IDENTITY.",
            ));
        }
        check_count(self.altered.table.columns.len() + 1)?;
        let source = match &new.definition.default {
            None => Source::Null,
            Some(text) => Source::Default(text.clone()),
        };
        let id = self.new_column(&new.definition, source);
        if !new.definition.nullable {
            self.altered.not_null.insert(id);
        }
        self.altered.table.columns.push(ColumnDefinition { id, ..new.definition });
        self.altered.added.push(name);
        new.checks.iter().try_for_each(|(name, expression)| self.add_check(name.as_ref(), expression))
    }

    fn add_constraint(&mut self, constraint: &TableConstraint, not_valid: bool) -> SqlResult<()> {
        match constraint {
            TableConstraint::Check(_) if not_valid => {
                Err(SqlError::unsupported("a constraint that is NOT VALID"))
            }
            TableConstraint::Check(own) => {
                check_enforced(own.enforced)?;
                self.add_check(own.name.as_ref(), &own.expr)
            }
            TableConstraint::PrimaryKey(_) => Err(self.refused_key()),
            TableConstraint::Unique(_) => Err(refused_unique()),
            other => Err(refused_constraint(other)),
        }
    }

    fn add_check(&mut self, name: Option<&Ident>, expression: &Expr) -> SqlResult<()> {
        let table = &mut self.altered.table;
        let known: BTreeSet<String> = table.checks.iter().map(|check| check.name.clone()).collect();
        let is_key = |name: &str| matches!(&table.key, Key::Declared { name: key, .. } if key == name);
        if let Some(name) = name.map(folded)
            && (is_key(&name) || table.index(&name).is_some_and(|index| index.is_constraint))
        {
            let message = format!("constraint \"{name}\" for relation \"{}\" already exists", self.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        table.checks = with_check(self.name, &table.columns, &table.checks, name, expression)?;
        let added = table.checks.iter().map(|check| &check.name).find(|name| !known.contains(*name));
        self.altered.checks.extend(added.cloned());
        Ok(())
    }

    fn alter_column(&mut self, name: &Ident, operation: &AlterColumnOperation) -> SqlResult<()> {
        let name = folded(name);
        let found = self.altered.table.columns.iter().position(|column| column.name == name);
        let place = found.ok_or_else(|| self.unknown(&name))?;
        let id = self.altered.table.columns[place].id;
        let is_key = self.altered.table.is_key(id);
        let column = &mut self.altered.table.columns[place];
        let is_identity = column.sequence.as_ref().is_some_and(|own| own.identity.is_some());
        match operation {
            AlterColumnOperation::SetDefault { .. }
            | AlterColumnOperation::DropDefault
            | AlterColumnOperation::DropNotNull
                if is_identity =>
            {
                let message =
                    format!("column \"{name}\" of relation \"{}\" is an identity column", self.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            AlterColumnOperation::SetDefault { value } => {
                let columns = &self.altered.table.columns;
                if columns_in(value).iter().any(|used| columns.iter().any(|own| own.name == *used)) {
                    let words = "cannot use column reference in DEFAULT expression";
                    return Err(SqlError::new(SqlState::UNSUPPORTED, words));
                }
                let text = value.to_string();
                let text = sequence_of_default(&text).map_or(text, |own| default_of(&own));
                self.altered.table.columns[place].default = Some(text);
            }
            AlterColumnOperation::DropDefault => column.default = None,
            AlterColumnOperation::SetNotNull if column.nullable => {
                column.nullable = false;
                self.altered.not_null.insert(id);
            }
            AlterColumnOperation::SetNotNull => {}
            AlterColumnOperation::DropNotNull if is_key => {
                let message = format!("column \"{name}\" is in a primary key");
                return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message));
            }
            AlterColumnOperation::DropNotNull => {
                column.nullable = true;
                self.allow_null(id);
            }
            AlterColumnOperation::SetDataType { data_type, using, .. } => {
                return self.set_type(place, data_type, using.as_ref());
            }
            AlterColumnOperation::AddGenerated { .. } => {
                return Err(SqlError::unsupported("a generated column"));
            }
        }
        Ok(())
    }

    fn set_type(&mut self, place: usize, written: &DataType, using: Option<&Expr>) -> SqlResult<()> {
        let column = self.altered.table.columns[place].clone();
        let to = declared_type(written)?;
        let is_same = using.is_none() && column.declared_type == to;
        let is_held = using.is_none() && holds(column.declared_type, to);
        self.altered.retyped.push(column.name.clone());
        if is_same {
            return Ok(());
        }
        self.altered.table.columns[place].declared_type = to;
        if is_held {
            return Ok(());
        }
        if using.is_none() && !converts(column.declared_type, to) {
            let (name, to) = (&column.name, to.name());
            let message = format!("column \"{name}\" cannot be cast automatically to type {to}");
            return Err(SqlError::new(SqlState::TYPE_MISMATCH, message)
                .with_hint(format!("You might need to specify \"USING {name}::{to}\".")));
        }
        let own = || Expr::Identifier(Ident::with_quote('"', &column.name));
        let source = Source::Expression(Box::new(using.cloned().unwrap_or_else(own)));
        let id = match self.altered.table.is_found_by(column.id) {
            true => self.column_of_key(&column, to, source)?,
            false => self.retyped_column(place, &column, to, source),
        };
        if !column.nullable {
            self.altered.not_null.insert(id);
        }
        // They may mean something else for values of another type.
        let checks = self.altered.table.checks.iter().map(|check| check.name.clone());
        self.altered.checks.extend(checks);
        Ok(())
    }

    /// The same column of the store with another type, in a table that is made anew.
    fn column_of_key(
        &mut self,
        column: &ColumnDefinition,
        to: DeclaredType,
        source: Source,
    ) -> SqlResult<ColumnId> {
        if matches!(self.altered.table.key, Key::Hidden { .. }) {
            let words = format!("another type of column \"{}\", which is indexed,", column.name);
            return Err(SqlError::unsupported(words)
                .with_hint("Drop the index or the constraint before, and create it again after it."));
        }
        let is_range = match &self.schema.partitioning.ranges {
            Ranges::One => false,
            Ranges::Time { .. } => {
                self.altered.table.is_key(column.id)
                    && column.declared_type.column_type() == ColumnType::Timestamp
                    && to.column_type() != ColumnType::Timestamp
            }
            Ranges::Keys { columns, .. } => columns.contains(&column.id),
        };
        if is_range {
            let name = &column.name;
            let words = format!("another type of column \"{name}\", whose ranges are the partitions,");
            return Err(SqlError::unsupported(words)
                .with_hint("Create a table with it, and copy the rows: INSERT … SELECT."));
        }
        check_key_type(to, "a primary key or an index")?;
        let schema = ColumnSchema::new(column.id, &column.name, to.column_type());
        self.altered.new.push(NewValues { schema, source });
        self.altered.is_rebuilt = true;
        Ok(column.id)
    }

    /// A new column of the store in the place of one of another type.
    fn retyped_column(
        &mut self,
        place: usize,
        column: &ColumnDefinition,
        to: DeclaredType,
        source: Source,
    ) -> ColumnId {
        let retyped = ColumnDefinition { declared_type: to, ..column.clone() };
        let id = self.new_column(&retyped, source);
        if let Some(old) = self.schema.column(column.id)
            && let Some(new) = self.altered.new.last_mut()
        {
            new.schema.encoding = old.encoding;
        }
        let table = &mut self.altered.table;
        table.columns[place].id = id;
        table.dropped.push(DroppedColumn { id: column.id, at_ns: self.now_ns });
        self.allow_null(column.id);
        id
    }

    /// A new column of the store.
    fn new_column(&mut self, column: &ColumnDefinition, source: Source) -> ColumnId {
        let id = self.next;
        self.next = ColumnId(id.0 + 1);
        let schema = ColumnSchema::new(id, &column.name, column.declared_type.column_type());
        self.altered.new.push(NewValues { schema, source });
        id
    }

    /// Rows may have NULL there from now on.
    fn allow_null(&mut self, id: ColumnId) {
        if self.schema.column(id).is_some_and(|column| !column.nullable) {
            self.altered.nullable.push(id);
        }
    }

    fn refused_key(&self) -> SqlError {
        match &self.altered.table.key {
            Key::Declared { .. } => second_key(self.name),
            Key::Hidden { .. } => SqlError::unsupported("a primary key beside other actions of ALTER TABLE")
                .with_hint("ADD PRIMARY KEY (…) stands alone in a statement, after the columns are there."),
        }
    }

    fn unknown(&self, column: &str) -> SqlError {
        let message = format!("column \"{column}\" of relation \"{}\" does not exist", self.name);
        SqlError::new(SqlState::UNKNOWN_COLUMN, message)
    }

    fn duplicate(&self, column: &str) -> SqlError {
        duplicate_column(column, self.name)
    }
}

fn refused_unique() -> SqlError {
    SqlError::unsupported("a UNIQUE constraint beside other actions of ALTER TABLE")
        .with_hint("ADD UNIQUE (…) stands alone in a statement, after the columns are there.")
}

/// The error of a table that has a key.
pub(super) fn second_key(table: &str) -> SqlError {
    let message = format!("multiple primary keys for table \"{table}\" are not allowed");
    SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
}

pub(super) fn duplicate_column(column: &str, table: &str) -> SqlError {
    let message = format!("column \"{column}\" of relation \"{table}\" already exists");
    SqlError::new(SqlState::DUPLICATE_COLUMN, message)
}

/// Whether every value of a type is stored in the same way as one of another type.
fn holds(from: DeclaredType, to: DeclaredType) -> bool {
    use DeclaredType::{Char, Text, Varchar};
    if let Some((unrounded, digits)) = from.rounded() {
        return to.unrounded() == unrounded && to.rounded().is_none_or(|(_, to)| digits <= to);
    }
    match (from, to) {
        (Varchar(_) | Char(_), Text) => true,
        (Varchar(from), Varchar(to)) | (Char(from), Char(to) | Varchar(to)) => from <= to,
        _ => false,
    }
}

/// Whether values of a type become those of another one without a cast.
fn converts(from: DeclaredType, to: DeclaredType) -> bool {
    use DeclaredType as D;
    let is_number =
        |own| matches!(own, D::Int2 | D::Int4 | D::Int8 | D::Float4 | D::Float8 | D::Numeric { .. });
    let is_time = |own: D| matches!(own.unrounded(), D::Date | D::Timestamp | D::Timestamptz);
    let is_text = |own| matches!(own, D::Text | D::Varchar(_) | D::Char(_));
    from == to || is_text(to) || (is_number(from) && is_number(to)) || (is_time(from) && is_time(to))
}

fn is_cascade(behavior: Option<&DropBehavior>) -> bool {
    matches!(behavior, Some(DropBehavior::Cascade))
}

/// When an action is done.
fn pass(operation: &AlterTableOperation) -> SqlResult<u8> {
    use AlterColumnOperation as C;
    use AlterTableOperation as T;
    Ok(match operation {
        T::DropColumn { .. } | T::DropConstraint { .. } => 0,
        T::AlterColumn { op: C::DropNotNull | C::DropDefault, .. } => 0,
        T::AlterColumn { op: C::SetDataType { .. }, .. } => 1,
        T::AddColumn { .. } => 2,
        T::AddConstraint { .. } | T::AlterColumn { op: C::SetDefault { .. }, .. } => 3,
        T::AlterColumn { .. } => 4,
        T::RenameColumn { .. } | T::RenameTable { .. } | T::RenameConstraint { .. } => {
            let words = "RENAME stands alone in a statement";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
        }
        other => return Err(refused(other)),
    })
}

fn refused(operation: &AlterTableOperation) -> SqlError {
    SqlError::unsupported(format!("ALTER TABLE … {operation}"))
}

/// What PostgreSQL calls an action.
pub(super) fn name_of(operation: &AlterTableOperation) -> &'static str {
    use AlterColumnOperation as C;
    use AlterTableOperation as T;
    match operation {
        T::AddColumn { .. } => "ADD COLUMN",
        T::DropColumn { .. } => "DROP COLUMN",
        T::AddConstraint { .. } => "ADD CONSTRAINT",
        T::DropConstraint { .. } => "DROP CONSTRAINT",
        T::AlterColumn { op: C::SetNotNull, .. } => "ALTER COLUMN ... SET NOT NULL",
        T::AlterColumn { op: C::DropNotNull, .. } => "ALTER COLUMN ... DROP NOT NULL",
        T::AlterColumn { op: C::SetDataType { .. }, .. } => "ALTER COLUMN ... SET DATA TYPE",
        T::AlterColumn { .. } => "ALTER COLUMN ... SET DEFAULT",
        _ => "of this kind",
    }
}
