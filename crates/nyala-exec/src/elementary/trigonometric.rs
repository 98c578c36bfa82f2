//! Sine, cosine, tangent and their inverses.
#![allow(clippy::excessive_precision, reason = "coefficients stand as they were published")]

use super::polynomial;
use std::f64::consts::{FRAC_1_PI, FRAC_PI_2, FRAC_PI_4, PI};

/// π/4 in three parts, so that multiples of it can be taken away without loss.
const QUARTER_PI: [f64; 3] =
    [7.853_981_256_484_985_351_56e-1, 3.774_894_707_930_798_176_68e-8, 2.695_151_429_079_059_526_45e-15];
/// From here on those parts are too short. The standard library's results differ in the last place at most.
const LARGE: f64 = (1_u64 << 29) as f64;

const SINE: [f64; 6] = [
    1.589_623_015_765_465_680_60e-10,
    -2.505_074_776_285_780_728_66e-8,
    2.755_731_362_138_572_452_13e-6,
    -1.984_126_982_958_953_859_96e-4,
    8.333_333_333_322_118_588_78e-3,
    -1.666_666_666_666_663_072_95e-1,
];
const COSINE: [f64; 6] = [
    -1.135_853_652_138_768_173_00e-11,
    2.087_570_084_197_473_167_78e-9,
    -2.755_731_417_929_673_881_12e-7,
    2.480_158_728_885_170_453_48e-5,
    -1.388_888_888_887_305_641_16e-3,
    4.166_666_666_666_659_292_18e-2,
];
const TANGENT_ABOVE: [f64; 3] =
    [-1.309_369_391_813_837_776_46e4, 1.153_516_648_385_874_161_40e6, -1.795_652_519_764_848_779_88e7];
const TANGENT_BELOW: [f64; 5] = [
    1.0,
    1.368_129_634_706_929_546_78e4,
    -1.320_892_344_402_109_674_47e6,
    2.500_838_018_233_579_158_39e7,
    -5.386_957_559_294_546_298_81e7,
];
const ARCUS_ABOVE: [f64; 5] = [
    -8.750_608_600_031_904_122_785e-1,
    -1.615_753_718_733_365_076_637e1,
    -7.500_855_792_314_704_667_340e1,
    -1.228_866_684_490_136_173_410e2,
    -6.485_021_904_942_025_371_773e1,
];
const ARCUS_BELOW: [f64; 6] = [
    1.0,
    2.485_846_490_142_306_297_962e1,
    1.650_270_098_316_988_542_046e2,
    4.328_810_604_912_902_668_951e2,
    4.853_903_996_359_136_964_868e2,
    1.945_506_571_482_613_964_425e2,
];

/// A positive angle as an even number of eighths of a circle, and what is left of it.
fn reduced(angle: f64) -> (u64, f64) {
    let eighths = (angle * (4.0 * FRAC_1_PI)) as u64;
    let eighths = eighths + eighths % 2;
    let rest = QUARTER_PI.iter().fold(angle, |rest, part| rest - eighths as f64 * part);
    (eighths, rest)
}

fn sine_of_small(angle: f64) -> f64 {
    let square = angle * angle;
    angle + angle * square * polynomial(square, &SINE)
}

fn cosine_of_small(angle: f64) -> f64 {
    let square = angle * angle;
    1.0 - 0.5 * square + square * square * polynomial(square, &COSINE)
}

fn with_sign(negative: bool, value: f64) -> f64 {
    if negative { -value } else { value }
}

/// The sine.
pub fn sin(angle: f64) -> f64 {
    if angle == 0.0 || !angle.is_finite() || angle.abs() >= LARGE {
        return angle.sin();
    }
    let (eighths, rest) = reduced(angle.abs());
    let value = if eighths % 4 == 2 { cosine_of_small(rest) } else { sine_of_small(rest) };
    with_sign((angle < 0.0) != (eighths % 8 > 3), value)
}

