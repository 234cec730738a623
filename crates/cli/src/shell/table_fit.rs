//! Tables that fit a screen: long values are cut, and columns that have no room are left out.
//!
//! Invariants:
//! - What is cut ends with an ellipsis, and what is left out is counted: nothing is missing in silence.
//! - A table that fits is left as it is.

/// Characters around the values of a column: a bar and two blanks.
const FRAME: usize = 3;
/// A column is cut to no less, unless its values are shorter.
const LEAST: usize = 8;
const ELLIPSIS: char = '…';

/// The columns of a table, as texts.
#[derive(Clone, PartialEq, Debug)]
pub struct Columns {
    pub names: Vec<String>,
    /// Column by column.
    pub values: Vec<Vec<Option<String>>>,
}

/// Cuts a table to so many characters. Gives how many columns were left out, of the last ones.
pub fn fit(columns: &mut Columns, screen: usize) -> usize {
    let widest = |column: &Vec<Option<String>>| column.iter().flatten().map(|text| width(text)).max().unwrap_or(0);
    let mut widths: Vec<usize> =
        columns.names.iter().zip(&columns.values).map(|(name, column)| width(name).max(widest(column))).collect();
    let room = screen.saturating_sub(1);
    // As many columns as have room if each is cut as far as may be.
    let mut least = 0;
    let shown = widths.iter().take_while(|width| {
        least += LEAST.min(**width) + FRAME;
        least <= room
    });
    let shown = shown.count().max(1).min(widths.len());
    let left_out = widths.len() - shown;
    widths.truncate(shown);
    columns.names.truncate(shown);
    columns.values.truncate(shown);
    let bound = widest_bound(&widths, room.saturating_sub(shown * FRAME));
    for ((name, values), width) in columns.names.iter_mut().zip(&mut columns.values).zip(widths) {
        if width > bound {
            *name = cut(name, bound);
            values.iter_mut().flatten().for_each(|text| *text = cut(text, bound));
        }
    }
    left_out
}

/// The greatest width to which all columns can be cut, so that together they have no more than `room`.
fn widest_bound(widths: &[usize], room: usize) -> usize {
    let all = |bound: usize| widths.iter().map(|width| (*width).min(bound)).sum::<usize>();
    let (mut low, mut high) = (LEAST, widths.iter().copied().max().unwrap_or(0).max(LEAST));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if all(middle) <= room {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

fn width(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

/// A text, none of whose lines is longer than so many characters.
fn cut(text: &str, bound: usize) -> String {
    let line = |line: &str| match line.char_indices().nth(bound) {
        Some(_) => {
            let kept: String = line.chars().take(bound.saturating_sub(1)).collect();
            format!("{kept}{ELLIPSIS}")
        }
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, &[&str])]) -> Columns {
        let values = |texts: &&[&str]| texts.iter().map(|text| Some((*text).to_owned())).collect();
        Columns {
            names: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            values: columns.iter().map(|(_, texts)| values(texts)).collect(),
        }
    }

    /// What Arrow draws takes so many characters.
    fn drawn_width(columns: &Columns) -> usize {
        let of = |(name, values): (&String, &Vec<Option<String>>)| {
            values.iter().flatten().map(|text| width(text)).max().unwrap_or(0).max(width(name)) + FRAME
        };
        1 + columns.names.iter().zip(&columns.values).map(of).sum::<usize>()
    }

    #[test]
    fn what_fits_is_left_and_what_does_not_is_cut_or_counted() {
        let mut narrow = table(&[("a", &["1"]), ("b", &["two"])]);
        assert_eq!((fit(&mut narrow, 80), drawn_width(&narrow)), (0, 11));
        let long = "x".repeat(200);
        let mut wide = table(&[("id", &["1"]), ("text", &[&long])]);
        assert_eq!((fit(&mut wide, 40), drawn_width(&wide)), (0, 40));
        assert!(wide.values[1][0].as_deref().is_some_and(|text| text.ends_with(ELLIPSIS)));
        let many: Vec<(&str, &[&str])> = (0..30).map(|_| ("some name", &["a value"] as &[&str])).collect();
        let mut many = table(&many);
        assert_eq!((fit(&mut many, 80), many.names.len()), (23, 7));
    }

    #[test]
    fn tables_are_no_wider_than_the_screen_and_are_left_where_they_fit() {
        let mut seed = 7_u64;
        let mut below = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((seed >> 33) % bound) as usize
        };
        for _ in 0..2_000 {
            let names: Vec<String> = (0..1 + below(20)).map(|_| "n".repeat(1 + below(20))).collect();
            let values = names.iter().map(|_| (0..3).map(|_| Some("ä".repeat(below(60)))).collect()).collect();
            let before = Columns { names, values };
            let screen = 20 + below(180);
            let mut fitted = before.clone();
            let left_out = fit(&mut fitted, screen);
            assert_eq!(fitted.names.len() + left_out, before.names.len());
            assert!(drawn_width(&fitted) <= screen, "{before:?} in {screen}");
            if drawn_width(&before) <= screen {
                assert_eq!(fitted, before);
            }
        }
    }
}
