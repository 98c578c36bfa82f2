//! Parses a request body line by line into batches: by the fast path if possible, otherwise by the slow path.

use super::batch::{ParsedBatch, RowRules};
use super::error::{ErrorsMark, ParseErrors};
use super::key::{NAME_ESCAPES, TagSpan, raw_measurement, unescape};
use super::options::ParseOptions;
use super::series_cache::SeriesCache;
use super::slow_path::{ParsedField, block_end, parse_line, skip_blanks};

/// Reads one request body.
///
/// ```
/// use nyala_db::ingest::{LineRequest, ParseOptions, ParsedBatch, SeriesCache, SeriesCacheLimits, TagSet};
///
/// let mut cache = SeriesCache::new(SeriesCacheLimits::default());
/// let mut batch = ParsedBatch::new();
/// let body = b"cpu,host=a usage=5i 100\ncpu,host=a usage= 200\n";
/// let mut request = LineRequest::new(body, ParseOptions::default());
/// let mut tags = TagSet::default();
/// while request.next_batch(&mut cache, &mut batch) {
///     for handle in cache.pending().to_vec() {
///         cache.read_tags(handle, &mut tags);
///         let series_id = tags.len() as u32; // really: ask the series index
///         cache.set_series_id(handle, series_id);
///     }
///     batch.resolve(&cache);
///     for group in batch.groups() {
///         assert_eq!((group.measurement(), &group.times_ns[..]), (&b"cpu"[..], &[100][..]));
///     }
/// }
/// assert_eq!(request.errors().text(), b"unable to parse 'cpu,host=a usage= 200': missing field value");
/// ```
#[derive(Debug)]
pub struct LineRequest<'a> {
    body: &'a [u8],
    options: ParseOptions,
    position: usize,
    line: u64,
    begun: bool,
    errors: ParseErrors,
    tags: Vec<TagSpan>,
    fields: Vec<ParsedField<'a>>,
}

/// A position in a request between two batches.
#[derive(Debug)]
pub struct RequestMark {
    position: usize,
    line: u64,
    errors: ErrorsMark,
}

/// The longest body: offsets of strings are signed 32-bit integers in Arrow's layout.
pub const MAX_BODY_BYTES: usize = i32::MAX as usize;

impl<'a> LineRequest<'a> {
    /// Starts to parse `body`, which is below 2 GiB (the server's limit is far lower).
    pub fn new(body: &'a [u8], options: ParseOptions) -> Self {
        assert!(body.len() <= MAX_BODY_BYTES, "a body of {} bytes", body.len());
        Self {
            body,
            options,
            position: 0,
            line: 1,
            begun: false,
            errors: ParseErrors::default(),
            tags: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Parses the next rows into `batch`: normally all, otherwise as many as the limits allow. Returns false if there
    /// are no more rows. Afterwards [`SeriesCache::pending`] lists the series without an id.
    pub fn next_batch(&mut self, cache: &mut SeriesCache, batch: &mut ParsedBatch) -> bool {
        if self.begun {
            cache.begin_batch();
        } else {
            cache.begin_request();
            self.begun = true;
        }
        batch.begin(cache, self.options.limits.max_columns);
        let rules = RowRules {
            unit_ns: self.options.precision.unit_ns(),
            default_time_ns: self.options.precision.truncate(self.options.now_ns),
            max_line_bytes: self.options.limits.max_line_bytes,
        };
        while self.position < self.body.len() && batch.row_count() < self.options.limits.max_rows {
            if !self.fast_line(cache, batch, &rules) && !self.slow_line(cache, batch, &rules) {
                break;
            }
        }
        batch.finish();
        batch.row_count() > 0
    }

    /// Whether bytes are left that were not parsed.
    pub fn has_more(&self) -> bool {
        self.position < self.body.len()
    }

    /// The current position in the request, to return to it.
    pub fn mark(&self) -> RequestMark {
        RequestMark { position: self.position, line: self.line, errors: self.errors.mark() }
    }

    /// Returns to a position. What was parsed since is parsed again.
    pub fn rewind(&mut self, mark: &RequestMark) {
        (self.position, self.line) = (mark.position, mark.line);
        self.errors.rewind(&mark.errors);
    }

    /// The lines rejected so far.
    pub fn errors(&self) -> &ParseErrors {
        &self.errors
    }

    /// Parses a line of a known series and shape. If it returns false, nothing was changed.
    #[inline(always)]
    fn fast_line(&mut self, cache: &mut SeriesCache, batch: &mut ParsedBatch, rules: &RowRules) -> bool {
        let line = &self.body[self.position..];
        let Some(found) = cache.find_line(line) else { return false };
        let Some(group) = batch.open_group(found.measurement) else { return false };
        let Some((end, newlines)) = group.append_quick(line, &found, self.line, rules) else { return false };
        batch.count_row();
        cache.advance(&found);
        self.position += end + 1;
        self.line += newlines + 1;
        true
    }

    /// Parses or rejects any line. If it returns false, the batch has no room for the line, and nothing was changed.
    fn slow_line(&mut self, cache: &mut SeriesCache, batch: &mut ParsedBatch, rules: &RowRules) -> bool {
        let end = block_end(self.body, self.position);
        let whole = &self.body[self.position..end];
        let start = skip_blanks(whole, 0);
        let block = whole.strip_suffix(b"\n").unwrap_or(whole);
        if start < block.len() && block[start] != b'#' {
            match parse_line(block, start, &self.options, &mut self.tags, &mut self.fields) {
                Ok((key_end, time_ns)) => {
                    let key = &block[start..key_end];
                    if !self.has_room(cache, batch, key) {
                        return false;
                    }
                    let found = cache.find_or_insert(key);
                    let time_ns = time_ns.unwrap_or(rules.default_time_ns);
                    batch.append_parsed(cache, &found, time_ns, self.line, &self.fields);
                    cache.advance(&found);
                }
                Err(failure) => self.errors.add(self.line, block, start, failure, &self.options.limits),
            }
        }
        self.position = end + 1;
        self.line += 1 + memchr::memchr_iter(b'\n', whole).count() as u64;
        true
    }

    fn has_room(&self, cache: &SeriesCache, batch: &ParsedBatch, key: &[u8]) -> bool {
        let mut name = Vec::new();
        unescape(raw_measurement(key), NAME_ESCAPES, &mut name);
        batch.has_room(cache.find_measurement(&name), &self.fields, self.options.limits.max_columns)
    }
}
