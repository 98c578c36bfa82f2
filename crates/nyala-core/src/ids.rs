//! Identifiers as newtypes, so that one kind cannot be used as another.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// A table of the store. Never used again.
    TableId(u32)
}
id! {
    /// A column of a table. Never used again in its table.
    ColumnId(u32)
}
id! {
    /// A tag set of a measurement. Never used again in its table.
    SeriesId(u32)
}
id! {
    /// How far a store has come. The larger sequence is the newer one.
    Sequence(u64)
}
