//! Tokens: valid by every way in, never more than their user may do, and of no use once they are dropped or have expired.

use super::client::percent_encode;
use super::sender::{Server, Session, basic, body};
use super::{files, text};
use std::time::Duration;

/// Statuses of a read of `home`, a write to it, and a read of `other`, with some credentials.
fn statuses(server: &Server, in_url: &str, headers: &[(&str, &str)]) -> [u16; 3] {
    let read = |database: &str| {
        let query = percent_encode("SELECT v FROM m");
        server.send("POST", &format!("/query?db={database}&{in_url}&q={query}"), headers, "").status
    };
    let write = server.send("POST", &format!("/write?db=home&{in_url}"), headers, "m v=2 2");
    [read("home"), write.status, read("other")]
}

/// `bob` may do all with `home`, and read `other`.
fn with_bob(arguments: &[&str]) -> Server {
    let server = Server::start(arguments);
    for statement in [
        "CREATE DATABASE other",
        "CREATE USER bob WITH PASSWORD 'paper'",
        "GRANT ALL ON home TO bob",
        "GRANT READ ON other TO bob",
    ] {
        server.ask(statement);
    }
    assert_eq!(server.send("POST", "/write?db=home&u=ann&p=pencil", &[], "m v=1 1").status, 204);
    server
}

#[test]
fn a_token_is_valid_by_every_way_in_and_allows_no_more_than_it_says() {
    let server = with_bob(&[]);
    let reads = server.token("CREATE TOKEN reads FOR bob ON home READ EXPIRES IN 1d");
    let all = server.token("CREATE TOKEN \"all\" FOR bob EXPIRES '2200-01-01'");
    let scoped = server.token("CREATE TOKEN scoped FOR ann ON home WRITE, other READ");
    for (secret, user, expected) in
        [(&reads, "bob", [200, 403, 403]), (&all, "bob", [200, 204, 200]), (&scoped, "ann", [403, 204, 200])]
    {
        for header in [format!("Token {secret}"), format!("Bearer {secret}"), basic(user, secret)] {
            assert_eq!(statuses(&server, "", &[("Authorization", &header)]), expected, "{user} {header}");
        }
        assert_eq!(statuses(&server, &format!("u={user}&p={secret}"), &[]), expected, "{user}");
        let header = format!("Token {user}:{secret}");
        assert_eq!(statuses(&server, "", &[("Authorization", &header)]), expected, "{user}");
    }
    // It is the token of its user only.
    assert_eq!(statuses(&server, &format!("u=ann&p={all}"), &[]), [401; 3]);
    // Whatever may be written by InfluxDB 2's interface, Prometheus and SQL.
    let (header, only_reads) = (format!("Token {all}"), format!("Token {reads}"));
    for (target, content, status) in [
        ("/api/v2/write?bucket=home", "m v=3 3", [204, 403]),
        ("/api/v1/prom/write?db=home", "\0", [204, 403]),
        ("/api/sql?db=home", "SELECT v FROM m", [200, 200]),
        ("/api/sql?db=home", "INSERT INTO m (time, v) VALUES (now(), 1)", [200, 403]),
        ("/api/sql?db=other", "CREATE TABLE t (a int)", [403, 403]),
    ] {
        let send = |header: &str| server.send("POST", target, &[("Authorization", header)], content).status;
        assert_eq!([send(&header), send(&only_reads)], status, "{target} {content}");
    }
    // A token with all rights of an administrator is one; a token with some of them is none.
    let root = server.token("CREATE TOKEN root FOR ann");
    for (secret, status) in [(&root, 200), (&scoped, 403), (&all, 403)] {
        for statement in
            ["SHOW TOKENS", "CREATE TOKEN more FOR ann ON home ALL", "SET PASSWORD FOR ann = 'x'"]
        {
            if secret == &root && statement != "SHOW TOKENS" {
                continue;
            }
            let answer = server.query("", &[("Authorization", &format!("Bearer {secret}"))], statement);
            assert_eq!(answer.status, status, "{statement}: {}", body(&answer));
        }
        let metrics = server.send("GET", "/metrics", &[("Authorization", &format!("Token {secret}"))], "");
        assert_eq!(metrics.status, status);
    }
    // It shrinks with its user.
    server.ask("REVOKE WRITE ON home FROM bob");
    assert_eq!(statuses(&server, "", &[("Authorization", &header)]), [200, 403, 200]);
    server.ask("DROP DATABASE home");
    server.ask("CREATE DATABASE home");
    server.ask("GRANT ALL ON home TO bob");
    assert_eq!(
        statuses(&server, "", &[("Authorization", &only_reads)])[0],
        403,
        "another database of that name"
    );
    assert!(server.process.log().contains("CREATE TOKEN scoped FOR ann ON home WRITE, other READ"));
}

