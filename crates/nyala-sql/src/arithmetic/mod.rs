//! Arithmetic as PostgreSQL does it: a result that its type cannot hold is an error, where DataFusion's operators wrap around or
//! give infinities, and quotients of decimals have their digits. So functions ([`operator`]) take the places of operators:
//! [`rule`] does so for integers and floats when everything has its type, [`decimals`] before, because types of other
//! expressions depend on the digits. [`floats`] says what is wrong with results.

pub(crate) mod decimals;
mod floats;
mod operation;
mod operator;
mod rule;

pub(crate) use operation::out_of_range;
pub(crate) use rule::{CheckArithmetic, checked};
