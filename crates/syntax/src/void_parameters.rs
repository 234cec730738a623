//! Parameters of the type VOID, which stand for no argument: pgjdbc has one where the result of `{? = call upper(?)}` goes, and sends
//! `SELECT * FROM upper($1, $2)`. PostgreSQL takes them out of calls, too (`ParseFuncOrColumn` in its `parse_func.c`).

use crate::parameters::{BIND_STACK_BYTES, queries_of};
use crate::statement::Statement;
use crate::trees::visit::visit_mut;
use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, TableFactor, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;

impl Statement {
    /// Takes the parameters of these numbers, from 1 on, out of the calls that have them as arguments. The others keep their numbers.
    pub fn leave_out_void(&mut self, numbers: &[usize]) {
        let names: Vec<String> = numbers.iter().map(|number| format!("${number}")).collect();
        for query in queries_of(&mut self.kind) {
            // As where values are bound: a tree may be as deep as what is parsed.
            stacker::maybe_grow(1 << 20, BIND_STACK_BYTES, || {
                let _ = visit_mut(query, &mut Void(&names));
            });
        }
    }
}

struct Void<'a>(&'a [String]);

impl Void<'_> {
    fn stays(&self, argument: &FunctionArg) -> bool {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan { value, .. }))) = argument else {
            return true;
        };
        !matches!(value, Value::Placeholder(name) if self.0.contains(name))
    }
}

impl VisitorMut for Void<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && let FunctionArguments::List(list) = &mut function.args
        {
            list.args.retain(|argument| self.stays(argument));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { args: Some(table), .. } => table.args.retain(|argument| self.stays(argument)),
            TableFactor::Function { args, .. } => args.retain(|argument| self.stays(argument)),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn arguments_of_no_type_leave_their_calls() {
        for (sql, numbers, wanted) in [
            ("SELECT * FROM upper($1, $2) AS result", vec![1], "SELECT * FROM upper($2) AS result"),
            ("SELECT left($1, $2, $3), $1", vec![1], "SELECT left($2, $3), $1"),
            ("SELECT left($1, $2)", vec![], "SELECT left($1, $2)"),
        ] {
            let mut statement = parse(sql).unwrap().remove(0);
            statement.leave_out_void(&numbers);
            let Kind::Query(query) = &statement.kind else { panic!("a query") };
            assert_eq!(query.to_string(), wanted);
        }
    }
}
