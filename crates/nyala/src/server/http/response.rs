//! Responses: bodies that are sent at once or as a stream, and errors in InfluxDB's form.

use super::body_stream::{AbortedAnswer, BodyStream};
use crate::server::connection_limit::ActiveRequest;
use crate::server::format::{Format, Indenter};
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use nyala_core::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body that is sent at once, or in segments as they are computed.
pub(crate) enum Answer {
    /// The whole body.
    Whole(Option<Bytes>),
    /// Segments; an error aborts the connection, so that no client takes the answer for complete.
    Stream(BodyStream),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = AbortedAnswer;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AbortedAnswer>>> {
        match self.get_mut() {
            Answer::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Answer::Stream(stream) => {
                stream.poll_next(context).map(|next| next.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Answer::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Answer::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Answer::Stream(_) => SizeHint::default(),
        }
    }
}

/// The body of an answer; its connection counts as active until the body is sent.
pub(crate) struct TrackedBody {
    pub(super) answer: Answer,
    pub(super) _active: ActiveRequest,
}

impl Body for TrackedBody {
    type Data = Bytes;
    type Error = AbortedAnswer;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AbortedAnswer>>> {
        Pin::new(&mut self.answer).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.answer.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.answer.size_hint()
    }
}

/// A response that says what went wrong.
pub(crate) type Failure = Box<Response<Answer>>;

/// A response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::Whole(None));
    *response.status_mut() = status;
    response
}

/// A response with a body.
pub(crate) fn with_body(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Answer> {
    let body: Bytes = body.into();
    let mut response = Response::new(Answer::Whole((!body.is_empty()).then_some(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Tells browsers not to guess another content type.
pub(crate) fn without_sniffing(mut response: Response<Answer>) -> Response<Answer> {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A failure with InfluxDB's body: `{"error":"…"}`.
pub(crate) fn failure(status: StatusCode, message: impl AsRef<str>) -> Failure {
    failure_with(status, message.as_ref(), b"")
}

/// The failure of what the database was asked for.
pub(crate) fn failed(error: &Error) -> Failure {
    retried_after(failure(status_of(error), error.to_string()), error.retry_after_seconds())
}

/// The same failure, which says how long the client has to wait, if that is known.
pub(crate) fn retried_after(mut failure: Failure, seconds: Option<u32>) -> Failure {
    if let Some(seconds) = seconds {
        failure.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    failure
}

/// A failure whose body has further members, written as `,"name":value…`.
pub(crate) fn failure_with(status: StatusCode, message: &str, members: &[u8]) -> Failure {
    let body = Format::Json.error(message, members);
    let mut response = with_body(status, Format::Json.content_type(), body);
    response.extensions_mut().insert(Message(message.to_owned()));
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"InfluxDB\""));
    } else if let Some(value) = header_text(message) {
        response.headers_mut().insert("X-Influxdb-Error", value);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    Box::new(response)
}

/// The message of a failure, kept beside its body so that it can be written in another format.
#[derive(Clone)]
struct Message(String);

/// What a failure says.
pub(super) fn message_of(response: &Response<Answer>) -> Option<&str> {
    response.extensions().get().map(|Message(message)| &**message)
}

/// Marks a failure that whoever found it has written to the audit log.
#[derive(Clone)]
struct Audited;

/// A failure that is in the audit log already.
pub(super) fn audited(mut failure: Failure) -> Failure {
    failure.extensions_mut().insert(Audited);
    failure
}

/// Whether a failure is in the audit log already.
pub(super) fn is_audited(response: &Response<Answer>) -> bool {
    response.extensions().get::<Audited>().is_some()
}

/// The same failure in the format that the client asked for.
pub(crate) fn in_format(failure: Failure, format: Format) -> Failure {
    if format == Format::Json {
        return failure;
    }
    in_form(failure, format.content_type(), |message| format.error(message, b""))
}

/// The same failure with a body of another type, which `body` makes of its message.
pub(crate) fn in_form(
    mut failure: Failure,
    content_type: &'static str,
    body: impl FnOnce(&str) -> Vec<u8>,
) -> Failure {
    if let Some(Message(message)) = failure.extensions_mut().remove() {
        *failure.body_mut() = Answer::Whole(Some(body(&message).into()));
        failure.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    failure
}

/// The same failure, its body indented.
pub(crate) fn indented(mut failure: Failure) -> Failure {
    if let Answer::Whole(Some(body)) = failure.body_mut() {
        *body = Indenter::default().indent(body).into();
    }
    failure
}

/// The beginning of a message as a header, on one line and without control characters; the body has the whole message.
fn header_text(message: &str) -> Option<HeaderValue> {
    const LENGTH_MAX: usize = 1024;
    let shown = &message.as_bytes()[..message.len().min(LENGTH_MAX)];
    let bytes: Vec<u8> = shown
        .iter()
        .map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte })
        .filter(|byte| *byte == b'\t' || !byte.is_ascii_control())
        .collect();
    HeaderValue::from_bytes(bytes.trim_ascii()).ok()
}

/// The status code of an error of a write.
pub(crate) fn status_of(error: &Error) -> StatusCode {
    match error.kind() {
        ErrorKind::Missing => StatusCode::NOT_FOUND,
        ErrorKind::Invalid | ErrorKind::Conflict => StatusCode::BAD_REQUEST,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Limit => StatusCode::UNPROCESSABLE_ENTITY,
        ErrorKind::Throttled => StatusCode::TOO_MANY_REQUESTS,
        // When the outcome of a write is unknown, sending it again is safe, and the client should do so.
        ErrorKind::Retry | ErrorKind::Unknown => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Cancelled | ErrorKind::Corrupt | ErrorKind::Io => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
