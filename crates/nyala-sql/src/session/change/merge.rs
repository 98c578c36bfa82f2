//! `MERGE`: rows of a source meet those of the table, and each clause says what becomes of them.

use super::assignments::assignments;
use super::existing::key_of;
use super::insert::{check_width, given_to_generated};
use super::preparing::{Preparing, Written, changed_name, column_of, is_default, named_item, query_of};
use super::selection::Selection;
use super::update::whole;
use super::work::Work;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::parsed;
use crate::merge_nothing::is_nothing;
use crate::relation::assign::assigned;
use crate::relation::columns::data_type;
use crate::relation::literal::{is_literal, parameter};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use datafusion::arrow::compute::take_record_batch;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    self, BinaryOperator, CaseWhen, Expr, Join, JoinConstraint, JoinOperator, MergeAction, MergeClause,
    MergeClauseKind, MergeInsertKind, SelectItem, SetExpr, TableWithJoins,
};
use nyala_core::Value;
use nyala_core::store::WriteMode;
use std::collections::BTreeSet;

/// A prepared MERGE. Its query has the number of the clause that a row belongs to, all columns of the table, and the values
/// that the clauses assign.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) selection: Selection,
    /// By clause.
    actions: Vec<Action>,
}

#[derive(Debug)]
enum Action {
    Nothing,
    Delete,
    Update(Values),
    Insert(Values),
}

/// The values that a clause assigns.
#[derive(Debug)]
struct Values {
    /// The columns of the table, and whether their texts become what they are needed as.
    columns: Vec<(usize, bool)>,
    /// The first column of the query that has one.
    first: usize,
}

pub(super) async fn prepare(
    preparing: &mut Preparing<'_>,
    written: &Written<'_>,
    merge: &ast::Merge,
) -> SqlResult<Merge> {
    preparing.check_readable()?;
    check_clauses(merge)?;
    let all = 0..preparing.columns.columns.len();
    let clause = clause_number(preparing, &merge.clauses)?;
    let mut items = vec![named_item(clause.clone(), "\u{0}clause")];
    items.extend(all.map(|position| {
        let name = preparing.columns.name(position);
        named_item(column_of(&preparing.alias, name), &format!("\u{0}{position}"))
    }));
    let mut actions = Vec::with_capacity(merge.clauses.len());
    for (number, own) in merge.clauses.iter().enumerate() {
        let is_here = equal(clause.clone(), number)?;
        actions.push(match &own.action {
            _ if is_nothing(own) => Action::Nothing,
            MergeAction::Delete { .. } => Action::Delete,
            MergeAction::Update(update) => {
                let values = assignments(preparing, &update.assignments)?;
                let key = preparing.columns.key_positions().expect("a change knows all columns");
                if values.iter().any(|(position, _)| key.contains(position)) {
                    return Err(SqlError::unsupported("a change of the key by MERGE"));
                }
                Action::Update(assigned_by(values, &is_here, &mut items)?)
            }
            MergeAction::Insert(insert) => {
                let values = inserted(preparing, insert)?;
                Action::Insert(assigned_by(values, &is_here, &mut items)?)
            }
        });
    }
    let is_inner = merge.clauses.iter().all(|own| own.clause_kind == MergeClauseKind::Matched);
    let (name, alias) = (changed_name(&preparing.place), &preparing.alias);
    let mut query = query_of(name, alias, written.with, items, &[], None)?;
    if let SetExpr::Select(select) = &mut *query.body
        && let Some(table) = select.from.pop()
    {
        let on = JoinConstraint::On((*merge.on).clone());
        let join_operator = if is_inner { JoinOperator::Inner(on) } else { JoinOperator::LeftOuter(on) };
        let joins = vec![Join { relation: table.relation, global: false, join_operator }];
        select.from.push(TableWithJoins { relation: merge.source.clone(), joins });
    }
    let selection = Selection::of_query(preparing.session, &mut preparing.types, query).await?;
    Ok(Merge { selection, actions })
}

