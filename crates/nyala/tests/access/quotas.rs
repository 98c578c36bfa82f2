//! Quotas: what a user asks for and writes is bounded, whatever the protocol, and others are not touched.

use super::sender::{Server, Session, body};

/// A cursor is one query: its fetches need no other place among those that run.
#[test]
fn fetches_of_a_cursor_are_a_part_of_its_query() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON home TO bob");
    server.ask("SET QUOTA FOR bob concurrent_queries = 1");
    let open = || Session::open(server.postgres, "bob", "paper").map_err(drop).expect("it logs in");
    let (mut session, mut other) = (open(), open());
    assert_eq!(session.run("BEGIN"), Ok(0));
    assert_eq!(session.run("DECLARE c SCROLL CURSOR FOR SELECT n FROM generate_series(1, 5) AS s(n)"), Ok(0));
    assert_eq!(session.run("FETCH 2 FROM c"), Ok(2));
    assert_eq!(session.run("MOVE 1 IN c"), Ok(0));
    assert!(other.run("SELECT 1").is_err_and(|error| error.starts_with("53400")));
    assert_eq!(session.run("FETCH ALL FROM c"), Ok(2));
    assert_eq!(session.run("FETCH BACKWARD ALL FROM c"), Ok(5));
    assert_eq!(session.run("CLOSE c"), Ok(0));
    assert_eq!(other.run("SELECT 1"), Ok(1));
    assert_eq!(session.run("COMMIT"), Ok(0));
}

#[test]
fn a_user_gets_no_more_than_its_quota() {
    let server = Server::start(&[]);
    server.ask("CREATE USER bob WITH PASSWORD 'paper'");
    server.ask("GRANT ALL ON home TO bob");
    let write = |user: &str, lines: &str| server.send("POST", &format!("/write?db=home&{user}"), &[], lines);
    let (bob, ann) = ("u=bob&p=paper", "u=ann&p=pencil");
    let lines: String = (0..1000).map(|number| format!("m v=1 {number}\n")).collect();
    server.ask("SET QUOTA FOR bob points_per_second = 10, queries_per_minute = 3");
    assert_eq!(write(bob, &lines).status, 204, "a batch is never cut");
    let refused = write(bob, "m v=1");
    assert_eq!(refused.status, 429, "{}", body(&refused));
    let wait: u32 = refused.header("Retry-After").and_then(|value| value.parse().ok()).expect("seconds");
    assert!((50..=100).contains(&wait), "{wait}");
    assert!(body(&refused).contains("quota points_per_second = 10"), "{}", body(&refused));
    assert_eq!(write(ann, "m v=1").status, 204);
    // The same by SQL over both protocols, each of which is a statement as well.
    let insert = "INSERT INTO m (time, v) VALUES (now(), 1)";
    let refused = server.send("POST", &format!("/api/sql?db=home&{bob}"), &[], insert);
    assert_eq!(refused.status, 429, "{}", body(&refused));
    assert!(body(&refused).contains("\"code\":\"53400\""), "{}", body(&refused));
    let mut session = Session::open(server.postgres, "bob", "paper").map_err(drop).expect("it logs in");
    assert!(session.run(insert).is_err_and(|error| error.starts_with("53400")));
    // Refused ones were not begun. What is asked for is counted by all languages together.
    assert_eq!(server.query(bob, &[], "SELECT v FROM m LIMIT 1").status, 200);
    assert_eq!(session.run("SELECT v FROM m LIMIT 1"), Ok(1));
    assert_eq!(server.send("POST", &format!("/api/sql?db=home&{bob}"), &[], "SELECT 1").status, 200);
    let refused = server.query(bob, &[], "SELECT v FROM m LIMIT 1");
    assert_eq!(refused.status, 429, "{}", body(&refused));
    assert!(refused.header("Retry-After").is_some());
    assert!(session.run("SELECT 1").is_err_and(|error| error.starts_with("53400")));
    assert_eq!(server.query(ann, &[], "SELECT v FROM m LIMIT 1").status, 200);
    assert!(server.metric("nyala_quota_refused_total{quota=\"points_per_second\"}") >= 3);
    assert!(server.metric("nyala_quota_refused_total{quota=\"queries_per_minute\"}") >= 2);
    let listed = server.ask("SHOW QUOTAS");
    assert!(listed.contains("[\"bob\",0,3,10,0,0]"), "{listed}");
    // A token of the user has the user's quota.
    let token = server.token("CREATE TOKEN t FOR bob");
    let header = format!("Token {token}");
    assert_eq!(server.query("", &[("Authorization", &header)], "SELECT v FROM m").status, 429);
    let unknown = server.query(ann, &[], "SET QUOTA FOR bob speed = 1");
    assert!(body(&unknown).contains("there are concurrent_queries"), "{}", body(&unknown));
    // It outlives a restart, and ends when it is set to nothing.
    let server = server.again(&[]);
    server.ask("SET QUOTA FOR bob points_per_second = 0, queries_per_minute = 0");
    assert!(!server.ask("SHOW QUOTAS").contains("bob"));
    assert_eq!(server.send("POST", &format!("/write?db=home&{bob}"), &[], &lines).status, 204);
    assert_eq!(server.send("POST", &format!("/write?db=home&{bob}"), &[], &lines).status, 204);
}
