//! Requests that no client of ours sends: whoever tries them gets nothing more.

use super::log_ins::first_slowed_down;
use super::sender::{Server, Session, basic, body};
use super::{client::percent_encode, process::Process};

#[test]
fn nobody_is_redirected_and_nothing_is_listed() {
    let server = Server::start(&[]);
    for target in [
        "//evil.example/%2e%2e",
        "/query//evil.example",
        "/\\evil.example",
        "/?next=https://evil.example",
        "/assets",
        "/assets/",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/data/",
        "/.git/config",
    ] {
        for (name, value) in [("Accept", "text/html"), ("X-Forwarded-Host", "evil.example")] {
            let answer = server.send("GET", target, &[(name, value)], "");
            assert!(!(300..400).contains(&answer.status), "{target}: {}", answer.status);
            assert_eq!(answer.header("Location"), None, "{target}");
            let text = body(&answer);
            assert!(!text.contains("root:") && !text.contains("Index of"), "{target}: {text}");
        }
    }
    for method in ["TRACE", "TRACK", "CONNECT", "PROPFIND"] {
        let answer = server.send(method, "/query?u=ann&p=pencil", &[("X-Secret", "canary")], "");
        assert!(matches!(answer.status, 400 | 404 | 405 | 501), "{method}: {}", answer.status);
        assert!(!body(&answer).contains("canary"), "{method}");
    }
}

#[test]
fn headers_of_proxies_are_not_believed() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    // Each guess says that it comes from elsewhere, and is counted as one from here all the same.
    let number = std::cell::Cell::new(0);
    first_slowed_down(|| {
        number.set(number.get() + 1);
        let (address, of) = (format!("10.0.0.{}", number.get()), format!("for=10.0.0.{}", number.get()));
        let headers = [
            ("X-Forwarded-For", &*address),
            ("X-Real-IP", &*address),
            ("Forwarded", &*of),
            ("True-Client-IP", &*address),
        ];
        server.query("u=bob&p=wrong", &headers, "SHOW DATABASES")
    });
    // Nor does one make an administrator of anybody.
    for header in ["X-Forwarded-User", "X-Remote-User", "X-WEBAUTH-USER"] {
        assert_eq!(server.query("", &[(header, "ann")], "SHOW USERS").status, 401, "{header}");
    }
}

#[test]
fn there_are_no_passwords_at_first() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(directory.path(), &["--auth-enabled"]);
    for name in ["admin", "root", "nyala", "influx", "postgres", "user"] {
        for password in [name, "admin", "password", "root", "nyala", "influxdb", "postgres", "123456"] {
            let target = format!("/query?u={name}&p={password}&q={}", percent_encode("SHOW DATABASES"));
            let answer = server.send("POST", &target, b"").expect("an answer");
            assert!(matches!(answer.status, 401 | 403), "{name} {password}: {}", answer.status);
        }
    }
}

#[test]
fn until_there_is_an_administrator_nobody_asks_anything() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Process::start(directory.path(), &[]);
    server.query("CREATE DATABASE d");
    assert!(server.stop().success());
    let server = Process::start(directory.path(), &["--auth-enabled"]);
    for (method, target, text) in [
        ("POST", "/query?q=SHOW+DATABASES", ""),
        ("POST", "/api/sql?db=d", "SELECT 1"),
        ("POST", "/api/sql", "SELECT datname FROM pg_database"),
        ("POST", "/api/sql?db=d&u=ann&p=pencil", "SELECT 1"),
        ("POST", "/write?db=d", "m v=1"),
        ("GET", "/metrics", ""),
    ] {
        let answer = server.send(method, target, text.as_bytes()).expect("an answer");
        assert_eq!(answer.status, 403, "{target} {text}: {}", body(&answer));
    }
}

