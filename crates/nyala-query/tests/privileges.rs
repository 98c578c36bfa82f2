//! The privileges that statements need: every form of statement with every set of grants.
//!
//! The test builds each statement from a text and the databases that it reads or writes, without the parser. A user who
//! lacks one of these privileges must be refused.

use nyala_core::store::memory::MemoryStore;
use nyala_db::catalog::Catalog;
use nyala_db::users::{Principal, Privilege};
use nyala_query::influxql::{Params, parse_query};
use nyala_query::statement::authorize;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The request's database, for statements that name none.
const DEFAULT: &str = "d0";
const DATABASES: [&str; 4] = [DEFAULT, "d1", "d2", "d3"];

/// (needs writing, database).
type Touched = BTreeSet<(bool, &'static str)>;

struct Generator {
    random: SmallRng,
    touched: Touched,
}

impl Generator {
    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.random_range(0..all.len())]
    }

    /// A measurement in some database, read or written.
    fn measurement(&mut self, written: bool) -> String {
        let database = self.pick(&DATABASES);
        self.touched.insert((written, database));
        let name = self.pick(&["m", "\"m n\""]);
        match (database, self.random.random_range(0..3)) {
            (DEFAULT, 0) => name.to_owned(),
            (DEFAULT, 1) => format!("autogen.{name}"),
            (_, 2) => format!("{database}..{name}"),
            _ => format!("\"{database}\".autogen.{name}"),
        }
    }

    fn source(&mut self, depth: usize) -> String {
        if depth > 0 && self.random.random_bool(0.5) {
            return format!("({})", self.select(depth - 1, false));
        }
        match self.random.random_range(0..6) {
            0 => {
                let database = self.pick(&DATABASES);
                self.touched.insert((false, database));
                format!("{database}.autogen./m.*/")
            }
            _ => self.measurement(false),
        }
    }

    fn select(&mut self, depth: usize, into: bool) -> String {
        let target = if into { format!(" INTO {}", self.measurement(true)) } else { String::new() };
        let sources: Vec<String> = (0..self.random.random_range(1..4)).map(|_| self.source(depth)).collect();
        format!("SELECT mean(v){target} FROM {} WHERE time > 0 GROUP BY time(1h)", sources.join(", "))
    }

    fn read(&mut self, database: &'static str) -> &'static str {
        self.touched.insert((false, database));
        database
    }

    fn write(&mut self, database: &'static str) -> &'static str {
        self.touched.insert((true, database));
        database
    }

    /// `ON database`, or nothing for the request's; and sources that may be elsewhere.
    fn show(&mut self, statement: &str, with_sources: bool, rest: &str) -> String {
        let database = self.pick(&DATABASES);
        self.read(database);
        let on = if database == DEFAULT { String::new() } else { format!(" ON {database}") };
        let from = match with_sources && self.random.random_bool(0.5) {
            // A source without a database is looked for in that of the statement.
            true if database == DEFAULT => format!(" FROM {}", self.measurement(false)),
            true => {
                let other = self.pick(&DATABASES);
                format!(" FROM {}..m", self.read(other))
            }
            false => String::new(),
        };
        format!("{statement}{on}{from}{rest}")
    }

    /// A statement that needs no more than rights on databases.
    fn statement(&mut self) -> String {
        self.touched.clear();
        let database = self.pick(&DATABASES);
        match self.random.random_range(0..24) {
            0 | 1 => self.select(3, false),
            2 | 3 => self.select(3, true),
            4 => format!("EXPLAIN {}", self.select(2, false)),
            5 => format!("EXPLAIN ANALYZE {}", self.select(2, false)),
            6 => format!("DELETE FROM {}..m", self.write(DEFAULT)).replace("d0..", ""),
            7 => format!("DROP SERIES FROM {}..m", self.write(DEFAULT)).replace("d0..", ""),
            8 => self.continuous_query(database),
            9 => format!("DROP CONTINUOUS QUERY c ON {}", self.write(database)),
            10 => format!("DROP RETENTION POLICY p ON {}", self.write(database)),
            11 => {
                self.read(DEFAULT);
                self.pick(&["SHOW CONTINUOUS QUERIES", "SHOW QUERIES"]).to_owned()
            }
            12 => self.show("SHOW RETENTION POLICIES", false, ""),
            19 => self.show("SHOW ALIASES", false, ""),
            22 => self.show("SHOW STORAGE", true, ""),
            20 => format!("ALTER MEASUREMENT {} RENAME TAG a TO b", self.measurement(true)),
            21 => format!("DRY RUN ALTER MEASUREMENT {} RENAME TO n KEEP ALIAS", self.measurement(true)),
            13 => self.show("SHOW FIELD KEYS", true, ""),
            14 => self.show("SHOW MEASUREMENTS", false, " WITH MEASUREMENT =~ /m/"),
            15 => self.show("SHOW SERIES", true, ""),
            16 => self.show("SHOW TAG KEYS", true, ""),
            17 => self.show("SHOW TAG VALUES", true, " WITH KEY = t"),
            18 => {
                let exact = self.pick(&["", " EXACT"]);
                let what = self.pick(&["FIELD KEY", "MEASUREMENT", "SERIES", "TAG KEY"]);
                self.show(&format!("SHOW {what}{exact} CARDINALITY"), true, "")
            }
            _ => self.show("SHOW TAG VALUES EXACT CARDINALITY", true, " WITH KEY = t"),
        }
    }

    fn continuous_query(&mut self, database: &'static str) -> String {
        // Within it, what names no database is in its own: so every name is written out.
        let (target, source) = (self.pick(&DATABASES), self.pick(&DATABASES));
        self.read(database);
        format!(
            "CREATE CONTINUOUS QUERY c ON {database} BEGIN SELECT mean(v) INTO {}..n FROM {}..m GROUP BY time(1h) END",
            self.write(target),
            self.read(source)
        )
    }
}

/// A user with these grants, as the sender of a request.
async fn user_with(catalog: &Catalog, name: &str, grants: &[(&str, Privilege)]) -> Principal {
    let users = catalog.users();
    if users.existing(name).is_err() {
        users.create(name, "p", false, false).await.unwrap();
    }
    for database in DATABASES {
        let granted = grants.iter().find(|(own, _)| *own == database);
        let privilege = granted.map_or(Privilege::None, |(_, privilege)| *privilege);
        catalog.change_grant(name, database, |_| privilege).await.unwrap();
    }
    Principal::User(users.existing(name).unwrap())
}

async fn catalog() -> Catalog {
    let catalog = Catalog::open(Arc::new(MemoryStore::default())).await.unwrap();
    for database in DATABASES {
        catalog.create_database(database, None).await.unwrap();
    }
    catalog
}

/// The privilege that a statement needs on each database that it touches.
fn joined(touched: &Touched) -> Vec<(&'static str, Privilege)> {
    DATABASES
        .into_iter()
        .filter_map(|database| {
            match (touched.contains(&(false, database)), touched.contains(&(true, database))) {
                (true, true) => Some((database, Privilege::All)),
                (true, false) => Some((database, Privilege::Read)),
                (false, true) => Some((database, Privilege::Write)),
                (false, false) => None,
            }
        })
        .collect()
}

#[tokio::test]
async fn every_database_that_a_statement_touches_is_checked() {
    let catalog = catalog().await;
    let mut generator = Generator { random: SmallRng::seed_from_u64(7), touched: Touched::new() };
    for _ in 0..600 {
        let text = generator.statement();
        let touched = generator.touched.clone();
        let statements =
            parse_query(&text, &Params::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
        let may = |principal: &Principal| authorize(&statements, principal, DEFAULT).is_ok();
        assert!(may(&Principal::Open) && !may(&Principal::FirstAdmin), "{text}");
        assert!(!touched.is_empty(), "{text}");
        let enough = user_with(&catalog, "u", &joined(&touched)).await;
        assert!(may(&enough), "{text}: {touched:?} is enough");
        for missing in &touched {
            // Everything else may be done, on every database.
            let all_but = DATABASES.map(|database| match *missing {
                (true, own) if own == database => (database, Privilege::Read),
                (false, own) if own == database => (database, Privilege::Write),
                _ => (database, Privilege::All),
            });
            let too_little = user_with(&catalog, "u", &all_but).await;
            assert!(!may(&too_little), "{text}: {missing:?} is not checked");
        }
    }
}

#[tokio::test]
async fn statements_beyond_one_database_need_an_administrator() {
    let catalog = catalog().await;
    let everything = user_with(&catalog, "u", &DATABASES.map(|database| (database, Privilege::All))).await;
    catalog.users().create("a", "p", true, false).await.unwrap();
    let admin = Principal::User(catalog.users().existing("a").unwrap());
    for text in [
        "ALTER RETENTION POLICY p ON d0 DEFAULT",
        "CREATE DATABASE d9",
        "CREATE RETENTION POLICY p ON d0 DURATION 1d REPLICATION 1",
        "CREATE SUBSCRIPTION s ON d0.autogen DESTINATIONS ALL 'udp://h:1'",
        "CREATE TOKEN t FOR u",
        "CREATE TOKEN t FOR u ON d0 READ EXPIRES IN 1d",
        "CREATE USER b WITH PASSWORD 'p'",
        "CREATE USER b WITH PASSWORD 'p' WITH ALL PRIVILEGES",
        "DROP DATABASE d0",
        "DROP MEASUREMENT m",
        "DROP SHARD 1",
        "DROP SUBSCRIPTION s ON d0.autogen",
        "DROP TOKEN t",
        "DROP USER b",
        "GRANT READ ON d0 TO b",
        "GRANT ALL PRIVILEGES TO b",
        "KILL QUERY 1",
        "REVOKE READ ON d0 FROM b",
        "REVOKE ALL PRIVILEGES FROM b",
        "SET PASSWORD FOR u = 'p'",
        "SET QUOTA FOR u points_per_second = 0",
        "SHOW DIAGNOSTICS",
        "SHOW GRANTS FOR u",
        "SHOW MAINTENANCE",
        "SHOW QUOTAS",
        "SHOW SHARD GROUPS",
        "SHOW SHARDS",
        "SHOW STATS",
        "SHOW SUBSCRIPTIONS",
        "SHOW TOKENS",
        "SHOW USERS",
    ] {
        for text in [text.to_owned(), format!("SHOW DATABASES; {text}")] {
            let statements = parse_query(&text, &Params::default()).unwrap();
            assert!(authorize(&statements, &everything, DEFAULT).is_err(), "{text}");
            assert!(authorize(&statements, &admin, DEFAULT).is_ok(), "{text}");
        }
    }
}

#[tokio::test]
async fn without_users_only_the_first_administrator_may_be_created() {
    let may = |text: &str| {
        authorize(&parse_query(text, &Params::default()).unwrap(), &Principal::FirstAdmin, DEFAULT).is_ok()
    };
    assert!(may("CREATE USER a WITH PASSWORD 'p' WITH ALL PRIVILEGES"));
    assert!(!may("CREATE USER a WITH PASSWORD 'p'"));
    assert!(!may("SHOW DATABASES; CREATE USER a WITH PASSWORD 'p' WITH ALL PRIVILEGES"));
    assert!(!may("CREATE USER a WITH PASSWORD 'p' WITH ALL PRIVILEGES; DROP DATABASE d0"));
    // Two that come at once: one of them is the first.
    let catalog = catalog().await;
    let users = catalog.users();
    users.create("a", "p", true, true).await.unwrap();
    assert!(users.create("b", "p", true, true).await.is_err());
    assert!(users.drop_user("a", true).await.is_err());
    assert!(users.set_admin("a", false, true).await.is_err());
}
