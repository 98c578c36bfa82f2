//! Forms of the type `multipart/form-data` (RFC 7578), as `curl -F` sends them.

use super::params::Params;

/// The most parts that are read.
const PARTS_MAX: usize = 1_000;

/// The boundary in the content type of such a form.
pub(super) fn boundary(content_type: &str) -> Option<&str> {
    let (kind, rest) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    parameter(rest, "boundary").filter(|boundary| !boundary.is_empty())
}

/// Adds the fields of a form. Files count as values, because `q` may be either.
pub(super) fn read(body: &[u8], boundary: &str, params: &mut Params) {
    let delimiter = format!("--{boundary}");
    let pieces = memchr::memmem::find_iter(body, &delimiter).take(PARTS_MAX + 1).collect::<Vec<_>>();
    for ends in pieces.windows(2) {
        let part = &body[ends[0] + delimiter.len()..ends[1]];
        let Some(head_end) = memchr::memmem::find(part, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&part[..head_end]);
        let value = &part[head_end + 4..];
        let value = value.strip_suffix(b"\r\n").unwrap_or(value);
        let name = head.lines().find_map(|line| {
            let (header, rest) = line.split_once(':')?;
            let is_it = header.trim().eq_ignore_ascii_case("content-disposition");
            is_it.then(|| parameter(rest, "name")).flatten()
        });
        if let Some(name) = name {
            params.add(name.to_owned(), String::from_utf8_lossy(value).into_owned());
        }
    }
}

/// A parameter of a header: `…; name="value"`.
fn parameter<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split(';').find_map(|pair| {
        let (own, value) = pair.split_once('=')?;
        let value = value.trim();
        let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        own.trim().eq_ignore_ascii_case(name).then_some(unquoted.unwrap_or(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_form_are_parameters() {
        let boundary = boundary("multipart/form-data; charset=x; boundary=\"XX\"").unwrap();
        assert_eq!(boundary, "XX");
        let body = "--XX\r\nContent-Disposition: form-data; name=\"q\"; filename=\"f\"\r\n\r\nSELECT\r\n1\r\n\
                    --XX\r\ncontent-disposition: form-data; name=db\r\n\r\nx\r\n--XX\r\nbad\r\n--XX--\r\n";
        let mut params = Params::default();
        read(body.as_bytes(), boundary, &mut params);
        assert_eq!((params.get("q"), params.get("db")), ("SELECT\r\n1", "x"));
        assert_eq!(super::boundary("application/json"), None);
        assert_eq!(super::boundary("multipart/form-data"), None);
    }
}
