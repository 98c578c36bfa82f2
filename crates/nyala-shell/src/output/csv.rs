//! Comma-separated values of InfluxQL, with the name and the tags of the series in front, as influx prints them. SQL's come
//! from the server.

use super::{Cell, Heading};
use std::io::{Result, Write};

/// The series that is printed.
#[derive(Default)]
pub(crate) struct Csv {
    /// The columns that were printed last.
    columns: Option<(bool, bool, Vec<String>)>,
    /// What stands in front of each row.
    prefix: Vec<u8>,
}

impl Csv {
    pub(super) fn begin(&mut self, heading: Heading, out: &mut dyn Write) -> Result<()> {
        let (has_name, has_tags) = (heading.name.is_some(), !heading.tags.is_empty());
        self.prefix.clear();
        if let Some(name) = &heading.name {
            push(name, &mut self.prefix);
            self.prefix.push(b',');
        }
        if has_tags {
            push(&heading.tags_text(), &mut self.prefix);
            self.prefix.push(b',');
        }
        let columns = Some((has_name, has_tags, heading.columns));
        if columns == self.columns {
            return Ok(());
        }
        let mut line = Vec::new();
        if self.columns.is_some() {
            line.push(b'\n');
        }
        line.extend_from_slice(if has_name { b"name," } else { b"" });
        line.extend_from_slice(if has_tags { b"tags," } else { b"" });
        let names = columns.iter().flat_map(|(_, _, names)| names);
        for (number, name) in names.enumerate() {
            if number > 0 {
                line.push(b',');
            }
            push(name, &mut line);
        }
        line.push(b'\n');
        self.columns = columns;
        out.write_all(&line)
    }

    pub(super) fn row(&mut self, cells: &[Cell<'_>], out: &mut dyn Write) -> Result<()> {
        let mut line = self.prefix.clone();
        for (number, cell) in cells.iter().enumerate() {
            if number > 0 {
                line.push(b',');
            }
            match cell {
                Cell::Null => {}
                Cell::Number(text) => line.extend_from_slice(text.as_bytes()),
                Cell::Text(text) => push(text, &mut line),
            }
        }
        line.push(b'\n');
        out.write_all(&line)
    }
}

/// Appends a value, in quotes if it needs them.
fn push(text: &str, line: &mut Vec<u8>) {
    if !text.contains([',', '"', '\n', '\r']) {
        return line.extend_from_slice(text.as_bytes());
    }
    line.push(b'"');
    line.extend_from_slice(text.replace('"', "\"\"").as_bytes());
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_stand_above_series_that_share_them() {
        let (mut csv, mut out) = (Csv::default(), Vec::new());
        let heading = |tag: &str, column: &str| Heading {
            name: Some("m,n".to_owned()),
            tags: vec![("h".to_owned(), tag.to_owned())],
            columns: vec!["time".to_owned(), column.to_owned()],
            numeric: None,
        };
        for heading in [heading("a", "v"), heading("b", "v"), heading("b", "w")] {
            csv.begin(heading, &mut out).unwrap();
            csv.row(&[Cell::Number("1"), Cell::Text("x\"".into())], &mut out).unwrap();
        }
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "name,tags,time,v\n\"m,n\",h=a,1,\"x\"\"\"\n\"m,n\",h=b,1,\"x\"\"\"\n\nname,tags,time,w\n\"m,n\",h=b,1,\"x\"\"\"\n"
        );
    }
}
