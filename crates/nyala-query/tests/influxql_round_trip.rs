//! Canonical text parses back to the same statement, and no input makes the parser panic.

use nyala_query::influxql::{
    BinaryOperator, Counted, CreateContinuousQuery, DataType, Deletion, Expr, Field, Fill, Measurement,
    MeasurementName, Params, Regex, Select, Show, ShowCardinality, SortField, Source, Statement, TagKeys,
    Target, VarRef, Wildcard, Zone, compile, parse_expr, parse_query, split_condition,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Names, of which many need quotes.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,6}".prop_map(|name| name + "_"),
        "(select|from|time|fill|tz|all|distinct|past)",
        "[a-zé \"'\\\\./\n-]{1,5}",
    ]
}

fn reference() -> impl Strategy<Value = Expr> {
    let types = prop_oneof![
        Just(DataType::Float),
        Just(DataType::Integer),
        Just(DataType::Unsigned),
        Just(DataType::String),
        Just(DataType::Boolean),
        Just(DataType::Tag),
        Just(DataType::AnyField),
    ];
    (name(), option::of(types)).prop_map(|(name, data_type)| Expr::VarRef(VarRef { name, data_type }))
}

fn regex() -> impl Strategy<Value = Regex> {
    "(\\^?[a-z/]{1,4}(\\.\\*)?\\$?|[a-c]|\\\\d\\+)".prop_map(|pattern| Regex::new(&pattern).unwrap())
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![(-1000i32..1000).prop_map(|thousandths| f64::from(thousandths) / 1000.0), -1e30..1e30]
}

fn literal() -> impl Strategy<Value = Expr> {
    prop_oneof![
        any::<bool>().prop_map(Expr::Boolean),
        any::<i64>().prop_map(Expr::Duration),
        any::<i64>().prop_map(Expr::Integer),
        number().prop_map(Expr::Number),
        "[a-zé '\"\\\\\n-]{0,6}".prop_map(Expr::String),
        (1u64 << 63..u64::MAX).prop_map(Expr::Unsigned),
    ]
    // The text of the least duration and integer has a number that is one too great.
    .prop_filter("representable", |expr| !matches!(expr, Expr::Duration(i64::MIN)))
}

/// Joins two operands, with parentheses if the text would otherwise mean something else.
fn join(op: BinaryOperator, lhs: Expr, rhs: Expr) -> Expr {
    let wrap = |expr: Expr, least: u8| match &expr {
        Expr::Binary(binary) if binary.op.precedence() < least => Expr::Paren(Box::new(expr)),
        _ => expr,
    };
    // Chains of AND and of OR are balanced trees, so only two operands compare equal.
    let own = op.precedence();
    let left = if own <= 2 { own + 1 } else { own };
    Expr::binary(op, wrap(lhs, left), wrap(rhs, own + 1))
}

/// Numbers, for fields.
fn arithmetic() -> impl Strategy<Value = Expr> {
    let operators = prop_oneof![
        Just(BinaryOperator::Add),
        Just(BinaryOperator::Subtract),
        Just(BinaryOperator::Multiply),
        Just(BinaryOperator::Divide),
        Just(BinaryOperator::Modulo),
        Just(BinaryOperator::BitwiseAnd),
        Just(BinaryOperator::BitwiseOr),
        Just(BinaryOperator::BitwiseXor),
    ];
    let wildcard = prop_oneof![Just(Wildcard::All), Just(Wildcard::Fields), Just(Wildcard::Tags)];
    let leaf = prop_oneof![4 => reference(), 2 => literal(), 1 => wildcard.prop_map(Expr::Wildcard)];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let argument = prop_oneof![
            4 => inner.clone(),
            1 => regex().prop_map(Expr::Regex),
            1 => name().prop_map(Expr::Distinct)
        ];
        prop_oneof![
            (operators.clone(), inner.clone(), inner.clone()).prop_map(|(op, lhs, rhs)| join(op, lhs, rhs)),
            ("(mean|count|top|distinct|my func)", vec(argument, 0..4))
                .prop_map(|(name, args)| Expr::call(name, args)),
            inner.prop_map(|inner| Expr::Paren(Box::new(inner))),
        ]
    })
}

