//! One batch to its tablet: finding the leader, retrying, applied exactly once.
//!
//! Every attempt repeats the same bytes under the same request id, to whichever replica leads by then; a server
//! that has applied it already answers as it did the first time. The outcome is unknown only when the deadline
//! passes without an answer.

use std::time::Duration;

use bytes::Bytes;
use rand::Rng;
use tokio::time::{Instant, sleep};

use super::batch::Outcome;
use crate::backoff::{Backoff, Turn};
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::pb::tserver::{WriteRequest, WriteResponse};
use crate::pb::{RowOperations, Schema};
use crate::rpc::{CallOptions, Login};
use crate::table::TableInner;
use crate::tablets::{Found, Tablet};

const WRITE: (&str, &str) = ("kudu.tserver.TabletServerService", "Write");

/// Attempts at a server that is there but not ready, before another replica is tried.
const UNAVAILABLE_ATTEMPTS: u32 = 3;

/// A batch in the form that is sent.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    pub(super) schema: Schema,
    pub(super) rows: Bytes,
    pub(super) indirect: Bytes,
    pub(super) count: usize,
    /// Instead of the server's pace a fixed pause after each refusal; only to measure what that costs.
    pub(super) fixed_pause: Option<Duration>,
}

/// Sends until the batch is applied, refused for good, or the deadline has passed.
pub(super) async fn send_batch(
    table: &TableInner,
    first: std::sync::Arc<Tablet>,
    payload: &Payload,
    deadline: Instant,
) -> Outcome {
    let named = first.clone();
    match attempt_until_settled(table, first, payload, deadline).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(error.at_tablet(&named.id_text())),
    }
}

async fn attempt_until_settled(
    table: &TableInner,
    first: std::sync::Arc<Tablet>,
    payload: &Payload,
    deadline: Instant,
) -> Result<Outcome> {
    let client = &table.client.inner;
    let mut request_id = client.request_ids.open();
    let mut tablet = first;
    let mut backoff = Backoff::default();
    let mut unavailable = 0;
    let mut last_error: Option<Error> = None;
    let give_up = |last: &Option<Error>| match last {
        Some(error) => Error::timed_out(format!("not written by the deadline; the last attempt: {error}")),
        None => Error::timed_out("not written by the deadline"),
    };
    loop {
        if Instant::now() >= deadline {
            return Err(give_up(&last_error));
        }
        let Some(index) = tablet.leader() else {
            table.tablets.forget(&tablet);
            if !backoff.wait(deadline).await {
                return Err(give_up(&last_error));
            }
            match table.tablets.find(client, &tablet.start, deadline).await? {
                Found::Tablet(found) if found.id == tablet.id => tablet = found,
                // Another tablet: what the old one answered under this request id died with it.
                Found::Tablet(_) | Found::Gap { .. } => return Ok(Outcome::Moved),
            }
            continue;
        };
        let address = &tablet.replicas[index].address;
        let turn = match payload.fixed_pause {
            Some(_) => None,
            None => match client.pace(address).turn(deadline).await {
                Some(turn) => Some(turn),
                None => return Err(give_up(&last_error).at_server(&address.to_string())),
            },
        };
        let request = WriteRequest {
            tablet_id: tablet.id.clone(),
            schema: Some(payload.schema.clone()),
            row_operations: Some(RowOperations {
                rows: Some(payload.rows.clone()),
                indirect_data: Some(payload.indirect.clone()),
            }),
            external_consistency_mode: None,
            propagated_timestamp: client.clock.latest(),
            authz_token: table.authorization(deadline).await?,
        };
        let options = CallOptions {
            deadline: client.rpc_deadline(deadline),
            features: Vec::new(),
            request_id: Some(request_id.attempt()),
        };
        let answer =
            client.messenger.call::<WriteResponse>(address, Login::Token, WRITE, &request, &options).await;
        let error = match answer {
            Ok((answer, _)) => match &answer.error {
                None => {
                    turn.into_iter().for_each(Turn::accepted);
                    tablet.led_by(index);
                    client.clock.observe(answer.timestamp);
                    let failed = answer.per_row_errors.len().min(payload.count);
                    Metrics::add(&client.metrics.rows_written, (payload.count - failed) as u64);
                    let row_errors = answer.per_row_errors.iter().map(|row| {
                        let error = Error::from_row(&row.error).at_tablet(&tablet.id_text());
                        (usize::try_from(row.row_index).unwrap_or(usize::MAX), error)
                    });
                    return Ok(Outcome::Applied { row_errors: row_errors.collect() });
                }
                Some(error) => {
                    let error = Error::from_tablet_server(error).at_server(&address.to_string());
                    if error.kind() == ErrorKind::Busy {
                        turn.into_iter().for_each(Turn::refused);
                    }
                    error
                }
            },
            Err(error) => {
                if error.kind() == ErrorKind::Busy {
                    turn.into_iter().for_each(Turn::refused);
                }
                error
            }
        };
        let error = error.at_tablet(&tablet.id_text());
        tracing::debug!(%error, "write attempt failed");
        Metrics::count(&client.metrics.retries);
        match error.kind() {
            // The server's pace already spaces what is sent to it; this only breaks up lockstep.
            ErrorKind::Busy => {
                let jitter = || Duration::from_micros(rand::rng().random_range(500..3_000));
                let pause = payload.fixed_pause.unwrap_or_else(jitter);
                sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
                last_error = Some(error);
                continue;
            }
            ErrorKind::Unavailable => {
                unavailable += 1;
                if unavailable % UNAVAILABLE_ATTEMPTS == 0 {
                    tablet.refused_by(index);
                }
            }
            ErrorKind::Network => tablet.refused_by(index),
            ErrorKind::TimedOut => {
                tablet.refused_by(index);
                client.messenger.forget_server(address);
            }
            ErrorKind::NotLeader => {
                Metrics::count(&client.metrics.leader_changes);
                tablet.refused_by(index);
                last_error = Some(error);
                // The next replica may be the leader; only a full round without one calls for patience.
                continue;
            }
            ErrorKind::TabletNotFound => {
                (0..tablet.replicas.len()).for_each(|index| tablet.refused_by(index))
            }
            ErrorKind::InvalidAuthenticationToken => client.renew_authentication_token(deadline).await?,
            ErrorKind::InvalidAuthorizationToken => {
                table.renew_authorization(deadline).await?;
            }
            _ => return Err(error),
        }
        if !backoff.wait(deadline).await {
            return Err(give_up(&Some(error)));
        }
        last_error = Some(error);
    }
}
