//! Keys in files: made once and never written over, and read only where nobody else can.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use secrecy::{ExposeSecret as _, SecretBox, SecretSlice};

use crate::file::{flags, open, read};
use crate::key::{PublicKey, SigningKey};
use crate::pem;

/// A key's text has less than 200 bytes.
const LONGEST: u64 = 4096;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the key `{}`", path.display())]
pub struct KeyError {
    /// What was being done.
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Why not.
    #[source]
    pub problem: KeyProblem,
}

/// What is wrong with a key's file.
#[derive(Debug, thiserror::Error)]
pub enum KeyProblem {
    /// The file system says no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is something already.
    #[error("there is a file already, and a key is never written over")]
    Exists,
    /// It is somebody else's.
    #[error("it belongs to another user")]
    Owner,
    /// Others may use it.
    #[error("others may use it (mode {0:o})")]
    Mode(u32),
    /// It is not what it should be.
    #[error("it is not an ed25519 key in PEM")]
    Form,
    /// The kernel gives no random numbers.
    #[error("there are no random numbers")]
    Random,
}

impl KeyError {
    /// What the user can do about it.
    pub fn hint(&self) -> &'static str {
        match &self.problem {
            KeyProblem::Io(error) if error.kind() == io::ErrorKind::NotFound => "make one with `ringfence key new`",
            KeyProblem::Io(_) => "check the path: it must be a plain file, and links are not followed",
            KeyProblem::Exists => {
                "name another file, or move the old key away: receipts that it signed need its public half"
            }
            KeyProblem::Owner => "a signing key must be your own file",
            KeyProblem::Mode(_) => "run chmod 600 on it, or make a new key if others may have read it",
            KeyProblem::Form => {
                "make one with `ringfence key new`, or its public half with `ringfence key show --public FILE`"
            }
            KeyProblem::Random => "try again",
        }
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(KeyProblem) -> KeyError {
    move |problem| KeyError { action, path: path.to_path_buf(), problem }
}

impl SigningKey {
    /// Makes a key and its file, which only its owner may read. What is there already stays.
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let make = || {
            let key = Self::random()?;
            if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
                DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            }
            write_new(path, key.to_pem().expose_secret().as_bytes(), 0o600)?;
            Ok(key)
        };
        make().map_err(failed("make", path))
    }

    /// Reads a key that is ours alone.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let get = || {
            let (file, metadata) = open(path)?;
            if metadata.uid() != rustix::process::geteuid().as_raw() {
                return Err(KeyProblem::Owner);
            }
            if metadata.mode() & 0o077 != 0 {
                return Err(KeyProblem::Mode(metadata.mode() & 0o7777));
            }
            let bytes: SecretSlice<u8> = read(file, LONGEST)?.into();
            let text = std::str::from_utf8(bytes.expose_secret()).map_err(|_| KeyProblem::Form)?;
            let seed = pem::read(pem::Kind::Private, text).ok_or(KeyProblem::Form)?;
            Self::of(SecretBox::new(Box::new(seed)))
        };
        get().map_err(failed("read", path))
    }
}

impl PublicKey {
    /// Reads a public key; whose file it is says nothing.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let get = || {
            let (file, _) = open(path)?;
            let text = String::from_utf8(read(file, LONGEST)?).map_err(|_| KeyProblem::Form)?;
            Self::from_pem(&text).ok_or(KeyProblem::Form)
        };
        get().map_err(failed("read", path))
    }

    /// Writes it into a new file, for those who check receipts.
    pub fn write(&self, path: &Path) -> Result<(), KeyError> {
        write_new(path, self.to_pem().as_bytes(), 0o644).map_err(failed("write", path))
    }
}

/// A file that was not there, whole or not at all.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), KeyProblem> {
    let mut options = File::options();
    options.write(true).create_new(true).mode(mode).custom_flags(flags(OFlags::NOFOLLOW));
    let mut file = options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => KeyProblem::Exists,
        _ => KeyProblem::Io(error),
    })?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half a key would be in the way for ever.
        let _ = fs::remove_file(path);
    }
    Ok(written?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn why(path: &Path) -> String {
        let error = SigningKey::read(path).unwrap_err();
        format!("{error}: {}; {}", error.problem, error.hint())
    }

    #[test]
    fn a_key_is_made_once_and_read_only_where_nobody_else_can() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("some/where/key");
        let made = SigningKey::create(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(path.parent().unwrap().metadata().unwrap().permissions().mode() & 0o7777, 0o700);
        assert_eq!(SigningKey::read(&path).unwrap().public(), made.public());
        let before = fs::read(&path).unwrap();
        assert!(matches!(SigningKey::create(&path).unwrap_err().problem, KeyProblem::Exists));
        assert_eq!(fs::read(&path).unwrap(), before);
        for mode in [0o640, 0o604, 0o610] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(why(&path).contains("chmod 600"), "{}", why(&path));
        }
    }

    #[test]
    fn links_pipes_directories_and_other_texts_are_no_keys() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        SigningKey::create(&at("key")).unwrap();
        symlink(at("key"), at("link")).unwrap();
        assert!(why(&at("link")).contains("links are not followed"));
        symlink(at("nowhere"), at("dangling")).unwrap();
        assert!(SigningKey::create(&at("dangling")).is_err() && !at("nowhere").exists());
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(why(&at("pipe")).contains("plain file"));
        assert!(why(place.path()).contains("plain file"));
        assert!(why(&at("nothing")).contains("key new"));
        for (name, text) in [("empty", String::new()), ("words", "secret words".into()), ("long", "x".repeat(5000))] {
            fs::write(at(name), &text).unwrap();
            fs::set_permissions(at(name), fs::Permissions::from_mode(0o600)).unwrap();
            let error = SigningKey::read(&at(name)).unwrap_err();
            assert!(!format!("{error:?}").contains("secret words"));
        }
        let public = SigningKey::read(&at("key")).unwrap().public();
        public.write(&at("public")).unwrap();
        assert_eq!(PublicKey::read(&at("public")).unwrap(), public);
        assert!(public.write(&at("public")).is_err() && PublicKey::read(&at("key")).is_err());
    }
}
