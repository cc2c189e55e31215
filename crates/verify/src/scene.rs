//! What a verification is about: the plan, the runner's own view, and the canaries that it planted.

use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::sync::Arc;

use profile::{Affordance, Plan, Profile};
use tempfile::TempDir;

use crate::control::Control;

/// What is verified.
#[derive(Debug, Clone)]
pub struct Subject {
    /// What was asked for.
    pub requested: Profile,
    /// What will be enforced.
    pub plan: Plan,
    /// The sandboxes that the plan amounts to.
    pub kind: Arc<dyn sandbox::Kind>,
    /// What the agent is really given, by whoever gives it.
    pub offered: Vec<Affordance>,
}

/// Everything that probes are judged by.
pub(crate) struct Scene {
    pub(crate) plan: Plan,
    pub(crate) offered: Vec<Affordance>,
    /// Where mounts are shown inside.
    pub(crate) mounts: Vec<String>,
    /// The run's own text, which nobody else can know.
    pub(crate) token: String,
    pub(crate) canary: Canary,
}

/// What of the host is there to be found.
pub(crate) struct Canary {
    directory: TempDir,
    pub(crate) abstract_name: String,
    /// The number of the host's loopback listener.
    pub(crate) port: u16,
    pub(crate) key: u32,
}

/// A text that nobody else can know, in letters and digits.
pub(crate) fn secret() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

impl Canary {
    /// Plants everything. Listeners answer with the token until the process ends or `self` is dropped.
    pub(crate) fn plant(token: &str) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("ringfence-canary-").tempdir()?;
        std::fs::write(directory.path().join("file"), token)?;
        let abstract_name = format!("ringfence-canary-{}", secret());
        let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?;
        let by_path = UnixListener::bind(directory.path().join("socket"))?;
        let loopback = std::net::TcpListener::bind("127.0.0.1:0")?;
        let port = loopback.local_addr()?.port();
        for listener in [by_name, by_path] {
            listener.set_nonblocking(true)?;
            let (listener, token) = (tokio::net::UnixListener::from_std(listener)?, token.to_owned());
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    if let Ok(mut stream) = stream.into_std() {
                        let _ = stream.write_all(token.as_bytes());
                    }
                }
            });
        }
        loopback.set_nonblocking(true)?;
        let (listener, token) = (tokio::net::TcpListener::from_std(loopback)?, token.to_owned());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if let Ok(mut stream) = stream.into_std() {
                    let _ = stream.write_all(token.as_bytes());
                }
            }
        });
        let key = u32::from_str_radix(secret().get(..7).unwrap_or("1"), 16).unwrap_or(1).max(1);
        Ok(Self { directory, abstract_name, port, key })
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("file")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.directory.path().to_path_buf()
    }
}

impl Scene {
    /// Whether the plan promises what this control of a plan stands for.
    pub(crate) fn promises(&self, control: &str) -> bool {
        self.plan.controls.iter().any(|planned| planned.id == control)
    }

    /// Why a control of the host's side is not to be judged: the plan itself says that it is not there.
    pub(crate) fn unclaimed(&self, control: Control) -> Option<&'static str> {
        match control {
            Control::Ids if self.concedes("root_is_root") => {
                Some("the plan says that root inside is root on the daemon's machine")
            }
            Control::CgroupNamespace
            | Control::ProcSys
            | Control::KernelInterfaces
            | Control::Devices
            | Control::Guest
                if self.has_kernel_of_runtime() =>
            {
                Some("the plan says that this is the runtime's own kernel's")
            }
            _ => None,
        }
    }

    /// Whether what programs see of a kernel is a runtime's in user space.
    pub(crate) fn has_kernel_of_runtime(&self) -> bool {
        self.concedes("kernel_of_the_runtime")
    }

    /// Whether the plan bounds this: `memory`, `pids`, `disk`.
    pub(crate) fn bounds(&self, what: &str) -> bool {
        let named = |promise: &str| promise.split([' ', ',']).any(|word| word == what);
        self.plan.controls.iter().any(|planned| planned.id == "limits" && named(&planned.promise))
    }

    /// Whether the plan says that this is not so.
    pub(crate) fn concedes(&self, residual: &str) -> bool {
        self.plan.residual.iter().any(|conceded| conceded.id == residual)
    }
}
