//! Runs lanes: what each needs first, then its steps in order, neighbours of a group at the same time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::context::{Context, lock};
use crate::junit;
use crate::lanes::{Action, Lane, Step, User};
use crate::packages;
use crate::process;
use crate::pytest;
use crate::report::Suite;
use crate::setup::SetupError;
use crate::signals;
use crate::suite::TestRun;

/// Installs the Debian packages that these lanes lack, all in one call. What is then still missing, the lanes say themselves.
pub(crate) fn install_packages(context: &Context, lanes: &[&Lane]) {
    let missing = packages::missing(&context.tools, lanes.iter().flat_map(|lane| &lane.packages));
    if missing.is_empty() || !context.may_install || !context.is_root || !packages::is_in_path("apt-get") {
        return;
    }
    let names = missing.iter().copied().collect::<Vec<_>>().join(" ");
    context.printer.heading(&format!("installing Debian packages: {names}"));
    let begun = Instant::now();
    if let Err(error) = packages::install(&missing, &context.log("packages", "apt-get")) {
        context.printer.line(&error.to_string());
    }
    context.report.took("Debian packages", begun.elapsed().as_secs_f64());
}

/// Runs lanes at the same time. Their programs are compiled first: tests can then run while commands of quiet lanes compute.
pub(crate) fn run_group(context: &Context, lanes: &[&Lane]) -> Result<(), SetupError> {
    if lanes.len() > 1 && lanes.iter().any(|lane| has_programs(lane)) {
        for features in context.wanted.keys() {
            // If it fails, each step without its programs fails.
            let _ = context.executables(features.as_ref());
        }
    }
    std::thread::scope(|scope| {
        let running: Vec<_> = lanes.iter().map(|lane| scope.spawn(|| run_lane(context, lane))).collect();
        // A panic of one is a panic here, after the others have ended.
        let ended =
            running.into_iter().map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ended.fold(Ok(()), Result::and)
    })
}

/// Runs a lane, and writes what it came to as JUnit XML.
fn run_lane(context: &Context, lane: &Lane) -> Result<(), SetupError> {
    context.printer.heading(&format!("lane {}", lane.name));
    let begun = Instant::now();
    let prepared = prepare(context, lane);
    let mut seconds = begun.elapsed().as_secs_f64();
    if prepared.is_ok() && has_programs(lane) {
        // It is for all lanes: its time is not this lane's. If it fails, each step without its programs fails.
        let _ = context.executables(None);
    }
    let begun = Instant::now();
    match prepared.map(|()| run_steps(context, lane)) {
        Err(SetupError::Interrupted) => return Err(SetupError::Interrupted),
        Err(error) => not_there(context, &lane.name, None, &error),
        Ok(()) => {}
    }
    seconds += begun.elapsed().as_secs_f64();
    context.report.took(&lane.name, seconds);
    write_junit(context, &lane.name)?;
    if signals::received().is_some() { Err(SetupError::Interrupted) } else { Ok(()) }
}

/// Whether a lane uses what the common compilation makes.
fn has_programs(lane: &Lane) -> bool {
    let is_ordinary = |step: &Step| matches!(&step.action, Action::Tests(tests) if tests.features.is_none());
    !lane.programs.is_empty() || lane.steps.iter().any(is_ordinary)
}

/// What the whole lane needs.
fn prepare(context: &Context, lane: &Lane) -> Result<(), SetupError> {
    if lane.root && !context.is_root {
        return Err(SetupError::Missing("its steps need root".into()));
    }
    let missing = packages::missing(&context.tools, lane.packages.iter());
    if !missing.is_empty() {
        return Err(SetupError::Missing(packages::advice(&missing)));
    }
    let _alone = lock(&context.installing);
    let installer = context.installer(&lane.name);
    for component in &lane.components {
        installer.component(component)?;
    }
    for tool in &lane.tools {
        installer.cargo_tool(tool)?;
    }
    installer.python(&lane.python)
}

