//! Numbers with exponents, which the planner cannot read as decimals: their tokens become those of plain numbers.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// The most digits of a decimal.
const DIGITS_MAX: i32 = 38;

/// The tokens of a text without numbers that have exponents.
pub(crate) fn rewritten(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has_exponent =
        |token: &TokenWithSpan| matches!(&token.token, Token::Number(text, _) if text.contains(['e', 'E']));
    if !tokens.iter().any(has_exponent) {
        return tokens;
    }
    let rewritten = tokens.into_iter().flat_map(|token| match &token.token {
        Token::Number(text, is_long) if has_exponent(&token) => match plain(text) {
            Some(text) => vec![Token::Number(text, *is_long)],
            None => as_float(text),
        }
        .into_iter()
        .map(|own| TokenWithSpan { token: own, span: token.span })
        .collect(),
        _ => vec![token],
    });
    rewritten.collect()
}

/// A number without its exponent; `None` if it has too many digits then.
fn plain(text: &str) -> Option<String> {
    // Digits may be grouped by underscores.
    let text = text.replace('_', "");
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    // Where the point is among the digits.
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let count = i32::try_from(digits.len()).ok()?;
    // A number without a fraction gets one digit of it.
    let shown = count - point.min(0) + i32::from(point >= count) * (point - count + 1);
    if point.abs() > DIGITS_MAX || shown > DIGITS_MAX {
        return None;
    }
    Some(if point <= 0 {
        format!("0.{}{digits}", "0".repeat(point.unsigned_abs() as usize))
    } else if point >= count {
        format!("{digits}{}.0", "0".repeat((point - count) as usize))
    } else {
        let (before, after) = digits.split_at(point as usize);
        format!("{before}.{after}")
    })
}

/// A number as a float.
fn as_float(text: &str) -> Vec<Token> {
    let float = Word { value: "float8".to_owned(), quote_style: None, keyword: Keyword::FLOAT8 };
    vec![Token::SingleQuotedString(text.replace('_', "")), Token::DoubleColon, Token::Word(float)]
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn exponents_move_the_point() {
        let cases = [
            ("1e3", "1000.0"),
            ("1.5E3", "1500.0"),
            ("2e-3", "0.002"),
            ("1.25e1", "12.5"),
            (".5e1", "5.0"),
            ("1_0e-3", "0.010"),
            ("1_000e-4", "0.1000"),
            ("1_2.3_4e1_0", "123400000000.0"),
        ];
        for (text, expected) in cases {
            assert_eq!(plain(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(["1e300", "1e-300", "1e99999999999", "1e37", "1e38"].map(plain), [const { None }; 5]);
        assert_eq!(plain("1e36").map(|text| text.len()), Some("1.0".len() + 36));
    }
}
