//! Decoded strings: one buffer and where each ends.

/// Byte strings in one buffer, in Arrow's layout (`offsets` begin with 0 and are one more than the values).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteValues {
    offsets: Vec<i32>,
    data: Vec<u8>,
}

impl Default for ByteValues {
    fn default() -> Self {
        Self::new()
    }
}

impl ByteValues {
    /// No values.
    pub fn new() -> Self {
        Self { offsets: vec![0], data: Vec::new() }
    }

    /// Values.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all values, keeps the memory.
    pub fn clear(&mut self) {
        self.offsets.truncate(1);
        self.data.clear();
    }

    /// Value `index`.
    pub fn get(&self, index: usize) -> &[u8] {
        &self.data[self.offsets[index] as usize..self.offsets[index + 1] as usize]
    }

    /// The values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// Appends a value.
    ///
    /// # Panics
    /// If the buffer would pass 2 GiB; a block adds at most 1 GiB, so callers bound how many they append.
    pub fn push(&mut self, value: &[u8]) {
        self.data.extend_from_slice(value);
        self.end_value();
    }

    /// The buffer and the offsets, for building an Arrow array without a copy.
    pub fn into_parts(self) -> (Vec<i32>, Vec<u8>) {
        (self.offsets, self.data)
    }

    /// Bytes of all values.
    pub fn data_len(&self) -> usize {
        self.data.len()
    }

    /// For decoders, which append bytes first and then say where the value ends.
    pub(super) fn data_mut(&mut self) -> &mut Vec<u8> {
        &mut self.data
    }

    /// Makes room for so many more values, not for their bytes.
    pub(super) fn reserve_values(&mut self, count: usize) {
        self.offsets.reserve(count);
    }

    pub(super) fn end_value(&mut self) {
        self.end_value_at(self.data.len());
    }

    pub(super) fn end_value_at(&mut self, end: usize) {
        self.offsets.push(i32::try_from(end).expect("strings of one buffer pass 2 GiB"));
    }

    /// Takes back what a failed decode appended.
    pub(super) fn truncate(&mut self, values: usize) {
        self.offsets.truncate(values + 1);
        self.data.truncate(self.offsets[values] as usize);
    }
}

impl<'a> FromIterator<&'a [u8]> for ByteValues {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(values: I) -> Self {
        let mut all = Self::new();
        values.into_iter().for_each(|value| all.push(value));
        all
    }
}
