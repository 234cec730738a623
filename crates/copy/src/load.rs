//! COPY FROM, from files to committed batches.
//!
//! Invariants:
//! - Without `BATCH_ROWS`, all files of a COPY are one atomic batch: whatever fails, before or at the commit, applies nothing.
//! - With `BATCH_ROWS n`, batch k holds accepted rows (k-1)n+1 to kn of the files in name order, so the same statement over the
//!   same files makes the same batches. A producer named after the files, the table and the options numbers them; a rerun reads
//!   the files again and passes over what is committed. What becomes of bad rows does not change which rows are accepted
//!   before them, so a load that was refused goes on with `ON_ERROR skip`.
//! - What becomes of the batches is their [`Destination`]'s: the session's producer numbers one that has no number, an open transaction
//!   holds its rows, a server commits them.
//! - URLs come after the files, one after the other, each as the file that it was fetched into.
//! - Every row of the files is loaded, or passed over as committed before, or in the rejects file, or the statement fails. Bad rows of
//!   standard input that no file has are counted, and the first is told.
//!
//! The thread that runs this takes parts from the readers, in order, and gives them to their destination; it is the only one that blocks
//! on that, and the short channels before it bound what is in flight.

use crate::CopyReport;
use crate::bind::Wanted;
use crate::body::{BodyOptions, Bound, Hints};
use crate::columnar::ColumnarInput;
use crate::csv_in::CsvInput;
use crate::destination::Destination;
use crate::duplicates::KeyPlaces;
use crate::files::{Cancellable, InputFile, open_text, open_unpacked, resolve};
use crate::json_array::Elements;
use crate::json_in::JsonInput;
use crate::lacking::RowRules;
use crate::operations::Incoming;
use crate::output_file::SyncedFile;
use crate::places::CopyPlaces;
use crate::progress::{CancelToken, Phase, Progress};
use crate::rejects::Rejects;
use crate::rows::{Part, Reject, RowLocation};
use crate::text_in::TextInput;
use alluvia_catalog::TableEntry;
use alluvia_space::{RowPolicy, TableDef};
use alluvia_syntax::copy::options::{Compression, CopyOptions, Direction, Format, OnError};
use alluvia_syntax::copy::places::{check_url_options, name_of};
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{Error, ErrorKind, ProducerMark, Result};
use alluvia_values::compact::compact;
use alluvia_values::time_zone::Zone;
use alluvia_values::widths::{Pieces, written_bytes};
use arrow::array::RecordBatch;
use std::io::Read;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// Bad rows of several lines that are told one by one.
const SWALLOWED_MAX: usize = 8;

/// One COPY FROM.
pub(crate) struct LoadJob {
    pub progress: Arc<Progress>,
    pub cancel: CancelToken,
    pub stdin: Option<Box<dyn Read + Send>>,
    /// What is known of it.
    pub body: BodyOptions,
    pub places: CopyPlaces,
    pub rules: Option<Arc<dyn RowRules>>,
    pub entry: Arc<TableEntry>,
    /// As the statement lists them; empty means all.
    pub columns: Vec<String>,
    pub source: Source,
    pub options: CopyOptions,
    /// The definition that rows are read by, once it is known: the table's, or one of rows that say what they do.
    pub read_as: Option<Arc<TableDef>>,
}

impl LoadJob {
    fn read_by(&self) -> Arc<TableDef> {
        Arc::clone(self.read_as.as_ref().unwrap_or(&self.entry.def))
    }

    /// Runs it on this thread and some of its own. Blocks.
    pub fn run(self, destination: Box<dyn Destination>) -> Result<CopyReport> {
        let (cancel, progress) = (self.cancel.clone(), self.progress.clone());
        // Whatever a cancelled load ran into first, a read that was cut short for one, it ended because it was cancelled. Only
        // what a commit ran into is told as it is.
        let cancelled = || cancel.is_cancelled() && progress.phase() != Phase::Committing;
        self.load(destination).map_err(|error| if cancelled() { cancel.error() } else { error })
    }

