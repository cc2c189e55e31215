//! Credential helpers: programs of the user's that keep logins, `docker-credential-NAME`.
//!
//! The protocol is Docker's: the argument `get`, the registry on standard input, JSON on standard output. What they print
//! is never shown, because it may be the secret.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use strangers::Shown;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::credentials::Login;
use crate::credentials_error::CredentialsError;

/// The longest answer.
const MAX_ANSWER: u64 = 64 << 10;
/// What helpers print when they have no login; they end with an error then.
const NOT_FOUND: &str = "credentials not found";
/// What helpers give for a name when the secret is an identity token.
const TOKEN_NAME: &str = "<token>";

/// A helper to be run.
#[derive(Debug)]
pub(crate) struct Helper<'a> {
    pub(crate) name: &'a str,
    /// Where to look for it; `None` is this process' `PATH`.
    pub(crate) search_path: Option<&'a OsStr>,
    pub(crate) deadline: Duration,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

impl Helper<'_> {
    /// The login that the helper keeps for a registry, if it does.
    pub(crate) async fn get(&self, server: &str) -> Result<Option<Login>, CredentialsError> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if self.name.is_empty() || !self.name.bytes().all(is_letter) {
            return Err(CredentialsError::HelperName { name: Shown::new(self.name) });
        }
        let program = format!("docker-credential-{}", self.name);
        let failed = |source| CredentialsError::Helper { program: program.clone(), source };
        let path = self.find(&program).ok_or_else(|| CredentialsError::HelperMissing { program: program.clone() })?;
        let mut command = Command::new(path);
        command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        if let Some(search_path) = self.search_path {
            command.env("PATH", search_path);
        }
        let mut child = command.spawn().map_err(failed)?;
        let talk = tokio::time::timeout(self.deadline, talk(&mut child, server)).await;
        let Ok(talk) = talk else {
            child.kill().await.map_err(failed)?;
            return Err(CredentialsError::HelperStalled { program, after: self.deadline });
        };
        match talk.map_err(failed)? {
            Some((status, answer)) if status.success() => {
                let login = read(&answer).ok_or(CredentialsError::HelperAnswer { program })?;
                Ok(Some(login))
            }
            Some((_, answer)) if String::from_utf8_lossy(&answer).contains(NOT_FOUND) => Ok(None),
            Some((status, _)) => Err(CredentialsError::HelperFailed { program, status }),
            None => {
                child.kill().await.map_err(failed)?;
                Err(CredentialsError::HelperAnswer { program })
            }
        }
    }

    /// The program in the search path. Relative directories are passed over: they are whoever's we happen to be in.
    fn find(&self, program: &str) -> Option<PathBuf> {
        let search_path = self.search_path.map(OsStr::to_owned).or_else(|| std::env::var_os("PATH"))?;
        let is_program =
            |path: &Path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
        let mut candidates = std::env::split_paths(&search_path).filter(|directory| directory.is_absolute());
        candidates.find_map(|directory| Some(directory.join(program)).filter(|path| is_program(path)))
    }
}

/// Asks a helper; gives how it ended and what it said, or nothing when it said too much.
async fn talk(child: &mut Child, server: &str) -> io::Result<Option<(ExitStatus, Vec<u8>)>> {
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(server.as_bytes()).await {
            // A helper with one login need not read whose it is asked for.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => {}
        }
    }
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_ANSWER + 1).read_to_end(&mut answer).await?;
    }
    if u64::try_from(answer.len()).is_ok_and(|length| length > MAX_ANSWER) {
        return Ok(None);
    }
    Ok(Some((child.wait().await?, answer)))
}

fn read(answer: &[u8]) -> Option<Login> {
    let answer: Answer = serde_json::from_slice(answer).ok()?;
    let secret = SecretString::from(answer.secret);
    let login = match answer.username.as_str() {
        "" => return None,
        TOKEN_NAME => Login::IdentityToken(secret),
        _ => Login::Password { name: answer.username, password: secret },
    };
    Some(login)
}
