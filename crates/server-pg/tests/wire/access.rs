//! Passwords, TLS, and what may not be served without them.

use crate::support::{serve, serve_with, state, texts};
use alluvia_access::{Access, Passwords, Tls, Verifier};
use alluvia_server_pg::{Server, ServerOptions};
use alluvia_types::ErrorKind;

fn passwords() -> Access {
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
    // One right password forgives the wrong ones.
    config.user("alluvia").password("right \u{e4}");
    served.client_with(&config).await.unwrap();
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