fn condition() -> impl Strategy<Value = Expr> {
    let comparisons = prop_oneof![
        Just(BinaryOperator::Equal),
        Just(BinaryOperator::NotEqual),
        Just(BinaryOperator::Less),
        Just(BinaryOperator::LessOrEqual),
        Just(BinaryOperator::Greater),
        Just(BinaryOperator::GreaterOrEqual),
    ];
    let matches = prop_oneof![Just(BinaryOperator::Matches), Just(BinaryOperator::NotMatches)];
    let leaf = prop_oneof![
        (comparisons, arithmetic(), arithmetic()).prop_map(|(op, lhs, rhs)| join(op, lhs, rhs)),
        (matches, reference(), regex()).prop_map(|(op, lhs, rhs)| join(op, lhs, Expr::Regex(rhs))),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let operators = prop_oneof![Just(BinaryOperator::And), Just(BinaryOperator::Or)];
        (operators, inner.clone(), inner).prop_map(|(op, lhs, rhs)| join(op, lhs, rhs))
    })
}

fn measurement() -> impl Strategy<Value = Measurement> {
    let named = prop_oneof![
        3 => name().prop_map(MeasurementName::Name),
        1 => regex().prop_map(MeasurementName::Regex),
    ];
    (option::of(name()), option::of(name()), named)
        .prop_map(|(database, retention_policy, name)| Measurement { database, retention_policy, name })
}

fn target() -> impl Strategy<Value = Target> {
    (option::of(name()), option::of(name()), option::of(name())).prop_map(
        |(database, retention_policy, name)| {
            // Something must stand before `:MEASUREMENT`.
            let name = if database.is_none() && retention_policy.is_none() {
                name.or(Some("m".to_string()))
            } else {
                name
            };
            let name = MeasurementName::Name(name.unwrap_or_default());
            Target { measurement: Measurement { database, retention_policy, name } }
        },
    )
}

fn fill() -> impl Strategy<Value = Fill> {
    prop_oneof![
        Just(Fill::Null),
        Just(Fill::None),
        Just(Fill::Previous),
        Just(Fill::Linear),
        any::<i64>().prop_map(Fill::Integer),
        number().prop_map(Fill::Number),
    ]
}

fn order() -> impl Strategy<Value = Option<SortField>> {
    let name = prop_oneof![Just(None), Just(Some("time".to_string()))];
    option::of((name, any::<bool>()).prop_map(|(name, ascending)| SortField { name, ascending }))
}

fn select() -> impl Strategy<Value = Select> {
    let plain = (
        vec((arithmetic(), option::of(name())).prop_map(|(expr, alias)| Field { expr, alias }), 1..4),
        vec(measurement().prop_map(Source::Measurement), 1..3),
        option::of(condition()),
        vec(
            prop_oneof![reference(), regex().prop_map(Expr::Regex), Just(Expr::Wildcard(Wildcard::All))],
            0..3,
        ),
        (fill(), order(), vec(0..i64::MAX as u64, 4)),
        option::of(prop_oneof![Just("Europe/Berlin"), Just("UTC"), Just("Etc/GMT+5")]),
    )
        .prop_map(|(fields, sources, condition, dimensions, (fill, order, counts), zone)| Select {
            fields,
            target: None,
            sources,
            condition,
            dimensions,
            fill,
            order,
            limit: counts[0],
            offset: counts[1],
            slimit: counts[2],
            soffset: counts[3],
            zone: zone.and_then(Zone::named),
            as_of: None,
        });
    plain.prop_recursive(2, 4, 2, |inner| {
        (inner.clone(), inner).prop_map(|(mut outer, inner)| {
            outer.sources.push(Source::Subquery(Box::new(inner)));
            outer
        })
    })
}

fn tag_keys() -> impl Strategy<Value = TagKeys> {
    prop_oneof![
        vec(name(), 1..3).prop_map(TagKeys::In),
        name().prop_map(TagKeys::Equal),
        name().prop_map(TagKeys::NotEqual),
        regex().prop_map(TagKeys::Matches),
        regex().prop_map(TagKeys::NotMatches),
    ]
}

