//! ALTER MEASUREMENT through the real program: what changes, what remains after a kill, and what is refused. What goes on beside
//! it is in `alter_measurement_beside.rs`, `ALTER TABLE` of a measurement in `alter_measurement_sql.rs`.

#[path = "support/altering.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod altering;
#[path = "support/client.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod client;
#[path = "support/process.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod process;

use altering::{POINTS, all, done, error, killed, series, started};
use client::percent_encode;
use process::Process;
use serde_json::json;
use std::time::Duration;

/// 8 days: the next shard but one.
const LATER: &str = "691200000000000";

#[test]
fn a_measurement_gets_another_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let counts = json!([["t", ["policy", "series", "points", "shards"], [["autogen", 2, 3, 1]]]]);
    assert_eq!(series(&server.query("DRY RUN ALTER MEASUREMENT t RENAME TO \"new name\"")), counts);
    let before = series(&server.query("SELECT * FROM t"));
    done(&server, "ALTER MEASUREMENT t RENAME TO \"new name\"");
    let server = killed(server, dir.path(), &[]);
    let after = series(&server.query("SELECT * FROM \"new name\""));
    assert_eq!((&after[0][0], &after[0][2]), (&json!("new name"), &before[0][2]));
    assert_eq!(series(&server.query("SELECT * FROM t")), json!([]));
    assert_eq!(
        series(&server.query("SHOW MEASUREMENTS")),
        json!([["measurements", ["name"], [["new name"], ["u"]]]])
    );
    // The old name is free, and the new one is written to.
    assert_eq!(server.write("t,room=k c=1i 5\nnew\\ name,room=k c=7.5 5\n").status, 204);
    let server = killed(server, dir.path(), &[]);
    assert_eq!(series(&server.query("SELECT c FROM t")), json!([["t", ["time", "c"], [[5, 1]]]]));
    let newest = series(&server.query("SELECT last(c) FROM \"new name\" WHERE room = 'k'"));
    assert_eq!(newest, json!([["new name", ["time", "last"], [[5, 7.5]]]]));
    assert_eq!(
        series(&server.query("SHOW SERIES")),
        json!([["", ["key"], [["new\\ name,room=b"], ["new\\ name,room=k"], ["t,room=k"], ["u,room=k"]]]])
            .as_array()
            .map(|all| json!([[null, all[0][1], all[0][2]]]))
            .expect("a list")
    );
    // And back, over what is there.
    assert!(
        error(&server, "ALTER MEASUREMENT \"new name\" RENAME TO t").contains("measurement \"t\" exists in")
    );
    server.query("DROP MEASUREMENT t");
    done(&server, "ALTER MEASUREMENT \"new name\" RENAME TO t");
    let server = killed(server, dir.path(), &[]);
    assert_eq!(server.number("SELECT count(c) FROM t"), 4);
}

#[test]
fn all_policies_that_are_meant_are_renamed_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    server.query("CREATE RETENTION POLICY p ON d DURATION INF REPLICATION 1");
    let write =
        |lines: &str| server.send("POST", "/write?db=d&rp=p", lines.as_bytes()).expect("an answer").status;
    assert_eq!(write("t,room=x c=1 1\nv c=1 1\n"), 204);
    let refused = error(&server, "ALTER MEASUREMENT t RENAME TO v");
    assert_eq!(refused, "measurement \"v\" exists in retention policy \"p\": nothing was changed");
    assert_eq!(server.number("SELECT count(c) FROM t"), 3, "nothing was changed");
    let counts = json!([["autogen", 2, 3, 1], ["p", 1, 1, 1]]);
    assert_eq!(series(&server.query("DRY RUN ALTER MEASUREMENT t RENAME TO w"))[0][2], counts);
    done(&server, "ALTER MEASUREMENT autogen.t RENAME TO v");
    done(&server, "ALTER MEASUREMENT t RENAME TO w");
    assert_eq!(series(&server.query("SELECT c FROM p.w")), json!([["w", ["time", "c"], [[1, 1]]]]));
    assert_eq!(server.number("SELECT count(c) FROM autogen.v"), 3);
    assert_eq!(series(&server.query("SELECT c FROM autogen.w")), json!([]));
    done(&server, "ALTER MEASUREMENT v RENAME FIELD c TO d");
    assert_eq!(server.number("SELECT count(d) FROM autogen.v"), 3);
    assert_eq!(server.number("SELECT count(d) FROM p.v"), 1);
}

