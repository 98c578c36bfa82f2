//! Identifiers. Newtypes, so that one kind cannot pass for another.

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
    /// A table of the store; never reused.
    TableId(u32)
}
id! {
    /// A column of a table; never reused within its table.
    ColumnId(u32)
}
id! {
    /// A tag set of a measurement; never reused within its table.
    SeriesId(u32)
}
id! {
    /// How far a store has come. What has the larger sequence is newer.
    Sequence(u64)
}
