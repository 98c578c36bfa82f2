//! One write of many rows, sent by `finish`. If no request fails as a whole, `finish` returns each failed row by number.
//!
//! Rows of one tablet keep their order; tablets are written side by side. Unlike a session, it buffers
//! nothing beyond the call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::Instant;

use super::batch::Outcome;
use super::send::{Payload, send_batch};
use crate::error::{Error, ErrorKind, Result};
use crate::location_cache::{Lookup, Tablet};
use crate::pb;
use crate::row::{EncodedRows, Row, RowReader};
use crate::table::Table;

/// A longer request to one tablet is split here, far below the 50 MiB that servers accept at once.
const REQUEST_BYTES: usize = 4 << 20;

/// Rows that are written by one call, from [`Table::write`].
#[derive(Debug)]
pub struct WriteCall {
    table: Table,
    wire_schema: pb::Schema,
    deadline: Instant,
    tablets: Vec<TabletRows>,
    by_tablet: HashMap<Bytes, usize>,
    /// Whether rows whose tablet is gone fail, instead of going to the tablets that have their keys now.
    stays: bool,
    /// How many rows were added.
    row_count: usize,
    failed: Vec<(usize, Error)>,
    /// Buffers for computing a row's partition key; kept so that rows need no allocation.
    key: Vec<u8>,
    scratch: Vec<u8>,
}

/// Rows of one tablet, in requests that follow each other.
#[derive(Debug)]
struct TabletRows {
    tablet: Arc<Tablet>,
    requests: Vec<Request>,
}

#[derive(Debug, Default)]
struct Request {
    rows: EncodedRows,
    /// The number of each row in the whole write.
    numbers: Vec<usize>,
}

impl Table {
    /// Begins a write that must be done within `timeout`. Keep that well below ten minutes: after that servers forget
    /// outcomes, and a retry gets `OutcomeUnknown`.
    pub fn write(&self, timeout: Duration) -> WriteCall {
        WriteCall {
            table: self.clone(),
            wire_schema: self.schema().to_plain_pb(),
            deadline: Instant::now() + timeout,
            tablets: Vec::new(),
            by_tablet: HashMap::new(),
            stays: false,
            row_count: 0,
            failed: Vec::new(),
            key: Vec::new(),
            scratch: Vec::new(),
        }
    }
}

impl WriteCall {
    /// Writes rows only to the tablets that had their keys when they were added. If a range was dropped and added again since,
    /// its rows fail (`NotFound`), as they do when it was only dropped.
    #[must_use]
    pub fn stay_in_tablets(mut self) -> Self {
        self.stays = true;
        self
    }

    /// The ids of the tablets that rows which were added so far go to. No tablet gets the id of another.
    pub fn tablets(&self) -> impl Iterator<Item = String> {
        self.tablets.iter().map(|rows| rows.tablet.id_text().into_owned())
    }

    /// Adds a row; its number is how many were added before.
    ///
    /// # Errors
    /// When the row is incomplete, or the tablets cannot be found. Then drop the whole write.
    pub async fn add(&mut self, row: &Row) -> Result<()> {
        let inner = &self.table.inner;
        if !Arc::ptr_eq(row.schema(), &inner.schema) && **row.schema() != *inner.schema {
            return Err(Error::invalid("the row was made for another table"));
        }
        row.check()?;
        let number = self.row_count;
        self.row_count += 1;
        self.route(row, number).await
    }

    async fn route(&mut self, row: &Row, number: usize) -> Result<()> {
        let inner = &self.table.inner;
        inner.partitions.partition_key(&inner.schema, row, &mut self.scratch, &mut self.key)?;
        let found = inner.locations.find(&inner.client.cluster, &self.key, self.deadline).await?;
        let Lookup::Tablet(tablet) = found else {
            self.failed.push((number, Error::new(ErrorKind::NotFound, "no range partition covers the row")));
            return Ok(());
        };
        let index = *self.by_tablet.entry(tablet.id.clone()).or_insert(self.tablets.len());
        if index == self.tablets.len() {
            self.tablets.push(TabletRows { tablet, requests: vec![Request::default()] });
        }
        let requests = &mut self.tablets[index].requests;
        if requests.last().is_none_or(|last| last.rows.bytes() >= REQUEST_BYTES) {
            requests.push(Request::default());
        }
        let last = requests.last_mut().expect("there is one now");
        row.encode_into(&mut last.rows);
        last.numbers.push(number);
        Ok(())
    }

    /// Writes the rows and returns those that failed, in order of their numbers. Possible errors: the key exists
    /// (`AlreadyPresent`); the key, or a range for it, does not exist (`NotFound`); any other refusal of a row.
    ///
    /// # Errors
    /// When it is unknown whether some rows were written (`TimedOut`, `OutcomeUnknown`), or a server refused a whole
    /// request.
    pub async fn finish(mut self) -> Result<Vec<(usize, Error)>> {
        while !self.tablets.is_empty() {
            self.by_tablet.clear();
            let tablets = std::mem::take(&mut self.tablets);
            let sent = join_all(tablets.into_iter().map(|rows| self.send(rows))).await;
            let mut moved = Vec::new();
            for outcome in sent {
                let (failed, requests) = outcome?;
                self.failed.extend(failed);
                moved.extend(requests);
            }
            for request in moved {
                match self.stays {
                    true => {
                        let gone = Error::new(ErrorKind::NotFound, "the partition of the row was dropped");
                        self.failed.extend(request.numbers.into_iter().map(|number| (number, gone.clone())));
                    }
                    false => self.reroute(request).await?,
                }
            }
        }
        self.failed.sort_by_key(|(number, _)| *number);
        Ok(self.failed)
    }

    /// Sends the requests of a tablet; returns rows that failed, and requests whose tablet is gone.
    async fn send(&self, rows: TabletRows) -> Result<(Vec<(usize, Error)>, Vec<Request>)> {
        let inner = &self.table.inner;
        let mut failed = Vec::new();
        let mut requests = rows.requests.into_iter();
        while let Some(request) = requests.next() {
            let Request { rows: EncodedRows { rows: bytes, indirect, count }, numbers } = request;
            let payload = Payload {
                schema: self.wire_schema.clone(),
                count,
                rows: Bytes::from(bytes),
                indirect: Bytes::from(indirect),
                fixed_pause: None,
            };
            match send_batch(inner, rows.tablet.clone(), &payload, self.deadline).await {
                Outcome::Applied { row_errors } => {
                    for (index, error) in row_errors {
                        let number = numbers.get(index).copied();
                        let number =
                            number.ok_or_else(|| Error::protocol("an error of a row that was not sent"))?;
                        failed.push((number, error));
                    }
                }
                Outcome::Failed(error) => return Err(error),
                Outcome::Moved => {
                    let Payload { rows, indirect, .. } = payload;
                    let rows = EncodedRows { rows: rows.to_vec(), indirect: indirect.to_vec(), count };
                    let moved = std::iter::once(Request { rows, numbers }).chain(requests).collect();
                    return Ok((failed, moved));
                }
            }
        }
        Ok((failed, Vec::new()))
    }

    /// Adds the rows of a request to the tablets that hold their keys now.
    async fn reroute(&mut self, request: Request) -> Result<()> {
        let schema = self.table.inner.schema.clone();
        let mut reader = RowReader::new(&schema, &request.rows.rows, &request.rows.indirect);
        let mut numbers = request.numbers.into_iter();
        while let (Some((_, row)), Some(number)) = (reader.next_row()?, numbers.next()) {
            self.route(&row, number).await?;
        }
        Ok(())
    }
}
