//! A lane's results as JUnit XML, for machines that read it: a suite per program, a case per test.

use std::fmt::Write as _;

use crate::libtest::Outcome;
use crate::report::Suite;

/// No case carries more output than this.
const MAX_OUTPUT: usize = 64 << 10;

pub(crate) fn document(lane: &str, suites: &[Suite]) -> String {
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let (tests, failures, seconds) = suites.iter().fold((0, 0, 0.0), |(tests, failures, seconds), suite| {
        let all = suite.totals.passed + suite.failures() + suite.totals.ignored;
        (tests + all, failures + suite.failures(), seconds + suite.seconds)
    });
    let _ = writeln!(
        text,
        "<testsuites name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" time=\"{seconds:.3}\">",
        escaped(lane)
    );
    for suite in suites {
        write_suite(&mut text, suite);
    }
    text.push_str("</testsuites>\n");
    text
}

fn write_suite(text: &mut String, suite: &Suite) {
    let class = escaped(&format!("{}: {}", suite.step, suite.label));
    let _ = writeln!(
        text,
        "  <testsuite name=\"{class}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
        suite.totals.passed + suite.failures() + suite.totals.ignored,
        suite.failures(),
        suite.totals.ignored,
        suite.seconds
    );
    for case in &suite.cases {
        let time = case.seconds.map(|seconds| format!(" time=\"{seconds:.3}\"")).unwrap_or_default();
        let _ = write!(text, "    <testcase classname=\"{class}\" name=\"{}\"{time}", escaped(&case.name));
        match case.outcome {
            Outcome::Passed => text.push_str("/>\n"),
            Outcome::Ignored => text.push_str("><skipped/></testcase>\n"),
            Outcome::Failed => {
                let _ = writeln!(text, "><failure>{}</failure></testcase>", escaped(end_of(&case.output)));
            }
        }
    }
    if let Some(problem) = suite.problem.as_ref().filter(|_| suite.totals.failed == 0) {
        let _ = writeln!(
            text,
            "    <testcase classname=\"{class}\" name=\"the program\"><failure>{}</failure></testcase>",
            escaped(end_of(problem))
        );
    }
    text.push_str("  </testsuite>\n");
}

/// The last part of a text, whole characters.
fn end_of(text: &str) -> &str {
    let mut start = text.len().saturating_sub(MAX_OUTPUT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// A text for attributes and content. XML has no way to write most control characters: they become U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtest::{Case, Totals};

    #[test]
    fn whatever_a_test_prints_the_document_stays_xml() {
        assert_eq!(escaped("a<b> & \"c\"\u{1b}[31m\r\n"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}[31m\u{fffd}\n");
    }

    #[test]
    fn suites_and_cases_are_written_with_their_counts() {
        let case = |name: &str, outcome, seconds, output: &str| Case {
            name: name.into(),
            outcome,
            seconds,
            output: output.into(),
        };
        let suite = Suite {
            lane: "unit".into(),
            step: "unit tests".into(),
            label: "wire/lib".into(),
            seconds: 1.5,
            cases: vec![
                case("a::b", Outcome::Passed, Some(0.25), ""),
                case("c", Outcome::Failed, None, "left < right"),
                case("d", Outcome::Ignored, None, ""),
            ],
            totals: Totals { passed: 1, failed: 1, ignored: 1 },
            problem: None,
            log: "log".into(),
            again: vec![],
        };
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"unit\" tests=\"3\" failures=\"1\" time=\"1.500\">
  <testsuite name=\"unit tests: wire/lib\" tests=\"3\" failures=\"1\" skipped=\"1\" time=\"1.500\">
    <testcase classname=\"unit tests: wire/lib\" name=\"a::b\" time=\"0.250\"/>
    <testcase classname=\"unit tests: wire/lib\" name=\"c\"><failure>left &lt; right</failure></testcase>
    <testcase classname=\"unit tests: wire/lib\" name=\"d\"><skipped/></testcase>
  </testsuite>
</testsuites>
";
        assert_eq!(document("unit", &[suite]), expected);
    }

    #[test]
    fn long_output_is_cut_between_characters() {
        let text = "é".repeat(MAX_OUTPUT);
        assert_eq!(end_of(&text).len(), MAX_OUTPUT);
        assert_eq!(end_of(&format!("{text}x")).len(), MAX_OUTPUT - 1);
    }
}
