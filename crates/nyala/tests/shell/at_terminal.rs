//! A person at a terminal: prompts, completion, earlier statements, Ctrl-C, Ctrl-D, the pager.

use super::process::Process;
use super::terminal::Terminal;
use super::{HOSTILE, commands_of_terminals, started};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A shell of the database `d`, which keeps what it remembers in a folder.
fn shell(server: &Process, state: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Terminal {
    let port = server.address.port().to_string();
    let arguments: Vec<&str> =
        ["shell", "--port", &port, "-d", "d"].iter().chain(arguments).copied().collect();
    let state = state.to_str().expect("UTF-8");
    let variables: Vec<_> =
        [("XDG_STATE_HOME", state), ("NO_COLOR", "1")].iter().chain(variables).copied().collect();
    Terminal::start(env!("CARGO_BIN_EXE_nyala"), &arguments, &variables)
}

#[test]
fn a_person_asks_and_leaves() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(&dir.path().join("data"), &[]);
    let mut terminal = shell(&server, dir.path(), &["-x"], &[]);
    terminal.asks("d influxql> ");
    terminal.types("SELECT n FROM m WHERE host = 'b'\r");
    terminal.shows("n    | 70");
    terminal.asks("d influxql> ");
    terminal.types("SELECT * FRM m\r");
    terminal.shows("expected FROM at line 1, char 10");
    terminal.shows("^");
    terminal.asks("d influxql> ");
    terminal.types("use d.autogen\r");
    terminal.asks("d.autogen influxql> ");
    terminal.types("use nowhere\r");
    terminal.shows("there is no database nowhere");
    terminal.asks("d.autogen influxql> ");
    // An empty line, and a line that is given up.
    terminal.types("\r");
    terminal.asks("d.autogen influxql> ");
    terminal.types("SELECT nonsense\u{3}");
    terminal.asks("d.autogen influxql> ");
    terminal.types("history\r");
    terminal.shows("\nuse nowhere");
    terminal.asks("d.autogen influxql> ");
    terminal.types("SET PASSWORD FOR nobody = 'secret'\r");
    terminal.shows("user not found");
    terminal.asks("d.autogen influxql> ");
    terminal.types("\u{4}");
    assert!(terminal.ends().success());
    let history = dir.path().join("nyala/shell_history");
    let mode = |path: &Path| std::fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!((mode(&history), mode(history.parent().expect("a folder"))), (0o600, 0o700));
    let text = std::fs::read_to_string(&history).expect("readable");
    assert!(text.contains("use d.autogen") && !text.contains("secret"), "{text}");
    // The next shell knows them.
    let mut terminal = shell(&server, dir.path(), &[], &[]);
    terminal.asks("d influxql> ");
    terminal.types("\u{10}\u{10}\u{10}");
    terminal.shows("use d.autogen");
    terminal.types("\r");
    terminal.asks("d.autogen influxql> ");
    terminal.types("exit\r");
    assert!(terminal.ends().success());
}

#[test]
fn names_are_completed() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(&dir.path().join("data"), &[]);
    assert_eq!(server.write(HOSTILE).status, 204);
    assert_eq!(server.write("temperature,room=attic celsius=21.5 1").status, 204);
    let mut terminal = shell(&server, dir.path(), &[], &[]);
    terminal.asks("d influxql> ");
    // Names are read in the background.
    let begun = std::time::Instant::now();
    loop {
        terminal.types("select cels\t\u{3}");
        if terminal.asks("d influxql> ").contains("celsius") {
            break;
        }
        assert!(begun.elapsed().as_secs() < 60, "nothing is completed: {:?}", terminal.all());
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    terminal.types("sel\t cels\t from temp\t\r");
    terminal.shows("21.5");
    terminal.asks("d influxql> ");
    // A hostile name is not offered.
    terminal.types("select * from h\t\u{3}");
    terminal.asks("d influxql> ");
    assert!(!terminal.all().contains("31m"), "{:?}", terminal.all());
    terminal.types("\\q\r");
    assert!(terminal.ends().success());
}

