//! How rows are printed.
//!
//! A layout gets a heading and then row after row; none of them keeps more than its first rows ([`table`]). What it prints
//! goes to a [`screen`], which sees to it that nothing a database holds can command the terminal.

mod blocks;
mod csv;
pub(crate) mod screen;
mod table;

use blocks::Blocks;
use clap::ValueEnum;
use csv::Csv;
use std::borrow::Cow;
use std::io::{Result, Write};
use table::Table;

/// How rows are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned columns
    #[default]
    #[value(alias = "column", alias = "aligned")]
    Table,
    /// Comma-separated values
    Csv,
    /// The documents that the server sends
    Json,
    /// A line per value
    Line,
}

impl Format {
    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::Table => "table",
            Format::Csv => "csv",
            Format::Json => "json",
            Format::Line => "line",
        }
    }
}

/// What stands above rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Heading {
    /// The measurement of a series of InfluxQL.
    pub(crate) name: Option<String>,
    /// The tags of a series of InfluxQL.
    pub(crate) tags: Vec<(String, String)>,
    pub(crate) columns: Vec<String>,
    /// Which columns have numbers, if the server says so.
    pub(crate) numeric: Option<Vec<bool>>,
}

impl Heading {
    /// `host=a,region=eu`.
    fn tags_text(&self) -> String {
        let tags: Vec<String> = self.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        tags.join(",")
    }

    /// Lines above the columns, as influx prints them.
    fn titles(&self) -> Vec<String> {
        let name = self.name.iter().filter(|name| !name.is_empty()).map(|name| format!("name: {name}"));
        let tags = (!self.tags.is_empty()).then(|| format!("tags: {}", self.tags_text()));
        name.chain(tags).collect()
    }
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    Null,
    Number(&'a str),
    Text(Cow<'a, str>),
}

impl Cell<'_> {
    /// What is shown to a person.
    pub(crate) fn shown(&self) -> Cow<'_, str> {
        match self {
            Cell::Null => Cow::Borrowed("NULL"),
            Cell::Number(text) => Cow::Borrowed(text),
            Cell::Text(text) => crate::style::escaped(text),
        }
    }
}

/// A layout, with what it remembers of an answer.
pub(crate) enum Layout {
    Table(Table),
    Blocks(Blocks),
    Csv(Csv),
}

impl Layout {
    /// The layout of a format; JSON is not laid out.
    pub(crate) fn new(format: Format, expanded: bool) -> Self {
        match format {
            Format::Csv => Layout::Csv(Csv::default()),
            Format::Line => Layout::Blocks(Blocks::lines()),
            _ if expanded => Layout::Blocks(Blocks::records()),
            _ => Layout::Table(Table::default()),
        }
    }

    /// Begins rows with other columns, or of another series.
    pub(crate) fn begin(&mut self, heading: Heading, out: &mut dyn Write) -> Result<()> {
        match self {
            Layout::Table(table) => table.begin(heading),
            Layout::Blocks(blocks) => blocks.begin(heading, out),
            Layout::Csv(csv) => csv.begin(heading, out),
        }
    }

    /// Prints a row, or remembers it.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>], out: &mut dyn Write) -> Result<()> {
        match self {
            Layout::Table(table) => table.row(cells, out),
            Layout::Blocks(blocks) => blocks.row(cells, out),
            Layout::Csv(csv) => csv.row(cells, out),
        }
    }

    /// Ends the rows.
    pub(crate) fn end(&mut self, out: &mut dyn Write) -> Result<()> {
        match self {
            Layout::Table(table) => table.end(out),
            Layout::Blocks(blocks) => blocks.end(out),
            Layout::Csv(_) => Ok(()),
        }
    }
}
