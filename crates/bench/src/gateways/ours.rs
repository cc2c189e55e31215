//! A sandbox behind our gateway, as `ringfence run` makes them.

use std::error::Error;
use std::path::Path;

use egress::{Attachment, GatewayProcess, Settings};
use jail::zygote::Mount;
use profile::{Egress, NetworkRules};
use sandbox::{Containers, Exec, Outcome, Overflow, Running, Sandbox, User};
use tempfile::TempDir;

use super::client::{Errand, PROGRAM};
use super::origin;
use crate::sandboxes;

/// Where the client is in the sandbox.
const PROGRAMS: &str = "/opt/bench";
/// Longer than any errand takes.
const TIMEOUT_MS: u64 = 120_000;

/// A sandbox and its gateway.
pub(crate) struct Ours {
    sandbox: Sandbox,
    gateway: GatewayProcess,
    attachment: Attachment,
    /// Takes the records, as a log would.
    reading: tokio::task::JoinHandle<()>,
}

impl Ours {
    /// Creates both; every sandbox has its own, and `connections` at the same time where the default is too few.
    pub(crate) async fn start(programs: &TempDir, connections: Option<u32>) -> Result<Self, Box<dyn Error>> {
        let mut settings = Settings { upstream: Some((origin::ADDRESS, origin::DNS).into()), ..Settings::default() };
        if let Some(connections) = connections {
            settings.limits.connections = usize::try_from(connections)?;
        }
        let (gateway, mut notices) = GatewayProcess::start(settings, None).await?;
        let reading = tokio::spawn(async move { while notices.recv().await.is_some() {} });
        let source = Path::new(programs.path()).to_str().ok_or("a temporary directory without a plain name")?;
        let mut request = sandboxes::request();
        request.mounts = vec![Mount { source: source.to_owned(), target: PROGRAMS.to_owned(), writable: false }];
        let run = format!("bench-{}", gateway.pid());
        let (sandbox, capture) = Containers::start(run.as_str())?.create_captured(request).await?;
        let rules = NetworkRules { allow: [origin::NAME.parse()?].into(), ..NetworkRules::default() };
        let attachment = gateway.attach(&run, &Egress::Listed { rules }, capture).await?;
        Ok(Self { sandbox, gateway, attachment, reading })
    }

    /// The gateway's process number.
    pub(crate) fn pid(&self) -> u32 {
        self.gateway.pid()
    }

    /// Starts a client inside.
    pub(crate) fn begin(&self, errand: &Errand) -> Result<Running, Box<dyn Error>> {
        Ok(self.sandbox.start(exec(errand))?)
    }

    /// Runs a client inside; what it printed.
    pub(crate) async fn run(&self, errand: &Errand) -> Result<String, Box<dyn Error>> {
        let completed = self.sandbox.exec(exec(errand), b"", 1 << 20, Overflow::Kill).await?;
        if completed.outcome == Outcome::Exited(0) {
            return Ok(String::from_utf8(completed.stdout)?);
        }
        Err(format!("{:?}: {}", completed.outcome, String::from_utf8_lossy(&completed.stderr)).into())
    }

    pub(crate) async fn stop(self) -> Result<(), Box<dyn Error>> {
        self.sandbox.stop().await?;
        let counters = self.gateway.detach(self.attachment).await?;
        self.reading.abort();
        // What was refused was fast, and what was not recorded was not paid for.
        match (counters.refused, counters.lost) {
            (0, 0) => Ok(()),
            (refused, lost) => Err(format!("the gateway refused {refused} connections and lost {lost} records").into()),
        }
    }
}

fn exec(errand: &Errand) -> Exec {
    let mut argv = vec![format!("{PROGRAMS}/{PROGRAM}")];
    argv.extend(errand.arguments());
    Exec {
        argv,
        env: Vec::new(),
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: Some(TIMEOUT_MS),
        max_output: None,
    }
}
