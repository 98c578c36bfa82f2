//! The nyala program.
fn main() {}
