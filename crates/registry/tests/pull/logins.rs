//! Logins: who gets which proof, and what is said when it does not fit.

use registry::{Credentials, PullError, Registry, Unsafe};
use serde_json::json;

use crate::image::{ACCEPT, Image, manifest_of, nobody, pull, reference, resolve, settings};
use crate::server::{Access, Answer, Server};

const JSON: &str = "application/json";
/// `me:hunter2`
pub(crate) const BASIC: &str = "Basic bWU6aHVudGVyMg==";
const TOKEN: &str = "eyJhbGciOi.c2VjcmV0-token_~+/==";
const QUERY: &str = "/token?service=the+registry&scope=repository%3Ateam%2Ftool%3Apull";

/// Credentials for one registry, from a file as Docker writes it.
pub(crate) fn config(registry: &str, name: &str, password: &str) -> Credentials {
    credentials(&json!({ "auths": { registry: { "username": name, "password": password } } }))
}

pub(crate) fn credentials(config: &serde_json::Value) -> Credentials {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    std::fs::write(&path, config.to_string()).unwrap();
    Credentials::from_docker_config(Some(&path)).unwrap()
}

fn challenge(realm: &str) -> String {
    // The scope asks for more than is needed, and does not get it.
    format!("Bearer realm=\"{realm}\",service=\"the registry\",scope=\"repository:team/tool:pull,push,delete\"")
}

/// What a registry with tokens of its own demands.
pub(crate) fn locked(server: &Server, key: &str) -> Access {
    Access::Locked { challenge: challenge(&format!("http://{}/token", server.host)), key: key.to_owned() }
}

/// Has a server give tokens, to those with a proof if there is one; gives the key that it makes.
pub(crate) fn token_server(server: &Server, proof: Option<&str>) -> String {
    let access = proof.map_or(Access::Open, |proof| Access::Known { key: proof.to_owned() });
    let answer = json!({ "token": TOKEN, "expires_in": 300 }).to_string();
    server.expect(&format!("GET {QUERY}"), JSON, &access, [Answer::ok(JSON, answer.as_bytes())]);
    format!("Bearer {TOKEN}")
}

fn registry(credentials: Credentials) -> Registry {
    Registry::with_settings(credentials, settings()).unwrap()
}

#[tokio::test]
async fn a_token_is_fetched_once_and_used_for_all() {
    let image = Image::new("image");
    let server = Server::start().await;
    let key = token_server(&server, None);
    image.put(&server, "1.0", &locked(&server, &key));
    let registry = nobody();
    for _ in 0..2 {
        let (_, blobs) = pull(&registry, &reference(&server, ":1.0")).await.unwrap();
        assert_eq!(blobs, image.blobs);
    }
    let heard = server.heard();
    let manifest = manifest_of("1.0");
    assert_eq!(heard[..3], [manifest.clone(), format!("GET {QUERY}"), manifest]);
    assert_eq!(heard.len(), 3 + 3 + 4);
}