/// The cosine.
pub fn cos(angle: f64) -> f64 {
    if !angle.is_finite() || angle.abs() >= LARGE {
        return angle.cos();
    }
    let (eighths, rest) = reduced(angle.abs());
    let value = if eighths % 4 == 2 { sine_of_small(rest) } else { cosine_of_small(rest) };
    with_sign(matches!(eighths % 8, 2 | 4), value)
}

/// The tangent.
pub fn tan(angle: f64) -> f64 {
    if angle == 0.0 || !angle.is_finite() || angle.abs() >= LARGE {
        return angle.tan();
    }
    let (eighths, rest) = reduced(angle.abs());
    let square = rest * rest;
    let value = match square > 1e-14 {
        true => {
            let above = square * polynomial(square, &TANGENT_ABOVE);
            rest + rest * (above / polynomial(square, &TANGENT_BELOW))
        }
        false => rest,
    };
    with_sign(angle < 0.0, if eighths % 4 == 2 { -1.0 / value } else { value })
}

/// The angle of a tangent from 0 to 0.66.
fn atan_of_small(tangent: f64) -> f64 {
    let square = tangent * tangent;
    let quotient = square * polynomial(square, &ARCUS_ABOVE) / polynomial(square, &ARCUS_BELOW);
    tangent * quotient + tangent
}

fn atan_of_positive(tangent: f64) -> f64 {
    /// What π/2 is more than its nearest float.
    const REST_OF_HALF_PI: f64 = 6.123_233_995_736_765_886_130e-17;
    const TANGENT_OF_3_PI_8: f64 = 2.414_213_562_373_095_048_80;
    if tangent <= 0.66 {
        atan_of_small(tangent)
    } else if tangent > TANGENT_OF_3_PI_8 {
        FRAC_PI_2 - atan_of_small(1.0 / tangent) + REST_OF_HALF_PI
    } else {
        FRAC_PI_4 + atan_of_small((tangent - 1.0) / (tangent + 1.0)) + 0.5 * REST_OF_HALF_PI
    }
}

/// The angle of a tangent.
pub fn atan(tangent: f64) -> f64 {
    if tangent == 0.0 || tangent.is_nan() {
        return tangent;
    }
    with_sign(tangent < 0.0, atan_of_positive(tangent.abs()))
}

/// The angle of a sine; of what is none not a number.
pub fn asin(sine: f64) -> f64 {
    if sine == 0.0 {
        return sine;
    }
    let size = sine.abs();
    if size > 1.0 {
        return f64::NAN;
    }
    let cosine = (1.0 - size * size).sqrt();
    let angle = match size > 0.7 {
        true => FRAC_PI_2 - atan_of_positive(cosine / size),
        false => atan_of_positive(size / cosine),
    };
    with_sign(sine < 0.0, angle)
}

/// The angle of a cosine; of what is none not a number.
pub fn acos(cosine: f64) -> f64 {
    FRAC_PI_2 - asin(cosine)
}

/// The angle of the point (x, y).
pub fn atan2(y: f64, x: f64) -> f64 {
    if y == 0.0 || x == 0.0 || !x.is_finite() || !y.is_finite() {
        // Multiples of π/4, about which there is no doubt.
        return y.atan2(x);
    }
    let angle = atan(y / x);
    match x < 0.0 {
        true if angle <= 0.0 => angle + PI,
        true => angle - PI,
        false => angle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_close_to_the_standard_librarys() {
        let close = |own: f64, other: f64| {
            assert!((own - other).abs() <= 1e-14 * other.abs().max(1.0), "{own} {other}");
        };
        for step in -4000_i32..4000 {
            let x = f64::from(step) * 0.01;
            close(sin(x), x.sin());
            close(cos(x), x.cos());
            close(1.0 / tan(x).max(0.1), 1.0 / x.tan().max(0.1));
            close(atan(x), x.atan());
            close(asin(x / 40.0), (x / 40.0).asin());
            close(acos(x / 40.0), (x / 40.0).acos());
            close(atan2(x, 3.0 - x), x.atan2(3.0 - x));
        }
        assert!(sin(f64::INFINITY).is_nan() && asin(1.5).is_nan() && atan(f64::NAN).is_nan());
    }
}
