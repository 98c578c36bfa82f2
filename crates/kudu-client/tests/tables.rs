//! The catalogue: types and storage options of columns, changes of tables, and their errors.

mod support;

use std::time::Duration;

use kudu_client::*;
use support::*;

/// Every type, with each encoding it may have, and its extremes.
fn all_types() -> Vec<(DataType, Vec<Encoding>, Vec<Value>)> {
    use Encoding::*;
    let integers = vec![Auto, Plain, BitShuffle, RunLength];
    let texts = vec![Auto, Plain, Prefix, Dictionary];
    let floats = vec![Auto, Plain, BitShuffle];
    let decimal = |precision: u8, scale: u8| {
        let most = 10_i128.pow(precision.into()) - 1;
        (
            DataType::Decimal { precision, scale },
            floats.clone(),
            vec![Value::Int128(-most), Value::Int128(most), Value::Int128(0), Value::Int128(-1)],
        )
    };
    let long = "x".repeat(60_000);
    vec![
        (DataType::Int8, integers.clone(), vec![i8::MIN.into(), i8::MAX.into(), 0_i8.into()]),
        (DataType::Int16, integers.clone(), vec![i16::MIN.into(), i16::MAX.into(), 0_i16.into()]),
        (DataType::Int32, integers.clone(), vec![i32::MIN.into(), i32::MAX.into(), 0_i32.into()]),
        (DataType::Int64, integers.clone(), vec![i64::MIN.into(), i64::MAX.into(), 0_i64.into()]),
        (DataType::UnixtimeMicros, integers.clone(), vec![i64::MIN.into(), i64::MAX.into(), (-1_i64).into()]),
        (DataType::Date, integers, vec![(-719_162).into(), 2_932_896.into(), 0.into()]),
        (
            DataType::Float,
            floats.clone(),
            vec![
                f32::MIN.into(),
                f32::INFINITY.into(),
                f32::NAN.into(),
                (-0.0_f32).into(),
                f32::MIN_POSITIVE.into(),
            ],
        ),
        (
            DataType::Double,
            floats.clone(),
            vec![
                f64::MAX.into(),
                f64::NEG_INFINITY.into(),
                f64::NAN.into(),
                (-0.0_f64).into(),
                5e-324.into(),
            ],
        ),
        (DataType::Bool, vec![Auto, Plain, RunLength], vec![true.into(), false.into()]),
        (DataType::String, texts.clone(), vec!["".into(), "äöü\0\u{10ffff}".into(), long.as_str().into()]),
        (DataType::Varchar { length: 3 }, texts.clone(), vec!["".into(), "äöü".into()]),
        (DataType::Binary, texts, vec![Value::Binary(vec![]), Value::Binary(vec![0, 255, 0])]),
        decimal(9, 4),
        decimal(18, 0),
        decimal(38, 38),
    ]
}