    fn load(mut self, destination: Box<dyn Destination>) -> Result<CopyReport> {
        if self.source == Source::Stdin {
            self.options.check(Direction::From, None)?;
        }
        let urls = self.urls()?;
        let files = resolve(&self.source, &self.places.roots)?;
        for file in &files {
            self.options.check(Direction::From, Some(&file.name()))?;
            if !file.is_plain {
                check_pipe(&file.name(), &self.options)?;
            }
        }
        self.progress.set_phase(Phase::Running);
        let mut bytes_total: u64 = files.iter().map(|file| file.bytes).sum();
        self.progress.set_bytes_total(bytes_total);
        let incoming = Incoming::new(&self.entry.def, self.options.policy)?;
        let wanted = Wanted::new(&incoming.def, &self.columns)?
            .hinting(self.body.hints.columns)
            .exactly(self.options.is_exact)
            .in_zone(&self.options.time_zone)
            .doing(incoming.operations.clone());
        let mut committer = Committer::new(&self, &incoming, &files, destination)?;
        self.read_as = Some(Arc::clone(&incoming.def));
        if self.source == Source::Stdin {
            let stdin = self.stdin.take().ok_or_else(|| {
                Error::new(ErrorKind::NotSupported, "there is no standard input here to copy from")
                    .with_hint("COPY ... FROM STDIN works in alluvia sql; in a program name a file, or hand in Streams")
            })?;
            let stdin = Cancellable::new(stdin, self.cancel.clone());
            let (format, name) = (self.options.format_of(None)?, self.body.name.as_str());
            let take = within(self.body.bound(), format, |part| committer.take(name, part));
            match (format, self.body.is_kept) {
                (Format::Parquet, true) => {
                    let (packing, bound) = (self.options.compression, self.body.bound());
                    let unpacked = open_unpacked(stdin, name, packing, &self.progress, &bound)?;
                    let kept = self.places.spool.take(unpacked, name)?;
                    let silent = Progress::default();
                    self.columnar(&wanted).read_parquet(&kept.file, name, &silent, &self.cancel, take)?;
                }
                _ => self.read_stream(stdin, name, None, format, &wanted, take)?,
            }
        }
        for file in &files {
            let name = file.name();
            self.read_file(file, &name, &wanted, |part| committer.take(&name, part))?;
        }
        for url in &urls {
            let (name, spooled) = (name_of(url), self.places.fetch(url, &self.cancel)?);
            bytes_total += spooled.file.bytes;
            self.progress.set_bytes_total(bytes_total);
            self.read_file(&spooled.file, &name, &wanted, |part| committer.take(&name, part))?;
        }
        self.cancel.check()?;
        committer.finish()
    }

    /// The URLs, each once; refused before anything is read where it is known by then.
    fn urls(&self) -> Result<Vec<String>> {
        let mut urls: Vec<String> = self.source.urls().map(str::to_owned).collect();
        urls.sort_unstable();
        urls.dedup();
        for url in &urls {
            check_url_options(url, &self.options)?;
            self.options.check(Direction::From, Some(&name_of(url)))?;
            self.places.check_url(url)?;
        }
        Ok(urls)
    }

    fn read_file(
        &self,
        file: &InputFile,
        name: &str,
        wanted: &Wanted,
        emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let format = self.options.format_of(Some(name))?;
        let emit = within(self.places.bound(name), format, emit);
        if format != Format::Parquet {
            return self.read_stream(file.open()?, name, Some(name), format, wanted, emit);
        }
        if self.options.compression != Compression::Auto {
            return Err(Error::new(
                ErrorKind::InvalidSetting,
                format!("{name} is Parquet, which COMPRESSION does not apply to"),
            )
            .with_hint("Parquet files say inside how they are packed; leave the option out"));
        }
        self.columnar(wanted).read_parquet(file, name, &self.progress, &self.cancel, emit)
    }

