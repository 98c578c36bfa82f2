//! Whether the encoder prefers speed or size.

/// Decides between encodings of similar cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Preference {
    /// Fastest to read; blocks may be up to twice as large.
    Speed,
    /// Small, while reading stays in the billions of values per second.
    #[default]
    Balanced,
    /// Smallest, entropy coding and general compression included.
    Size,
}
