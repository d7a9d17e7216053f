//! What nothing due costs against the size of the history, as a picture: both axes logarithmic.

use std::fmt::Write;

use holdfast_load::figures::per;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
/// Milliseconds at the bottom and at the top, as powers of ten.
const DECADES: (i32, i32) = (-2, 5);

/// What nothing due costs at one size of the history.
pub(super) struct Size {
    pub(super) transfers: u64,
    pub(super) naive_ms: f64,
    pub(super) steps_ms: f64,
    pub(super) ours_ms: f64,
}

/// An SVG of the three ways. Nothing is drawn with fewer than two sizes but the points.
pub(super) fn plot(growth: &[Size]) -> String {
    let of = |value: fn(&Size) -> f64| -> Vec<f64> { growth.iter().map(value).collect() };
    let sizes = of(|size| per(size.transfers, 1));
    let series = [
        ("naive query", "#b03a2e", of(|size| size.naive_ms)),
        ("ten steps", "#b7950b", of(|size| size.steps_ms)),
        ("holdfast", "#1e8449", of(|size| size.ours_ms)),
    ];
    let scale = Scale::of(&sizes);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"26\" font-size=\"15\">Nothing due: milliseconds to find that out, by transfers in the history</text>\n"
    );
    for power in DECADES.0..=DECADES.1 {
        let y = scale.y(10_f64.powi(power));
        let label = if power < 0 {
            format!("{:.2}", 10_f64.powi(power))
        } else {
            format!("{:.0}", 10_f64.powi(power))
        };
        line(&mut svg, (LEFT, y), (WIDTH - RIGHT, y), "#dddddd");
        text(&mut svg, (LEFT - 8.0, y + 4.0), "end", "#333333", &format!("{label} ms"));
    }
    for size in &sizes {
        let x = scale.x(*size);
        line(&mut svg, (x, TOP), (x, HEIGHT - BOTTOM), "#eeeeee");
        text(&mut svg, (x, HEIGHT - BOTTOM + 20.0), "middle", "#333333", &format!("{} M", size / 1e6));
    }
    for (name, colour, values) in &series {
        let points: Vec<(f64, f64)> =
            sizes.iter().zip(values).map(|(size, value)| (scale.x(*size), scale.y(*value))).collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (x, y) in &points {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
        }
        if let (Some((x, y)), Some(value)) = (points.last(), values.last()) {
            text(&mut svg, (x + 10.0, y + 4.0), "start", colour, &format!("{name}: {value:.2} ms"));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(sizes: &[f64]) -> Scale {
        let low = sizes.iter().copied().fold(f64::MAX, f64::min).log10();
        let high = sizes.iter().copied().fold(1.0, f64::max).log10();
        Scale { low, high: high.max(low + 0.1) }
    }

    fn x(&self, size: f64) -> f64 {
        LEFT + 20.0 + (size.log10() - self.low) / (self.high - self.low) * (WIDTH - LEFT - RIGHT - 40.0)
    }

    fn y(&self, millis: f64) -> f64 {
        let (low, high) = (f64::from(DECADES.0), f64::from(DECADES.1));
        let share = ((millis.max(1e-9).log10() - low) / (high - low)).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    );
}

fn text(svg: &mut String, at: (f64, f64), anchor: &str, colour: &str, words: &str) {
    let (x, y) = at;
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{words}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_times_as_much_is_one_step_up() {
        let scale = Scale::of(&[1e6, 1e7]);
        let step = scale.y(1.0) - scale.y(10.0);
        assert!((scale.y(10.0) - scale.y(100.0) - step).abs() < 1e-9 && step > 0.0);
        assert!(scale.x(1e7) > scale.x(1e6) && scale.x(1e6) > LEFT);
        assert!((scale.y(0.0) - (HEIGHT - BOTTOM)).abs() < 1e-9, "less than nothing stays on the paper");
    }
}