fn statement() -> impl Strategy<Value = Statement> {
    let show =
        (option::of(name()), vec(measurement(), 0..3), option::of(condition()), order(), 0u64..5, 0u64..5)
            .prop_map(|(database, sources, condition, order, limit, offset)| Show {
                database,
                sources,
                condition,
                order,
                limit,
                offset,
                ..Show::default()
            })
            .boxed();
    prop_oneof![
        4 => (select(), option::of(target())).prop_map(|(select, target)| {
            Statement::Select(Box::new(Select { target, ..select }))
        }),
        1 => (select(), any::<bool>()).prop_map(|(select, analyze)| {
            Statement::Explain { analyze, select: Box::new(select) }
        }),
        1 => (name(), name(), target(), vec(measurement(), 1..3), 0..i64::MAX).prop_map(
            |(name, database, target, sources, every)| {
                let select = Select {
                    fields: vec![Field { expr: Expr::call("mean", vec![Expr::var("a")]), alias: None }],
                    target: Some(target),
                    sources: sources.into_iter().map(Source::Measurement).collect(),
                    dimensions: vec![Expr::call("time", vec![Expr::Duration(60_000_000_000)])],
                    ..Select::default()
                };
                Statement::CreateContinuousQuery(Box::new(CreateContinuousQuery {
                    name,
                    database,
                    resample_every_ns: every,
                    resample_for_ns: 0,
                    select,
                }))
            }
        ),
        1 => (name(), option::of(condition())).prop_map(|(name, condition)| {
            let name = MeasurementName::Name(name);
            Statement::Delete(Deletion { sources: vec![Measurement { name, ..Measurement::default() }], condition })
        }),
        1 => show.clone().prop_map(|show| {
            let (counted, exact) = (Counted::Series, show.limit > 2);
            Statement::ShowCardinality(ShowCardinality { counted, exact, show: Show { order: None, ..show } })
        }),
        1 => show.clone().prop_map(|mut show| {
            show.sources.truncate(1);
            Statement::ShowMeasurements(show)
        }),
        1 => show.clone().prop_map(|show| {
            Statement::ShowTagKeys(Show { slimit: show.offset, soffset: show.limit, ..show })
        }),
        1 => (show, tag_keys()).prop_map(|(show, keys)| Statement::ShowTagValues { keys, show }),
    ]
}

fn words() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "SELECT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "time",
        "(",
        ")",
        ",",
        ".",
        "..",
        "/",
        "/a/",
        "'",
        "\"",
        "a",
        "\"b\"",
        "'c'",
        "1",
        "1.5",
        "1h",
        "INF",
        "*",
        "::",
        "::tag",
        "=",
        "=~",
        "!~",
        "<",
        ">=",
        "AND",
        "OR",
        "+",
        "-",
        "--",
        "/*",
        "*/",
        "%",
        "&",
        "|",
        "^",
        ";",
        ":",
        ":MEASUREMENT",
        "$",
        "$x",
        "fill(",
        "tz('UTC')",
        "ORDER BY",
        "LIMIT",
        "INTO",
        "DISTINCT",
        "distinct(",
        "max(",
        "top(",
        "derivative(",
        "now()",
        "SHOW",
        "TAG",
        "VALUES",
        "WITH KEY",
        "IN",
        "CREATE",
        "DATABASE",
        "CONTINUOUS QUERY",
        "BEGIN",
        "END",
        "DELETE",
        "DROP",
        "\\",
        "\n",
        "\r\n",
        "\t",
        "é",
        "µ",
        "\0",
        "9223372036854775808",
        "99999999999999999999",
        "'2020-01-01'",
        "EXPLAIN",
        "AS",
        "true",
    ];
    vec((proptest::sample::select(WORDS), prop_oneof![Just(""), Just(" ")]), 0..40)
        .prop_map(|words| words.into_iter().flat_map(|(word, space)| [word, space]).collect())
}

