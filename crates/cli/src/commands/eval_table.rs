//! What several evaluations came to, in one table: score with its interval for each task and model.

use std::path::{Path, PathBuf};

use log::{Reader, Status};
use serde::Serialize;
use serde_json::{Value, json};

use super::eval_run::{Ended, Outcome};
use crate::exit::Exit;
use crate::printer::{Look, Printer, Span, plain, span};
use crate::table::{page_width, table};

/// Of a normal distribution, so many standard errors around its mean hold 95 of 100.
const SPREAD: f64 = 1.96;

/// A score and how far it can be believed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Estimate {
    pub(super) scorer: String,
    pub(super) value: f64,
    pub(super) stderr: f64,
    /// The interval that holds the true one in 95 of 100 cases.
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Estimate {
    /// The first score of Inspect's `results`.
    pub(super) fn of(results: &Value) -> Option<Self> {
        let score = results["scores"].get(0)?;
        let metric = |name: &str| score["metrics"][name]["value"].as_f64();
        let any = || score["metrics"].as_object()?.values().next()?["value"].as_f64();
        let value = metric("accuracy").or_else(|| metric("mean")).or_else(any)?;
        let stderr = metric("stderr").unwrap_or(0.0);
        let by_spread = || {
            let (low, high) = (value - SPREAD * stderr, value + SPREAD * stderr);
            // What is a share stays one.
            if (0.0..=1.0).contains(&value) { (low.max(0.0), high.min(1.0)) } else { (low, high) }
        };
        let (low, high) = metric("bootstrap_low").zip(metric("bootstrap_high")).unwrap_or_else(by_spread);
        let scorer = score["name"].as_str().unwrap_or_default().to_owned();
        Some(Self { scorer, value, stderr, low, high })
    }
}

/// One evaluation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Row {
    pub(super) task: String,
    pub(super) model: String,
    pub(super) profile: String,
    /// As logs have it, or `missing`, `refused`.
    pub(super) status: String,
    pub(super) samples: u64,
    pub(super) total: u64,
    pub(super) score: Option<Estimate>,
    pub(super) log: Option<PathBuf>,
    pub(super) error: Option<String>,
}

impl Row {
    /// A status as logs have it.
    pub(super) fn name(status: Status) -> &'static str {
        match status {
            Status::Success => "success",
            Status::Cancelled => "cancelled",
            Status::Error => "error",
            Status::Started => "started",
        }
    }

    /// What never began, because something was in its way.
    pub(super) fn refused(task: &str, model: &str) -> Self {
        Self {
            task: task.to_owned(),
            model: model.to_owned(),
            profile: String::new(),
            status: "refused".into(),
            samples: 0,
            total: 0,
            score: None,
            log: None,
            error: None,
        }
    }

    /// What is about to begin.
    pub(super) fn begun(job: &eval::Job) -> Self {
        let profile = job.plan.profile.to_string();
        Self { profile, status: "missing".into(), ..Self::refused(&job.task.name, job.models.agent().name()) }
    }

    /// What has just ended.
    pub(super) fn of(ended: &Ended) -> Self {
        let profile = ended.profile.to_string();
        let mut row = Self { profile, status: "missing".into(), ..Self::refused(&ended.name, &ended.model) };
        match &ended.outcome {
            Outcome::Ended(evaluation) => {
                row.status = Self::name(evaluation.status).into();
                row.samples = evaluation.progress.done - evaluation.progress.failed;
                row.total = evaluation.progress.total;
                row.score = Estimate::of(&evaluation.results);
                row.log = Some(evaluation.log.clone());
                row.error.clone_from(&evaluation.error);
            }
            Outcome::Failed(error) => {
                row.status = "error".into();
                row.error = Some(error.to_string());
            }
            Outcome::Lost(why) => {
                row.status = "error".into();
                row.error = Some(why.clone());
            }
            Outcome::NotBegun => {}
        }
        row
    }

    /// What a log says.
    pub(super) fn read(log: &Path, reader: &Reader) -> Self {
        let text = |path: &str| reader.at(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let count = |path: &str| reader.at(path).and_then(Value::as_u64).unwrap_or_default();
        Self {
            task: text("/eval/task"),
            model: text("/eval/model"),
            profile: text("/eval/sandbox/config"),
            status: Self::name(reader.status()).into(),
            samples: count("/results/completed_samples"),
            total: count("/results/total_samples"),
            score: Estimate::of(reader.at("/results").unwrap_or(&Value::Null)),
            log: Some(log.to_path_buf()),
            error: reader.at("/error/message").and_then(Value::as_str).map(str::to_owned),
        }
    }

    fn exit(&self) -> Exit {
        match self.status.as_str() {
            // Why it was refused has been said, and how that ends.
            "success" | "refused" => Exit::Done,
            "cancelled" | "missing" => Exit::Interrupted,
            _ => Exit::Failed,
        }
    }

    fn cells(&self) -> Vec<Span> {
        let look = match self.status.as_str() {
            "success" => Look::Good,
            "error" | "refused" => Look::Bad,
            _ => Look::Doubtful,
        };
        let score = self.score.as_ref().map_or_else(String::new, |score| {
            format!("{:.3} ± {:.3} [{:.3}, {:.3}]", score.value, score.stderr, score.low, score.high)
        });
        let log = self.log.as_deref().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        vec![
            span(Look::Strong, self.task.clone()),
            plain(self.model.clone()),
            plain(self.profile.clone()),
            span(look, self.status.clone()),
            plain(format!("{}/{}", self.samples, self.total)),
            plain(score),
            plain(log),
        ]
    }
}

