//! Skips over structures of Thrift's compact protocol, and notes the numbers in them that somebody asks for.
//!
//! Nothing is allocated: a list or a text that is longer than the bytes that are left is an error.

/// The bytes are no such structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

type Result<T> = std::result::Result<T, Malformed>;

/// Structures in structures, at most. Parquet's have about eight.
const DEPTH_MAX: usize = 32;

/// Types of fields.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// What a value is, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Bool,
    Byte,
    Text,
    /// It is noted at its end, after what is in it.
    Structure,
    /// A list of structures, which is noted before them.
    Structures,
    Other,
}

/// Bytes that are left.
pub(super) struct Walker<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Is told of each value: the ids of the fields on the way, what it is, and its number or its length. May refuse it.
pub(super) type Note<'n> = &'n mut dyn FnMut(&[i16], Kind, i64) -> Result<()>;

impl<'a> Walker<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How many bytes were walked over.
    pub(super) fn walked(&self) -> usize {
        self.at
    }

    /// Walks over a structure.
    pub(super) fn structure(&mut self, note: Note<'_>) -> Result<()> {
        let mut way = Vec::with_capacity(DEPTH_MAX);
        self.fields(&mut way, note)
    }

    fn fields(&mut self, way: &mut Vec<i16>, note: Note<'_>) -> Result<()> {
        if way.len() >= DEPTH_MAX {
            return Err(Malformed);
        }
        way.push(0);
        let mut id = 0_i16;
        loop {
            let header = self.byte()?;
            let kind = header & 0x0f;
            if kind == 0 {
                break;
            }
            id = match header >> 4 {
                0 => i16::try_from(self.zigzag()?).map_err(|_| Malformed)?,
                more => id.checked_add(i16::from(more)).ok_or(Malformed)?,
            };
            *way.last_mut().ok_or(Malformed)? = id;
            match kind {
                TRUE | FALSE => note(way, Kind::Bool, 0)?,
                kind => self.value(kind, way, note)?,
            }
        }
        way.pop();
        Ok(())
    }

    fn value(&mut self, kind: u8, way: &mut Vec<i16>, note: Note<'_>) -> Result<()> {
        match kind {
            // In lists; as a field it is in the header.
            TRUE | FALSE => self.skip(1),
            BYTE => {
                note(way, Kind::Byte, 0)?;
                self.skip(1)
            }
            4..=6 => {
                let number = self.zigzag()?;
                note(way, Kind::Number, number)
            }
            DOUBLE => {
                note(way, Kind::Other, 0)?;
                self.skip(8)
            }
            BINARY => {
                let length = self.length()?;
                self.skip(length)?;
                note(way, Kind::Text, length as i64)
            }
            LIST | SET => {
                let header = self.byte()?;
                let length = match header >> 4 {
                    15 => self.length()?,
                    short => usize::from(short),
                };
                // Each element takes a byte at least.
                if length > self.bytes.len() - self.at {
                    return Err(Malformed);
                }
                let is_of_structures = header & 0x0f == STRUCT || length == 0;
                let kind = if is_of_structures { Kind::Structures } else { Kind::Other };
                note(way, kind, length as i64)?;
                (0..length).try_for_each(|_| self.element(header & 0x0f, way, note))
            }
            MAP => {
                let length = self.length()?;
                note(way, Kind::Other, length as i64)?;
                if length == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                if length > self.bytes.len() - self.at {
                    return Err(Malformed);
                }
                for _ in 0..length {
                    self.element(kinds >> 4, way, note)?;
                    self.element(kinds & 0x0f, way, note)?;
                }
                Ok(())
            }
            STRUCT => {
                self.fields(way, note)?;
                note(way, Kind::Structure, 0)
            }
            _ => Err(Malformed),
        }
    }

    fn element(&mut self, kind: u8, way: &mut Vec<i16>, note: Note<'_>) -> Result<()> {
        if way.len() >= DEPTH_MAX {
            return Err(Malformed);
        }
        way.push(0);
        let walked = self.value(kind, way, note);
        way.pop();
        walked
    }

    fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        if count > self.bytes.len() - self.at {
            return Err(Malformed);
        }
        self.at += count;
        Ok(())
    }

    fn varint(&mut self) -> Result<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn zigzag(&mut self) -> Result<i64> {
        let number = self.varint()?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    fn length(&mut self) -> Result<usize> {
        usize::try_from(self.varint()?).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids of the fields on the way to a value, and the value.
    type Noted = (Vec<i16>, Kind, i64);

    fn noted(bytes: &[u8]) -> Result<(Vec<Noted>, usize)> {
        let mut all = Vec::new();
        let mut walker = Walker::new(bytes);
        walker.structure(&mut |way, kind, number| {
            all.push((way.to_vec(), kind, number));
            Ok(())
        })?;
        Ok((all, walker.walked()))
    }

    #[test]
    fn values_are_noted_with_the_way_to_them() {
        // 1: i32 -1, 2: text "ab", 4: list of two structures with 1: i64 300, 5: true
        let bytes = [0x15, 0x01, 0x18, 2, b'a', b'b', 0x29, 0x2c, 0x16, 0xd8, 4, 0, 0x16, 0, 0, 0x11, 0, 9];
        let (all, walked) = noted(&bytes).unwrap();
        let wanted: [(&[i16], Kind, i64); 8] = [
            (&[1], Kind::Number, -1),
            (&[2], Kind::Text, 2),
            (&[4], Kind::Structures, 2),
            (&[4, 0, 1], Kind::Number, 300),
            (&[4, 0], Kind::Structure, 0),
            (&[4, 0, 1], Kind::Number, 0),
            (&[4, 0], Kind::Structure, 0),
            (&[5], Kind::Bool, 0),
        ];
        assert_eq!(all, wanted.map(|(way, kind, number)| (way.to_vec(), kind, number)));
        assert_eq!(walked, bytes.len() - 1);
    }

    #[test]
    fn lengths_that_the_bytes_cannot_have_are_malformed() {
        for bytes in [
            &[][..],
            &[0x15],
            &[0x18, 0xff, 0xff, 0xff, 0x7f, b'a', 0],
            &[0x19, 0xfc, 0xff, 0xff, 0xff, 0x7f, 0, 0],
            &[0x1b, 0xff, 0xff, 0x03, 0x55, 0],
            &[0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0],
            &[0x1d, 0],
            &[0x1c; 100],
            &[0x19, 0x19].repeat(100),
        ] {
            assert_eq!(noted(bytes), Err(Malformed), "{bytes:?}");
        }
    }
}