#[test]
fn every_type_and_encoding_round_trips_in_both_layouts() {
    if !have_kudu() {
        return;
    }
    let cluster = start(&flushing_options());
    run(async {
        let client = connect(&cluster).await;
        let types = all_types();
        let mut columns = vec![Column::new("id", DataType::Int32).key()];
        for (number, (data_type, encodings, _)) in types.iter().enumerate() {
            for (index, encoding) in encodings.iter().enumerate() {
                let compression =
                    [Compression::Default, Compression::Snappy, Compression::Lz4, Compression::Zlib]
                        [index % 4];
                let column = Column::new(format!("c{number}_{index}"), *data_type).nullable();
                columns.push(column.encoding(*encoding).compression(compression));
            }
        }
        let schema = Schema::new(columns).unwrap();
        let table = client.create_table("all_types", schema).replicas(1).create().await.unwrap();
        let session = table.session().open();
        let mut expected = Vec::new();
        for id in 0..200_i32 {
            let mut row = table.row(Operation::Insert);
            row.set("id", id).unwrap();
            let mut texts = vec![id.to_string()];
            for (number, (_, encodings, values)) in types.iter().enumerate() {
                for index in 0..encodings.len() {
                    // Some rows leave the column unset, some set NULL; both are read as NULL.
                    let turn = (id as usize * 7 + number + index) % (values.len() + 2);
                    let text = match values.get(turn) {
                        Some(value) => {
                            row.set(&format!("c{number}_{index}"), value).unwrap();
                            value_text(value)
                        }
                        None if turn == values.len() => {
                            row.set(&format!("c{number}_{index}"), Cell::Null).unwrap();
                            "NULL".into()
                        }
                        None => "NULL".into(),
                    };
                    texts.push(text);
                }
            }
            expected.push(texts.join("|"));
            session.apply(&row).await.unwrap();
        }
        session.flush().await.unwrap();
        expected.sort();
        for (layout, on_disk) in [
            (Layout::Columnar, false),
            (Layout::Rowwise, false),
            // Only flushed rows have been encoded.
            (Layout::Columnar, true),
            (Layout::Rowwise, true),
        ] {
            if on_disk {
                wait_for_flush(&cluster, 1).await;
            }
            let scan = table.scan().layout(layout).batch_bytes(100_000);
            let batches = scan.open().await.unwrap().collect().await.unwrap();
            assert_eq!(*batches[0].schema(), table.schema().to_arrow());
            assert!(batches.len() > 1, "several batches are wanted");
            let rows = rows_of(&batches);
            assert_eq!(rows.len(), expected.len());
            for (row, wanted) in rows.iter().zip(&expected) {
                assert!(row == wanted, "{layout:?}: {:.300} instead of {:.300}", row, wanted);
            }
        }
        // The batches of a scan can be written unchanged.
        let copy = table.schema().columns().to_vec();
        let copy = client.create_table("all_types_copy", Schema::new(copy).unwrap()).replicas(1);
        let copy = copy.create().await.unwrap();
        let session = copy.session().open();
        for batch in table.scan().open().await.unwrap().collect().await.unwrap() {
            session.apply_arrow(Operation::Insert, &batch).await.unwrap();
        }
        session.flush().await.unwrap();
        let rows = rows_of(&copy.scan().open().await.unwrap().collect().await.unwrap());
        assert!(rows == expected, "the copy differs");
    });
}

#[test]
fn every_key_type_can_be_a_key() {
    with_shared(async |client| {
        for (number, (data_type, _, values)) in all_types().into_iter().enumerate() {
            if matches!(data_type, DataType::Float | DataType::Double | DataType::Bool) {
                continue;
            }
            let schema = Schema::new(vec![
                Column::new("a", data_type).key(),
                Column::new("b", data_type).key(),
                Column::new("n", DataType::Int8),
            ]);
            let creator = client.create_table(format!("key_{number}"), schema.unwrap()).replicas(1);
            let creator = creator.hash(HashPartition::new(["a", "b"], 3).seed(7)).range_columns(["b", "a"]);
            let table = creator.create().await.unwrap();
            let session = table.session().mode(FlushMode::Sync).open();
            let mut count = 0;
            for a in &values {
                for b in &values {
                    let too_long = |value: &Value| matches!(value, Value::String(text) if text.len() > 8000);
                    if too_long(a) || too_long(b) {
                        continue;
                    }
                    let mut row = table.row(Operation::Insert);
                    row.set("a", a).unwrap().set("b", b).unwrap().set("n", 1_i8).unwrap();
                    // The server refuses rows of another tablet, which checks key and hash.
                    session
                        .apply(&row)
                        .await
                        .unwrap_or_else(|error| panic!("{data_type:?} {a} {b}: {error}"));
                    count += 1;
                    let scan = table.scan().filter(Predicate::eq("a", a)).filter(Predicate::eq("b", b));
                    assert_eq!(scan.count().await.unwrap(), 1, "{data_type:?} {a} {b}");
                }
            }
            assert_eq!(table.scan().count().await.unwrap(), count);
            client.delete_table(table.name()).await.unwrap();
        }
    });
}

