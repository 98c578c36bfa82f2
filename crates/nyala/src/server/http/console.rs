//! The web console: the files of `console/dist`, which `build.rs` has compressed and put into the program.
//!
//! They hold no data, so they are answered without a login; what they show, the page asks of `/query` and `/api/sql` with
//! the credentials of its user. A browser asks again with the entity tag that it has, and gets the file only if another
//! program serves it.

use super::response::{Answer, empty, with_body, without_sniffing};
use super::{ABOUT, TEXT, gzip};
use hyper::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, ETAG, HeaderName,
    HeaderValue, IF_NONE_MATCH, REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::{Response, StatusCode};

/// A file of the console.
struct File {
    path: &'static str,
    content_type: &'static str,
    plain: &'static [u8],
    gzip: &'static [u8],
    /// The entity tags of both forms, which differ as their bytes do.
    plain_tag: &'static str,
    gzip_tag: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/console_files.rs"));

/// The page.
const PAGE: &str = "/console/index.html";

/// What the page may do: run its own script, and talk to its own server. No text can become markup or script, whoever
/// wrote it (trusted types); `worker` is the policy that names the address of the page's worker.
const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; \
     img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types worker";

/// Whether there is a file at a path.
pub(super) fn has(path: &str) -> bool {
    find(path).is_some()
}

/// Answers `GET /`: with the page to a browser, with a few words to a program.
pub(super) fn root(head: &Parts) -> Response<Answer> {
    let accepted = head.headers.get_all(ACCEPT).iter();
    let shows_pages =
        accepted.filter_map(|value| value.to_str().ok()).any(|value| value.contains("text/html"));
    let mut response = match find(PAGE).filter(|_| shows_pages) {
        Some(page) => send(page, head),
        None => without_sniffing(with_body(StatusCode::OK, TEXT, ABOUT)),
    };
    response.headers_mut().append(VARY, HeaderValue::from_static("accept"));
    response
}

/// Answers a request for a file; 404 if there is none.
pub(super) fn file(head: &Parts) -> Response<Answer> {
    match find(head.uri.path()) {
        Some(file) => send(file, head),
        None => without_sniffing(empty(StatusCode::NOT_FOUND)),
    }
}

fn find(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

fn send(file: &'static File, head: &Parts) -> Response<Answer> {
    let is_compressed = gzip::is_accepted(&head.headers);
    let (bytes, tag) = match is_compressed {
        true => (file.gzip, file.gzip_tag),
        false => (file.plain, file.plain_tag),
    };
    let known = head.headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    });
    let mut response = without_sniffing(match is_known {
        true => empty(StatusCode::NOT_MODIFIED),
        false => with_body(StatusCode::OK, file.content_type, bytes),
    });
    let headers = response.headers_mut();
    if is_compressed && !is_known {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in [
        (ETAG, tag),
        (VARY, ACCEPT_ENCODING.as_str()),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
