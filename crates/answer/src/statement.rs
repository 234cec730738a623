//! Statements that the index may answer, in words of their own.

use super::constants::Constant;
use super::having::Having;
use super::member_predicate::MemberPredicate;
use super::units::{Cut, test_of};
use alluvia_catalog::{Catalog, RelationName, SearchPath};
use alluvia_space::{DataType, TableDef};
use alluvia_syntax::Sureness;
use alluvia_types::{TableId, Version};
use arrow::array::{Array, ArrayRef};
use datafusion::logical_expr::Operator;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Expr;

/// `SELECT aggregates and groups FROM one table WHERE conditions GROUP BY ...`.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// The table, by its name.
    pub table: RelationName,
    /// The view that it names in the place of the table, if it does: then who asks needs no right to the table, and its owner does.
    pub view: Option<NamedView>,
    /// The answer's columns, then what is not shown but ordered by, or looked at by HAVING.
    pub items: Vec<Item>,
    /// The last items, those that are not shown, as they were written.
    pub hidden: Vec<Expr>,
    /// What rows are grouped by.
    pub groups: Vec<Group>,
    /// Names of items that GROUP BY and HAVING use; none of them may be a column's.
    pub aliases: Vec<String>,
    /// What rows must be: all of these.
    pub conditions: Vec<Condition>,
    /// Which groups are in the answer; `None` for all.
    pub having: Option<Having>,
    /// Items to order by.
    pub order: Vec<Order>,
    /// How many rows the answer has at most.
    pub limit: Option<usize>,
    /// How many rows are left out before the first.
    pub offset: usize,
}

/// A view, by the name that a statement has for it.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedView {
    /// As it is written.
    pub name: RelationName,
    /// The definition that the statement was understood by, and of each view below.
    pub defined: Vec<(TableId, Version)>,
}

impl NamedView {
    /// Whether these definitions are those, along a path.
    pub fn holds(&self, catalog: &Catalog, path: &SearchPath) -> bool {
        let is_same = |(id, version): &(TableId, Version)| {
            catalog.view_by_id(*id).is_some_and(|view| view.changed_at == *version)
        };
        let first = self.defined.first().map(|(id, _)| *id);
        first.is_some() && catalog.id_of(&self.name, path) == first && self.defined.iter().all(is_same)
    }

    /// The view's id.
    pub fn id(&self) -> Option<TableId> {
        self.defined.first().map(|(id, _)| *id)
    }
}

/// A column of the answer, or a value that decides over its rows.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Item {
    /// One of the groups.
    Group(usize),
    /// An aggregate of a column, or of rows.
    Aggregate(Aggregate, Option<String>),
    /// How sure such an aggregate is: a count, a sum or an average.
    Sureness(Sureness, Aggregate, Option<String>),
}

impl Item {
    /// The aggregate that it is, or is about, and its column.
    pub(crate) fn aggregate(&self) -> Option<(Aggregate, Option<&String>)> {
        match self {
            Item::Group(_) => None,
            Item::Aggregate(aggregate, column) | Item::Sureness(_, aggregate, column) => {
                Some((*aggregate, column.as_ref()))
            }
        }
    }

    fn column_bytes(&self) -> usize {
        self.aggregate().and_then(|(_, column)| column).map_or(0, String::len)
    }
}

/// What makes a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Group {
    /// A column's value.
    Column(String),
    /// `date_trunc('unit', column)`.
    Truncated(String, String),
    /// `date_trunc('unit', column, 'zone')`.
    TruncatedIn {
        /// In small letters.
        unit: String,
        /// A TIMESTAMPTZ.
        column: String,
        /// As statements name it.
        zone: String,
    },
}

/// An aggregate function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Aggregate {
    /// `count`
    Count,
    /// `sum`
    Sum,
    /// `avg`
    Avg,
    /// `min`
    Min,
    /// `max`
    Max,
    /// `var_samp`
    VarSample,
    /// `var_pop`
    VarPopulation,
    /// `stddev_samp`
    StddevSample,
    /// `stddev_pop`
    StddevPopulation,
}

/// An item to order by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    pub(crate) item: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// What rows must be.
#[derive(Clone, PartialEq, Debug)]
pub enum Condition {
    /// A column's value passes a test.
    Column(String, Test),
    /// All hold.
    All(Vec<Condition>),
    /// At least one holds.
    Any(Vec<Condition>),
}

/// What a value must be for the condition to be true.
#[derive(Clone, PartialEq, Debug)]
pub enum Test {
    /// One of these.
    In(Vec<Literal>),
    /// One of many values.
    Among(Values),
    /// At least, at most; each with whether the bound itself counts.
    Range(Option<(Literal, bool)>, Option<(Literal, bool)>),
    /// A time whose day or unit begins where this comparison with a constant says, which is known when the statement runs.
    Cut(Cut, Operator, Literal),
    /// Text like this pattern, whose escape is the backslash.
    Like(String),
    /// Whatever the planner evaluates.
    Holds(MemberPredicate),
    /// NULL.
    Null,
    /// Not NULL.
    Known,
    /// Not NULL, and the test is not passed. Of tests that NULL does not pass, and of which no other value is unknown.
    Not(Box<Test>),
}

