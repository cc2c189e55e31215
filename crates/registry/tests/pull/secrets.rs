//! Secrets stay where they are: nothing that can be printed holds one.

use std::error::Error;
use std::fmt::Write as _;

use registry::{Credentials, PullError, Registry};
use serde_json::json;

use crate::image::{ACCEPT, ANY, Image, blob, blob_of, deserted, manifest_of, reference, resolve, settings};
use crate::logins::{BASIC, config, credentials, locked, token_server};
use crate::server::{Access, Answer, Server};

const SECRETS: [&str; 4] = ["hunter2", "bWU6aHVudGVyMg", "eyJhbGciOi", "c2VjcmV0-token"];

fn keeps_secrets(shown: &str) {
    for secret in SECRETS {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

/// An error with its hint and all its causes, as anybody could print it.
fn whole(error: &PullError) -> String {
    let mut shown = format!("{error} {error:?} {error:#?} {:?}", error.hint());
    let mut source = error.source();
    while let Some(inner) = source {
        write!(shown, " {inner} {inner:?}").unwrap();
        source = inner.source();
    }
    shown
}

#[tokio::test]
async fn a_client_that_holds_secrets_shows_none() {
    let server = Server::start().await;
    let key = token_server(&server, Some(BASIC));
    Image::new("image").put(&server, "1.0", &locked(&server, &key));
    let credentials = config(&server.host, "me", "hunter2");
    keeps_secrets(&format!("{credentials:?} {credentials:#?}"));
    let registry = Registry::with_settings(credentials, settings()).unwrap();
    resolve(&registry, &reference(&server, ":1.0")).await.unwrap();
    keeps_secrets(&format!("{registry:?} {registry:#?}"));
}

#[tokio::test]
async fn a_server_that_repeats_what_it_was_told_is_not_quoted() {
    let echo = json!({ "errors": [{ "code": "DENIED", "message": format!("no me:hunter2, no {BASIC}, no eyJhbGciOi.c2VjcmV0-token_~+/==") }] });
    let echo = echo.to_string();
    // A password, at the registry.
    let server = Server::start().await;
    let access = Access::Locked { challenge: "Basic".to_owned(), key: BASIC.to_owned() };
    let no = Answer::new("403 Forbidden", &[], echo.replace("eyJhbGciOi.c2VjcmV0-token_~+/==", "more").as_bytes());
    server.expect(&manifest_of("1.0"), ACCEPT, &access, [no]);
    let registry = Registry::with_settings(config(&server.host, "me", "hunter2"), settings()).unwrap();
    let error = resolve(&registry, &reference(&server, ":1.0")).await.unwrap_err();
    assert!(
        matches!(&error, PullError::Denied { message, .. } if message.as_str().contains("[REDACTED]")),
        "{error:?}"
    );
    keeps_secrets(&whole(&error));
    // A token, at the registry.
    let server = Server::start().await;
    let key = token_server(&server, None);
    let no = Answer::new("403 Forbidden", &[], echo.replace("hunter2", "x").replace(BASIC, "y").as_bytes());
    server.expect(&manifest_of("1.0"), ACCEPT, &locked(&server, &key), [no]);
    let registry = Registry::with_settings(Credentials::none(), settings()).unwrap();
    keeps_secrets(&whole(&resolve(&registry, &reference(&server, ":1.0")).await.unwrap_err()));
    // An identity token, at the realm.
    let server = Server::start().await;
    let form = "grant_type=refresh_token&client_id=ringfence&service=the+registry\
                &scope=repository%3Ateam%2Ftool%3Apull&refresh_token=hunter2";
    let body = format!(r#"{{"error":"invalid_grant","error_description":"{form}"}}"#);
    let no = Answer::new("400 Bad Request", &[], body.as_bytes());
    server.expect_form("POST /token", "application/json", form, no);
    Image::new("image").put(&server, "1.0", &locked(&server, "never"));
    let credentials = credentials(&json!({ "auths": { &server.host: { "identitytoken": "hunter2" } } }));
    let registry = Registry::with_settings(credentials, settings()).unwrap();
    let error = resolve(&registry, &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::LoginRefused { .. }), "{error:?}");
    keeps_secrets(&whole(&error));
}

#[tokio::test]
async fn a_signed_address_is_not_shown_when_its_server_fails() {
    let image = Image::new("image");
    let (server, (_socket, gone)) = (Server::start().await, deserted());
    let layer = image.layer(0);
    let location = format!("http://{gone}/data?X-Amz-Signature=hunter2");
    server.expect(&blob_of(&layer.digest), ANY, &Access::Open, [Answer::redirect(&location)]);
    let registry = Registry::with_settings(Credentials::none(), settings()).unwrap();
    let error = blob(&registry, &reference(&server, ""), &layer).await.unwrap_err();
    assert!(matches!(error, PullError::Unreachable { .. }), "{error:?}");
    keeps_secrets(&whole(&error));
}
