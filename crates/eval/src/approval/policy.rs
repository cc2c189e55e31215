//! A policy: who is asked about what, in which order.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use profile::source::{Complaints, parse};
use profile::{Approval, HostPattern, Problem, Problems};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::answer::Decision;
use super::parse;
use super::person::Choice;
use super::predicate::Predicate;
use crate::task::{Beside, Files as _};

/// How long a person may take when nobody says.
pub(super) const PATIENCE: Duration = Duration::from_mins(5);
/// The largest policy file.
const MOST_BYTES: u64 = 1 << 20;

/// What an approver is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    /// A call, before it is made.
    Call,
    /// What a call gave, before the model sees it.
    Result,
    /// A name of the network that no rule lists.
    Egress,
}

/// Who is asked.
#[derive(Debug, Clone)]
pub(crate) enum Approver {
    /// Always says the same.
    Auto(Decision),
    /// Approves what is not sensitive, and passes the rest on.
    PlainTools,
    /// Ends the sample on what is sensitive, and approves the rest.
    Terminator,
    /// Somebody at a terminal; nobody there is a no.
    Human { timeout: Duration, choices: Vec<Choice> },
    /// A program of the operator's.
    Command { argv: Vec<String>, timeout: Duration, pass: Vec<String> },
}

impl Approver {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Auto(_) => "auto",
            Self::PlainTools => "plain_tools",
            Self::Terminator => "terminator",
            Self::Human { .. } => "human",
            Self::Command { .. } => "command",
        }
    }
}

/// Who is asked about what.
#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) approver: Approver,
    pub(crate) on: On,
    /// Patterns of tool names, `*` and `?`; held against the name alone, never against what is called with it.
    pub(crate) tools: Vec<String>,
    pub(super) wheres: Vec<Predicate>,
    /// For names of the network.
    pub(crate) hosts: Vec<HostPattern>,
}

/// Who is asked about what, in order: the first decision that is not to escalate counts, and none is a no.
#[derive(Debug, Clone)]
pub struct Policy {
    pub(crate) name: String,
    /// Of its file.
    pub(crate) digest: Option<String>,
    pub(crate) rules: Vec<Rule>,
    /// Its file, as far as it has one.
    file: Option<PathBuf>,
}

/// Why there is no policy.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// Its file cannot be read.
    #[error("cannot read the approval policy `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its file is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

/// Who names a policy file.
#[derive(Debug, Clone, Copy)]
pub enum Named<'a> {
    /// This task: the file lies beside it, and has no programs.
    ByTask(&'a Path),
    /// Whoever runs the command: the file is where they say.
    ByOperator,
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(io::Error::other("it is not a plain file of at most 1 MiB"));
    }
    std::fs::read(path)
}

fn rule(approver: Approver) -> Rule {
    Rule { approver, on: On::Call, tools: vec!["*".into()], wheres: Vec::new(), hosts: Vec::new() }
}

/// The rules of a preset. What escalates must have somebody after it, and an approval must never stand before a gate.
pub(super) fn preset(approval: &Approval) -> Vec<Rule> {
    let human = Approver::Human { timeout: PATIENCE, choices: Choice::USUAL.to_vec() };
    match approval {
        Approval::Ci => vec![rule(Approver::Auto(Decision::Approve))],
        Approval::Prod => vec![rule(Approver::Terminator)],
        // The same where no policy is required: nothing sensitive is granted there, and should it be, a person is asked.
        Approval::Dev | Approval::Operator | Approval::Policy(_) => vec![rule(Approver::PlainTools), rule(human)],
    }
}

