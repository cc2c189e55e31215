//! The directory of a score script: its home, its working directory, its temporary files, the answer and the target.
//!
//! It is made after the agent's end, under a name that no agent can know, so nothing in it is the agent's. Programs look for
//! code and settings in their home and in every directory above the one that they work in: above this one is only `/`, which
//! in the embedded engine has no name that the agent made (`jail/src/zygote/shield.rs`).

use sandbox::{Access, FailureKind, Sandbox, SessionError, User};

use crate::journal::unique;

/// Directories that a script finds set.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The longest value that is handed over in the environment too. The kernel takes 128 KiB with the name (`execve(2)`).
const MAX_VALUE: usize = 120 << 10;
/// Settings by which a repository names programs that commands run although they only read, with git's own defaults, or nothing.
/// These come after the repository's and win (`git-config(1)`, `GIT_CONFIG_COUNT`). Not here: drivers and filters, whose names the repository
/// chooses, and `diff.external`, for which no value means git's own.
const GIT_CONFIG: [(&str, &str); 12] = [
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.sshCommand", "ssh"),
    ("core.askPass", ""),
    ("core.alternateRefsCommand", "true"),
    ("credential.helper", ""),
    ("log.showSignature", "false"),
    ("gpg.program", "gpg"),
    ("gpg.openpgp.program", "gpg"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.ssh.defaultKeyCommand", ""),
];
/// Directories to make it in where the root is read-only.
const ELSEWHERE: [&str; 2] = ["/dev/shm", "/tmp"];

/// Why a script has no directory, or not all that belongs into it.
#[derive(Debug)]
pub(super) enum NoRoom {
    /// What the agent left, or its answer, is in the way.
    Agent(String),
    /// The sandbox is gone.
    Gone(SessionError),
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
            error @ SessionError::Unresponsive(_) => Self::Agent(error.to_string()),
            error @ SessionError::Died(_) => Self::Gone(error),
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
        Err(error @ (SessionError::Died(_) | SessionError::Unresponsive(_))) => return Err(error.into()),
        Err(error) => error,
    };
    let mut first = NoRoom::from(first);
    for base in ELSEWHERE.iter().filter(|_| own.is_none()) {
        let path = format!("{base}/{name}");
        if make(&path).await.is_ok() {
            // Above this one is a directory that the agent could write to: by which names programs look there is not known.
            if sandbox.list(base).await?.iter().all(|entry| entry.name == name.as_bytes()) {
                return Ok(path);
            }
            first = NoRoom::Agent(format!("{base} is not empty: the scorer's programs could read what is there"));
        }
    }
    Err(first)
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
        // A repository in `/` is the agent's.
        ("GIT_CEILING_DIRECTORIES", path.to_owned()),
        // A missing object is fetched by a program that the repository names (`remote.*.uploadpack`), even for `cat-file`. Newer
        // versions can be told not to fetch (`git(1)`); an empty list of protocols stops older ones too.
        ("GIT_NO_LAZY_FETCH", "1".to_owned()),
        ("GIT_ALLOW_PROTOCOL", String::new()),
        ("GIT_PAGER", "cat".to_owned()),
        ("GIT_EDITOR", ":".to_owned()),
        ("GIT_SEQUENCE_EDITOR", ":".to_owned()),
        // Commands that only read write no index: no hook is told about it, also none of the configuration's (`hook.*.command`).
        ("GIT_OPTIONAL_LOCKS", "0".to_owned()),
        ("GIT_PROXY_COMMAND", String::new()),
        ("GIT_CONFIG_COUNT", GIT_CONFIG.len().to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .chain(GIT_CONFIG.iter().enumerate().flat_map(|(index, (key, value))| {
        let named = |what: &str| format!("GIT_CONFIG_{what}_{index}");
        [(named("KEY"), (*key).to_owned()), (named("VALUE"), (*value).to_owned())]
    }))
    .collect()
}
