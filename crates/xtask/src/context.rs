//! What all steps of a run share: the workspace, what was compiled, the daemon, the report; and the words that lanes.toml may
//! use for places.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::compile::{self, Executables, PROFILE};
use crate::daemon::Daemon;
use crate::images;
use crate::install::Installer;
use crate::lanes::{Action, Engine, Image, Lane};
use crate::printer::Printer;
use crate::report::Report;
use crate::setup::SetupError;
use crate::slots::Slots;
use crate::tools::Tools;
use crate::workspace::{Program, Workspace};

pub(crate) struct Context {
    pub(crate) workspace: Workspace,
    pub(crate) tools: Tools,
    pub(crate) printer: Printer,
    pub(crate) report: Report,
    /// Steps that may run at the same time.
    pub(crate) slots: Slots,
    /// Held while tools are installed: all lanes have one Python environment.
    pub(crate) installing: Mutex<()>,
    /// Only tests with this in their names.
    pub(crate) filter: Option<String>,
    pub(crate) may_install: bool,
    /// A missing system fails.
    pub(crate) is_ci: bool,
    pub(crate) is_root: bool,
    /// This program, for tests that restart the daemon.
    pub(crate) xtask: PathBuf,
    /// Test programs of all lanes of this run, by the features that they are compiled with.
    pub(crate) wanted: BTreeMap<Option<String>, BTreeSet<Program>>,
    pub(crate) compiled: Mutex<BTreeMap<Option<String>, Result<Executables, String>>>,
    /// Runs that are done, by what was run and how, with the lane that did it.
    pub(crate) done: Mutex<BTreeMap<String, String>>,
    pub(crate) daemon: Mutex<Option<Daemon>>,
}

/// What a poisoned lock guards is still right: it is only ever replaced as a whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Test programs of these lanes, and those whose compilation leaves the binaries that lanes need.
pub(crate) fn wanted(
    workspace: &Workspace,
    lanes: &[&Lane],
) -> Result<BTreeMap<Option<String>, BTreeSet<Program>>, String> {
    let mut wanted: BTreeMap<Option<String>, BTreeSet<Program>> = BTreeMap::new();
    for lane in lanes {
        for step in &lane.steps {
            if let Action::Tests(tests) = &step.action {
                for selector in &tests.programs {
                    let programs = workspace.select(selector)?;
                    wanted.entry(tests.features.clone()).or_default().extend(programs.iter().map(Program::compiled));
                }
            }
        }
        for binary in &lane.programs {
            let program = workspace.beside(binary).ok_or_else(|| format!("no package makes the program `{binary}`"))?;
            wanted.entry(None).or_default().insert(program);
        }
    }
    Ok(wanted)
}

impl Context {
    pub(crate) fn target(&self) -> &Path {
        &self.workspace.target
    }

    /// A binary of the workspace, as the test programs' compilation leaves it.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.target().join(PROFILE).join(name)
    }

    /// The log of a step or program of this run.
    pub(crate) fn log(&self, lane: &str, name: &str) -> PathBuf {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.target().join("test-logs").join(lane).join(format!("{name}.log"))
    }

    pub(crate) fn installer(&self, lane: &str) -> Installer<'_> {
        Installer {
            tools: &self.tools,
            target: self.target(),
            printer: &self.printer,
            log: self.log(lane, "installed"),
            only_look: !self.may_install,
        }
    }

    /// The compiled programs of a set of features; compiled when they are first asked for.
    pub(crate) fn executables(&self, features: Option<&String>) -> Result<Executables, SetupError> {
        let mut compiled = lock(&self.compiled);
        let key = features.cloned();
        if let Some(result) = compiled.get(&key) {
            return result.clone().map_err(SetupError::Failed);
        }
        let Some(programs) = self.wanted.get(&key) else { return Ok(Executables::new()) };
        self.printer.heading("compiling test programs");
        let begun = Instant::now();
        let log = self.log("compiled", features.map_or("messages", String::as_str));
        let result = compile::compile(&self.workspace, programs, features.map(String::as_str), &log);
        let what = features.map_or_else(|| "compiling".into(), |features| format!("compiling with {features}"));
        self.report.took(&what, begun.elapsed().as_secs_f64());
        let result = result.map_err(|error| error.to_string());
        compiled.insert(key, result.clone());
        result.map_err(SetupError::Failed)
    }

    /// The run's daemon with these images, and what its clients need in their environment.
    pub(crate) fn with_daemon(
        &self,
        engine: Engine,
        wanted: &BTreeSet<Image>,
        lane: &str,
    ) -> Result<Vec<(String, String)>, SetupError> {
        let mut daemon = lock(&self.daemon);
        if daemon.as_ref().is_some_and(|daemon| daemon.engine != engine) {
            // It ends before the other starts.
            *daemon = None;
        }
        let daemon = match &mut *daemon {
            Some(daemon) => daemon,
            none => {
                self.printer.line(&format!("  starting a daemon of our own: {engine:?}"));
                let runsc = self.runsc(engine, lane)?;
                none.insert(Daemon::start(engine, runsc.as_deref())?)
            }
        };
        for image in wanted {
            images::import(daemon, *image, self.target(), &self.log(lane, "images"))?;
        }
        Ok(daemon.env())
    }

    /// gVisor's program: the one that `RUNSC` names, or one of our own building.
    fn runsc(&self, engine: Engine, lane: &str) -> Result<Option<PathBuf>, SetupError> {
        match (engine, std::env::var_os("RUNSC")) {
            (Engine::Docker | Engine::Podman, _) => Ok(None),
            (Engine::Gvisor, Some(program)) => Ok(Some(program.into())),
            (Engine::Gvisor, None) => self.installer(lane).go_tool("runsc").map(Some),
        }
    }

    /// A text of lanes.toml with its placeholders filled in. `tmp` is the step's own directory.
    pub(crate) fn filled(&self, text: &str, tmp: &Path) -> String {
        let venv = self.target().join("python");
        let places: [(&str, &Path); 8] = [
            ("{root}", &self.workspace.root),
            ("{target}", self.target()),
            ("{venv}", &venv),
            ("{python}", &venv.join("bin/python")),
            ("{ringfence}", &self.binary("ringfence")),
            ("{layout}", &self.target().join("inspect-images")),
            ("{kept}", &self.target().join("kept")),
            ("{tmp}", tmp),
        ];
        let mut text = text.to_owned();
        for (name, place) in places {
            text = text.replace(name, &place.to_string_lossy());
        }
        if text.contains("{restart}")
            && let Some(daemon) = &*lock(&self.daemon)
        {
            text = text.replace("{restart}", &daemon.restart_command(&self.xtask));
        }
        if let Some((package, _)) = text.split_once("{version:").and_then(|(_, rest)| rest.split_once('}')) {
            let version = self.tools.version_of(package).unwrap_or_default();
            text = text.replace(&format!("{{version:{package}}}"), version);
        }
        text
    }
}
