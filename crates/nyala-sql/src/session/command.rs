//! Statements that concern the session alone: settings and transactions.

use super::Session;
use super::changes::{listed_columns, undone_columns};
use super::prepared::Prepared;
use super::set_config::{SetConfig, settings_of};
use crate::command_tag::CommandTag;
use crate::error::{SqlError, SqlResult, SqlState};
use crate::identifier::{folded, quoted};
use crate::rows::Rows;
use crate::session::Outcome;
use crate::settings::{READ_ONLY, Settings};
use crate::statement::Statement;
use crate::transaction::{ChangedSettings, Transaction};
use crate::undo::Undo;
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use datafusion::sql::sqlparser::ast;
use nyala_db::users::Privilege;
use std::sync::Arc;

/// What a statement does with the session.
enum Command {
    /// Gives a setting a value; `None`: the one that it had at first. `is_local`: until the transaction ends.
    Set {
        name: String,
        value: Option<String>,
        is_local: bool,
    },
    /// Gives all settings the values that they had at first.
    ResetAll,
    /// Shows a setting.
    Show(String),
    /// Shows all settings.
    ShowAll,
    /// Gives settings values, and shows these.
    SetAndShow(Vec<SetConfig>),
    Begin {
        is_read_only: Option<bool>,
        /// How it is written: clients are told the same words.
        words: &'static str,
    },
    SetTransaction {
        is_read_only: Option<bool>,
    },
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// Forgets a prepared statement; `None`: all of them.
    Deallocate(Option<String>),
    /// Forgets everything that the session has set.
    DiscardAll,
    /// Drops its temporary relations.
    DiscardTemporary,
    /// Forgets the numbers of sequences that it was given.
    DiscardSequences,
    ShowChanges,
    Undo(Undo),
    /// Keeps tables from being dropped while they are read, which a transaction's snapshot does.
    LockToRead(Vec<ast::ObjectName>),
}

impl Session {
    pub(super) fn prepare_command(&mut self, statement: Statement) -> SqlResult<Prepared> {
        let columns = match Command::of(&statement.ast)? {
            Command::Show(name) => Some(one_text(self.settings.get(&name)?.0)),
            Command::ShowAll => Some(texts(&["name", "setting"])),
            Command::SetAndShow(all) => Some(texts(&vec!["set_config"; all.len()])),
            Command::ShowChanges => Some(listed_columns()),
            Command::Undo(_) => Some(undone_columns()),
            _ => None,
        };
        Ok(Prepared::of_session(statement, columns))
    }

