//! Aligned columns. The widths are those of the first rows, so that memory does not grow with an answer: a later value that
//! is longer pushes the rest of its row to the right.

use super::{Cell, Heading};
use crate::style::{escaped, width};
use std::io::{Result, Write};

/// Rows that are looked at before the first is printed.
const MEASURED_ROWS: usize = 1000;
/// The same in bytes.
const MEASURED_BYTES: usize = 1 << 20;

/// The rows of one heading.
#[derive(Default)]
pub(crate) struct Table {
    heading: Heading,
    /// Rows that wait for the widths of the columns, with whether a value is a number.
    waiting: Vec<Vec<(String, Option<bool>)>>,
    waiting_bytes: usize,
    /// Known when the heading has been printed.
    columns: Option<Vec<Column>>,
    rows: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    width: usize,
    is_right: bool,
}

impl Table {
    pub(super) fn begin(&mut self, heading: Heading) -> Result<()> {
        *self = Self { heading, ..Self::default() };
        Ok(())
    }

    pub(super) fn row(&mut self, cells: &[Cell<'_>], out: &mut dyn Write) -> Result<()> {
        self.rows += 1;
        if let Some(columns) = &self.columns {
            let cells = cells.iter().map(Cell::shown);
            return write_row(columns, cells.map(|text| (width(&text), text)), out);
        }
        let kept: Vec<_> = cells.iter().map(|cell| (cell.shown().into_owned(), is_number(cell))).collect();
        self.waiting_bytes += kept.iter().map(|(text, _)| text.len()).sum::<usize>();
        self.waiting.push(kept);
        match self.waiting.len() >= MEASURED_ROWS || self.waiting_bytes >= MEASURED_BYTES {
            true => self.print_waiting(out),
            false => Ok(()),
        }
    }

    pub(super) fn end(&mut self, out: &mut dyn Write) -> Result<()> {
        if self.columns.is_none() {
            self.print_waiting(out)?;
        }
        match self.rows {
            1 => out.write_all(b"(1 row)\n\n"),
            rows => writeln!(out, "({rows} rows)\n"),
        }
    }

    /// Prints the heading and the rows that wait.
    fn print_waiting(&mut self, out: &mut dyn Write) -> Result<()> {
        let names: Vec<_> = self.heading.columns.iter().map(|name| escaped(name)).collect();
        let columns: Vec<Column> = names
            .iter()
            .enumerate()
            .map(|(number, name)| {
                let cells = self.waiting.iter().filter_map(|row| row.get(number));
                let widest = cells.clone().map(|(text, _)| width(text)).max().unwrap_or(0);
                let is_right = match &self.heading.numeric {
                    Some(numeric) => numeric.get(number).copied().unwrap_or(false),
                    None => {
                        let mut known = cells.filter_map(|(_, is_number)| *is_number).peekable();
                        known.peek().is_some() && known.all(|is_number| is_number)
                    }
                };
                Column { width: widest.max(width(name)), is_right }
            })
            .collect();
        for title in self.heading.titles() {
            writeln!(out, "{}", escaped(&title))?;
        }
        let names = names.iter().map(|name| (width(name), name));
        write_row(&columns, names, out)?;
        let rules: Vec<String> = columns.iter().map(|column| "-".repeat(column.width + 2)).collect();
        writeln!(out, "{}", rules.join("+"))?;
        for row in self.waiting.drain(..) {
            write_row(&columns, row.iter().map(|(text, _)| (width(text), text)), out)?;
        }
        self.columns = Some(columns);
        Ok(())
    }
}

/// Whether a value is a number; NULL does not say.
fn is_number(cell: &Cell<'_>) -> Option<bool> {
    match cell {
        Cell::Null => None,
        Cell::Number(_) => Some(true),
        Cell::Text(_) => Some(false),
    }
}

/// Writes a line of texts, each with its width.
fn write_row(
    columns: &[Column],
    cells: impl ExactSizeIterator<Item = (usize, impl AsRef<str>)>,
    out: &mut dyn Write,
) -> Result<()> {
    let last = cells.len().saturating_sub(1);
    for (number, (width, text)) in cells.enumerate() {
        let column = columns.get(number).copied().unwrap_or(Column { width, is_right: false });
        let blanks = column.width.saturating_sub(width);
        let (before, after) = if column.is_right { (blanks, 0) } else { (0, blanks) };
        // Nothing stands behind the last column, as in psql.
        let after = if number == last { 0 } else { after };
        let separator = if number == 0 { "" } else { "|" };
        let end = if number == last { "" } else { " " };
        write!(out, "{separator} {:before$}{}{:after$}{end}", "", text.as_ref(), "")?;
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(heading: Heading, rows: &[Vec<Cell<'_>>]) -> String {
        let (mut table, mut out) = (Table::default(), Vec::new());
        table.begin(heading).unwrap();
        rows.iter().for_each(|row| table.row(row, &mut out).unwrap());
        table.end(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_by_what_is_seen() {
        let heading = Heading {
            name: Some("m".to_owned()),
            tags: vec![("host".to_owned(), "a\u{1b}[31m".to_owned())],
            columns: ["time", "city", "v"].map(str::to_owned).to_vec(),
            numeric: None,
        };
        let rows = [
            vec![Cell::Number("1000"), Cell::Text("東京".into()), Cell::Number("1.5")],
            vec![Cell::Number("7"), Cell::Text("a\nb".into()), Cell::Null],
        ];
        assert_eq!(
            printed(heading, &rows),
            "name: m\ntags: host=a\\x1b[31m\n time | city |    v\n------+------+------\n 1000 | 東京 |  1.5\n    7 | a\\nb | NULL\n(2 rows)\n\n"
        );
    }

    #[test]
    fn later_rows_are_not_kept() {
        let heading = Heading { columns: vec!["a".to_owned(), "b".to_owned()], ..Heading::default() };
        let mut rows = vec![vec![Cell::Number("1"), Cell::Number("2")]; MEASURED_ROWS];
        rows.push(vec![Cell::Text("much longer".into()), Cell::Number("2")]);
        let text = printed(heading, &rows);
        assert!(text.ends_with(" 1 | 2\n much longer | 2\n(1001 rows)\n\n"), "{text}");
    }
}