impl Policy {
    /// The policy of a plan. `tools` are the names that a rule may name beside the standard tools.
    pub fn load(approval: Option<&Approval>, named: Named<'_>, tools: &[String]) -> Result<Self, PolicyError> {
        let Some(Approval::Policy(file)) = approval else {
            let approval = approval.unwrap_or(&Approval::Dev);
            return Ok(Self { name: approval.to_string(), digest: None, rules: preset(approval), file: None });
        };
        let path = Path::new(file);
        let text = match named {
            Named::ByTask(task) => Beside::task(task).and_then(|beside| beside.read(path, MOST_BYTES)),
            Named::ByOperator => read(path),
        };
        let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        let text = text.map_err(|source| PolicyError::Read { path: path.to_owned(), source })?;
        let mut policy = Self::parse(file, &text, tools)?;
        policy.file = Some(match named {
            Named::ByTask(task) => task.parent().unwrap_or(Path::new("")).join(path),
            Named::ByOperator => path.to_owned(),
        });
        let directory = path.parent().unwrap_or(Path::new(""));
        for rule in &mut policy.rules {
            let Approver::Command { argv, .. } = &mut rule.approver else { continue };
            if let Named::ByTask(_) = named {
                // It runs here, outside any sandbox, with our rights: whatever the profile says, a task must not choose it.
                let problem = Problem::new("a policy that a task names cannot have the approver `command`");
                let hint = format!(
                    "it runs a program on this machine; if you want that, name the policy yourself: --approval {file}"
                );
                return Err(Problems { origin: file.clone(), problems: vec![problem.hint(hint)] }.into());
            }
            // A program is named as in a shell; with a `/` it lies beside the policy.
            if let Some(program) = argv.first_mut().filter(|program| program.contains('/')) {
                *program = directory.join(&*program).to_string_lossy().into_owned();
            }
        }
        Ok(policy)
    }

    /// Reads the text of a policy file.
    pub fn parse(name: &str, text: &str, tools: &[String]) -> Result<Self, Problems> {
        let complaints = Complaints::default();
        let rules = match parse(text) {
            Ok(node) => parse::rules(node, tools, &complaints),
            Err(problem) => {
                complaints.add(problem);
                Vec::new()
            }
        };
        let problems: Vec<Problem> = complaints.into_problems();
        if !problems.is_empty() {
            return Err(Problems { origin: name.to_owned(), problems });
        }
        let digest = super::hexadecimal(&Sha256::digest(text.as_bytes()));
        Ok(Self { name: name.to_owned(), digest: Some(digest), rules, file: None })
    }

    /// The files that it is made of: its own, and programs of its approvers that are named by a path.
    pub fn files(&self) -> Vec<PathBuf> {
        let programs = self.rules.iter().filter_map(|rule| match &rule.approver {
            Approver::Command { argv, .. } => argv.first().filter(|program| program.contains('/')).map(PathBuf::from),
            _ => None,
        });
        self.file.iter().cloned().chain(programs).collect()
    }

    /// Variables of our environment that its programs are given; their values must not be written down.
    pub fn passes(&self) -> Vec<String> {
        let passed = self.rules.iter().filter_map(|rule| match &rule.approver {
            Approver::Command { pass, .. } => Some(pass.clone()),
            _ => None,
        });
        passed.flatten().collect()
    }

    /// Whether somebody is asked about names that no rule of the network lists, and how long that may take.
    pub(crate) fn asks_for_names(&self) -> Option<Duration> {
        let asked = self.rules.iter().filter(|rule| rule.on == On::Egress);
        asked
            .map(|rule| match rule.approver {
                Approver::Human { timeout, .. } | Approver::Command { timeout, .. } => timeout,
                _ => Duration::from_secs(1),
            })
            .reduce(|all, one| all + one)
    }

    /// As Inspect's logs have it.
    pub(crate) fn approvers(&self) -> Value {
        let approvers = self.rules.iter().map(|rule| {
            let on = match rule.on {
                On::Call => "call",
                On::Result => "result",
                On::Egress => "egress",
            };
            json!({"name": rule.approver.name(), "tools": rule.tools, "params": {"on": on}})
        });
        json!({"approvers": approvers.collect::<Vec<_>>()})
    }

    /// For our own part of the log.
    pub(crate) fn to_json(&self) -> Value {
        json!({"policy": self.name, "sha256": self.digest, "asks_for_names": self.asks_for_names().is_some()})
    }
}