#[test]
fn a_field_gets_another_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    // In another shard it has another type.
    assert_eq!(server.write(&format!("t,room=k c=\"x\" {LATER}\n")).status, 204);
    let counts = json!([["t", ["policy", "series", "points", "shards"], [["autogen", 2, 4, 2]]]]);
    assert_eq!(series(&server.query("DRY RUN ALTER MEASUREMENT t RENAME FIELD c TO celsius")), counts);
    done(&server, "ALTER MEASUREMENT t RENAME FIELD c TO celsius");
    let server = killed(server, dir.path(), &[]);
    assert_eq!(series(&server.query("SELECT c FROM t")), json!([]));
    assert_eq!(
        series(&server.query("SHOW FIELD KEYS FROM t")),
        json!([[
            "t",
            ["fieldKey", "fieldType"],
            [
                ["celsius", "float"],
                ["celsius", "string"],
                ["msg", "string"],
                ["n", "integer"],
                ["ok", "boolean"]
            ]
        ]])
    );
    assert_eq!(server.number("SELECT count(celsius::float) FROM t"), 3);
    assert_eq!(server.number("SELECT count(celsius::string) FROM t"), 1);
    // The old name is another field, which may have another type where the old one had its own.
    assert_eq!(server.write("t,room=k c=5i,celsius=20 9\n").status, 204);
    let refused = server.write("t,room=k celsius=5i 9\n");
    assert_eq!(refused.status, 400, "the type goes with the field");
    let server = killed(server, dir.path(), &[]);
    assert_eq!(
        series(&server.query("SELECT c, celsius FROM t WHERE time = 9")),
        json!([["t", ["time", "c", "celsius"], [[9, 5, 20]]]])
    );
    // Of what is deleted a column remains, whose name is given again.
    server.query("DELETE FROM t WHERE time = 9");
    server.query(&format!("DELETE FROM t WHERE time = {LATER}"));
    server.query("DELETE FROM t");
    assert_eq!(server.write("t,room=k celsius=1.5 1\n").status, 204);
    done(&server, "ALTER MEASUREMENT t RENAME FIELD celsius TO c");
    assert_eq!(server.write("t,room=k celsius=2.5 2\nt,room=k c=3 2\n").status, 204);
    let expected = json!([["t", ["time", "c", "celsius"], [[1, 1.5, null], [2, 3, 2.5]]]]);
    assert_eq!(series(&server.query("SELECT c, celsius FROM t")), expected);
    let server = killed(server, dir.path(), &[]);
    assert_eq!(series(&server.query("SELECT c, celsius FROM t")), expected);
}

