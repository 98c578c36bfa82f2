//! What the encoder should lean to.

/// Decides between encodings that are near equals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Preference {
    /// Fastest to read; gives up to half of the size away.
    Speed,
    /// Small, as long as reading stays in the billions of values per second.
    #[default]
    Balanced,
    /// Smallest, entropy coding and general compression included.
    Size,
}
