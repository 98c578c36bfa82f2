//! Any body of a write is read without a panic, and memory follows its length.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nyala_db::ingest::{LineRequest, ParseOptions, ParsedBatch, SeriesCache, SeriesCacheLimits};

fuzz_target!(|body: &[u8]| {
    let mut cache = SeriesCache::new(SeriesCacheLimits::default());
    let mut batch = ParsedBatch::new();
    // Twice, so that the second time every series and shape is known and the quick way is taken.
    let mut read = || {
        let mut request = LineRequest::new(body, ParseOptions::default());
        let mut rows = 0;
        while request.next_batch(&mut cache, &mut batch) {
            rows += batch.row_count();
        }
        (rows, request.errors().count())
    };
    assert_eq!(read(), read());
});