#[test]
fn a_tag_gets_another_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    // A writer that has cached the series, sorted behind and before another tag; and series without the tag.
    let lines = |number: u32| {
        format!("t,m=1,room=k c={number} {number}\nt,m=1 c=1 {number}\nt,room=k c={number} {number}\n")
    };
    for number in 10..13 {
        assert_eq!(server.write(&lines(number)).status, 204);
    }
    let counts = json!([["t", ["policy", "series", "points", "shards"], [["autogen", 3, 9, 1]]]]);
    assert_eq!(series(&server.query("DRY RUN ALTER MEASUREMENT t RENAME TAG room TO area")), counts);
    done(&server, "ALTER MEASUREMENT t RENAME TAG room TO area");
    let keys = |server: &Process| series(&server.query("SHOW SERIES FROM t"))[0][2].clone();
    assert_eq!(keys(&server), json!([["t,area=b"], ["t,area=k"], ["t,area=k,m=1"], ["t,m=1"]]));
    let server = killed(server, dir.path(), &[]);
    assert_eq!(server.number("SELECT count(c) FROM t WHERE area = 'k'"), 8);
    assert_eq!(series(&server.query("SHOW TAG KEYS FROM t")), json!([["t", ["tagKey"], [["area"], ["m"]]]]));
    // A new name again, without a restart: a line with the old name makes a new series, one with the new name does not.
    for number in 13..15 {
        assert_eq!(server.write(&lines(number).replace("room", "area")).status, 204);
    }
    done(&server, "ALTER MEASUREMENT t RENAME TAG area TO zone");
    for number in 15..18 {
        assert_eq!(server.write(&lines(number).replace("room", "zone")).status, 204);
        assert_eq!(server.write(&lines(number).replace("room", "area")).status, 204);
    }
    let expected =
        json!([["t,area=k"], ["t,area=k,m=1"], ["t,m=1"], ["t,m=1,zone=k"], ["t,zone=b"], ["t,zone=k"]]);
    assert_eq!(keys(&server), expected);
    assert_eq!(server.number("SELECT count(c) FROM t WHERE zone = 'k' AND m = ''"), 2 + 3 + 2 + 3);
    assert_eq!(server.number("SELECT count(c) FROM t WHERE area = 'k' AND m = ''"), 3);
    let refused = error(&server, "ALTER MEASUREMENT t RENAME TAG area TO zone");
    assert_eq!(refused, "\"t\" has a tag \"zone\" already: nothing was changed");
    let server = killed(server, dir.path(), &[]);
    assert_eq!(keys(&server), expected);
    assert_eq!(server.write(&lines(18).replace("room", "zone")).status, 204);
    assert_eq!(keys(&server), expected);
}

/// Series that got no points lately are on disk only, in sets.
#[test]
fn a_tag_of_idle_series_gets_another_name() {
    const SERIES: u64 = 20_000;
    let dir = tempfile::tempdir().expect("a directory");
    let arguments = ["--series-idle-after", "200ms"];
    let server = started(dir.path(), &[]);
    let lines = |tag: &str, time: u64| -> String {
        (0..SERIES).map(|host| format!("i,{tag}=h{host},m=1 f={host} {time}\n")).collect()
    };
    assert_eq!(server.write(&lines("host", 1)).status, 204);
    drop(server);
    let mut server = Process::start(dir.path(), &arguments);
    assert_eq!(server.number("SELECT count(f) FROM i"), SERIES as i64);
    let begun = std::time::Instant::now();
    while server.metric("nyala_series_away") < SERIES {
        assert!(begun.elapsed() < Duration::from_secs(120), "{} away", server.metric("nyala_series_away"));
        std::thread::sleep(Duration::from_millis(50));
    }
    // Some are in memory again, some are written again.
    assert_eq!(server.write("i,host=h5,m=1 f=5 2\ni,host=new,m=1 f=6 2\n").status, 204);
    done(&server, "ALTER MEASUREMENT i RENAME TAG host TO zone");
    for (when, arguments) in
        [("at once", &arguments[..]), ("after a kill", &arguments[..]), ("in memory", &[])]
    {
        if when != "at once" {
            server.kill();
            server = Process::start(dir.path(), arguments);
        }
        assert_eq!(server.number("SELECT count(f) FROM i WHERE \"zone\" = 'h7'"), 1, "{when}");
        assert_eq!(server.number("SELECT count(f) FROM i WHERE \"zone\" = 'h5'"), 2, "{when}");
        assert_eq!(
            series(&server.query("SHOW TAG KEYS FROM i")),
            json!([["i", ["tagKey"], [["m"], ["zone"]]]]),
            "{when}"
        );
        // They come back by their new tags.
        assert_eq!(server.write("i,m=1,zone=h5 f=5 3\ni,m=1,zone=h6 f=6 1\n").status, 204, "{when}");
        let counted = server.query("SHOW SERIES EXACT CARDINALITY FROM i");
        assert_eq!(
            counted["results"][0]["series"][0]["values"][0][0],
            json!(SERIES + 1),
            "{when}: {counted}"
        );
        server.query("DELETE FROM i WHERE time = 3");
    }
}

