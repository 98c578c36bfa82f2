//! The tag sets of rows, numbered in the order in which they occur.

use hashbrown::HashMap;
use nyala_core::Result;
use nyala_exec::memory::MemoryCharge;
use nyala_exec::{Column, QueryMemory};

/// About how many bytes a tag set takes besides its text.
const TAG_SET_BYTES: usize = 64;

/// Tag sets by number.
pub struct TagSets {
    numbers: HashMap<Vec<u8>, u32>,
    held: MemoryCharge,
}

impl TagSets {
    /// No tag sets yet.
    pub fn new(memory: &QueryMemory) -> Self {
        Self { numbers: HashMap::new(), held: memory.hold() }
    }

    /// The number of each row's tag set, from columns of tags.
    pub fn of_rows(&mut self, tags: &[&Column], rows: usize) -> Result<Vec<u32>> {
        let mut numbers = Vec::with_capacity(rows);
        let (mut key, mut last) = (Vec::new(), None);
        for row in 0..rows {
            key.clear();
            for tag in tags {
                let text = match tag {
                    Column::String(array) => tag.is_valid(row).then(|| array.value(row)),
                    Column::Tag(values) => values.text(row),
                    _ => None,
                };
                key.extend_from_slice(text.unwrap_or_default().as_bytes());
                // No text has this byte.
                key.push(0xff);
            }
            // Rows of one series usually follow each other.
            let number = match &last {
                Some((known, number)) if *known == key => *number,
                _ => {
                    let number = self.number(&key)?;
                    last = Some((key.clone(), number));
                    number
                }
            };
            numbers.push(number);
        }
        Ok(numbers)
    }

    fn number(&mut self, key: &[u8]) -> Result<u32> {
        if let Some(number) = self.numbers.get(key) {
            return Ok(*number);
        }
        self.held.charge(key.len() + TAG_SET_BYTES)?;
        let number = self.numbers.len() as u32;
        self.numbers.insert(key.to_vec(), number);
        Ok(number)
    }
}
