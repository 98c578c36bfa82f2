//! Values of one field: a column without gaps.

use std::ops::Range;

/// The type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// 64-bit float.
    Float,
    /// Signed 64-bit integer.
    Integer,
    /// Boolean.
    Boolean,
    /// Bytes. They need not be UTF-8.
    String,
    /// Unsigned 64-bit integer.
    Unsigned,
}

/// Strings, one after the other: string `n` is `bytes[ends[n - 1]..ends[n]]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    /// Where each ends. All of them have less than 4 GiB.
    pub ends: Vec<u32>,
    /// Their bytes.
    pub bytes: Vec<u8>,
}

impl Strings {
    /// The string with a number.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.bytes[self.start(index)..self.ends[index] as usize]
    }

    /// Appends a string.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Where a string begins.
    pub fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] as usize }
    }

    fn extend(&mut self, other: &Self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (first, last) = (other.start(range.start), other.ends[range.end - 1] as usize);
        let base = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes[first..last]);
        self.ends.extend(other.ends[range].iter().map(|end| (*end as usize - first + base) as u32));
    }
}

/// Values of one type.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Floats. Files may hold any, even those that InfluxDB refuses.
    Float(Vec<f64>),
    /// Signed integers.
    Integer(Vec<i64>),
    /// Booleans.
    Boolean(Vec<bool>),
    /// Strings.
    String(Strings),
    /// Unsigned integers.
    Unsigned(Vec<u64>),
}

impl Values {
    /// No values of a type.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Float => Self::Float(Vec::new()),
            Kind::Integer => Self::Integer(Vec::new()),
            Kind::Boolean => Self::Boolean(Vec::new()),
            Kind::String => Self::String(Strings::default()),
            Kind::Unsigned => Self::Unsigned(Vec::new()),
        }
    }

    /// Their type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Float(_) => Kind::Float,
            Self::Integer(_) => Kind::Integer,
            Self::Boolean(_) => Kind::Boolean,
            Self::String(_) => Kind::String,
            Self::Unsigned(_) => Kind::Unsigned,
        }
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        match self {
            Self::Float(values) => values.len(),
            Self::Integer(values) => values.len(),
            Self::Boolean(values) => values.len(),
            Self::String(values) => values.ends.len(),
            Self::Unsigned(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Approximate bytes that they take.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Boolean(values) => values.len(),
            Self::String(values) => 4 * values.ends.len() + values.bytes.len(),
            Self::Float(_) | Self::Integer(_) | Self::Unsigned(_) => 8 * self.len(),
        }
    }

    /// Removes all of them, and keeps the memory.
    pub fn clear(&mut self) {
        match self {
            Self::Float(values) => values.clear(),
            Self::Integer(values) => values.clear(),
            Self::Boolean(values) => values.clear(),
            Self::String(values) => {
                values.ends.clear();
                values.bytes.clear();
            }
            Self::Unsigned(values) => values.clear(),
        }
    }

    /// Appends values of the same type.
    pub fn extend(&mut self, other: &Self, range: Range<usize>) {
        match (self, other) {
            (Self::Float(own), Self::Float(other)) => own.extend_from_slice(&other[range]),
            (Self::Integer(own), Self::Integer(other)) => own.extend_from_slice(&other[range]),
            (Self::Boolean(own), Self::Boolean(other)) => own.extend_from_slice(&other[range]),
            (Self::String(own), Self::String(other)) => own.extend(other, range),
            (Self::Unsigned(own), Self::Unsigned(other)) => own.extend_from_slice(&other[range]),
            (own, other) => panic!("values of {:?} are appended to {:?}", other.kind(), own.kind()),
        }
    }
}

/// Values with their times, which ascend strictly.
#[derive(Debug, Clone, PartialEq)]
pub struct Points {
    /// The times, ns since 1970.
    pub times_ns: Vec<i64>,
    /// As many values.
    pub values: Values,
}

impl Points {
    /// No points of a type.
    pub fn new(kind: Kind) -> Self {
        Self { times_ns: Vec::new(), values: Values::new(kind) }
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.times_ns.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.times_ns.is_empty()
    }

    /// Removes all of them, and keeps the memory.
    pub fn clear(&mut self) {
        self.times_ns.clear();
        self.values.clear();
    }

    /// Appends points of the same type.
    pub fn extend(&mut self, other: &Self, range: Range<usize>) {
        self.times_ns.extend_from_slice(&other.times_ns[range.clone()]);
        self.values.extend(&other.values, range);
    }

    /// Removes the points of some ranges of times, which include both ends, ascend and have nothing in common.
    pub fn remove_times(&mut self, ranges: &[(i64, i64)]) {
        let is_removed = |time_ns: i64| {
            let after = ranges.partition_point(|(first, _)| *first <= time_ns);
            after > 0 && ranges[after - 1].1 >= time_ns
        };
        if ranges.is_empty() || !self.times_ns.iter().any(|time_ns| is_removed(*time_ns)) {
            return;
        }
        let mut kept = Self::new(self.values.kind());
        let mut start = 0;
        for index in 0..=self.len() {
            if self.times_ns.get(index).is_none_or(|time_ns| is_removed(*time_ns)) {
                kept.extend(self, start..index);
                start = index + 1;
            }
        }
        *self = kept;
    }

    /// Removes floats that are infinite or no numbers, and returns how many there were.
    pub fn remove_not_finite(&mut self) -> usize {
        let Values::Float(floats) = &self.values else { return 0 };
        let before = floats.len();
        if floats.iter().all(|float| float.is_finite()) {
            return 0;
        }
        let finite = floats.iter().map(|float| float.is_finite());
        let times_ns = self.times_ns.iter().zip(finite).filter(|(_, finite)| *finite);
        self.times_ns = times_ns.map(|(time_ns, _)| *time_ns).collect();
        self.values = Values::Float(floats.iter().copied().filter(|float| float.is_finite()).collect());
        before - self.len()
    }

    /// Sorts them by time. Of points with the same time, the last one stays.
    pub fn sort(&mut self) {
        if self.times_ns.is_sorted_by(|left, right| left < right) {
            return;
        }
        let mut order: Vec<usize> = (0..self.len()).collect();
        order.sort_by_key(|index| self.times_ns[*index]);
        let mut sorted = Self::new(self.values.kind());
        for (place, index) in order.iter().enumerate() {
            let is_last =
                order.get(place + 1).is_none_or(|next| self.times_ns[*next] != self.times_ns[*index]);
            if is_last {
                sorted.extend(self, *index..*index + 1);
            }
        }
        *self = sorted;
    }
}
