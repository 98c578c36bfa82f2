//! Random measurements: tags, fields of all types, gaps.
//!
//! Floats are multiples of 1/8, so that their sums are exact whatever the order.

use rand::Rng;
use rand::rngs::SmallRng;

const SECOND_NS: i64 = 1_000_000_000;
const WEEK_S: i64 = 604_800;
/// Shards are weeks that begin on Mondays; 1970 began on a Thursday.
const SHARD_END_S: i64 = 2_600 * WEEK_S + 4 * 86_400;
const ONE_SHARD_START_S: i64 = 1_600_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum FieldType {
    Float,
    Integer,
    Unsigned,
    String,
    Boolean,
}

impl FieldType {
    pub fn is_number(self) -> bool {
        matches!(self, Self::Float | Self::Integer | Self::Unsigned)
    }
}

pub struct Field {
    pub name: &'static str,
    pub field_type: FieldType,
}

pub struct Tag {
    pub name: &'static str,
    pub values: Vec<String>,
}

pub struct Measurement {
    pub name: &'static str,
    pub tags: Vec<Tag>,
    pub fields: Vec<Field>,
    pub points: usize,
    /// The times of its points in seconds, about this far apart.
    pub start_s: i64,
    pub step_s: i64,
    /// How many consecutive points have the same time; 1 if all times differ.
    pub ties: i64,
}

pub struct Schema {
    pub measurements: Vec<Measurement>,
    /// Whether points of several series have equal times.
    pub has_ties: bool,
}

impl Schema {
    /// `with_unsigned`: the peer stores unsigned integers.
    pub fn random(with_unsigned: bool, random: &mut SmallRng) -> Self {
        let names = ["cpu", "mem", "net"];
        let count = random.random_range(2..=names.len());
        let ties = if random.random_bool(0.3) { random.random_range(2..=4) } else { 1 };
        let measurement = |name| Measurement::random(name, with_unsigned, ties, random);
        Self { measurements: names[..count].iter().copied().map(measurement).collect(), has_ties: ties > 1 }
    }

    /// Whether all points are in the same shard.
    pub fn is_in_one_shard(&self) -> bool {
        let shard = |measurement: &Measurement| measurement.start_s.div_euclid(WEEK_S);
        self.measurements.iter().all(|measurement| {
            measurement.is_in_one_shard() && shard(measurement) == shard(&self.measurements[0])
        })
    }

    /// All points as line protocol.
    pub fn lines(&self, random: &mut SmallRng) -> Vec<String> {
        self.measurements.iter().flat_map(|measurement| measurement.lines(random)).collect()
    }
}

impl Measurement {
    fn random(name: &'static str, with_unsigned: bool, ties: i64, random: &mut SmallRng) -> Self {
        let mut tags = Vec::new();
        // Every series has the last tag, so that no series key is the prefix of another: InfluxDB keeps such keys in
        // its index when their points are deleted.
        for tag in ["rack", "region", "zone"] {
            if tag == "zone" || random.random_bool(0.6) {
                let count = random.random_range(1..=5);
                tags.push(Tag {
                    name: tag,
                    values: (0..count).map(|value| format!("{tag}{value}")).collect(),
                });
            }
        }
        let mut fields = Vec::new();
        for (field, field_type) in [
            ("f", FieldType::Float),
            ("g", FieldType::Float),
            // In conditions of SHOW, this name stands for the values of tags.
            ("value", FieldType::Float),
            ("i", FieldType::Integer),
            ("n", FieldType::Integer),
            ("u", FieldType::Unsigned),
            ("s", FieldType::String),
            ("b", FieldType::Boolean),
        ] {
            let is_known = with_unsigned || field_type != FieldType::Unsigned;
            if field == "f" || (is_known && random.random_bool(0.7)) {
                fields.push(Field { name: field, field_type });
            }
        }
        let start_s = match random.random_range(0..3) {
            // Before and after 1970, in one shard, and across shards.
            0 => -3_000,
            1 => ONE_SHARD_START_S,
            _ => SHARD_END_S - 1_200,
        };
        let points = random.random_range(20..400);
        let step_s = random.random_range(1..=30);
        Self { name, tags, fields, points, start_s, step_s, ties }
    }

    /// The time of its first point and the time after its last, in seconds.
    pub fn range_s(&self) -> (i64, i64) {
        (self.start_s, self.start_s + self.points as i64 * self.step_s)
    }

    pub fn is_in_one_shard(&self) -> bool {
        let (start_s, end_s) = self.range_s();
        !(start_s..end_s).contains(&SHARD_END_S)
    }

    pub fn fields_of(&self, wanted: impl Fn(FieldType) -> bool) -> Vec<&'static str> {
        self.fields.iter().filter(|field| wanted(field.field_type)).map(|field| field.name).collect()
    }

    pub fn lines(&self, random: &mut SmallRng) -> Vec<String> {
        let mut lines = Vec::with_capacity(self.points);
        for point in 0..self.points as i64 {
            let mut line = self.name.to_owned();
            for tag in &self.tags {
                if tag.name == "zone" || random.random_bool(0.8) {
                    let value = &tag.values[random.random_range(0..tag.values.len())];
                    line.push_str(&format!(",{}={value}", tag.name));
                }
            }
            let mut separator = ' ';
            for field in &self.fields {
                if separator == ',' && random.random_bool(0.25) {
                    continue;
                }
                let value = match field.field_type {
                    FieldType::Float => format!("{}", f64::from(random.random_range(-800..800)) / 8.0),
                    FieldType::Integer => format!("{}i", random.random_range(-50..50)),
                    FieldType::Unsigned => format!("{}u", random.random_range(0..100)),
                    FieldType::String => format!("\"t{}\"", random.random_range(0..6)),
                    FieldType::Boolean => format!("{}", random.random_bool(0.5)),
                };
                line.push_str(&format!("{separator}{}={value}", field.name));
                separator = ',';
            }
            let jitter_ns =
                if self.ties > 1 { 0 } else { random.random_range(0..self.step_s * SECOND_NS / 2) };
            let step = point / self.ties * self.ties;
            let time_ns = (self.start_s + step * self.step_s) * SECOND_NS + jitter_ns;
            line.push_str(&format!(" {time_ns}"));
            lines.push(line);
        }
        lines
    }
}
