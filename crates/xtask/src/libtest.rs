//! Parses what a test program prints in libtest's pretty format: each test's name, outcome and time, and the totals.
//!
//! Times: `--report-time` appends ` <0.123s>`; a program with a harness of its own may append ` (0.1 s)`. Totals come from
//! the last `test result:` line. Test names are details: a test's child process may write into the middle of such a line.

use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Ignored,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    pub(crate) seconds: Option<f64>,
    /// What a failed test printed.
    pub(crate) output: String,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) cases: Vec<Case>,
    /// Passed, failed, ignored; `None` if the program did not come to an end.
    pub(crate) totals: Option<Totals>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
}

impl Parsed {
    /// Names tests as within a module: reports name the module before them.
    pub(crate) fn within(&mut self, module: &str) {
        for case in &mut self.cases {
            let name = case.name.strip_prefix(module).and_then(|rest| rest.strip_prefix("::"));
            if let Some(name) = name.map(str::to_owned) {
                case.name = name;
            }
        }
    }
}

pub(crate) fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    let mut outputs: BTreeMap<String, String> = BTreeMap::new();
    let mut section = None;
    for line in text.lines() {
        if let Some(totals) = totals(line) {
            parsed.totals = Some(totals);
        } else if let Some(name) = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----")) {
            section = Some(name.to_owned());
        } else if line == "failures:" {
            section = None;
        } else if let Some(name) = &section {
            let output = outputs.entry(name.clone()).or_default();
            output.push_str(line);
            output.push('\n');
        } else if let Some(case) = case(line) {
            parsed.cases.push(case);
        }
    }
    for case in &mut parsed.cases {
        case.output = outputs.remove(&case.name).unwrap_or_default();
    }
    parsed
}

/// `test NAME ... OUTCOME`, with the time if it is there. `test NAME - should panic ... ok` has a remark in it.
fn case(line: &str) -> Option<Case> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let (word, rest) = rest.split_once([' ', ',']).unwrap_or((rest, ""));
    let outcome = match word {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Ignored,
        _ => return None,
    };
    let seconds = rest
        .strip_prefix('<')
        .and_then(|rest| rest.strip_suffix("s>"))
        .or_else(|| rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(" s)")))
        .and_then(|number| number.parse().ok());
    Some(Case { name: name.into(), outcome, seconds, output: String::new() })
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn totals(line: &str) -> Option<Totals> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let of = |word: &str| {
        let part = counts.split(';').map(str::trim).find_map(|part| part.strip_suffix(word));
        part.and_then(|number| number.trim().parse().ok())
    };
    Some(Totals { passed: of("passed")?, failed: of("failed")?, ignored: of("ignored").unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, outcome: Outcome, seconds: Option<f64>, output: &str) -> Case {
        Case { name: name.into(), outcome, seconds, output: output.into() }
    }

    #[test]
    fn tests_of_a_module_are_named_within_it() {
        let mut parsed = parse("test run::deep::one ... ok\ntest runs ... ok\n");
        parsed.within("run");
        let names: Vec<&str> = parsed.cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names, ["deep::one", "runs"]);
    }

    #[test]
    fn outcomes_times_and_outputs_are_read() {
        let text = "
running 4 tests
test one::passes ... ok <0.410s>
test panics - should panic ... ok <0.001s>
test later ... ignored, needs a host
test fails ... FAILED <1.500s>

failures:

---- fails stdout ----

thread 'fails' panicked at src/lib.rs:1:1:
left is right


failures:
    fails

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 1.51s
";
        let output = "\nthread 'fails' panicked at src/lib.rs:1:1:\nleft is right\n\n\n";
        let expected = Parsed {
            cases: vec![
                case("one::passes", Outcome::Passed, Some(0.41), ""),
                case("panics", Outcome::Passed, Some(0.001), ""),
                case("later", Outcome::Ignored, None, ""),
                case("fails", Outcome::Failed, Some(1.5), output),
            ],
            totals: Some(Totals { passed: 2, failed: 1, ignored: 1 }),
        };
        assert_eq!(parse(text), expected);
    }

    #[test]
    fn a_program_that_ended_early_has_no_totals() {
        let parsed = parse("running 2 tests\ntest a ... ok <0.001s>\ntest b ... ");
        assert_eq!(parsed.cases, [case("a", Outcome::Passed, Some(0.001), "")]);
        assert_eq!(parsed.totals, None);
    }

    #[test]
    fn a_harness_of_its_own_is_read_too() {
        let parsed = parse("test no_seccomp ... ok (12.3 s)\n\ntest result: ok. 1 passed; 0 failed\n");
        assert_eq!(parsed.cases, [case("no_seccomp", Outcome::Passed, Some(12.3), "")]);
        assert_eq!(parsed.totals, Some(Totals { passed: 1, failed: 0, ignored: 0 }));
    }

    #[test]
    fn what_a_failed_test_printed_is_not_taken_for_a_test() {
        let text = "---- fails stdout ----\ntest inner ... ok\n\nfailures:\n    fails\n\n\
                    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured\n";
        assert_eq!(parse(text).cases, []);
    }

    #[test]
    fn a_line_that_another_process_broke_is_no_test() {
        assert_eq!(parse("test a ... warning: cannot\ntesting ... ok\n").cases, []);
    }
}