#[test]
fn any_text_is_a_password_as_it_is() {
    let server = Server::start(&[]);
    let long = "p".repeat(1000);
    let texts =
        ["ä ö ü 🐘", " spaces around ", "quote'and\\backslash", "a:b:c", "%41+%20", "İstanbul", &long];
    for (number, password) in texts.into_iter().enumerate() {
        let written = password.replace('\\', "\\\\").replace('\'', "\\'");
        server.ask(&format!("CREATE USER u{number} WITH PASSWORD '{written}'"));
        server.ask(&format!("GRANT READ ON home TO u{number}"));
        let name = format!("u{number}");
        let of_url = format!("u={name}&p={}", percent_encode(password));
        assert_eq!(server.query(&of_url, &[], "SHOW DATABASES").status, 200, "{password}");
        let header = basic(&name, password);
        assert_eq!(
            server.query("", &[("Authorization", &header)], "SHOW DATABASES").status,
            200,
            "{password}"
        );
        assert!(Session::open(server.postgres, &name, password).is_ok(), "{password}");
        // Not a part of it, and not in another case.
        let mut shorter = password.to_owned();
        shorter.pop();
        for wrong in [&*shorter, &password.to_uppercase(), password.trim()] {
            if wrong != password {
                let of_url = format!("u={name}&p={}", percent_encode(wrong));
                let status = server.query(&of_url, &[], "SHOW DATABASES").status;
                assert!(matches!(status, 401 | 429), "{wrong}: {status}");
            }
        }
    }
}

#[test]
fn of_a_parameter_that_stands_twice_the_first_counts() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT READ ON home TO bob");
    server.ask("CREATE DATABASE secret");
    assert_eq!(server.send("POST", "/write?db=secret&u=ann&p=pencil", &[], "m v=42 1").status, 204);
    // Who is asked for is who has to prove it, whatever stands behind.
    let asked = server.send(
        "POST",
        "/query?u=bob&p=paper&u=ann&p=pencil&db=secret&db=home&q=SELECT%20v%20FROM%20m",
        &[],
        "",
    );
    assert!(!body(&asked).contains("42"), "{}", body(&asked));
    let swapped = server.send("POST", "/query?u=ann&u=bob&p=paper&q=SHOW%20USERS", &[], "");
    assert_eq!(swapped.status, 401);
    // A form is not overruled by the URL.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let both =
        server.send("POST", "/query?q=DROP%20DATABASE%20home&u=ann&p=pencil", &form, "q=SHOW%20DATABASES");
    assert!(body(&both).contains("databases"), "{}", body(&both));
    assert!(server.ask("SHOW DATABASES").contains("home"));
}

#[test]
fn whoever_asks_without_the_console_gets_no_more() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT READ ON home TO bob");
    let bob = "u=bob&p=paper";
    // What the console does not offer to a reader.
    for statement in
        ["CREATE DATABASE d", "DROP DATABASE home", "SHOW USERS", "SHOW TOKENS", "SHOW SUBSCRIPTIONS"]
    {
        assert_eq!(server.query(bob, &[], statement).status, 403, "{statement}");
    }
    let made = server.directory.path().join("made");
    let by_program = format!("COPY (SELECT 1) TO PROGRAM 'touch {}'", made.display());
    for statement in [
        "INSERT INTO nyala_dashboards VALUES ('x', 1, '{}')",
        "CREATE TABLE nyala_dashboards (name text PRIMARY KEY)",
        &by_program,
        "COPY (SELECT 1) TO '/etc/passwd'",
    ] {
        let answer = server.send("POST", &format!("/api/sql?db=home&{bob}"), &[], statement);
        assert!(answer.status >= 400, "{statement}: {}", body(&answer));
    }
    for path in ["/metrics", "/debug/vars", "/debug/log", "/debug/requests", "/api/backup", "/status"] {
        let status = server.send("GET", &format!("{path}?{bob}"), &[], "").status;
        assert!(status >= 400 || path == "/status", "{path}: {status}");
    }
    assert!(!made.exists());
}