    pub(super) async fn execute_command(&mut self, statement: &Statement) -> SqlResult<Outcome> {
        let done = match Command::of(&statement.ast)? {
            Command::Set { name, value, is_local } => {
                self.set_value(&name, value.as_deref(), is_local)?;
                if value.is_some() { "SET" } else { "RESET" }
            }
            Command::ResetAll => {
                self.change_settings(false, |settings| {
                    settings.reset();
                    Ok(())
                })?;
                "RESET"
            }
            Command::Show(name) => {
                let (name, value) = self.settings.get(&name)?;
                return Ok(Outcome::Rows(Rows::ready(text_rows(&[name], &[vec![value]])?).shown_by("SHOW")));
            }
            Command::ShowAll => {
                let (names, values): (Vec<_>, Vec<_>) = self.settings.all().unzip();
                let rows = text_rows(&["name", "setting"], &[names, values])?;
                return Ok(Outcome::Rows(Rows::ready(rows).shown_by("SHOW")));
            }
            Command::SetAndShow(all) => {
                let values = all
                    .iter()
                    .map(|own| Ok(vec![self.set_value(&own.name, Some(&own.value), own.is_local)?]));
                let values = values.collect::<SqlResult<Vec<_>>>()?;
                return Ok(Outcome::Rows(Rows::ready(text_rows(&vec!["set_config"; all.len()], &values)?)));
            }
            Command::Begin { is_read_only, words } => {
                match &mut self.transaction {
                    // What a series has changed before belongs to the transaction.
                    Some(transaction) => {
                        is_read_only.map_or(Ok(()), |own| transaction.set_read_only(own))?;
                        transaction.is_of_series = false;
                    }
                    None => {
                        let is_read_only = is_read_only.unwrap_or(self.settings.is_read_only());
                        self.transaction = Some(self.new_transaction(is_read_only));
                    }
                }
                words
            }
            Command::SetTransaction { is_read_only } => {
                if let (Some(transaction), Some(is_read_only)) = (&mut self.transaction, is_read_only) {
                    transaction.set_read_only(is_read_only)?;
                }
                "SET"
            }
            Command::Commit => match self.transaction.is_none() || self.finish_transaction().await? {
                true => "COMMIT",
                false => "ROLLBACK",
            },
            Command::Rollback => {
                self.take_back();
                "ROLLBACK"
            }
            Command::Savepoint(name) => {
                let number = self.savepoints + 1;
                self.own_transaction("SAVEPOINT")?.save(&name, number).await?;
                self.savepoints = number;
                "SAVEPOINT"
            }
            Command::Release(name) => {
                let depth = self.own_transaction("RELEASE SAVEPOINT")?.release(&name).await?;
                self.keep_cursors(depth);
                "RELEASE"
            }
            Command::RollbackTo(name) => {
                let transaction = self.own_transaction("ROLLBACK TO SAVEPOINT")?;
                let defined = transaction.relations.clone();
                let (depth, settings) = transaction.roll_back_to(&name).await?;
                let has_defined = !Arc::ptr_eq(&defined, &transaction.relations);
                let reached = transaction.last_savepoint();
                if let Some(settings) = settings {
                    (self.settings, self.state) = (settings, None);
                }
                self.close_cursors_beyond(depth);
                self.reached_savepoint = self.reached_savepoint.into_iter().chain(reached).min();
                if has_defined {
                    self.note_definitions();
                }
                "ROLLBACK"
            }
            Command::LockToRead(names) => {
                self.own_transaction("LOCK TABLE")?;
                for name in &names {
                    let place = self.place(name)?;
                    if !self.may(Privilege::Read, &place.database) {
                        let message = format!("permission denied for table {}", place.name);
                        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
                    }
                    place.target(&self.server.catalog, self.relations())?;
                }
                "LOCK TABLE"
            }
            Command::ShowChanges => return self.list_changes().await,
            Command::Undo(undo) => return Box::pin(self.undo(statement, undo)).await,
            Command::Deallocate(Some(name)) => {
                self.statement(&name)?;
                self.forget_statement(&name);
                "DEALLOCATE"
            }
            Command::Deallocate(None) => {
                self.kept.statements().clear();
                "DEALLOCATE ALL"
            }
            Command::DiscardAll => {
                if self.transaction.is_some() {
                    let words = "DISCARD ALL cannot run inside a transaction block";
                    return Err(SqlError::new(SqlState::ACTIVE_TRANSACTION, words));
                }
                self.settings.reset();
                self.state = None;
                self.kept.cursors().clear();
                self.kept.statements().clear();
                self.waits.unlock_all();
                self.given_numbers.forget();
                self.discard_temporary();
                "DISCARD ALL"
            }
            Command::DiscardTemporary => {
                self.discard_temporary();
                "DISCARD TEMP"
            }
            Command::DiscardSequences => {
                self.given_numbers.forget();
                "DISCARD SEQUENCES"
            }
        };
        Ok(Outcome::Done(CommandTag::of(done)))
    }

    /// Gives a setting a value, or the one that it had at first, and returns it. `is_local`: until the transaction ends.
    fn set_value(&mut self, name: &str, value: Option<&str>, is_local: bool) -> SqlResult<String> {
        let set = |settings: &mut Settings| settings.set(name, value).map(drop);
        if is_local && self.transaction.is_none() {
            // It ends at once.
            let mut settings = self.settings.clone();
            set(&mut settings)?;
            return Ok(settings.get(name)?.1.to_owned());
        }
        self.change_settings(is_local, set)?;
        Ok(self.settings.get(name)?.1.to_owned())
    }

    /// Changes settings, in a transaction until it is rolled back, or until it ends.
    fn change_settings(
        &mut self,
        is_local: bool,
        change: impl Fn(&mut Settings) -> SqlResult<()>,
    ) -> SqlResult<()> {
        let before = self.settings.clone();
        change(&mut self.settings)?;
        self.state = None;
        if let Some(transaction) = &mut self.transaction {
            transaction.save_settings(&before);
            let changed = transaction
                .settings
                .get_or_insert_with(|| Box::new(ChangedSettings { kept: before.clone(), before }));
            if !is_local {
                change(&mut changed.kept)?;
            }
        }
        Ok(())
    }

    /// Commits the transaction unless a statement of it has failed, or takes it back, and ends what holds as long as it does:
    /// settings and cursors. Returns whether it was committed.
    pub(super) async fn finish_transaction(&mut self) -> SqlResult<bool> {
        if self.transaction.as_ref().is_none_or(|transaction| transaction.has_failed) {
            self.take_back();
            return Ok(false);
        }
        let Some(mut transaction) = self.end_transaction() else { return Ok(false) };
        let settings = transaction.settings.take();
        let committed = self.commit(transaction).await;
        self.end_settings(settings, committed.is_ok());
        self.end_cursors(committed.is_ok());
        committed.map(|()| true)
    }