/// A lane or a step that cannot run: skipped if this machine lacks something, failed in CI or if something is broken.
fn not_there(context: &Context, lane: &str, step: Option<&str>, error: &SetupError) {
    let is_skipped = matches!(error, SetupError::Missing(_)) && !context.is_ci;
    let what = step.unwrap_or("what the lane needs");
    if is_skipped {
        context.printer.line(&format!("  skipped             {what}: {error}"));
        context.report.skip(lane, step, &error.to_string());
    } else {
        let suite = Suite::check(lane, what, 0.0, Some(error.to_string()), context.log(lane, what));
        context.printer.line(&format!("{}\n{error}", suite.line()));
        context.report.add(suite);
    }
}

fn run_steps(context: &Context, lane: &Lane) {
    for group in lane.groups() {
        let run = |step: &Step| {
            let _slot = (!lane.quiet).then(|| context.slots.take());
            if signals::received().is_some() {
                return;
            }
            match run_step(context, lane, step) {
                Ok(()) | Err(SetupError::Interrupted) => {}
                Err(error) => not_there(context, &lane.name, Some(&step.name), &error),
            }
        };
        // A panic of one is a panic here, after the others have ended.
        std::thread::scope(|scope| {
            for step in group {
                scope.spawn(move || run(step));
            }
        });
    }
}

fn run_step(context: &Context, lane: &Lane, step: &Step) -> Result<(), SetupError> {
    let is_plain = matches!(&step.action, Action::Tests(tests) if tests.user == User::Plain);
    if (is_plain || step.env.contains_key("RINGFENCE_AS")) && !context.is_root {
        // Not a missing system: the other steps have just run as a user without rights.
        context.report.skip(&lane.name, Some(&step.name), "not root: the other steps ran as a plain user");
        return Ok(());
    }
    if context.filter.is_some() && !matches!(step.action, Action::Tests(_)) {
        return Ok(());
    }
    let daemon = match (&step.daemon, lane.engine) {
        (Some(images), Some(engine)) => context.with_daemon(engine, images, &lane.name)?,
        _ => Vec::new(),
    };
    let tmp = tempfile::Builder::new().prefix("ringfence-step.").tempdir()?;
    let env: BTreeMap<String, String> =
        step.env.iter().map(|(name, value)| (name.clone(), context.filled(value, tmp.path()))).collect();
    let checks = Checks { context, lane, step, env: &env, daemon: &daemon, tmp: tmp.path() };
    match &step.action {
        Action::Tests(tests) => {
            if !tests.before.is_empty() && !checks.commands(".", &tests.before, "before")? {
                return Ok(());
            }
            let run = TestRun { context, lane: &lane.name, step, tests, env: env.clone(), daemon: daemon.clone() };
            run.run()?;
            if !tests.after.is_empty() && context.filter.is_none() {
                checks.commands(".", &tests.after, "after")?;
            }
        }
        Action::Run { directory, commands } => {
            if !lane.programs.is_empty() {
                context.executables(None)?;
            }
            checks.commands(directory, commands, "")?;
        }
        Action::Pytest(arguments) => pytest::run(&checks, arguments)?,
        Action::Fuzz(target) => {
            let corpus = context.target().join("fuzz-corpus").join(target);
            std::fs::create_dir_all(&corpus)?;
            checks.commands(".", &[fuzz(target, &corpus, &context.target().join("fuzz"))], "")?;
        }
        Action::Task(task) => {
            let begun = Instant::now();
            let log = context.log(&lane.name, &step.name);
            let _ = std::fs::remove_file(&log);
            let problem = match task.run(&checks, &log) {
                Err(SetupError::Failed(problem)) => Some(problem),
                other => other.map(|()| None)?,
            };
            checks.record(&step.name, begun, problem, &log);
        }
    }
    Ok(())
}

/// A bounded run from the kept seeds. Safe Rust needs no sanitizer, so a stable toolchain is enough.
fn fuzz(target: &str, corpus: &Path, build: &Path) -> Vec<String> {
    let seconds = std::env::var("FUZZ_SECONDS").unwrap_or_else(|_| "10".into());
    let (corpus, build) = (corpus.to_string_lossy(), build.to_string_lossy());
    let seeds = format!("fuzz/seeds/{target}");
    let time = format!("-max_total_time={seconds}");
    let words =
        ["cargo", "fuzz", "run", "--sanitizer", "none", "--target-dir", &build, target, &corpus, &seeds, "--", &time];
    let limits = ["-max_len=65536", "-timeout=60", "-rss_limit_mb=2048", "-verbosity=0", "-print_final_stats=1"];
    words.into_iter().chain(limits).map(str::to_owned).collect()
}

