//! A run's network: its gateway, its log, and one line at the end about where the command went.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use egress::{Attachment, GatewayError, GatewayProcess, Notice, Outcome, Protocol, Reason, Record, Settings};
use profile::{Egress, Plan};
use sandbox::Capture;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::network_log::Log;
use crate::args::RunArguments;
use crate::exit::Exit;
use crate::printer::{Look, Printer, plain, span};

/// Why a run has no network that its plan promises, or no record of it.
#[derive(Debug, Error)]
pub(super) enum NetworkError {
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    #[error("capture_lost: the sandbox was stopped because nothing watches its network any more: {0}")]
    CaptureLost(String),
    #[error("cannot write the network log {}", path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("the plan has no network for the agent")]
    NoPlan,
    #[error("the network log {} is not taken: whoever reads it is too slow", path.display())]
    LogStalled { path: PathBuf },
}

impl NetworkError {
    pub(super) fn exit(&self) -> Exit {
        match self {
            Self::Log { .. } | Self::LogStalled { .. } => Exit::Input,
            Self::Gateway(_) | Self::CaptureLost(_) | Self::NoPlan => Exit::Provider,
        }
    }
}

/// Whether the plan captures the sandbox's network.
pub(super) fn is_captured(plan: &Plan) -> bool {
    plan.controls.iter().any(|control| control.id == "network.capture")
}

/// What tells that nothing watches a network any more.
pub(super) type Loss = oneshot::Receiver<NetworkError>;

/// The gateway of one run.
pub(super) struct Network {
    gateway: GatewayProcess,
    attachment: Option<Attachment>,
    lost: Option<Loss>,
    collecting: JoinHandle<Collected>,
}

struct Collected {
    tally: Tally,
    log: Option<NetworkError>,
}

impl Network {
    /// Starts the gateway where the plan has one. The log is opened first: a run without it would be for nothing.
    pub(super) async fn start(arguments: &RunArguments, plan: &Plan) -> Result<Option<Self>, NetworkError> {
        let log = arguments.network_log.as_ref().map(|path| Log::open(path)).transpose()?;
        if !is_captured(plan) {
            return Ok(None);
        }
        let settings = Settings { upstream: arguments.dns_upstream, ..Settings::default() };
        let (gateway, notices) = GatewayProcess::start(settings, None).await?;
        let (tell, lost) = oneshot::channel();
        let collecting = tokio::spawn(collect(notices, log, tell));
        Ok(Some(Self { gateway, attachment: None, lost: Some(lost), collecting }))
    }

    /// Has the sandbox served. Nothing may run in it before.
    pub(super) async fn attach(&mut self, run: &str, plan: &Plan, capture: Capture) -> Result<(), NetworkError> {
        let egress: &Egress = plan.network.phases.get("agent").map(|zone| &zone.egress).ok_or(NetworkError::NoPlan)?;
        self.attachment = Some(self.gateway.attach(run, egress, capture).await?);
        Ok(())
    }

    /// Resolves when nothing watches the sandbox's network any more.
    pub(super) async fn lost(network: &mut Option<Self>) -> NetworkError {
        match network {
            Some(network) => Self::loss(&mut network.lost).await,
            None => std::future::pending().await,
        }
    }

    /// The gateway, and what tells of its loss.
    pub(super) fn parts(&mut self) -> (&GatewayProcess, Option<Loss>) {
        (&self.gateway, self.lost.take())
    }

    /// Resolves when nothing watches the network any more that this is of.
    pub(super) async fn loss(lost: &mut Option<Loss>) -> NetworkError {
        let Some(lost) = lost.take() else { return std::future::pending().await };
        lost.await.unwrap_or_else(|_| NetworkError::CaptureLost("the gateway is gone".into()))
    }

