//! TPC-H: rows as dbgen makes them, and the 22 queries with the parameters that the specification validates with.

use super::{Query, Table};
use arrow_array::RecordBatchReader;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen::q_and_a::queries;
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// What the specification validates with: the values of `:1`, `:2`, … of each query, and how many rows it wants at most.
const PARAMETERS: [(&[&str], Option<u32>); 22] = [
    (&["90"], None),
    (&["15", "BRASS", "EUROPE"], Some(100)),
    (&["BUILDING", "1995-03-15"], Some(10)),
    (&["1993-07-01"], None),
    (&["ASIA", "1994-01-01"], None),
    (&["1994-01-01", "0.06", "24"], None),
    (&["FRANCE", "GERMANY"], None),
    (&["BRAZIL", "AMERICA", "ECONOMY ANODIZED STEEL"], None),
    (&["green"], None),
    (&["1993-10-01"], Some(20)),
    (&["GERMANY", "0.0001"], None),
    (&["MAIL", "SHIP", "1994-01-01"], None),
    (&["special", "requests"], None),
    (&["1995-09-01"], None),
    (&["1996-01-01"], None),
    (&["Brand#45", "MEDIUM POLISHED", "49", "14", "23", "45", "19", "3", "36", "9"], None),
    (&["Brand#23", "MED BOX"], None),
    (&["300"], Some(100)),
    (&["Brand#12", "Brand#23", "Brand#34", "1", "10", "20"], None),
    (&["forest", "1994-01-01", "CANADA"], None),
    (&["SAUDI ARABIA"], Some(100)),
    (&["13", "31", "23", "29", "30", "18", "17"], None),
];

/// The tables, the small ones first, so that errors show early.
pub fn tables(scale: f64) -> Vec<Table> {
    vec![
        table("region", REGION, RegionArrow::new(RegionGenerator::new(scale, 1, 1))),
        table("nation", NATION, NationArrow::new(NationGenerator::new(scale, 1, 1))),
        table("supplier", SUPPLIER, SupplierArrow::new(SupplierGenerator::new(scale, 1, 1))),
        table("customer", CUSTOMER, CustomerArrow::new(CustomerGenerator::new(scale, 1, 1))),
        table("part", PART, PartArrow::new(PartGenerator::new(scale, 1, 1))),
        table("partsupp", PARTSUPP, PartSuppArrow::new(PartSuppGenerator::new(scale, 1, 1))),
        table("orders", ORDERS, OrderArrow::new(OrderGenerator::new(scale, 1, 1))),
        table("lineitem", LINEITEM, LineItemArrow::new(LineItemGenerator::new(scale, 1, 1))),
    ]
}

/// The queries; their names are their numbers.
pub fn queries() -> Vec<Query> {
    let query = |(number, (values, limit)): (i32, &(&[&str], Option<u32>))| {
        let template = queries::query(number).expect("there are 22");
        Query { name: number.to_string(), text: filled(template, values, *limit) }
    };
    (1..).zip(&PARAMETERS).map(query).collect()
}

/// A query with its parameters. That of the view (15) defines it in front of itself, as the specification allows; PostgreSQL
/// and DuckDB know no digits of days, which the first one has.
fn filled(template: &str, values: &[&str], limit: Option<u32>) -> String {
    let mut text = template.replace(" day (3)", " day").replace("revenue:s", "revenue");
    for (at, value) in values.iter().enumerate().rev() {
        text = text.replace(&format!(":{}", at + 1), value);
    }
    let statements: Vec<&str> = text.split(';').map(str::trim).filter(|text| !text.is_empty()).collect();
    let query = match statements.as_slice() {
        [view, query, _] => {
            let view = view.replacen("create view", "with", 1).replacen(" as", " as (", 1);
            format!("{view})\n{query}")
        }
        _ => statements.concat(),
    };
    limit.map_or(query.clone(), |limit| format!("{query}\nlimit {limit}"))
}

fn table(name: &str, definition: &str, rows: impl RecordBatchReader + 'static) -> Table {
    Table {
        name: name.to_owned(),
        definition: definition.to_owned(),
        schema: rows.schema(),
        rows: Box::new(rows),
    }
}

const REGION: &str = "r_regionkey bigint PRIMARY KEY, r_name text NOT NULL, r_comment text";
const NATION: &str =
    "n_nationkey bigint PRIMARY KEY, n_name text NOT NULL, n_regionkey bigint NOT NULL, n_comment text";
const SUPPLIER: &str = "s_suppkey bigint PRIMARY KEY, s_name text NOT NULL, s_address text NOT NULL, \
    s_nationkey bigint NOT NULL, s_phone text NOT NULL, s_acctbal numeric(15,2) NOT NULL, s_comment text NOT NULL";
const CUSTOMER: &str = "c_custkey bigint PRIMARY KEY, c_name text NOT NULL, c_address text NOT NULL, \
    c_nationkey bigint NOT NULL, c_phone text NOT NULL, c_acctbal numeric(15,2) NOT NULL, c_mktsegment text NOT NULL, \
    c_comment text NOT NULL";
const PART: &str = "p_partkey bigint PRIMARY KEY, p_name text NOT NULL, p_mfgr text NOT NULL, p_brand text NOT NULL, \
    p_type text NOT NULL, p_size integer NOT NULL, p_container text NOT NULL, p_retailprice numeric(15,2) NOT NULL, \
    p_comment text NOT NULL";
const PARTSUPP: &str = "ps_partkey bigint, ps_suppkey bigint, ps_availqty integer NOT NULL, \
    ps_supplycost numeric(15,2) NOT NULL, ps_comment text NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey)";
const ORDERS: &str = "o_orderkey bigint PRIMARY KEY, o_custkey bigint NOT NULL, o_orderstatus text NOT NULL, \
    o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority text NOT NULL, o_clerk text NOT NULL, \
    o_shippriority integer NOT NULL, o_comment text NOT NULL";
const LINEITEM: &str = "l_orderkey bigint, l_partkey bigint NOT NULL, l_suppkey bigint NOT NULL, l_linenumber integer, \
    l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL, l_discount numeric(15,2) NOT NULL, \
    l_tax numeric(15,2) NOT NULL, l_returnflag text NOT NULL, l_linestatus text NOT NULL, l_shipdate date NOT NULL, \
    l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct text NOT NULL, l_shipmode text NOT NULL, \
    l_comment text NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_parameter_is_left_out() {
        let queries = queries();
        assert_eq!(queries.len(), 22);
        assert!(queries.iter().all(|query| !query.text.contains([':', ';'])), "{queries:?}");
        let of_view = &queries[14].text;
        assert!(of_view.starts_with("with revenue (supplier_no, total_revenue) as (\n\tselect"), "{of_view}");
        assert!(queries[15].text.contains("(49, 14, 23, 45, 19, 3, 36, 9)"));
    }
}
