//! Steps that are more than a list of commands.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use crate::compile::PROFILE;
use crate::lanes::{Action, Lane};
use crate::process;
use crate::rootfs;
use crate::run::Checks;
use crate::setup::SetupError;
use crate::workspace::{Program, Selector, Workspace};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// Every test program of the workspace is named by a lane.
    EveryTestHasALane,
    /// Examples in the documentation of libraries that have any.
    Doctests,
    /// Every example that runs here, in both formats of logs, read back by Inspect.
    LogsOfExamples,
    /// The layout of images for the Python package's tests.
    ImagesForThePackage,
}

impl Task {
    pub(crate) fn run(self, checks: &Checks<'_>, log: &Path) -> Result<(), SetupError> {
        match self {
            Self::EveryTestHasALane => {
                let lanes = crate::lanes::parse(crate::LANES, &checks.context.tools).map_err(SetupError::Failed)?;
                every_test_has_a_lane(&checks.context.workspace, &lanes).map_err(SetupError::Failed)
            }
            Self::Doctests => doctests(checks, log),
            Self::LogsOfExamples => logs_of_examples(checks, log),
            Self::ImagesForThePackage => {
                rootfs::layout(&checks.context.workspace.root, checks.context.target(), log).map(|_| ())
            }
        }
    }
}

/// Every test program is named by a lane, and every name in a lane is a test program.
pub(crate) fn every_test_has_a_lane(workspace: &Workspace, lanes: &[Lane]) -> Result<(), String> {
    let selectors: Vec<&Selector> = lanes
        .iter()
        .flat_map(|lane| &lane.steps)
        .filter_map(|step| if let Action::Tests(tests) = &step.action { Some(&tests.programs) } else { None })
        .flatten()
        .collect();
    for selector in &selectors {
        workspace.select(selector)?;
    }
    let without: Vec<_> = workspace.without_a_lane(&selectors).iter().map(Program::label).collect();
    if without.is_empty() { Ok(()) } else { Err(format!("no lane runs {}", without.join(", "))) }
}

/// Runs a command to its end; its failure is the step's.
fn run(checks: &Checks<'_>, command: &mut Command, log: &Path) -> Result<(), SetupError> {
    let line = process::command_name(command);
    let status = process::run(command, log, checks.step.limit, &|_| ())?;
    if status.success() { Ok(()) } else { Err(SetupError::Failed(format!("{line}\n{status}"))) }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

fn doctests(checks: &Checks<'_>, log: &Path) -> Result<(), SetupError> {
    let packages = checks.context.workspace.with_doctests();
    if packages.is_empty() {
        return Err(SetupError::Failed("no library has an example in its documentation".into()));
    }
    // Together with the command: with the features of the other lanes, nothing is compiled twice.
    let mut arguments = words(&["cargo", "test", "--profile", PROFILE, "--doc", "-p", "ringfence"]);
    arguments.extend(packages.iter().flat_map(|package| ["-p".to_owned(), (*package).to_owned()]));
    run(checks, &mut checks.command(".", &arguments)?, log)
}

/// Examples that run without a network and without a key, and the operator's words that they need: for those at H0 and N0,
/// and only for those.
const EXAMPLES: [(&str, &[&str]); 7] = [
    ("first", &[]),
    ("text-only", &[]),
    ("ctf", &[]),
    ("allow-list", &[]),
    ("local-approvals", &["--allow-local", "--allow-full-network"]),
    ("iterative", &["--allow-local", "--allow-full-network"]),
    ("graded", &[]),
];

fn logs_of_examples(checks: &Checks<'_>, log: &Path) -> Result<(), SetupError> {
    checks.context.executables(None)?;
    let logs = checks.tmp.join("logs");
    std::fs::create_dir(&logs)?;
    let directory = logs.to_string_lossy();
    let command = |arguments: &[&str]| -> Result<Command, SetupError> {
        let mut command = checks.command(".", &words(arguments))?;
        // With receipts beside the logs, which Inspect must not take for logs.
        command.env("XDG_CONFIG_HOME", logs.join("config"));
        Ok(command)
    };
    run(checks, &mut command(&["{ringfence}", "key", "new"])?, log)?;
    let mut count = 0;
    for (task, grants) in EXAMPLES {
        for format in ["eval", "json"] {
            let file = format!("examples/{task}.yaml");
            let mut arguments = vec!["{ringfence}", "eval", &file, "--log-dir", &directory, "--log-format", format];
            arguments.extend(grants);
            run(checks, &mut command(&arguments)?, log)?;
            count += 1;
        }
    }
    // A log that was judged again is a log like any other.
    let graded = std::fs::read_dir(&logs)?.flatten().map(|entry| entry.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains("_graded_") && name.ends_with(".eval")
    });
    let graded = graded.ok_or_else(|| SetupError::Failed("there is no log of the task `graded`".into()))?;
    let graded = graded.to_string_lossy();
    run(checks, &mut command(&["{ringfence}", "score", &graded, "--scorer", "f1", "--metric", "accuracy"])?, log)?;
    count += 1;
    let count = count.to_string();
    run(checks, &mut command(&["{python}", "crates/cli/tests/inspect_logs.py", &directory, &count])?, log)?;
    run(checks, &mut command(&["{python}", "crates/log/tests/inspect_check.py", "schema", &directory])?, log)
}