impl Condition {
    fn goes_by_clocks(&self, is_moment: &dyn Fn(&String) -> bool) -> bool {
        match self {
            Condition::All(parts) | Condition::Any(parts) => parts.iter().any(|part| part.goes_by_clocks(is_moment)),
            Condition::Column(_, Test::Null | Test::Known) => false,
            Condition::Column(name, test) => is_moment(name) || test.goes_by_clocks(),
        }
    }
}

impl Test {
    fn goes_by_clocks(&self) -> bool {
        let of = |literal: &Literal| matches!(literal, Literal::Computed(_) | Literal::Time(_) | Literal::Date(_));
        match self {
            Test::In(literals) => literals.iter().any(of),
            Test::Range(low, high) => [low, high].into_iter().flatten().any(|(literal, _)| of(literal)),
            Test::Cut(..) | Test::Holds(_) => true,
            Test::Not(test) => test.goes_by_clocks(),
            Test::Among(_) | Test::Like(_) | Test::Null | Test::Known => false,
        }
    }
}

impl Statement {
    /// The name that it has for what it reads.
    pub fn named(&self) -> &RelationName {
        self.view.as_ref().map_or(&self.table, |view| &view.name)
    }

    /// Whether it looks at values that it does not show.
    pub fn looks_further(&self) -> bool {
        self.having.is_some() || !self.hidden.is_empty()
    }

    /// Whether its answer may be another one in a session of another time zone. It is asked only in such sessions, and says so where it is
    /// not sure: a moment is compared, cut or grouped by, or a time that was computed or cut, or what only the planner knows.
    pub fn goes_by_clocks(&self, def: &TableDef) -> bool {
        let is_moment = |name: &String| {
            def.columns.iter().any(|column| column.name == *name && column.data_type == DataType::TimestampTz)
        };
        let of_groups = self.groups.iter().any(|group| match group {
            Group::Column(name) | Group::Truncated(_, name) | Group::TruncatedIn { column: name, .. } => {
                is_moment(name)
            }
        });
        of_groups
            || self.having.is_some()
            || self.conditions.iter().any(|condition| condition.goes_by_clocks(&is_moment))
    }

    /// Bytes in memory, about; without those of predicates that the planner evaluates.
    pub(crate) fn bytes(&self) -> usize {
        let of_items: usize = self.items.iter().map(|item| size_of::<Item>() + item.column_bytes()).sum();
        let of_conditions: usize = self.conditions.iter().map(Condition::bytes).sum();
        let of_hidden = self.hidden.len() * size_of::<Expr>();
        size_of::<Statement>() + of_items + of_hidden + of_conditions + self.having.as_ref().map_or(0, Having::bytes)
    }

    /// The statement with values for its parameters; `None` if one of them has none.
    pub(crate) fn with_parameters(&self, values: &[Literal]) -> Option<Statement> {
        let having = match &self.having {
            Some(having) => Some(having.with_parameters(values)?),
            None => None,
        };
        let value = |literal: &Literal| match literal {
            Literal::Parameter(number) => values.get(number.checked_sub(1)?).cloned(),
            other => Some(other.clone()),
        };
        self.with(having, &value)
    }

    /// Whether it means something else each time it runs.
    pub(crate) fn is_of_now(&self) -> bool {
        self.conditions.iter().any(Condition::is_of_now)
    }

    /// What it means when it begins at a moment in microseconds since 1970; `None` if the index has no words for that.
    pub(crate) fn at(&self, now: i64) -> Option<Statement> {
        self.with(self.having.clone(), &|literal: &Literal| literal.at(now))
    }

    fn with(&self, having: Option<Having>, value: &dyn Fn(&Literal) -> Option<Literal>) -> Option<Statement> {
        let conditions = self.conditions.iter().map(|condition| condition.with(value));
        Some(Statement {
            table: self.table.clone(),
            view: self.view.clone(),
            items: self.items.clone(),
            hidden: self.hidden.clone(),
            groups: self.groups.clone(),
            aliases: self.aliases.clone(),
            conditions: conditions.collect::<Option<_>>()?,
            having,
            order: self.order.clone(),
            limit: self.limit,
            offset: self.offset,
        })
    }
}

impl Condition {
    fn bytes(&self) -> usize {
        let of_parts = match self {
            Condition::Column(column, test) => column.len() + test.bytes(),
            Condition::All(parts) | Condition::Any(parts) => parts.iter().map(Condition::bytes).sum(),
        };
        size_of::<Condition>() + of_parts
    }

    /// A column's value is this one and no NULL; never unknown.
    pub fn is_value(column: String, value: Literal) -> Condition {
        let known = Condition::Column(column.clone(), Test::Known);
        Condition::All(vec![Condition::Column(column, Test::In(vec![value])), known])
    }

    fn is_of_now(&self) -> bool {
        match self {
            Condition::Column(_, test) => test.is_of_now(),
            Condition::All(parts) | Condition::Any(parts) => parts.iter().any(Condition::is_of_now),
        }
    }

