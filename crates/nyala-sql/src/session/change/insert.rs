//! `INSERT` and `UPSERT`: where rows come from, and what happens to those whose key is taken.

use super::assignments::{self, ConflictUpdate};
use super::preparing::{Preparing, Written, is_default};
use super::selection::{Selection, unknown_columns};
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::folded;
use crate::relation::columns::data_type;
use crate::relation::literal::{is_literal, parameter};
use crate::session::definition::table_of;
use crate::target::last_part;
use datafusion::sql::sqlparser::ast::{
    self, ConflictTarget, OnConflictAction, OnInsert, Query, SetExpr, With,
};
use nyala_core::ColumnId;
use nyala_db::relations::Key;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// A prepared INSERT.
#[derive(Debug)]
pub(super) struct Insert {
    /// The columns that its rows have values for.
    pub(super) named: Vec<usize>,
    pub(super) source: Source,
    pub(super) conflict: Conflict,
    pub(super) arbiter: Arbiter,
}

/// What a new row may have in common with one that is there, so that ON CONFLICT is about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Arbiter {
    /// The key, or values of any unique index.
    Any,
    Key,
    /// The values of an index, by its name.
    Index(String),
}

/// Where rows come from.
#[derive(Debug)]
pub(super) enum Source {
    /// From VALUES of literals and parameters, which are read when the statement is executed.
    Literals,
    /// One row, of defaults.
    Defaults,
    /// From a query.
    Query {
        selection: Box<Selection>,
        /// Per column whether its texts become what they are needed as.
        is_unknown: Vec<bool>,
    },
}

/// What happens to a row whose key is taken.
#[derive(Debug)]
pub(super) enum Conflict {
    /// The statement fails.
    Fail,
    /// The row is left out.
    Ignore {
        /// Whether the store leaves it out: rows are known by their keys alone.
        is_by_store: bool,
    },
    /// The row that is there is changed.
    Update(ConflictUpdate),
    /// The row that is there gets the values of the new one in the columns that the statement names.
    Replace {
        /// Whether the statement names every column that rows could keep or get by default.
        is_blind: bool,
        /// Whether two new rows may have one key: the later one stays.
        may_repeat: bool,
    },
}

impl Insert {
    pub(super) fn reads_rows(&self) -> bool {
        matches!(
            self.conflict,
            Conflict::Update(_)
                | Conflict::Replace { is_blind: false, .. }
                | Conflict::Ignore { is_by_store: false }
        )
    }
}

pub(super) async fn prepare(
    preparing: &mut Preparing<'_>,
    written: &Written<'_>,
    insert: &ast::Insert,
) -> SqlResult<Insert> {
    check_clauses(insert)?;
    let is_explicit = !insert.columns.is_empty();
    let mut named = preparing.named(&insert.columns)?;
    let source = match &insert.source {
        None => {
            named.clear();
            Source::Defaults
        }
        Some(query) => source(preparing, written.with, query, &mut named, is_explicit).await?,
    };
    if !written.is_overriding {
        check_generated(preparing, insert, &named)?;
    }
    let mut arbiter = Arbiter::Key;
    let has_indexes = preparing.relation.table().is_some_and(|table| !table.indexes.is_empty());
    let conflict = match &insert.on {
        Some(on) if written.is_upsert => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("UPSERT has no{on}")));
        }
        None if written.is_upsert => replaced(preparing, &named, insert)?,
        None => Conflict::Fail,
        Some(OnInsert::OnConflict(on)) => {
            arbiter = match &on.conflict_target {
                Some(target) => arbiter_of(preparing, target)?,
                None => Arbiter::Any,
            };
            match &on.action {
                OnConflictAction::DoNothing => Conflict::Ignore { is_by_store: !has_indexes },
                OnConflictAction::DoUpdate(_) if on.conflict_target.is_none() => {
                    let words = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, words)
                        .with_hint("For example, ON CONFLICT (column_name)."));
                }
                OnConflictAction::DoUpdate(update) => {
                    let taken = assignments::columns_taken(preparing, update)?;
                    let is_blind = arbiter == Arbiter::Key
                        && !has_indexes
                        && taken.is_some_and(|taken| {
                            takes_all(preparing, &named, &taken) && covers_all(preparing, &named, insert)
                        });
                    match is_blind {
                        true => Conflict::Replace { is_blind, may_repeat: false },
                        false => Conflict::Update(assignments::prepare(preparing, update)?),
                    }
                }
            }
        }
        Some(other) => return Err(SqlError::unsupported(other.to_string().trim())),
    };
    Ok(Insert { named, source, conflict, arbiter })
}