#[tokio::test]
async fn a_token_is_for_one_repository_of_one_registry() {
    let image = Image::new("image");
    let (server, neighbour) = (Server::start().await, Server::start().await);
    let key = token_server(&server, None);
    image.put(&server, "1.0", &locked(&server, &key));
    image.put(&neighbour, "1.0", &Access::Open);
    let other = locked(&server, "Bearer other");
    let manifest = Answer::ok(image.media_type, &image.manifest);
    server.expect("GET /v2/team/other/manifests/1.0", ACCEPT, &other, [manifest]);
    let query = QUERY.replace("tool", "other");
    server.expect(&format!("GET {query}"), JSON, &Access::Open, [Answer::ok(JSON, br#"{"token":"other"}"#)]);
    let registry = nobody();
    let other = format!("{}/team/other:1.0", server.host).parse().unwrap();
    for reference in [reference(&server, ":1.0"), other, reference(&neighbour, ":1.0"), reference(&server, ":1.0")] {
        resolve(&registry, &reference).await.unwrap();
    }
    assert_eq!((server.heard().len(), neighbour.heard().len()), (3 + 3 + 1, 1));
}

#[tokio::test]
async fn credentials_go_to_the_realm_and_only_the_token_to_the_registry() {
    let image = Image::new("image");
    let (server, realm) = (Server::start().await, Server::start().await);
    let key = token_server(&realm, Some(BASIC));
    image.put(&server, "1.0", &locked(&realm, &key));
    let registry = registry(config(&server.host, "me", "hunter2"));
    let (_, blobs) = pull(&registry, &reference(&server, ":1.0")).await.unwrap();
    assert_eq!((blobs, realm.heard().len()), (image.blobs, 1));
}

#[tokio::test]
async fn credentials_of_another_registry_are_not_used() {
    let image = Image::new("image");
    let (server, realm) = (Server::start().await, Server::start().await);
    let key = token_server(&realm, None);
    image.put(&server, "1.0", &locked(&realm, &key));
    // Those for the realm's own host are not for the registry either.
    let registry = registry(config(&realm.host, "me", "hunter2"));
    assert!(resolve(&registry, &reference(&server, ":1.0")).await.is_ok());
}

#[tokio::test]
async fn a_token_that_is_no_longer_good_is_replaced() {
    let image = Image::new("image");
    let server = Server::start().await;
    let answers = ["old", "new"].map(|token| Answer::ok(JSON, json!({ "access_token": token }).to_string().as_bytes()));
    server.expect(&format!("GET {QUERY}"), JSON, &Access::Open, answers);
    image.put(&server, "1.0", &locked(&server, "Bearer old"));
    let registry = nobody();
    resolve(&registry, &reference(&server, ":1.0")).await.unwrap();
    let stale = locked(&server, "Bearer old");
    let Access::Locked { challenge, .. } = stale else { panic!("{stale:?}") };
    let changed = Access::Changed { challenge, old: "Bearer old".to_owned(), key: "Bearer new".to_owned() };
    image.put(&server, "1.0", &changed);
    resolve(&registry, &reference(&server, ":1.0")).await.unwrap();
    assert_eq!(server.heard().len(), 3 + 3);
}

#[tokio::test]
async fn an_identity_token_is_exchanged_by_form() {
    let image = Image::new("image");
    let server = Server::start().await;
    let form = "grant_type=refresh_token&client_id=ringfence&service=the+registry\
                &scope=repository%3Ateam%2Ftool%3Apull&refresh_token=hunter2%2F%2B";
    let answer = json!({ "access_token": TOKEN }).to_string();
    server.expect_form("POST /token", JSON, form, Answer::ok(JSON, answer.as_bytes()));
    image.put(&server, "1.0", &locked(&server, &format!("Bearer {TOKEN}")));
    let config = json!({ "auths": { &server.host: { "identitytoken": "hunter2/+" } } });
    assert!(resolve(&registry(credentials(&config)), &reference(&server, ":1.0")).await.is_ok());
}

#[tokio::test]
async fn basic_is_answered_with_name_and_password() {
    let image = Image::new("image");
    let server = Server::start().await;
    let access = Access::Locked { challenge: "Basic realm=\"x\"".to_owned(), key: BASIC.to_owned() };
    image.put(&server, "1.0", &access);
    let (_, blobs) = pull(&registry(config(&server.host, "me", "hunter2")), &reference(&server, ":1.0")).await.unwrap();
    assert_eq!(blobs, image.blobs);
    let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::LoginNeeded { .. }), "{error:?}");
    let hint = format!("check the name of the image, or log in with `docker login {}`", server.host);
    assert_eq!(error.hint(), Some(hint));
}

#[tokio::test]
async fn a_wrong_password_is_said_to_be_one() {
    let image = Image::new("image");
    // At the realm.
    let server = Server::start().await;
    let body = br#"{"details":"incorrect username or password"}"#;
    let no = Answer::new("401 Unauthorized", &[], body);
    server.expect(&format!("GET {QUERY}"), JSON, &Access::Known { key: BASIC.to_owned() }, [no]);
    image.put(&server, "1.0", &locked(&server, "never"));
    let error =
        resolve(&registry(config(&server.host, "me", "hunter2")), &reference(&server, ":1.0")).await.unwrap_err();
    let expected = format!("`{0}` refused the login for `{0}`: incorrect username or password", server.host);
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.hint(), Some(format!("log in again with `docker login {}`", server.host)));
    // At the registry itself.
    let server = Server::start().await;
    let challenge = "Basic realm=\"x\"".to_owned();
    image.put(&server, "1.0", &Access::Wrong { challenge, key: BASIC.to_owned() });
    let error =
        resolve(&registry(config(&server.host, "me", "hunter2")), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::LoginRefused { .. }), "{error:?}");
    assert_eq!(server.heard().len(), 2);
}