#[test]
fn a_session_of_postgresql_ends_with_its_token() {
    let server = with_bob(&[]);
    let reads = server.token("CREATE TOKEN reads FOR bob ON home READ");
    let writes = server.token("CREATE TOKEN writes FOR bob");
    let mut reader = Session::open(server.postgres, "bob", &reads).map_err(drop).expect("it logs in");
    let mut writer = Session::open(server.postgres, "bob", &writes).map_err(drop).expect("it logs in");
    assert_eq!(reader.run("SELECT v FROM m"), Ok(1));
    let insert = "INSERT INTO m (time, v) VALUES (now(), 1)";
    assert!(reader.run(insert).is_err_and(|error| error.starts_with("42501")));
    assert_eq!(writer.run(insert), Ok(0));
    assert!(reader.run("SELECT v FROM other.autogen.m").is_err(), "that is outside of its scope");
    // Rights that are revoked hold at the next statement, and so does the end of the token.
    server.ask("REVOKE WRITE ON home FROM bob");
    assert!(writer.run(insert).is_err_and(|error| error.starts_with("42501")));
    server.ask("DROP TOKEN reads");
    let refused = reader.run("SELECT v FROM m").expect_err("the token is gone");
    assert!(refused.contains("token \"reads\" was dropped"), "{refused}");
    assert!(Session::open(server.postgres, "bob", &reads).is_err_and(|error| error.starts_with("28P01")));
    // A token of the same name is another one.
    server.ask("CREATE TOKEN reads FOR bob ON home READ");
    assert!(reader.run("SELECT v FROM m").is_err());
    server.ask("DROP USER bob");
    assert!(writer.run("SELECT v FROM m").is_err());
}

#[test]
fn secrets_are_shown_once_and_outlive_a_restart() {
    let server = with_bob(&[]);
    let kept = server.token("CREATE TOKEN kept FOR bob");
    let short = server.token("CREATE TOKEN short FOR bob EXPIRES IN 1ms");
    std::thread::sleep(Duration::from_millis(5));
    let status = |server: &Server, secret: &str| {
        server.query("", &[("Authorization", &format!("Token {secret}"))], "SHOW DATABASES").status
    };
    assert_eq!((status(&server, &kept), status(&server, &short)), (200, 401));
    let listed = server.ask("SHOW TOKENS");
    assert!(listed.contains("kept") && listed.contains("whatever its user may do"), "{listed}");
    for answer in [listed, server.ask("SHOW QUERIES"), server.ask("SHOW DIAGNOSTICS")] {
        assert!(!answer.contains(&kept), "{answer}");
    }
    for (statement, words) in [
        ("CREATE TOKEN kept FOR bob", "token already exists"),
        ("CREATE TOKEN t FOR nobody", "user not found"),
        ("CREATE TOKEN t FOR bob ON nowhere READ", "database not found"),
        ("CREATE TOKEN t FOR bob EXPIRES '2001-01-01'", "expire in the future"),
        ("DROP TOKEN nothing", "token not found"),
    ] {
        let answer = server.query("u=ann&p=pencil", &[], statement);
        assert!(body(&answer).contains(words), "{statement}: {}", text(&answer));
    }
    let server = server.again(&[]);
    assert_eq!((status(&server, &kept), status(&server, &short)), (200, 401));
    assert!(!server.process.log().contains(&kept));
    // A password that is set anew ends no token; the end of the user does.
    server.ask("SET PASSWORD FOR bob = 'stone'");
    assert_eq!(status(&server, &kept), 200);
    server.ask("DROP USER bob");
    assert_eq!(status(&server, &kept), 401);
    for file in files(&server.directory.path().join("data")) {
        let bytes = std::fs::read(&file).expect("readable");
        assert!(!bytes.windows(kept.len()).any(|window| window == kept.as_bytes()), "{}", file.display());
    }
}
