//! `CREATE TABLE`.

use super::new_column::NewColumn;
use super::new_index::{NewIndex, check_enforced, check_immediate};
use super::sequence::NewSequence;
use super::storage::Storage;
use super::{check_key_type, of_creation, same_constraint, taken};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::{compiled, parsed, planned, type_of};
use crate::identifier::folded;
use crate::names::DatabaseNames;
use crate::number_source::{default_in_database, sequence_of_default};
use crate::relation::columns::{ROW_ID, TableColumns};
use crate::relation::input::Surroundings;
use crate::relation::rules::{Rules, need_plans};
use crate::session::Session;
use crate::target::{Place, check_name};
use crate::walk::each_expression;
use arrow_schema::DataType;
use datafusion::common::DFSchema;
use datafusion::sql::sqlparser::ast::{
    self, CreateTable, Expr, Ident, PrimaryKeyConstraint, TableConstraint,
};
use nyala_core::store::Capabilities;
use nyala_core::{ColumnId, ColumnSchema, ColumnType, TableId, TableSchema};
use nyala_db::relations::{
    Body, Check, ColumnDefinition, Definition, Index, Key, OnCommit, Relation, TEMPORARY, TableDefinition,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A table that is being defined.
pub(super) struct NewTable {
    pub(super) name: String,
    pub(super) columns: Vec<ColumnDefinition>,
    /// The name of its key and the columns of it; `None`: it is hidden.
    key: Option<(String, Vec<ColumnId>)>,
    checks: Vec<Check>,
    indexes: Vec<Index>,
    storage: Storage,
    /// The sequences that columns get their numbers from.
    sequences: Vec<(String, NewSequence)>,
    on_commit: OnCommit,
}

/// The most columns of a table, as in PostgreSQL.
const COLUMNS_MAX: usize = 1600;

/// Refuses a table with too many columns.
pub(super) fn check_count(columns: usize) -> SqlResult<()> {
    if columns <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!("tables can have at most {COLUMNS_MAX} columns");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message))
}

impl Session {
    pub(super) async fn create_table(&mut self, create: &CreateTable) -> SqlResult<CommandTag> {
        let place = self.new_place(&create.name, create.temporary)?;
        self.check_writable_place(&place)?;
        place.check_new()?;
        let tag = CommandTag::of("CREATE TABLE");
        if place.relation(self.relations()).is_some() && create.if_not_exists {
            return Ok(tag);
        }
        if self.is_name_taken(&place.database, &place.name) {
            return Err(taken(&place.name));
        }
        let (create, others) = &self.with_columns_of_others(create).await?;
        let (mut table, mut indexes) = NewTable::of(&place.name, create)?;
        indexes.extend(others.iter().cloned());
        table.on_commit = on_commit(create, &place)?;
        if place.database == TEMPORARY {
            self.name_sequences(&mut table);
        }
        table.name_key(&self.relations().of(&place.database));
        if let Some((key, _)) = &table.key
            && (*key == place.name || self.is_name_taken(&place.database, key))
        {
            return Err(taken(key));
        }
        if !indexes.is_empty() {
            self.need_indexes()?;
        }
        table.add_indexes(indexes, |name| self.is_name_taken(&place.database, name))?;
        let capabilities = self.server.catalog.store().capabilities();
        // Expressions are read again as they are stored.
        let checked = table.check(self.names(), self.surroundings(), capabilities);
        checked.map_err(SqlError::without_place)?;
        match self.create_new(&place.database, table).await {
            Err(error) if error.code == SqlState::DUPLICATE_TABLE && create.if_not_exists => Ok(tag),
            created => created.map(|()| tag),
        }
    }

    /// Names in the defaults of a temporary table the sequences whole that are not temporary: one that is made later has numbers of
    /// its own.
    fn name_sequences(&self, table: &mut NewTable) {
        for column in &mut table.columns {
            if let Some(sequence) = column.default.as_deref().and_then(sequence_of_default)
                && !self.relations().has_temporary(&sequence)
            {
                column.default = Some(default_in_database(&self.database, &sequence));
            }
        }
    }

    pub(super) async fn create_new(&mut self, database: &str, table: NewTable) -> SqlResult<()> {
        let (name, schemas) = (table.name.clone(), table.schemas()?);
        if self.transaction.is_some() {
            let mut stores = Vec::with_capacity(schemas.len());
            for schema in schemas {
                stores.push(self.create_uncommitted(database, &name, schema).await?);
            }
            let mut definition = table.define(&stores);
            if let Body::Table(own) = &mut definition.body {
                let place = Place { database: database.to_owned(), schema: None, name: name.clone() };
                for (column, sequence) in table.sequences {
                    self.number_column(&place, own, &column, sequence)?;
                }
            }
            self.put_uncommitted(database, &name, Some(definition));
            return Ok(());
        }
        let catalog = &self.server.catalog;
        let define = |stores: &[TableId]| table.define(stores);
        let created = catalog.create_relation_table(database, &name, schemas, define).await;
        created.map(drop).map_err(|error| of_creation(error, &name))
    }
}