    /// Ends the network, completes the log and says where the command went.
    pub(super) async fn finish(self, printer: &mut Printer) -> Result<(), NetworkError> {
        let (counters, silent) = match self.attachment {
            Some(attachment) => match self.gateway.detach(attachment).await {
                Ok(counters) => (Some(counters), None),
                // Records may be missing, and nothing else says so.
                Err(error @ GatewayError::Silent) => (None, Some(NetworkError::Gateway(error))),
                // A gateway that is gone was reported as a lost capture.
                Err(_) => (None, None),
            },
            None => (None, None),
        };
        // Ends its process, whatever state that is in.
        drop(self.gateway);
        let Ok(Collected { tally, log }) = self.collecting.await else { return Ok(()) };
        if let Some(line) = tally.line() {
            printer.message(&vec![vec![span(Look::Faint, "network"), plain(format!(": {line}"))]]);
        }
        if let Some(lost) = counters.map(|counters| counters.lost).filter(|lost| *lost > 0) {
            let text = format!(": {lost} records came too fast to be kept");
            printer.message(&vec![vec![span(Look::Doubtful, "network"), plain(text)]]);
        }
        silent.or(log).map_or(Ok(()), Err)
    }
}

/// Takes everything that the gateway says, to its end. A log that cannot be written ends the run: it would be for nothing.
async fn collect(
    mut notices: mpsc::UnboundedReceiver<Notice>,
    mut log: Option<Log>,
    lost: oneshot::Sender<NetworkError>,
) -> Collected {
    let mut collected = Collected { tally: Tally::default(), log: None };
    let mut lost = Some(lost);
    while let Some(notice) = notices.recv().await {
        let why = match notice {
            Notice::Record(record) => {
                collected.tally.add(&record);
                match log.as_ref().map(|log| log.write(record)) {
                    None | Some(Ok(())) => continue,
                    Some(Err(error)) => {
                        log = None;
                        error
                    }
                }
            }
            Notice::Detached(_) => continue,
            Notice::Lost(lost) => NetworkError::CaptureLost(lost.why),
            Notice::Gone => NetworkError::CaptureLost("the gateway is gone".into()),
        };
        if let Some(lost) = lost.take() {
            let _ = lost.send(why);
        }
    }
    if let Some(log) = log {
        collected.log = log.close().await.err();
    }
    collected
}

/// Where the command went, by name.
#[derive(Default)]
struct Tally {
    reached: BTreeMap<String, u64>,
    refused: BTreeMap<String, (u64, Option<Reason>)>,
    /// What came when a list was full.
    others: bool,
}

/// How many names one line holds, and how many are counted of each kind.
const SHOWN: usize = 6;
const COUNTED: usize = 10_000;
/// How much of what a refused connection presented is in the line.
const SHOWN_TEXT: usize = 100;

impl Tally {
    fn add(&mut self, record: &Record) {
        let place = match (&record.name, record.asked, record.port) {
            (Some(name), _, Some(port)) if !matches!(port, 80 | 443) => format!("{name}:{port}"),
            (Some(name), ..) => name.clone(),
            (None, Some(address), Some(port)) => std::net::SocketAddr::new(address, port).to_string(),
            _ => format!("{:?}", record.protocol).to_lowercase(),
        };
        // A refusal for another name than the listed one says which.
        let place = match &record.shown {
            Some(shown) if record.verdict == Outcome::Refused => {
                format!("{place} [{}]", shown.to_string().chars().take(SHOWN_TEXT).collect::<String>())
            }
            _ => place,
        };
        // Each kind has its own room: a flood of refusals must not hide where something went.
        match record.verdict {
            // A name that was asked for is reached when a connection says so.
            Outcome::Allowed if record.protocol == Protocol::Dns => {}
            Outcome::Allowed if self.reached.contains_key(&place) || self.reached.len() < COUNTED => {
                *self.reached.entry(place).or_default() += record.count;
            }
            Outcome::Refused | Outcome::Failed if self.refused.contains_key(&place) || self.refused.len() < COUNTED => {
                let (count, reason) = self.refused.entry(place).or_default();
                *count += record.count;
                *reason = record.reason;
            }
            _ => self.others = true,
        }
    }

    fn line(&self) -> Option<String> {
        let reached: Vec<String> = self.reached.iter().map(|(name, count)| format!("{name} ({count})")).collect();
        let refused: Vec<String> = self
            .refused
            .iter()
            .map(|(name, (count, reason))| match reason {
                Some(reason) => format!("{name} ({count}, {reason})"),
                None => format!("{name} ({count})"),
            })
            .collect();
        let mut parts: Vec<String> = [("reached", reached), ("refused", refused)]
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(what, names)| format!("{what} {}", few(&names)))
            .collect();
        if self.others {
            parts.push("and others that were not counted".into());
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

fn few(names: &[String]) -> String {
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
