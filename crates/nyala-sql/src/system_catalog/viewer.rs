//! Who looks at the catalogue, from where: the same for all statements of a session.

use super::deparse::Style;
use super::oid::{self, DATABASE_OWNER, DATABASE_OWNER_NAME, OWNER};
use crate::number_source::NumberSource;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::waits::Waits;
use arrow_schema::DataType;
use nyala_db::catalog::Catalog;
use nyala_db::relations::{TEMPORARY, UncommittedRelations};
use nyala_db::users::{Principal, Privilege};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The name of the role that owns everything, if users log in.
const OWNER_NAME: &str = "nyala";
/// The database that every server has, whether it was created or not.
pub(crate) const MAINTENANCE_DATABASE: &str = "postgres";

/// Who looks at the catalogue.
pub(crate) struct Viewer {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) principal: Principal,
    /// The relations that only the session sees.
    pub(crate) uncommitted: Arc<UncommittedRelations>,
    /// Where numbers of sequences come from.
    pub(crate) numbers: NumberSource,
    /// What the session waits for, and its locks.
    pub(crate) waits: Arc<Waits>,
    /// How the session is set up when it is asked.
    pub(crate) setup: Arc<SessionSetup>,
    /// The name that the client gave.
    pub(crate) user: String,
    /// The database of the session.
    pub(crate) database: String,
    /// When the server was started, ns since 1970.
    pub(crate) started_ns: i64,
    /// The number of the session.
    pub(crate) number: i32,
    /// The sessions of all clients.
    pub(crate) sessions: Arc<Sessions>,
    /// Lists what the session keeps by name. Must not capture the session: its plans hold this viewer, so that would be a
    /// reference cycle.
    pub(crate) kept: Box<dyn Fn() -> Kept + Send + Sync>,
}

/// How a session is set up while its statement is executed. Plans ask for it when their functions are called: they may have been
/// made long before.
#[derive(Debug, Default)]
pub(crate) struct SessionSetup(Mutex<(Settings, bool)>);

impl SessionSetup {
    /// Notes the settings, and whether the transaction may not write.
    pub(crate) fn note(&self, settings: &Settings, is_read_only: bool) {
        *self.lock() = (settings.clone(), is_read_only);
    }

    fn lock(&self) -> MutexGuard<'_, (Settings, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a session keeps by name.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) cursors: Vec<KeptCursor>,
    pub(crate) statements: Vec<KeptStatement>,
}

/// A cursor.
pub(crate) struct KeptCursor {
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
    pub(crate) is_holdable: bool,
    pub(crate) scrolls: bool,
    /// When it was declared, ns since 1970.
    pub(crate) declared_ns: i64,
}

/// A prepared statement.
pub(crate) struct KeptStatement {
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
    pub(crate) parameters: Vec<DataType>,
    pub(crate) is_of_sql: bool,
    /// When it was prepared, ns since 1970.
    pub(crate) prepared_ns: i64,
}

/// A role: a user, or the owner of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) oid: u32,
    pub(crate) name: String,
    /// Whether it may do everything.
    pub(crate) is_super: bool,
    pub(crate) can_log_in: bool,
}

impl Viewer {
    /// Whether the session's user may see what is in a database.
    pub(crate) fn may_see(&self, database: &str) -> bool {
        self.principal.may(Privilege::Read, self.rights_of(database))
    }

    /// Whether the session's user may change what is in a database.
    pub(crate) fn may_write(&self, database: &str) -> bool {
        self.principal.may(Privilege::Write, self.rights_of(database))
    }

    /// The database whose rights hold for what is in a database.
    fn rights_of<'a>(&'a self, database: &'a str) -> &'a str {
        if database == TEMPORARY { &self.database } else { database }
    }

    /// The numbers and names of databases that the session's user may see.
    pub(crate) fn databases(&self) -> Vec<(u32, String)> {
        let known = self.catalog.databases();
        let mut names: Vec<String> = known.iter().map(|own| own.name.to_string()).collect();
        names.retain(|name| self.may_see(name) || self.may_write(name));
        for always in [MAINTENANCE_DATABASE, &self.database] {
            if !always.is_empty() && !names.iter().any(|name| name == always) {
                names.push(always.to_owned());
            }
        }
        names.sort();
        let mut taken = oid::Taken::default();
        names.into_iter().map(|name| (taken.take("database", &[&name]), name)).collect()
    }

    /// The roles that the session's user may see: all of them if it is an administrator.
    pub(crate) fn roles(&self) -> Vec<Role> {
        let is_open = matches!(self.principal, Principal::Open);
        let name = if is_open { self.user.clone() } else { OWNER_NAME.to_owned() };
        let owner = Role { oid: OWNER, name, is_super: true, can_log_in: is_open };
        let name = DATABASE_OWNER_NAME.to_owned();
        let of_public = Role { oid: DATABASE_OWNER, name, is_super: false, can_log_in: false };
        let mut roles = vec![owner, of_public];
        let is_shown = |name: &str| self.principal.is_admin() || self.principal.user_name() == Some(name);
        let mut taken = oid::Taken::default();
        for user in self.catalog.users().all().iter().filter(|user| is_shown(user.name())) {
            if roles.iter().any(|role| role.name == user.name()) {
                continue;
            }
            let oid = taken.take("role", &[user.name()]);
            let (name, is_super) = (user.name().to_owned(), user.is_admin());
            roles.push(Role { oid, name, is_super, can_log_in: true });
        }
        roles
    }

    /// Whether names without a schema are looked for nowhere but in the catalogue.
    pub(crate) fn names_nothing(&self) -> bool {
        self.setting("search_path").is_some_and(|path| matches!(path.trim(), "" | "\"\"" | "pg_catalog"))
    }

    /// How expressions are shown, with all parentheses.
    pub(super) fn style(&self) -> Style {
        let zone = self.setting("TimeZone").and_then(|name| name.parse().ok()).unwrap_or_default();
        Style { zone, names_schemas: self.names_nothing(), is_pretty: false }
    }

    /// The value of a setting.
    pub(crate) fn setting(&self, name: &str) -> Option<String> {
        self.setup.lock().0.get(name).ok().map(|(_, value)| value.to_owned())
    }

    /// The settings of the session.
    pub(crate) fn settings(&self) -> Settings {
        self.setup.lock().0.clone()
    }

    /// Whether the transaction may not write.
    pub(crate) fn is_read_only(&self) -> bool {
        self.setup.lock().1
    }
}

impl fmt::Debug for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Viewer({}, {})", self.user, self.database)
    }
}

/// Viewers are the same only if they are one.
impl PartialEq for Viewer {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Viewer {}

impl Hash for Viewer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self).hash(state);
    }
}
