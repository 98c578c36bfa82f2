//! Prometheus' remote write: which requests are understood, and what those are told that are not. `lines` turns samples into line
//! protocol. Remote read is in `read`.

mod lines;
pub(super) mod read;
mod selection;

pub(super) use lines::Lines;

use super::response::{Failure, failure, status_of};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, StatusCode};
use nyala_core::{Error, ErrorKind};
use nyala_db::quoted;

/// The message of remote write 1.0, which bodies are that do not say what they are.
const MESSAGE: &str = "prometheus.WriteRequest";

/// Refuses bodies of another version of remote write: fields of its message have other numbers, so none of
/// its samples would be found. A sender that gets 415 may go on with the version that the answer names.
pub(super) fn check_message(headers: &HeaderMap) -> std::result::Result<(), Failure> {
    let kinds = headers.get_all(CONTENT_TYPE).iter().filter_map(|kind| kind.to_str().ok());
    let parameters = kinds.flat_map(|kind| kind.split(';').skip(1)).filter_map(|one| one.split_once('='));
    let messages = parameters.filter(|(name, _)| name.trim().eq_ignore_ascii_case("proto"));
    match messages.map(|(_, message)| message.trim().trim_matches('"')).find(|message| *message != MESSAGE) {
        None => Ok(()),
        Some(message) => {
            let words = format!(
                "remote write of {} is not supported: send version 1.0 (Content-Type: application/x-protobuf;proto={MESSAGE})",
                quoted(message)
            );
            Err(failure(StatusCode::UNSUPPORTED_MEDIA_TYPE, words))
        }
    }
}

/// The answer to a request that cannot be processed.
pub(super) fn refused(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Limit => failure(StatusCode::PAYLOAD_TOO_LARGE, error.message()),
        _ => failure(status_of(&error), error.message()),
    }
}
