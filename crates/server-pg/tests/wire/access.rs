//! Passwords, TLS, and what may not be served without them.

use crate::support::{serve, serve_with, state, texts};
use alluvia_access::{Access, Passwords, Tls, Verifier};
use alluvia_server_pg::{Server, ServerOptions};
use alluvia_types::ErrorKind;

/// One user, with a password.
pub fn passwords() -> Access {
    let mut passwords = Passwords::default();
    passwords.set("alluvia", Verifier::new("right \u{e4}").unwrap());
    let again = Passwords::parse(&passwords.to_text()).unwrap();
    Access::Passwords(again)
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_password_logs_in() {
    let served = serve_with(ServerOptions { access: passwords(), ..ServerOptions::default() }).await;
    let mut config = served.config();
    config.password("right \u{e4}");
    let client = served.client_with(&config).await.unwrap();
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
    config.password("wrong");
    assert_eq!(state(&served.client_with(&config).await.err().unwrap()), "28P01");
    config.user("nobody");
    assert_eq!(state(&served.client_with(&config).await.err().unwrap()), "28P01");
    // A driver that has no password says so itself.
    assert!(served.client_with(&served.config()).await.is_err());
    // Who then gives the right one is let in.
    config.user("alluvia").password("right \u{e4}");
    served.client_with(&config).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_one_database_is_told_from_those_that_are_not_here() {
    let served = serve_with(ServerOptions { access: passwords(), ..ServerOptions::default() }).await;
    let mut config = served.config();
    config.password("right \u{e4}");
    for database in ["alluvia", "postgres"] {
        let client = served.client_with(config.dbname(database)).await.unwrap();
        assert_eq!(texts(&client, "SELECT current_database()").await, ["alluvia"], "{database}");
    }
    let refused = served.client_with(config.dbname("sales")).await.err().unwrap();
    assert_eq!(state(&refused), "3D000");
    assert_eq!(refused.as_db_error().unwrap().message(), "there is no database \"sales\": the one here is alluvia");
    // Before the log-in nobody is told.
    config.password("wrong");
    assert_eq!(state(&served.client_with(&config).await.err().unwrap()), "28P01");
    // Whom the server trusts may ask for the database of their own name, which psql does unasked.
    let trusting = serve().await;
    let mut config = trusting.config();
    trusting.client_with(config.user("me").dbname("me")).await.unwrap();
    assert_eq!(state(&trusting.client_with(config.dbname("you")).await.err().unwrap()), "3D000");
}

#[tokio::test]
async fn other_addresses_need_passwords_and_tls() {
    let served = serve().await;
    let tls = Tls::new(include_bytes!("certificate.pem"), include_bytes!("key.pem")).unwrap();
    let options = |access: Access, tls: Option<Tls>| ServerOptions { access, tls, ..ServerOptions::default() };
    for (options, allowed) in [
        (options(Access::Trust, None), false),
        (options(Access::Trust, Some(tls.clone())), false),
        (options(passwords(), None), false),
        (options(passwords(), Some(tls.clone())), true),
    ] {
        let db = std::sync::Arc::clone(&served.db);
        let bound = Server::bind("0.0.0.0:0".parse().unwrap(), options, move || db.session()).await;
        assert_eq!(bound.as_ref().err().map(|error| error.kind()), (!allowed).then_some(ErrorKind::InvalidSetting));
    }
    assert!(Tls::new(b"nothing", include_bytes!("key.pem")).is_err());
    assert!(Tls::new(include_bytes!("certificate.pem"), b"nothing").is_err());
}

/// A server whose passwords' file has `alluvia`, and whose database has roles.
async fn with_roles() -> crate::support::Served {
    let Access::Passwords(file) = passwords() else { unreachable!("passwords") };
    crate::support::serve_on(move |db| {
        let directory = db.engine().directory(["alluvia"]);
        let access = Access::Passwords(file.with_directory(directory));
        ServerOptions { access, ..ServerOptions::default() }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_logs_in_with_its_password_and_does_what_it_was_granted() {
    let served = with_roles().await;
    let mut config = served.config();
    config.password("right \u{e4}");
    let admin = served.client_with(&config).await.unwrap();
    admin
        .batch_execute(
            "CREATE TABLE sales (price DOUBLE); CREATE TABLE wages (amount DOUBLE);
             CREATE ROLE grafana LOGIN PASSWORD 'pass word'; ALTER ROLE grafana SET max_error = 0.01;
             GRANT SELECT ON sales TO grafana; CREATE ROLE readers",
        )
        .await
        .unwrap();
    config.user("grafana").password("pass word").options("-c confidence=0.99");
    let client = served.client_with(&config).await.unwrap();
    assert_eq!(texts(&client, "SELECT current_user").await, ["grafana"]);
    assert_eq!(texts(&client, "SHOW max_error").await, ["0.01"]);
    assert_eq!(texts(&client, "SHOW confidence").await, ["0.99"]);
    assert_eq!(texts(&client, "SELECT count(*) FROM sales").await, ["0"]);
    for sql in ["SELECT * FROM wages", "INSERT INTO sales VALUES (1)", "CREATE TABLE x (a INT)", "DROP TABLE sales"] {
        let refused = client.simple_query(sql).await.unwrap_err();
        assert_eq!(state(&refused), "42501", "{sql}");
        assert!(refused.as_db_error().unwrap().hint().unwrap().contains("grafana"), "{sql}");
        // Over the extended protocol it shows when the statement is described.
        assert_eq!(
            state(&client.prepare(sql).await.and(client.execute(sql, &[]).await).unwrap_err()),
            "42501",
            "{sql}"
        );
    }
    // A client's own settings come after those of its role.
    config.options("-c max_error=0.5");
    assert_eq!(texts(&served.client_with(&config).await.unwrap(), "SHOW max_error").await, ["0.5"]);
    // What the role's password is decides, and whether it may log in.
    for (change, password, wanted) in [
        ("ALTER ROLE grafana PASSWORD 'new'", "pass word", "28P01"),
        ("ALTER ROLE grafana NOLOGIN", "new", "28P01"),
        ("ALTER ROLE grafana LOGIN", "new", ""),
        ("REVOKE CONNECT ON DATABASE alluvia FROM PUBLIC", "new", "42501"),
        ("GRANT CONNECT ON DATABASE alluvia TO grafana", "new", ""),
        ("ALTER ROLE grafana PASSWORD NULL", "new", "28P01"),
        ("DROP ROLE grafana", "new", "28P01"),
    ] {
        admin.batch_execute(change).await.unwrap();
        let found =
            served.client_with(config.password(password)).await.err().map_or(String::new(), |error| state(&error));
        assert_eq!(found, wanted, "{change}");
    }
    assert_eq!(state(&client.simple_query("SELECT 1").await.unwrap_err()), "42501");
    let log_ins = "SELECT outcome || ' ' || user_name || ' ' || coalesce(message, '') FROM alluvia.audit \
                   WHERE event = 'log_in' ORDER BY at";
    let log_ins = texts(&admin, log_ins).await;
    assert_eq!(log_ins[..2], ["ok alluvia ", "ok grafana "]);
    assert!(log_ins.contains(&"refused grafana wrong password".to_owned()), "{log_ins:?}");
    assert!(log_ins.contains(&"refused grafana role \"grafana\" may not log in".to_owned()), "{log_ins:?}");
}