    /// Takes the transaction back, if there is one.
    pub(super) fn take_back(&mut self) {
        if let Some(mut transaction) = self.end_transaction() {
            let settings = transaction.settings.take();
            drop(transaction);
            self.end_settings(settings, false);
            self.end_cursors(false);
        }
    }

    /// Gives settings the values that they have behind a transaction.
    fn end_settings(&mut self, changed: Option<Box<ChangedSettings>>, is_committed: bool) {
        if let Some(changed) = changed {
            let ChangedSettings { before, kept } = *changed;
            self.settings = if is_committed { kept } else { before };
            self.state = None;
        }
    }

    /// The transaction, which ends now: what it has defined is not seen any more unless it is committed.
    pub(super) fn end_transaction(&mut self) -> Option<Transaction> {
        let ended = self.transaction.take()?;
        if !Arc::ptr_eq(&ended.relations, &self.temporary.relations) {
            self.note_definitions();
        }
        Some(ended)
    }

    /// The transaction that a statement is about.
    pub(super) fn own_transaction(&mut self, statement: &str) -> SqlResult<&mut Transaction> {
        let own = self.transaction.as_mut().filter(|transaction| !transaction.is_of_series);
        own.ok_or_else(|| {
            let words = format!("{statement} can only be used in transaction blocks");
            SqlError::new(SqlState::NO_TRANSACTION, words)
        })
    }
}

impl Command {
    fn of(statement: &ast::Statement) -> SqlResult<Self> {
        if let Some(all) = settings_of(statement) {
            return Ok(Self::SetAndShow(all));
        }
        if let Some(undo) = Undo::of(statement) {
            return Ok(Self::Undo(undo));
        }
        Ok(match statement {
            ast::Statement::Set(set) => Self::of_set(set)?,
            ast::Statement::Reset(reset) => match &reset.reset {
                ast::Reset::ALL => Self::ResetAll,
                ast::Reset::ConfigurationParameter(name) => {
                    Self::Set { name: name.to_string(), value: None, is_local: false }
                }
            },
            ast::Statement::ShowVariable { variable } => {
                let words: Vec<String> = variable.iter().map(|word| word.value.to_lowercase()).collect();
                match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                    ["all"] => Self::ShowAll,
                    ["changes"] => Self::ShowChanges,
                    ["time", "zone"] => Self::Show("TimeZone".to_owned()),
                    ["transaction", "isolation", "level"] => Self::Show("transaction_isolation".to_owned()),
                    _ => Self::Show(words.join(".")),
                }
            }
            ast::Statement::StartTransaction { modes, begin, .. } => {
                check_modes(modes)?;
                let words = if *begin { "BEGIN" } else { "START TRANSACTION" };
                Self::Begin { is_read_only: is_read_only(modes), words }
            }
            ast::Statement::Commit { chain: false, .. } => Self::Commit,
            ast::Statement::Rollback { chain: false, savepoint: None } => Self::Rollback,
            ast::Statement::Rollback { chain: false, savepoint: Some(name) } => {
                Self::RollbackTo(folded(name))
            }
            ast::Statement::Savepoint { name } => Self::Savepoint(folded(name)),
            ast::Statement::ReleaseSavepoint { name } => Self::Release(folded(name)),
            ast::Statement::Deallocate { name, .. } => match name.value.eq_ignore_ascii_case("all") {
                true if name.quote_style.is_none() => Self::Deallocate(None),
                _ => Self::Deallocate(Some(folded(name))),
            },
            ast::Statement::Discard { object_type: ast::DiscardObject::ALL } => Self::DiscardAll,
            ast::Statement::Discard { object_type: ast::DiscardObject::TEMP } => Self::DiscardTemporary,
            ast::Statement::Discard { object_type: ast::DiscardObject::SEQUENCES } => Self::DiscardSequences,
            ast::Statement::Lock(lock) => match lock.lock_mode {
                Some(ast::LockTableMode::AccessShare) => {
                    Self::LockToRead(lock.tables.iter().map(|own| own.name.clone()).collect())
                }
                _ => {
                    return Err(SqlError::unsupported("LOCK TABLE in another mode than ACCESS SHARE")
                        .with_hint(
                            "Transactions lock nothing: the first to commit wins. There are advisory locks.",
                        ));
                }
            },
            other => return Err(SqlError::unsupported(first_words(other))),
        })
    }

    fn of_set(set: &ast::Set) -> SqlResult<Self> {
        match set {
            ast::Set::SingleAssignment { scope, variable, values, .. } => {
                // Names of schemas are shown as they are written in SQL.
                let is_path = variable.to_string().eq_ignore_ascii_case("search_path");
                let shown = |value: &ast::Expr| match value {
                    ast::Expr::Identifier(word) if is_path && word.quote_style.is_some() => {
                        Ok(quoted(&word.value))
                    }
                    other => value_of(other),
                };
                let values: Vec<String> = values.iter().map(shown).collect::<SqlResult<_>>()?;
                let is_default = matches!(&values[..], [one] if one.eq_ignore_ascii_case("default"));
                let value = (!is_default).then(|| values.join(", "));
                Ok(Self::Set { name: variable.to_string(), value, is_local: is_local(scope.as_ref()) })
            }
            ast::Set::SetTimeZone { local, value } => {
                let value = value_of(value)?;
                let is_default = ["default", "local"].iter().any(|word| value.eq_ignore_ascii_case(word));
                let value = (!is_default).then_some(value);
                Ok(Self::Set { name: "TimeZone".to_owned(), value, is_local: *local })
            }
            ast::Set::SetNames { charset_name, .. } => {
                let value = Some(charset_name.value.clone());
                Ok(Self::Set { name: "client_encoding".to_owned(), value, is_local: false })
            }
            ast::Set::SetTransaction { snapshot: Some(_), .. } => {
                Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT"))
            }
            ast::Set::SetTransaction { modes, snapshot: None, session } => {
                check_modes(modes)?;
                match is_read_only(modes) {
                    Some(is_read_only) if *session => {
                        let value = Some(if is_read_only { "on" } else { "off" }.to_owned());
                        Ok(Self::Set { name: READ_ONLY.to_owned(), value, is_local: false })
                    }
                    is_read_only => Ok(Self::SetTransaction { is_read_only }),
                }
            }
            other => Err(SqlError::unsupported(format!("SET in the form \"{other}\""))),
        }
    }
}