    /// The same with other constants.
    fn with(&self, value: &dyn Fn(&Literal) -> Option<Literal>) -> Option<Condition> {
        let all = |parts: &[Condition]| parts.iter().map(|part| part.with(value)).collect::<Option<_>>();
        Some(match self {
            Condition::Column(column, test) => Condition::Column(column.clone(), test.with(value)?),
            Condition::All(parts) => Condition::All(all(parts)?),
            Condition::Any(parts) => Condition::Any(all(parts)?),
        })
    }

    /// What makes this condition false (not merely unknown).
    pub fn negated(self) -> Condition {
        let all = |parts: Vec<Condition>| parts.into_iter().map(Condition::negated).collect();
        match self {
            Condition::All(parts) => Condition::Any(all(parts)),
            Condition::Any(parts) => Condition::All(all(parts)),
            Condition::Column(column, test) => Condition::Column(column, test.negated()),
        }
    }
}

impl Test {
    /// Bytes in memory of what it points to, about.
    fn bytes(&self) -> usize {
        match self {
            Test::In(list) => list.iter().map(Literal::bytes).sum(),
            Test::Among(values) => values.0.get_array_memory_size(),
            Test::Range(low, high) => [low, high].into_iter().flatten().map(|(literal, _)| literal.bytes()).sum(),
            Test::Like(pattern) => pattern.len(),
            Test::Cut(_, _, literal) => literal.bytes(),
            Test::Not(test) => size_of::<Test>() + test.bytes(),
            Test::Holds(_) | Test::Null | Test::Known => 0,
        }
    }

    fn is_of_now(&self) -> bool {
        let is_computed = |literal: &Literal| matches!(literal, Literal::Computed(_));
        match self {
            Test::In(literals) => literals.iter().any(is_computed),
            Test::Range(low, high) => [low, high].into_iter().flatten().any(|(literal, _)| is_computed(literal)),
            Test::Cut(_, _, literal) => is_computed(literal),
            Test::Not(test) => test.is_of_now(),
            Test::Among(_) | Test::Like(_) | Test::Holds(_) | Test::Null | Test::Known => false,
        }
    }

    /// What it is in a statement that begins at a moment in microseconds since 1970.
    #[cfg(test)]
    pub(super) fn at(&self, now: i64) -> Option<Test> {
        self.with(&|literal: &Literal| literal.at(now))
    }

    /// The same with other constants.
    fn with(&self, value: &dyn Fn(&Literal) -> Option<Literal>) -> Option<Test> {
        let bound = |bound: &Option<(Literal, bool)>| match bound {
            None => Some(None),
            Some((literal, inclusive)) => Some(Some((value(literal)?, *inclusive))),
        };
        Some(match self {
            Test::In(literals) => Test::In(literals.iter().map(value).collect::<Option<_>>()?),
            Test::Range(low, high) => Test::Range(bound(low)?, bound(high)?),
            Test::Cut(cut, op, literal) => test_of(*cut, *op, value(literal)?)?,
            Test::Not(test) => Test::Not(Box::new(test.with(value)?)),
            Test::Among(_) | Test::Like(_) | Test::Holds(_) | Test::Null | Test::Known => self.clone(),
        })
    }

    fn negated(self) -> Test {
        match self {
            Test::Null => Test::Known,
            Test::Known => Test::Null,
            Test::Not(test) => *test,
            // May be unknown of a value.
            Test::Holds(predicate) => Test::Holds(predicate.negated()),
            test => Test::Not(Box::new(test)),
        }
    }
}

/// A constant.
#[derive(Clone, PartialEq, Debug)]
pub enum Literal {
    /// `'...'`
    Text(String),
    /// As written.
    Number(String),
    /// `true` or `false`
    Boolean(bool),
    /// `DATE '...'`
    Date(String),
    /// `TIMESTAMP '...'`
    Time(String),
    /// `$1`, counted from 1: stands for one of the others.
    Parameter(usize),
    /// What is computed of the moment at which the statement begins: stands for a day or a moment.
    Computed(Box<Constant>),
    /// A value, not NULL, that a plan compares a column of its type with.
    Typed(ScalarValue),
}

impl Literal {
    /// What it stands for in a statement that begins at a moment in microseconds since 1970.
    fn at(&self, now: i64) -> Option<Literal> {
        match self {
            Literal::Computed(constant) => constant.literal(now),
            other => Some(other.clone()),
        }
    }

    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let of_value = match self {
            Literal::Text(text) | Literal::Number(text) | Literal::Date(text) | Literal::Time(text) => text.len(),
            Literal::Typed(value) => value.size(),
            Literal::Computed(constant) => constant.bytes(),
            Literal::Boolean(_) | Literal::Parameter(_) => 0,
        };
        size_of::<Literal>() + of_value
    }
}

/// Values of a column's type, none of them NULL.
#[derive(Clone, Debug)]
pub struct Values(pub ArrayRef);

impl PartialEq for Values {
    fn eq(&self, other: &Values) -> bool {
        self.0.to_data() == other.0.to_data()
    }
}
