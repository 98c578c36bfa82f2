//! ClickBench: rows that are made up for its table, and its queries, which its users have in a copy of it.
//!
//! ClickBench's licence (CC BY-NC-SA) does not let its files stand here, so they are read: `create.sql` and `queries.sql` of its
//! folder `postgresql`. What the queries look for by constants is in some of the rows, so that most of them find something.

use super::generated::{Column, Generated, Values};
use super::{Query, Table};
use arrow_schema::{DataType, TimeUnit};
use sqlparser::ast::{ColumnDef, CreateTable, DataType as SqlType, ExactNumberInfo, Statement};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;

/// 1 July 2013, in microseconds since 1970.
const JULY: i64 = 1_372_636_800_000_000;
const JULY_MICROSECONDS: i64 = 31 * 86_400_000_000;
const WORDS: &[&str] = &["karelia", "google", "Google maps ", "tickets to ", "how to ", "weather "];
const PAGES: &[&str] = &[
    "http://example.com/",
    "http://www.google.example/search/",
    "https://www.example.org/cars/",
    "http://maps.google.com/",
    "http://news.example.net/",
];

/// The table that a `CREATE TABLE` describes, with so many rows.
pub fn table(create: &str, seed: u64, rows: u64) -> Result<Table, String> {
    let statements = Parser::parse_sql(&PostgreSqlDialect {}, create).map_err(|error| error.to_string())?;
    let [Statement::CreateTable(CreateTable { name, columns, .. })] = statements.as_slice() else {
        return Err("it is not one CREATE TABLE".to_owned());
    };
    let step = JULY_MICROSECONDS / rows.max(1) as i64;
    let columns = columns.iter().map(|column| made_up(column, step)).collect::<Result<Vec<_>, _>>()?;
    let rows = Generated::new(columns, seed, rows);
    let name = name.to_string().to_lowercase();
    Ok(Table { name, definition: rows.definition(), schema: rows.schema(), rows: Box::new(rows.map(Ok)) })
}

/// The queries of a file that has one in each line; their names are their numbers.
pub fn queries(text: &str) -> Vec<Query> {
    let lines = text.lines().map(|line| line.trim().trim_end_matches(';')).filter(|line| !line.is_empty());
    let named =
        lines.enumerate().map(|(at, line)| Query { name: (at + 1).to_string(), text: line.to_owned() });
    named.collect()
}

fn made_up(column: &ColumnDef, step: i64) -> Result<Column, String> {
    let name = column.name.value.to_lowercase();
    let texts = |words, distinct, empty_percent| Values::Texts { words, distinct, empty_percent };
    let (data_type, values) = match &column.data_type {
        SqlType::BigInt(_) => {
            (DataType::Int64, Values::Integers { low: 1_000_000_000_000, distinct: 10_000 })
        }
        SqlType::Integer(_) | SqlType::Int(_) => {
            (DataType::Int32, Values::Integers { low: 0, distinct: 1000 })
        }
        SqlType::SmallInt(_) => (DataType::Int16, Values::Integers { low: 0, distinct: 20 }),
        SqlType::Date => (DataType::Date32, Values::Days { first: JULY, step }),
        SqlType::Timestamp(..) => {
            (DataType::Timestamp(TimeUnit::Microsecond, None), Values::Moments { first: JULY, step })
        }
        SqlType::Decimal(digits) | SqlType::Numeric(digits) => {
            (decimal(digits)?, Values::Decimals { below: 1_000_000 })
        }
        SqlType::Real | SqlType::DoublePrecision => (DataType::Float64, Values::Floats),
        // One letter is not NULL and has a length.
        SqlType::Char(_) | SqlType::Character(_) => {
            (DataType::Utf8, Values::Integers { low: 0, distinct: 9 })
        }
        SqlType::Text | SqlType::Varchar(_) => (DataType::Utf8, texts(WORDS, 500, 60)),
        other => return Err(format!("column {name}: rows of type {other} cannot be made up")),
    };
    let often = |percent, value, others| Values::Often { percent, value, others: Box::new(others) };
    let values = match name.as_str() {
        "watchid" => Values::RowNumber,
        "counterid" => often(30, 62, values),
        "isrefresh" | "dontcounthits" | "isdownload" | "advengineid" => often(80, 0, values),
        "traficsourceid" => Values::Integers { low: -1, distinct: 10 },
        "userid" => often(1, 435_090_932_899_640_449, Values::Integers { low: 1 << 40, distinct: 20_000 }),
        "urlhash" => often(20, 2_868_770_270_353_813_622, values),
        "refererhash" => often(20, 3_594_120_000_172_545_465, values),
        "windowclientwidth" | "windowclientheight" | "resolutionwidth" => {
            Values::Integers { low: 300, distinct: 1600 }
        }
        "url" | "referer" => texts(PAGES, 5000, 10),
        "title" => texts(WORDS, 2000, 10),
        _ => values,
    };
    Ok(Column { definition: definition(column), ..Column::new(name, "", data_type, values) })
}

/// The type and its options, as the file has them.
fn definition(column: &ColumnDef) -> String {
    let options = column.options.iter().map(|option| format!(" {option}"));
    column.data_type.to_string() + &options.collect::<String>()
}

fn decimal(digits: &ExactNumberInfo) -> Result<DataType, String> {
    let (precision, scale) = match digits {
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::None => (38, 10),
    };
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(precision @ 7..=38), Ok(scale)) => Ok(DataType::Decimal128(precision, scale)),
        _ => Err(format!("decimals of {precision} digits cannot be made up")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_made_for_any_table() {
        let create = "CREATE TABLE Hits (WatchID BIGINT NOT NULL, Title TEXT, C CHAR NOT NULL, P DECIMAL(9,2), EventDate Date)";
        let table = table(create, 1, 10).expect("a table");
        assert_eq!(table.name, "hits");
        assert_eq!(
            table.definition,
            "watchid BIGINT NOT NULL, title TEXT, c CHAR NOT NULL, p DECIMAL(9,2), eventdate DATE"
        );
        let batches: Vec<_> = table.rows.map(Result::unwrap).collect();
        assert_eq!((batches.len(), batches[0].num_rows(), batches[0].num_columns()), (1, 10, 5));
        assert!(super::table("CREATE TABLE t (a bytea)", 1, 10).is_err());
        assert_eq!(queries("SELECT 1;\n\nSELECT 2;\n").len(), 2);
    }
}
