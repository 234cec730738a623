//! What a statement may beside using tables: files, URLs and procedures of the server.
//!
//! Invariants:
//! - No user table is resolved without saying what it is for: to be read by `session::select::pin`, without which nothing of it can be
//!   scanned, and for all else by `Scope::table_for`, which takes a `Need`. What a statement needs beside tables is stated for every
//!   kind of statement in [`of_statement`], which has no "all others".
//! - Who may what, and with which errors, is [`Authoriser`]'s.

use alluvia_catalog::authoriser::Authoriser;
use alluvia_catalog::rights::{READ_FILES, READ_URLS, WRITE_FILES};
use alluvia_syntax::Kind;
use alluvia_syntax::copy::options::OnError;
use alluvia_syntax::copy::places::is_url;
use alluvia_syntax::copy::statement::{CopyStatement, Target};
use alluvia_syntax::statement::Procedure;
use alluvia_types::Result;

/// Refuses a statement for what it does beside using tables.
pub(crate) fn of_statement(authoriser: &Authoriser, kind: &Kind) -> Result<()> {
    match kind {
        Kind::Copy(copy) => of_files(authoriser, copy),
        Kind::Call(procedure) => match procedure {
            Procedure::Flush => authoriser.superuser("hurry the sort"),
            Procedure::Merge => authoriser.superuser("hurry the merge"),
            Procedure::BuildCuboids => authoriser.superuser("build cuboids"),
            // For the owner of the table that it names.
            Procedure::PinCuboid(_) | Procedure::UnpinCuboid(_) | Procedure::DropCuboid(_) => Ok(()),
            // By whose session it is.
            Procedure::Cancel(_) => Ok(()),
            // For who may delete rows of the table that it names, and for its owner.
            Procedure::Purge(_) | Procedure::ForgetSegment { .. } => Ok(()),
        },
        // By what they change, and by the schema that they make it in.
        Kind::Role(_) | Kind::Schema(_) | Kind::CreateTable(_) | Kind::CreateView(_) | Kind::Routine(_) => Ok(()),
        // By the tables that they name, where these are resolved.
        Kind::Query(_)
        | Kind::Locking(_)
        | Kind::Explain { .. }
        | Kind::Insert(_)
        | Kind::Update(_)
        | Kind::Delete(_)
        | Kind::Truncate(_)
        | Kind::Merge(_)
        | Kind::DropTable { .. }
        | Kind::DropNone { .. }
        | Kind::DropView { .. }
        | Kind::AlterView(_)
        | Kind::Idle(_)
        | Kind::CreateIndex(_)
        | Kind::DropIndex(_)
        | Kind::Comment(_)
        | Kind::AlterTable(_)
        | Kind::Declare(_) => Ok(()),
        // By the procedure's schema, and by what its statements do.
        Kind::CallProcedure(_) | Kind::Do(_) => Ok(()),
        // Definitions are everybody's.
        Kind::Describe(_) | Kind::ShowTables | Kind::ShowCreate(_) => Ok(()),
        // The session's own; SET ROLE is decided where it is set.
        Kind::Setting(_)
        | Kind::Begin(_)
        | Kind::Commit
        | Kind::Rollback
        | Kind::Savepoint(_)
        | Kind::RollbackTo(_)
        | Kind::SetConstraints(_)
        | Kind::Release(_)
        | Kind::Fetch { .. }
        | Kind::AsIs { .. }
        | Kind::CloseCursor(_)
        | Kind::Discard(_)
        | Kind::Deallocate(_) => Ok(()),
        Kind::Refused(_) => Ok(()),
    }
}

/// Files and URLs of the server.
fn of_files(authoriser: &Authoriser, copy: &CopyStatement) -> Result<()> {
    let places = match copy {
        CopyStatement::From { source, .. } => source.patterns(),
        CopyStatement::To { .. } => &[],
    };
    let (CopyStatement::From { options, .. } | CopyStatement::To { options, .. }) = copy;
    // Where no file is stated for bad rows, it is one beside the first that is read.
    let writes = matches!(copy, CopyStatement::To { target: Target::File(_), .. }) || options.on_error == OnError::Skip;
    if places.iter().any(|place| !is_url(place)) {
        authoriser.membership(READ_FILES, "read files of the server")?;
    }
    if places.iter().any(|place| is_url(place)) {
        authoriser.membership(READ_URLS, "have the server read URLs")?;
    }
    if writes {
        authoriser.membership(WRITE_FILES, "write files of the server")?;
    }
    Ok(())
}
