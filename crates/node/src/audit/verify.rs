//! Whether the lines of the audit log follow one another: which one was changed, cut or lost.
//!
//! Invariants:
//! - Files are held against each other in their order. One finding a file at most: what stands behind a line that does not follow is
//!   held against it as it is.
//! - Files of earlier builds have no chain. Once there is one, there is no line without.
//! - A file follows on a line of the one before that is not its last where the lines behind were never acknowledged: their write failed.

use super::chain::Link;
use super::{EndMark, file_name};

/// What is known of the lines so far.
#[derive(Debug, Default)]
pub(crate) struct Verifier {
    /// The mark of the last clean stop.
    mark: Option<EndMark>,
    /// Whether the file of the mark was there, and the line that it names.
    is_mark_met: bool,
    newest: Option<u64>,
    /// The chains that the next file may follow on, oldest first: those of the file before, and what that followed on. `None` if
    /// there is no chain yet.
    before: Option<Vec<String>>,
    /// Whether a file could not be verified, so that what follows on it is not known.
    is_lost: bool,
}

/// What is wrong, or to be known, in a sentence without its file.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Finding(String),
    Notice(String),
}

impl Verifier {
    /// Of a log whose last clean stop left this mark.
    pub(crate) fn new(mark: Option<EndMark>) -> Verifier {
        Verifier { mark, ..Verifier::default() }
    }

    /// The next file could not be read as lines, which is told elsewhere.
    pub(crate) fn pass_over(&mut self, number: u64) {
        self.newest = Some(number);
        self.is_lost = true;
        self.is_mark_met |= self.mark.as_ref().is_some_and(|mark| mark.file == number);
    }

    /// The next file, by its whole lines.
    pub(crate) fn verify(&mut self, number: u64, lines: &[&[u8]]) -> Option<Found> {
        let gap = self.newest.filter(|newest| newest + 1 < number).map(|newest| newest + 1);
        let is_first_file = self.newest.replace(number).is_none();
        let mut found = None;
        let mut chains: Vec<String> = Vec::new();
        for (at, line) in (1..).zip(lines) {
            let Some(link) = Link::of(line) else {
                if self.before.is_some() || !chains.is_empty() {
                    found
                        .get_or_insert(Found::Finding(format!("line {at} has no chain: it was changed, or was added")));
                }
                continue;
            };
            let follows_on = match (chains.last(), &link.after) {
                (Some(before), _) => before.clone(),
                (None, Some(after)) => {
                    let what = self.begins(after, is_first_file, gap);
                    found = found.or(what);
                    chains.push(after.clone());
                    after.clone()
                }
                (None, None) => {
                    found.get_or_insert(Found::Finding("its first lines are missing".to_owned()));
                    chains.push(link.chain);
                    continue;
                }
            };
            if !link.follows(&follows_on) && !matches!(found, Some(Found::Finding(_))) {
                let what = "does not follow from the one before it: one of the two was changed, or lines between them are missing";
                found = Some(Found::Finding(format!("line {at} {what}")));
            }
            chains.push(link.chain);
        }
        if let Some(mark) = self.mark.as_ref().filter(|mark| mark.file == number) {
            self.is_mark_met = true;
            if !chains.contains(&mark.chain) && !matches!(found, Some(Found::Finding(_))) {
                let what = "lines at its end are missing: its last line at the last clean stop is not there";
                found = Some(Found::Finding(what.to_owned()));
            }
        }
        if !chains.is_empty() {
            (self.before, self.is_lost) = (Some(chains), false);
        }
        found
    }

    /// A file begins behind the line with the chain `after`.
    fn begins(&self, after: &str, is_first_file: bool, gap: Option<u64>) -> Option<Found> {
        let missing = |what: &str| {
            let of = gap.map_or_else(String::new, |number| format!("; {} is not there", file_name(number)));
            Some(Found::Finding(format!("line 1 does not follow {what}: lines are missing before it{of}")))
        };
        match &self.before {
            _ if self.is_lost => None,
            None if after.is_empty() || is_first_file => None,
            None => missing("on lines without a chain"),
            Some(chains) => match chains.iter().rev().position(|chain| chain == after) {
                Some(0) => None,
                Some(behind) => Some(Found::Notice(format!(
                    "it goes on before the last {behind} lines of the file before it, whose writing failed: they were not acknowledged"
                ))),
                None => missing("on any line of the file before it"),
            },
        }
    }

    /// Before the first file, which has this number if there is one: which files are not there that were at the last clean stop.
    pub(crate) fn missing_begin(&self, oldest: Option<u64>) -> Option<String> {
        let mark = self.mark.as_ref()?;
        let first = mark.first?;
        // If none is there, the last one is missed.
        let last = oldest.filter(|oldest| first < *oldest)? - 1;
        let names =
            if first == last { file_name(first) } else { format!("{} to {}", file_name(first), file_name(last)) };
        Some(format!(
            "{names} were there at the last clean stop, and are not: they were put away since, or are lost; the next clean stop takes \
             note of it"
        ))
    }