/// Refuses what PostgreSQL 15 does not have.
fn check_clauses(merge: &ast::Merge) -> SqlResult<()> {
    if merge.output.is_some() {
        return Err(SqlError::unsupported("MERGE … RETURNING"));
    }
    let mut unconditional: Vec<MergeClauseKind> = Vec::new();
    for clause in &merge.clauses {
        let has_condition_inside = match &clause.action {
            MergeAction::Update(own) => own.update_predicate.is_some() || own.delete_predicate.is_some(),
            MergeAction::Insert(own) => own.insert_predicate.is_some(),
            MergeAction::Delete { .. } => false,
        };
        let is_known = matches!(clause.clause_kind, MergeClauseKind::Matched | MergeClauseKind::NotMatched);
        if !is_known || has_condition_inside {
            return Err(SqlError::unsupported(format!("MERGE … {clause}")));
        }
        if unconditional.contains(&clause.clause_kind) {
            let words = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, words));
        }
        if clause.predicate.is_none() {
            unconditional.push(clause.clause_kind);
        }
    }
    Ok(())
}

/// The number of the first clause that a row belongs to; NULL if none.
fn clause_number(preparing: &Preparing<'_>, clauses: &[MergeClause]) -> SqlResult<Expr> {
    let key = preparing.columns.key_positions().expect("a change knows all columns");
    // A key is never NULL in a row that is there.
    let key = Box::new(column_of(&preparing.alias, preparing.columns.name(key[0])));
    let mut cases = Vec::with_capacity(clauses.len());
    for (number, clause) in clauses.iter().enumerate() {
        let kind = match clause.clause_kind {
            MergeClauseKind::Matched => Expr::IsNotNull(key.clone()),
            _ => Expr::IsNull(key.clone()),
        };
        let condition = match &clause.predicate {
            Some(predicate) => Expr::BinaryOp {
                left: Box::new(kind),
                op: BinaryOperator::And,
                right: Box::new(Expr::Nested(Box::new(predicate.clone()))),
            },
            None => kind,
        };
        cases.push((condition, parsed(&number.to_string())?));
    }
    case(cases)
}

fn equal(clause: Expr, number: usize) -> SqlResult<Expr> {
    let number = Box::new(parsed(&number.to_string())?);
    Ok(Expr::BinaryOp { left: Box::new(clause), op: BinaryOperator::Eq, right: number })
}

fn case(cases: Vec<(Expr, Expr)>) -> SqlResult<Expr> {
    let mut all = parsed("CASE WHEN true THEN 1 END")?;
    if let Expr::Case { conditions, .. } = &mut all {
        *conditions = cases.into_iter().map(|(condition, result)| CaseWhen { condition, result }).collect();
    }
    Ok(all)
}

/// The values that a clause inserts.
fn inserted(preparing: &mut Preparing<'_>, insert: &ast::MergeInsertExpr) -> SqlResult<Vec<(usize, Expr)>> {
    let MergeInsertKind::Values(values) = &insert.kind else {
        return Err(SqlError::unsupported("INSERT ROW"));
    };
    let [row] = &values.rows[..] else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "a clause of MERGE inserts one row"));
    };
    let is_explicit = !insert.columns.is_empty();
    let named = preparing.named(&insert.columns)?;
    check_width(row.len(), named.len(), is_explicit)?;
    let mut all = Vec::with_capacity(row.len());
    for (position, cell) in named.into_iter().zip(row.iter()) {
        if let Some(number) = parameter(cell) {
            let declared = preparing.columns.columns[position].declared_type;
            preparing.types.note(number, data_type(declared));
        }
        if preparing.is_always_generated(position) && !is_default(cell) {
            return Err(given_to_generated(preparing.columns.name(position)));
        }
        let value = if is_default(cell) { preparing.default(position)? } else { cell.clone() };
        all.push((position, value));
    }
    Ok(all)
}

/// Adds values to the query. They are computed only for the rows of their clause, because others may break them.
fn assigned_by(values: Vec<(usize, Expr)>, is_here: &Expr, items: &mut Vec<SelectItem>) -> SqlResult<Values> {
    let first = items.len();
    let mut columns = Vec::with_capacity(values.len());
    for (position, value) in values {
        let is_unknown = is_literal(&value);
        columns.push((position, is_unknown));
        let value = if is_unknown { value } else { case(vec![(is_here.clone(), value)])? };
        items.push(named_item(value, &format!("\u{0}new{}", items.len())));
    }
    Ok(Values { columns, first })
}