#[test]
fn a_field_gets_another_type() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    // In another shard it has the new type already, and in a third it is text.
    let lines = format!("t,room=k c=5i {LATER}\nt,room=k c=\"7\" 2{LATER}\n");
    assert_eq!(server.write(&lines).status, 204);
    let refused = error(&server, "ALTER MEASUREMENT t ALTER FIELD c TYPE integer");
    assert_eq!(
        refused,
        "2 of 4 values of field \"c\" of \"t\" cannot become integer without loss, such as 21.5 of t,room=k at 1: nothing was \
         changed"
    );
    assert_eq!(error(&server, "DRY RUN ALTER MEASUREMENT t ALTER FIELD c TYPE integer"), refused);
    assert_eq!(server.number("SELECT count(c::float) FROM t"), 4, "an integer counts, too");
    server.query("UPDATE t SET c = 21.0 WHERE time = 1");
    server.query("UPDATE t SET c = 19.0 WHERE time = 2");
    let counts = json!([["t", ["policy", "series", "points", "shards"], [["autogen", 2, 4, 2]]]]);
    assert_eq!(series(&server.query("DRY RUN ALTER MEASUREMENT t ALTER FIELD c TYPE integer")), counts);
    let converted = series(&server.query("ALTER MEASUREMENT t ALTER FIELD c TYPE integer"));
    assert_eq!(converted, json!([["t", ["time", "converted"], [[0, 4]]]]));
    let server = killed(server, dir.path(), &[]);
    let values = series(&server.query("SELECT c, room, msg FROM t WHERE time < 100"));
    assert_eq!(values[0][2], json!([[1, 21, "k", null], [2, 19, "b", null], [3, 22, "k", "a"]]));
    assert_eq!(server.number("SELECT sum(c) FROM t"), 21 + 19 + 22 + 5 + 7);
    let keys = series(&server.query("SHOW FIELD KEYS FROM t"));
    assert_eq!(keys[0][2][0], json!(["c", "integer"]));
    assert_eq!(keys[0][2].as_array().map(Vec::len), Some(4), "the field has one type: {keys}");
    assert_eq!(server.write("t,room=k c=1.5 9\n").status, 400, "the shard has another type");
    assert_eq!(server.write("t,room=k c=1i 9\n").status, 204);
    // Every type, and back.
    for (to, of_1) in [("string", json!("21")), ("unsigned", json!(21)), ("float", json!(21))] {
        server.query(&format!("ALTER MEASUREMENT t ALTER FIELD c TYPE {to}"));
        assert_eq!(series(&server.query("SELECT c FROM t WHERE time = 1"))[0][2], json!([[1, of_1]]), "{to}");
        assert_eq!(series(&server.query("SHOW FIELD KEYS FROM t"))[0][2][0], json!(["c", to]));
    }
    server.query("ALTER MEASUREMENT t ALTER FIELD ok TYPE string");
    let server = killed(server, dir.path(), &[]);
    assert_eq!(series(&server.query("SELECT ok FROM t")), json!([["t", ["time", "ok"], [[1, "true"]]]]));
    server.query("ALTER MEASUREMENT t ALTER FIELD ok TYPE boolean");
    assert_eq!(series(&server.query("SELECT ok FROM t")), json!([["t", ["time", "ok"], [[1, true]]]]));
}