    fn read_stream(
        &self,
        bytes: impl Read + Send + 'static,
        name: &str,
        file: Option<&str>,
        format: Format,
        wanted: &Wanted,
        emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let (table, on_error) = (self.read_by(), self.options.on_error);
        let packing = self.options.compression;
        let bound = file.map_or_else(|| self.body.bound(), |file| self.places.bound(file));
        match format {
            Format::Csv => {
                let (dialect, header) = (self.options.dialect(file), self.options.header);
                let text = open_text(bytes, name, packing, &self.progress, &bound)?;
                CsvInput { table, wanted: wanted.clone(), dialect, header, on_error }.read(
                    text,
                    name,
                    &self.cancel,
                    emit,
                )
            }
            Format::Text => {
                let (dialect, header) = (self.options.dialect(file), self.options.header);
                let text = open_text(bytes, name, packing, &self.progress, &bound)?;
                TextInput { table, wanted: wanted.clone(), dialect, header, on_error }.read(
                    text,
                    name,
                    &self.cancel,
                    emit,
                )
            }
            Format::Binary => {
                Err(Error::new(ErrorKind::NotSupported, "PostgreSQL's binary format is read from its clients alone")
                    .with_hint("use csv, ndjson, parquet or arrow"))
            }
            Format::JsonLines => {
                let text = open_text(bytes, name, packing, &self.progress, &bound)?;
                let text = if self.body.is_array { Box::new(Elements::new(text)) } else { text };
                JsonInput { table, wanted: wanted.clone(), on_error }.read(text, name, &self.cancel, emit)
            }
            Format::Arrow => {
                let bytes = open_unpacked(bytes, name, packing, &self.progress, &bound)?;
                self.columnar(wanted).read_arrow(bytes, name, &self.cancel, emit)
            }
            Format::Parquet => Err(Error::new(ErrorKind::NotSupported, "Parquet cannot be read from standard input")
                .with_hint("its index is at the end of the file: save it to a file first")),
            Format::JsonArray => Err(Error::internal("the options let a JSON array through")),
        }
    }

    fn columnar(&self, wanted: &Wanted) -> ColumnarInput {
        let table = self.read_by();
        ColumnarInput { table, wanted: wanted.clone(), on_error: self.options.on_error }
    }

    /// The producer of a load in batches: the same for the same files, table, columns and options. Those for bad rows are left
    /// out, because they leave the batches before a bad row as they are.
    fn producer(&self, files: &[InputFile]) -> Option<String> {
        let first = files.first()?;
        let identities: Vec<(String, u64, i64)> =
            files.iter().map(|file| (file.name(), file.bytes, file.modified_micros)).collect();
        let table = (self.entry.def.id, self.entry.changed_at);
        // EXACT says which rows are bad, too; and it came later: loads may have begun before it.
        let same = CopyOptions { on_error: OnError::default(), rejects: None, is_exact: false, ..self.options.clone() };
        let same = format!("{same:?}").replace(", is_exact: false", "");
        // So did what rows do by key.
        let same = same.replace(&format!(", policy: {:?}", RowPolicy::default()), "");
        // And the session's time zone.
        let same = same.replace(&format!(", time_zone: {:?}", Zone::utc()), "");
        let identity = format!("{identities:?} {table:?} {:?} {same}", self.columns);
        let name = first.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Some(format!("copy {name} {:032x}", xxh3_128(identity.as_bytes())))
    }
}

/// Refuses what a pipe or a device does not go with: its bytes come once, in order, and nothing of it tells whether others come next time.
fn check_pipe(name: &str, options: &CopyOptions) -> Result<()> {
    let (what, hint) = if options.batch_rows.is_some() {
        (
            "COPY option BATCH_ROWS is not supported from a pipe or a device",
            "only files can be read again to go on where a load stopped: save what comes to a file, or leave the option out",
        )
    } else if options.format_of(Some(name))? == Format::Parquet {
        (
            "Parquet cannot be read from a pipe or a device",
            "its index is at the end of the file: save it to a file first",
        )
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::NotSupported, what).at(name).with_hint(hint))
}

