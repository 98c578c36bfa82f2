//! Statements of the command line, of standard input and of files; every format; hostile data; long answers.

use super::{HOSTILE, commands_of_terminals, printed, run, shell, started};
use std::process::{Command, Stdio};

#[test]
fn a_statement_is_answered_with_a_table() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let text = printed(shell(&server, &["-c", "SELECT * FROM m"], ""));
    assert_eq!(
        text,
        "name: m\n       time | host |  n | s    |   v\n------------+------+----+------+-----\n \
         1000000001 | a    |  1 | x    | 1.5\n 3000000000 | b    | 70 | NULL |  -3\n(2 rows)\n\n"
    );
    // Several statements of one request, and a series per tag.
    let text = printed(shell(&server, &["-c", "SELECT v FROM m GROUP BY host; SHOW TAG KEYS"], ""));
    assert!(
        text.starts_with("name: m\ntags: host=a\n") && text.ends_with("--------\n host\n(1 row)\n\n"),
        "{text}"
    );
}

#[test]
fn statements_of_a_script_follow_one_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let script = "\
CREATE DATABASE other
use other
insert w,room=attic celsius=21.5 1000
insert into autogen w,room=attic celsius=22 2000
precision ms
insert w,room=attic celsius=23 3
\\format csv
SELECT celsius FROM w WHERE room = 'attic';
precision rfc3339
SELECT max(celsius) FROM w
\\x
\\format table
SELECT count(celsius) FROM w
\\q
this is not reached
";
    let text = printed(shell(&server, &[], script));
    assert_eq!(
        text,
        "name,time,celsius\nw,0,21.5\nw,0,22\nw,3,23\nname,time,max\nw,1970-01-01T00:00:00.003Z,23\n\
         name: w\n-[ RECORD 1 ]\ntime  | 1970-01-01T00:00:00Z\ncount | 3\n\n"
    );
}

#[test]
fn a_script_stops_at_its_first_error() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let file = dir.path().join("statements");
    std::fs::write(&file, "SHOW DATABASES\n\nSELECT * FRM m\nCREATE DATABASE late\n").expect("written");
    let file = file.to_str().expect("UTF-8");
    let outcome = shell(&server, &["-f", file], "");
    assert_eq!((outcome.code, &*outcome.out), (1, "name: databases\n name\n------\n d\n(1 row)\n\n"));
    let place =
        format!("{file}:3: ERROR: error parsing query: found FRM, expected FROM at line 1, char 10\n");
    assert_eq!(outcome.errors, format!("{place}LINE 1: SELECT * FRM m\n                 ^\n"));
    assert!(!server.query("SHOW DATABASES").to_string().contains("late"));
    // The same from standard input, from a file within a file, and on the command line.
    assert_eq!(shell(&server, &[], "SELECT 1\nCREATE DATABASE late").code, 1);
    assert_eq!(shell(&server, &["-c", &format!("\\i {file}"), "-c", "CREATE DATABASE late"], "").code, 1);
    assert_eq!(shell(&server, &["-f", "/nonexistent"], "").code, 1);
    assert!(!server.query("SHOW DATABASES").to_string().contains("late"));
    for wrong in [
        "use nowhere",
        "\\nonsense",
        "precision days",
        "insert bad",
        "\\i /nonexistent",
        "\\watch",
        "\\d a b",
    ] {
        let outcome = shell(&server, &[], wrong);
        assert!(outcome.code == 1 && outcome.errors.contains("ERROR: "), "{wrong}: {outcome:?}");
    }
    // An error of the second statement of a request, whatever the format.
    for format in ["table", "csv", "json", "line"] {
        let outcome = shell(
            &server,
            &[
                "--format",
                format,
                "-c",
                "SHOW DATABASES; CREATE RETENTION POLICY p ON nowhere DURATION 1h REPLICATION 1",
            ],
            "",
        );
        assert_eq!(outcome.code, 1, "{outcome:?}");
        assert!(outcome.out.contains('d'), "{outcome:?}");
    }
}

