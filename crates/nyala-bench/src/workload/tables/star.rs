//! A star of made-up tables: events of 100 to 200 columns, and the dimensions that their keys mean.
//!
//! It has the form of the warehouse that was measured on Impala over Kudu: a wide table that is appended to, corrected and
//! looked up in, and joined with many small ones.

use super::generated::{Column, Generated, Values};
use super::{Query, Table};
use arrow_schema::{DataType, TimeUnit};

/// The table of events.
pub const EVENT: &str = "event";
/// 1 January 2026, in microseconds since 1970.
const BEGIN: i64 = 1_767_225_600_000_000;
/// What all events together span: 30 days, in microseconds.
const SPAN: i64 = 30 * 86_400_000_000;

/// A column that points to a dimension, and how many rows that has.
type Pointer = (&'static str, u64);

/// Rows of each dimension, with the columns that point to other dimensions.
const DIMENSIONS: [(&str, u64, &[Pointer]); 11] = [
    ("zone", 5, &[]),
    ("country", 40, &[("zone_id", 5)]),
    ("customer", 20_000, &[("country_id", 40)]),
    ("brand", 60, &[]),
    ("product", 5000, &[("brand_id", 60)]),
    ("store", 300, &[("country_id", 40)]),
    ("employee", 3000, &[("store_id", 300)]),
    ("channel", 8, &[]),
    ("campaign", 200, &[("channel_id", 8)]),
    ("device", 1000, &[]),
    ("carrier", 12, &[]),
];
/// The dimensions that an event points to.
const OF_EVENTS: [&str; 8] =
    ["customer", "product", "store", "employee", "channel", "campaign", "device", "carrier"];
const NAMES: &[&str] = &["north ", "south ", "old ", "new ", "great ", "little "];
const CLASSES: &[&str] = &["gold", "silver", "plain"];

/// The dimensions and, as the last one, the events.
pub fn tables(rows: u64, columns: usize, seed: u64) -> Vec<Table> {
    let dimensions = DIMENSIONS.iter().map(|(name, rows, keys)| table(name, dimension(keys, seed, *rows)));
    dimensions.chain([table(EVENT, events(rows, columns, seed))]).collect()
}

fn table(name: &str, rows: Generated) -> Table {
    Table {
        name: name.to_owned(),
        definition: rows.definition(),
        schema: rows.schema(),
        rows: Box::new(rows.map(Ok)),
    }
}

fn dimension(keys: &[(&str, u64)], seed: u64, rows: u64) -> Generated {
    let mut columns = vec![
        key(),
        Column::new("name", "text NOT NULL", DataType::Utf8, texts(NAMES, rows.max(6) * 4)),
        Column::new("class", "text NOT NULL", DataType::Utf8, texts(CLASSES, 6)),
        Column::new(
            "weight",
            "numeric(12,2) NOT NULL",
            DataType::Decimal128(12, 2),
            Values::Decimals { below: 100_000 },
        ),
    ];
    columns.extend(keys.iter().map(|(name, distinct)| pointer(name, *distinct)));
    Generated::new(columns, seed, rows)
}

/// So many events of so many columns.
pub fn events(rows: u64, columns: usize, seed: u64) -> Generated {
    let step = SPAN / rows.max(1) as i64;
    let moments = DataType::Timestamp(TimeUnit::Microsecond, None);
    let mut all = vec![
        Column { name: "event_id".to_owned(), ..key() },
        Column::new("serial", "bigint NOT NULL", DataType::Int64, Values::Scattered),
        Column::new(
            "event_time",
            "timestamp NOT NULL",
            moments.clone(),
            Values::Moments { first: BEGIN, step },
        ),
        Column::new("event_day", "date NOT NULL", DataType::Date32, Values::Days { first: BEGIN, step }),
        Column::new(
            "quantity",
            "integer NOT NULL",
            DataType::Int32,
            Values::Integers { low: 1, distinct: 50 },
        ),
        Column::new(
            "price",
            "numeric(12,2) NOT NULL",
            DataType::Decimal128(12, 2),
            Values::Decimals { below: 1_000_000 },
        ),
        Column::new(
            "discount",
            "numeric(5,2) NOT NULL",
            DataType::Decimal128(5, 2),
            Values::Decimals { below: 50 },
        ),
    ];
    for name in OF_EVENTS {
        let rows = DIMENSIONS.iter().find(|(own, ..)| *own == name).map_or(1, |(_, rows, _)| *rows);
        all.push(pointer(&format!("{name}_id"), rows));
    }
    for number in 0..columns.saturating_sub(all.len()) {
        let (kind, definition, data_type, values) = match number % 8 {
            0 => ("n", "integer", DataType::Int32, Values::Integers { low: 0, distinct: 10_000 }),
            1 => ("m", "numeric(18,4)", DataType::Decimal128(18, 4), Values::Decimals { below: 100_000_000 }),
            2 => ("f", "double precision", DataType::Float64, Values::Floats),
            3 => ("w", "text", DataType::Utf8, texts(NAMES, 60)),
            4 => ("b", "bigint", DataType::Int64, Values::Integers { low: 1 << 40, distinct: 1 << 20 }),
            5 => ("t", "text", DataType::Utf8, texts(NAMES, 100_000)),
            6 => (
                "x",
                "timestamp",
                moments.clone(),
                Values::Moments { first: BEGIN, step: step + number as i64 },
            ),
            _ => ("s", "smallint", DataType::Int16, Values::Integers { low: 0, distinct: 100 }),
        };
        let column = Column::new(format!("{kind}{}", number / 8), definition, data_type, values);
        all.push(Column { null_percent: 10, ..column });
    }
    Generated::new(all, seed, rows)
}

fn key() -> Column {
    Column::new("id", "bigint PRIMARY KEY", DataType::Int64, Values::RowNumber)
}

fn pointer(name: &str, distinct: u64) -> Column {
    Column::new(name, "bigint NOT NULL", DataType::Int64, Values::Integers { low: 1, distinct })
}

fn texts(words: &'static [&'static str], distinct: u64) -> Values {
    Values::Texts { words, distinct, empty_percent: 0 }
}

