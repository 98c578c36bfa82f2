//! The codes of errors.

/// A code of five letters and digits, from PostgreSQL's list (appendix A of its manual).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

impl SqlState {
    /// feature_not_supported
    pub const UNSUPPORTED: Self = Self("0A000");
    /// cardinality_violation
    pub const CARDINALITY_VIOLATION: Self = Self("21000");
    /// data_exception
    pub const DATA_EXCEPTION: Self = Self("22000");
    /// string_data_right_truncation
    pub const TEXT_TOO_LONG: Self = Self("22001");
    /// numeric_value_out_of_range
    pub const OUT_OF_RANGE: Self = Self("22003");
    /// invalid_datetime_format
    pub const INVALID_DATETIME: Self = Self("22007");
    /// datetime_field_overflow
    pub const DATETIME_OUT_OF_RANGE: Self = Self("22008");
    /// division_by_zero
    pub const DIVISION_BY_ZERO: Self = Self("22012");
    /// null_value_not_allowed
    pub const NULL_NOT_ALLOWED: Self = Self("22004");
    /// invalid_parameter_value
    pub const INVALID_PARAMETER: Self = Self("22023");
    /// invalid_regular_expression
    pub const INVALID_REGULAR_EXPRESSION: Self = Self("2201B");
    /// sequence_generator_limit_exceeded
    pub const SEQUENCE_EXHAUSTED: Self = Self("2200H");
    /// generated_always
    pub const GENERATED_ALWAYS: Self = Self("428C9");
    /// character_not_in_repertoire
    pub const INVALID_ENCODING: Self = Self("22021");
    /// invalid_text_representation
    pub const INVALID_TEXT: Self = Self("22P02");
    /// bad_copy_file_format
    pub const BAD_COPY: Self = Self("22P04");
    /// untranslatable_character
    pub const UNTRANSLATABLE: Self = Self("22P05");
    /// not_null_violation
    pub const NOT_NULL_VIOLATION: Self = Self("23502");
    /// unique_violation
    pub const UNIQUE_VIOLATION: Self = Self("23505");
    /// check_violation
    pub const CHECK_VIOLATION: Self = Self("23514");
    /// dependent_objects_still_exist
    pub const DEPENDENT_OBJECTS: Self = Self("2BP01");
    /// active_sql_transaction
    pub const ACTIVE_TRANSACTION: Self = Self("25001");
    /// read_only_sql_transaction
    pub const READ_ONLY_TRANSACTION: Self = Self("25006");
    /// no_active_sql_transaction
    pub const NO_TRANSACTION: Self = Self("25P01");
    /// in_failed_sql_transaction
    pub const FAILED_TRANSACTION: Self = Self("25P02");
    /// object_not_in_prerequisite_state
    pub const WRONG_STATE: Self = Self("55000");
    /// invalid_sql_statement_name
    pub const UNKNOWN_STATEMENT: Self = Self("26000");
    /// There is no such cursor.
    pub const UNKNOWN_CURSOR: Self = Self("34000");
    /// There is a cursor of that name.
    pub const DUPLICATE_CURSOR: Self = Self("42P03");
    /// A prepared statement of the name is there already.
    pub const DUPLICATE_STATEMENT: Self = Self("42P05");
    /// A cursor does not stand on a row, or on none that can be changed.
    pub const INVALID_CURSOR_STATE: Self = Self("24000");
    /// A cursor cannot be all that its declaration asks for.
    pub const INVALID_CURSOR_DEFINITION: Self = Self("42P11");
    /// invalid_authorization_specification
    pub const UNKNOWN_USER: Self = Self("28000");
    /// invalid_savepoint_specification
    pub const UNKNOWN_SAVEPOINT: Self = Self("3B001");
    /// deadlock_detected
    pub const DEADLOCK: Self = Self("40P01");
    /// lock_not_available
    pub const LOCK_NOT_AVAILABLE: Self = Self("55P03");
    /// serialization_failure
    pub const SERIALIZATION_FAILURE: Self = Self("40001");
    /// insufficient_privilege
    pub const INSUFFICIENT_PRIVILEGE: Self = Self("42501");
    /// syntax_error
    pub const SYNTAX_ERROR: Self = Self("42601");
    /// name_too_long
    pub const NAME_TOO_LONG: Self = Self("42622");
    /// duplicate_column
    pub const DUPLICATE_COLUMN: Self = Self("42701");
    /// ambiguous_column
    pub const AMBIGUOUS_COLUMN: Self = Self("42702");
    /// undefined_column
    pub const UNKNOWN_COLUMN: Self = Self("42703");
    /// undefined_object
    pub const UNKNOWN_OBJECT: Self = Self("42704");
    /// duplicate_object
    pub const DUPLICATE_OBJECT: Self = Self("42710");
    /// grouping_error
    pub const GROUPING_ERROR: Self = Self("42803");
    /// substring_error
    pub const SUBSTRING_ERROR: Self = Self("22011");
    /// windowing_error
    pub const WINDOWING_ERROR: Self = Self("42P20");
    /// datatype_mismatch
    pub const TYPE_MISMATCH: Self = Self("42804");
    /// wrong_object_type
    pub const WRONG_OBJECT: Self = Self("42809");
    /// undefined_function
    pub const UNKNOWN_FUNCTION: Self = Self("42883");
    /// ambiguous_function
    pub const AMBIGUOUS_FUNCTION: Self = Self("42725");
    /// undefined_table
    pub const UNKNOWN_TABLE: Self = Self("42P01");
    /// undefined_parameter
    pub const UNKNOWN_PARAMETER: Self = Self("42P02");
    /// duplicate_table
    pub const DUPLICATE_TABLE: Self = Self("42P07");
    /// invalid_column_reference
    pub const INVALID_COLUMN_REFERENCE: Self = Self("42P10");
    /// invalid_table_definition
    pub const INVALID_TABLE_DEFINITION: Self = Self("42P16");
    /// indeterminate_datatype
    pub const UNKNOWN_TYPE: Self = Self("42P18");
    /// invalid_schema_name
    pub const UNKNOWN_SCHEMA: Self = Self("3F000");
    /// invalid_catalog_name
    pub const UNKNOWN_DATABASE: Self = Self("3D000");
    /// invalid_argument_for_logarithm
    pub const INVALID_LOGARITHM_ARGUMENT: Self = Self("2201E");
    /// invalid_argument_for_power_function
    pub const INVALID_POWER_ARGUMENT: Self = Self("2201F");
    /// invalid_argument_for_width_bucket_function
    pub const INVALID_BUCKET_ARGUMENT: Self = Self("2201G");
    /// invalid_row_count_in_limit_clause
    pub const INVALID_LIMIT: Self = Self("2201W");
    /// invalid_row_count_in_result_offset_clause
    pub const INVALID_OFFSET: Self = Self("2201X");
    /// invalid_escape_sequence
    pub const INVALID_ESCAPE: Self = Self("22025");
    /// insufficient_resources
    pub const TOO_FEW_RESOURCES: Self = Self("53000");
    /// disk_full
    pub const DISK_FULL: Self = Self("53100");
    /// out_of_memory
    pub const OUT_OF_MEMORY: Self = Self("53200");
    /// configuration_limit_exceeded
    pub const CONFIGURATION_LIMIT_EXCEEDED: Self = Self("53400");
    /// program_limit_exceeded
    pub const LIMIT_EXCEEDED: Self = Self("54000");
    /// statement_too_complex
    pub const STATEMENT_TOO_COMPLEX: Self = Self("54001");
    /// too_many_columns
    pub const TOO_MANY_COLUMNS: Self = Self("54011");
    /// query_canceled
    pub const CANCELLED: Self = Self("57014");
    /// cannot_connect_now
    pub const NOT_NOW: Self = Self("57P03");
    /// undefined_file
    pub const UNDEFINED_FILE: Self = Self("58P01");
    /// duplicate_file
    pub const DUPLICATE_FILE: Self = Self("58P02");
    /// io_error
    pub const IO_ERROR: Self = Self("58030");
    /// internal_error
    pub const INTERNAL: Self = Self("XX000");
    /// data_corrupted
    pub const DATA_CORRUPTED: Self = Self("XX001");
}