#[tokio::test]
async fn a_token_that_does_not_open_the_repository_is_not_called_a_wrong_password() {
    let image = Image::new("image");
    for (credentials_given, proof) in [(true, Some(BASIC)), (false, None)] {
        let server = Server::start().await;
        let key = token_server(&server, proof);
        let challenge = challenge(&format!("http://{}/token", server.host));
        image.put(&server, "1.0", &Access::Wrong { challenge, key });
        let credentials = if credentials_given { config(&server.host, "me", "hunter2") } else { Credentials::none() };
        let error = resolve(&registry(credentials), &reference(&server, ":1.0")).await.unwrap_err();
        match error {
            PullError::Denied { .. } if credentials_given => {}
            PullError::LoginNeeded { .. } if !credentials_given => {}
            error => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn an_unsafe_realm_is_not_asked() {
    let image = Image::new("image");
    for (realm, expected) in [
        ("http://auth.invalid/token", Unsafe::NotSecure),
        ("http://10.0.0.1/token", Unsafe::NotSecure),
        ("http://me:hunter2@127.0.0.1/token", Unsafe::Login),
        ("/token", Unsafe::NotAnAddress),
        ("file:///etc/passwd", Unsafe::NotSecure),
    ] {
        let server = Server::start().await;
        image.put(&server, "1.0", &Access::Locked { challenge: challenge(realm), key: "never".to_owned() });
        let registry = registry(config(&server.host, "me", "hunter2"));
        let error = resolve(&registry, &reference(&server, ":1.0")).await.unwrap_err();
        assert!(matches!(error, PullError::Realm { why, .. } if why == expected), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert_eq!(server.heard(), [manifest_of("1.0")]);
    }
}

#[tokio::test]
async fn a_realm_that_redirects_is_left() {
    let image = Image::new("image");
    let (server, other) = (Server::start().await, Server::start().await);
    let location = format!("http://{}{QUERY}", other.host);
    let access = Access::Known { key: BASIC.to_owned() };
    server.expect(&format!("GET {QUERY}"), JSON, &access, [Answer::redirect(&location)]);
    image.put(&server, "1.0", &locked(&server, "never"));
    let error =
        resolve(&registry(config(&server.host, "me", "hunter2")), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::Redirect { why: Unsafe::Realm, .. }), "{error:?}");
    assert_eq!(other.heard(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_no_token_is_refused() {
    let image = Image::new("image");
    let large = format!(r#"{{"token":"{}"}}"#, "a".repeat(1 << 20));
    for body in
        ["{}", r#"{"token":""}"#, r#"{"token":"a b"}"#, r#"{"token":"a\r\nX: y"}"#, "\"hunter2\"", "<html>", &large]
    {
        let server = Server::start().await;
        server.expect(&format!("GET {QUERY}"), JSON, &Access::Open, [Answer::ok(JSON, body.as_bytes())]);
        image.put(&server, "1.0", &locked(&server, "never"));
        let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
        let large = matches!(error, PullError::AnswerTooLarge { limit: 1_048_576, .. });
        assert_eq!(large, body.len() > 1 << 20, "{error:?}");
        assert!(large || matches!(error, PullError::Token { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn a_challenge_of_an_unknown_kind_is_said_to_be_one() {
    let image = Image::new("image");
    for challenge in ["Negotiate", "Bearer service=\"x\"", "Digest realm=\"x\""] {
        let server = Server::start().await;
        let access = Access::Locked { challenge: challenge.to_owned(), key: "never".to_owned() };
        image.put(&server, "1.0", &access);
        let error = resolve(&registry(config(&server.host, "me", "p")), &reference(&server, ":1.0")).await.unwrap_err();
        assert!(matches!(error, PullError::Challenge { .. }), "{error:?}");
    }
    let server = Server::start().await;
    let bare = Answer::new("401 Unauthorized", &[], b"");
    server.expect(&manifest_of("1.0"), ACCEPT, &Access::Open, [bare]);
    let error = resolve(&nobody(), &reference(&server, ":1.0")).await.unwrap_err();
    assert!(matches!(error, PullError::Challenge { .. }), "{error:?}");
}
