//! A world for probes to aim at: an internet and a runner's place in it, both ours, joined with nothing else.
//!
//! Two processes, each in a network namespace of its own. In the *internet* canaries answer on every address that a probe
//! tries; at the *place* of the runner stand the gateway and the witness, who shows what is reached without the gateway.
//! Both say what reached them.

mod dns;
mod process;
mod serve;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use egress::{GatewayError, GatewayProcess, Notice, Settings};
use sandbox::{Sandbox, StartError};
use tokio::sync::mpsc;

pub use process::become_world;

use process::{PROCESS, Process};

/// Where names end.
pub(crate) const ZONE: &str = "canary.example.org";
/// The runner's place, and the other end of its link.
pub(crate) const PLACE: Ipv4Addr = Ipv4Addr::new(93, 184, 214, 1);
const LINK: Ipv4Addr = Ipv4Addr::new(93, 184, 214, 2);
const PLACE_V6: Ipv6Addr = Ipv6Addr::new(0x2606, 0x2800, 0x214, 0, 0, 0, 0, 1);
const LINK_V6: Ipv6Addr = Ipv6Addr::new(0x2606, 0x2800, 0x214, 0, 0, 0, 0, 2);
/// The hosts of the internet.
pub(crate) const ALLOWED: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 10);
pub(crate) const FORBIDDEN: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 66);
pub(crate) const PRIVATE: Ipv4Addr = Ipv4Addr::new(10, 66, 0, 10);
pub(crate) const PRIVATE_2: Ipv4Addr = Ipv4Addr::new(192, 168, 77, 10);
pub(crate) const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
pub(crate) const RESOLVER: Ipv4Addr = Ipv4Addr::new(93, 184, 215, 53);
pub(crate) const OUTSIDE_RESOLVER: Ipv4Addr = Ipv4Addr::new(8, 8, 8, 8);
pub(crate) const FORBIDDEN_V6: Ipv6Addr = Ipv6Addr::new(0x2606, 0x2800, 0x220, 1, 0, 0, 0, 0x66);
pub(crate) const PRIVATE_V6: Ipv6Addr = Ipv6Addr::new(0xfd12, 0, 0, 0, 0, 0, 0, 0x10);

const HOSTS: [Ipv4Addr; 7] = [ALLOWED, FORBIDDEN, PRIVATE, PRIVATE_2, METADATA, RESOLVER, OUTSIDE_RESOLVER];
const HOSTS_V6: [Ipv6Addr; 2] = [FORBIDDEN_V6, PRIVATE_V6];
/// Where canaries listen.
pub(crate) const TCP_PORTS: [u16; 3] = [80, 443, 8080];
pub(crate) const UDP_PORTS: [u16; 2] = [443, 7000];

/// The address of a name below the zone.
pub(crate) fn address_of(label: &str) -> Option<Ipv4Addr> {
    Some(match label {
        "allowed" => ALLOWED,
        "forbidden" => FORBIDDEN,
        "private" => PRIVATE,
        "metadata" => METADATA,
        "loopback" => Ipv4Addr::LOCALHOST,
        "own" => PLACE,
        _ => return None,
    })
}

/// Why there is no world.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A process could not be started, or ended.
    #[error("cannot make a network to prove things in")]
    Start(#[source] io::Error),
    /// It said something else than expected.
    #[error("the {which} of the proof's network is not ready; it said: {said}")]
    NotReady {
        /// Which of the two.
        which: &'static str,
        /// What it said.
        said: String,
    },
}

/// The two processes. They end with this.
pub(crate) struct World {
    place: Process,
    internet: Process,
    /// Whether IPv6 works in it.
    pub(crate) v6: bool,
}

impl World {
    /// Makes a world whose canaries answer with this text.
    pub(crate) async fn start(token: &str) -> Result<Self, WorldError> {
        let mut place = Process::start("place", &["place", token])?;
        place.expect("alone").await?;
        let mut internet = Process::start("internet", &["internet", token, &place.pid().to_string()])?;
        internet.expect("alone").await?;
        place.say(&format!("join {}", internet.pid())).await?;
        place.expect("joined").await?;
        internet.say("linked").await?;
        internet.expect("linked").await?;
        place.say("linked").await?;
        let v6 = place.expect("linked").await? == "v6";
        Ok(Self { place, internet, v6 })
    }

    /// Starts a gateway at the runner's place.
    pub(crate) async fn gateway(&self) -> Result<(GatewayProcess, mpsc::UnboundedReceiver<Notice>), GatewayError> {
        let settings = Settings { upstream: Some(SocketAddr::new(RESOLVER.into(), 53)), ..Settings::default() };
        GatewayProcess::start_command(self.enter(&["gateway"]), settings, None).await
    }

    /// Starts a guest at the runner's place, without any sandbox: what it reaches is there to be reached.
    pub(crate) async fn witness(&self) -> Result<Sandbox, StartError> {
        let path = |program: &Path| program.to_string_lossy().into_owned();
        sandbox::start_local_by(|program| self.enter(&["program", &path(program)])).await
    }

    fn enter(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command.arg0(PROCESS).args(["enter", &self.place.pid().to_string()]).args(arguments);
        command.stdin(Stdio::null());
        command
    }

    /// Everything that reached anybody until now.
    pub(crate) async fn arrived(&mut self) -> Result<Vec<Vec<u8>>, WorldError> {
        for process in [&mut self.internet, &mut self.place] {
            process.say("sync").await?;
            process.expect("synced").await?;
        }
        Ok(self.internet.arrived().chain(self.place.arrived()).map(<[u8]>::to_vec).collect())
    }
}

/// The addresses that the internet has, for its own process.
fn internet_addresses() -> BTreeSet<IpAddr> {
    let v4 = HOSTS.into_iter().map(IpAddr::from);
    v4.chain(HOSTS_V6.into_iter().map(IpAddr::from)).collect()
}
