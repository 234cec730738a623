//! The extended protocol: Parse, Bind, Describe, Execute, Close.
//!
//! Statements of one pipeline (what comes before one Sync) are one transaction in PostgreSQL. Here an INSERT that is not followed by
//! its Sync begins one, so that a driver's batch of many INSERTs is one batch, with one fsync; a statement that comes alone commits by
//! itself, as it would anyway.

use crate::connection::Connection;
use crate::portal::{Answer, Portal, Prepared, Sent, ToRun, fields};
use crate::types::{of_parameter, oid, parameter, parameter_type};
use crate::wire::{Bind, Describe, Message, Target};
use alluvia_query::{Described, TransactionStatus};
use alluvia_syntax::Command;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::Field;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a column is counted as, beside its name.
const COLUMN_BYTES: usize = 256;

/// What is known of a statement, in bytes.
fn bytes_of(described: &Described) -> usize {
    let columns = described.columns.iter().flat_map(|columns| columns.fields());
    let columns: usize = columns.map(|field| COLUMN_BYTES + field.name().len()).sum();
    columns + described.parameters.len() * size_of::<Field>()
}

impl Connection {
    /// Does what one message asks. An error makes the connection skip to the next Sync.
    pub(crate) async fn extended(&mut self, message: Message) -> Result<()> {
        match message {
            Message::Parse { name, sql, types } => self.parse(name, &sql, types),
            Message::Bind(bind) => self.bind(bind).await,
            Message::Describe(Describe { target: Target::Statement, name }) => self.describe_statement(&name).await,
            Message::Describe(Describe { target: Target::Portal, name }) => self.describe_portal(&name).await,
            Message::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Message::Close(Describe { target, name }) => {
                match target {
                    Target::Statement => drop(self.prepared.remove(&name)),
                    Target::Portal => drop(self.portals.remove(&name)),
                }
                self.io.out.plain(b'3');
                Ok(())
            }
            _ => Err(Error::new(ErrorKind::Protocol, "a message comes where it has no meaning")),
        }
    }

    fn parse(&mut self, name: String, sql: &str, types: Vec<u32>) -> Result<()> {
        if !name.is_empty() && self.prepared.contains(&name) {
            return Err(Error::new(
                ErrorKind::DuplicateStatement,
                format!("there is a prepared statement {name} already"),
            ));
        }
        if name.is_empty()
            && let Some(known) = self.recent.take(sql, &types, &self.session)
        {
            self.prepared.insert(name, known.bytes, known);
            self.io.out.plain(b'1');
            return Ok(());
        }
        let by = if name.is_empty() { self.session.described_by() } else { None };
        let of_types = size_of_val(types.as_slice());
        // A text that there is no room for is not parsed.
        self.prepared.check(&name, name.len() + sql.len() + of_types)?;
        let mut statements = self.session.parse(sql)?;
        if statements.len() > 1 {
            return Err(Error::new(
                ErrorKind::Syntax,
                format!("one statement is prepared at a time, and {} are given", statements.len()),
            ));
        }
        let mut statement = statements.pop();
        let void = || (1..=types.len()).filter(|number| types[number - 1] == oid::VOID);
        if void().next().is_some()
            && let Some(statement) = &mut statement
        {
            statement.leave_out_void(&void().collect::<Vec<usize>>());
        }
        let bytes = of_types + statement.as_ref().map_or(0, |statement| statement.bytes());
        let with_name = name.len() + bytes;
        self.prepared.check(&name, with_name)?;
        let statement = statement.map(alluvia_query::Prepared::of);
        let (described, is_told) = (Mutex::new(None), AtomicBool::new(false));
        let prepared = Arc::new(Prepared { statement, types, bytes, described, is_told });
        self.recent.keep(sql, &prepared, by);
        self.prepared.insert(name, with_name, prepared);
        self.io.out.plain(b'1');
        Ok(())
    }

