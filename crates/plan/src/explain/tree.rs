//! Lines: operators below each other with the branches between them, figures in columns beside them.
//!
//! Invariants:
//! - A line of an operator is at most [`TITLE_MAX`] wide before its figures, and a note at most [`LINE_MAX`] wide; what is longer is cut,
//!   and ends with `…`.
//! - A column in which nobody has a figure is not there.

use super::Shown;
use super::figures::{Figures, bytes, grouped, millis};

/// How wide branches and titles may be.
const TITLE_MAX: usize = 56;
/// How wide a line may be that has no figures.
const LINE_MAX: usize = 98;
/// Deeper operators stand no further to the right.
const DEPTH_MAX: usize = 12;

/// A text of at most so many characters.
pub fn cut(text: &str, width: usize) -> String {
    // Line breaks of a text that was written over several lines would break the tree.
    let text: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= width {
        return text;
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A text in lines of at most so many characters, but for words that are longer.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width) {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// One column: its name, and what stands in it.
struct Column {
    name: &'static str,
    show: fn(&Figures) -> Option<String>,
}

const COLUMNS: [Column; 5] = [
    Column { name: "rows", show: |figures| figures.rows.map(grouped) },
    Column { name: "time", show: |figures| figures.nanos.map(millis) },
    Column { name: "bytes", show: |figures| figures.bytes.map(bytes) },
    Column { name: "blocks", show: |figures| figures.blocks.map(grouped) },
    Column { name: "skipped", show: |figures| figures.skipped.map(grouped) },
];

/// A line, before its figures are beside it.
struct Line {
    text: String,
    figures: Option<Figures>,
}

impl Shown {
    /// The tree, in lines.
    pub fn draw(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.add("", "", 0, &mut lines);
        let width = |line: &Line| line.figures.map_or(0, |_| line.text.chars().count());
        let widest = lines.iter().map(width).max().unwrap_or(0);
        let mut drawn = vec![" ".repeat(widest)];
        drawn.extend(lines.iter().map(|line| match line.figures {
            Some(_) => format!("{}{}", line.text, " ".repeat(widest - width(line))),
            None => line.text.clone(),
        }));
        for Column { name, show } in &COLUMNS {
            let values: Vec<Option<String>> = lines.iter().map(|line| line.figures.as_ref().and_then(show)).collect();
            let Some(of_values) = values.iter().flatten().map(|value| value.chars().count()).max() else { continue };
            let width = of_values.max(name.len());
            drawn[0] += &format!("  {name:>width$}");
            for ((drawn, line), value) in drawn[1..].iter_mut().zip(&lines).zip(values) {
                if line.figures.is_some() {
                    *drawn += &format!("  {:>width$}", value.unwrap_or_default());
                }
            }
        }
        drawn.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
        if drawn[0].is_empty() {
            drawn.remove(0);
        }
        drawn
    }

    /// Its line behind `first`, all others behind `rest`.
    fn add(&self, first: &str, rest: &str, depth: usize, lines: &mut Vec<Line>) {
        let title = cut(&self.title, TITLE_MAX.saturating_sub(first.chars().count()));
        lines.push(Line { text: format!("{first}{title}"), figures: Some(self.figures) });
        let beside = if self.inputs.is_empty() { "  " } else { "│ " };
        for note in &self.notes {
            let before = format!("{rest}{beside}");
            let note = cut(note, LINE_MAX.saturating_sub(before.chars().count()));
            lines.push(Line { text: format!("{before}{note}"), figures: None });
        }
        for (at, input) in self.inputs.iter().enumerate() {
            let (branch, below) = match at + 1 == self.inputs.len() {
                true => ("└─ ", "   "),
                false => ("├─ ", "│  "),
            };
            // The width of a screen ends somewhere.
            match depth < DEPTH_MAX {
                true => input.add(&format!("{rest}{branch}"), &format!("{rest}{below}"), depth + 1, lines),
                false => input.add(&format!("{rest}└─ "), rest, depth, lines),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operator(title: &str, rows: u64, inputs: Vec<Shown>) -> Shown {
        let figures = Figures { rows: Some(rows), ..Figures::default() };
        Shown { title: title.to_owned(), figures, notes: Vec::new(), inputs }
    }

    #[test]
    fn a_tree_has_branches_and_columns() {
        let mut scan = operator("Scan a", 12_345, Vec::new());
        scan.figures.blocks = Some(3);
        scan.notes = vec!["a note".to_owned()];
        let mut join = operator("Hash Join: a = b", 7, vec![scan, operator("Scan b", 2, Vec::new())]);
        join.notes = vec!["another".to_owned()];
        let drawn = operator("Limit 7", 7, vec![join]).draw();
        let wanted = "
                       rows  blocks
Limit 7                   7
└─ Hash Join: a = b       7
   │ another
   ├─ Scan a         12,345       3
   │    a note
   └─ Scan b              2";
        assert_eq!(drawn.join("\n"), &wanted[1..], "{}", drawn.join("\n"));
    }

    #[test]
    fn no_line_is_too_wide() {
        let long = "x".repeat(300);
        let mut tree = operator(&long, 1, Vec::new());
        for _ in 0..40 {
            tree = operator(&long, 1, vec![tree]);
            tree.notes = vec![long.clone()];
        }
        let drawn = tree.draw();
        assert!(drawn.iter().all(|line| line.chars().count() <= LINE_MAX), "{}", drawn.join("\n"));
        assert_eq!(cut("a\n  b", 9), "a b");
        assert_eq!(cut("häuser am see", 8), "häuser…");
        assert_eq!(wrapped("a bc  def g", 5), ["a bc", "def g"]);
        assert!(Shown { title: "One row".to_owned(), ..Shown::default() }.draw() == ["One row"]);
    }
}