/// Fails if rows name values for a column that is always generated.
fn check_generated(preparing: &Preparing<'_>, insert: &ast::Insert, named: &[usize]) -> SqlResult<()> {
    let rows = match insert.source.as_ref().map(|query| &*query.body) {
        Some(SetExpr::Values(values)) => Some(&values.rows),
        _ => None,
    };
    for (place, position) in named.iter().enumerate() {
        let is_given = rows.is_none_or(|rows| rows.iter().any(|cells| !is_default(&cells[place])));
        if is_given && preparing.is_always_generated(*position) {
            return Err(given_to_generated(preparing.columns.name(*position)));
        }
    }
    Ok(())
}

/// The error that rows name a value for a column that is always generated.
pub(super) fn given_to_generated(column: &str) -> SqlError {
    let message = format!("cannot insert a non-DEFAULT value into column \"{column}\"");
    SqlError::new(SqlState::GENERATED_ALWAYS, message)
        .with_detail(assignments::always_generated(column))
        .with_hint("Use OVERRIDING SYSTEM VALUE to override.")
}

/// Fails if rows have more columns than the table, or fewer than the statement names.
pub(super) fn check_width(columns: usize, targets: usize, is_explicit: bool) -> SqlResult<()> {
    let words = match columns.cmp(&targets) {
        Ordering::Greater => "INSERT has more expressions than target columns",
        Ordering::Less if is_explicit => "INSERT has more target columns than expressions",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::SYNTAX_ERROR, words))
}

async fn source(
    preparing: &mut Preparing<'_>,
    with: Option<&With>,
    query: &Query,
    named: &mut Vec<usize>,
    is_explicit: bool,
) -> SqlResult<Source> {
    let targets = named.len();
    let count = |columns: usize| check_width(columns, targets, is_explicit).map(|()| columns);
    let mut query = query.clone();
    if let SetExpr::Values(values) = &mut *query.body {
        let width = values.rows.first().map_or(0, |row| row.len());
        if values.rows.iter().any(|row| row.len() != width) {
            let words = "VALUES lists must all be the same length";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
        }
        named.truncate(count(width)?);
        let is_simple = query.with.is_none()
            && query.order_by.is_none()
            && query.limit_clause.is_none()
            && query.fetch.is_none();
        let cells = || values.rows.iter().flat_map(|row| row.iter().zip(&*named));
        for (cell, position) in cells() {
            if let Some(number) = parameter(cell) {
                let declared = preparing.columns.columns[*position].declared_type;
                preparing.types.note(number, data_type(declared));
            }
        }
        if is_simple && cells().all(|(cell, _)| is_literal(cell) || is_default(cell)) {
            return Ok(Source::Literals);
        }
        for row in &mut values.rows {
            for (cell, position) in row.iter_mut().zip(&*named) {
                if is_default(cell) {
                    *cell = preparing.default(*position)?;
                }
            }
        }
    }
    if query.with.is_none() {
        query.with = with.cloned();
    }
    let selection = Selection::of_query(preparing.session, &mut preparing.types, query).await?;
    named.truncate(count(selection.columns())?);
    let is_unknown = unknown_columns(selection.plan());
    Ok(Source::Query { selection: Box::new(selection), is_unknown })
}

