//! What a function that stands in the place of one of DataFusion's passes on to it: all that does not differ.

use datafusion_expr::Expr;

/// Methods of an [`AggregateUDFImpl`](datafusion_expr::AggregateUDFImpl) whose field `inner` is DataFusion's function.
macro_rules! delegate_aggregate {
    () => {
        $crate::delegate::delegate_aggregate!(but state_fields);

        fn state_fields(
            &self,
            args: datafusion_expr::function::StateFieldsArgs,
        ) -> datafusion_common::Result<Vec<arrow::datatypes::FieldRef>> {
            self.inner.inner().state_fields(args)
        }
    };
    (but state_fields) => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn signature(&self) -> &datafusion_expr::Signature {
            self.inner.signature()
        }

        fn return_type(
            &self,
            arg_types: &[arrow::datatypes::DataType],
        ) -> datafusion_common::Result<arrow::datatypes::DataType> {
            self.inner.inner().return_type(arg_types)
        }

        fn groups_accumulator_supported(&self, args: datafusion_expr::function::AccumulatorArgs) -> bool {
            self.inner.inner().groups_accumulator_supported(args)
        }

        fn order_sensitivity(&self) -> datafusion_expr::utils::AggregateOrderSensitivity {
            self.inner.inner().order_sensitivity()
        }

        fn reverse_expr(&self) -> datafusion_expr::ReversedUDAF {
            self.inner.inner().reverse_expr()
        }

        fn documentation(&self) -> Option<&datafusion_expr::Documentation> {
            self.inner.inner().documentation()
        }
    };
}

/// Methods of a [`ScalarUDFImpl`](datafusion_expr::ScalarUDFImpl) whose field `inner` is DataFusion's function: those that are named,
/// since of most functions more than what is computed differs.
macro_rules! delegate_scalar {
    ($($method:ident),+) => {
        $($crate::delegate::delegate_scalar!(@ $method);)+
    };
    (@ name) => {
        fn name(&self) -> &str {
            self.inner.name()
        }
    };
    (@ aliases) => {
        fn aliases(&self) -> &[String] {
            self.inner.aliases()
        }
    };
    (@ signature) => {
        fn signature(&self) -> &datafusion_expr::Signature {
            self.inner.signature()
        }
    };
    (@ return_type) => {
        fn return_type(
            &self,
            arg_types: &[arrow::datatypes::DataType],
        ) -> datafusion_common::Result<arrow::datatypes::DataType> {
            self.inner.return_type(arg_types)
        }
    };
    (@ return_field_from_args) => {
        fn return_field_from_args(
            &self,
            args: datafusion_expr::ReturnFieldArgs,
        ) -> datafusion_common::Result<arrow::datatypes::FieldRef> {
            self.inner.return_field_from_args(args)
        }
    };
    (@ coerce_types) => {
        fn coerce_types(
            &self,
            arg_types: &[arrow::datatypes::DataType],
        ) -> datafusion_common::Result<Vec<arrow::datatypes::DataType>> {
            self.inner.coerce_types(arg_types)
        }
    };
    (@ is_strict) => {
        fn is_strict(&self) -> bool {
            self.inner.inner().is_strict()
        }
    };
    (@ output_ordering) => {
        fn output_ordering(
            &self,
            inputs: &[datafusion_expr::sort_properties::ExprProperties],
        ) -> datafusion_common::Result<datafusion_expr::sort_properties::SortProperties> {
            self.inner.output_ordering(inputs)
        }
    };
    (@ documentation) => {
        fn documentation(&self) -> Option<&datafusion_expr::Documentation> {
            self.inner.documentation()
        }
    };
}

/// Methods of a function that stands in the place of a cast to what its field `to` says: a column keeps its name.
macro_rules! in_place_of_a_cast {
    () => {
        fn schema_name(&self, args: &[datafusion_expr::Expr]) -> datafusion_common::Result<String> {
            Ok($crate::delegate::name_of_arguments(args))
        }

        fn signature(&self) -> &datafusion_expr::Signature {
            &self.signature
        }

        fn return_type(
            &self,
            _arg_types: &[arrow::datatypes::DataType],
        ) -> datafusion_common::Result<arrow::datatypes::DataType> {
            Ok(self.to.clone())
        }

        fn is_strict(&self) -> bool {
            true
        }
    };
}

pub(crate) use {delegate_aggregate, delegate_scalar, in_place_of_a_cast};

/// The name of a function that gives what it is given: as that is called.
pub fn name_of_arguments(args: &[Expr]) -> String {
    args.iter().map(|arg| arg.schema_name().to_string()).collect()
}
