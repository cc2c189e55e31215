//! Runs pytest on the Python package and counts its tests. One that is skipped lacks its system, and has failed.

use std::time::Instant;

use crate::libtest::{Case, Outcome, Totals};
use crate::process;
use crate::report::Suite;
use crate::run::Checks;
use crate::setup::SetupError;

/// Quiet but for one line per test at the end.
const OPTIONS: [&str; 9] =
    ["{python}", "-m", "pytest", "-q", "-rA", "-W", "ignore", "--show-capture=no", "-pno:cacheprovider"];

pub(crate) fn run(checks: &Checks<'_>, arguments: &[String]) -> Result<(), SetupError> {
    let words: Vec<String> = OPTIONS.iter().map(|&word| word.to_owned()).chain(arguments.iter().cloned()).collect();
    let (lane, step) = (&checks.lane.name, &checks.step.name);
    let log = checks.context.log(lane, step);
    let _ = std::fs::remove_file(&log);
    let begun = Instant::now();
    let status = process::run(&mut checks.command("python", &words)?, &log, checks.step.limit, &|elapsed| {
        checks.context.printer.line(&format!("  {} min so far    {step}", elapsed.as_secs() / 60));
    })?;
    let output = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
    let totals = totals(&output);
    let problem = match totals {
        None => Some("pytest did not come to a result".to_owned()),
        Some(Totals { passed: 0, failed: 0, .. }) => Some("no test has run".to_owned()),
        Some(totals) if totals.failed == 0 && !status.success() => Some(status.to_string()),
        Some(_) => None,
    };
    let suite = Suite {
        lane: lane.clone(),
        step: step.clone(),
        label: "pytest".into(),
        seconds: begun.elapsed().as_secs_f64(),
        cases: cases(&output),
        totals: totals.unwrap_or_default(),
        problem,
        log,
        again: vec![format!("./test.sh {lane}")],
    };
    checks.context.printer.line(&suite.line());
    if suite.failures() > 0 {
        checks.context.printer.line(output.trim_end());
    }
    checks.context.report.add(suite);
    Ok(())
}

/// The last line: `2 failed, 30 passed, 1 skipped, 6 deselected in 2.71s`.
fn totals(output: &str) -> Option<Totals> {
    let (counts, _) = output.lines().rev().find(|line| !line.trim().is_empty())?.rsplit_once(" in ")?;
    let mut totals = Totals::default();
    for part in counts.trim_matches(['=', ' ']).split(", ") {
        let (number, word) = part.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        match word {
            "passed" => totals.passed += number,
            "failed" | "error" | "errors" | "skipped" => totals.failed += number,
            _ => {}
        }
    }
    Some(totals)
}

/// The tests that `-rA` lists.
fn cases(output: &str) -> Vec<Case> {
    let case = |line: &str| {
        let (word, rest) = line.split_once(' ')?;
        let outcome = match word {
            "PASSED" => Outcome::Passed,
            "FAILED" | "ERROR" | "SKIPPED" => Outcome::Failed,
            _ => return None,
        };
        let (name, output) = rest.split_once(" - ").unwrap_or((rest, ""));
        Some(Case { name: name.into(), outcome, seconds: None, output: output.into() })
    };
    output.lines().filter_map(case).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_has_failed() {
        let output = "..s\nPASSED tests/a.py::one\nSKIPPED [1] tests/a.py:3: no layout\nFAILED tests/a.py::two - assert 1 == 2\n\
                      1 failed, 1 passed, 1 skipped, 4 deselected in 2.71s\n";
        assert_eq!(totals(output), Some(Totals { passed: 1, failed: 2, ignored: 0 }));
        let outcomes: Vec<_> = cases(output).into_iter().map(|case| (case.name, case.outcome)).collect();
        let expected = [
            ("tests/a.py::one".to_owned(), Outcome::Passed),
            ("[1] tests/a.py:3: no layout".to_owned(), Outcome::Failed),
            ("tests/a.py::two".to_owned(), Outcome::Failed),
        ];
        assert_eq!(outcomes, expected);
    }

    #[test]
    fn a_run_that_was_cut_off_has_no_totals() {
        assert_eq!(totals("Traceback (most recent call last):\n  File \"x\", line 1, in <module>\n"), None);
        assert_eq!(totals(""), None);
    }
}
