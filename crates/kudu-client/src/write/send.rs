//! Sends one batch to its tablet: finds the leader, retries, and has the batch applied exactly once.
//!
//! Every attempt sends the same rows under the same request id, to the replica that leads then. A server that has
//! already applied the batch repeats its first answer. The outcome is unknown if the deadline passes without an answer, or
//! if the server has forgotten the request id (`OutcomeUnknown`).

use std::time::Duration;

use bytes::Bytes;
use rand::Rng;
use tokio::time::{Instant, sleep};

use super::batch::Outcome;
use crate::backoff::Backoff;
use crate::concurrency_limit::Permit;
use crate::error::{Error, ErrorKind, Result};
use crate::location_cache::{Lookup, Tablet};
use crate::metrics::Metrics;
use crate::pb::tserver::{WriteRequest, WriteResponse};
use crate::pb::{RowOperations, Schema};
use crate::rpc::{CallOptions, Login};
use crate::table::TableInner;

const WRITE: (&str, &str) = ("kudu.tserver.TabletServerService", "Write");

/// Attempts at a server that answers but is not ready, before another replica is tried.
const UNAVAILABLE_ATTEMPTS: u32 = 3;

/// A batch in the form that is sent.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    pub(super) schema: Schema,
    pub(super) rows: Bytes,
    pub(super) indirect: Bytes,
    pub(super) count: usize,
    /// Pauses this long after each refusal instead of limiting concurrency; only to measure the difference.
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
    let mut may_be_applied = false;
    match attempt_until_settled(table, first, payload, deadline, &mut may_be_applied).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed(verdict(error, may_be_applied).at_tablet(&named.id_text())),
    }
}

/// Whether a server may have applied the batch although the attempt failed.
fn leaves_doubt(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Network | ErrorKind::TimedOut | ErrorKind::Unavailable)
}

/// What the end of all attempts says of the batch. The last one may have been refused, or not been sent for want of a token,
/// while an earlier one was applied.
fn verdict(error: Error, may_be_applied: bool) -> Error {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::OutcomeUnknown => error,
        _ if may_be_applied => {
            let words = "an earlier attempt may have written the rows, before this one failed";
            error.context(words).with_kind(ErrorKind::OutcomeUnknown)
        }
        _ => error,
    }
}

