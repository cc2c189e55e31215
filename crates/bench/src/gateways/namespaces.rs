//! Two network namespaces and a link between them. In one is the server, in the other everything else: a gateway refuses
//! what is on its own machine.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use super::client::Errand;
use super::origin;

/// The runner's end of the link, as global as the other.
const RUNNER: &str = "93.184.214.2";

/// Goes on as `egress-runner` in a new namespace; returns only what prevents that.
pub(crate) fn enter_namespace(quick: bool) -> Box<dyn Error> {
    match std::fs::metadata("/proc/self") {
        Ok(own) if own.uid() != 0 => return "this benchmark needs root: it creates network namespaces".into(),
        _ => {}
    }
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return error.into(),
    };
    let mut command = Command::new("unshare");
    command.args(["--net", "--"]).arg(program).arg("egress-runner").args(quick.then_some("--quick"));
    format!("cannot run unshare: {}", command.exec()).into()
}

/// The server's process. It ends when dropped, or with us: its standard input ends then.
pub(crate) struct Origin(Child);

impl Drop for Origin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Origin {
    /// Starts the server in a namespace of its own, and makes the link.
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new("unshare");
        command.args(["--net", "--"]).arg(std::env::current_exe()?).arg("egress-origin");
        let mut origin = Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?);
        let mut line = String::new();
        BufReader::new(origin.0.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        if line.trim_end() != origin::READY {
            return Err("the server did not start".into());
        }
        let pid = origin.0.id();
        let address = origin::ADDRESS;
        configure(
            Command::new("ip"),
            &format!(
                "link set lo up\nlink add rf1 type veth peer name rf0 netns {pid}\naddr add {RUNNER}/30 dev rf1\nlink set rf1 up\n"
            ),
        )?;
        let mut inside = Command::new("nsenter");
        inside.args([&format!("--net=/proc/{pid}/ns/net"), "--", "ip"]);
        configure(inside, &format!("link set lo up\naddr add {address}/30 dev rf0\nlink set rf0 up\n"))?;
        Ok(origin)
    }
}

/// Runs lines of `ip`.
fn configure(mut ip: Command, lines: &str) -> Result<(), Box<dyn Error>> {
    let mut child = ip.args(["-batch", "-"]).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(lines.as_bytes())?;
    }
    if child.wait()?.success() { Ok(()) } else { Err("cannot make the link".into()) }
}

/// Runs a client here; what it printed.
pub(crate) async fn run(errand: &Errand) -> Result<String, Box<dyn Error>> {
    let mut command = tokio::process::Command::new(std::env::current_exe()?);
    let output = command.args(errand.arguments()).stdin(Stdio::null()).kill_on_drop(true).output().await?;
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout)?);
    }
    Err(String::from_utf8_lossy(&output.stderr).into())
}
