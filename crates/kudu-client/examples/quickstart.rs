//! The example of the README: `cargo run -p kudu-client --example quickstart MASTER:PORT…`.

#![allow(clippy::print_stdout, reason = "it shows what it finds")]

#[tokio::main]
#[allow(dead_code, reason = "the test of the README calls only the function below")]
async fn main() -> kudu_client::Result<()> {
    quickstart(std::env::args().skip(1).collect()).await.map(drop)
}

pub(crate) async fn quickstart(masters: Vec<String>) -> kudu_client::Result<usize> {
    use kudu_client::{Client, Column, DataType, HashPartition, Operation, Predicate, Schema};

    let client = Client::builder(masters).connect().await?;

    let schema = Schema::new(vec![
        Column::new("host", DataType::String).key(),
        Column::new("time", DataType::UnixtimeMicros).key(),
        Column::new("load", DataType::Double).nullable(),
    ])?;
    let table = client
        .create_table("metrics", schema)
        .hash(HashPartition::new(["host"], 4))
        .replicas(1)
        .create()
        .await?;

    let session = table.session().open();
    for second in 0..1000_i64 {
        let mut row = table.row(Operation::Upsert);
        row.set("host", "web-1")?.set("time", second * 1_000_000)?.set("load", 0.5)?;
        session.apply(&row).await?;
    }
    session.flush().await?;

    let mut found = 0;
    let mut scanner = table
        .scan()
        .project(["time", "load"])
        .filter(Predicate::eq("host", "web-1"))
        .filter(Predicate::ge("time", 990_000_000_i64))
        .open()
        .await?;
    while let Some(batch) = scanner.next_batch().await? {
        found += batch.num_rows();
    }
    println!("{found} rows");

    client.delete_table("metrics").await?;
    Ok(found)
}