/// Calls all functions of the front end.
fn exercise(text: &str) {
    let params = Params::from_json(r#"{"x": {"regex": "a(b"}}"#).unwrap();
    let Ok(statements) = parse_query(text, &params) else { return };
    for statement in statements {
        let _ = statement.to_string();
        if let Statement::Select(select) = &statement {
            let _ = compile((**select).clone(), 0);
            if let Some(condition) = &select.condition {
                let _ = split_condition(condition, 0, select.zone);
            }
        }
    }
}

proptest! {
    #[test]
    fn canonical_text_parses_back(statement in statement()) {
        let text = statement.to_string();
        let parsed = parse_query(&text, &Params::default());
        prop_assert_eq!(parsed.map_err(|error| error.to_string()), Ok(vec![statement]), "{}", text);
    }

    #[test]
    fn words_do_no_harm(text in words()) {
        exercise(&text);
    }

    #[test]
    fn characters_do_no_harm(text in "\\PC{0,60}|[ -~\\n]{0,60}") {
        exercise(&text);
        exercise(&format!("SELECT a FROM b WHERE {text}"));
    }

    #[test]
    fn patterns_do_no_harm(pattern in "[ab()\\[\\]|*+?{}0-9,^$.:\\\\PpQEdwx<>=!i-]{0,20}") {
        if let Ok(regex) = Regex::new(&pattern) {
            // What is accepted compiles, unless it is too large.
            if let Err(error) = regex.compile() {
                prop_assert!(error.contains("expression too large"), "{}", error);
            }
        }
    }
}

#[test]
fn depth_is_bounded() {
    let many = 100_000;
    let deep = [
        format!("SELECT {}", "(".repeat(many)),
        format!("SELECT {}a{} FROM b", "(".repeat(many), ")".repeat(many)),
        format!("SELECT {}", "max(".repeat(many)),
        format!("SELECT {}", "-(".repeat(many)),
        format!("SELECT a{} FROM b", " + a".repeat(many)),
        format!("SELECT a{} FROM b", " ^ a * a".repeat(many)),
        format!("SELECT a FROM b WHERE c{}", " = c".repeat(many)),
        format!("SELECT a FROM {}b", "(SELECT a FROM ".repeat(many)),
        format!("SELECT a FROM b WHERE c =~ /{}{}/", "(".repeat(many), ")".repeat(many)),
    ];
    for text in deep {
        let error = parse_query(&text, &Params::default()).unwrap_err().to_string();
        assert!(error.contains("nested") || error.contains("nests too deeply"), "{error:.200}");
    }
}

#[test]
fn chains_of_and_and_or_may_be_long() {
    let many = 20_000;
    let text =
        format!("SELECT a FROM b WHERE c = 'x'{}{}", " OR c = 'y'".repeat(many), " AND d = 1".repeat(many));
    let statements = parse_query(&text, &Params::default()).unwrap();
    assert_eq!(statements[0].to_string(), text);
    let Statement::Select(select) = &statements[0] else { panic!() };
    let split = split_condition(select.condition.as_ref().unwrap(), 0, None).unwrap();
    assert!(split.condition.is_some());
    compile((**select).clone(), 0).unwrap();
}

/// Inputs that the fuzz target `influxql` found.
#[test]
fn empty_names_are_written_in_quotes() {
    for text in ["SELECT v FROM \"\"", "SELECT v INTO a.b.:MEASUREMENT FROM a..\"\"", "DROP SERIES FROM \"\""]
    {
        let statements = parse_query(text, &Params::default()).unwrap();
        let written = statements[0].to_string();
        assert_eq!(parse_query(&written, &Params::default()).unwrap(), statements, "{written}");
    }
}

/// An input that the fuzz target `influxql` found.
#[test]
fn a_shard_duration_without_end_is_written() {
    let text = "CREATE DATABASE d WITH SHARD DURATION INF";
    let statements = parse_query(text, &Params::default()).unwrap();
    assert_eq!(statements[0].to_string(), text);
}

#[test]
fn length_is_bounded() {
    let text = " ".repeat(nyala_query::influxql::MAXIMUM_LENGTH + 1);
    assert!(parse_query(&text, &Params::default()).is_err());
    assert!(parse_expr(&text).is_err());
}
