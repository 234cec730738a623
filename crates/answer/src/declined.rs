//! Why the index does not answer a statement.
//!
//! Invariants:
//! - A reason is the one for which the code turned away, or says less than it; it never says something else.
//! - To turn a statement away costs nothing: reasons are plain values, and become texts only where somebody asks.

use alluvia_space::TableDef;
use alluvia_types::ColumnId;

/// Why a statement is planned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declined {
    /// It is no SELECT alone.
    NoSelect,
    /// A SELECT with a clause that the index knows nothing of.
    Clause,
    /// `SELECT DISTINCT`.
    Distinct,
    /// No FROM.
    NoTable,
    /// More than one table.
    Join,
    /// What it reads is no table by its name alone.
    Relation,
    /// A condition of another form.
    Condition,
    /// `ROLLUP` and its kin.
    GroupingSets,
    /// A group of another form.
    Group,
    /// A column of the answer of another form.
    Item,
    /// Columns alone.
    NoAggregate,
    /// HAVING of another form.
    Having,
    /// ORDER BY of another form.
    Order,
    /// LIMIT or OFFSET of another form.
    Limit,
    /// A name may be an item's and a column's.
    Alias,
    /// The table has no dimensions.
    NoDimensions,
    /// A condition on this column that codes do not tell.
    ConditionOn(ColumnId),
    /// A condition on a column that is not there.
    UnknownColumn,
    /// Conditions that make too many boxes.
    Boxes,
    /// Ranges of times that begin or end within too many units.
    Edges,
    /// A group of this column.
    GroupOf(ColumnId),
    /// A level that rows of the tail have no codes of.
    NoCodes,
    /// An aggregate of this column, which is no measure.
    NoMeasure(ColumnId),
    /// A constant that cannot be known.
    Constant,
    /// A view that is more than columns of one table.
    View,
    /// The setting is off.
    ShortPath,
    /// Some rows only were asked for.
    SampleFraction,
    /// Definitions of the open transaction.
    OwnDefinitions,
    /// Rows that the open transaction has changed.
    OwnChanges,
    /// HAVING, or an order by what is not shown, of an exact answer.
    LooksFurther,
    /// Times by the session's clock.
    Clocks,
    /// The snapshot does not have the table.
    NotInSnapshot,
    /// The table has no codes yet.
    NoDictionaries,
    /// A value that sums do not hold, or too many groups.
    Value,
}

impl Declined {
    /// In words; `def` is the table that columns are of.
    pub fn text(self, def: Option<&TableDef>) -> String {
        let column = |id: ColumnId| {
            let column = def.and_then(|def| def.column_by_id(id));
            column.map_or_else(|| "a column".to_owned(), |column| column.name.clone())
        };
        let text = match self {
            Declined::NoSelect => "more than one SELECT (WITH, UNION, VALUES), or FETCH or a lock",
            Declined::Clause => "a clause beside WHERE, GROUP BY, HAVING, ORDER BY and LIMIT",
            Declined::Distinct => "DISTINCT",
            Declined::NoTable => "no table",
            Declined::Join => "more than one table",
            Declined::Relation => "it does not read a user's table or view by its name alone",
            Declined::Condition => "a condition of a form that the index does not know",
            Declined::GroupingSets => "ROLLUP, CUBE or GROUPING SETS",
            Declined::Group => "a group that is neither a column nor date_trunc of one",
            Declined::Item => {
                "a column of the answer that is neither a group nor count, sum, avg, min, max, a variance or a deviation of one column"
            }
            Declined::NoAggregate => "no aggregate",
            Declined::Having => "HAVING of a form that the index does not know",
            Declined::Order => "ORDER BY of a form that the index does not know",
            Declined::Limit => "LIMIT or OFFSET is no plain number",
            Declined::Alias => "a name that is a column's and an alias",
            Declined::NoDimensions => "the table has no dimensions",
            Declined::ConditionOn(id) => {
                return format!("no level tells the condition on {} as it is written", column(id));
            }
            Declined::UnknownColumn => "a condition on a column that is not the table's",
            Declined::Boxes => "conditions that are more than 16 boxes, or have too many tests",
            Declined::Edges => "ranges of times that begin or end within too many units of the calendar",
            Declined::GroupOf(id) => return format!("no level tells the group of {}", column(id)),
            Declined::NoCodes => "a level of numbers cut into parts (linear, quantiles)",
            Declined::NoMeasure(id) => return format!("{} is no measure, or has not this aggregate", column(id)),
            Declined::Constant => "a constant that only planning knows",
            Declined::View => "a view that is more than columns of one table",
            Declined::ShortPath => "short_path is off",
            Declined::SampleFraction => "sample_fraction leaves out rows, and the index has all",
            Declined::OwnDefinitions => "the open transaction has definitions of its own",
            Declined::OwnChanges => "the open transaction has changed rows of the table",
            Declined::LooksFurther => "HAVING, or ORDER BY of what is not shown, is planned where the answer is exact",
            Declined::Clocks => "times by the session's time_zone, which is not UTC",
            Declined::NotInSnapshot => "what it reads is no table with an index",
            Declined::NoDictionaries => "the table was not sorted yet: it has no codes",
            Declined::Value => "a value that sums do not hold, too many groups, or names that are not known",
        };
        text.to_owned()
    }
}
