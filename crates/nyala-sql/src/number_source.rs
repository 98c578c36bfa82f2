//! Numbers of sequences, for the statements of a session: what `nextval` and `setval` do, and what columns get that number
//! their rows.

use crate::error::{SqlError, SqlResult, SqlState};
use crate::expression::parsed;
use crate::identifier::{PUBLIC, parts_of, quoted, quoted_text};
use crate::waits::{SequenceCall, Waits, apart};
use crate::walk::each_expression_mut;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value, VisitMut,
};
use futures::executor::block_on;
use nyala_db::catalog::Catalog;
use nyala_db::relations::{
    ColumnDefinition, Exhausted, Relation, SequenceDefinition, SequenceState, UncommittedRelations,
};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// What a reservation of numbers gives.
type Reserved = Result<(), Exhausted>;

/// What a session was given.
#[derive(Debug, Default)]
pub(crate) struct GivenNumbers(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    /// The sequence that was asked last.
    last: Option<u64>,
    /// The last number of each sequence.
    numbers: HashMap<u64, i64>,
}

impl GivenNumbers {
    /// The session was given none.
    pub(crate) fn forget(&self) {
        *self.lock() = Given::default();
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a session takes numbers from.
#[derive(Clone)]
pub(crate) struct NumberSource {
    pub(crate) catalog: Arc<Catalog>,
    /// The relations that only it sees.
    pub(crate) uncommitted: Arc<UncommittedRelations>,
    pub(crate) given: Arc<GivenNumbers>,
    pub(crate) waits: Arc<Waits>,
}

impl NumberSource {
    /// A relation by its name in a database.
    pub(crate) fn relation(&self, database: &str, name: &str) -> Option<Arc<Relation>> {
        self.uncommitted.above(self.catalog.relations()).find(database, name)
    }

    /// A sequence by its name in a database.
    pub(crate) fn find(&self, database: &str, name: &str) -> SqlResult<Arc<Relation>> {
        let relation = self.relation(database, name).ok_or_else(|| {
            SqlError::new(SqlState::UNKNOWN_TABLE, format!("relation \"{name}\" does not exist"))
        })?;
        sequence_of(&relation)?;
        Ok(relation)
    }

    /// A sequence whose counter may move. One that the transaction has altered shares it with the committed one: numbers that it
    /// gave by other rules would be given again after a ROLLBACK.
    fn counted<'a>(&self, relation: &'a Relation) -> SqlResult<&'a SequenceDefinition> {
        let sequence = sequence_of(relation)?;
        if self.uncommitted.is_empty() {
            return Ok(sequence);
        }
        let committed = self.catalog.relations().of(&relation.database);
        let mut committed = committed.iter().filter_map(|own| own.sequence());
        match committed.any(|own| own.id == sequence.id && own != sequence) {
            true => {
                let words =
                    format!("numbers of sequence \"{}\", which the transaction has altered", relation.name);
                Err(SqlError::unsupported(words).with_hint("Commit before numbers are taken."))
            }
            false => Ok(sequence),
        }
    }

    /// The next numbers of a sequence.
    pub(crate) async fn take(&self, relation: &Relation, count: usize) -> SqlResult<VecDeque<i64>> {
        let sequence = self.counted(relation)?;
        let sequences = self.catalog.relations().sequences();
        let mut numbers = VecDeque::with_capacity(count);
        while numbers.len() < count {
            match sequences.take_reserved(sequence) {
                Some(number) => numbers.push_back(number),
                None => {
                    self.reserved(relation).await?.map_err(|Exhausted| exhausted(&relation.name, sequence))?
                }
            }
        }
        if let Some(last) = numbers.back() {
            self.note(sequence, *last);
        }
        Ok(numbers)
    }

    /// The next number of a sequence, for an expression.
    ///
    /// # Errors
    /// That the statement must wait until numbers are reserved.
    pub(crate) fn next(&self, relation: &Relation) -> SqlResult<i64> {
        let sequence = self.counted(relation)?;
        let call = SequenceCall::Next(sequence.id);
        let number = match self.waits.sequence_again(&call).flatten() {
            Some(number) => number,
            None => {
                let number = self.next_reserved(relation, sequence)?;
                self.waits.keep_of_sequence(call, number);
                number
            }
        };
        self.note(sequence, number);
        Ok(number)
    }

