//! What scores come to, in one line each.

use serde_json::Value;

use crate::printer::{Page, plain};

/// A line for each scorer and reducer: the score, how sure it is, and who is not counted.
pub(super) fn lines(results: &Value) -> Page {
    let scores = results["scores"].as_array().into_iter().flatten();
    scores.map(|score| vec![plain(format!("  {}", line(score)))]).collect()
}

fn line(score: &Value) -> String {
    let metric = |name: &str| score["metrics"][name]["value"].as_f64();
    let reducer = score["reducer"].as_str().map(|reducer| format!(" ({reducer})")).unwrap_or_default();
    let scorer = score["name"].as_str().unwrap_or_default();
    // Whatever a task asks for first, where it does not ask for these.
    let first = || {
        let (name, first) = score["metrics"].as_object()?.iter().next()?;
        Some((format!("{name} "), first["value"].as_f64()?))
    };
    let Some((name, value)) =
        metric("accuracy").or_else(|| metric("mean")).map(|value| (String::new(), value)).or_else(first)
    else {
        return format!("{scorer}{reducer}: nothing was scored{}", left_out(score));
    };
    let error = metric("stderr").or_else(|| metric("bootstrap_stderr")).map(|error| format!(" ± {error:.3}"));
    let interval = metric("bootstrap_low").zip(metric("bootstrap_high"));
    let interval = interval.map(|(low, high)| format!(" [{low:.3}, {high:.3}]"));
    let (error, interval) = (error.unwrap_or_default(), interval.unwrap_or_default());
    format!("{scorer}{reducer}: {name}{value:.3}{error}{interval}{}", left_out(score))
}

fn left_out(score: &Value) -> String {
    match score["unscored_samples"].as_u64() {
        None | Some(0) => String::new(),
        Some(count) => format!(", {count} unscored"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_how_sure_a_score_is() {
        let metrics = json!({
            "accuracy": {"value": 0.5}, "stderr": {"value": 0.25}, "bootstrap_low": {"value": 0.1}, "bootstrap_high": {"value": 0.9},
        });
        let score = json!({"name": "f1", "reducer": "mean", "metrics": metrics, "unscored_samples": 2});
        assert_eq!(line(&score), "f1 (mean): 0.500 ± 0.250 [0.100, 0.900], 2 unscored");
        assert_eq!(line(&json!({"name": "f1", "metrics": {"std": {"value": 0.5}}})), "f1: std 0.500");
        assert_eq!(
            line(&json!({"name": "f1", "metrics": {}, "unscored_samples": 1})),
            "f1: nothing was scored, 1 unscored"
        );
    }
}
