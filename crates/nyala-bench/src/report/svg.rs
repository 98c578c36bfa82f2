//! Plots as inline SVG: lines over a linear or logarithmic axis, and bars side by side.
//!
//! Colours are classes of the page's style sheet, so that they follow its light or dark scheme. All text is escaped,
//! because labels come from result files, which are not trusted.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// More points than pixels are useless.
const POINT_LIMIT: usize = 700;
/// The number of different colours.
pub const COLOURS: usize = 8;

/// How values become positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// In decades.
    Logarithmic,
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Which colour; from [`COLOURS`] on they come again, dashed.
    pub colour: usize,
    /// Pairs of x and y.
    pub points: Vec<[f64; 2]>,
}

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What is written there.
    pub text: String,
}

/// Text made safe for HTML and SVG.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A line plot. `x_marks` are needed when x is not a plain number; otherwise they are chosen.
pub fn lines(
    lines: &[Line],
    x_title: &str,
    y_title: &str,
    y_scale: Scale,
    x_marks: Option<&[Mark]>,
) -> String {
    let finite =
        || lines.iter().flat_map(|line| &line.points).filter(|point| point.iter().all(|v| v.is_finite()));
    let x_max = finite().map(|point| point[0]).fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let y_max = finite().map(|point| point[1]).fold(0.0, f64::max);
    let y_min = finite().map(|point| point[1]).filter(|&y| y > 0.0).fold(f64::INFINITY, f64::min);
    let axis = Axis::new(y_scale, y_min, y_max);
    let x_of = |x: f64| LEFT + x / x_max * (WIDTH - LEFT - RIGHT);
    let y_of = |y: f64| HEIGHT - BOTTOM - axis.share(y) * (HEIGHT - TOP - BOTTOM);
    let mut svg = open(HEIGHT);
    for mark in axis.marks() {
        let y = y_of(mark.at);
        put(&mut svg, format_args!("<line class=grid x1={LEFT} x2={} y1={y:.1} y2={y:.1} />", WIDTH - RIGHT));
        let text = escape(&mark.text);
        put(&mut svg, format_args!("<text x={} y={:.1} text-anchor=end>{text}</text>", LEFT - 6.0, y + 4.0));
    }
    let chosen = Axis::new(Scale::Linear, 0.0, x_max).marks();
    for mark in x_marks.unwrap_or(&chosen).iter().filter(|mark| mark.at <= x_max) {
        let (x, y, text) = (x_of(mark.at), HEIGHT - BOTTOM + 16.0, escape(&mark.text));
        put(&mut svg, format_args!("<text x={x:.1} y={y} text-anchor=middle>{text}</text>"));
    }
    for line in lines {
        let step = line.points.len().div_ceil(POINT_LIMIT).max(1);
        let points: Vec<String> = line
            .points
            .iter()
            .filter(|point| point.iter().all(|value| value.is_finite()))
            .step_by(step)
            .map(|[x, y]| format!("{:.1},{:.1}", x_of(*x), y_of(*y)))
            .collect();
        let colour = line.colour % COLOURS;
        let dashed = if line.colour >= COLOURS { " dashed" } else { "" };
        put(
            &mut svg,
            format_args!("<polyline class=\"line c{colour}{dashed}\" points=\"{}\" />", points.join(" ")),
        );
        // One point is no line.
        if let [point] = &points[..]
            && let Some((x, y)) = point.split_once(',')
        {
            put(&mut svg, format_args!("<circle class=\"bar c{colour}\" cx={x} cy={y} r=3 />"));
        }
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    put(
        &mut svg,
        format_args!(
            "<text x={middle} y={} text-anchor=middle class=title>{}</text>\
         <text transform=\"translate(14 {}) rotate(-90)\" text-anchor=middle class=title>{}</text></svg>",
            HEIGHT - 6.0,
            escape(x_title),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escape(y_title)
        ),
    );
    svg
}

/// One bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Which colour.
    pub colour: usize,
    /// How long.
    pub value: f64,
    /// The value as text.
    pub text: String,
}