/// What UPSERT does.
fn replaced(preparing: &Preparing<'_>, named: &[usize], insert: &ast::Insert) -> SqlResult<Conflict> {
    let table = preparing.relation.table();
    if let Some(Key::Hidden { .. }) = table.map(|table| &table.key) {
        let message = format!("UPSERT INTO table \"{}\", which has no primary key", preparing.relation.name);
        return Err(SqlError::unsupported(message));
    }
    let covers = covers_all(preparing, named, insert);
    // The entries of what is there have to be deleted.
    let is_blind = covers && table.is_some_and(|table| table.indexes.is_empty());
    if !is_blind {
        preparing.check_readable()?;
    }
    Ok(Conflict::Replace { is_blind, may_repeat: covers })
}

/// Whether what rows become does not depend on those that are there, because every column gets a value.
fn covers_all(preparing: &Preparing<'_>, named: &[usize], insert: &ast::Insert) -> bool {
    let names_all = named.len() == preparing.columns.columns.len();
    // RETURNING shows the columns that a row keeps.
    names_all
        || insert.returning.is_none()
            && preparing.relation.table().is_some_and(|table| {
                table.checks.is_empty()
                    && table.columns.iter().enumerate().all(|(position, column)| {
                        named.contains(&position) || (column.default.is_none() && column.nullable)
                    })
            })
}

/// Whether the columns that ON CONFLICT takes from the new row are all that it has a value for, beside the key.
fn takes_all(preparing: &Preparing<'_>, named: &[usize], taken: &[usize]) -> bool {
    let key = preparing.columns.key_positions().expect("a change knows all columns");
    named.iter().all(|position| key.contains(position) != taken.contains(position))
        && taken.iter().all(|position| named.contains(position))
}

/// The arbiter that a target of ON CONFLICT means.
fn arbiter_of(preparing: &Preparing<'_>, target: &ConflictTarget) -> SqlResult<Arbiter> {
    let table = table_of(&preparing.relation)?;
    let key = match &table.key {
        Key::Declared { name, columns } => Some((name, columns)),
        Key::Hidden { .. } => None,
    };
    match target {
        ConflictTarget::Columns(names) => {
            let mut given = BTreeSet::new();
            for name in names {
                given.insert(preparing.columns.columns[preparing.column(&folded(name))?].id);
            }
            let is_given = |columns: &[ColumnId]| columns.iter().copied().collect::<BTreeSet<_>>() == given;
            if key.is_some_and(|(_, columns)| is_given(columns)) {
                return Ok(Arbiter::Key);
            }
            let index = table.indexes.iter().find(|index| index.is_unique && is_given(&index.columns));
            index.map(|index| Arbiter::Index(index.name.clone())).ok_or_else(|| {
                let words =
                    "there is no unique or exclusion constraint matching the ON CONFLICT specification";
                SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, words)
            })
        }
        ConflictTarget::OnConstraint(name) => {
            let name = last_part(name)?;
            if key.is_some_and(|(key, _)| *key == name) {
                return Ok(Arbiter::Key);
            }
            match table.index(&name) {
                Some(index) if index.is_constraint => Ok(Arbiter::Index(name)),
                _ => {
                    let table = &preparing.relation.name;
                    let message = format!("constraint \"{name}\" for table \"{table}\" does not exist");
                    Err(SqlError::new(SqlState::UNKNOWN_OBJECT, message))
                }
            }
        }
    }
}

pub(super) fn check_clauses(insert: &ast::Insert) -> SqlResult<()> {
    let clauses = [
        (insert.or.is_some(), "INSERT OR …"),
        (insert.ignore, "INSERT IGNORE"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (insert.replace_into, "REPLACE INTO"),
        (insert.partitioned.is_some(), "INSERT … PARTITION"),
        (!insert.assignments.is_empty(), "INSERT … SET"),
        (insert.output.is_some(), "OUTPUT"),
    ];
    match clauses.iter().find(|(is_there, _)| *is_there) {
        Some((_, name)) => Err(SqlError::unsupported(name)),
        None => Ok(()),
    }
}