impl Work<'_> {
    /// Does what the clauses say to rows of the query. Rows that are there are changed before new ones are inserted.
    pub(super) async fn merge_batches(
        &mut self,
        merge: &Merge,
        seen: &mut BTreeSet<Vec<Value>>,
        batches: &[RecordBatch],
    ) -> SqlResult<()> {
        let Some(rows) = whole(batches)? else { return Ok(()) };
        let is_insert = |action: &Action| matches!(action, Action::Insert(_));
        for inserts in [false, true] {
            for (number, action) in merge.actions.iter().enumerate() {
                let rows = of_clause(&rows, number)?;
                if rows.num_rows() == 0 || is_insert(action) != inserts {
                    continue;
                }
                match action {
                    Action::Nothing => {}
                    Action::Insert(values) => self.merge_insert(values, &rows).await?,
                    Action::Delete => self.merge_existing(None, seen, &rows).await?,
                    Action::Update(values) => self.merge_existing(Some(values), seen, &rows).await?,
                }
            }
        }
        Ok(())
    }

    async fn merge_insert(&mut self, values: &Values, rows: &RecordBatch) -> SqlResult<()> {
        let cells = self.merged(values, rows)?;
        let (named, cells): (Vec<usize>, Vec<ArrayRef>) = cells.into_iter().unzip();
        let whole = self.completed(&named, cells, rows.num_rows()).await?;
        self.rules.check(&whole)?;
        self.insert_new(whole, WriteMode::Insert).await
    }

    /// Updates rows that are there, or deletes them.
    async fn merge_existing(
        &mut self,
        update: Option<&Values>,
        seen: &mut BTreeSet<Vec<Value>>,
        rows: &RecordBatch,
    ) -> SqlResult<()> {
        let all: Vec<usize> = (0..self.rules.columns().columns.len()).collect();
        let behind_clause: Vec<usize> = all.iter().map(|position| position + 1).collect();
        let table = rows.project(&behind_clause).map_err(DataFusionError::from)?;
        let mut after = self.stored(&table, &all)?;
        let key = self.key();
        let keys: Vec<ArrayRef> = key.iter().map(|position| after[*position].clone()).collect();
        // About what a key takes in the set.
        self.held.charge(rows.num_rows() * (48 + 32 * key.len()))?;
        if !(0..rows.num_rows()).all(|row| seen.insert(key_of(&keys, row))) {
            let words = "MERGE command cannot affect row a second time";
            return Err(SqlError::new(SqlState::CARDINALITY_VIOLATION, words)
                .with_hint("Ensure that not more than one source row matches any one target row."));
        }
        let mut added = Vec::new();
        let operations = match update {
            None => std::iter::once(self.delete(keys)).chain(self.entries_removed(&after)).collect(),
            Some(values) => {
                let before = after.clone();
                let new = self.merged(values, rows)?;
                let assigned: Vec<usize> = new.iter().map(|(position, _)| *position).collect();
                new.into_iter().for_each(|(position, values)| after[position] = values);
                self.rules.check(&after)?;
                let cells = key.iter().chain(&assigned).map(|place| (*place, after[*place].clone()));
                let (mut operations, own) = self.entries_changed(&before, &after);
                operations.push(self.upsert(WriteMode::Update, cells.collect()));
                added = own;
                operations
            }
        };
        self.write(operations).await?;
        self.write_unique(added, &after, false).await?;
        self.note(&after)
    }

    /// The values of a clause, as the table stores them.
    fn merged(&self, values: &Values, rows: &RecordBatch) -> SqlResult<Vec<(usize, ArrayRef)>> {
        let columns = self.rules.columns();
        let own = values.columns.iter().zip(&rows.columns()[values.first..]);
        let own = own.map(|((position, is_unknown), values)| {
            let (declared, name) = (columns.columns[*position].declared_type, columns.name(*position));
            Ok((*position, assigned(values, *is_unknown, name, declared, self.rules.around())?))
        });
        own.collect()
    }
}

/// The rows that belong to a clause.
fn of_clause(rows: &RecordBatch, number: usize) -> SqlResult<RecordBatch> {
    let clauses = rows.column(0).as_primitive_opt::<Int32Type>();
    let clauses =
        clauses.ok_or_else(|| SqlError::new(SqlState::INTERNAL, "the number of a clause is no integer"))?;
    let is_own = |row: &u32| {
        let row = *row as usize;
        clauses.is_valid(row) && usize::try_from(clauses.value(row)) == Ok(number)
    };
    let own: UInt32Array = (0..rows.num_rows() as u32).filter(is_own).collect();
    Ok(take_record_batch(rows, &own).map_err(DataFusionError::from)?)
}
