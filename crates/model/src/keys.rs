//! Keys: from the environment, or from a file that nobody else can read. They are never shown.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::SecretString;
use thiserror::Error;

use crate::error::ModelError;

/// The variable that names the file with keys: lines `NAME=key`, where names are those of the variables.
pub const KEYRING_VARIABLE: &str = "RINGFENCE_KEYRING";
/// The largest file with keys.
const MAX_BYTES: u64 = 64 << 10;

/// Where variables are looked up: the process' own, or a test's.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Why a file with keys cannot be used.
#[derive(Debug, Error)]
pub enum KeyringProblem {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It is something else.
    #[error("it is not a plain file")]
    NotAFile,
    /// It is somebody else's.
    #[error("it belongs to another user")]
    Owner,
    /// Others can read it.
    #[error("others may use it (mode {0:o})")]
    Mode(u32),
    /// It is too large.
    #[error("it is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// It is not what it should be.
    #[error("line {0} is not NAME=key")]
    Line(usize),
}

impl KeyringProblem {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Read(_) | Self::NotAFile => "check the path; symbolic links are not followed",
            Self::Owner => "a keyring must be your own file",
            Self::Mode(_) => "run chmod 600 on it",
            Self::TooLarge | Self::Line(_) => "write a line such as OPENAI_API_KEY=… for each key",
        }
    }
}

/// Finds the first of these variables: in the environment, then in the keyring. Empty means absent.
pub(crate) fn find(
    names: &[&'static str],
    environment: Environment<'_>,
) -> Result<Option<(&'static str, SecretString)>, ModelError> {
    let set = |name: &str| environment(name).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty());
    for name in names {
        if let Some(key) = set(name) {
            return Ok(Some((name, key.into())));
        }
    }
    let Some(path) = set(KEYRING_VARIABLE).map(PathBuf::from) else { return Ok(None) };
    let keys = read(&path).map_err(|problem| ModelError::Keyring { path, problem })?;
    let found = names.iter().find_map(|name| keys.iter().find(|(found, _)| found == name).map(|(_, key)| (*name, key)));
    Ok(found.map(|(name, key)| (name, key.clone())))
}

/// Reads a keyring. The checks are made on the open file, so that no other is read than was checked.
fn read(path: &Path) -> Result<Vec<(String, SecretString)>, KeyringProblem> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(KeyringProblem::NotAFile);
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(KeyringProblem::Owner);
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(KeyringProblem::Mode(metadata.mode() & 0o7777));
    }
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > MAX_BYTES) {
        return Err(KeyringProblem::TooLarge);
    }
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let stated = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    stated.map(|(number, line)| entry(line).ok_or(KeyringProblem::Line(number))).collect()
}

fn entry(line: &str) -> Option<(String, SecretString)> {
    let (name, key) = line.split_once('=')?;
    let (name, key) = (name.trim(), key.trim());
    let plain =
        name.chars().all(|character| character.is_ascii_uppercase() || character.is_ascii_digit() || character == '_');
    (plain && !name.is_empty() && !key.is_empty()).then(|| (name.to_owned(), key.to_owned().into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use secrecy::ExposeSecret as _;

    use super::*;

    const NAMES: &[&str] = &["OPENAI_API_KEY"];

    fn keyring(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("keys");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (place, path)
    }

    fn found(path: &Path, own: Option<&str>) -> Result<Option<String>, ModelError> {
        let environment = |name: &str| match name {
            KEYRING_VARIABLE => Some(path.display().to_string()),
            "OPENAI_API_KEY" => own.map(str::to_owned),
            _ => None,
        };
        Ok(find(NAMES, &environment)?.map(|(_, key)| key.expose_secret().to_owned()))
    }

    #[test]
    fn keys_come_from_the_environment_and_then_from_the_keyring() {
        let (_place, path) = keyring("# mine\nOTHER=x\n OPENAI_API_KEY = sk-file \n", 0o600);
        assert_eq!(found(&path, Some("sk-own\n")).unwrap().as_deref(), Some("sk-own"));
        assert_eq!(found(&path, Some(" ")).unwrap().as_deref(), Some("sk-file"));
        assert!(find(NAMES, &|_| None).unwrap().is_none());
    }

    #[test]
    fn a_keyring_that_others_can_read_is_refused() {
        let (_place, path) = keyring("OPENAI_API_KEY=sk-file\n", 0o640);
        let error = found(&path, None).unwrap_err();
        assert!(error.to_string().contains("mode 640"), "{error}");
        let link = path.with_file_name("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(matches!(found(&link, None), Err(ModelError::Keyring { problem: KeyringProblem::Read(_), .. })));
        assert!(found(path.parent().unwrap(), None).is_err());
        let (_place, path) = keyring("sk-without-a-name\n", 0o600);
        let error = found(&path, None).unwrap_err();
        assert!(!format!("{error} {error:?} {}", error.hint()).contains("sk-without"), "{error:?}");
    }

    #[test]
    fn keys_are_not_shown() {
        let (_, key) = find(NAMES, &|_| Some("sk-secret".into())).unwrap().unwrap();
        assert!(!format!("{key:?}").contains("sk-secret"));
    }
}