    fn next_reserved(&self, relation: &Relation, sequence: &SequenceDefinition) -> SqlResult<i64> {
        let sequences = self.catalog.relations().sequences();
        loop {
            if let Some(number) = sequences.take_reserved(sequence) {
                return Ok(number);
            }
            let (catalog, sequence, name) = (self.catalog.clone(), sequence.clone(), relation.name.clone());
            self.waits.prepare_sequence(move || {
                let reserved = block_on(catalog.relations().sequences().reserve(&sequence))?;
                reserved.map_err(|Exhausted| exhausted(&name, &sequence))
            })?;
        }
    }

    fn note(&self, sequence: &SequenceDefinition, number: i64) {
        let mut given = self.given.lock();
        given.last = Some(sequence.id);
        given.numbers.insert(sequence.id, number);
    }

    /// Reserves numbers, in a thread of its own: an expression that cannot wait blocks the thread of its connection, and others
    /// of that thread must not be in the middle of a reservation then.
    async fn reserved(&self, relation: &Relation) -> SqlResult<Reserved> {
        let (sender, reserved) = oneshot::channel();
        let (catalog, sequence) = (self.catalog.clone(), sequence_of(relation)?.clone());
        apart(move || drop(sender.send(block_on(catalog.relations().sequences().reserve(&sequence)))))?;
        let lost = |_| SqlError::new(SqlState::INTERNAL, "the reservation of numbers broke off");
        Ok(reserved.await.map_err(lost)??)
    }

    /// The number that the session was given last by a sequence.
    pub(crate) fn current(&self, relation: &Relation) -> SqlResult<i64> {
        let id = sequence_of(relation)?.id;
        self.given.lock().numbers.get(&id).copied().ok_or_else(|| {
            let name = &relation.name;
            let words = format!("currval of sequence \"{name}\" is not yet defined in this session");
            SqlError::new(SqlState::WRONG_STATE, words)
        })
    }

    /// The number that the session was given last.
    pub(crate) fn last(&self) -> SqlResult<i64> {
        let given = self.given.lock();
        let number = given.last.and_then(|id| given.numbers.get(&id).copied());
        number
            .ok_or_else(|| SqlError::new(SqlState::WRONG_STATE, "lastval is not yet defined in this session"))
    }

    /// Where a sequence is: its last number, if it has given one.
    pub(crate) fn state(&self, relation: &Relation) -> SqlResult<Option<i64>> {
        let sequence = sequence_of(relation)?;
        let shown = |state: SequenceState| state.is_called.then_some(state.last);
        if let Some(state) = self.catalog.relations().sequences().known_state(sequence) {
            return Ok(shown(state));
        }
        let (catalog, sequence) = (self.catalog.clone(), sequence.clone());
        self.waits.sequence_call(SequenceCall::State(sequence.id), move || {
            Ok(shown(block_on(catalog.relations().sequences().state(&sequence))?))
        })
    }

    /// Sets where a sequence is.
    ///
    /// # Errors
    /// That the statement must wait until it is done.
    pub(crate) fn set(&self, relation: &Relation, state: SequenceState) -> SqlResult<()> {
        let sequence = self.counted(relation)?;
        if !(sequence.minimum..=sequence.maximum).contains(&state.last) {
            let (number, name) = (state.last, &relation.name);
            let bounds = format!("{}..{}", sequence.minimum, sequence.maximum);
            let words = format!("setval: value {number} is out of bounds for sequence \"{name}\" ({bounds})");
            return Err(SqlError::new(SqlState::OUT_OF_RANGE, words));
        }
        let (catalog, own) = (self.catalog.clone(), sequence.clone());
        self.waits.sequence_call(SequenceCall::Set(own.id, state.last, state.is_called), move || {
            block_on(catalog.relations().sequences().set(&own, state))?;
            Ok(None)
        })?;
        let mut given = self.given.lock();
        if state.is_called {
            given.numbers.insert(sequence.id, state.last);
        }
        Ok(())
    }
}

/// A relation as a sequence, or the error that it is none.
pub(crate) fn sequence_of(relation: &Relation) -> SqlResult<&SequenceDefinition> {
    relation.sequence().ok_or_else(|| no_sequence(&relation.name))
}

/// The error that something is no sequence.
pub(crate) fn no_sequence(name: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT, format!("\"{name}\" is not a sequence"))
}

