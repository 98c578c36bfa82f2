//! The extended protocol: statements are prepared, bound to values as portals, and executed, in several messages.
//!
//! A portal can be executed in parts. It lives until its transaction ends, or goes back to a savepoint before it; outside of one,
//! that is the next Sync.

use super::fetch::{Fetch, Sent};
use super::stored::{Stored, columns_of, declared, known_to_planner};
use super::{Connection, Stop, before_long_text, unless_closed};
use crate::copy::{read_file, write_files};
use crate::error::Failure;
use crate::message::backend::Severity;
use crate::message::{Bind, Target, backend};
use crate::value::types::ColumnType;
use crate::value::{Format, parameter};
use bytes::Bytes;
use nyala_core::memory::Component;
use nyala_sql::{CommandTag, Forgotten, Outcome, Prepared, ScalarValue, Statement, TransactionStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most portals of a connection.
const PORTALS_MAX: usize = 256;
/// What an element of an array takes at most while the array is read, beside its bytes: it is split off, read, and made a value of
/// the list's type.
const ELEMENT_BYTES: usize = 2 * size_of::<ScalarValue>() + 4 * size_of::<String>();

/// A statement with values.
pub(super) struct Portal {
    statement: Arc<Stored>,
    /// The formats of its columns.
    formats: Vec<Format>,
    state: State,
    /// The memory that it is charged with.
    bytes: u64,
    /// How many savepoints the session had made before it.
    savepoints: u64,
}

enum State {
    /// It was not executed yet.
    Bound(Vec<ScalarValue>),
    /// Some of its rows were sent.
    Suspended(Box<Fetch>),
    /// All of its rows were sent.
    Ended,
    /// It gives no rows, and was executed.
    Done,
}

impl Connection {
    /// Prepares a statement.
    pub(super) async fn parse(&mut self, name: String, text: &str, types: &[u32]) -> Result<(), Stop> {
        match &*name {
            "" => self.forget_statement(""),
            _ => self.session.check_name_is_free(&name)?,
        }
        before_long_text(text).await;
        let mut statements = Statement::parse(text)?.into_iter();
        let statement = statements.next();
        if statements.next().is_some() {
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Failure::new("42601", message).into());
        }
        let declared = declared(types)?;
        // Its name and its types are kept as long as it is.
        let kept_bytes = name.len() + text.len() + size_of_val(types);
        let charge = self.session.charge_for_statement(kept_bytes)?;
        let prepared = match statement {
            Some(statement) => Some(self.prepare(statement, &declared).await?),
            None => None,
        };
        let stored = Stored::of(self.session.named(prepared, charge), &declared)?;
        if !name.is_empty() {
            self.session.keep_statement(name.clone(), stored.of.clone());
        }
        self.statements.insert(name, Arc::new(stored));
        backend::parse_complete(&mut self.wire.output);
        Ok(())
    }

    async fn prepare(
        &mut self,
        statement: Statement,
        declared: &[Option<ColumnType>],
    ) -> Result<Prepared, Stop> {
        let types: Vec<_> = declared.iter().map(known_to_planner).collect();
        let preparing = self.session.prepare(statement, &types);
        Ok(unless_closed(&mut self.wire, preparing).await??)
    }

    /// Makes a portal.
    pub(super) fn bind(&mut self, bind: Bind) -> Result<(), Stop> {
        let statement = self.statement(&bind.statement)?;
        if bind.portal.is_empty() {
            self.forget_portal("");
        } else if self.portals.contains_key(&bind.portal) {
            return Err(Failure::new("42P03", format!("portal \"{}\" already exists", bind.portal)).into());
        }
        if self.portals.len() >= PORTALS_MAX {
            return Err(Failure::new("54000", format!("a connection may have {PORTALS_MAX} portals")).into());
        }
        let (given, wanted) = (bind.parameters.len(), statement.parameters.len());
        if given != wanted {
            let name = &bind.statement;
            return Err(Failure::protocol(format!(
                "bind message supplies {given} parameters, but prepared statement \"{name}\" requires {wanted}"
            ))
            .into());
        }
        let formats = formats_of(&bind.parameter_formats, wanted).ok_or_else(|| {
            let formats = bind.parameter_formats.len();
            Failure::protocol(format!("bind message has {formats} parameter formats but {wanted} parameters"))
        })?;
        let columns = statement.columns.as_ref().map_or(0, Vec::len);
        let column_formats = formats_of(&bind.column_formats, columns).ok_or_else(|| {
            let formats = bind.column_formats.len();
            Failure::protocol(format!(
                "bind message has {formats} result formats but query has {columns} columns"
            ))
        })?;
        // A transaction that has failed can only be ended, and reads no values.
        match statement.prepared().filter(|_| wanted == 0) {
            Some(prepared) => self.session.check_not_failed(&prepared.statement)?,
            None => self.session.check_transaction()?,
        }
        let reading_bytes = reading_bytes(&bind.parameters, &formats, &statement.parameters);
        let memory = &self.server.surroundings.memory;
        let _reading = memory.try_charge(Component::Query, reading_bytes).map_err(Failure::from)?;
        let zone = self.session.zone();
        let types = statement.prepared().map(|prepared| &*prepared.parameters).unwrap_or_default();
        let values = bind.parameters.iter().zip(formats).zip(statement.parameters.iter().zip(types));
        let values = values.enumerate().map(|(place, ((value, format), (sent_as, wanted)))| {
            parameter::read(value.as_deref(), format, *sent_as, wanted, zone).map_err(|mut failure| {
                failure.detail = Some(format!("It is the value of the parameter ${}.", place + 1).into());
                failure
            })
        });
        let values = values.collect::<Result<Vec<_>, Failure>>()?;
        let bytes = (ScalarValue::size_of_vec(&values) + bind.portal.len()) as u64;
        self.charge.try_grow(bytes).map_err(Failure::from)?;
        let (state, savepoints) = (State::Bound(values), self.session.savepoints());
        let portal = Portal { statement, formats: column_formats, state, bytes, savepoints };
        self.portals.insert(bind.portal, portal);
        backend::bind_complete(&mut self.wire.output);
        Ok(())
    }

    /// Says what a statement takes and gives, or what a portal gives.
    pub(super) fn describe(&mut self, target: &Target) -> Result<(), Stop> {
        let (statement, formats) = match target {
            Target::Statement(name) => {
                let statement = self.statement(name)?;
                self.check_describes(&statement)?;
                backend::parameter_description(&mut self.wire.output, &statement.parameters);
                (statement, None)
            }
            Target::Portal(name) => match self.portals.get(name) {
                Some(portal) => {
                    self.check_describes(&portal.statement)?;
                    (portal.statement.clone(), Some(portal.formats.clone()))
                }
                None => return self.describe_cursor(name),
            },
        };
        let Some(columns) = &statement.columns else {
            backend::no_data(&mut self.wire.output);
            return Ok(());
        };
        // Formats are not known before there is a portal.
        let formats = formats.unwrap_or_else(|| vec![Format::Text; columns.len()]);
        let described = statement.names().zip(columns).zip(formats);
        let described = described.map(|((name, column), format)| (name, *column, format));
        backend::row_description(&mut self.wire.output, described);
        Ok(())
    }

    /// Refuses to say what a statement gives that gives something, in a transaction that has failed. Clients that describe
    /// whatever they execute can end it.
    fn check_describes(&self, statement: &Stored) -> Result<(), Failure> {
        match statement.columns {
            Some(_) => self.session.check_transaction().map_err(Failure::from),
            None => Ok(()),
        }
    }

    /// Says what a cursor gives: clients take it for a portal, which it is in PostgreSQL.
    fn describe_cursor(&mut self, name: &str) -> Result<(), Stop> {
        let schema = self.session.cursor_columns(name).ok_or_else(|| no_portal(name))?;
        self.session.check_transaction()?;
        let columns = schema.fields().iter().zip(columns_of(&schema)?);
        let columns = columns.map(|(field, column)| (field.name().as_str(), column, Format::Text));
        let columns: Vec<_> = columns.collect();
        backend::row_description(&mut self.wire.output, columns.into_iter());
        Ok(())
    }

    /// Executes a portal, or goes on with it.
    pub(super) async fn execute(&mut self, name: &str, most: usize) -> Result<(), Stop> {
        if let Some(prepared) = self.portals.get(name).and_then(|portal| portal.statement.prepared()) {
            self.session.check_not_failed(&prepared.statement)?;
        }
        // While it is executed it is not in the list: if it fails, it is gone.
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        let was_begun = self.session.transaction() != TransactionStatus::Idle && !self.session.is_in_series();
        let executed = Box::pin(self.execute_portal(name, &mut portal, most)).await;
        let is_ended = was_begun && self.session.transaction() == TransactionStatus::Idle;
        match executed {
            Ok(()) if is_ended => {
                self.free(portal.bytes);
                self.forget_portals_of_ended_transaction();
            }
            Ok(()) => {
                self.portals.insert(name.to_owned(), portal);
                self.forget_portals_behind_savepoint();
            }
            Err(_) => self.free(portal.bytes),
        }
        executed
    }

    async fn execute_portal(&mut self, name: &str, portal: &mut Portal, most: usize) -> Result<(), Stop> {
        let Some(prepared) = portal.statement.prepared() else {
            backend::empty_query_response(&mut self.wire.output);
            return Ok(());
        };
        let mut fetch = match std::mem::replace(&mut portal.state, State::Ended) {
            State::Bound(values) => {
                self.server.counts.statements.fetch_add(1, Ordering::Relaxed);
                if prepared.begins_series() && !self.wire.is_sync_next().await {
                    self.session.begin_series();
                }
                let executing = self.session.execute(prepared, values);
                match unless_closed(&mut self.wire, executing).await?? {
                    Outcome::Done(tag) => {
                        self.done(&prepared.statement, &tag)?;
                        portal.state = State::Done;
                        return Ok(());
                    }
                    Outcome::CopyIn(copy) => {
                        let tag = Box::pin(self.copy_in(copy)).await?;
                        self.done(&prepared.statement, &tag)?;
                        portal.state = State::Done;
                        return Ok(());
                    }
                    Outcome::CopyOut(rows, form) => {
                        let tag = Box::pin(self.copy_out(rows, *form)).await?;
                        self.done(&prepared.statement, &tag)?;
                        portal.state = State::Done;
                        return Ok(());
                    }
                    Outcome::FileOut(out) => {
                        let writing = write_files(*out, self.session.zone());
                        let tag = unless_closed(&mut self.wire, Box::pin(writing)).await??;
                        self.done(&prepared.statement, &tag)?;
                        portal.state = State::Done;
                        return Ok(());
                    }
                    Outcome::FileIn(input) => {
                        let reading = read_file(*input, &mut self.session);
                        let tag = unless_closed(&mut self.wire, Box::pin(reading)).await??;
                        self.done(&prepared.statement, &tag)?;
                        portal.state = State::Done;
                        return Ok(());
                    }
                    Outcome::Rows(rows) => {
                        let columns = columns_of(&rows.schema())?;
                        if Some(&columns) != portal.statement.columns.as_ref() {
                            return Err(
                                Failure::unsupported("cached plan must not change result type").into()
                            );
                        }
                        let columns = columns.into_iter().zip(portal.formats.clone()).collect();
                        Box::new(Fetch::of(rows, columns, self.session.zone()))
                    }
                }
            }
            State::Suspended(fetch) => fetch,
            State::Ended => {
                backend::command_complete(&mut self.wire.output, "SELECT 0");
                return Ok(());
            }
            State::Done => {
                return Err(Failure::new("55000", format!("portal \"{name}\" cannot be run")).into());
            }
        };
        let sent = fetch.send(&mut self.wire, most).await?;
        match sent.is_end {
            true => self.returned(prepared, &fetch, &sent),
            false => {
                backend::portal_suspended(&mut self.wire.output);
                portal.state = State::Suspended(fetch);
            }
        }
        Ok(())
    }

    /// Forgets a statement or portal; that there is none is no error.
    pub(super) fn close(&mut self, target: &Target) {
        match target {
            Target::Statement(name) => self.forget_statement(name),
            Target::Portal(name) => {
                self.forget_portal(name);
                self.session.close_cursor(name);
            }
        }
        backend::close_complete(&mut self.wire.output);
    }

    /// Ends a series of messages.
    pub(super) async fn sync(&mut self) {
        self.is_skipping = false;
        self.end_series().await;
        self.forget_portals_of_ended_transaction();
        self.ready();
    }

    /// The statement of a name; it may have been made by PREPARE.
    fn statement(&mut self, name: &str) -> Result<Arc<Stored>, Failure> {
        let known = self.statements.get(name);
        if name.is_empty() {
            let missing = || Failure::new("26000", "unnamed prepared statement does not exist");
            return known.cloned().ok_or_else(missing);
        }
        let named = self.session.statement(name)?;
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.of, &named)) {
            return Ok(known.clone());
        }
        let stored = Arc::new(Stored::of(named, &[])?);
        self.statements.insert(name.to_owned(), stored.clone());
        Ok(stored)
    }

    /// Ends a statement that gives no rows.
    pub(super) fn done(&mut self, statement: &Statement, tag: &CommandTag) -> Result<(), Failure> {
        match statement.forgotten() {
            None => {}
            Some(Forgotten::One(name)) => drop(self.statements.remove(&name)),
            Some(Forgotten::All) => self.statements.clear(),
        }
        self.report_settings();
        self.note_change(Some(tag));
        backend::command_complete(&mut self.wire.output, &tag.to_string());
        Ok(())
    }

    /// Ends a statement whose rows were sent.
    pub(super) fn returned(&mut self, prepared: &Prepared, fetch: &Fetch, sent: &Sent) {
        if prepared.changes_settings() {
            self.report_settings();
        }
        self.note_change(fetch.tag());
        backend::command_complete(&mut self.wire.output, &fetch.completed(sent));
    }

    /// Says how a change can be undone.
    fn note_change(&mut self, tag: Option<&CommandTag>) {
        if let Some(change) = tag.and_then(|tag| tag.change).filter(|_| self.wants_notices()) {
            let mut notice = Failure::new("00000", format!("change {change}"));
            notice.hint = Some(format!("UNDO {change} takes it back.").into());
            backend::failure(&mut self.wire.output, Severity::Notice, &notice);
        }
    }

    /// Whether notices are of a level that the client wants.
    fn wants_notices(&self) -> bool {
        let level = self.session.setting("client_min_messages").unwrap_or_default();
        !["warning", "error"].iter().any(|higher| level.eq_ignore_ascii_case(higher))
    }

    pub(super) fn forget_statement(&mut self, name: &str) {
        self.statements.remove(name);
        self.session.forget_statement(name);
    }

    pub(super) fn forget_portal(&mut self, name: &str) {
        if let Some(portal) = self.portals.remove(name) {
            self.free(portal.bytes);
        }
    }

    pub(super) fn forget_portals_of_ended_transaction(&mut self) {
        if self.session.transaction() == TransactionStatus::Idle {
            self.forget_portals(|_| true);
        }
    }

    /// Forgets those that were made after a savepoint that the transaction went back to.
    pub(super) fn forget_portals_behind_savepoint(&mut self) {
        if let Some(reached) = self.session.take_reached_savepoint() {
            self.forget_portals(|portal| portal.savepoints >= reached);
        }
    }

    fn forget_portals(&mut self, is_gone: impl Fn(&Portal) -> bool) {
        let gone = self.portals.extract_if(|_, portal| is_gone(portal));
        let bytes = gone.map(|(_, portal)| portal.bytes).sum();
        self.free(bytes);
    }

    /// Gives back memory of portals.
    fn free(&mut self, bytes: u64) {
        self.charge.set(self.charge.bytes().saturating_sub(bytes));
    }
}

