//! Packets of collectd's network plugin, protocol version 5: parts of a type, a length and a payload. Identifiers and times hold
//! until the next of the same type; each part of values is a point for every value (or one for all).
//!
//! Which values a type has, its `types.db` says (`types`). A packet may be signed or encrypted with the password of a user
//! (`protection`).

mod protection;
mod types;

pub use protection::{Protection, passwords};
pub use types::Types;

use crate::{Point, Refused, Value};
use std::borrow::Cow;
use types::Source;

// Types of parts.
const HOST: u16 = 0x0000;
const TIME: u16 = 0x0001;
const PLUGIN: u16 = 0x0002;
const PLUGIN_INSTANCE: u16 = 0x0003;
const TYPE: u16 = 0x0004;
const TYPE_INSTANCE: u16 = 0x0005;
const VALUES: u16 = 0x0006;
const TIME_HIGH_RESOLUTION: u16 = 0x0008;
const SIGNED: u16 = 0x0200;
const ENCRYPTED: u16 = 0x0210;

const NS_PER_S: u64 = 1_000_000_000;

/// Reads packets.
#[derive(Debug)]
pub struct Reader {
    /// Which values each type has.
    pub types: Types,
    /// The least protection of values that are taken.
    pub protection_min: Protection,
    /// Whether all values of a part are fields of one point; else each is a point of a measurement of its own.
    pub joins_values: bool,
}

/// What holds for the values that follow.
#[derive(Default)]
struct Identity<'a> {
    host: Cow<'a, str>,
    plugin: Cow<'a, str>,
    plugin_instance: Cow<'a, str>,
    kind: Cow<'a, str>,
    type_instance: Cow<'a, str>,
    time_ns: Option<i64>,
}

