//! What a Parquet file's footer declares: its schema, and how many column chunks there are.
//!
//! The `parquet` crate reads fields by their numbers, whatever type they say they have, recurses into groups of columns, makes room for
//! as many children as a group declares, and copies the names on the way to each column. None of that can be caught. So every field that
//! it knows has its type here, which makes both read the same, and what it is told to build is bounded. Then `layout` goes on.

use super::thrift::{Kind, Malformed};

/// More row groups than Parquet's own number of one can count.
const ROW_GROUPS_MAX: i64 = i16::MAX as i64;
/// Columns of all row groups: each takes about 512 bytes as the `parquet` crate has it, so these are 256 MiB.
const CHUNKS_MAX: i64 = 1 << 19;
/// Columns and groups of columns.
const ELEMENTS_MAX: i64 = 10_000;
/// Groups in groups.
const DEPTH_MAX: usize = 32;
/// All names of all columns, each with those of the groups around it.
const NAMES_BYTES_MAX: i64 = 16 << 20;

/// What is known of a footer that is being walked over.
#[derive(Default)]
pub(super) struct Footer {
    /// The last of its own fields.
    field: i16,
    elements: i64,
    element: Element,
    /// The groups around the next element, the innermost last.
    groups: Vec<Group>,
    columns: i64,
    names_bytes: i64,
    refusal: Option<Refusal>,
}

/// Why a footer is refused.
pub(super) enum Refusal {
    Corrupt(&'static str),
    TooLarge(String),
}

/// An element of the schema, in front of its children.
#[derive(Default)]
struct Element {
    children: i64,
    name_bytes: i64,
}

struct Group {
    /// How many of its children come still.
    children: i64,
    /// Its name and those of the groups around it.
    names_bytes: i64,
}

impl Footer {
    /// Takes a value.
    pub(super) fn note(&mut self, way: &[i16], kind: Kind, number: i64) -> Result<(), Malformed> {
        let noted = self.check(way, kind, number);
        noted.map_err(|refusal| {
            self.refusal = Some(refusal);
            Malformed
        })
    }

    /// Why the footer is refused, unless its form is wrong already.
    pub(super) fn refusal(self) -> Option<Refusal> {
        self.refusal
    }

    fn check(&mut self, way: &[i16], kind: Kind, number: i64) -> Result<(), Refusal> {
        if wanted(way).is_some_and(|wanted| kind != wanted) {
            return Err(Refusal::Corrupt("a field has the type of another one"));
        }
        match way {
            [field] if self.field < 4 => {
                // They are there in each file, in this order. The crate would begin with another list if there were several.
                if *field != self.field + 1 {
                    return Err(Refusal::Corrupt("its fields are not in order"));
                }
                self.field = *field;
                match field {
                    2 => self.begin_schema(number),
                    4 => self.row_groups(number),
                    _ => Ok(()),
                }
            }
            [2 | 4] => Err(Refusal::Corrupt("a field is there twice")),
            [2, 0, 4] => {
                self.element.name_bytes = number;
                Ok(())
            }
            [2, 0, 5] => {
                self.element.children = number;
                Ok(())
            }
            [2, 0] => {
                let element = std::mem::take(&mut self.element);
                self.element(&element)
            }
            _ => Ok(()),
        }
    }

    fn begin_schema(&mut self, elements: i64) -> Result<(), Refusal> {
        if elements > ELEMENTS_MAX {
            return Err(Refusal::TooLarge(format!(
                "a schema of {elements} columns has more than {ELEMENTS_MAX}"
            )));
        }
        self.elements = elements;
        // The first one is a group around all others.
        self.groups.push(Group { children: 1, names_bytes: 0 });
        Ok(())
    }

    /// Takes an element of the schema. All of a group's come behind it.
    fn element(&mut self, element: &Element) -> Result<(), Refusal> {
        let Some(around) = self.groups.last_mut() else {
            return Err(Refusal::Corrupt("the schema has columns outside of its groups"));
        };
        around.children -= 1;
        let names_bytes = around.names_bytes + element.name_bytes;
        self.elements -= 1;
        if !(0..=self.elements).contains(&element.children) {
            return Err(Refusal::Corrupt("a group of the schema declares more columns than there are"));
        }
        if element.children > 0 {
            self.groups.push(Group { children: element.children, names_bytes });
        } else {
            self.columns += 1;
            self.names_bytes += names_bytes;
        }
        if self.groups.len() > DEPTH_MAX {
            return Err(Refusal::TooLarge(format!(
                "its schema has more than {DEPTH_MAX} groups in each other"
            )));
        }
        if self.names_bytes > NAMES_BYTES_MAX {
            return Err(Refusal::TooLarge(format!(
                "the names of its columns take more than {NAMES_BYTES_MAX} bytes"
            )));
        }
        while self.groups.last().is_some_and(|group| group.children == 0) {
            self.groups.pop();
        }
        Ok(())
    }

    fn row_groups(&self, row_groups: i64) -> Result<(), Refusal> {
        if self.elements > 0 || !self.groups.is_empty() {
            return Err(Refusal::Corrupt("a group of the schema lacks columns"));
        }
        if row_groups > ROW_GROUPS_MAX {
            return Err(Refusal::TooLarge(format!("{row_groups} row groups are too many")));
        }
        match row_groups * self.columns > CHUNKS_MAX {
            true => Err(Refusal::TooLarge(format!(
                "{row_groups} row groups of {} columns are more than {CHUNKS_MAX} in all",
                self.columns
            ))),
            false => Ok(()),
        }
    }
}

/// The type of a field that the `parquet` crate knows; `None` of others, which it skips by their types. What is in row groups is bounded
/// by their number and by the footer's length.
fn wanted(way: &[i16]) -> Option<Kind> {
    match way {
        [1 | 3] => Some(Kind::Number),
        [2 | 4] => Some(Kind::Structures),
        [2, 0, element @ ..] => match element {
            [] | [10] | [10, _] => Some(Kind::Structure),
            [1..=3 | 5..=9] => Some(Kind::Number),
            [4] => Some(Kind::Text),
            // Decimals; times; integers; variants; places on the earth.
            [10, 5, 1 | 2] | [10, 18, 2] => Some(Kind::Number),
            [10, 7 | 8, 1] | [10, 10, 2] => Some(Kind::Bool),
            [10, 7 | 8, 2] | [10, 7 | 8, 2, _] => Some(Kind::Structure),
            [10, 10 | 16, 1] => Some(Kind::Byte),
            [10, 17 | 18, 1] => Some(Kind::Text),
            _ => None,
        },
        _ => None,
    }
}
