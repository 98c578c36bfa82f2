//! Operators of `jsonb` that say whether a value has something: `@>`, `<@`, `?`, `?|` and `?&`.

use crate::error::SqlResult;
use crate::json_text::{Parts, decoded, parts_of, read};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// What is asked of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Test {
    /// Whether another value is contained in it.
    Contains,
    /// Whether it has a member, or an element that is a text, of a name.
    Has,
    /// Whether it has one of some names.
    HasAny,
    /// Whether it has all of them.
    HasAll,
}

/// The test that an operator is for operands of these types.
pub(super) fn of(
    op: &BinaryOperator,
    (left, left_type): (&Expr, &DataType),
    (right, right_type): (&Expr, &DataType),
) -> Option<Expr> {
    let is_text = |own: &DataType| own.is_string() || own.is_null();
    let is_list = matches!(right_type, DataType::List(_));
    let are_texts = is_text(left_type) && is_text(right_type);
    let (test, value, wanted) = match op {
        BinaryOperator::AtArrow if are_texts => (Test::Contains, left, right),
        BinaryOperator::ArrowAt if are_texts => (Test::Contains, right, left),
        BinaryOperator::Question if are_texts => (Test::Has, left, right),
        BinaryOperator::QuestionPipe if is_text(left_type) && is_list => (Test::HasAny, left, right),
        BinaryOperator::QuestionAnd if is_text(left_type) && is_list => (Test::HasAll, left, right),
        _ => return None,
    };
    Some(ScalarUDF::from(JsonTest::of(test)).call(vec![value.clone(), wanted.clone()]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct JsonTest {
    test: Test,
    signature: Signature,
}

impl JsonTest {
    fn of(test: Test) -> Self {
        Self { test, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// The answer for one row; `None` if that is NULL.
    fn tested(&self, value: &ArrayRef, wanted: &ArrayRef, row: usize) -> SqlResult<Option<bool>> {
        if value.is_null(row) || wanted.is_null(row) {
            return Ok(None);
        }
        let value = read(value.as_string::<i32>().value(row))?;
        Ok(Some(match self.test {
            Test::Contains => contains(value, read(wanted.as_string::<i32>().value(row))?, true)?,
            Test::Has => has(value, wanted.as_string::<i32>().value(row))?,
            Test::HasAny | Test::HasAll => {
                let names = cast(&wanted.as_list::<i32>().value(row), &DataType::Utf8)
                    .map_err(datafusion::error::DataFusionError::from)?;
                let names = names.as_string::<i32>().iter().flatten();
                match self.test {
                    Test::HasAny => any(names, |name| has(value, name))?,
                    _ => all(names, |name| has(value, name))?,
                }
            }
        }))
    }
}

impl ScalarUDFImpl for JsonTest {
    fn name(&self) -> &str {
        match self.test {
            Test::Contains => "jsonb::contains",
            Test::Has => "jsonb::has",
            Test::HasAny => "jsonb::has_any",
            Test::HasAll => "jsonb::has_all",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = arguments.args.iter().all(|own| matches!(own, ColumnarValue::Scalar(_)));
        let rows = if is_scalar { 1 } else { arguments.number_rows };
        let texts = |own: &ColumnarValue| {
            Ok::<_, datafusion::error::DataFusionError>({
                let values = own.to_array(rows)?;
                match values.data_type() {
                    DataType::List(_) => values,
                    _ => cast(&values, &DataType::Utf8)?,
                }
            })
        };
        let (value, wanted) = (texts(&arguments.args[0])?, texts(&arguments.args[1])?);
        let tested = (0..rows).map(|row| self.tested(&value, &wanted, row));
        let tested = tested.collect::<SqlResult<BooleanArray>>()?;
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&tested, 0)?),
            false => ColumnarValue::Array(Arc::new(tested)),
        })
    }
}

/// Whether a value contains another one. Only a whole value may be an array that contains one of its elements as such.
fn contains(value: &str, wanted: &str, is_whole: bool) -> SqlResult<bool> {
    match (parts_of(value), parts_of(wanted)) {
        (Parts::Object(members), Parts::Object(wanted)) => all(wanted, |(name, wanted)| {
            let name = decoded(name)?;
            // Of several members with one name the last counts.
            for (own, value) in members.iter().rev() {
                if decoded(own)? == name {
                    return contains(value, wanted, false);
                }
            }
            Ok(false)
        }),
        (Parts::Array(elements), Parts::Array(wanted)) => {
            all(wanted, |wanted| any(&elements, |own| contains(own, wanted, false)))
        }
        (Parts::Array(elements), Parts::Plain(wanted)) if is_whole => {
            any(&elements, |own| match parts_of(own) {
                Parts::Plain(own) => is_same(own, wanted),
                _ => Ok(false),
            })
        }
        (Parts::Plain(own), Parts::Plain(wanted)) => is_same(own, wanted),
        _ => Ok(false),
    }
}

/// Whether a test holds for one of some values.
fn any<T>(values: impl IntoIterator<Item = T>, test: impl Fn(T) -> SqlResult<bool>) -> SqlResult<bool> {
    for value in values {
        if test(value)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether it holds for all of them.
fn all<T>(values: impl IntoIterator<Item = T>, test: impl Fn(T) -> SqlResult<bool>) -> SqlResult<bool> {
    any(values, |value| Ok(!test(value)?)).map(|is_missing| !is_missing)
}

/// Whether two values without parts are the same: numbers by their values.
fn is_same(a: &str, b: &str) -> SqlResult<bool> {
    Ok(match (a.starts_with('"'), b.starts_with('"')) {
        (true, true) => decoded(a)? == decoded(b)?,
        (false, false) => a == b || number(a).is_some_and(|own| number(b) == Some(own)),
        _ => false,
    })
}

/// A number by its sign, its digits without zeros around them, and how many places the last is left of the point; `None` for other
/// values. A float would not tell numbers of many digits apart.
fn number(json: &str) -> Option<(bool, String, i64)> {
    let (is_negative, text) = json.strip_prefix('-').map_or((false, json), |rest| (true, rest));
    text.starts_with(|letter: char| letter.is_ascii_digit()).then_some(())?;
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_end_matches('0');
    let shift = (all.len() - digits.len()) as i64 - fraction.len() as i64;
    let place = exponent.parse::<i64>().ok()?.checked_add(shift)?;
    let digits = digits.trim_start_matches('0');
    Some(if digits.is_empty() { (false, String::new(), 0) } else { (is_negative, digits.to_owned(), place) })
}

/// Whether an object has a member of a name, or an array an element that is this text, or a value is this text.
fn has(value: &str, name: &str) -> SqlResult<bool> {
    let is_text = |own: &str| -> SqlResult<bool> { Ok(own.starts_with('"') && decoded(own)? == name) };
    match parts_of(value) {
        Parts::Object(members) => any(members, |(own, _)| is_text(own)),
        Parts::Array(elements) => any(elements, is_text),
        Parts::Plain(own) => is_text(own),
    }
}

#[cfg(test)]
mod tests {
    use super::{contains, has};

    #[test]
    fn values_contain_others_as_in_postgresql() {
        for (value, wanted, is_contained) in [
            (r#"{"a": 1, "b": {"c": [1, 2]}}"#, r#"{"b": {"c": [2]}}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 1.0}"#, true),
            (r#"{"a": 1}"#, r#"{"a": "1"}"#, false),
            ("[9007199254740993]", "9007199254740992", false),
            ("[1200, -0.0, true]", "[12e2, 0, true]", true),
            ("[0.12, 1e400]", "[1.2E-1, 10e+399]", true),
            ("[-1]", "[1]", false),
            ("[1, 2, [1, 3]]", "[1, 3]", false),
            ("[1, 2, [1, 3]]", "[[1, 3]]", true),
            (r#"["foo", "bar"]"#, r#""bar""#, true),
            (r#"[["bar"]]"#, r#""bar""#, false),
            (r#""bar""#, r#"["bar"]"#, false),
            (r#"{"a": {"b": 1}}"#, r#"{"b": 1}"#, false),
            ("{}", "{}", true),
        ] {
            let contains = contains(value, wanted, true).expect("both are JSON");
            assert_eq!(contains, is_contained, "{value} @> {wanted}");
        }
        for (value, name, is_there) in
            [(r#"{"a": null}"#, "a", true), (r#"["a"]"#, "a", true), (r#""a""#, "a", true), ("1", "1", false)]
        {
            assert_eq!(has(value, name), Ok(is_there), "{value} ? {name}");
        }
    }
}
