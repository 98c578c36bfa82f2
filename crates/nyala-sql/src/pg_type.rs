//! How a field says which type of PostgreSQL its values have, where Arrow's type does not tell.

/// The key of a field's metadata with the name of the type: `oid`, `name`, `varchar`.
pub const TYPE_KEY: &str = "pg_type";

/// The key of a field's metadata with the most letters that a `varchar(n)` or `char(n)` may have.
pub const LENGTH_KEY: &str = "pg_length";
