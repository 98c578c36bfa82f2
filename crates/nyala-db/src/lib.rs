//! Databases, measurements, series index and ingestion over the store contract.