#[test]
fn the_options_of_a_table_can_be_read_back() {
    with_shared(async |client| {
        let schema = Schema::new(vec![
            Column::new("k", DataType::Varchar { length: 20 }).key().comment("the key"),
            Column::new("d", DataType::Decimal { precision: 12, scale: 3 }).default_value(1500_i128),
            Column::new("s", DataType::String)
                .nullable()
                .default_value("none")
                .encoding(Encoding::Dictionary),
            Column::new("i", DataType::Int32)
                .default_value(7)
                .compression(Compression::Zlib)
                .block_size_bytes(65536),
            Column::new("m", DataType::Int8).nullable().immutable(),
        ])
        .unwrap();
        let creator = client
            .create_table("described", schema.clone())
            .replicas(1)
            .owner("somebody")
            .comment("what it is for")
            .extra_config("kudu.table.history_max_age_sec", "3600")
            .dimension_label("label");
        creator.create().await.unwrap();
        let table = client.open_table("described").await.unwrap();
        assert_eq!(table.owner(), "somebody");
        assert_eq!(table.comment(), "what it is for");
        assert_eq!(table.replicas(), 1);
        assert_eq!(table.extra_configs()["kudu.table.history_max_age_sec"], "3600");
        assert_eq!(table.schema().columns()[1].default(), Some(&Value::Int128(1500)));
        assert_eq!(table.schema().columns()[0].comment_text(), "the key");
        assert_eq!(table.schema().columns()[3].storage().1, Compression::Zlib);
        assert_eq!(table.schema().columns()[2].data_type(), DataType::String);

        let session = table.session().mode(FlushMode::Sync).open();
        let mut row = table.row(Operation::Insert);
        row.set("k", "longer than twenty characters").unwrap().set("m", 1_i8).unwrap();
        session.apply(&row).await.unwrap();
        let rows = rows_of(&table.scan().open().await.unwrap().collect().await.unwrap());
        assert_eq!(rows, [r#""longer than twenty c"|1500|"none"|7|1"#]);

        // An immutable column can be set once.
        let mut change = table.row(Operation::Upsert);
        change.set("k", "longer than twenty characters").unwrap().set("m", 2_i8).unwrap();
        let error = session.apply(&change).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::Row(20)), "{error}");
        let mut change = table.row(Operation::UpsertIgnore);
        change.set("k", "longer than twenty characters").unwrap().set("m", 2_i8).unwrap();
        session.apply(&change).await.unwrap();

        let by_id = client.open_table_by_id(&table.id()).await.unwrap();
        assert_eq!(by_id.name(), "described");
        let listed = client.list_tables("descr").await.unwrap();
        assert_eq!((listed.len(), listed[0].tablets, listed[0].replicas), (1, Some(1), Some(1)));
        // Servers report their sizes with their heartbeats.
        wait_until("the one row is counted", async || table.statistics().await.unwrap().live_rows == Some(1))
            .await;
        assert!(table.statistics().await.unwrap().on_disk_bytes.is_some());
        let listed = client.list_tables("descr").await.unwrap();
        assert_eq!(listed[0].live_rows, Some(1));

        // The counters count what this client did.
        let metrics = client.metrics();
        assert!(
            metrics.rows_written >= 1 && metrics.rows_scanned >= 1 && metrics.calls > metrics.connections
        );
        assert!(metrics.bytes_sent > 0 && metrics.bytes_received > 0 && metrics.location_lookups > 0);
    });
}

#[test]
fn columns_names_and_options_of_tables_are_altered() {
    with_shared(async |client| {
        let table = small_table(&client, "changing", 2, 1).await;
        insert_range(&table, 0..10).await;
        let extra = Column::new("extra", DataType::Int16).default_value(4_i16);
        let changed =
            table.alter().add_column(&extra).rename_column("text", "renamed").apply().await.unwrap();
        assert!(changed.schema().index_of("renamed").is_some());
        let rows =
            rows_of(&changed.scan().project(["key", "extra"]).open().await.unwrap().collect().await.unwrap());
        assert_eq!(rows[1], "1|4");
        // The old handle does not know the new column, which has a default; its old column names no longer exist.
        let error = table.scan().project(["text"]).count().await.unwrap();
        assert_eq!(error, 10, "a count projects nothing");
        let error = table.scan().project(["text"]).open().await.unwrap().collect().await.unwrap_err();
        assert!(!error.can_retry(), "{error}");

        let change = ColumnChange {
            default_value: Some(9_i16.into()),
            comment: Some("more".into()),
            encoding: Some(Encoding::RunLength),
            ..ColumnChange::default()
        };
        let changed = changed
            .alter()
            .change_column("extra", change)
            .drop_column("value")
            .rename("changed")
            .owner("new owner")
            .comment("new comment")
            .extra_config("kudu.table.history_max_age_sec", "77")
            .apply()
            .await
            .unwrap();
        assert_eq!(changed.name(), "changed");
        assert_eq!((changed.owner(), changed.comment()), ("new owner", "new comment"));
        assert_eq!(changed.schema().columns().len(), 3);
        let column = &changed.schema().columns()[2];
        assert_eq!((column.default(), column.comment_text()), (Some(&Value::Int16(9)), "more"));
        assert!(!client.table_exists("changing").await.unwrap());

        // Writing with the schema from before the change.
        let session = table.session().mode(FlushMode::Sync).open();
        let error = session.apply(&small_row(&table, Operation::Insert, 100)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SchemaMismatch, "{error}");
        assert!(error.tablet().is_some() && error.server().is_some());
    });
}

