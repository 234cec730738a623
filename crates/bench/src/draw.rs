//! Line charts as SVG: a few panels side by side, both axes logarithmic.

use std::fmt::Write;

/// One line: its name and its points, (x, y), both above zero.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// One chart.
pub struct Panel {
    pub title: String,
    pub x: String,
    pub y: String,
    pub lines: Vec<Line>,
}

const COLOURS: [&str; 5] = ["#1f6feb", "#2da44e", "#bf8700", "#d1242f", "#8250df"];
const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 250.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
/// From one panel's left edge to the next one's.
const STEP: f64 = LEFT + WIDTH + 30.0;

/// The panels as one drawing.
pub fn draw(panels: &[Panel]) -> String {
    let (width, height) = (STEP * panels.len() as f64, TOP + HEIGHT + 140.0);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' font-family='sans-serif' font-size='12'>\n\
         <rect width='{width}' height='{height}' fill='white'/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        panel.draw(STEP * at as f64 + LEFT, &mut svg);
    }
    svg.push_str("</svg>\n");
    svg
}

impl Panel {
    fn draw(&self, left: f64, svg: &mut String) {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let span = |of: fn(&(f64, f64)) -> f64| {
            let values = || all().map(of).filter(|value| value.is_finite() && *value > 0.0);
            (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max))
        };
        let ((x_low, x_high), (y_low, y_high)) = (span(|point| point.0), span(|point| point.1));
        if x_low > x_high || y_low > y_high {
            return;
        }
        // Whole powers of ten around all values.
        let (decade_low, decade_high) = (y_low.log10().floor(), y_high.log10().floor() + 1.0);
        let x_of = |x: f64| left + (x / x_low).ln() / (x_high / x_low).ln().max(f64::EPSILON) * WIDTH;
        let y_of = |y: f64| TOP + HEIGHT - (y.log10() - decade_low) / (decade_high - decade_low) * HEIGHT;
        let bottom = TOP + HEIGHT;
        let _ = writeln!(svg, "<text x='{left}' y='{}' font-size='14'>{}</text>", TOP - 22.0, self.title);
        let _ = writeln!(svg, "<text x='{left}' y='{}' fill='#57606a'>{}</text>", TOP - 6.0, self.y);
        for decade in decade_low as i32..=decade_high as i32 {
            let y = y_of(10f64.powi(decade));
            let right = left + WIDTH;
            let _ = writeln!(svg, "<line x1='{left}' y1='{y:.1}' x2='{right}' y2='{y:.1}' stroke='#d0d7de'/>");
            let label = short(10f64.powi(decade));
            let _ = writeln!(svg, "<text x='{}' y='{:.1}' text-anchor='end'>{label}</text>", left - 6.0, y + 4.0);
        }
        let mut marks: Vec<f64> = all().map(|point| point.0).collect();
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        for mark in marks {
            let x = x_of(mark);
            let _ = writeln!(svg, "<text x='{x:.1}' y='{}' text-anchor='middle'>{}</text>", bottom + 18.0, short(mark));
        }
        let _ = writeln!(
            svg,
            "<text x='{}' y='{}' text-anchor='middle'>{}</text>",
            left + WIDTH / 2.0,
            bottom + 36.0,
            self.x
        );
        for (at, line) in self.lines.iter().filter(|line| !line.points.is_empty()).enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let points: Vec<(f64, f64)> =
                line.points.iter().filter(|point| point.1 > 0.0).map(|point| (x_of(point.0), y_of(point.1))).collect();
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ =
                writeln!(svg, "<polyline points='{}' fill='none' stroke='{colour}' stroke-width='2'/>", path.join(" "));
            for (x, y) in points {
                let _ = writeln!(svg, "<circle cx='{x:.1}' cy='{y:.1}' r='3' fill='{colour}'/>");
            }
            let y = bottom + 56.0 + at as f64 * 15.0;
            let _ = writeln!(svg, "<text x='{left}' y='{y}' fill='{colour}'>{}</text>", line.name);
        }
    }
}

/// A number for people, such as a power of ten.
fn short(value: f64) -> String {
    match value {
        million if million >= 1e6 => format!("{}M", million / 1e6),
        thousand if thousand >= 1e3 => format!("{}k", thousand / 1e3),
        small => format!("{small}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_within_their_panel() {
        let line = Line { name: "one".to_owned(), points: vec![(4.0, 0.02), (16.0, 7.0), (64.0, 1_300.0)] };
        let empty = Line { name: "none".to_owned(), points: Vec::new() };
        let panel = Panel { title: String::new(), x: String::new(), y: String::new(), lines: vec![line, empty] };
        let svg = draw(&[panel]);
        let path = svg.split("points='").nth(1).and_then(|rest| rest.split('\'').next()).expect("there is a line");
        let points: Vec<Vec<f64>> =
            path.split(' ').map(|point| point.split(',').map(|at| at.parse().expect("a number")).collect()).collect();
        assert_eq!(points.len(), 3);
        assert_eq!((points[0][0], points[2][0]), (LEFT, LEFT + WIDTH));
        assert!(points.iter().all(|point| (TOP..=TOP + HEIGHT).contains(&point[1])));
        assert!(points[0][1] > points[1][1] && points[1][1] > points[2][1], "more is higher");
        assert!(svg.ends_with("</svg>\n"));
    }
}