    /// After the last file: the name of a file that is missing at the end.
    pub(crate) fn missing_end(&self) -> Option<String> {
        let mark = self.mark.as_ref().filter(|_| !self.is_mark_met)?;
        // Those before the oldest that is there were moved away.
        self.newest.is_none_or(|newest| newest < mark.file).then(|| file_name(mark.file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::chain::chained;

    /// Files of so many lines each, and the mark of their end.
    fn files(counts: &[usize]) -> (Vec<Vec<Vec<u8>>>, EndMark) {
        let (mut chain, mut files) = (String::new(), Vec::new());
        for (file, count) in counts.iter().enumerate() {
            let lines: String = (0..*count).map(|line| format!("{{\"at\":\"{file}.{line}\"}}\n")).collect();
            let (text, last) = chained(lines.as_bytes(), &chain, true).unwrap();
            chain = last;
            files.push(text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect());
        }
        (files, EndMark { file: counts.len() as u64, chain, first: Some(1) })
    }

    /// What is found of files with these numbers.
    fn found(files: &[(u64, Vec<Vec<u8>>)], mark: Option<EndMark>) -> Vec<String> {
        let mut verifier = Verifier::new(mark);
        let mut found = Vec::new();
        for (number, lines) in files {
            let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
            match verifier.verify(*number, &lines) {
                Some(Found::Finding(what)) => found.push(format!("{number}: {what}")),
                Some(Found::Notice(what)) => found.push(format!("notice {number}: {what}")),
                None => {}
            }
        }
        found.extend(verifier.missing_end());
        found
    }

    fn numbered(files: Vec<Vec<Vec<u8>>>) -> Vec<(u64, Vec<Vec<u8>>)> {
        (1..).zip(files).collect()
    }

    #[track_caller]
    fn assert_one(found: &[String], part: &str) {
        assert!(found.len() == 1 && found[0].contains(part), "{part}: {found:#?}");
    }

    #[test]
    fn whole_files_are_sound_and_the_oldest_may_be_moved_away() {
        let (files, mark) = files(&[2, 3, 1]);
        let mut files = numbered(files);
        for _ in 0..3 {
            assert_eq!(found(&files, Some(mark.clone())), Vec::<String>::new());
            assert_eq!(found(&files, None), Vec::<String>::new());
            files.remove(0);
        }
        assert_eq!(found(&files, Some(mark)), ["00000003.ndjson"], "the last one is what a clean stop left");
    }

    #[test]
    fn oldest_files_that_are_not_there_are_named() {
        let (_, mark) = files(&[1, 1, 1]);
        let missing = |mark: EndMark, oldest| Verifier::new(Some(mark)).missing_begin(oldest);
        assert_eq!(missing(mark.clone(), Some(1)), None);
        assert!(missing(mark.clone(), Some(2)).is_some_and(|what| what.starts_with("00000001.ndjson were there")));
        let two = missing(mark.clone(), Some(3)).unwrap();
        assert!(two.starts_with("00000001.ndjson to 00000002.ndjson were there"), "{two}");
        assert_eq!((missing(mark.clone(), None), missing(EndMark { first: None, ..mark }, Some(3))), (None, None));
    }

    #[test]
    fn every_line_that_is_changed_lost_or_added_is_found() {
        let (files, mark) = files(&[2, 3, 2]);
        for file in 0..3 {
            for line in 0..files[file].len() {
                let mut changed = files.clone();
                changed[file][line][8] ^= 1;
                assert_one(&found(&numbered(changed), Some(mark.clone())), &format!("{}: line {}", file + 1, line + 1));
                let mut lost = files.clone();
                lost[file].remove(line);
                assert_eq!(found(&numbered(lost.clone()), Some(mark.clone())).len(), 1, "line {line} of {file}");
                // The last of all is missed by the mark alone.
                let is_last = (file, line) == (2, 1);
                assert_eq!(found(&numbered(lost), None).len(), usize::from(!is_last));
                for added in [b"{\"a\":1}".to_vec(), files[file][line].clone()] {
                    let mut more = files.clone();
                    more[file].insert(line + 1, added);
                    assert_eq!(found(&numbered(more), None).len(), 1, "behind line {line} of {file}");
                }
            }
        }
    }

    #[test]
    fn a_file_that_is_missing_is_named() {
        let (files, mark) = files(&[1, 2, 1]);
        let mut files = numbered(files);
        let last = files.pop();
        assert_one(&found(&files, Some(mark.clone())), "00000003.ndjson");
        files.extend(last);
        files.remove(1);
        assert_one(&found(&files, Some(mark)), "00000002.ndjson is not there");
    }

    #[test]
    fn files_of_earlier_builds_come_first() {
        let (files, _) = files(&[2]);
        let old = vec![b"{\"event\":\"ddl\"}".to_vec()];
        assert_eq!(found(&[(4, old.clone()), (5, files[0].clone())], None), Vec::<String>::new());
        assert_one(&found(&[(4, files[0].clone()), (5, old.clone())], None), "5: line 1 has no chain");
        let (text, _) = chained(b"{\"a\":1}\n", "00", true).unwrap();
        let later = vec![text[..text.len() - 1].to_vec()];
        assert_one(&found(&[(4, old), (5, later)], None), "lines are missing before it");
    }

    #[test]
    fn lines_whose_writing_failed_are_no_damage() {
        let lines = |text: Vec<u8>| vec![text[..text.len() - 1].to_vec()];
        let (first, chain) = chained(b"{\"a\":1}\n", "", true).unwrap();
        let (failed, _) = chained(b"{\"a\":2}\n", &chain, false).unwrap();
        let (failed_file, _) = chained(b"{\"a\":2}\n", &chain, true).unwrap();
        let (again, _) = chained(b"{\"a\":3}\n", &chain, true).unwrap();
        let one = [lines(first.clone()), lines(failed)].concat();
        assert_one(
            &found(&[(1, one), (2, lines(again.clone()))], None),
            "notice 2: it goes on before the last 1 lines",
        );
        let files = [(1, lines(first)), (2, lines(failed_file)), (3, lines(again))];
        assert_one(&found(&files, None), "notice 3: it goes on before the last 1 lines");
    }
}