#[test]
fn each_format_says_the_same() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let of = |arguments: &[&str]| {
        printed(shell(&server, &[arguments, &["-c", "SELECT n, s FROM m"]].concat(), ""))
    };
    assert_eq!(of(&["--format", "csv"]), "name,time,n,s\nm,1000000001,1,x\nm,3000000000,70,\n");
    assert_eq!(
        of(&["--format", "line"]),
        "name: m\ntime = 1000000001\n   n = 1\n   s = x\n\ntime = 3000000000\n   n = 70\n   s = NULL\n\n"
    );
    let json: serde_json::Value =
        serde_json::from_str(&of(&["--format", "json", "--precision", "s"])).expect("JSON");
    assert_eq!(json, {
        let target = "/query?db=d&epoch=s&q=SELECT%20n,%20s%20FROM%20m";
        serde_json::from_slice::<serde_json::Value>(&server.send("GET", target, b"").expect("an answer").body)
            .expect("JSON")
    });
    assert!(of(&["-x"]).starts_with("name: m\n-[ RECORD 1 ]\ntime | 1000000001\n"));
    assert!(of(&["--timing"]).contains("(2 rows)\n\nTime: "));
}

#[test]
fn hostile_data_commands_no_terminal() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    assert_eq!(server.write(HOSTILE).status, 204);
    for arguments in
        [&["-c", "SELECT * FROM /./"][..], &["-x", "-c", "SELECT * FROM /./ GROUP BY *"], &["-c", "\\dt"]]
    {
        let text = printed(shell(&server, arguments, ""));
        assert_eq!(commands_of_terminals(&text), [], "{text:?}");
        assert!(text.contains("\\x1b[31m"), "{text:?}");
    }
    // An error that quotes the statement.
    let outcome = shell(&server, &["-c", "SELECT \u{1b}[31m"], "");
    assert_eq!((outcome.code, commands_of_terminals(&outcome.errors)), (1, vec![]), "{outcome:?}");
    // Data for programs is not changed.
    let text = printed(shell(&server, &["--format", "csv", "-c", "SELECT w FROM /h/"], ""));
    assert!(text.contains("\u{9b}31m\u{7f}\u{202e}x"), "{text:?}");
}

#[test]
fn rows_go_to_a_file_and_statements_are_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let file = dir.path().join("rows");
    let script = format!(
        "\\format csv\n\\o {}\nSELECT n FROM m\n\\o\nSELECT n FROM m LIMIT 1\n\\watch 0 2\n",
        file.display()
    );
    let text = printed(shell(&server, &[], &script));
    let once = "name,time,n\nm,1000000001,1\n";
    assert_eq!(text, once.repeat(3));
    assert_eq!(std::fs::read_to_string(&file).expect("is there"), format!("{once}m,3000000000,70\n"));
}

#[test]
fn a_long_answer_takes_no_memory() {
    const ROWS: usize = 100_000;
    const PEAK_BYTES_MAX: u64 = 100 << 20;
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let filler = "x".repeat(1000);
    for batch in 0..10 {
        let lines =
            (0..ROWS / 10).map(|number| format!("long s=\"{filler}\" {}\n", batch * ROWS / 10 + number + 1));
        assert_eq!(server.write(&lines.collect::<String>()).status, 204);
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_nyala"))
        .args(["shell", "--port", &server.address.port().to_string(), "-d", "d", "-c", "SELECT * FROM long"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut rows = child.stdout.take().expect("is piped");
    let mut peak = 0;
    let mut bytes = 0;
    let mut piece = vec![0; 1 << 20];
    loop {
        let count = std::io::Read::read(&mut rows, &mut piece).expect("readable");
        if count == 0 {
            break;
        }
        bytes += count;
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let kib = |name| {
            let kib = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0").trim();
            kib.trim_end_matches(" kB").parse::<u64>().unwrap_or(0)
        };
        // How much of its code is resident depends on the system.
        peak = peak.max(kib("VmHWM:").saturating_sub(kib("RssFile:")) << 10);
    }
    assert!(child.wait().expect("it ends").success());
    assert!(bytes > ROWS * 1000, "{bytes}");
    assert!(peak > 0 && peak < PEAK_BYTES_MAX, "{peak} bytes");
}

#[test]
fn the_help_has_examples() {
    let help = printed(run(&["--help"], &[], ""));
    assert!(help.contains("nyala shell --sql -d home") && help.contains("Exit code:"), "{help}");
    assert!(printed(run(&["-c", "\\?"], &[], "")).contains("\\watch"));
}
