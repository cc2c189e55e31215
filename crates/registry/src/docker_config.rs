//! Docker's configuration, as far as it holds credentials.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::SecretString;
use serde::Deserialize;

use crate::credentials::{Credentials, Entry, Login};
use crate::credentials_error::CredentialsError;

const MAX_FILE: u64 = 1 << 20;

/// Without `Debug`: this is where secrets are plain text, for a moment.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    auths: Option<BTreeMap<String, RawLogin>>,
    cred_helpers: Option<BTreeMap<String, String>>,
    creds_store: Option<String>,
}

#[derive(Deserialize)]
struct RawLogin {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// Reads the configuration at the usual place; where there is none, there are no logins.
pub(crate) fn read_default() -> Result<Credentials, CredentialsError> {
    let directory = std::env::var_os("DOCKER_CONFIG").filter(|directory| !directory.is_empty()).map(PathBuf::from);
    let directory = directory.or_else(|| std::env::home_dir().map(|home| home.join(".docker")));
    let Some(directory) = directory else { return Ok(Credentials::none()) };
    match read(&directory.join("config.json")) {
        Err(CredentialsError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(Credentials::none())
        }
        read => read,
    }
}

/// Reads a configuration.
pub(crate) fn read(path: &Path) -> Result<Credentials, CredentialsError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
    let length = read.map_err(|source| CredentialsError::Read { path: path.to_owned(), source })?;
    if u64::try_from(length).is_ok_and(|length| length > MAX_FILE) {
        return Err(CredentialsError::TooLarge { path: path.to_owned(), limit: MAX_FILE });
    }
    parse(&bytes).map_err(|error| CredentialsError::Malformed {
        path: path.to_owned(),
        line: error.line(),
        column: error.column(),
    })
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Credentials, serde_json::Error> {
    let config: Config = serde_json::from_slice(bytes)?;
    let auths = config.auths.unwrap_or_default().into_iter();
    let mut credentials = Credentials::none();
    credentials.entries = auths.filter_map(|(server, raw)| Some((server, entry(raw)?))).collect();
    credentials.helpers = config.cred_helpers.unwrap_or_default();
    credentials.store = config.creds_store.filter(|store| !store.is_empty());
    Ok(credentials)
}

/// What an entry holds; nothing when a helper keeps what it names.
fn entry(raw: RawLogin) -> Option<Entry> {
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    if let Some(token) = filled(raw.identitytoken) {
        return Some(Entry::Login(Login::IdentityToken(SecretString::from(token))));
    }
    if let Some(encoded) = filled(raw.auth) {
        return Some(decode(&encoded).map_or(Entry::Unreadable, Entry::Login));
    }
    let (name, password) = (filled(raw.username)?, SecretString::from(filled(raw.password)?));
    Some(Entry::Login(Login::Password { name, password }))
}

fn decode(encoded: &str) -> Option<Login> {
    let decoded = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (name, password) = decoded.split_once(':')?;
    // Old versions of Docker filled up with zeros.
    let password = password.trim_end_matches('\0');
    let good = !name.is_empty() && !password.is_empty();
    good.then(|| Login::Password { name: name.to_owned(), password: SecretString::from(password) })
}
