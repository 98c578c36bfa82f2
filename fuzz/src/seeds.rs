//! Writes inputs to begin with: `corpus/<target>/seed-<number>`, for the targets of the features that it is built with.

use nyala_fuzz::{catalog, entropy, influxdb, rowset};

/// Records, each behind the length of its key.
const RECORDS: [&[u8]; 3] = [
    b"\x08\0\0\0\0\0\0\0\x01{\"hidden\":{\"table\":1,\"ids\":[[1,5]]}}",
    // An idle set: times, no keys of tags, two series.
    b"\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x3a\x30\0\0\x01\0\0\0\0\0\x01\0\x10\0\0\0\x05\0\x07\0",
    // A part of a change: table, sequence, times, no flags, a name.
    b"\x02p1\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\x01\0\0\0m",
];
const RESPONSES: [&[u8]; 2] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 503 Busy\r\nRetry-After: 1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nno\r\n0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\nuntil it ends",
];
/// A log of schema changes in Kudu.
const SCHEMA_LOG: &[u8] = br#"{"changes":[{"create":{"table":1,"schema":{"name":"m","kind":"keyed","columns":[{"id":0,"name":"a","type":"string","required":true},{"id":1,"name":"b","type":{"decimal":[9,2]},"default":{"decimal":"5"}}],"next_column":2,"key":[0]}}}]}
{"changes":[{"ranges":{"table":1,"ranges":[[1,0,100]]}},{"sheets":{"table":1,"sheets":[[1,2]]}}]}
{"changes":[{"drop":{"table":1}}]}"#;
const STATEMENTS: [&str; 4] = [
    "SELECT a + 1 AS b FROM t WHERE (a = 1 OR b LIKE 'x%') AND c IN (1, 2) ORDER BY a NULLS LAST LIMIT 3; SELECT 1",
    "1 year 2 mons -3 days 04:05:06.789",
    "2024-01-31 12:34:56.789+00",
    "{\"a\": [1, -2.5e3, \"\\u00e4\\n\", {\"b\": null}]}",
];

fn main() -> std::io::Result<()> {
    let owned = |seeds: &[&[u8]]| seeds.iter().map(|seed| seed.to_vec()).collect::<Vec<_>>();
    let targets = [
        ("rowset_footer", rowset::footer_seeds()),
        ("index_page", rowset::page_seeds()),
        ("catalog_edits", catalog::seeds()),
        ("entropy", entropy::seeds()),
        ("influxdb_backup", vec![influxdb::backup_seed()]),
        ("stored_record", owned(&RECORDS)),
        ("http_response", owned(&RESPONSES)),
        ("kudu_schema_log", owned(&[SCHEMA_LOG])),
        ("sql", owned(&STATEMENTS.map(str::as_bytes))),
        #[cfg(feature = "postgres")]
        ("postgres_messages", nyala_fuzz::postgres_values::conversations()),
        #[cfg(feature = "postgres")]
        ("postgres_values", nyala_fuzz::postgres_values::seeds()),
        #[cfg(feature = "flight")]
        ("flight", nyala_fuzz::flight::seeds()),
        #[cfg(feature = "program")]
        ("http_request", nyala_fuzz::program::request_seeds()),
        #[cfg(feature = "program")]
        ("http_body", nyala_fuzz::program::body_seeds()),
        #[cfg(feature = "program")]
        ("operator_file", nyala_fuzz::program::file_seeds()),
        #[cfg(all(feature = "program", feature = "postgres"))]
        ("arrow_body", nyala_fuzz::program::arrow_seeds()),
    ];
    for (target, seeds) in targets {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
    }
    Ok(())
}