/// Whether a statement changes settings of the session, or how its transaction is.
pub(super) fn sets(statement: &ast::Statement) -> bool {
    matches!(statement, ast::Statement::Set(_) | ast::Statement::Reset(_)) || settings_of(statement).is_some()
}

/// Whether a statement takes changes back.
pub(super) fn is_undo(statement: &ast::Statement) -> bool {
    Undo::of(statement).is_some()
}

/// Whether the modes of a transaction say that it only reads.
fn is_read_only(modes: &[ast::TransactionMode]) -> Option<bool> {
    modes.iter().rev().find_map(|mode| match mode {
        ast::TransactionMode::AccessMode(mode) => Some(*mode == ast::TransactionAccessMode::ReadOnly),
        ast::TransactionMode::IsolationLevel(_) => None,
    })
}

/// Whether a setting is changed until the end of the transaction only.
fn is_local(scope: Option<&ast::ContextModifier>) -> bool {
    matches!(scope, Some(ast::ContextModifier::Local))
}

/// Accepts the modes of transactions that there are: every transaction reads one snapshot, as PostgreSQL's REPEATABLE READ
/// does, which also fulfils what READ COMMITTED promises.
fn check_modes(modes: &[ast::TransactionMode]) -> SqlResult<()> {
    let is_serializable = |mode: &&ast::TransactionMode| {
        matches!(mode, ast::TransactionMode::IsolationLevel(ast::TransactionIsolationLevel::Serializable))
    };
    match modes.iter().find(is_serializable) {
        Some(mode) => Err(SqlError::unsupported(mode).with_hint(
            "Transactions are REPEATABLE READ: they read one snapshot, and the first to commit wins.",
        )),
        None => Ok(()),
    }
}

/// A value of SET: a text, a number or a word.
fn value_of(expression: &ast::Expr) -> SqlResult<String> {
    Ok(match expression {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::SingleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        ast::Expr::Identifier(word) => word.value.clone(),
        ast::Expr::UnaryOp { .. } => expression.to_string(),
        other => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{other} is no value of a setting")));
        }
    })
}

/// What kind of statement it is, for an error.
fn first_words(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    let is_keyword = |word: &&str| word.chars().all(|letter| letter.is_ascii_uppercase());
    let words: Vec<&str> = text.split_whitespace().take_while(is_keyword).take(3).collect();
    if words.is_empty() { "this statement".to_owned() } else { words.join(" ") }
}

fn texts(names: &[&str]) -> SchemaRef {
    let columns: Vec<Field> = names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect();
    Arc::new(Schema::new(columns))
}

fn one_text(name: &str) -> SchemaRef {
    texts(&[name])
}

fn text_rows(names: &[&str], columns: &[Vec<impl AsRef<str>>]) -> SqlResult<RecordBatch> {
    let arrays = columns.iter().map(|column| Arc::new(StringArray::from_iter_values(column)) as ArrayRef);
    let batch = RecordBatch::try_new(texts(names), arrays.collect());
    batch.map_err(|error| SqlError::new(SqlState::INTERNAL, error.to_string()))
}
