//! SQL over databases: DataFusion plans and executes, with measurements as its tables.
//!
//! A client opens a [`Session`] with the [`SqlServer`] that all sessions share. The text of a request is parsed into
//! [`Statement`]s. The session prepares each of them ([`Prepared`]) and executes it. The [`Outcome`] is a stream of
//! [`Rows`], or says what was done.
//!
//! A database is a catalogue, a retention policy a schema, a measurement a table: [`names`] says which of them a session
//! sees, [`measurement`] what a measurement looks like and how it is read. A statement reads one snapshot
//! ([`execution`]).

mod arithmetic;
mod as_of;
mod asof_join;
mod auto_increment;
mod awaited;
mod buckets;
mod bytes_text;
mod call;
mod chains;
mod clocks;
mod command_tag;
mod common_type;
mod complexity;
mod constant;
mod contained;
mod copy;
mod create_as_execute;
mod current_of;
mod cursor;
mod dialect;
mod distinct_aggregates;
mod distinct_from;
mod dry_run;
mod each_row;
pub mod error;
mod execution;
mod expression;
pub mod float_text;
mod floats;
mod format;
mod functions;
mod gaps;
mod identifier;
mod influxql;
mod interval_factor;
mod interval_groups;
mod interval_length;
mod interval_text;
mod json_text;
mod keyword;
mod latest_on;
mod like_table;
mod local_times;
mod long_texts;
mod long_values;
mod measurement;
mod memory;
mod merge_nothing;
mod missing_functions;
mod names;
mod number_source;
mod numbers;
mod outer_join_filters;
mod overriding;
mod parameter;
mod pg_type;
mod placeholder;
mod plan_parameters;
mod planner;
mod plans;
mod prepare_statement;
mod relation;
mod rewrite;
mod row_wise;
mod rows;
mod select_into;
mod sequence_statement;
mod server;
mod session;
mod settings;
mod shape;
mod similar;
pub mod spill;
mod statement;
mod system_catalog;
mod target;
pub mod time_printing;
mod token_reader;
mod transaction;
mod type_name;
mod typed_calls;
mod uncommitted_tables;
mod undo;
mod unknown_bounds;
mod unknown_forms;
mod unknown_statements;
mod uuid_text;
mod waits;
mod walk;
mod whole_numbers;
mod yielding;

pub use awaited::Awaited;
pub use command_tag::CommandTag;
pub use copy::{CopyContext, CopyForm, CopyHeader, CopyKind, CopyRows};
pub use error::{SqlError, SqlResult, SqlState};
pub use format::{RowFormat, RowWriter};
pub use influxql::{InfluxqlColumns, InfluxqlFrames, InfluxqlQueries, InfluxqlQuery};
pub use interval_text::read_interval;
pub use parameter::Parameter;
pub use pg_type::{LENGTH_KEY, TYPE_KEY};
pub use plans::PlanCache;
pub use rows::Rows;
pub use server::{AuditHook, ChangeHook, DenialHook, SqlServer};
pub use session::{CancelHandle, CopyIn, FileIn, FileOut, NamedStatement, Outcome, Prepared, Session};
pub use statement::{Forgotten, Statement, TEXT_MAX_BYTES};
pub use system_catalog::function_name;
pub use transaction::TransactionStatus;
pub use waits::AdvisoryLocks;
