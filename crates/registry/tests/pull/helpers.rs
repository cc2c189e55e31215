//! Credential helpers: programs that are run, not files that are read.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use registry::{Credentials, CredentialsError, PullError, Registry};
use serde_json::json;
use tempfile::TempDir;

use crate::image::{Image, reference, resolve, settings};
use crate::logins::{BASIC, credentials};
use crate::server::{Access, Server};

/// A directory with the helper `docker-credential-vault`.
struct Vault(TempDir);

impl Vault {
    fn new(script: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let text = directory.path().join("script");
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Written by another process: one that we write ourselves may be held open by a test that is just forking, and
        // is then busy.
        let program = directory.path().join("docker-credential-vault");
        let mut install = std::process::Command::new("install");
        assert!(install.args(["-m", "755"]).args([&text, &program]).status().unwrap().success());
        Self(directory)
    }

    /// Where the helper may note something.
    fn note(&self) -> PathBuf {
        self.0.path().join("note")
    }

    fn search_path(&self) -> String {
        let mut path = String::from("relative:");
        write!(path, "{}:/usr/bin:/bin", self.0.path().display()).unwrap();
        path
    }

    fn credentials(&self, config: &serde_json::Value) -> Credentials {
        credentials(config).with_search_path(self.search_path())
    }
}

/// A registry that wants `me:hunter2`.
async fn guarded() -> Server {
    let server = Server::start().await;
    let access = Access::Locked { challenge: "Basic realm=\"x\"".to_owned(), key: BASIC.to_owned() };
    Image::new("image").put(&server, "1.0", &access);
    server
}

async fn resolving(server: &Server, credentials: Credentials) -> Result<(), PullError> {
    let registry = Registry::with_settings(credentials, settings()).unwrap();
    resolve(&registry, &reference(server, ":1.0")).await.map(drop)
}

/// Why the credentials could not be found out with such a helper.
async fn failing(script: &str) -> CredentialsError {
    let (vault, server) = (Vault::new(script), guarded().await);
    let credentials = vault.credentials(&json!({ "credsStore": "vault" }));
    match resolving(&server, credentials.with_helper_deadline(Duration::from_secs(5))).await {
        Err(PullError::Credentials { source, .. }) => source,
        other => panic!("{other:?}"),
    }
}

const GOOD: &str = r#"printf '{"ServerURL":"x","Username":"me","Secret":"hunter2"}'"#;

#[tokio::test]
async fn a_helper_is_asked_as_docker_asks_it() {
    let vault = Vault::new(&format!(r#"{{ echo "$#-$1"; cat; }} > "$(dirname "$0")/note"; {GOOD}"#));
    let server = guarded().await;
    for config in [json!({ "credsStore": "vault" }), json!({ "credHelpers": { &server.host: "vault" } })] {
        resolving(&server, vault.credentials(&config)).await.unwrap();
        assert_eq!(std::fs::read_to_string(vault.note()).unwrap(), format!("1-get\n{}", server.host));
        std::fs::remove_file(vault.note()).unwrap();
    }
}

#[tokio::test]
async fn a_helper_of_its_own_comes_before_the_one_for_all() {
    let (vault, server) = (Vault::new(GOOD), guarded().await);
    let config =
        json!({ "credsStore": "absent", "credHelpers": { &server.host: "vault", "other.example.org": "absent" } });
    resolving(&server, vault.credentials(&config)).await.unwrap();
}

#[tokio::test]
async fn a_helper_without_a_login_leaves_the_file() {
    let (vault, server) = (Vault::new("echo 'credentials not found in native keychain'; exit 1"), guarded().await);
    let config = json!({ "credsStore": "vault", "auths": { &server.host: { "auth": "bWU6aHVudGVyMg==" } } });
    resolving(&server, vault.credentials(&config)).await.unwrap();
    let error = resolving(&server, vault.credentials(&json!({ "credsStore": "vault" }))).await.unwrap_err();
    assert!(matches!(error, PullError::LoginNeeded { .. }), "{error:?}");
}

#[tokio::test]
async fn no_helper_is_run_before_a_registry_asks() {
    let vault = Vault::new(r#"touch "$(dirname "$0")/note""#);
    let server = Server::start().await;
    Image::new("image").put(&server, "1.0", &Access::Open);
    resolving(&server, vault.credentials(&json!({ "credsStore": "vault" }))).await.unwrap();
    assert!(!Path::new(&vault.note()).exists());
}

#[tokio::test]
async fn a_helper_that_fails_is_named_and_not_quoted() {
    for (script, what) in [
        ("echo hunter2; exit 3", "`docker-credential-vault` failed (exit status: 3)"),
        ("echo hunter2", "`docker-credential-vault` gave no login"),
        (r#"printf '{"Username":"","Secret":"hunter2"}'"#, "`docker-credential-vault` gave no login"),
        ("exec yes hunter2", "`docker-credential-vault` gave no login"),
    ] {
        let error = failing(script).await;
        assert_eq!(error.to_string(), what, "{script}");
        assert!(!format!("{error:?} {}", error.hint()).contains("hunter2"), "{error:?}");
    }
}

#[tokio::test]
async fn a_helper_that_does_not_end_is_ended() {
    let vault = Vault::new(r#"echo $$ > "$(dirname "$0")/note"; exec sleep 600"#);
    let server = guarded().await;
    let credentials = vault.credentials(&json!({ "credsStore": "vault" }));
    let begin = Instant::now();
    let error = resolving(&server, credentials.with_helper_deadline(Duration::from_secs(2))).await.unwrap_err();
    let PullError::Credentials { source: CredentialsError::HelperStalled { .. }, .. } = error else {
        panic!("{error:?}")
    };
    assert!(begin.elapsed() < Duration::from_mins(1));
    let pid = std::fs::read_to_string(vault.note()).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists());
}

#[tokio::test]
async fn a_helper_in_a_relative_directory_is_not_run() {
    let (vault, server) = (Vault::new(GOOD), guarded().await);
    let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    let relative = Path::new(&up).join(vault.0.path().strip_prefix("/").unwrap());
    assert!(relative.join("docker-credential-vault").exists());
    let credentials = credentials(&json!({ "credsStore": "vault" })).with_search_path(relative);
    let error = resolving(&server, credentials).await.unwrap_err();
    let PullError::Credentials { source: CredentialsError::HelperMissing { .. }, .. } = error else {
        panic!("{error:?}")
    };
}

#[tokio::test]
async fn a_helper_that_is_not_there_is_missing() {
    let (vault, server) = (Vault::new(GOOD), guarded().await);
    let error = resolving(&server, vault.credentials(&json!({ "credsStore": "absent" }))).await.unwrap_err();
    let PullError::Credentials { source: CredentialsError::HelperMissing { program }, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!(program, "docker-credential-absent");
}
