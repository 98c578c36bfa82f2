//! Writes cpu rows as InfluxDB line protocol, straight into the request's body.
//!
//! `cpu,hostname=host_0,…,service_environment=test usage_user=58i,usage_system=2i,… 1451606400000000000`
//!
//! The measurement, tags and first field's name of a host are copied whole; a value and the next
//! field's name are copied as blocks of fixed size (which compile to one or two vector moves) and the
//! position then moves on by their real length. Nothing is allocated per row, nothing is formatted but
//! one timestamp per tick.

use super::cpu::{CpuConfig, CpuRow, FIELD_COUNT, FIELDS};

/// The longest row: tags below 256 bytes, ten values and names below 24, the time and the slack of
/// fixed-size copies. Checked when the writer is made.
const MAX_ROW_BYTES: usize = 640;
const MAX_PREFIX_BYTES: usize = 320;
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

/// The parts that lines are put together from.
#[derive(Debug)]
pub(super) struct CpuLines {
    /// Per host: everything before the first value.
    prefixes: Vec<Box<str>>,
    /// Per value 0 … 100: its digits and `i`.
    values: Vec<Text<4>>,
    /// Per field: what follows its value, `,usage_system=` and so on.
    names: [Text<NAME_BYTES>; FIELD_COUNT - 1],
}

impl CpuLines {
    pub(super) fn new(config: &CpuConfig) -> CpuLines {
        let prefixes: Vec<Box<str>> = (0..config.hosts)
            .map(|host| format!("cpu{} {}=", config.host(host).line_tags(), FIELDS[0]).into_boxed_str())
            .collect();
        assert!(prefixes.iter().all(|prefix| prefix.len() <= MAX_PREFIX_BYTES), "tags have bounded choices");
        CpuLines {
            prefixes,
            values: (0..=100).map(|value| Text::new(&format!("{value}i"))).collect(),
            names: std::array::from_fn(|field| Text::new(&format!(",{}=", FIELDS[field + 1]))),
        }
    }

    /// Replaces `body` by the lines of `rows`, the first of which is row `first_row` of the data set.
    pub(super) fn write(&self, config: &CpuConfig, first_row: u64, rows: &[CpuRow], body: &mut Vec<u8>) {
        body.resize(rows.len() * MAX_ROW_BYTES, 0);
        let mut tick = first_row / config.hosts;
        let mut host = (first_row % config.hosts) as usize;
        let mut time = self.time(config, tick);
        let mut at = 0;
        for row in rows {
            let line = &mut body[at..at + MAX_ROW_BYTES];
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

    fn time(&self, config: &CpuConfig, tick: u64) -> Text<TIME_BYTES> {
        Text::new(&format!(" {}000000000\n", config.time_of(tick)))
    }
}