/// Groups of horizontal bars from zero, a title to the left of each group.
pub fn bars(groups: &[(String, Vec<Bar>)]) -> String {
    const BAR_HEIGHT: f64 = 15.0;
    const GROUP_GAP: f64 = 9.0;
    const TITLE_WIDTH: f64 = 190.0;
    const VALUE_WIDTH: f64 = 90.0;
    let longest = groups.iter().flat_map(|(_, bars)| bars).map(|bar| bar.value).fold(0.0, f64::max);
    let heights = groups.iter().map(|(_, bars)| bars.len() as f64 * BAR_HEIGHT + GROUP_GAP);
    let mut svg = open(heights.sum::<f64>() + GROUP_GAP);
    let mut y = GROUP_GAP;
    for (title, bars) in groups {
        let middle = y + bars.len() as f64 * BAR_HEIGHT / 2.0 + 4.0;
        let title = escape(title);
        put(
            &mut svg,
            format_args!("<text x={} y={middle:.1} text-anchor=end>{title}</text>", TITLE_WIDTH - 8.0),
        );
        for bar in bars {
            let share =
                if longest > 0.0 && bar.value.is_finite() { bar.value.max(0.0) / longest } else { 0.0 };
            let length = share * (WIDTH - TITLE_WIDTH - VALUE_WIDTH);
            let (colour, text) = (bar.colour % COLOURS, escape(&bar.text));
            put(
                &mut svg,
                format_args!(
                    "<rect class=\"bar c{colour}\" x={TITLE_WIDTH} y={y:.1} width={length:.1} height={} />\
                 <text x={:.1} y={:.1}>{text}</text>",
                    BAR_HEIGHT - 2.0,
                    TITLE_WIDTH + length + 5.0,
                    y + BAR_HEIGHT - 4.0
                ),
            );
            y += BAR_HEIGHT;
        }
        y += GROUP_GAP;
    }
    svg.push_str("</svg>");
    svg
}

fn open(height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=img>")
}

/// Appends formatted text.
pub(super) fn put(text: &mut String, formatted: std::fmt::Arguments<'_>) {
    text.write_fmt(formatted).expect("a string takes any text");
}

/// Position of values along an axis.
struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    fn new(scale: Scale, smallest: f64, largest: f64) -> Axis {
        let largest = if largest > 0.0 { largest } else { 1.0 };
        match scale {
            Scale::Linear => Axis { scale, low: 0.0, high: largest },
            Scale::Logarithmic => {
                let low = if smallest.is_finite() && smallest < largest { smallest } else { largest / 10.0 };
                Axis { scale, low: 10f64.powf(low.log10().floor()), high: 10f64.powf(largest.log10().ceil()) }
            }
        }
    }

    /// 0 at the low end, 1 at the high end.
    fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => value / self.high,
            Scale::Logarithmic => (value.max(self.low) / self.low).log10() / (self.high / self.low).log10(),
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    fn marks(&self) -> Vec<Mark> {
        match self.scale {
            Scale::Linear => {
                // About five marks at a round step.
                let rough = self.high / 5.0;
                let decade = 10f64.powf(rough.log10().floor());
                let round = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * decade);
                let step = round.into_iter().find(|step| *step >= rough).unwrap_or(rough);
                (0..=5).map(|n| f64::from(n) * step).filter(|at| *at <= self.high).map(mark).collect()
            }
            Scale::Logarithmic => {
                let (first, last) = (self.low.log10().round() as i32, self.high.log10().round() as i32);
                (first..=last).map(|decade| mark(10f64.powi(decade))).collect()
            }
        }
    }
}

fn mark(at: f64) -> Mark {
    let text = match at {
        v if v >= 1e9 => format!("{} G", v / 1e9),
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e4 => format!("{} k", v / 1e3),
        // Rounds off the errors of decimal fractions.
        v => format!("{}", (v * 1e6).round() / 1e6),
    };
    Mark { at, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_marks() {
        let texts = |axis: Axis| axis.marks().into_iter().map(|mark| mark.text).collect::<Vec<_>>();
        assert_eq!(texts(Axis::new(Scale::Linear, 0.0, 9.3)), ["0", "2", "4", "6", "8"]);
        assert_eq!(texts(Axis::new(Scale::Linear, 0.0, 1.3e6)), ["0", "500 k", "1 M"]);
        assert_eq!(texts(Axis::new(Scale::Logarithmic, 0.2, 30.0)), ["0.1", "1", "10", "100"]);
        assert_eq!(texts(Axis::new(Scale::Linear, 0.0, 0.0)).len(), 6);
        assert_eq!(texts(Axis::new(Scale::Logarithmic, f64::INFINITY, 0.0)).len(), 2);
    }

    #[test]
    fn plots_survive_odd_values_and_escape_text() {
        let odd =
            Line { colour: 9, points: vec![[0.0, f64::NAN], [1.0, 0.0], [f64::INFINITY, 2.0], [2.0, 3.0]] };
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let svg = lines(&[odd.clone(), Line { colour: 0, points: vec![] }], "<x>", "y", scale, None);
            assert!(svg.contains("&lt;x&gt;") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        let bar = |value| Bar { colour: 0, value, text: "<script>".to_owned() };
        let svg = bars(&[("a&b".to_owned(), vec![bar(1.0), bar(f64::NAN), bar(-1.0)])]);
        assert!(svg.contains("a&amp;b") && !svg.contains("<script>") && !svg.contains("NaN"), "{svg}");
        assert!(!bars(&[]).contains("NaN"));
    }
}