/// `emit` within the bound of what rows may come to: text is bounded as it comes, Parquet and Arrow unpack to any number of rows only here.
fn within(bound: Bound, format: Format, mut emit: impl FnMut(Part) -> Result<()>) -> impl FnMut(Part) -> Result<()> {
    let is_packed_inside = matches!(format, Format::Parquet | Format::Arrow) && bound != Bound::None;
    let mut bytes: u64 = 0;
    move |part| {
        if is_packed_inside {
            bytes = bytes.saturating_add(written_bytes(&part.rows));
            bound.check_rows(bytes)?;
        }
        emit(part)
    }
}

/// Makes batches of parts, and has them committed.
struct Committer {
    destination: Box<dyn Destination>,
    entry: Arc<TableEntry>,
    incoming: Incoming,
    /// Where the rows of the batch are, if one of them may be refused for its key.
    key_places: Option<KeyPlaces>,
    progress: Arc<Progress>,
    on_error: OnError,
    rejects: Rejects,
    rules: Option<Arc<dyn RowRules>>,
    hints: Hints,
    /// Rows of a batch; `None` for one batch of all.
    batch_rows: Option<u64>,
    /// Numbers the batches of `BATCH_ROWS`.
    producer: Option<String>,
    /// Batches that were committed by an earlier run.
    committed_before: u64,
    /// The batch being made, from 1.
    sequence: u64,
    rows_in_batch: u64,
    report: CopyReport,
}

impl Committer {
    fn new(
        job: &LoadJob,
        incoming: &Incoming,
        files: &[InputFile],
        mut destination: Box<dyn Destination>,
    ) -> Result<Committer> {
        let rejects = Rejects::new(&job.options, files, &job.entry.def, &job.places.roots)?;
        let producer = job.options.batch_rows.and_then(|_| job.producer(files));
        let committed_before = producer.as_ref().map_or(Ok(0), |name| destination.resume(name))?;
        Ok(Committer {
            destination,
            entry: Arc::clone(&job.entry),
            incoming: incoming.clone(),
            key_places: KeyPlaces::new(&job.entry.def, job.options.policy),
            progress: job.progress.clone(),
            on_error: job.options.on_error,
            rejects,
            rules: job.rules.clone(),
            hints: job.body.hints,
            batch_rows: job.options.batch_rows,
            producer,
            committed_before,
            sequence: 1,
            rows_in_batch: 0,
            report: CopyReport::default(),
        })
    }

    fn take(&mut self, name: &str, part: Part) -> Result<()> {
        match (self.on_error, part.rejects.first()) {
            (OnError::Refuse, Some(first)) => return Err(self.refusal(first.refuse(name))),
            (OnError::Refuse, None) => {}
            (OnError::Skip | OnError::Count, _) => {
                for reject in &part.rejects {
                    self.skip(name, reject)?;
                }
            }
        }
        let plain = match &self.incoming.operations {
            Some(operations) => operations.plain(&self.entry.def, &part.rows, &part.lacking)?,
            None => None,
        };
        let rows = plain.unwrap_or(part.rows);
        let part_rows = rows.num_rows();
        self.progress.add_rows(part_rows as u64);
        let rows = match &self.rules {
            Some(rules) if part_rows > 0 => rules.complete(rows, &part.lacking).map_err(|error| error.at(name))?,
            _ if part.lacking.is_empty() || part_rows == 0 => rows,
            _ => return Err(Error::internal("rows lack what nobody gives them")),
        };
        if let Some(key_places) = &mut self.key_places {
            key_places.keep(name, &rows, part.places);
        }
        // What rows share is in the part once, and written out where they go.
        for range in Pieces::of(rows.columns(), part_rows, None).map_err(|error| error.at(name))?.ranges() {
            self.append(rows.slice(range.start, range.len()))?;
        }
        Ok(())
    }

