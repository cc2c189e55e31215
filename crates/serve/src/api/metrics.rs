//! Numbers for Prometheus: of the server as a whole, so nothing of anybody's work.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;

use super::extract::Caller;
use super::problem::ProblemBody;
use crate::app::App;

/// What is counted.
pub(crate) struct Metrics {
    begun: Instant,
    /// By the hundreds of their status.
    responses: [AtomicU64; 6],
    created: AtomicU64,
    execs: AtomicU64,
    failed_ends: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            responses: Default::default(),
            created: AtomicU64::new(0),
            execs: AtomicU64::new(0),
            failed_ends: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    pub(crate) fn count_response(&self, status: StatusCode) {
        if let Some(counter) = self.responses.get(usize::from(status.as_u16() / 100)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_created(&self) {
        self.created.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_exec(&self) {
        self.execs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failed_end(&self) {
        self.failed_ends.fetch_add(1, Ordering::Relaxed);
    }

    fn text(&self, app: &App) -> String {
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, lines: &[(String, u64)]| {
            let _ = writeln!(text, "# HELP ringfence_{name} {help}\n# TYPE ringfence_{name} {kind}");
            for (labels, value) in lines {
                let _ = writeln!(text, "ringfence_{name}{labels} {value}");
            }
        };
        let plain = |value| [(String::new(), value)];
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        one("uptime_seconds", "gauge", "How long the server runs.", &plain(self.begun.elapsed().as_secs()));
        one(
            "sandboxes",
            "gauge",
            "Sandboxes that live or are being made or ended.",
            &plain(number(app.sandboxes.count())),
        );
        one("sessions", "gauge", "Sessions that are open.", &plain(number(app.sessions.count())));
        one("sandboxes_created_total", "counter", "Sandboxes that were made.", &plain(load(&self.created)));
        one("sandbox_ends_failed_total", "counter", "Sandboxes whose end failed.", &plain(load(&self.failed_ends)));
        one("execs_total", "counter", "Commands that were asked for.", &plain(load(&self.execs)));
        let lines: Vec<_> = (1..=5)
            .map(|hundreds| {
                let count = self.responses.get(hundreds).map(load).unwrap_or_default();
                (format!("{{status=\"{hundreds}xx\"}}"), count)
            })
            .collect();
        one("responses_total", "counter", "Responses by status.", &lines);
        text
    }
}

/// Numbers for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server", responses(
    (status = 200, description = "Prometheus' text format", content_type = "text/plain", body = String),
    (status = "default", description = "A problem", body = ProblemBody, content_type = "application/problem+json"),
))]
pub(crate) async fn metrics(State(app): State<Arc<App>>, _: Caller) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], app.metrics.text(&app))
}
