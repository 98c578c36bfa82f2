//! The functions that clients call while they look around.
//!
//! A function is computed row by row from what there is now ([`Call`]), so plans with one are planned for each execution.

mod call;
mod formatting;
mod json_building;
mod json_values;
mod names;
mod objects;
mod routines;
mod sequences;
mod session;
mod sessions;
mod texts;
mod waits;

use super::objects::Objects;
use super::viewer::Viewer;
use crate::pg_type::TYPE_KEY;
use crate::row_wise::{computed, computed_each};
use arrow_schema::{DataType, Field, FieldRef};
use call::Call;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use std::cell::OnceCell;
use std::sync::Arc;

/// What a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Gives {
    Bool,
    Int,
    BigInt,
    Text,
    Names,
    /// The positions of the elements of an array.
    Positions,
    /// The elements of an array, each with its position.
    Numbered,
    /// The privileges of a list of them, which nothing has here.
    Privileges,
    /// A value of what the first argument is.
    Same,
    /// A moment.
    Time,
    /// A part of the first argument: `jsonb` if that is, else `json`.
    Json,
    /// A value of a type of PostgreSQL, in this form.
    Typed(&'static str, &'static DataType),
}

/// How a function is computed from its arguments.
type Compute = fn(&Call<'_>) -> Result<ScalarValue>;

/// A function.
#[derive(Debug, Clone, Copy)]
struct Function {
    name: &'static str,
    gives: Gives,
    compute: Compute,
    /// Whether NULL for any argument gives NULL.
    is_strict: bool,
    /// Whether it is another value each time.
    is_volatile: bool,
}

const OID: Gives = Gives::Typed("oid", &DataType::Int64);
const NAME: Gives = Gives::Typed("name", &DataType::Utf8);
/// Nothing: an empty text.
const VOID: Gives = Gives::Typed("void", &DataType::Utf8);

const fn strict(name: &'static str, gives: Gives, compute: Compute) -> Function {
    Function { name, gives, compute, is_strict: true, is_volatile: false }
}

const fn tolerant(name: &'static str, gives: Gives, compute: Compute) -> Function {
    Function { name, gives, compute, is_strict: false, is_volatile: false }
}

const fn volatile(name: &'static str, gives: Gives, compute: Compute) -> Function {
    Function { name, gives, compute, is_strict: true, is_volatile: true }
}

/// Makes the functions known to a planner.
pub(crate) fn register(state: &mut SessionState, viewer: &Arc<Viewer>) -> Result<()> {
    for function in all() {
        let function = CatalogFunction::of(function, viewer.clone());
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    Ok(())
}

fn all() -> impl Iterator<Item = &'static Function> {
    let all = [
        session::FUNCTIONS,
        sessions::FUNCTIONS,
        names::FUNCTIONS,
        objects::FUNCTIONS,
        routines::FUNCTIONS,
        sequences::FUNCTIONS,
        waits::FUNCTIONS,
        texts::FUNCTIONS,
        formatting::FUNCTIONS,
        json_values::FUNCTIONS,
        json_building::FUNCTIONS,
    ];
    all.into_iter().flatten()
}

/// The function with a name, to be called in a plan.
pub(super) fn function(name: &str, viewer: &Arc<Viewer>) -> Option<ScalarUDF> {
    let found = all().find(|own| own.name == name)?;
    Some(ScalarUDF::from(CatalogFunction::of(found, viewer.clone())))
}

/// A function in plans.
#[derive(Debug)]
struct CatalogFunction {
    of: &'static Function,
    viewer: Arc<Viewer>,
    signature: Signature,
}

impl PartialEq for CatalogFunction {
    fn eq(&self, other: &Self) -> bool {
        self.of.name == other.of.name && self.viewer == other.viewer
    }
}

impl Eq for CatalogFunction {}

impl std::hash::Hash for CatalogFunction {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.of.name.hash(state);
    }
}

impl CatalogFunction {
    fn of(of: &'static Function, viewer: Arc<Viewer>) -> Self {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        let volatility = if of.is_volatile { Volatility::Volatile } else { Volatility::Stable };
        Self { of, viewer, signature: Signature::one_of(any, volatility) }
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.of.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match self.of.gives {
            Gives::Bool => DataType::Boolean,
            Gives::Int => DataType::Int32,
            Gives::BigInt => DataType::Int64,
            Gives::Text | Gives::Json => DataType::Utf8,
            Gives::Names => DataType::new_list(DataType::Utf8, true),
            Gives::Positions => DataType::new_list(DataType::Int32, true),
            Gives::Numbered => {
                let element = match given.first() {
                    Some(DataType::List(element)) => element.data_type().clone(),
                    _ => DataType::Null,
                };
                DataType::new_list(texts::numbered_type(element), true)
            }
            Gives::Privileges => DataType::new_list(objects::privilege_type(), true),
            Gives::Same => given.first().cloned().unwrap_or(DataType::Null),
            Gives::Time => DataType::Timestamp(arrow_schema::TimeUnit::Nanosecond, Some("+00:00".into())),
            Gives::Typed(_, data_type) => data_type.clone(),
        })
    }

    fn return_field_from_args(&self, given: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = given.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let name = match self.of.gives {
            Gives::Typed(name, _) => name,
            Gives::Json => {
                let first = given.arg_fields.first().and_then(|own| own.metadata().get(TYPE_KEY));
                if first.is_some_and(|own| own == "jsonb") { "jsonb" } else { "json" }
            }
            _ => return Ok(Arc::new(field)),
        };
        Ok(Arc::new(field.with_metadata([(TYPE_KEY.to_owned(), name.to_owned())].into())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let objects: OnceCell<Objects> = OnceCell::new();
        let compute = if self.of.is_volatile { computed_each } else { computed };
        compute(self.name(), &arguments, self.of.is_strict, &|values| {
            (self.of.compute)(&Call {
                viewer: &self.viewer,
                values,
                fields: &arguments.arg_fields,
                objects: &objects,
            })
        })
    }
}
