//! Statements and queries, executed over a store in memory. One program, because what executes them is compiled into each.

mod dropped;
mod groups;
mod little_memory;
mod query_context;