/// Prints all, and says how that ends. `set` is what is said of the set that they are.
pub(super) fn print(rows: &[Row], set: Option<&Value>, printer: &mut Printer) -> Exit {
    let exit = rows.iter().map(Row::exit).fold(Exit::Done, Exit::worse);
    if printer.json() {
        printer.data(&json!({"schema": "ringfence.evaluations/1", "set": set, "evaluations": rows}));
        return exit;
    }
    let header = ["task", "model", "profile", "status", "samples", "score ± stderr [95 %]", "log"];
    let cells: Vec<Vec<Span>> = rows.iter().map(Row::cells).collect();
    printer.page(&table(&header, &cells, page_width()));
    // Why something was refused has been said.
    let errors: Vec<Vec<Span>> = rows
        .iter()
        .filter(|row| row.status != "refused")
        .filter_map(|row| {
            let error = row.error.as_ref()?;
            Some(vec![span(Look::Bad, "error"), plain(format!(": {} {}: {error}", row.task, row.model))])
        })
        .collect();
    printer.page(&errors);
    exit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(metrics: &Value) -> Value {
        json!({"scores": [{"name": "exact", "metrics": metrics}]})
    }

    #[test]
    fn an_interval_is_the_bootstrap_s_or_by_the_standard_error() {
        let value = |value: f64| json!({"value": value});
        let of = |metrics: Value| Estimate::of(&results(&metrics)).map(|score| (score.value, score.low, score.high));
        let plain = json!({"accuracy": value(0.9), "mean": value(0.1), "stderr": value(0.1)});
        assert_eq!(of(plain), Some((0.9, 0.9 - 1.96 * 0.1, 1.0)));
        let bootstrap = json!({"mean": value(0.5), "bootstrap_low": value(0.2), "bootstrap_high": value(0.6)});
        assert_eq!(of(bootstrap), Some((0.5, 0.2, 0.6)));
        assert_eq!(of(json!({"mean": value(3.0), "stderr": value(1.0)})), Some((3.0, 3.0 - 1.96, 3.0 + 1.96)));
        assert_eq!(of(json!({})), None);
        assert_eq!(Estimate::of(&json!({})), None);
    }
}