#[test]
fn deleted_tables_can_be_recalled_for_a_while() {
    with_shared(async |client| {
        let table = small_table(&client, "shortlived", 2, 1).await;
        insert_range(&table, 0..10).await;
        client.soft_delete_table("shortlived", Duration::from_secs(600)).await.unwrap();
        let deleted = client.list_soft_deleted_tables().await.unwrap();
        let deleted = deleted.iter().find(|table| table.name == "shortlived").unwrap();
        client.recall_table(&deleted.id, Some("back again")).await.unwrap();
        let table = client.open_table("back again").await.unwrap();
        assert_eq!(table.scan().count().await.unwrap(), 10);
        client.delete_table("back again").await.unwrap();
        let error = client.open_table("back again").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    });
}

#[test]
fn refusals_of_the_masters_become_the_right_errors() {
    with_shared(async |client| {
        let kind = async |creator: TableCreator| creator.create().await.unwrap_err().kind();
        small_table(&client, "taken", 1, 1).await;
        let create = |name: &str| client.create_table(name, small_schema()).replicas(1);
        assert_eq!(kind(create("taken")).await, ErrorKind::AlreadyPresent);
        // Servers may be missing for a while only.
        assert_eq!(kind(create("three").replicas(3)).await, ErrorKind::Unavailable);
        assert_eq!(kind(create("even").replicas(2)).await, ErrorKind::InvalidArgument);
        assert_eq!(
            kind(create("hash").hash(HashPartition::new(["value"], 2))).await,
            ErrorKind::InvalidArgument
        );
        assert_eq!(
            kind(create("hash").hash(HashPartition::new(["key"], 1))).await,
            ErrorKind::InvalidArgument
        );
        let range = |from: i64, to: i64| {
            RangePartition::new(RangeBound::inclusive("key", from), RangeBound::exclusive("key", to))
        };
        let overlapping = create("ranges").range_columns(["key"]).range(range(0, 10)).range(range(5, 15));
        assert_eq!(kind(overlapping).await, ErrorKind::InvalidArgument);
        let columns: Vec<Column> = std::iter::once(Column::new("k", DataType::Int8).key())
            .chain((0..300).map(|number| Column::new(format!("c{number}"), DataType::Int8)))
            .collect();
        let wide = client.create_table("wide", Schema::new(columns).unwrap()).replicas(1);
        assert_eq!(kind(wide).await, ErrorKind::InvalidArgument);
        let error = client.delete_table("nothing").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.code(), Some(Code::Master(3, 1)));
        assert!(error.server().is_some());
        let table = client.open_table("taken").await.unwrap();
        assert!(table.alter().drop_column("nothing").apply().await.is_err());
        assert!(table.alter().drop_column("key").apply().await.is_err());
    });
}

#[test]
fn a_client_without_a_master_fails_in_time() {
    run(async {
        let started = std::time::Instant::now();
        let nobody = Client::builder(["127.0.0.1:1"]).admin_timeout(Duration::from_millis(300));
        let error = nobody.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Network, "{error}");
        // By default it gives up after 30 s.
        assert!(started.elapsed() < Duration::from_secs(25));
        assert!(Client::builder(Vec::<String>::new()).connect().await.is_err());
        assert!(Client::builder(["x"]).jwt("y").connect().await.is_err());
    });
}
