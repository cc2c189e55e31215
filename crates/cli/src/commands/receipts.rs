//! Who signs receipts, and that each log gets its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use log::audit::Head;
use log::{Expectation, Reader};
use profile::{Problem, Problems};
use receipt::{IssueError, KeyError, PublicKey, SigningKey};
use secrecy::{ExposeSecret as _, SecretString};

/// Names the file with the key that signs.
pub(super) const VARIABLE: &str = "RINGFENCE_SIGNING_KEY";

/// Where a key is, or would be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Somebody said so: it has to be there.
    Stated(PathBuf),
    /// Where it is unless somebody says something else; absent means that nothing is signed.
    Usual(PathBuf),
    /// There is no place: neither `XDG_CONFIG_HOME` nor `HOME` is set.
    Nowhere,
}

/// Where the key is: by option, by variable, or in the user's configuration.
pub(super) fn place(option: Option<&Path>) -> Place {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = option.map(Path::to_path_buf).or_else(|| variable(VARIABLE)) {
        return Place::Stated(path);
    }
    configuration().map_or(Place::Nowhere, |directory| Place::Usual(directory.join("signing.key")))
}

/// The user's configuration directory for ringfence; `None` where neither `XDG_CONFIG_HOME` nor `HOME` is set.
pub(super) fn configuration() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // Relative ones are to be ignored: XDG Base Directory Specification.
    let stated = |name| variable(name).filter(|path| path.is_absolute());
    let base = stated("XDG_CONFIG_HOME").or_else(|| Some(stated("HOME")?.join(".config")));
    base.map(|base| base.join("ringfence"))
}

/// Whoever signs the receipts of a run; nobody where there is no key.
pub(super) struct Signer(Option<Arc<SigningKey>>);

/// Signs the chain's head while a run goes on.
struct Checkpoints(Arc<SigningKey>);

impl eval::Checkpoint for Checkpoints {
    fn sign(&self, log: &Path, eval_id: &str, head: &Head) -> std::io::Result<()> {
        receipt::add_checkpoint(log, eval_id, head, &self.0)
    }
}

impl Signer {
    /// Reads the key before anything starts: one that cannot be used is an error, not a run without receipt.
    pub(super) fn find(option: Option<&Path>) -> Result<Self, Problems> {
        let read =
            |path: &Path| SigningKey::read(path).map(|key| Self(Some(Arc::new(key)))).map_err(|error| problems(&error));
        match place(option) {
            Place::Stated(path) => read(&path),
            // A link that leads nowhere is there: reading it says what is wrong.
            Place::Usual(path) if path.symlink_metadata().is_ok() => read(&path),
            Place::Usual(_) | Place::Nowhere => Ok(Self(None)),
        }
    }

    /// What the log is to say.
    pub(super) fn expectation(&self) -> Expectation {
        match &self.0 {
            Some(key) => Expectation::Signed { keyid: key.public().id().as_str().to_owned() },
            None => Expectation::None { reason: "no signing key".into() },
        }
    }

    /// The public half of the key that signs.
    pub(super) fn public(&self) -> Option<PublicKey> {
        self.0.as_ref().map(|key| key.public())
    }

    /// What signs the chain while a run goes on.
    pub(super) fn checkpoint(&self) -> Option<Arc<dyn eval::Checkpoint>> {
        self.0.as_ref().map(|key| Arc::new(Checkpoints(Arc::clone(key))) as Arc<dyn eval::Checkpoint>)
    }

    /// What must not be written.
    pub(super) fn secret(&self) -> Option<String> {
        self.0.as_ref().map(|key| SecretString::expose_secret(&key.secret()).to_owned())
    }

    /// Signs a closed log, where there is a key and the log says that it is to be signed.
    pub(super) fn issue(&self, log: &Path) -> Option<Result<PathBuf, IssueError>> {
        let key = self.0.as_ref()?;
        let stated = Reader::open(log).ok().and_then(|reader| Expectation::of(reader.header()).ok());
        match stated {
            Some(Some(Expectation::None { .. })) => None,
            // A log that cannot be read now is an error there.
            _ => Some(receipt::issue(log, key).inspect(|_| {
                // The receipt says all that they say.
                let _ = std::fs::remove_file(receipt::checkpoints_beside(log));
            })),
        }
    }
}

pub(super) fn problems(error: &KeyError) -> Problems {
    let problem = Problem::new(format!("{error}: {}", error.problem)).hint(error.hint());
    Problems { origin: error.path.display().to_string(), problems: vec![problem] }
}