fn no_portal(name: &str) -> Failure {
    Failure::new("34000", format!("portal \"{name}\" does not exist"))
}

/// The most memory that parameters take while they are read.
fn reading_bytes(values: &[Option<Bytes>], formats: &[Format], types: &[ColumnType]) -> u64 {
    let bytes: usize = values.iter().flatten().map(Bytes::len).sum();
    let arrays = values.iter().zip(formats).zip(types).filter(|(_, column)| column.is_array);
    let elements = arrays.map(|((value, format), _)| match (value, format) {
        (None, _) => 0,
        // Commas stand between them.
        (Some(text), Format::Text) => 1 + memchr::memchr_iter(b',', text).count(),
        // Their count stands behind three other numbers, and each of them has a length.
        (Some(bytes), Format::Binary) => {
            let count: Option<[u8; 4]> = bytes.get(12..16).and_then(|count| count.try_into().ok());
            count.map_or(0, |count| u32::from_be_bytes(count) as usize).min(bytes.len() / size_of::<i32>())
        }
    });
    let elements: usize = elements.sum();
    (2 * bytes + values.len() * size_of::<ScalarValue>() + elements * ELEMENT_BYTES) as u64
}

/// The format of each value: one each, one for all, or none, which is text.
fn formats_of(given: &[Format], count: usize) -> Option<Vec<Format>> {
    match given {
        [] => Some(vec![Format::Text; count]),
        [one] => Some(vec![*one; count]),
        all => (all.len() == count).then(|| all.to_vec()),
    }
}