#[test]
fn old_names_go_on_as_aliases() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    done(&server, "ALTER MEASUREMENT t RENAME TO n KEEP ALIAS");
    let check = |server: &Process, points: i64| {
        let listed = json!([["aliases", ["policy", "alias", "measurement"], [["autogen", "t", "n"]]]]);
        assert_eq!(series(&server.query("SHOW ALIASES")), listed);
        assert_eq!(series(&server.query("SHOW MEASUREMENTS"))[0][2], json!([["n"], ["u"]]));
        for name in ["t", "n"] {
            let counted = series(&server.query(&format!("SELECT count(c) FROM {name}")));
            assert_eq!(counted[0][0], json!(name), "an answer has the name that it was asked for");
            assert_eq!(counted[0][2][0][1], json!(points));
            let keys = series(&server.query(&format!("SHOW TAG VALUES FROM {name} WITH KEY = room")));
            assert_eq!(keys[0][2], json!([["room", "b"], ["room", "k"]]), "{name}");
            assert_eq!(
                series(&server.query(&format!("SHOW FIELD KEYS FROM {name}")))[0][2][0][0],
                json!("c")
            );
        }
        assert_eq!(series(&server.query("SELECT count(c) FROM /t|n/")).as_array().map(Vec::len), Some(1));
    };
    check(&server, 3);
    let server = killed(server, dir.path(), &[]);
    assert_eq!(
        server.write("t,room=k c=1 10\nn,room=k c=1 11\nn,room=b c=1 12\nt,room=b c=1 13\n").status,
        204
    );
    check(&server, 7);
    let server = killed(server, dir.path(), &[]);
    check(&server, 7);
    assert_eq!(
        error(&server, "ALTER MEASUREMENT t RENAME FIELD c TO d"),
        "\"t\" is an alias of measurement \"n\": alter that"
    );
    assert_eq!(
        error(&server, "ALTER MEASUREMENT u RENAME TO t"),
        "measurement \"t\" exists in retention policy \"autogen\" as an alias of \"n\": nothing was changed"
    );
    server.query("DELETE FROM t WHERE time > 9");
    check(&server, 3);
    done(&server, "ALTER MEASUREMENT n DROP ALIAS t");
    assert_eq!(error(&server, "ALTER MEASUREMENT n DROP ALIAS t"), "the measurement has no alias \"t\"");
    assert_eq!(server.write("t,room=k c=1 10\n").status, 204);
    assert_eq!(series(&server.query("SHOW MEASUREMENTS"))[0][2], json!([["n"], ["t"], ["u"]]));
    assert_eq!(server.number("SELECT count(c) FROM n"), 3);
    server.query("DROP MEASUREMENT t");
    done(&server, "ALTER MEASUREMENT n ADD ALIAS t");
    done(&server, "ALTER MEASUREMENT n RENAME TO t");
    assert_eq!(series(&server.query("SHOW ALIASES")), json!([]));
    done(&server, "ALTER MEASUREMENT t RENAME TO n");
    assert_eq!(series(&server.query("SELECT c FROM t")), json!([]), "the alias is gone with its name");
    done(&server, "ALTER MEASUREMENT n ADD ALIAS t");
    server.query("DROP MEASUREMENT n");
    let server = killed(server, dir.path(), &[]);
    assert_eq!(series(&server.query("SHOW ALIASES")), json!([]));
    assert_eq!(server.write("t,room=k c=1i 10\n").status, 204);
    assert_eq!(series(&server.query("SHOW MEASUREMENTS"))[0][2], json!([["t"], ["u"]]));
}

