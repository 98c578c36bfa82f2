//! Values of `uuid` and `jsonb` are texts, of one form for each value. What is compared with one is brought into that form.

use crate::common_type::compares;
use crate::error::SqlResult;
use crate::pg_type::TYPE_KEY;
use crate::{json_text, jsonb_text, uuid_text};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, StringArray};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, binary_expr,
};
use std::borrow::Cow;
use std::sync::Arc;

/// A type whose values are texts of one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Uuid,
    Jsonb,
}

impl Kind {
    /// That of an expression.
    fn of(expression: &Expr, schema: &DFSchema) -> Option<Self> {
        let (_, field) = expression.to_field(schema).ok()?;
        match field.metadata().get(TYPE_KEY)?.as_str() {
            "uuid" => Some(Self::Uuid),
            "jsonb" => Some(Self::Jsonb),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Uuid => "uuid",
            Self::Jsonb => "jsonb",
        }
    }

    fn normal(self, text: &str) -> SqlResult<Cow<'_, str>> {
        match self {
            Self::Uuid => uuid_text::read(text),
            Self::Jsonb => jsonb_text::normal(json_text::read(text)?).map(Cow::Owned),
        }
    }

    /// A text in this form, if it has no type of its own.
    fn beside(self, other: Expr, schema: &DFSchema) -> Expr {
        let is_open = matches!(&other, Expr::Literal(ScalarValue::Utf8(Some(_)), _) | Expr::Placeholder(_));
        match is_open && Self::of(&other, schema).is_none() {
            true => ScalarUDF::from(Normal::of(self)).call(vec![other]),
            false => other,
        }
    }
}

/// A comparison with operands in one form, if it is one of such a type.
pub(super) fn compared(expression: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expression {
        Expr::ScalarFunction(ScalarFunction { func, mut args }) if compares_texts(&func, &args, schema) => {
            let (right, left) = (args.pop().unwrap_or_default(), args.pop().unwrap_or_default());
            Transformed::yes(compared(binary_expr(left, Operator::Eq, right), schema).data)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(op) => {
            let (left, right) = match (Kind::of(&left, schema), Kind::of(&right, schema)) {
                (Some(kind), None) => (left, Box::new(kind.beside(*right, schema))),
                (None, Some(kind)) => (Box::new(kind.beside(*left, schema)), right),
                _ => return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            };
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::InList(InList { expr, list, negated }) => match Kind::of(&expr, schema) {
            Some(kind) => {
                let list = list.into_iter().map(|own| kind.beside(own, schema)).collect();
                Transformed::yes(Expr::InList(InList { expr, list, negated }))
            }
            None => Transformed::no(Expr::InList(InList { expr, list, negated })),
        },
        Expr::Between(Between { expr, negated, low, high }) => match Kind::of(&expr, schema) {
            Some(kind) => {
                let (low, high) = (kind.beside(*low, schema), kind.beside(*high, schema));
                let (low, high) = (Box::new(low), Box::new(high));
                Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
            }
            None => Transformed::no(Expr::Between(Between { expr, negated, low, high })),
        },
        other => Transformed::no(other),
    }
}

/// Whether what looked like a comparison with the text of an array, `'{…}'`, is one of texts.
fn compares_texts(function: &ScalarUDF, operands: &[Expr], schema: &DFSchema) -> bool {
    let is_text = |own: &Expr| own.get_type(schema).is_ok_and(|own| own.is_string());
    function.name() == "array::equals" && operands.len() == 2 && operands.iter().all(is_text)
}

/// Brings texts into the form of a type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Normal {
    kind: Kind,
    signature: Signature,
}

impl Normal {
    fn of(kind: Kind) -> Self {
        Self { kind, signature: Signature::exact(vec![DataType::Utf8], Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Normal {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Uuid => "normal::uuid",
            Kind::Jsonb => "normal::jsonb",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), DataType::Utf8, true);
        let kind = (TYPE_KEY.to_owned(), self.kind.name().to_owned());
        Ok(Arc::new(field.with_metadata([kind].into())))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let normal = |text: &str| self.kind.normal(text).map(Cow::into_owned);
        Ok(match &arguments.args[0] {
            ColumnarValue::Scalar(text) => {
                let text = text.try_as_str().flatten().map(normal).transpose()?;
                ColumnarValue::Scalar(ScalarValue::Utf8(text))
            }
            ColumnarValue::Array(texts) => {
                let texts = texts.as_string::<i32>().iter().map(|text| text.map(normal).transpose());
                ColumnarValue::Array(Arc::new(texts.collect::<SqlResult<StringArray>>()?) as ArrayRef)
            }
        })
    }
}