#[test]
fn hostile_data_commands_no_terminal_in_any_format() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(&dir.path().join("data"), &[]);
    assert_eq!(server.write(HOSTILE).status, 204);
    let mut terminal = shell(&server, dir.path(), &["--no-history"], &[("PAGER", "")]);
    terminal.asks("d influxql> ");
    for format in ["table", "csv", "json", "line"] {
        terminal.types(&format!("\\format {format}\r"));
        terminal.asks("d influxql> ");
        terminal.types("SELECT * FROM /h/\r");
        // The terminal is in the mode of the editor until the line is entered.
        terminal.shows("\u{1b}[?2004l\r\n");
        let answer = terminal.asks("d influxql> ");
        assert!(answer.contains("31m"), "{format}: {answer:?}");
        assert_eq!(commands_of_terminals(&answer), [], "{format}: {answer:?}");
    }
    terminal.types("\u{4}");
    assert!(terminal.ends().success());
    assert!(!dir.path().join("nyala").exists());
}

#[test]
fn a_long_answer_is_paged() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(&dir.path().join("data"), &[]);
    let lines = (1..=100).map(|number| format!("long v={number} {number}\n")).collect::<String>();
    assert_eq!(server.write(&lines).status, 204);
    let mut terminal = shell(&server, dir.path(), &[], &[("PAGER", "sed s/^/paged:/")]);
    terminal.asks("d influxql> ");
    terminal.types("SELECT * FROM long\r");
    terminal.shows("paged:name: long");
    terminal.shows("paged:(100 rows)");
    terminal.asks("d influxql> ");
    terminal.types("SELECT * FROM long LIMIT 3\r");
    assert!(!terminal.shows("(3 rows)").contains("paged"));
    for command in ["\\pager off\r", "\\timing\r", "SELECT * FROM long\r"] {
        terminal.asks("d influxql> ");
        terminal.types(command);
    }
    assert!(!terminal.shows("(100 rows)").contains("paged"));
    terminal.shows("Time: ");
    terminal.asks("d influxql> ");
    terminal.types("\u{4}");
    assert!(terminal.ends().success());
    // A pager that is left early ends the statement, and nothing else.
    let mut terminal = shell(&server, dir.path(), &[], &[("PAGER", "head -n 2")]);
    terminal.asks("d influxql> ");
    terminal.types("SELECT * FROM long\r");
    terminal.shows("name: long");
    terminal.asks("d influxql> ");
    terminal.types("\u{4}");
    assert!(terminal.ends().success());
}

#[test]
fn the_shell_outlives_its_server() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut server = started(&dir.path().join("data"), &[]);
    let mut terminal = shell(&server, dir.path(), &[], &[]);
    terminal.asks("d influxql> ");
    server.kill();
    terminal.types("SHOW DATABASES\r");
    terminal.shows("HINT: Is the server running?");
    terminal.asks("d influxql> ");
    terminal.types("\u{4}");
    assert!(terminal.ends().success());
    // Nobody is asked for statements that nobody will answer.
    let terminal = shell(&server, dir.path(), &[], &[]);
    assert_eq!(terminal.ends().code(), Some(2));
}

#[cfg(feature = "sql")]
#[test]
fn ctrl_c_cancels_the_statement_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(&dir.path().join("data"), &[]);
    let mut terminal = shell(&server, dir.path(), &["--sql"], &[]);
    terminal.asks("d sql> ");
    terminal.types(
        "SELECT count(*) FROM generate_series(1, 100000) a,\rgenerate_series(1, 1000000) b WHERE a + b < 0;\r",
    );
    let runs = || server.query("SHOW QUERIES").to_string().contains("generate_series");
    let begun = std::time::Instant::now();
    while !runs() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{}", terminal.unseen());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    terminal.interrupts();
    terminal.shows("cancelled");
    terminal.asks("d sql> ");
    let begun = std::time::Instant::now();
    while runs() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(60), "it goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    terminal.types("SELECT n FROM m\r  WHERE host = 'b'; \\influxql\r");
    terminal.shows("70");
    terminal.asks("d influxql> ");
    terminal.types("SHOW DATABASES\r");
    terminal.shows("name: databases");
    terminal.asks("d influxql> ");
    terminal.types("\\watch 3600\r");
    terminal.shows("(1 row)");
    terminal.interrupts();
    terminal.asks("d influxql> ");
    terminal.types("\u{4}");
    assert!(terminal.ends().success());
}
