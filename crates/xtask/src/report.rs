//! What a run came to: suites of tests, skipped lanes with their reasons, times; the summary that ends a run.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::libtest::{Case, Outcome, Totals};
use crate::printer::{Printer, clock};

const SLOWEST: usize = 20;
/// Lines of a problem in the summary; the rest stands where it happened.
const MAX_PROBLEM: usize = 8;
/// What is quicker is not worth a line.
const SLOW: f64 = 0.1;

/// One program that ran, or one check.
#[derive(Debug, Clone)]
pub(crate) struct Suite {
    pub(crate) lane: String,
    pub(crate) step: String,
    /// The program, such as `sandbox/attacks`; for a check, its name.
    pub(crate) label: String,
    pub(crate) seconds: f64,
    pub(crate) cases: Vec<Case>,
    pub(crate) totals: Totals,
    /// Why it failed, if that is not the failure of a test.
    pub(crate) problem: Option<String>,
    pub(crate) log: PathBuf,
    /// Commands that run what failed alone.
    pub(crate) again: Vec<String>,
}

impl Suite {
    /// A check: one test that passed or failed.
    pub(crate) fn check(lane: &str, step: &str, seconds: f64, problem: Option<String>, log: PathBuf) -> Self {
        let outcome = if problem.is_none() { Outcome::Passed } else { Outcome::Failed };
        let case =
            Case { name: step.into(), outcome, seconds: Some(seconds), output: problem.clone().unwrap_or_default() };
        Self {
            lane: lane.into(),
            step: step.into(),
            label: step.into(),
            seconds,
            cases: vec![case],
            totals: Totals {
                passed: usize::from(problem.is_none()),
                failed: usize::from(problem.is_some()),
                ignored: 0,
            },
            problem,
            log,
            again: vec![format!("./test.sh {lane}")],
        }
    }

    /// Failed tests; a program that failed without a failed test counts as one.
    pub(crate) fn failures(&self) -> usize {
        if self.totals.failed == 0 { usize::from(self.problem.is_some()) } else { self.totals.failed }
    }

    /// What one line says of it.
    pub(crate) fn line(&self) -> String {
        let verdict = if self.failures() == 0 { "ok" } else { "FAILED" };
        let Totals { passed, ignored, .. } = self.totals;
        let mut counts = format!("{passed} passed");
        if self.failures() > 0 {
            let _ = write!(counts, ", {} failed", self.failures());
        }
        if ignored > 0 {
            let _ = write!(counts, ", {ignored} ignored");
        }
        let name = if self.label == self.step { self.label.clone() } else { format!("{}: {}", self.step, self.label) };
        format!("  {verdict:<6} {:>8.1} s  {name} ({counts})", self.seconds)
    }
}

/// A lane or a step that did not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) lane: String,
    pub(crate) step: Option<String>,
    pub(crate) reason: String,
}

