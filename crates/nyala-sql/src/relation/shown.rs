//! Values of the store as plans have them.

use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::error::Result;

/// Values of the store in the type of plans: a moment gets its zone, and a column that was given a wider type since the
/// snapshot gets that.
pub(crate) fn shown_as(values: &ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    match values.data_type() == data_type {
        true => Ok(values.clone()),
        false => Ok(cast(values, data_type)?),
    }
}
