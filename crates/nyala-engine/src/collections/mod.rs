//! Maps by id, for what every table has.

pub(crate) mod id_map;
pub(crate) mod table_map;
