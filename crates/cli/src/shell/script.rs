//! A script, cut into statements and backslash commands.

use super::ending::Ending;

/// Bytes of statements that are read at once, about: a dump of another database is as long as it likes, and what is read at once is held,
/// and bounded.
const PART_BYTES: usize = 512 << 10;
/// Empty lines that stand before statements, at most.
const LINES_MAX: usize = 100_000;

/// A part of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Statements, behind as many empty lines as stand before them: errors name the line of the whole text.
    Sql(String),
    /// The same of a long text, from this line on: errors name lines counted from there.
    From(usize, String),
    /// A line that is a backslash command.
    Command(&'a str),
}

/// The pieces of a script, in order.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut ending, mut lines) = (Vec::new(), Ending::default(), 0);
    let (mut pending, mut start) = (Piece::Sql(String::new()), 0);
    for line in text.split_inclusive('\n') {
        lines += 1;
        let is_command = ending.has_ended() && line.trim_start().starts_with('\\');
        if let (false, Piece::Sql(sql) | Piece::From(_, sql)) = (is_command, &mut pending) {
            ending.feed(line);
            sql.push_str(line);
            if sql.len() - start < PART_BYTES || !ending.has_ended() {
                continue;
            }
        }
        // Line numbers go on as long as that takes little.
        let next = match lines {
            0..=LINES_MAX if is_command => Piece::Sql("\n".repeat(lines)),
            _ => Piece::From(lines + 1, String::new()),
        };
        start = if let Piece::Sql(lines) = &next { lines.len() } else { 0 };
        pieces.push(std::mem::replace(&mut pending, next));
        if is_command {
            pieces.push(Piece::Command(line));
        }
    }
    pieces.push(pending);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lines_between_statements_and_lines_keep_their_numbers() {
        let text = "SELECT '\n\\q\n';\n\\timing\nSELECT 2";
        let wanted = [
            Piece::Sql("SELECT '\n\\q\n';\n".to_owned()),
            Piece::Command("\\timing\n"),
            Piece::Sql("\n\n\n\nSELECT 2".to_owned()),
        ];
        assert_eq!(pieces(text), wanted);
        assert_eq!(pieces(""), [Piece::Sql(String::new())]);
    }

    #[test]
    fn long_texts_are_cut_between_statements() {
        let statement = format!("INSERT INTO t VALUES ('{}\n');\n", "x".repeat(PART_BYTES / 4));
        let text = format!("{}\\timing\nSELECT 1;", statement.repeat(9));
        let found = pieces(&text);
        let whole = |count: usize| statement.repeat(count);
        let wanted = [
            Piece::Sql(whole(4)),
            Piece::From(9, whole(4)),
            Piece::From(17, whole(1)),
            Piece::Command("\\timing\n"),
            Piece::Sql(format!("{}SELECT 1;", "\n".repeat(19))),
        ];
        assert!(found == wanted, "{:?}", found.iter().map(|piece| format!("{piece:.40?}")).collect::<Vec<_>>());
        // A command behind very many lines.
        let text = format!("{}\\timing\nSELECT 1;", "\n".repeat(LINES_MAX));
        assert_eq!(pieces(&text).pop(), Some(Piece::From(LINES_MAX + 2, "SELECT 1;".to_owned())));
    }
}