fn exhausted(name: &str, sequence: &SequenceDefinition) -> SqlError {
    let (which, bound) = match sequence.increment > 0 {
        true => ("maximum", sequence.maximum),
        false => ("minimum", sequence.minimum),
    };
    let message = format!("nextval: reached {which} value of sequence \"{name}\" ({bound})");
    SqlError::new(SqlState::SEQUENCE_EXHAUSTED, message)
}

/// The sequence whose next number a new row gets in a column, if it gets that and nothing else.
pub(crate) fn sequence_of_column(column: &ColumnDefinition) -> Option<String> {
    match &column.sequence {
        Some(own) if own.identity.is_some() => Some(own.name.clone()),
        // That of a `serial` need not be parsed, each time rows are inserted.
        Some(own) if column.default.as_ref() == Some(&default_of(&own.name)) => Some(own.name.clone()),
        _ => sequence_of_default(column.default.as_deref()?),
    }
}

/// The sequence whose next number a default is, if it is nothing else.
pub(crate) fn sequence_of_default(default: &str) -> Option<String> {
    // Most defaults are something else, and need not be parsed.
    if !default.to_ascii_lowercase().contains("nextval") {
        return None;
    }
    let Expr::Function(call) = parsed(default).ok()? else { return None };
    let function = call.name.0.last()?.as_ident()?;
    if !function.value.eq_ignore_ascii_case("nextval") {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = &list.args[..] else { return None };
    let literal = match argument {
        Expr::Cast { expr, data_type: DataType::Regclass, .. } => expr,
        other => other,
    };
    let Expr::Value(value) = literal else { return None };
    let Value::SingleQuotedString(name) = &value.value else { return None };
    match &parts_of(name)?[..] {
        [name] => Some(name.clone()),
        [schema, name] if schema == PUBLIC => Some(name.clone()),
        _ => None,
    }
}

/// Names whole the sequences of an expression that was written where temporary ones are not known: a temporary one of the same name
/// is another.
pub(crate) fn name_permanent(tree: &mut impl VisitMut) {
    each_expression_mut(tree, &mut |expression| {
        let Expr::Function(call) = expression else { return };
        let function = call.name.0.last().and_then(|name| name.as_ident());
        let is_of_sequence = function.is_some_and(|name| {
            ["nextval", "currval", "setval"].iter().any(|own| name.value.eq_ignore_ascii_case(own))
        });
        let FunctionArguments::List(list) = &mut call.args else { return };
        let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) = list.args.first_mut() else {
            return;
        };
        let literal = match argument {
            Expr::Cast { expr, data_type: DataType::Regclass, .. } => &mut **expr,
            other => other,
        };
        let Expr::Value(value) = literal else { return };
        if let Value::SingleQuotedString(name) = &mut value.value
            && is_of_sequence
            && let Some([own]) = parts_of(name).as_deref()
        {
            *name = format!("{PUBLIC}.{}", quoted(own));
        }
    });
}

/// The default of a column that gets numbers of a sequence.
pub(crate) fn default_of(sequence: &str) -> String {
    next_of(&quoted(sequence))
}

/// The same, where a name needs its schema and its database.
pub(crate) fn default_in_database(database: &str, sequence: &str) -> String {
    next_of(&format!("{}.{PUBLIC}.{}", quoted(database), quoted(sequence)))
}

/// The same, where a name needs its schema.
pub(crate) fn qualified_default_of(sequence: &str) -> String {
    next_of(&format!("{PUBLIC}.{}", quoted(sequence)))
}

fn next_of(name: &str) -> String {
    format!("nextval({}::regclass)", quoted_text(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_name_their_sequences() {
        let of = |text: &str| sequence_of_default(text).unwrap_or_default();
        assert_eq!(of("nextval('public.t_id_seq'::regclass)"), "t_id_seq");
        assert_eq!(of("pg_catalog.nextval('\"My Seq\"')"), "My Seq");
        assert_eq!(of(&default_of("My'Seq")), "My'Seq");
        let mut expression = parsed("'k' || nextval('Ks') || currval('a.b') || lower('ks')").unwrap();
        name_permanent(&mut expression);
        assert_eq!(expression.to_string(), "'k' || nextval('public.ks') || currval('a.b') || lower('ks')");
        for other in ["nextval('a.b.c')", "nextval('s') + 1", "nextval(s)", "'nextval'", "1"] {
            assert_eq!(of(other), "", "{other}");
        }
    }
}
