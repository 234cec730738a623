//! A script, cut into statements and backslash commands: as a whole, or line by line as it comes.
//!
//! Invariants:
//! - Pieces are cut between statements: where one begins, what stands before it has ended.
//! - However a script is fed, its pieces have its lines in order, none twice.

use super::statement_end::StatementEnd;

/// Bytes of statements that are read at once, about: a dump of another database is as long as it likes, and what is read at once is held,
/// and bounded.
const PART_BYTES: usize = 512 << 10;
/// Empty lines that stand before statements, at most.
const LINES_MAX: usize = 100_000;
/// The same behind a pause: who writes a statement at a time writes many.
const LINES_MAX_PAUSED: usize = 100;

/// A part of a script.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece {
    /// Statements, behind as many empty lines as stand before them: errors name the line of the whole text.
    Sql(String),
    /// The same of a long text, from this line on: errors name lines counted from there.
    From(usize, String),
    /// A line that is a backslash command, or one of the shell's words.
    Command(String),
}

/// The pieces of a script, in order.
pub fn pieces(text: &str) -> Vec<Piece> {
    let mut cutter = Cutter::default();
    let mut pieces: Vec<Piece> = text.split_inclusive('\n').flat_map(|line| cutter.feed(line)).collect();
    pieces.push(cutter.finish());
    pieces
}

/// The words that are commands of the shell where no statement is under way.
const WORDS: [&str; 4] = ["exit", "quit", "help", "clear"];

/// The word of the shell that a line is, if it is one.
pub(super) fn shell_word(line: &str) -> Option<&'static str> {
    let word = line.trim().trim_end_matches(';').trim_end();
    WORDS.into_iter().find(|known| word.eq_ignore_ascii_case(known))
}

/// Cuts a script that comes line by line.
pub struct Cutter {
    ending: StatementEnd,
    lines: usize,
    /// Statements whose piece has not ended.
    pending: Piece,
    /// Bytes of empty lines at its beginning.
    start: usize,
}

impl Default for Cutter {
    fn default() -> Cutter {
        Cutter { ending: StatementEnd::default(), lines: 0, pending: Piece::Sql(String::new()), start: 0 }
    }
}

impl Cutter {
    /// The pieces that end with the next line; only the last line of a script may lack its end.
    pub fn feed(&mut self, line: &str) -> Vec<Piece> {
        // Editors of other systems begin files with a byte order mark.
        let line = if self.lines == 0 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        self.lines += 1;
        if self.ending.has_ended() && (line.trim_start().starts_with('\\') || shell_word(line).is_some()) {
            return vec![self.cut(LINES_MAX), Piece::Command(line.to_owned())];
        }
        self.ending.feed(line);
        if let Piece::Sql(sql) | Piece::From(_, sql) = &mut self.pending {
            sql.push_str(line);
        }
        let is_long = self.pending_bytes() >= PART_BYTES && self.ending.has_ended();
        // Line numbers go on as long as that takes little.
        if is_long { vec![self.cut(0)] } else { Vec::new() }
    }

    /// The statements that have ended, where the script pauses behind a line.
    pub fn pause(&mut self) -> Option<Piece> {
        (self.pending_bytes() > 0 && self.ending.has_ended()).then(|| self.cut(LINES_MAX_PAUSED))
    }

    /// What is left at the end.
    pub fn finish(self) -> Piece {
        self.pending
    }

    fn pending_bytes(&self) -> usize {
        match &self.pending {
            Piece::Sql(sql) | Piece::From(_, sql) => sql.len() - self.start,
            Piece::Command(_) => 0,
        }
    }

    /// Ends the piece. The next one begins with empty lines for those before it, if they are not more than so many.
    fn cut(&mut self, lines_max: usize) -> Piece {
        let lines = self.lines;
        let next =
            if lines <= lines_max { Piece::Sql("\n".repeat(lines)) } else { Piece::From(lines + 1, String::new()) };
        self.start = if lines <= lines_max { lines } else { 0 };
        std::mem::replace(&mut self.pending, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lines_between_statements_and_lines_keep_their_numbers() {
        let text = "SELECT '\n\\q\n';\n\\timing\nSELECT 2";
        let wanted = [
            Piece::Sql("SELECT '\n\\q\n';\n".to_owned()),
            Piece::Command("\\timing\n".to_owned()),
            Piece::Sql("\n\n\n\nSELECT 2".to_owned()),
        ];
        assert_eq!(pieces(text), wanted);
        assert_eq!(pieces(""), [Piece::Sql(String::new())]);
    }

    #[test]
    fn a_byte_order_mark_is_skipped_and_farewells_are_commands_between_statements() {
        let wanted = [
            Piece::Sql(String::new()),
            Piece::Command("\\timing\n".to_owned()),
            Piece::Sql("\nSELECT '\nexit\n\u{feff}';\n".to_owned()),
            Piece::Command("Quit ;\n".to_owned()),
            Piece::Sql("\n\n\n\n\n".to_owned()),
        ];
        assert_eq!(pieces("\u{feff}\\timing\nSELECT '\nexit\n\u{feff}';\nQuit ;\n"), wanted);
        assert_eq!((shell_word("exit 1"), shell_word("quits"), shell_word(" Help;\n")), (None, None, Some("help")));
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
            Piece::Command("\\timing\n".to_owned()),
            Piece::Sql(format!("{}SELECT 1;", "\n".repeat(19))),
        ];
        assert!(found == wanted, "{:?}", found.iter().map(|piece| format!("{piece:.40?}")).collect::<Vec<_>>());
        // A command behind very many lines.
        let text = format!("{}\\timing\nSELECT 1;", "\n".repeat(LINES_MAX));
        assert_eq!(pieces(&text).pop(), Some(Piece::From(LINES_MAX + 2, "SELECT 1;".to_owned())));
    }

    #[test]
    fn a_pause_ends_a_piece_where_a_statement_has_ended() {
        let mut cutter = Cutter::default();
        assert_eq!(cutter.pause(), None);
        assert_eq!(cutter.feed("SELECT 1;\n"), []);
        assert_eq!(cutter.pause(), Some(Piece::Sql("SELECT 1;\n".to_owned())));
        assert_eq!(cutter.pause(), None);
        assert_eq!(cutter.feed("SELECT '\n"), []);
        assert_eq!(cutter.pause(), None);
        assert_eq!(cutter.feed("\\q';\n"), []);
        assert_eq!(cutter.pause(), Some(Piece::Sql("\nSELECT '\n\\q';\n".to_owned())));
        for _ in 4..LINES_MAX_PAUSED {
            cutter.feed("\n");
        }
        cutter.feed("SELECT 2;\n");
        cutter.pause();
        cutter.feed("SELECT 3;\n");
        assert_eq!(cutter.pause(), Some(Piece::Sql(format!("{}SELECT 3;\n", "\n".repeat(LINES_MAX_PAUSED)))));
        cutter.feed("SELECT 4");
        assert_eq!(cutter.finish(), Piece::From(LINES_MAX_PAUSED + 2, "SELECT 4".to_owned()));
    }
}
