//! The catalog as clients list it.

use crate::support::{Client, fetch, serve, state, table};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, UInt32Type};
use arrow_flight::sql::{
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetTables, CommandGetXdbcTypeInfo, SqlInfo,
};
use arrow_flight::{Action, Empty, FlightInfo, IpcMessage};
use futures::TryStreamExt;
use tonic::Code;

/// The rows of a list, whose schema is the one that was told.
async fn listed(client: &mut Client, info: FlightInfo) -> RecordBatch {
    let told = Schema::try_from(info.clone()).unwrap();
    let batches = fetch(client, info).await.unwrap();
    assert_eq!(batches.len(), 1);
    assert_eq!(batches[0].schema().as_ref(), &told);
    batches.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_listed_by_patterns_and_with_their_columns() {
    let served = serve().await;
    served.sql("CREATE TABLE sales (a INT NOT NULL, b TEXT); CREATE TABLE \"Other\" (c DOUBLE)").await;
    let mut client = served.client().await;
    let asked = CommandGetTables { db_schema_filter_pattern: Some("public".to_owned()), ..Default::default() };
    let info = client.get_tables(asked.clone()).await.unwrap();
    let found = table(&[listed(&mut client, info).await]);
    assert!(found.contains("| alluvia      | public         | Other      | TABLE"), "{found}");
    assert!(found.contains("sales") && !found.contains("pg_class"), "{found}");
    let one = CommandGetTables { table_name_filter_pattern: Some("sal%".to_owned()), include_schema: true, ..asked };
    let info = client.get_tables(one).await.unwrap();
    let rows = listed(&mut client, info).await;
    assert_eq!(rows.num_rows(), 1);
    let encoded = rows.column_by_name("table_schema").unwrap().as_binary::<i32>().value(0).to_vec();
    let schema = Schema::try_from(IpcMessage(encoded.into())).unwrap();
    let columns: Vec<_> =
        schema.fields().iter().map(|field| (field.name().as_str(), field.data_type(), field.is_nullable())).collect();
    assert_eq!(columns, [("a", &DataType::Int32, false), ("b", &DataType::Utf8, true)]);
    // System tables, all of them with their columns.
    let system = CommandGetTables {
        table_types: vec!["SYSTEM TABLE".to_owned()],
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(system).await.unwrap();
    let rows = listed(&mut client, info).await;
    let found = table(&[rows.project(&[1, 2, 3]).unwrap()]);
    assert!(found.contains("sessions") && !found.contains("sales"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_schemas_and_types_are_listed() {
    let served = serve().await;
    let mut client = served.client().await;
    let info = client.get_catalogs().await.unwrap();
    assert!(table(&[listed(&mut client, info).await]).contains("| alluvia"));
    let info = client.get_db_schemas(CommandGetDbSchemas::default()).await.unwrap();
    let found = table(&[listed(&mut client, info).await]);
    assert!(found.contains("| public") && found.matches("| alluvia").count() == 3, "{found}");
    served.sql("CREATE SCHEMA shop; CREATE TABLE shop.sales (d DATE)").await;
    let of_shop = CommandGetDbSchemas { db_schema_filter_pattern: Some("sh%".to_owned()), ..Default::default() };
    let info = client.get_db_schemas(of_shop).await.unwrap();
    assert_eq!(listed(&mut client, info).await.num_rows(), 1);
    let of_shop = CommandGetTables {
        db_schema_filter_pattern: Some("shop".to_owned()),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = client.get_tables(of_shop).await.unwrap();
    let rows = listed(&mut client, info).await;
    let found = table(&[rows.project(&[1, 2, 3]).unwrap()]);
    assert!(found.contains("| shop           | sales      | TABLE"), "{found}");
    let info = client.get_table_types().await.unwrap();
    assert_eq!(listed(&mut client, info).await.num_rows(), 3);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo::default()).await.unwrap();
    let all = listed(&mut client, info).await;
    assert_eq!(all.num_rows(), 19);
    let info = client.get_xdbc_type_info(CommandGetXdbcTypeInfo { data_type: Some(4) }).await.unwrap();
    let one = listed(&mut client, info).await;
    assert_eq!(one.column(0).as_string::<i32>().value(0), "INT");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_says_what_it_can() {
    let served = serve().await;
    let mut client = served.client().await;
    let info =
        client.get_sql_info(vec![SqlInfo::FlightSqlServerTransaction, SqlInfo::FlightSqlServerName]).await.unwrap();
    let rows = listed(&mut client, info).await;
    assert_eq!(rows.column(0).as_primitive::<UInt32Type>().values(), &[0, 8]);
    let values = rows.column(1).as_union();
    assert_eq!(values.value(0).as_string::<i32>().value(0), "Alluvia");
    // Drivers look for it as a 32-bit number.
    assert_eq!((values.type_id(1), values.value(1).data_type().clone()), (3, DataType::Int32));
    let info = client.get_sql_info(Vec::new()).await.unwrap();
    assert!(listed(&mut client, info).await.num_rows() > 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_no_keys() {
    let served = serve().await;
    let mut client = served.client().await;
    let keys = CommandGetPrimaryKeys { table: "t".to_owned(), ..Default::default() };
    let mut all = vec![(client.get_primary_keys(keys).await.unwrap(), 6)];
    let exported = CommandGetExportedKeys { table: "t".to_owned(), ..Default::default() };
    all.push((client.get_exported_keys(exported).await.unwrap(), 13));
    let imported = CommandGetImportedKeys { table: "t".to_owned(), ..Default::default() };
    all.push((client.get_imported_keys(imported).await.unwrap(), 13));
    let cross = CommandGetCrossReference { pk_table: "t".to_owned(), fk_table: "u".to_owned(), ..Default::default() };
    all.push((client.get_cross_reference(cross).await.unwrap(), 13));
    for (info, columns) in all {
        let rows = listed(&mut client, info).await;
        assert_eq!((rows.num_rows(), rows.num_columns()), (0, columns));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_are_listed_and_others_refused_by_name() {
    let served = serve().await;
    let mut client = served.client().await;
    let actions = client.inner_mut().list_actions(Empty {}).await.unwrap().into_inner();
    let actions: Vec<String> = actions.map_ok(|action| action.r#type).try_collect().await.unwrap();
    assert_eq!(actions.len(), 12);
    for name in ["BeginSavepoint", "CreatePreparedSubstraitPlan", "RenewFlightEndpoint", "nonsense"] {
        let action = Action { r#type: name.to_owned(), body: Default::default() };
        assert_eq!(state(client.do_action(action).await.unwrap_err()).0, Code::Unimplemented, "{name}");
    }
    for name in ["CreatePreparedStatement", "EndTransaction", "CancelQuery"] {
        let action = Action { r#type: name.to_owned(), body: "\u{1}\u{2}".into() };
        assert_eq!(state(client.do_action(action).await.unwrap_err()).0, Code::InvalidArgument, "{name}");
    }
}
