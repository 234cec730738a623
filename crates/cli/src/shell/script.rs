//! A script, cut into statements and backslash commands.

use super::ending::Ending;

/// A part of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Statements, behind as many empty lines as stand before them: errors name the line of the whole text.
    Sql(String),
    /// A line that is a backslash command.
    Command(&'a str),
}

/// The pieces of a script, in order.
pub fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut pending, mut ending, mut lines) = (Vec::new(), String::new(), Ending::default(), 0);
    for line in text.split_inclusive('\n') {
        lines += 1;
        if !ending.has_ended() || !line.trim_start().starts_with('\\') {
            ending.feed(line);
            pending.push_str(line);
            continue;
        }
        pieces.push(Piece::Sql(std::mem::replace(&mut pending, "\n".repeat(lines))));
        pieces.push(Piece::Command(line));
    }
    pieces.push(Piece::Sql(pending));
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
}
