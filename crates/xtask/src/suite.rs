//! Runs the test programs of a step, one after the other, directly and not through cargo: the same executables for all users.
//!
//! Each test's time comes from libtest's `--report-time`, which a stable toolchain takes only with `RUSTC_BOOTSTRAP` in the
//! test program's environment. It changes how times are printed and nothing else.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::compile::PROFILE;
use crate::context::{Context, lock};
use crate::lanes::{Step, Tests, User};
use crate::libtest::{self, Outcome, Parsed, Totals};
use crate::modules;
use crate::plain_user::PlainPlace;
use crate::process::{self, RunError, quoted};
use crate::report::Suite;
use crate::setup::SetupError;
use crate::workspace::{Program, cargo};

/// A step of tests that is about to run.
pub(crate) struct TestRun<'a> {
    pub(crate) context: &'a Context,
    pub(crate) lane: &'a str,
    pub(crate) step: &'a Step,
    pub(crate) tests: &'a Tests,
    /// The step's environment, filled in.
    pub(crate) env: BTreeMap<String, String>,
    /// What clients of the daemon need.
    pub(crate) daemon: Vec<(String, String)>,
}

impl TestRun<'_> {
    /// Runs all programs; each one's result goes to the report.
    pub(crate) fn run(&self) -> Result<(), SetupError> {
        let executables = self.context.executables(self.tests.features.as_ref())?;
        let plain = match self.tests.user {
            User::Own => None,
            User::Plain => Some(PlainPlace::new(&self.context.binary("ringfence"), &self.context.workspace.root)?),
        };
        let (mut any_test, mut any_run) = (false, false);
        for selector in &self.tests.programs {
            for program in self.context.workspace.select(selector).map_err(SetupError::Failed)? {
                let executable = executables
                    .get(&program.compiled())
                    .ok_or_else(|| SetupError::Failed(format!("no {}", program.label())))?;
                let Some(suite) = self.run_program(&program, executable, plain.as_ref())? else { continue };
                any_run = true;
                any_test |= suite.totals.passed + suite.failures() > 0;
                self.context.report.add(suite);
            }
        }
        if any_run && !any_test && self.context.filter.is_none() {
            return Err(SetupError::Failed("no test has run".into()));
        }
        Ok(())
    }

    /// Runs a program, unless this very run is done.
    fn run_program(
        &self,
        program: &Program,
        executable: &Path,
        plain: Option<&PlainPlace>,
    ) -> Result<Option<Suite>, SetupError> {
        let (context, label) = (self.context, program.label());
        let same = format!(
            "{} {:?} {:?} {:?} {:?} {:?}",
            executable.display(),
            program.module,
            self.tests.args,
            self.env,
            self.tests.user,
            self.daemon
        );
        if let Some(lane) = lock(&context.done).insert(same, self.lane.to_owned()) {
            context.printer.line(&format!("  done                {}: {label} (by the lane {lane})", self.step.name));
            return Ok(None);
        }
        let Some(arguments) = self.arguments(program, executable)? else { return Ok(None) };
        self.clear_kept()?;
        let log = context.log(self.lane, &format!("{} {label}", self.step.name));
        let _ = std::fs::remove_file(&log);
        let mut command = self.command(program, executable, plain)?;
        command.args(arguments);
        let begun = Instant::now();
        let ended =
            process::run(&mut command, &log, self.step.limit, &|elapsed| self.still_running(&label, &log, elapsed));
        let seconds = begun.elapsed().as_secs_f64();
        let output = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
        let mut parsed = libtest::parse(&output);
        if let Some(module) = &program.module {
            parsed.within(module);
        }
        let problem = match ended {
            Err(RunError::Interrupted) => return Err(SetupError::Interrupted),
            Err(error) => Some(SetupError::from(error).to_string()),
            Ok(status) => problem(status, &parsed, self.tests.may_be_empty || context.filter.is_some()),
        };
        let suite = Suite {
            lane: self.lane.into(),
            step: self.step.name.clone(),
            again: self.again(program, &parsed),
            totals: parsed.totals.unwrap_or_else(|| counted(&parsed)),
            cases: parsed.cases,
            label,
            seconds,
            problem,
            log,
        };
        if suite.failures() > 0 {
            context.printer.line(&format!("{}\n{}", suite.line(), output.trim_end()));
        } else if suite.totals.passed > 0 || context.filter.is_none() {
            context.printer.line(&suite.line());
        }
        Ok(Some(suite))
    }

    fn still_running(&self, label: &str, log: &Path, elapsed: Duration) {
        let done = libtest::parse(&String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default())).cases.len();
        let minutes = elapsed.as_secs() / 60;
        self.context
            .printer
            .line(&format!("  {minutes} min so far    {}: {label} ({done} tests done)", self.step.name));
    }

    /// The program's command: in its package's directory, with what cargo would set for it.
    fn command(&self, program: &Program, executable: &Path, plain: Option<&PlainPlace>) -> Result<Command, SetupError> {
        let mut command = match plain {
            Some(place) => place.command(executable)?,
            None => Command::new(executable),
        };
        if plain.is_none() {
            let (directory, version) = self
                .context
                .workspace
                .place_of(&program.package)
                .ok_or_else(|| SetupError::Failed(format!("no package {}", program.package)))?;
            command.current_dir(directory).env("CARGO", cargo()).env("CARGO_MANIFEST_DIR", directory);
            command.env("CARGO_PKG_NAME", &program.package).env("CARGO_PKG_VERSION", version);
            // A snapshot that differs is a failure, never an update.
            command.env("CARGO_TERM_COLOR", "never").env("INSTA_UPDATE", "no");
            command.envs(self.daemon.iter().map(|(name, value)| (name, value)));
        }
        command.envs(&self.env);
        if !self.tests.own_harness {
            command.args(["-Z", "unstable-options", "--report-time"]).env("RUSTC_BOOTSTRAP", "1");
        }
        Ok(command)
    }

    /// Its arguments; `None` if it has no test that this run wants.
    fn arguments(&self, program: &Program, executable: &Path) -> Result<Option<Vec<String>>, SetupError> {
        let (own, filter) = (&self.tests.args, self.context.filter.as_deref());
        let Some(module) = &program.module else { return Ok(Some(arguments(own, filter))) };
        Ok(modules::arguments(&modules::list(executable)?, module, own, filter))
    }

    /// What tests leave for other steps begins empty.
    fn clear_kept(&self) -> Result<(), SetupError> {
        let kept = self.context.target().join("kept");
        for place in self.env.values().map(Path::new).filter(|place| place.starts_with(&kept)) {
            let _ = std::fs::remove_dir_all(place);
            std::fs::create_dir_all(place)?;
        }
        Ok(())
    }

    /// Commands that run the failed tests alone: cargo's, unless the step gives its programs what cargo cannot.
    fn again(&self, program: &Program, parsed: &Parsed) -> Vec<String> {
        let failed = parsed.cases.iter().filter(|case| case.outcome == Outcome::Failed);
        let within = program.module.as_ref().map(|module| format!("{module}::")).unwrap_or_default();
        let names: Vec<String> = failed.map(|case| format!("{within}{}", case.name)).collect();
        let needs_lane = self.tests.user == User::Plain || self.step.daemon.is_some() || !self.tests.before.is_empty();
        if needs_lane {
            let lane = self.lane;
            return match names.as_slice() {
                [] => vec![format!("./test.sh {lane}")],
                names => names.iter().map(|name| format!("./test.sh {lane} --test {}", quoted(name))).collect(),
            };
        }
        let command = self.cargo_command(program);
        match names.as_slice() {
            [] => vec![format!("{command} {within}").trim_end().to_owned()],
            names if self.tests.own_harness => names.iter().map(|name| format!("{command} {}", quoted(name))).collect(),
            names => names.iter().map(|name| format!("{command} {} -- --exact", quoted(name))).collect(),
        }
    }

    fn cargo_command(&self, program: &Program) -> String {
        let mut words: Vec<String> = self.env.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        words.push(format!("cargo test --profile {PROFILE} -p ringfence"));
        if program.package != "ringfence" {
            // `log` is also the name of a crate that others use.
            let version = self.context.workspace.place_of(&program.package).map_or("", |(_, version)| version);
            words.push(format!("-p {}@{version}", program.package));
        }
        if let Some(features) = &self.tests.features {
            words.push(format!("--features {features}"));
        }
        words.push(program.options());
        words.join(" ")
    }
}

