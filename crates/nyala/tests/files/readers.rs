//! Programs of others read what is exported: pyarrow, pandas, polars and DuckDB. `NYALA_PYTHON` names a Python that has them.

use super::{Fixture, peers, write_every_type};
use std::path::Path;
use std::process::Command;

#[test]
fn programs_of_others_read_exports() {
    let python = std::env::var("NYALA_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let check = ["-c", "import duckdb, pandas, polars, pyarrow"];
    let found = peers::works(&python, &check).then_some(python);
    let remedy = "pip install duckdb pandas polars pyarrow, and set NYALA_PYTHON";
    let Some(python) = peers::require("pyarrow, pandas, polars and DuckDB", remedy, found) else { return };
    let fixture = Fixture::start();
    write_every_type(&fixture.server, "t");
    let lines = "cpu,host=a v=1.5,n=18446744073709551615u 1767225600000000001\n\
                 cpu,host=b v=2.5 1767225600000000002\ncpu,host=a v=3.5 1767312000000000003";
    assert_eq!(fixture.server.write(lines).status, 204);
    for compression in ["zstd", "snappy", "lz4", "none"] {
        let file = format!("t-{compression}.parquet");
        fixture.run(&["export"], &["--table", "t", "--compression", compression, &file]).printed();
    }
    fixture.run(&["export"], &["--table", "t", "t.csv"]).printed();
    fixture.run(&["export"], &["--table", "cpu", "cpu.parquet"]).printed();
    fixture.run(&["export"], &["--table", "cpu", "--partition-by", "host,day", "cpu"]).printed();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/read_files.py");
    let ran = Command::new(python).arg(script).arg(fixture.directory.path()).output().expect("it runs");
    let (out, errors) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{out}{errors}");
}