/// A step that runs commands, and counts as one check.
pub(crate) struct Checks<'a> {
    pub(crate) context: &'a Context,
    pub(crate) lane: &'a Lane,
    pub(crate) step: &'a Step,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) daemon: &'a [(String, String)],
    pub(crate) tmp: &'a Path,
}

impl Checks<'_> {
    /// A command in a directory of the repository, with the step's environment and the tools of lanes.
    pub(crate) fn command(&self, directory: &str, words: &[String]) -> Result<Command, SetupError> {
        let words: Vec<String> = words.iter().map(|word| self.context.filled(word, self.tmp)).collect();
        let [program, arguments @ ..] = words.as_slice() else {
            return Err(SetupError::Failed("an empty command".into()));
        };
        // A relative program is looked up from here, not from the directory.
        let mut command = Command::new(if self.lane.quiet { "nice" } else { program });
        if self.lane.quiet {
            command.arg(program);
        }
        command.args(arguments).current_dir(self.context.workspace.root.join(directory));
        let target = self.context.target();
        let tools = [target.join("python/bin"), target.join("tools/bin")];
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Python's programs only where the lane has packages of Python: others mean the machine's.
        let skipped = usize::from(self.lane.python.is_empty() && self.lane.tools.is_empty());
        let path = std::env::join_paths(tools.into_iter().skip(skipped).chain(std::env::split_paths(&path)));
        command.env("PATH", path.map_err(|error| SetupError::Failed(error.to_string()))?);
        command.env("CARGO_TERM_COLOR", "never").envs(self.daemon.iter().map(|(name, value)| (name, value)));
        command.envs(self.env);
        Ok(command)
    }

    /// Runs commands until one fails, and counts them as one check; returns whether all succeeded.
    fn commands(&self, directory: &str, commands: &[Vec<String>], part: &str) -> Result<bool, SetupError> {
        let name = if part.is_empty() { self.step.name.clone() } else { format!("{}, {part}", self.step.name) };
        let log = self.context.log(&self.lane.name, &name);
        let _ = std::fs::remove_file(&log);
        let begun = Instant::now();
        let mut problem = None;
        for words in commands {
            let mut command = self.command(directory, words)?;
            let line = process::command_name(&command);
            let ended = process::run(&mut command, &log, self.step.limit, &|elapsed| {
                self.context.printer.line(&format!("  {} min so far    {name}", elapsed.as_secs() / 60));
            });
            match ended {
                Err(process::RunError::Interrupted) => return Err(SetupError::Interrupted),
                Err(error) => problem = Some(format!("{line}\n{}", SetupError::from(error))),
                Ok(status) if !status.success() => problem = Some(format!("{line}\n{status}")),
                Ok(_) => continue,
            }
            break;
        }
        let is_well = problem.is_none();
        self.record(&name, begun, problem, &log);
        Ok(is_well)
    }

    /// Counts a check and prints its line; for a failed one, also what it printed.
    pub(crate) fn record(&self, name: &str, begun: Instant, problem: Option<String>, log: &Path) {
        let seconds = begun.elapsed().as_secs_f64();
        let suite = Suite::check(&self.lane.name, name, seconds, problem, log.to_owned());
        self.context.printer.line(&suite.line());
        if let Some(problem) = &suite.problem {
            let output = String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned();
            self.context.printer.line(&format!("{}\n{problem}", output.trim_end()));
        }
        self.context.report.add(suite);
    }
}

fn write_junit(context: &Context, lane: &str) -> Result<(), SetupError> {
    let directory = context.target().join("junit");
    std::fs::create_dir_all(&directory)?;
    let document = junit::document(lane, &context.report.suites_of(lane));
    std::fs::write(directory.join(format!("{lane}.xml")), document)?;
    Ok(())
}