/// Seven questions with five to ten joins.
pub fn queries() -> Vec<Query> {
    let texts = [
        // Who buys what, where: five joins, all rows.
        "SELECT z.name AS zone, b.class AS brand_class, sum(e.price * e.quantity) AS revenue, count(*) AS events \
         FROM event e JOIN customer c ON c.id = e.customer_id JOIN country n ON n.id = c.country_id \
         JOIN zone z ON z.id = n.zone_id JOIN product p ON p.id = e.product_id JOIN brand b ON b.id = p.brand_id \
         GROUP BY z.name, b.class ORDER BY revenue DESC, zone, brand_class",
        // A slice of time by day and channel: six joins.
        "SELECT e.event_day, h.name AS channel, count(*) AS events, avg(e.f0) AS mean, max(e.m0) AS largest \
         FROM event e JOIN channel h ON h.id = e.channel_id JOIN campaign g ON g.id = e.campaign_id \
         JOIN store s ON s.id = e.store_id JOIN country n ON n.id = s.country_id JOIN zone z ON z.id = n.zone_id \
         JOIN device d ON d.id = e.device_id \
         WHERE e.event_day BETWEEN date '2026-01-02' AND date '2026-01-04' AND d.class <> 'gold0' AND z.id <= 3 AND g.weight > 100 \
         GROUP BY e.event_day, h.name ORDER BY e.event_day, channel",
        // The best employees: seven joins.
        "SELECT m.id, m.name, s.name AS store, sum(e.price * e.quantity * (1 - e.discount)) AS revenue \
         FROM event e JOIN employee m ON m.id = e.employee_id JOIN store s ON s.id = m.store_id \
         JOIN country n ON n.id = s.country_id JOIN zone z ON z.id = n.zone_id JOIN product p ON p.id = e.product_id \
         JOIN brand b ON b.id = p.brand_id JOIN carrier r ON r.id = e.carrier_id \
         WHERE r.class = 'silver0' OR b.class = 'plain0' GROUP BY m.id, m.name, s.name ORDER BY revenue DESC, m.id LIMIT 20",
        // Two ways to a country: eight joins.
        "SELECT home.name AS home, away.name AS away, count(*) AS events, sum(e.n0) AS total \
         FROM event e JOIN customer c ON c.id = e.customer_id JOIN country home ON home.id = c.country_id \
         JOIN zone hz ON hz.id = home.zone_id JOIN store s ON s.id = e.store_id \
         JOIN country away ON away.id = s.country_id JOIN zone az ON az.id = away.zone_id \
         JOIN channel h ON h.id = e.channel_id JOIN device d ON d.id = e.device_id \
         WHERE hz.id <> az.id GROUP BY home.name, away.name ORDER BY events DESC, home, away LIMIT 50",
        // Products that sell above the average of their brand: a subquery, six joins.
        "SELECT b.name AS brand, count(*) AS products, sum(t.revenue) AS revenue \
         FROM (SELECT e.product_id, sum(e.price) AS revenue FROM event e JOIN carrier r ON r.id = e.carrier_id \
               JOIN channel h ON h.id = e.channel_id JOIN campaign g ON g.id = e.campaign_id \
               WHERE e.quantity > 2 GROUP BY e.product_id) t \
         JOIN product p ON p.id = t.product_id JOIN brand b ON b.id = p.brand_id \
         JOIN (SELECT q.brand_id, avg(q.weight) AS mean FROM product q GROUP BY q.brand_id) w ON w.brand_id = p.brand_id \
         WHERE p.weight > w.mean GROUP BY b.name ORDER BY revenue DESC, brand LIMIT 10",
        // Texts and NULLs: nine joins.
        "SELECT e.w0, d.class AS device, count(e.b0) AS numbers, count(DISTINCT e.customer_id) AS customers, min(e.t0) AS first \
         FROM event e JOIN device d ON d.id = e.device_id JOIN customer c ON c.id = e.customer_id \
         JOIN country n ON n.id = c.country_id JOIN zone z ON z.id = n.zone_id JOIN campaign g ON g.id = e.campaign_id \
         JOIN channel h ON h.id = g.channel_id JOIN store s ON s.id = e.store_id JOIN product p ON p.id = e.product_id \
         JOIN brand b ON b.id = p.brand_id \
         WHERE e.w0 LIKE 'n%' AND c.class IN ('gold0', 'silver0') AND e.x0 IS NOT NULL \
         GROUP BY e.w0, d.class ORDER BY customers DESC, e.w0, device LIMIT 30",
        // Everything: ten joins and a rank.
        "SELECT * FROM (SELECT z.name AS zone, b.name AS brand, sum(e.price) AS revenue, \
                rank() OVER (PARTITION BY z.name ORDER BY sum(e.price) DESC) AS place \
         FROM event e JOIN customer c ON c.id = e.customer_id JOIN country n ON n.id = c.country_id \
         JOIN zone z ON z.id = n.zone_id JOIN product p ON p.id = e.product_id JOIN brand b ON b.id = p.brand_id \
         JOIN store s ON s.id = e.store_id JOIN employee m ON m.id = e.employee_id JOIN campaign g ON g.id = e.campaign_id \
         JOIN channel h ON h.id = g.channel_id JOIN carrier r ON r.id = e.carrier_id \
         WHERE s.weight > 10 AND m.weight > 10 AND h.id > 1 AND r.id > 1 GROUP BY z.name, b.name) ranked \
         WHERE place <= 3 ORDER BY zone, place, brand",
    ];
    let named = texts.into_iter().zip(1..);
    named.map(|(text, number)| Query { name: number.to_string(), text: text.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_the_columns_that_are_asked_for() {
        for columns in [100, 150, 200] {
            assert_eq!(events(1, columns, 1).schema().fields().len(), columns);
        }
        assert_eq!(tables(10, 100, 1).len(), 12);
        let joins = |query: &Query| query.text.matches(" JOIN ").count();
        assert!(queries().iter().all(|query| (5..=10).contains(&joins(query))), "five to ten joins");
    }
}
