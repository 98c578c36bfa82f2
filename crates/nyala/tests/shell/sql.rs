//! SQL in the shell.

use super::{HOSTILE, commands_of_terminals, printed, shell, started};

#[test]
fn rows_are_aligned_and_nulls_are_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let sql = |text: &str| printed(shell(&server, &["--sql"], text));
    assert_eq!(
        sql("SELECT n, s, host\nFROM m -- ;\nORDER BY time; SELECT n FROM m WHERE n > 100;"),
        "  n | s    | host\n----+------+------\n  1 | x    | a\n 70 | NULL | b\n(2 rows)\n\n n\n---\n(0 rows)\n\n"
    );
    // Two columns of one name, texts that look like something else, and numbers as they were sent.
    assert_eq!(
        sql("SELECT 1 AS a, 'NULL' AS a, NULL AS b, 1.50 AS c, '日本' AS d, 'NaN'::float8 AS e"),
        " a | a    | b    |    c | d    |   e\n---+------+------+------+------+-----\n 1 | NULL | NULL | 1.50 | 日本 | NaN\n(1 row)\n\n"
    );
    assert_eq!(
        sql(
            "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2); UPDATE t SET a = a + 2; SELECT count(*) FROM t"
        ),
        "CREATE TABLE\nINSERT 2\nUPDATE 2\n count\n-------\n     2\n(1 row)\n\n"
    );
}

#[test]
fn the_place_of_an_error_is_marked() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let outcome = shell(&server, &["--sql", "-c", "SELECT n,\n  '日本', nowhere FROM m;"], "");
    assert_eq!((outcome.code, &*outcome.out), (1, ""));
    assert!(
        outcome.errors.starts_with("ERROR 42703: column \"nowhere\" does not exist\n"),
        "{}",
        outcome.errors
    );
    assert!(
        outcome.errors.contains("LINE 2:   '日本', nowhere FROM m;\n                  ^\n"),
        "{}",
        outcome.errors
    );
    let outcome = shell(&server, &["--sql", "-c", "BEGIN"], "");
    assert!(outcome.code == 1 && outcome.errors.contains("transactions"), "{outcome:?}");
}

#[test]
fn what_there_is_can_be_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    assert_eq!(server.write(HOSTILE).status, 204);
    let sql = |text: &str| printed(shell(&server, &["--sql"], text));
    sql("CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x'); CREATE VIEW w AS SELECT a FROM t;");
    let tables = sql("\\dt");
    for line in [" autogen | m ", " public  | t ", " public  | w "] {
        assert!(tables.contains(line), "{line}: {tables}");
    }
    assert_eq!(commands_of_terminals(&tables), [], "{tables:?}");
    let columns = sql("\\d T");
    assert!(columns.contains(" public | a      | integer | NO ") && columns.contains("'x'"), "{columns}");
    let columns = sql("\\d autogen.m");
    assert!(columns.contains(" host ") && columns.contains("double precision"), "{columns}");
    assert!(sql("\\l\n\\du").contains(" d\n"));
}

#[test]
fn data_for_programs_comes_from_the_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let as_format = |format: &str| {
        printed(shell(&server, &["--sql", "--format", format, "-c", "SELECT n, s FROM m ORDER BY n"], ""))
    };
    assert_eq!(as_format("csv"), "n,s\n1,x\n70,\n");
    assert_eq!(as_format("json"), "[{\"n\":1,\"s\":\"x\"},{\"n\":70,\"s\":null}]\n");
    assert_eq!(as_format("line"), "n = 1\ns = x\n\nn = 70\ns = NULL\n\n");
}
