//! `CREATE TABLE (LIKE other …)`: the columns of another table, as if they were written.

use super::new_index::NewIndex;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::like_table::{Included, of_column};
use crate::relation::queried_column::queried_column;
use crate::session::Session;
use crate::statement::Statement;
use datafusion::sql::sqlparser::ast::{
    self, ColumnDef, ColumnOption, ColumnOptionDef, CreateTable, Ident, ObjectName, TableConstraint,
};
use nyala_core::ColumnId;
use nyala_db::relations::{Identity, Key, OwnedSequence, SequenceDefinition, TableDefinition};
use nyala_db::users::Privilege;

/// What a table takes from another one.
#[derive(Default)]
struct Taken {
    columns: Vec<ColumnDef>,
    constraints: Vec<TableConstraint>,
    indexes: Vec<NewIndex>,
}

impl Session {
    /// A statement with columns in the place of `LIKE`, and the indexes that it has to make beside its constraints.
    pub(super) async fn with_columns_of_others(
        &mut self,
        create: &CreateTable,
    ) -> SqlResult<(CreateTable, Vec<NewIndex>)> {
        let (mut columns, mut constraints, mut indexes) =
            (Vec::new(), create.constraints.clone(), Vec::new());
        for column in &create.columns {
            match of_column(column) {
                None => columns.push(column.clone()),
                Some(Err(word)) => {
                    let message = format!("syntax error at or near \"{word}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
                }
                Some(Ok((table, included))) => {
                    let taken = self.taken_of(table, included).await?;
                    columns.extend(taken.columns);
                    constraints.extend(taken.constraints);
                    indexes.extend(taken.indexes);
                }
            }
        }
        Ok((CreateTable { columns, constraints, ..create.clone() }, indexes))
    }

    async fn taken_of(&mut self, name: &ObjectName, included: Included) -> SqlResult<Taken> {
        let place = self.place(name)?;
        if !self.may(Privilege::Read, &place.database) {
            let message = format!("permission denied for table {}", place.name);
            return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
        }
        if let Some(relation) = place.relation(self.relations())
            && let Some(table) = relation.table()
        {
            let numbers = |owned: &OwnedSequence| {
                let found = self.relations().find(&relation.database, &owned.name)?;
                found.sequence().map(options_of)
            };
            return of_table(table, included, numbers);
        }
        if place.relation(self.relations()).is_some_and(|own| own.sequence().is_some()) {
            let message = format!("relation \"{}\" is invalid in LIKE clause", place.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT, message)
                .with_detail("This operation is not supported for sequences."));
        }
        // A view or a measurement has columns, and nothing else.
        let query = statement(&format!("SELECT * FROM {name}"))?;
        let selected = Box::pin(self.try_prepare(query, &[])).await?;
        let fields = selected.columns.iter().flat_map(|schema| schema.fields());
        parsed(fields.map(|field| queried_column(field)).collect::<SqlResult<_>>()?)
    }
}

/// How an identity numbers its rows, as it is written in SQL.
fn options_of(own: &SequenceDefinition) -> String {
    let SequenceDefinition { start, increment, minimum, maximum, cache, .. } = own;
    let cycle = if own.cycles { "CYCLE" } else { "NO CYCLE" };
    format!(
        "START WITH {start} INCREMENT BY {increment} MINVALUE {minimum} MAXVALUE {maximum} CACHE {cache} {cycle}"
    )
}

/// What is taken of a table. `numbers` says how a sequence of it numbers rows.
fn of_table(
    table: &TableDefinition,
    included: Included,
    numbers: impl Fn(&OwnedSequence) -> Option<String>,
) -> SqlResult<Taken> {
    let quoted = |name: &str| Ident::with_quote('"', name).to_string();
    let names = |ids: &[ColumnId]| {
        let columns = ids.iter().filter_map(|id| table.columns.iter().find(|own| own.id == *id));
        columns.map(|own| own.name.clone()).collect::<Vec<_>>()
    };
    let listed = |ids: &[ColumnId]| names(ids).iter().map(|own| quoted(own)).collect::<Vec<_>>().join(", ");
    let mut elements = Vec::with_capacity(table.columns.len());
    for own in &table.columns {
        let mut written = format!("{} {}", quoted(&own.name), own.declared_type);
        if !own.nullable {
            written.push_str(" NOT NULL");
        }
        if let Some(default) = own.default.as_ref().filter(|_| included.defaults) {
            written.push_str(&format!(" DEFAULT {default}"));
        }
        if let Some(owned) = own.sequence.as_ref().filter(|_| included.identity)
            && let Some(identity) = owned.identity
        {
            let when = if identity == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
            let options = numbers(owned).unwrap_or_default();
            written.push_str(&format!(" GENERATED {when} AS IDENTITY ({options})"));
        }
        elements.push(written);
    }
    for check in table.checks.iter().filter(|_| included.constraints) {
        elements.push(format!("CONSTRAINT {} CHECK ({})", quoted(&check.name), check.expression));
    }
    let mut indexes = Vec::new();
    if included.indexes {
        if let Key::Declared { columns, .. } = &table.key {
            elements.push(format!("PRIMARY KEY ({})", listed(columns)));
        }
        for index in &table.indexes {
            match index.is_constraint {
                true => elements.push(format!("UNIQUE ({})", listed(&index.columns))),
                false => indexes.push(NewIndex::like(names(&index.columns), index.is_unique)),
            }
        }
    }
    let mut taken = parsed(elements)?;
    taken.indexes = indexes;
    for (column, own) in taken.columns.iter_mut().zip(&table.columns).filter(|_| included.comments) {
        let comment = own.comment.clone().map(ColumnOption::Comment);
        column.options.extend(comment.map(|option| ColumnOptionDef { name: None, option }));
    }
    Ok(taken)
}

/// Columns and constraints as they are written in `CREATE TABLE`.
fn parsed(elements: Vec<String>) -> SqlResult<Taken> {
    let whole = statement(&format!("CREATE TABLE t ({})", elements.join(", ")))?;
    match &*whole.ast {
        ast::Statement::CreateTable(create) => Ok(Taken {
            columns: create.columns.clone(),
            constraints: create.constraints.clone(),
            indexes: Vec::new(),
        }),
        _ => Err(SqlError::new(SqlState::INTERNAL, "the statement creates no table")),
    }
}

fn statement(text: &str) -> SqlResult<Statement> {
    let statement = Statement::parse(text)?.pop();
    statement.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the text has no statement"))
}