impl NewTable {
    /// The table, and the indexes that it is to have.
    fn of(name: &str, create: &CreateTable) -> SqlResult<(Self, Vec<NewIndex>)> {
        check_clauses(create)?;
        let mut table = Self::empty(name, Storage::of(create)?);
        let mut key: Option<(Option<Ident>, Vec<String>)> = None;
        let mut checks: Vec<(Option<Ident>, Expr)> = Vec::new();
        let mut indexes = Vec::new();
        let again = || {
            let message = format!("multiple primary keys for table \"{name}\" are not allowed");
            SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message)
        };
        for (written, id) in create.columns.iter().zip(0..) {
            let column = NewColumn::of(written)?;
            if let Some(constraint) = column.key {
                let columns = vec![column.definition.name.clone()];
                if key.replace((constraint, columns)).is_some() {
                    return Err(again());
                }
            }
            checks.extend(column.checks);
            let own =
                column.unique.iter().map(|own| NewIndex::of_column(own.as_ref(), &column.definition.name));
            indexes.extend(own);
            if let Some(sequence) = column.sequence {
                table.sequences.push((column.definition.name.clone(), sequence));
            }
            table.add_column(ColumnDefinition { id: ColumnId(id), ..column.definition })?;
        }
        for constraint in &create.constraints {
            match constraint {
                TableConstraint::PrimaryKey(own) => {
                    if key.replace((own.name.clone(), names_of_key(own)?)).is_some() {
                        return Err(again());
                    }
                }
                TableConstraint::Check(own) => {
                    check_enforced(own.enforced)?;
                    checks.push((own.name.clone(), (*own.expr).clone()));
                }
                TableConstraint::Unique(own) => indexes.push(NewIndex::of_constraint(own)?),
                other => return Err(refused_constraint(other)),
            }
        }
        if let Some((constraint, columns)) = key {
            table.set_key(constraint.as_ref(), &columns)?;
        }
        for (constraint, expression) in checks {
            table.checks =
                with_check(&table.name, &table.columns, &table.checks, constraint.as_ref(), &expression)?;
        }
        table.storage.check(&table.columns)?;
        Ok((table, indexes))
    }

    /// Adds indexes. One that has the columns of another gives it its name, or is forgotten.
    fn add_indexes(&mut self, indexes: Vec<NewIndex>, is_taken: impl Fn(&str) -> bool) -> SqlResult<()> {
        let mut different: Vec<NewIndex> = Vec::with_capacity(indexes.len());
        for new in indexes {
            match different.iter_mut().find(|own| own.columns == new.columns) {
                Some(own) => own.name = own.name.take().or(new.name),
                None => different.push(new),
            }
        }
        for new in different {
            let Body::Table(table) = self.define(&[]).body else { return Ok(()) };
            let is_key = |name: &str| matches!(&table.key, Key::Declared { name: own, .. } if own == name);
            let is_own = |name: &str| is_key(name) || name == self.name || table.index(name).is_some();
            let index = new.define(&self.name, &table, |name| is_taken(name) || is_own(name))?;
            if table.checks.iter().any(|check| check.name == index.name) {
                return Err(same_constraint(&index.name, &self.name));
            }
            if self.key.as_ref().is_none_or(|(_, key)| *key != index.columns) {
                self.indexes.push(index);
            }
        }
        Ok(())
    }

    /// A table without columns.
    pub(super) fn empty(name: &str, storage: Storage) -> Self {
        let (columns, checks, indexes, sequences) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let on_commit = OnCommit::default();
        Self { name: name.to_owned(), columns, key: None, checks, indexes, storage, sequences, on_commit }
    }

    pub(super) fn add_column(&mut self, column: ColumnDefinition) -> SqlResult<()> {
        check_name(&column.name)?;
        if self.columns.iter().any(|own| own.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
        }
        check_count(self.columns.len() + 1)?;
        self.columns.push(column);
        Ok(())
    }

    fn set_key(&mut self, constraint: Option<&Ident>, names: &[String]) -> SqlResult<()> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let Some(column) = self.columns.iter_mut().find(|column| column.name == *name) else {
                let message = format!("column \"{name}\" named in key does not exist");
                return Err(SqlError::new(SqlState::UNKNOWN_COLUMN, message));
            };
            check_key_type(column.declared_type, "a primary key")?;
            if columns.contains(&column.id) {
                let message = format!("column \"{name}\" appears twice in primary key constraint");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            column.nullable = false;
            columns.push(column.id);
        }
        let name = constraint.map_or_else(|| format!("{}_pkey", self.name), folded);
        check_name(&name)?;
        self.key = Some((name, columns));
        Ok(())
    }

    /// Gives its key another name than the usual one if a table has it that was renamed.
    fn name_key(&mut self, relations: &[Arc<Relation>]) {
        let is_taken = |name: &str| relations.iter().any(|own| own.has_name(name));
        if let Some((name, _)) = &mut self.key
            && *name == format!("{}_pkey", self.name)
        {
            let numbered = (1..).map(|number| format!("{}_pkey{number}", self.name));
            let free = std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name));
            *name = free.unwrap_or_default();
        }
    }

    /// Checks the expressions in it.
    fn check(&self, names: DatabaseNames, around: Surroundings, capabilities: Capabilities) -> SqlResult<()> {
        let Body::Table(table) = self.define(&[]).body else { return Ok(()) };
        check_expressions(&self.name, &table, names, around, capabilities)
    }

    /// The id of a column for the numbers of rows.
    fn hidden_id(&self) -> ColumnId {
        ColumnId(self.columns.len() as u32)
    }

    /// The tables of the store: that of the rows, and those of the indexes.
    fn schemas(&self) -> SqlResult<Vec<TableSchema>> {
        let mut all = vec![self.schema()?];
        if let Body::Table(table) = self.define(&[]).body {
            for index in &table.indexes {
                all.push(index.schema(&all[0])?);
            }
        }
        Ok(all)
    }

    /// The table of the store for the rows.
    fn schema(&self) -> SqlResult<TableSchema> {
        let column = |own: &ColumnDefinition| {
            let schema = ColumnSchema::new(own.id, &own.name, own.declared_type.column_type());
            let encoding = self.storage.encoding(&own.name);
            ColumnSchema { nullable: own.nullable, encoding, ..schema }
        };
        let mut columns: Vec<ColumnSchema> = self.columns.iter().map(column).collect();
        let key = match &self.key {
            Some((_, key)) => key.clone(),
            None => {
                let number = ColumnSchema::new(self.hidden_id(), ROW_ID, ColumnType::Int64).required();
                columns.push(ColumnSchema { hidden: true, ..number });
                vec![self.hidden_id()]
            }
        };
        let schema = TableSchema::keyed("", columns, key);
        Ok(TableSchema { partitioning: self.storage.partitioning(&self.columns)?, ..schema })
    }

    /// Its definition, in some tables of the store.
    fn define(&self, stores: &[TableId]) -> Definition {
        let key = match &self.key {
            Some((name, columns)) => Key::Declared { name: name.clone(), columns: columns.clone() },
            None => Key::Hidden { column: self.hidden_id() },
        };
        let (columns, checks, indexes) = (self.columns.clone(), self.checks.clone(), self.indexes.clone());
        let (table, dropped, on_commit) = (TableId(0), Vec::new(), self.on_commit);
        let table = TableDefinition { table, columns, key, checks, indexes, dropped, on_commit };
        Definition { comment: None, body: Body::Table(table.with_stores(stores)) }
    }
}

