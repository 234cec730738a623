//! What an aggregate that stands in the place of one of DataFusion's passes on to it: all that does not differ.

/// Methods of an [`AggregateUDFImpl`](datafusion::logical_expr::AggregateUDFImpl) whose field `inner` is DataFusion's function.
macro_rules! passed_on {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }

        fn return_type(
            &self,
            arg_types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.inner.inner().return_type(arg_types)
        }

        fn state_fields(
            &self,
            args: datafusion::logical_expr::function::StateFieldsArgs,
        ) -> datafusion::common::Result<Vec<arrow::datatypes::FieldRef>> {
            self.inner.inner().state_fields(args)
        }

        fn groups_accumulator_supported(&self, args: datafusion::logical_expr::function::AccumulatorArgs) -> bool {
            self.inner.inner().groups_accumulator_supported(args)
        }

        fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
            self.inner.inner().order_sensitivity()
        }

        fn reverse_expr(&self) -> datafusion::logical_expr::ReversedUDAF {
            self.inner.inner().reverse_expr()
        }

        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.inner.inner().documentation()
        }
    };
}

pub(super) use passed_on;