    fn prepared(&self, name: &str) -> Result<Arc<Prepared>> {
        self.prepared.get(name).map(Arc::clone).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedStatement, format!("there is no prepared statement {name:?}"))
        })
    }

    /// What a statement takes and gives; planned once, if there is room to keep it.
    async fn described(&mut self, name: &str, prepared: &Prepared) -> Result<Option<Arc<Described>>> {
        let Some(statement) = prepared.statement() else { return Ok(None) };
        if let Some(known) = prepared.described.lock().as_ref() {
            return Ok(Some(Arc::clone(known)));
        }
        let known: Vec<_> = prepared.types.iter().map(|type_oid| parameter_type(*type_oid)).collect();
        let session = Arc::clone(&self.session);
        let described = self.watched(async move { session.describe(statement, &known).await }).await?;
        let described = Arc::new(described);
        if self.prepared.grow(name, bytes_of(&described)) {
            *prepared.described.lock() = Some(Arc::clone(&described));
        }
        Ok(Some(described))
    }

    /// The same where a statement can do without: what is wrong with it shows when it runs, with its values in it.
    async fn described_if_it_can_be(&mut self, name: &str, prepared: &Prepared) -> Result<Option<Arc<Described>>> {
        use ErrorKind::{Cancelled, Forbidden, Io, Shutdown, Timeout};
        match self.described(name, prepared).await {
            Err(error) if !matches!(error.kind(), Cancelled | Forbidden | Io | Shutdown | Timeout) => Ok(None),
            described => described,
        }
    }

    async fn bind(&mut self, bind: Bind) -> Result<()> {
        let Bind { portal, statement: name, formats, values, result_formats } = bind;
        let prepared = self.prepared(&name)?;
        if !portal.is_empty() && self.portals.contains(&portal) {
            return Err(Error::new(ErrorKind::DuplicateCursor, format!("there is a portal {portal} already")));
        }
        let of_values: usize = values.iter().flatten().map(|value| value.len()).sum();
        let bytes = portal.len() + prepared.bytes + of_values + size_of_val(result_formats.as_slice());
        self.portals.check(&portal, bytes)?;
        let wanted = prepared.statement().map_or(0, |statement| statement.parameters());
        if values.len() != wanted {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("the statement has {wanted} parameters, and {} values are given", values.len()),
            ));
        }
        if formats.len() > 1 && formats.len() != values.len() {
            return Err(Error::new(
                ErrorKind::Protocol,
                format!("{} formats for {} values", formats.len(), values.len()),
            ));
        }
        let is_binary = |at: usize| match formats.as_slice() {
            [] => false,
            [all] => *all == 1,
            each => each[at] == 1,
        };
        let stated = |at: usize| prepared.types.get(at).copied().unwrap_or(0);
        // Bytes mean nothing without a type. Of texts the statement says what they are, too, as in PostgreSQL: a literal in their place would
        // be none in LIMIT, nor in arithmetic, and the elements of a list are of one type each.
        let is_unstated = |at: usize| stated(at) == 0 && values[at].is_some();
        let described = if (0..wanted).any(|at| is_unstated(at) && is_binary(at)) {
            self.described(&name, &prepared).await?
        } else if (0..wanted).any(is_unstated) {
            self.described_if_it_can_be(&name, &prepared).await?
        } else {
            prepared.described.lock().clone()
        };
        let zone = self.session.time_zone();
        let mut scalars = Vec::with_capacity(wanted);
        for (at, value) in values.into_iter().enumerate() {
            let type_oid = match (stated(at), &described) {
                (0, Some(described)) => described.parameters.get(at).map_or(0, |field| of_parameter(field)),
                (stated, _) => stated,
            };
            scalars.push(parameter(at + 1, type_oid, is_binary(at), value, &zone)?);
        }
        let statement = prepared.to_run(scalars)?;
        let portal_of = Portal {
            is_empty: statement.is_none(),
            statement,
            formats: result_formats,
            // A client that was not told what the columns are takes them as they come.
            origins: described.as_ref().map(|described| Arc::clone(&described.origins)).unwrap_or_default(),
            columns: described
                .filter(|_| prepared.is_told.load(Ordering::Relaxed))
                .and_then(|described| described.columns.clone()),
            begun: None,
            savepoints: self.session.savepoints(),
            bytes,
        };
        self.portals.insert(portal, bytes, portal_of);
        self.io.out.plain(b'2');
        Ok(())
    }

    async fn describe_statement(&mut self, name: &str) -> Result<()> {
        let prepared = self.prepared(name)?;
        let Some(described) = self.described(name, &prepared).await? else {
            self.io.out.parameter_description(&[]);
            self.io.out.plain(b'n');
            return Ok(());
        };
        prepared.is_told.store(true, Ordering::Relaxed);
        let stated = |at: usize| prepared.types.get(at).copied().filter(|type_oid| *type_oid != 0);
        let oids: Vec<u32> = described
            .parameters
            .iter()
            .enumerate()
            .map(|(at, field)| stated(at).unwrap_or_else(|| of_parameter(field)))
            .collect();
        self.io.out.parameter_description(&oids);
        match &described.columns {
            Some(columns) => self.io.out.row_description(&fields(columns, &[], &described.origins)),
            None => self.io.out.plain(b'n'),
        }
        Ok(())
    }

    fn take_portal(&mut self, name: &str) -> Result<Portal> {
        self.portals
            .remove(name)
            .ok_or_else(|| Error::new(ErrorKind::UndefinedCursor, format!("there is no portal {name:?}")))
    }

    /// The columns of a cursor: to PostgreSQL's clients what DECLARE makes is a portal.
    async fn describe_cursor(&mut self, name: &str) -> Result<()> {
        let fetch = self.session.parse(&format!("FETCH NEXT FROM \"{}\"", name.replace('"', "\"\"")))?.remove(0);
        let described = self.session.describe(&fetch, &[]).await?;
        match &described.columns {
            Some(columns) => self.io.out.row_description(&fields(columns, &[], &described.origins)),
            None => self.io.out.plain(b'n'),
        }
        Ok(())
    }

    async fn describe_portal(&mut self, name: &str) -> Result<()> {
        if !name.is_empty() && !self.portals.contains(name) {
            return self.describe_cursor(name).await;
        }
        let mut portal = self.take_portal(name)?;
        let command = portal.statement.as_ref().map(|to_run| to_run.statement().command());
        // What changes nothing begins here: it is planned once, and its own columns are the answer.
        if matches!(command, Some(Command::Query | Command::Show)) {
            self.begin(&mut portal).await?;
        }
        // What changes rows begins when it is executed; its RETURNING has columns before.
        if command == Some(Command::Change)
            && portal.columns.is_none()
            && let Some(to_run) = &portal.statement
        {
            let session = Arc::clone(&self.session);
            // With its values, whose types the client has stated.
            let statement = &match to_run {
                ToRun::Whole(statement) => statement.as_ref().clone(),
                ToRun::Kept(prepared, values) => prepared.statement().bind(values)?,
            };
            portal.columns = self.watched(async move { session.describe(statement, &[]).await }).await?.columns;
        }
        let fields = match &portal.begun {
            Some(answer) => answer.fields(),
            None => portal.announced()?,
        };
        match fields {
            Some(fields) => self.io.out.row_description(&fields),
            None => self.io.out.plain(b'n'),
        }
        self.portals.insert(name.to_owned(), portal.bytes, portal);
        Ok(())
    }

    /// Runs the portal's statement up to its first rows.
    async fn begin(&mut self, portal: &mut Portal) -> Result<()> {
        if let Some(to_run) = portal.statement.take() {
            let outcome = self.run(to_run).await?;
            portal.begun = Some(Answer::new(outcome, portal.columns.clone(), &portal.formats, self.until)?);
        }
        Ok(())
    }

    async fn execute(&mut self, name: &str, rows_max: usize) -> Result<()> {
        let mut portal = self.take_portal(name)?;
        if portal.is_empty {
            self.io.out.plain(b'I');
            self.portals.insert(name.to_owned(), portal.bytes, portal);
            return Ok(());
        }
        let mut is_kept = true;
        if let Some(to_run) = &portal.statement {
            let statement = to_run.statement();
            let command = statement.command();
            self.bracket(&command).await?;
            // It was made since the savepoint, too.
            is_kept = command != Command::RollbackTo;
            let copied = match command {
                Command::CopyIn => Some(self.copy_in(statement.clone()).await?),
                Command::CopyOut => Some(self.copy_out(statement.clone()).await?),
                _ => None,
            };
            if let Some(tag) = copied {
                self.io.out.complete(&tag);
                return Ok(());
            }
            self.begin(&mut portal).await?;
        }
        if let Some(answer) = &mut portal.begun {
            match self.send_rows(answer, rows_max).await? {
                Sent::All(tag) => {
                    self.reporter.outcome(&answer.outcome, &mut self.io.out);
                    self.reporter.query_ended(&self.session, &mut self.io.out);
                    self.io.out.complete(&tag);
                }
                Sent::Enough => self.io.out.plain(b's'),
            }
        }
        if is_kept {
            portal.savepoints = portal.savepoints.min(self.session.savepoints());
            self.portals.insert(name.to_owned(), portal.bytes, portal);
        }
        Ok(())
    }

    /// Begins a transaction for an INSERT that more follows; ends it before anything but queries, INSERT, SHOW and SET.
    async fn bracket(&mut self, command: &Command) -> Result<()> {
        if self.implicit {
            let can_be = matches!(command, Command::Query | Command::Show | Command::Insert | Command::Set);
            return if can_be { Ok(()) } else { self.end_implicit().await };
        }
        let more_follows = self.io.peek().is_some_and(|kind| !matches!(kind, b'S' | b'X'));
        if *command == Command::Insert && more_follows && self.session.transaction_status() == TransactionStatus::Idle {
            let begin = self.brackets[0].clone();
            self.session.execute(begin).await?;
            self.implicit = true;
        }
        Ok(())
    }
}
