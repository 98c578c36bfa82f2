//! Writes one report of a host, nine lines, as InfluxDB line protocol.

use super::processes::{DISK_BYTES, MEASUREMENTS, Measurement, Source};
use crate::random::Random;
use crate::workload::cpu::FIELD_COUNT;
use crate::workload::host::Host;

/// Random streams of a seed for the tags that only some measurements have.
const OWN_TAG_STREAMS: u64 = 5 << 40;
const FILE_SYSTEMS: [&str; 3] = ["ext3", "ext4", "btrfs"];
const MEMORY_GIB: [u64; 3] = [8, 12, 16];

/// The constant parts of a host's lines.
#[derive(Debug)]
pub(super) struct HostLines {
    tags: String,
    /// By the index of the measurement.
    own_tags: [String; MEASUREMENTS.len()],
    boot_time: u64,
    memory_bytes: f64,
}

impl HostLines {
    pub(super) fn new(seed: u64, number: u64) -> HostLines {
        let mut random = Random::new(seed, OWN_TAG_STREAMS + number);
        let own_tags = MEASUREMENTS.map(|measurement| own_tags(&measurement, &mut random));
        HostLines {
            tags: Host::new(seed, number).line_tags(),
            own_tags,
            boot_time: random.below(240),
            memory_bytes: (*random.choice(&MEMORY_GIB) << 30) as f64,
        }
    }

    /// Appends the lines of one report.
    pub(super) fn write(
        &self,
        cpu: &[f64; FIELD_COUNT],
        mut process_values: &[f64],
        uptime_seconds: i64,
        time: &str,
        body: &mut Vec<u8>,
    ) {
        for (measurement, own_tags) in MEASUREMENTS.iter().zip(&self.own_tags) {
            let (shared, own) = process_values.split_at(measurement.shared.len());
            let mut own = own.iter();
            body.extend_from_slice(measurement.name.as_bytes());
            body.extend_from_slice(self.tags.as_bytes());
            body.extend_from_slice(own_tags.as_bytes());
            for (position, (name, source)) in measurement.fields.iter().enumerate() {
                body.push(if position == 0 { b' ' } else { b',' });
                body.extend_from_slice(name.as_bytes());
                body.push(b'=');
                match *source {
                    Source::Cpu(walk) => put_float(body, cpu[walk]),
                    Source::Process(_) => {
                        let value = own.next().expect("there is a value for each process");
                        put_integer(body, *value as i64);
                    }
                    Source::Disk(which) => put_integer(body, disk(which, shared[0] as i64)),
                    Source::Memory(which) => put_memory(body, which, self.memory_bytes, shared),
                    Source::BootTime => put_integer(body, self.boot_time as i64),
                    Source::Uptime => put_integer(body, uptime_seconds),
                }
            }
            body.extend_from_slice(time.as_bytes());
            process_values = own.as_slice();
        }
    }
}

fn own_tags(measurement: &Measurement, random: &mut Random) -> String {
    let mut part = |limit| random.below(limit);
    match measurement.name {
        "diskio" => format!(",serial={:03}-{:03}-{:03}", part(1000), part(1000), part(1000)),
        "disk" => format!(",path=/dev/sda{},fstype={}", part(10), FILE_SYSTEMS[part(3) as usize]),
        "net" => format!(",interface=eth{}", part(4)),
        name @ ("nginx" | "redis") => {
            format!(",port={},server={name}_{}", part(20_000) + 1024, part(100_000))
        }
        _ => String::new(),
    }
}

fn disk(which: usize, free: i64) -> i64 {
    const INODE_BYTES: i64 = 4096;
    let total = DISK_BYTES as i64;
    let used = total - free;
    match which {
        0 => total,
        1 => free,
        2 => used,
        3 => (100.0 * (used as f64 / total as f64)) as i64,
        4 => total / INODE_BYTES,
        5 => free / INODE_BYTES,
        _ => used / INODE_BYTES,
    }
}

/// As in the suite, the field `free` has the cached bytes, `cached` the buffered and `buffered` the used ones.
fn put_memory(body: &mut Vec<u8>, which: usize, total: f64, shares: &[f64]) {
    let (used, cached, buffered) = (shares[0], shares[1], shares[2]);
    match which {
        0 => put_integer(body, total as i64),
        1 => put_integer(body, (total - used * total).floor() as i64),
        2 | 5 => put_integer(body, (used * total).floor() as i64),
        3 => put_integer(body, (cached * total).floor() as i64),
        4 => put_integer(body, (buffered * total).floor() as i64),
        6 => put_float(body, 100.0 * used),
        7 => put_float(body, 100.0 * (1.0 - used)),
        _ => put_float(body, 100.0 * (1.0 - buffered)),
    }
}

fn put_integer(body: &mut Vec<u8>, value: i64) {
    body.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    body.push(b'i');
}

/// Sixteen decimals, as the suite writes floats; for values from 0 to 1000.
pub(super) fn put_float(body: &mut Vec<u8>, value: f64) {
    const DECIMALS: usize = 16;
    let whole = value.trunc();
    // The product is rounded, so the last decimal may be off by one. Verification reads the text, not the float.
    let fraction = ((value - whole) * 1e16) as u64;
    body.extend_from_slice(itoa::Buffer::new().format(whole as u64).as_bytes());
    body.push(b'.');
    let mut digits = [b'0'; DECIMALS];
    let mut rest = fraction;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    body.extend_from_slice(&digits);
}