async fn attempt_until_settled(
    table: &TableInner,
    first: std::sync::Arc<Tablet>,
    payload: &Payload,
    deadline: Instant,
    may_be_applied: &mut bool,
) -> Result<Outcome> {
    let cluster = &table.client.cluster;
    let mut request_id = cluster.request_tracker.open();
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
            table.locations.forget(&tablet);
            if !backoff.wait(deadline).await {
                return Err(give_up(&last_error));
            }
            match table.locations.find(cluster, &tablet.start, deadline).await? {
                Lookup::Tablet(found) if found.id == tablet.id => tablet = found,
                // Another tablet, which knows nothing of this request id.
                Lookup::Tablet(_) | Lookup::NonCoveredRange { .. } => return Ok(Outcome::Moved),
            }
            continue;
        };
        let address = &tablet.replicas[index].address;
        let permit = match payload.fixed_pause {
            Some(_) => None,
            None => match cluster.write_limit(address).acquire(deadline).await {
                Some(permit) => Some(permit),
                None => return Err(give_up(&last_error).at_server(&address.to_string())),
            },
        };
        let authorization = table.authorization();
        let request = WriteRequest {
            tablet_id: tablet.id.clone(),
            schema: Some(payload.schema.clone()),
            row_operations: Some(RowOperations {
                rows: Some(payload.rows.clone()),
                indirect_data: Some(payload.indirect.clone()),
            }),
            external_consistency_mode: None,
            propagated_timestamp: cluster.clock.latest(),
            authz_token: authorization.clone(),
        };
        let options = CallOptions {
            deadline: cluster.rpc_deadline(deadline),
            features: Vec::new(),
            request_id: Some(request_id.attempt()),
        };
        let answer =
            cluster.messenger.call::<WriteResponse>(address, Login::Token, WRITE, &request, &options).await;
        let error = match answer {
            Ok((answer, _)) => match &answer.error {
                None => {
                    permit.into_iter().for_each(Permit::accepted);
                    tablet.mark_leader(index);
                    cluster.clock.observe(answer.timestamp);
                    let failed = answer.per_row_errors.len().min(payload.count);
                    Metrics::add(&cluster.metrics.rows_written, (payload.count - failed) as u64);
                    let row_errors = answer.per_row_errors.iter().map(|row| {
                        let error = Error::from_row(&row.error).at_tablet(&tablet.id_text());
                        (usize::try_from(row.row_index).unwrap_or(usize::MAX), error)
                    });
                    return Ok(Outcome::Applied { row_errors: row_errors.collect() });
                }
                Some(error) => Error::from_tablet_server(error).at_server(&address.to_string()),
            },
            Err(error) => error,
        };
        let error = error.at_tablet(&tablet.id_text());
        tracing::debug!(%error, "write attempt failed");
        Metrics::count(&cluster.metrics.retries);
        *may_be_applied |= leaves_doubt(&error);
        match error.kind() {
            // The concurrency limit already spaces the writes; this jitter only keeps writers from retrying in step.
            ErrorKind::Busy => {
                permit.into_iter().for_each(Permit::refused);
                let jitter = || Duration::from_micros(rand::rng().random_range(500..3_000));
                let pause = payload.fixed_pause.unwrap_or_else(jitter);
                sleep(pause.min(deadline.saturating_duration_since(Instant::now()))).await;
                last_error = Some(error);
                continue;
            }
            ErrorKind::Unavailable => {
                unavailable += 1;
                if unavailable % UNAVAILABLE_ATTEMPTS == 0 {
                    tablet.mark_failed(index);
                }
            }
            ErrorKind::Network => tablet.mark_failed(index),
            ErrorKind::TimedOut => {
                tablet.mark_failed(index);
                cluster.messenger.forget_server(address);
            }
            ErrorKind::NotLeader => {
                Metrics::count(&cluster.metrics.leader_changes);
                tablet.mark_failed(index);
                last_error = Some(error);
                // The next replica may be the leader, so it is tried at once; only a full round without one backs off.
                continue;
            }
            ErrorKind::TabletNotFound => {
                (0..tablet.replicas.len()).for_each(|index| tablet.mark_failed(index))
            }
            ErrorKind::InvalidAuthenticationToken => cluster.renew_authentication_token(deadline).await?,
            ErrorKind::InvalidAuthorizationToken => {
                table.renew_authorization(authorization.as_ref(), deadline).await?;
            }
            _ => return Err(error),
        }
        if !backoff.wait(deadline).await {
            return Err(give_up(&Some(error)));
        }
        last_error = Some(error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_after_an_attempt_without_an_answer_leaves_the_outcome_open() {
        let error = |kind| Error::new(kind, "x");
        let end = |kinds: &[ErrorKind], last| {
            let may_be_applied = kinds.iter().any(|kind| leaves_doubt(&error(*kind)));
            verdict(error(last), may_be_applied).kind()
        };
        for definite in [ErrorKind::NotAuthenticated, ErrorKind::NotFound, ErrorKind::SchemaMismatch] {
            assert_eq!(end(&[], definite), definite);
            assert_eq!(end(&[ErrorKind::Busy, ErrorKind::NotLeader], definite), definite);
            for lost in [ErrorKind::TimedOut, ErrorKind::Network, ErrorKind::Unavailable] {
                assert_eq!(end(&[lost, ErrorKind::NotLeader], definite), ErrorKind::OutcomeUnknown);
            }
        }
        assert_eq!(end(&[ErrorKind::Network], ErrorKind::TimedOut), ErrorKind::TimedOut);
    }
}
