use secrecy::ExposeSecret as _;

use super::*;

/// What a login is made of: kind or name, and the secret.
async fn found(config: &str, registry: &str) -> Result<Option<(String, String)>, CredentialsError> {
    let credentials = docker_config::parse(config.as_bytes()).unwrap();
    let login = credentials.login(registry).await?;
    Ok(login.map(|login| match login {
        Login::Password { name, password } => (name, password.expose_secret().to_owned()),
        Login::IdentityToken(token) => ("<token>".to_owned(), token.expose_secret().to_owned()),
    }))
}

fn login(name: &str, secret: &str) -> (String, String) {
    (name.to_owned(), secret.to_owned())
}

#[tokio::test]
async fn entries_are_found_under_every_name_of_a_registry() {
    for (key, registry) in [
        ("ghcr.io", "ghcr.io"),
        ("https://ghcr.io", "ghcr.io"),
        ("https://ghcr.io/v1/", "ghcr.io"),
        ("http://localhost:5000/v2/", "localhost:5000"),
        ("https://index.docker.io/v1/", "docker.io"),
        ("docker.io", "docker.io"),
        ("index.docker.io", "docker.io"),
    ] {
        let config = format!(r#"{{"auths":{{"{key}":{{"auth":"bWU6cGFzczp3b3JkAA=="}}}},"HttpHeaders":{{}}}}"#);
        assert_eq!(found(&config, registry).await.unwrap(), Some(login("me", "pass:word")), "{key}");
        for other in ["ghcr.io:443", "hcr.io", "localhost", "ghcr.io.example.org"] {
            assert_eq!(found(&config, other).await.unwrap(), None, "{key} {other}");
        }
    }
}

#[tokio::test]
async fn every_kind_of_entry_is_understood() {
    for (entry, expected) in [
        (r#"{"username":"me","password":"p"}"#, Some(login("me", "p"))),
        (r#"{"auth":"bWU6cA==","identitytoken":"t"}"#, Some(login("<token>", "t"))),
        (r#"{"auth":"","identitytoken":""}"#, None),
        ("{}", None),
    ] {
        let config = format!(r#"{{"auths":{{"a.b":{entry}}}}}"#);
        assert_eq!(found(&config, "a.b").await.unwrap(), expected, "{entry}");
    }
    assert_eq!(found("{}", "a.b").await.unwrap(), None);
}

#[tokio::test]
async fn a_broken_entry_is_an_error_for_its_own_registry_only() {
    for auth in ["!", "bWU=", "OnA=", "bWU6", "//79"] {
        let config = format!(r#"{{"auths":{{"a.b":{{"auth":"{auth}"}}}}}}"#);
        assert!(matches!(found(&config, "a.b").await, Err(CredentialsError::Entry { .. })), "{auth}");
        assert_eq!(found(&config, "c.d").await.unwrap(), None, "{auth}");
    }
}

#[tokio::test]
async fn a_helper_that_could_be_any_program_is_refused() {
    for name in ["../evil", "a/b", "a b", ""] {
        let config = format!(r#"{{"credHelpers":{{"a.b":"{name}"}}}}"#);
        assert!(matches!(found(&config, "a.b").await, Err(CredentialsError::HelperName { .. })), "{name}");
    }
}

#[test]
fn a_broken_configuration_says_where_and_not_what() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config.json");
    std::fs::write(&path, "{\n\"auths\": {\"a.b\": \"hunter2\"}}").unwrap();
    let error = Credentials::from_docker_config(Some(&path)).unwrap_err();
    assert!(matches!(error, CredentialsError::Malformed { line: 2, .. }), "{error:?}");
    assert!(!format!("{error:?} {error}").contains("hunter2"));
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(matches!(Credentials::from_docker_config(Some(&path)), Err(CredentialsError::TooLarge { .. })));
    let absent = directory.path().join("absent.json");
    assert!(matches!(Credentials::from_docker_config(Some(&absent)), Err(CredentialsError::Read { .. })));
}

#[test]
fn debug_shows_no_secret() {
    let config = r#"{"auths":{"a.b":{"auth":"bWU6aHVudGVyMg=="},"c.d":{"identitytoken":"hunter2"}},"credsStore":"x"}"#;
    let credentials = docker_config::parse(config.as_bytes()).unwrap();
    let shown = format!("{credentials:?} {:?}", credentials.entries);
    assert!(shown.contains("a.b") && !shown.contains("hunter2") && !shown.contains("bWU6"), "{shown}");
}
