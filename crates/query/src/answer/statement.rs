//! Statements that the index may answer, in words of their own.

/// `SELECT aggregates and groups FROM one table WHERE conditions GROUP BY ...`.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Statement {
    pub(crate) table: String,
    pub(crate) items: Vec<Item>,
    pub(crate) groups: Vec<Group>,
    /// Names of items that GROUP BY uses; none of them may be a column's.
    pub(crate) aliases: Vec<String>,
    pub(crate) conditions: Vec<Condition>,
    /// Items to order by.
    pub(crate) order: Vec<Order>,
    pub(crate) limit: Option<usize>,
    pub(crate) offset: usize,
}

/// A column of the answer.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Item {
    /// One of the groups.
    Group(usize),
    /// An aggregate of a column, or of rows.
    Aggregate(Aggregate, Option<String>),
}

/// What makes a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Group {
    /// A column's value.
    Column(String),
    /// `date_trunc('unit', column)`.
    Truncated(String, String),
}

/// An aggregate function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Aggregate {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    VarSample,
    VarPopulation,
    StddevSample,
    StddevPopulation,
}

/// An item to order by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub(crate) item: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// What one column must be.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Condition {
    pub(crate) column: String,
    pub(crate) test: Test,
}

/// What a value must be for the condition to be true.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Test {
    /// One of these.
    In(Vec<Literal>),
    /// None of these, and not NULL.
    NotIn(Vec<Literal>),
    /// At least, at most; each with whether the bound itself counts.
    Range(Option<(Literal, bool)>, Option<(Literal, bool)>),
    /// Text that begins so.
    Prefix(String),
    Null,
    NotNull,
    /// Any of these.
    Any(Vec<Test>),
}

/// A constant.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Literal {
    Text(String),
    /// As written.
    Number(String),
    Boolean(bool),
    /// `DATE '...'`
    Date(String),
    /// `TIMESTAMP '...'`
    Time(String),
}