#[test]
fn what_is_wrong_is_refused_by_name() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = started(dir.path(), &[]);
    let before = all(&server);
    let cases = [
        ("ALTER MEASUREMENT nothing RENAME TO x", "measurement not found: nothing"),
        ("ALTER MEASUREMENT t RENAME TO t", "measurement \"t\" has this name already"),
        (
            "ALTER MEASUREMENT t RENAME TO u",
            "measurement \"u\" exists in retention policy \"autogen\": nothing was changed",
        ),
        ("ALTER MEASUREMENT t RENAME TO \"\"", "the new name of a measurement is empty"),
        ("ALTER MEASUREMENT e.autogen.t RENAME TO x", "database not found: e"),
        ("ALTER MEASUREMENT p.t RENAME TO x", "retention policy not found: p"),
        ("ALTER MEASUREMENT /t/ RENAME TO x", "ALTER MEASUREMENT alters one measurement, which is named"),
        ("ALTER MEASUREMENT t RENAME FIELD x TO y", "\"t\" has no field \"x\""),
        ("ALTER MEASUREMENT t RENAME FIELD room TO y", "\"room\" of \"t\" is a tag, not a field"),
        ("ALTER MEASUREMENT t RENAME FIELD c TO c", "field \"c\" of \"t\" has this name already"),
        ("ALTER MEASUREMENT t RENAME FIELD c TO n", "\"t\" has a field \"n\" already: nothing was changed"),
        (
            "ALTER MEASUREMENT t RENAME FIELD c TO room",
            "\"t\" has a tag \"room\" already: nothing was changed",
        ),
        (
            "ALTER MEASUREMENT t RENAME FIELD c TO time",
            "no field can be called \"time\": it is the name of the time",
        ),
        (
            "ALTER MEASUREMENT t RENAME TAG room TO time_ns",
            "no tag can be called \"time_ns\": it is the name of the time",
        ),
        ("ALTER MEASUREMENT t RENAME TAG c TO y", "\"c\" of \"t\" is a field, not a tag"),
        ("ALTER MEASUREMENT t RENAME TAG x TO y", "\"t\" has no tag \"x\""),
        ("ALTER MEASUREMENT t RENAME TAG room TO c", "\"t\" has a field \"c\" already: nothing was changed"),
        ("ALTER MEASUREMENT t ALTER FIELD room TYPE float", "\"room\" of \"t\" is a tag, not a field"),
        ("ALTER MEASUREMENT t ADD ALIAS t", "\"t\" is the name of the measurement itself"),
        (
            "ALTER MEASUREMENT t ADD ALIAS u",
            "measurement \"u\" exists in retention policy \"autogen\": nothing was changed",
        ),
        ("ALTER MEASUREMENT t DROP ALIAS u", "the measurement has no alias \"u\""),
    ];
    for (statement, words) in cases {
        assert_eq!(error(&server, statement), words, "{statement}");
        if !statement.contains("DROP ALIAS") {
            let words = words.replace(
                "\"t\" is the name of the measurement itself",
                "measurement \"t\" has this name already",
            );
            assert_eq!(error(&server, &format!("DRY RUN {statement}")), words, "{statement}");
        }
    }
    for (statement, words) in [
        ("ALTER MEASUREMENT t RENAME x", "found x, expected TO, FIELD, TAG at line 1, char 28"),
        ("ALTER MEASUREMENT t MOVE", "found MOVE, expected RENAME, ALTER, ADD, DROP at line 1, char 21"),
        ("ALTER MEASUREMENT t ALTER FIELD c TYPE tag", "expected float, integer, string, boolean, unsigned"),
        ("ALTER MEASUREMENT t RENAME TO x KEEP", "found EOF, expected ALIAS"),
    ] {
        assert!(error(&server, statement).contains(words), "{statement}: {}", error(&server, statement));
    }
    assert_eq!(all(&server), before);
    // Everything that was changed is in the log, once.
    done(&server, "ALTER MEASUREMENT t RENAME TO n");
    let log = server.log();
    assert_eq!(log.matches("ALTER MEASUREMENT t RENAME TO n").count(), 1, "{log}");
    assert!(!log.contains("RENAME TO u"), "what was refused is not: {log}");
}

#[test]
fn it_takes_the_right_to_write() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = Process::start(dir.path(), &["--auth-enabled"]);
    let ask = |user: &str, query: &str| {
        let target = format!("/query?db=d&u={user}&p=pw-of-somebody&q={}", percent_encode(query));
        let response = server.send("POST", &target, b"").expect("an answer");
        (response.status, String::from_utf8_lossy(&response.body).into_owned())
    };
    for statement in [
        "CREATE USER root WITH PASSWORD 'pw-of-somebody' WITH ALL PRIVILEGES",
        "CREATE DATABASE d",
        "CREATE USER reader WITH PASSWORD 'pw-of-somebody'",
        "CREATE USER writer WITH PASSWORD 'pw-of-somebody'",
        "GRANT READ ON d TO reader",
        "GRANT WRITE ON d TO writer",
    ] {
        let (status, text) = ask("root", statement);
        assert!(status == 200 && !text.contains("error"), "{statement}: {text}");
    }
    let write =
        server.send("POST", "/write?db=d&u=writer&p=pw-of-somebody", POINTS.as_bytes()).expect("an answer");
    assert_eq!(write.status, 204);
    for statement in ["ALTER MEASUREMENT t RENAME TO n", "DRY RUN ALTER MEASUREMENT t RENAME TO n"] {
        let (status, text) = ask("reader", statement);
        assert_eq!(status, 403, "{text}");
        assert!(text.contains("requires WRITE on d"), "{text}");
    }
    let (status, text) = ask("writer", "ALTER MEASUREMENT t RENAME TO n");
    assert!(status == 200 && !text.contains("error"), "{text}");
    let (_, text) = ask("reader", "SHOW MEASUREMENTS");
    assert!(text.contains("[\"n\"]"), "{text}");
}