impl Reader {
    /// Hands each point of a packet to `each`. `password` knows the password of a user.
    ///
    /// # Errors
    /// Why the rest of the packet cannot be read.
    pub fn read(
        &self,
        packet: &[u8],
        password: &mut dyn FnMut(&str) -> Option<String>,
        each: &mut dyn FnMut(Result<Point<'_>, Refused>),
    ) -> Result<(), Refused> {
        let (mut rest, mut protection) = (packet, Protection::None);
        let mut identity = Identity::default();
        while !rest.is_empty() {
            let (kind, payload) = take_part(&mut rest)?;
            match kind {
                SIGNED => {
                    protection::verify(payload, rest, password)?;
                    // What stood before is not signed.
                    (identity, protection) = (Identity::default(), Protection::Sign);
                }
                ENCRYPTED => {
                    let decrypted = protection::decrypt(payload, password)?;
                    self.read_decrypted(&decrypted, each)?;
                }
                VALUES => self.values(payload, &identity, protection, each)?,
                _ => identity.set(kind, payload)?,
            }
        }
        Ok(())
    }

    fn read_decrypted(
        &self,
        mut rest: &[u8],
        each: &mut dyn FnMut(Result<Point<'_>, Refused>),
    ) -> Result<(), Refused> {
        let mut identity = Identity::default();
        while !rest.is_empty() {
            match take_part(&mut rest)? {
                (SIGNED | ENCRYPTED, _) => return Err(Refused::Invalid("protection within protection")),
                (VALUES, payload) => self.values(payload, &identity, Protection::Encrypt, each)?,
                (kind, payload) => identity.set(kind, payload)?,
            }
        }
        Ok(())
    }

    fn values(
        &self,
        payload: &[u8],
        identity: &Identity<'_>,
        protection: Protection,
        each: &mut dyn FnMut(Result<Point<'_>, Refused>),
    ) -> Result<(), Refused> {
        let values = values_of(payload)?;
        if protection < self.protection_min {
            each(Err(Refused::NotAuthentic));
            return Ok(());
        }
        let Some(sources) = self.types.of(&identity.kind) else {
            each(Err(Refused::UnknownType));
            return Ok(());
        };
        let valid = match (sources.len() == values.len(), identity.plugin.is_empty(), identity.time_ns) {
            (false, ..) => Err("a type has another number of values in types.db"),
            (_, true, _) => Err("values of no plugin"),
            (_, _, None) => Err("values without a time"),
            (_, _, Some(time_ns)) => Ok(time_ns),
        };
        let time_ns = match valid {
            Ok(time_ns) => time_ns,
            Err(words) => {
                each(Err(Refused::Invalid(words)));
                return Ok(());
            }
        };
        let values = sources.iter().zip(&values).map(|(source, value)| (source, value.in_type_of(source)));
        if self.joins_values {
            let fields = values.filter_map(|(source, value)| {
                let value = Value::finite(value).ok()?;
                Some((Cow::Borrowed(source.name()), value))
            });
            let fields: Vec<_> = fields.collect();
            each(match fields.is_empty() {
                true => Err(Refused::NotANumber),
                false => Ok(identity.point(Cow::Borrowed(&identity.plugin), fields, time_ns)),
            });
            return Ok(());
        }
        for (source, value) in values {
            let measurement = format!("{}_{}", identity.plugin, source.name());
            let value = Value::finite(value);
            each(
                value.map(|value| identity.point(measurement.into(), vec![("value".into(), value)], time_ns)),
            );
        }
        Ok(())
    }
}

impl<'a> Identity<'a> {
    /// Takes a part. Those of other types are left out: intervals, and notifications.
    fn set(&mut self, kind: u16, payload: &'a [u8]) -> Result<(), Refused> {
        let text = match kind {
            HOST => &mut self.host,
            PLUGIN => &mut self.plugin,
            PLUGIN_INSTANCE => &mut self.plugin_instance,
            TYPE => &mut self.kind,
            TYPE_INSTANCE => &mut self.type_instance,
            TIME | TIME_HIGH_RESOLUTION => {
                let time = u64::from_be_bytes(
                    payload.try_into().map_err(|_| Refused::Invalid("a time has not eight bytes"))?,
                );
                let time_ns =
                    if kind == TIME { time.checked_mul(NS_PER_S) } else { Some(high_resolution(time)) };
                let time_ns = time_ns.and_then(|time_ns| i64::try_from(time_ns).ok());
                self.time_ns = Some(time_ns.ok_or(Refused::Invalid("a time is out of range"))?);
                return Ok(());
            }
            _ => return Ok(()),
        };
        let (end, bytes) = payload.split_last().ok_or(Refused::Invalid("a text without an end"))?;
        if *end != 0 {
            return Err(Refused::Invalid("a text without an end"));
        }
        *text = String::from_utf8_lossy(bytes);
        Ok(())
    }

    fn point<'p>(
        &'p self,
        measurement: Cow<'p, str>,
        fields: Vec<(Cow<'p, str>, Value)>,
        time_ns: i64,
    ) -> Point<'p> {
        let tags = [
            ("host", &self.host),
            ("instance", &self.plugin_instance),
            ("type", &self.kind),
            ("type_instance", &self.type_instance),
        ];
        let tags = tags.into_iter().filter(|(_, value)| !value.is_empty());
        let tags = tags.map(|(key, value)| (key.into(), Cow::Borrowed(value.as_ref()))).collect();
        Point { measurement, tags, fields, time_ns: Some(time_ns) }
    }
}

/// A time in 2⁻³⁰ seconds, rounded to nanoseconds. It fits: 2³⁴ seconds are less than 2⁶⁴ nanoseconds.
fn high_resolution(time: u64) -> u64 {
    const FRACTION_BITS: u32 = 30;
    let fraction = (time & ((1 << FRACTION_BITS) - 1)) * NS_PER_S + (1 << (FRACTION_BITS - 1));
    (time >> FRACTION_BITS) * NS_PER_S + (fraction >> FRACTION_BITS)
}

/// Takes the type and the payload of the next part.
fn take_part<'a>(rest: &mut &'a [u8]) -> Result<(u16, &'a [u8]), Refused> {
    const HEAD_BYTES: usize = 4;
    let broken = Refused::Invalid("a part is longer than its packet");
    let (head, _) = rest.split_at_checked(HEAD_BYTES).ok_or(broken)?;
    let kind = u16::from_be_bytes([head[0], head[1]]);
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let (part, after) = rest.split_at_checked(length.max(1)).ok_or(broken)?;
    let payload = part.get(HEAD_BYTES..).ok_or(Refused::Invalid("a part is shorter than its head"))?;
    *rest = after;
    Ok((kind, payload))
}

/// A value as it was sent.
enum Sent {
    /// A counter or an absolute number.
    Unsigned(u64),
    Gauge(f64),
    Derive(i64),
}

impl Sent {
    /// The value as it is in the type that `types.db` says, as InfluxDB converts it.
    fn in_type_of(&self, source: &Source) -> f64 {
        match (source, self) {
            (Source::Gauge(_), Sent::Gauge(value)) => *value,
            (Source::Gauge(_), Sent::Unsigned(value)) => *value as f64,
            (Source::Gauge(_), Sent::Derive(value)) => *value as f64,
            (Source::Derive(_), Sent::Gauge(value)) => *value as i64 as f64,
            (Source::Derive(_), Sent::Unsigned(value)) => *value as i64 as f64,
            (Source::Derive(_), Sent::Derive(value)) => *value as f64,
            (Source::Unsigned(_), Sent::Gauge(value)) => *value as u64 as f64,
            (Source::Unsigned(_), Sent::Unsigned(value)) => *value as f64,
            (Source::Unsigned(_), Sent::Derive(value)) => *value as u64 as f64,
        }
    }
}

/// The values of a part: their number, the type of each, the values. Gauges are little-endian, everything else is big-endian.
fn values_of(payload: &[u8]) -> Result<Vec<Sent>, Refused> {
    let broken = Refused::Invalid("values have another number than they say");
    let (count, rest) = payload.split_at_checked(2).ok_or(broken)?;
    let count = usize::from(u16::from_be_bytes([count[0], count[1]]));
    if rest.len() != count * 9 {
        return Err(broken);
    }
    let (kinds, values) = rest.split_at(count);
    let values = values.chunks_exact(8).map(|bytes| <[u8; 8]>::try_from(bytes).expect("chunks of eight"));
    let sent = kinds.iter().zip(values).map(|(kind, bytes)| match kind {
        0 | 3 => Ok(Sent::Unsigned(u64::from_be_bytes(bytes))),
        1 => Ok(Sent::Gauge(f64::from_le_bytes(bytes))),
        2 => Ok(Sent::Derive(i64::from_be_bytes(bytes))),
        _ => Err(Refused::Invalid("a value of an unknown type")),
    });
    sent.collect()
}