/// What a commit does to a new table.
fn on_commit(create: &CreateTable, place: &Place) -> SqlResult<OnCommit> {
    match create.on_commit {
        None => Ok(OnCommit::default()),
        Some(_) if place.database != TEMPORARY => {
            let words = "ON COMMIT can only be used on temporary tables";
            Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, words))
        }
        Some(ast::OnCommit::PreserveRows) => Ok(OnCommit::PreserveRows),
        Some(ast::OnCommit::DeleteRows) => Ok(OnCommit::DeleteRows),
        Some(ast::OnCommit::Drop) => Ok(OnCommit::Drop),
    }
}

/// The names of the columns of a key.
fn names_of_key(constraint: &PrimaryKeyConstraint) -> SqlResult<Vec<String>> {
    check_immediate(constraint.characteristics.as_ref())?;
    let name = |column: &ast::IndexColumn| match &column.column.expr {
        Expr::Identifier(identifier) => Ok(folded(identifier)),
        other => Err(SqlError::unsupported(format!("the expression {other} in a primary key"))),
    };
    constraint.columns.iter().map(name).collect()
}

/// The definition of a table with a key that it has not had.
pub(super) fn with_key(
    name: &str,
    table: &TableDefinition,
    constraint: &PrimaryKeyConstraint,
    relations: &[Arc<Relation>],
) -> SqlResult<TableDefinition> {
    let columns = table.columns.clone();
    let mut new = NewTable { columns, ..NewTable::empty(name, Storage::default()) };
    new.set_key(constraint.name.as_ref(), &names_of_key(constraint)?)?;
    new.name_key(relations);
    if let Some((key, _)) = &new.key
        && relations.iter().any(|own| own.has_name(key))
    {
        return Err(taken(key));
    }
    let key = new.key.map(|(name, columns)| Key::Declared { name, columns });
    Ok(TableDefinition {
        columns: new.columns,
        key: key.unwrap_or_else(|| table.key.clone()),
        dropped: Vec::new(),
        ..table.clone()
    })
}

