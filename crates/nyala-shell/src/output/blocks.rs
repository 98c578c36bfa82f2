//! A block of lines per row: psql's expanded output, and lines `name = value`.

use super::{Cell, Heading};
use crate::style::{escaped, width};
use std::io::{Result, Write};

/// A block per row.
pub(crate) struct Blocks {
    /// With a line `-[ RECORD 1 ]-` above each row; otherwise with an empty line below.
    has_rules: bool,
    names: Vec<String>,
    width: usize,
    rows: u64,
}

impl Blocks {
    /// psql's expanded output.
    pub(super) fn records() -> Self {
        Self { has_rules: true, names: Vec::new(), width: 0, rows: 0 }
    }

    /// Lines `name = value`.
    pub(super) fn lines() -> Self {
        Self { has_rules: false, ..Self::records() }
    }

    pub(super) fn begin(&mut self, heading: Heading, out: &mut dyn Write) -> Result<()> {
        for title in heading.titles() {
            writeln!(out, "{}", escaped(&title))?;
        }
        self.names = heading.columns.iter().map(|name| escaped(name).into_owned()).collect();
        self.width = self.names.iter().map(|name| width(name)).max().unwrap_or(0);
        self.rows = 0;
        Ok(())
    }

    pub(super) fn row(&mut self, cells: &[Cell<'_>], out: &mut dyn Write) -> Result<()> {
        self.rows += 1;
        if self.has_rules {
            let rule = format!("-[ RECORD {} ]", self.rows);
            writeln!(out, "{rule}{}", "-".repeat((self.width + 3).saturating_sub(rule.len())))?;
        }
        for (name, cell) in self.names.iter().zip(cells) {
            let blanks = self.width - width(name);
            match self.has_rules {
                true => writeln!(out, "{name}{:blanks$} | {}", "", cell.shown())?,
                false => writeln!(out, "{:blanks$}{name} = {}", "", cell.shown())?,
            }
        }
        match self.has_rules {
            true => Ok(()),
            false => out.write_all(b"\n"),
        }
    }

    pub(super) fn end(&mut self, out: &mut dyn Write) -> Result<()> {
        match (self.has_rules, self.rows) {
            (true, 0) => out.write_all(b"(0 rows)\n\n"),
            (true, _) => out.write_all(b"\n"),
            (false, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_blocks() {
        let printed = |mut blocks: Blocks| {
            let mut out = Vec::new();
            let columns = ["a", "long"].map(str::to_owned).to_vec();
            blocks.begin(Heading { columns, ..Heading::default() }, &mut out).unwrap();
            blocks.row(&[Cell::Number("1"), Cell::Null], &mut out).unwrap();
            blocks.end(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(printed(Blocks::records()), "-[ RECORD 1 ]\na    | 1\nlong | NULL\n\n");
        assert_eq!(printed(Blocks::lines()), "   a = 1\nlong = NULL\n\n");
    }
}
