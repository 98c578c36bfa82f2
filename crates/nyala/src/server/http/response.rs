//! Responses: a body at once or in pieces, errors in InfluxDB's form.

use super::pieces::Pieces;
use crate::server::format::{Format, Indenter};
use crate::server::slots::Turn;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use nyala_core::{Error, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body that is sent at once, or as its pieces come.
pub(crate) enum Answer {
    /// At once.
    Whole(Option<Bytes>),
    /// As they come; an error breaks the connection off, so that nobody takes the answer for whole.
    Pieces(Pieces),
}

/// An answer that could not be finished.
#[derive(Debug)]
pub(crate) struct Broken(pub(crate) String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "answer broken off: {}", self.0)
    }
}

impl std::error::Error for Broken {}

impl Body for Answer {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Answer::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Answer::Pieces(pieces) => {
                pieces.poll_next(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
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
            Answer::Pieces(_) => SizeHint::default(),
        }
    }
}

/// The body of an answer to a client whose turn it is until it is sent.
pub(crate) struct Taken {
    pub(super) answer: Answer,
    pub(super) _turn: Turn,
}

impl Body for Taken {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
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
pub(crate) fn whole(
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

/// Says that a text is nothing else, whatever it looks like.
pub(crate) fn plainly(mut response: Response<Answer>) -> Response<Answer> {
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// A failure with InfluxDB's body: `{"error":"…"}`.
pub(crate) fn failure(status: StatusCode, message: impl AsRef<str>) -> Failure {
    failure_with(status, message.as_ref(), b"")
}

/// A failure whose body has further members, written as `,"name":value…`.
pub(crate) fn failure_with(status: StatusCode, message: &str, members: &[u8]) -> Failure {
    let body = Format::Json.error(message, members);
    let mut response = whole(status, Format::Json.content_type(), body);
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

/// What went wrong, kept beside a failure's body.
#[derive(Clone)]
struct Message(String);

/// The same failure in the format that the client asked for.
pub(crate) fn in_format(mut failure: Failure, format: Format) -> Failure {
    if format != Format::Json
        && let Some(Message(message)) = failure.extensions_mut().remove()
    {
        *failure.body_mut() = Answer::Whole(Some(format.error(&message, b"").into()));
        failure.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    }
    failure
}

/// The same failure, its body indented.
pub(crate) fn prettily(mut failure: Failure) -> Failure {
    if let Answer::Whole(Some(body)) = failure.body_mut() {
        *body = Indenter::default().indent(body).into();
    }
    failure
}

/// The beginning of a message as a header, on one line; control characters are left out, since the body has
/// them all.
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
        // Sending a write again is safe where its outcome is unknown, and what the client should do.
        ErrorKind::Retry | ErrorKind::Unknown => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Cancelled | ErrorKind::Corrupt | ErrorKind::Io => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
