//! The line-protocol parser compared with a naive one, with hostile bytes, and with answers of InfluxDB 1.8.10.

mod bounds;
mod influxdb;
mod naive;
mod property;

use naive::{Row, Value};
use nyala_db::ingest::{FieldValues, LineRequest, ParseOptions, ParsedBatch, SeriesCache, TagSet};
use std::collections::BTreeMap;

/// A parser as a connection worker holds it.
struct Reader {
    cache: SeriesCache,
    batch: ParsedBatch,
    tags: Vec<Vec<(Vec<u8>, Vec<u8>)>>,
}

impl Reader {
    fn new() -> Self {
        Self { cache: SeriesCache::new(Default::default()), batch: ParsedBatch::new(), tags: Vec::new() }
    }

    /// Parses all of `body` into rows, in the order of lines.
    fn read<'a>(&mut self, body: &'a [u8], options: ParseOptions) -> (Vec<Row>, LineRequest<'a>) {
        let mut request = LineRequest::new(body, options);
        let mut rows = Vec::new();
        let mut tags = TagSet::default();
        while request.next_batch(&mut self.cache, &mut self.batch) {
            for handle in self.cache.pending().to_vec() {
                self.cache.read_tags(handle, &mut tags);
                self.cache.set_series_id(handle, self.tags.len() as u32);
                self.tags.push(tags.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect());
            }
            self.batch.resolve(&self.cache);
            self.collect(&mut rows);
        }
        rows.sort_by_key(|row| row.line);
        (rows, request)
    }

    fn collect(&self, rows: &mut Vec<Row>) {
        for group in self.batch.groups() {
            for column in &group.columns {
                assert!((0..group.row_count()).any(|row| column.is_present(row)), "a column without a value");
                assert_eq!(column.values().len(), group.row_count());
                assert!(column.presence().is_none_or(|presence| presence.len() == group.row_count()));
            }
            for row in 0..group.row_count() {
                let present = group.columns.iter().filter(|column| column.is_present(row));
                let fields = present.map(|column| {
                    let (kind, value) = match column.values() {
                        FieldValues::Float(values) => ('f', Value::Float(values[row].to_bits())),
                        FieldValues::Integer(values) => ('i', Value::Integer(values[row])),
                        FieldValues::Unsigned(values) => ('u', Value::Unsigned(values[row])),
                        FieldValues::Boolean(values) => ('b', Value::Boolean(values.get(row))),
                        FieldValues::String(values) => ('s', Value::String(values.get(row).to_vec())),
                    };
                    ((column.name().to_vec(), kind), value)
                });
                rows.push(Row {
                    line: group.lines[row],
                    measurement: group.measurement().to_vec(),
                    tags: self.tags[group.series_ids[row] as usize].clone(),
                    fields: fields.collect::<BTreeMap<_, _>>(),
                    time_ns: group.times_ns[row],
                });
            }
        }
    }
}