    /// Leaves a bad row out, and has it accounted for.
    fn skip(&mut self, name: &str, reject: &Reject) -> Result<()> {
        self.report.skipped += 1;
        if !self.rejects.write(name, reject)? && self.report.first_skipped.is_none() {
            self.report.first_skipped = Some(reject.refuse(name).message().to_owned());
        }
        // What looks like one row may be most of the file.
        if reject.lines > 1 && self.report.swallowed.len() < SWALLOWED_MAX {
            let (RowLocation::Line(from) | RowLocation::Row(from)) = reject.place;
            self.report.swallowed.push(format!(
                "{name}, line {from}: the bad row that begins here is {} lines, to line {}, which a quote took in: is it unclosed?",
                reject.lines,
                from + reject.lines - 1
            ));
        }
        Ok(())
    }

    /// Adds some of a part's rows to the batches that they belong to.
    fn append(&mut self, mut rows: RecordBatch) -> Result<()> {
        let piece_rows = rows.num_rows();
        while rows.num_rows() > 0 {
            let room = self.batch_rows.map_or(u64::MAX, |batch_rows| batch_rows - self.rows_in_batch);
            let count = rows.num_rows().min(usize::try_from(room).unwrap_or(usize::MAX));
            let now = rows.slice(0, count);
            rows = rows.slice(count, rows.num_rows() - count);
            if self.is_repeated() {
                self.report.rows_repeated += count as u64;
            } else {
                if self.rows_in_batch == 0 {
                    self.begin()?;
                }
                self.destination.append(if count < piece_rows { compact(&now)? } else { now })?;
            }
            self.rows_in_batch += count as u64;
            if self.batch_rows == Some(self.rows_in_batch) {
                self.commit()?;
                self.progress.set_phase(Phase::Running);
            }
        }
        Ok(())
    }

    /// Says what was loaded before the bad row, and what to do; first what the row itself asks for.
    fn refusal(&self, error: Error) -> Error {
        let own = error.hint().map(str::to_owned);
        if self.sequence == 1 {
            return error.with_hint(own.as_deref().unwrap_or(self.hints.bad_row));
        }
        let own = own.map(|hint| format!("{hint}; ")).unwrap_or_default();
        let rows = (self.sequence - 1).saturating_mul(self.batch_rows.unwrap_or(1));
        error.with_hint(format!(
            "{own}the first {rows} rows are loaded; the same statement with ON_ERROR skip loads all other good rows (a corrected file, \
             other columns, or other options than ON_ERROR and REJECTS, count as a new load, which begins with the first row: delete the loaded ones before)"
        ))
    }

    fn is_repeated(&self) -> bool {
        self.sequence <= self.committed_before
    }

    fn commit(&mut self) -> Result<()> {
        if self.is_repeated() {
            self.report.batches_repeated += 1;
        } else {
            self.submit()?;
        }
        self.sequence += 1;
        self.rows_in_batch = 0;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let mark = |name: &String| ProducerMark { name: name.clone(), epoch: 1, sequence: self.sequence };
        self.destination.begin(self.producer.as_ref().map(mark))
    }

    fn submit(&mut self) -> Result<()> {
        let rows = self.rows_in_batch;
        let committed = self.destination.commit().map_err(|error| match &self.key_places {
            Some(key_places) => key_places.tell(error),
            None => error,
        })?;
        if let Some(key_places) = &mut self.key_places {
            key_places.committed();
        }
        let Some(committed) = committed else {
            self.report.rows += rows;
            return Ok(());
        };
        self.report.committed = Some(committed);
        // Another run of the same COPY may have been faster.
        if committed.duplicate {
            self.report.batches_repeated += 1;
            self.report.rows_repeated += rows;
        } else {
            self.report.batches += 1;
            // Those whose keys were there, where their table passes such over.
            self.report.rows += rows.saturating_sub(committed.passed_over);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<CopyReport> {
        // Bad rows are safe before the good ones are committed. After that no failure is left that could tell of a load that
        // did not happen: where the file cannot have its name, it is reported under the one that it has.
        let rejects = self.rejects.sync()?;
        if self.rows_in_batch > 0 {
            self.commit()?;
        }
        self.destination.end()?;
        self.report.rejects_file = rejects.map(SyncedFile::publish_or_keep);
        Ok(self.report)
    }
}
