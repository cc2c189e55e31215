//! The peers: proxies of Debian, without logs and caches, which they would have to pay for.

use std::error::Error;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::client::Way;
use super::origin;

/// Names of rows.
pub(crate) const SQUID: &str = "squid CONNECT";
pub(crate) const SQUID_FORWARD: &str = "squid forward";

/// How long one may take to listen.
const START: Duration = Duration::from_secs(10);

/// A proxy that runs. It ends when dropped.
pub(crate) struct Proxy {
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    port: u16,
    process: Child,
    _configuration: TempDir,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Proxy {
    /// Where its clients go.
    pub(crate) fn at(&self) -> String {
        format!("{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }
}

/// Squid as a tunnel and squid as a proxy are two processes, so that neither warms the other up.
fn squid(port: u16) -> String {
    format!(
        "http_port 127.0.0.1:{port}\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log /dev/null\n\
         pid_filename none\npinger_enable off\nshutdown_lifetime 0 seconds\nmax_filedescriptors 4096\n"
    )
}

fn tinyproxy(port: u16) -> String {
    format!("Port {port}\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 600\nMaxClients 100\nLogLevel Critical\n")
}

/// Every proxy that is installed and works here, and why the others are not measured.
pub(crate) fn present() -> (Vec<Proxy>, Vec<String>) {
    let bridge = |port: u16| {
        vec![format!("TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"), format!("TCP:{}", origin::address())]
    };
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let (mut proxies, mut absent) = (Vec::new(), Vec::new());
    for (name, way, program, port, configuration, arguments) in [
        (SQUID, Way::Connect, "squid", 3128, squid(3128), words("-N -f")),
        (SQUID_FORWARD, Way::Forward, "squid", 3129, squid(3129), words("-N -f")),
        ("tinyproxy CONNECT", Way::Connect, "tinyproxy", 8888, tinyproxy(8888), words("-d -c")),
        ("socat bridge", Way::Straight, "socat", 7000, String::new(), bridge(7000)),
    ] {
        match start(program, port, &configuration, &arguments) {
            Ok((process, directory)) => {
                proxies.push(Proxy { name, way, port, process, _configuration: directory });
            }
            Err(error) => absent.push(format!("{name}: {error}")),
        }
    }
    (proxies, absent)
}

/// Starts one and waits until it listens. Its configuration, where there is one, is the last argument.
fn start(program: &str, port: u16, text: &str, arguments: &[String]) -> Result<(Child, TempDir), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("configuration");
    std::fs::write(&file, text)?;
    let mut command = Command::new(program);
    command.args(arguments).args((!text.is_empty()).then_some(Path::new(&file)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => format!("{program} is not installed"),
        _ => error.to_string(),
    })?;
    let deadline = Instant::now() + START;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if let Some(status) = process.try_wait()? {
            return Err(format!("{program} ended: {status}").into());
        }
        if Instant::now() > deadline {
            process.kill()?;
            process.wait()?;
            return Err(format!("{program} does not listen").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok((process, directory))
}