#[derive(Debug, Default)]
struct State {
    suites: Vec<Suite>,
    skipped: Vec<Skipped>,
    /// Lanes (and the compilation) with their seconds.
    times: Vec<(String, f64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Report {
    state: Mutex<State>,
}

impl Report {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, suite: Suite) {
        self.state().suites.push(suite);
    }

    pub(crate) fn skip(&self, lane: &str, step: Option<&str>, reason: &str) {
        self.state().skipped.push(Skipped { lane: lane.into(), step: step.map(str::to_owned), reason: reason.into() });
    }

    pub(crate) fn took(&self, what: &str, seconds: f64) {
        self.state().times.push((what.into(), seconds));
    }

    pub(crate) fn suites_of(&self, lane: &str) -> Vec<Suite> {
        self.state().suites.iter().filter(|suite| suite.lane == lane).cloned().collect()
    }

    /// Passed, failed, skipped: ignored tests, and one for each lane or step that did not run.
    pub(crate) fn totals(&self) -> (usize, usize, usize) {
        let state = self.state();
        let sum = |count: &dyn Fn(&Suite) -> usize| state.suites.iter().map(count).sum::<usize>();
        let skipped = sum(&|suite| suite.totals.ignored) + state.skipped.len();
        (sum(&|suite| suite.totals.passed), sum(&Suite::failures), skipped)
    }

    /// Prints the slowest programs and tests, the lanes, what was skipped, what failed and how to run it alone, and the totals.
    pub(crate) fn print_summary(&self, printer: &Printer) {
        let summary = self.summary();
        printer.line(&summary);
        let (passed, failed, skipped) = self.totals();
        printer.line(&format!("\n{passed} passed, {failed} failed, {skipped} skipped"));
    }

    fn summary(&self) -> String {
        let state = self.state();
        let mut text = String::new();
        let mut programs: Vec<(f64, String)> =
            state.suites.iter().map(|suite| (suite.seconds, format!("{}: {}", suite.step, suite.label))).collect();
        let mut tests: Vec<(f64, String)> = Vec::new();
        for suite in state.suites.iter().filter(|suite| suite.label != suite.step) {
            let timed = suite.cases.iter().filter_map(|case| Some((case.seconds?, case)));
            tests.extend(timed.map(|(seconds, case)| (seconds, format!("{}: {}", suite.label, case.name))));
        }
        for (title, all) in [("slowest programs", &mut programs), ("slowest tests", &mut tests)] {
            all.retain(|(seconds, _)| *seconds >= SLOW);
            all.sort_by(|one, other| other.0.total_cmp(&one.0));
            if !all.is_empty() {
                let _ = writeln!(text, "\n== {title}");
            }
            for (seconds, name) in all.iter().take(SLOWEST) {
                let _ = writeln!(text, "  {seconds:>8.1} s  {name}");
            }
        }
        let _ = writeln!(text, "\n== lanes");
        for (lane, seconds) in &state.times {
            let _ = writeln!(text, "  {:>8}  {}", clock(*seconds), lane_line(&state, lane));
        }
        if !state.skipped.is_empty() {
            let _ = writeln!(text, "\n== skipped");
        }
        for Skipped { lane, step, reason } in &state.skipped {
            let step = step.as_ref().map(|step| format!(", {step}")).unwrap_or_default();
            let _ = writeln!(text, "  {lane}{step}: {reason}");
        }
        let failed: Vec<&Suite> = state.suites.iter().filter(|suite| suite.failures() > 0).collect();
        if !failed.is_empty() {
            let _ = writeln!(text, "\n== failed");
        }
        for suite in failed {
            let _ = writeln!(text, "{}", suite.line());
            for line in suite.problem.iter().flat_map(|problem| problem.lines()).take(MAX_PROBLEM) {
                let _ = writeln!(text, "      {line}");
            }
            for case in suite.cases.iter().filter(|case| case.outcome == Outcome::Failed && case.name != suite.label) {
                let _ = writeln!(text, "      {}", case.name);
            }
            if suite.log.exists() {
                let _ = writeln!(text, "    output: {}", suite.log.display());
            }
            for command in &suite.again {
                let _ = writeln!(text, "    again:  {command}");
            }
        }
        text.trim_end().to_owned()
    }
}

fn lane_line(state: &State, lane: &str) -> String {
    let suites: Vec<&Suite> = state.suites.iter().filter(|suite| suite.lane == lane).collect();
    if suites.is_empty() {
        return lane.to_owned();
    }
    let passed: usize = suites.iter().map(|suite| suite.totals.passed).sum();
    let failed: usize = suites.iter().map(|suite| suite.failures()).sum();
    format!("{lane} ({passed} passed, {failed} failed)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite(label: &str, totals: Totals, problem: Option<&str>) -> Suite {
        Suite {
            lane: "unit".into(),
            step: "unit tests".into(),
            label: label.into(),
            seconds: 1.25,
            cases: vec![],
            totals,
            problem: problem.map(str::to_owned),
            log: "log".into(),
            again: vec!["cargo test".into()],
        }
    }

    #[test]
    fn a_skipped_lane_is_never_counted_as_passed() {
        let report = Report::default();
        report.skip("docker", None, "missing docker.io");
        report.add(suite("wire/lib", Totals { passed: 3, failed: 0, ignored: 1 }, None));
        assert_eq!(report.totals(), (3, 0, 2));
        assert!(report.summary().contains("== skipped\n  docker: missing docker.io"), "{}", report.summary());
    }

    #[test]
    fn a_program_that_crashed_counts_as_a_failure() {
        let report = Report::default();
        report.add(suite("wire/lib", Totals { passed: 3, failed: 0, ignored: 0 }, Some("killed by signal 11")));
        assert_eq!(report.totals(), (3, 1, 0));
        let summary = report.summary();
        let expected = "== failed\n  FAILED      1.2 s  unit tests: wire/lib (3 passed, 1 failed)\n      killed by signal 11\n    \
                        again:  cargo test";
        assert!(summary.ends_with(expected), "{summary}");
    }

    #[test]
    fn a_check_is_one_test() {
        let failed = Suite::check("lint", "format", 2.0, Some("exit status: 1".into()), "log".into());
        assert_eq!((failed.totals.passed, failed.failures()), (0, 1));
        assert_eq!(failed.line(), "  FAILED      2.0 s  format (0 passed, 1 failed)");
    }
}