/// Checks that the expressions of a table can be computed, and give what they must.
pub(super) fn check_expressions(
    name: &str,
    table: &TableDefinition,
    names: DatabaseNames,
    around: Surroundings,
    capabilities: Capabilities,
) -> SqlResult<()> {
    let columns = Arc::new(TableColumns::all(table));
    let mut state = need_plans(table).then(|| names.planner(""));
    if let Some(state) = &mut state {
        state.mark_start_execution();
        let schema = DFSchema::try_from_qualified_schema(name, &columns.schema)?;
        for check in &table.checks {
            let planned = planned(state, &parsed(&check.expression)?, &schema)?;
            let (data_type, _) = type_of(&planned, &schema)?;
            if !matches!(data_type, DataType::Boolean | DataType::Null) {
                let message = format!("argument of CHECK must be type boolean, not {data_type}");
                return Err(SqlError::new(SqlState::TYPE_MISMATCH, message));
            }
            compiled(state, planned, &schema, &[])?;
        }
    }
    let rules = Rules::of(name, table, columns.clone(), state.as_ref(), around, capabilities, None)?;
    // Numbers are not taken to try it.
    let is_tried = |position: &usize| {
        let default = table.columns.get(*position).and_then(|own| own.default.as_ref());
        rules.has_default(*position)
            && !default.is_some_and(|text| text.to_ascii_lowercase().contains("nextval"))
    };
    for position in (0..columns.columns.len()).filter(is_tried) {
        rules.default(position, 1)?;
    }
    Ok(())
}

/// The checks of a table and another one, which gets a name if it has none.
pub(super) fn with_check(
    table: &str,
    columns: &[ColumnDefinition],
    checks: &[Check],
    constraint: Option<&Ident>,
    expression: &Expr,
) -> SqlResult<Vec<Check>> {
    let is_taken = |name: &str| checks.iter().any(|check| check.name == name);
    let name = match constraint {
        Some(constraint) => folded(constraint),
        None => {
            let named = columns_in(expression);
            let mut named = named.iter().filter(|name| columns.iter().any(|own| own.name == **name));
            let base = match (named.next(), named.next()) {
                (Some(only), None) => format!("{table}_{only}_check"),
                _ => format!("{table}_check"),
            };
            let numbered = (1..).map(|number| format!("{base}{number}"));
            std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(base)
        }
    };
    check_name(&name)?;
    if is_taken(&name) {
        let message = format!("constraint \"{name}\" for relation \"{table}\" already exists");
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
    }
    let mut all = checks.to_vec();
    all.push(Check { name, expression: expression.to_string() });
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The names in an expression.
pub(super) fn columns_in(expression: &Expr) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    each_expression(expression, &mut |inner| match inner {
        Expr::Identifier(identifier) => drop(names.insert(folded(identifier))),
        Expr::CompoundIdentifier(parts) => names.extend(parts.last().map(folded)),
        _ => {}
    });
    names
}

/// The error of a constraint that there is not.
pub(super) fn refused_constraint(constraint: &TableConstraint) -> SqlError {
    match constraint {
        TableConstraint::ForeignKey(_) => SqlError::unsupported("a FOREIGN KEY constraint"),
        other => SqlError::unsupported(format!("the constraint {other}")),
    }
}

/// Refuses what a statement can say and would have no effect.
pub(in crate::session) fn check_clauses(create: &CreateTable) -> SqlResult<()> {
    let clauses = [
        (create.or_replace, "CREATE OR REPLACE TABLE"),
        (create.external, "CREATE EXTERNAL TABLE"),
        (create.like.is_some(), "CREATE TABLE … LIKE"),
        (create.clone.is_some(), "CREATE TABLE … CLONE"),
        (create.inherits.is_some(), "INHERITS"),
        (create.partition_of.is_some(), "PARTITION OF"),
        (create.file_format.is_some() || create.location.is_some(), "a file format or location"),
        (create.order_by.is_some() || create.cluster_by.is_some(), "an order of rows but that of the key"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, name)) => Err(SqlError::unsupported(name)),
        None => Ok(()),
    }
}
