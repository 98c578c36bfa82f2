//! Core types and the store contract of nyala.
