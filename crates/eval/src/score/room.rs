//! The directory of a score script: its home, its working directory, its temporary files, the answer and the target.
//!
//! It is made after the agent's end, under a name that no agent can know, so nothing in it is the agent's. Programs look for
//! code and settings in their home and in every directory above the one that they work in: above this one is only `/`, where
//! the embedded engine hides such names (`jail/src/zygote/shield.rs`).

use sandbox::{Access, FailureKind, SEARCHED_ABOVE, Sandbox, SessionError, User};

use crate::journal::unique;

/// Directories that a script finds set.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The longest value that is handed over in the environment too. The kernel takes 128 KiB with the name (`execve(2)`).
const MAX_VALUE: usize = 120 << 10;
/// Directories to make it in where the root is read-only.
const ELSEWHERE: [&str; 2] = ["/dev/shm", "/tmp"];

/// Why a script has no directory, or not all that belongs into it.
#[derive(Debug)]
pub(super) enum NoRoom {
    /// What the agent left, or its answer, is in the way.
    Agent(String),
    /// Something else.
    Failed(String),
}

impl From<SessionError> for NoRoom {
    fn from(error: SessionError) -> Self {
        match error {
            // An answer that is larger than the sandbox's disk, or a disk that the agent filled.
            SessionError::Failed { kind: FailureKind::Exhausted | FailureKind::TooLarge, message } => {
                Self::Agent(message)
            }
            other => Self::Failed(other.to_string()),
        }
    }
}

/// A score script's own directory.
#[derive(Debug)]
pub(super) struct Room {
    path: String,
    /// Values that are in files only.
    only_in_files: Vec<&'static str>,
    env: Vec<(String, String)>,
}

impl Room {
    /// Makes it in a sandbox where nothing of the agent runs any more.
    pub(super) async fn make(sandbox: &Sandbox, answer: &str, target: &str) -> Result<Self, NoRoom> {
        let path = directory(sandbox).await?;
        for part in ["work", "tmp"] {
            sandbox.confined(format!("{path}/{part}"), User::Default).ready(Access::Write).await?;
        }
        let inside = sandbox.confined(path.as_str(), User::Default);
        inside.write("target", target.as_bytes(), 0o644).await?;
        inside.write("answer", answer.as_bytes(), 0o644).await?;
        let mut room = Self { env: environment(&path), path, only_in_files: Vec::new() };
        for (name, value) in [("ANSWER", answer), ("TARGET", target)] {
            if value.len() <= MAX_VALUE && !value.contains('\0') {
                room.env.push((name.into(), value.into()));
            } else {
                room.only_in_files.push(name);
            }
        }
        Ok(room)
    }

    pub(super) fn environment(&self) -> Vec<(String, String)> {
        self.env.clone()
    }

    /// An empty directory, for the script to start in.
    pub(super) fn work(&self) -> String {
        format!("{}/work", self.path)
    }

    /// One line for people, where a value is not in the environment.
    pub(super) fn note(&self) -> Option<String> {
        let names: Vec<String> = self.only_in_files.iter().map(|name| format!("${name}")).collect();
        let files: Vec<String> = self.only_in_files.iter().map(|name| format!("${name}_FILE")).collect();
        let (names, files) = (names.join(" and "), files.join(" and "));
        (!names.is_empty())
            .then(|| format!("{names} is not set: a NUL, or more than {MAX_VALUE} bytes; the file is {files}\n"))
    }
}

/// Makes the directory with an empty home in it. Its name is new, and no part of its path may be a link.
async fn directory(sandbox: &Sandbox) -> Result<String, NoRoom> {
    let own = sandbox.directory().map(|directory| directory.display().to_string());
    let name = format!("ringfence-{}", unique());
    let path = format!("{}/{name}", own.as_deref().unwrap_or_default());
    let make = async |path: &str| {
        let home = sandbox.confined(format!("{path}/home"), User::Default);
        home.ready(Access::Write).await
    };
    let first = match make(&path).await {
        Ok(()) => return Ok(path),
        Err(error @ SessionError::Died(_)) => return Err(error.into()),
        Err(error) => error,
    };
    for base in ELSEWHERE.iter().filter(|_| own.is_none()) {
        let path = format!("{base}/{name}");
        if make(&path).await.is_ok() {
            // Above this one is a directory that the agent could write to.
            for searched in SEARCHED_ABOVE {
                if sandbox.stat(&format!("{base}/{searched}")).await?.is_some() {
                    return Err(NoRoom::Agent(format!("{base}/{searched} is in the way of the scorer's programs")));
                }
            }
            return Ok(path);
        }
    }
    Err(first.into())
}

/// What a script finds set, whatever it judges. Nothing that the agent could have written is looked up by it.
fn environment(path: &str) -> Vec<(String, String)> {
    let own = |part: &str| format!("{path}/{part}");
    [
        ("PATH", PATH.to_owned()),
        ("HOME", own("home")),
        ("TMPDIR", own("tmp")),
        ("LANG", "C.UTF-8".to_owned()),
        ("ANSWER_FILE", own("answer")),
        ("TARGET_FILE", own("target")),
        ("PYTHONNOUSERSITE", "1".to_owned()),
        // A repository in `/` is the agent's; so are the programs that a repository names for being looked at.
        ("GIT_CEILING_DIRECTORIES", path.to_owned()),
        ("GIT_CONFIG_COUNT", "2".to_owned()),
        ("GIT_CONFIG_KEY_0", "core.fsmonitor".to_owned()),
        ("GIT_CONFIG_VALUE_0", "false".to_owned()),
        ("GIT_CONFIG_KEY_1", "core.hooksPath".to_owned()),
        ("GIT_CONFIG_VALUE_1", "/dev/null".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
