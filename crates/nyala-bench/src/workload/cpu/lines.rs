//! Writes cpu rows as InfluxDB line protocol, straight into the request's body.
//!
//! `cpu,hostname=host_0,…,service_environment=test usage_user=58i,usage_system=2i,… 1451606400000000000`
//!
//! The measurement, tags and first field's name of a host are copied at once. Each value and each following field name
//! is copied as a block of fixed size, which compiles to one or two vector moves, and the position then advances by the
//! real length. Nothing is allocated per row, and only one timestamp per tick is formatted.

use super::{CpuRow, FIELD_COUNT, FIELDS, HostsConfig};

/// Sizes of the copied blocks: a value, and a field's name with its comma and equals sign.
const VALUE_BYTES: usize = 4;
const NAME_BYTES: usize = 32;
/// ` 1451606400000000000\n` and room for any other 64-bit time.
const TIME_BYTES: usize = 24;

#[derive(Clone, Copy, Debug)]
struct Text<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    fn new(text: &str) -> Text<N> {
        let mut bytes = [0; N];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Text { bytes, length: text.len() }
    }

    #[inline]
    fn put(&self, out: &mut [u8], at: usize) -> usize {
        out[at..at + N].copy_from_slice(&self.bytes);
        at + self.length
    }
}

/// The parts of which lines consist.
#[derive(Debug)]
pub(super) struct CpuLines {
    /// Per host: everything before the first value.
    prefixes: Vec<Box<str>>,
    /// Per value 0 … 100: its digits and `i`.
    values: Vec<Text<VALUE_BYTES>>,
    /// Per field: what follows its value, `,usage_system=` and so on.
    names: [Text<NAME_BYTES>; FIELD_COUNT - 1],
    /// The longest row, with the extra bytes of the last copies.
    row_limit_bytes: usize,
}

impl CpuLines {
    pub(super) fn new(config: &HostsConfig) -> CpuLines {
        let prefixes: Vec<Box<str>> = (0..config.hosts)
            .map(|host| format!("cpu{} {}=", config.host(host).line_tags(), FIELDS[0]).into_boxed_str())
            .collect();
        let longest_prefix = prefixes.iter().map(|prefix| prefix.len()).max().unwrap_or(0);
        let names: [Text<NAME_BYTES>; FIELD_COUNT - 1] =
            std::array::from_fn(|field| Text::new(&format!(",{}=", FIELDS[field + 1])));
        let names_bytes: usize = names.iter().map(|name| name.length).sum();
        let row_limit_bytes =
            longest_prefix + names_bytes + FIELD_COUNT * VALUE_BYTES + NAME_BYTES + TIME_BYTES;
        CpuLines {
            prefixes,
            values: (0..=100).map(|value| Text::new(&format!("{value}i"))).collect(),
            names,
            row_limit_bytes,
        }
    }

    /// Replaces `body` with the lines of `rows`, the first of which is row `first_row` of the data set.
    pub(super) fn write(&self, config: &HostsConfig, first_row: u64, rows: &[CpuRow], body: &mut Vec<u8>) {
        body.resize(rows.len() * self.row_limit_bytes, 0);
        let mut tick = first_row / config.hosts;
        let mut host = (first_row % config.hosts) as usize;
        let mut time = self.time(config, tick);
        let mut at = 0;
        for row in rows {
            let line = &mut body[at..at + self.row_limit_bytes];
            let prefix = self.prefixes[host].as_bytes();
            line[..prefix.len()].copy_from_slice(prefix);
            let mut end = prefix.len();
            for (value, name) in row.iter().zip(&self.names) {
                end = self.values[usize::from(*value)].put(line, end);
                end = name.put(line, end);
            }
            end = self.values[usize::from(row[FIELD_COUNT - 1])].put(line, end);
            at += time.put(line, end);
            host += 1;
            if host == self.prefixes.len() {
                host = 0;
                tick += 1;
                time = self.time(config, tick);
            }
        }
        body.truncate(at);
    }

    fn time(&self, config: &HostsConfig, tick: u64) -> Text<TIME_BYTES> {
        Text::new(&format!(" {}000000000\n", config.time_of(tick)))
    }
}
