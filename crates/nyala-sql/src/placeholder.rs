//! Parameters in the text of a statement: `$1`, `$2`, …

use crate::error::{SqlError, SqlResult, SqlState};

/// The most parameters of a statement, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;

/// The number of a parameter, beginning with 1.
pub(crate) fn number_of(id: &str) -> SqlResult<usize> {
    let number = id.strip_prefix('$').and_then(|digits| digits.parse().ok());
    number.filter(|number| (1..=PARAMETERS_MAX).contains(number)).ok_or_else(|| {
        SqlError::new(SqlState::UNKNOWN_PARAMETER, format!("there is no parameter {id}: the first is $1"))
    })
}