/// A step's arguments, with another filter in the place of its own: libtest runs what matches any of its filters.
fn arguments(own: &[String], filter: Option<&str>) -> Vec<String> {
    let Some(filter) = filter else { return own.into() };
    let skips = own.windows(2).filter(|two| two[0] == "--skip").flatten().cloned();
    skips.chain([filter.to_owned()]).collect()
}

/// Why a program has failed, if that is not the failure of a test.
fn problem(status: std::process::ExitStatus, parsed: &Parsed, may_be_empty: bool) -> Option<String> {
    let totals = parsed.totals.unwrap_or_default();
    if let Some(signal) = status.signal() {
        return Some(format!("killed by signal {signal}"));
    }
    if totals.failed > 0 {
        return None;
    }
    if !status.success() {
        return Some(status.to_string());
    }
    match parsed.totals {
        None => Some("it ended without a result".into()),
        Some(totals) if totals.passed == 0 && !may_be_empty => Some("it has no test to run".into()),
        Some(_) => None,
    }
}

/// What can be counted of a program that did not come to its end.
fn counted(parsed: &Parsed) -> Totals {
    let of = |outcome| parsed.cases.iter().filter(|case| case.outcome == outcome).count();
    Totals { passed: of(Outcome::Passed), failed: of(Outcome::Failed), ignored: of(Outcome::Ignored) }
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    fn parsed(totals: Option<Totals>) -> Parsed {
        Parsed { cases: vec![], totals }
    }

    #[test]
    fn a_program_fails_for_more_than_its_tests() {
        let good = Totals { passed: 2, failed: 0, ignored: 0 };
        let (ok, bad, killed) = (ExitStatus::from_raw(0), ExitStatus::from_raw(101 << 8), ExitStatus::from_raw(9));
        assert_eq!(problem(ok, &parsed(Some(good)), false), None);
        assert_eq!(problem(killed, &parsed(Some(good)), false).as_deref(), Some("killed by signal 9"));
        assert_eq!(problem(bad, &parsed(Some(good)), false).as_deref(), Some("exit status: 101"));
        assert_eq!(problem(ok, &parsed(None), false).as_deref(), Some("it ended without a result"));
        let failed = Totals { failed: 1, ..good };
        assert_eq!(problem(bad, &parsed(Some(failed)), false), None);
    }

    #[test]
    fn a_filter_replaces_a_steps_own_but_not_what_it_skips() {
        let own = ["container::", "--skip", "a", "--skip", "b"].map(str::to_owned);
        assert_eq!(arguments(&own, None), own);
        assert_eq!(arguments(&own, Some("c")), ["--skip", "a", "--skip", "b", "c"]);
    }

    #[test]
    fn a_program_without_a_test_fails_unless_it_may_be_empty() {
        let none = parsed(Some(Totals::default()));
        assert_eq!(problem(ExitStatus::from_raw(0), &none, false).as_deref(), Some("it has no test to run"));
        assert_eq!(problem(ExitStatus::from_raw(0), &none, true), None);
    }
}
