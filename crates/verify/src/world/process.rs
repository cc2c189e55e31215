//! The processes of a world: this very program under another name, driven by lines on its standard input.

use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use jail::world;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{LINK, LINK_V6, PLACE, PLACE_V6, WorldError, internet_addresses, serve};

/// The name by which a program that is such a process knows it.
pub(super) const PROCESS: &str = "ringfence-world";
const PATIENCE: Duration = Duration::from_secs(10);
/// The most that is kept of what arrived, in events.
const MAX_ARRIVED: usize = 10_000;
/// The most that a line may be.
const MAX_LINE: u64 = 16 << 10;

/// One of the processes, as the runner holds it.
pub(super) struct Process {
    which: &'static str,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    arrived: Vec<Vec<u8>>,
}

impl Process {
    pub(super) fn start(which: &'static str, arguments: &[&str]) -> Result<Self, WorldError> {
        let mut command = std::process::Command::new("/proc/self/exe");
        command.arg0(PROCESS).args(arguments).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        sandbox::keep_descriptors_back(&mut command);
        let mut child = Command::from(command).kill_on_drop(true).spawn().map_err(WorldError::Start)?;
        let missing = || WorldError::Start(io::Error::from(io::ErrorKind::BrokenPipe));
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self { which, child, input, output, arrived: Vec::new() })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    pub(super) fn arrived(&self) -> impl Iterator<Item = &[u8]> {
        self.arrived.iter().map(Vec::as_slice)
    }

    pub(super) async fn say(&mut self, line: &str) -> Result<(), WorldError> {
        self.input.write_all(format!("{line}\n").as_bytes()).await.map_err(WorldError::Start)
    }

    /// Reads until it says this word; returns what follows on that line. What arrived meanwhile is kept.
    pub(super) async fn expect(&mut self, word: &str) -> Result<String, WorldError> {
        let which = self.which;
        let reading = async {
            loop {
                let mut line = String::new();
                let count = (&mut self.output).take(MAX_LINE).read_line(&mut line).await.map_err(WorldError::Start)?;
                let line = line.trim_end();
                let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
                if first == "arrived" {
                    if self.arrived.len() < MAX_ARRIVED {
                        self.arrived.push(from_hex(rest));
                    }
                } else if first == word {
                    return Ok(rest.to_owned());
                } else if count == 0 || !first.is_empty() {
                    return Err(WorldError::NotReady { which, said: line.to_owned() });
                }
            }
        };
        match tokio::time::timeout(PATIENCE, reading).await {
            Ok(read) => read,
            Err(_) => Err(WorldError::NotReady { which, said: "nothing".into() }),
        }
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| u8::try_from(digit.to_digit(16)?).ok()).collect();
    digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
}

/// Writes one line to the runner.
pub(super) fn tell(line: &str) {
    // Without a runner nobody needs it.
    let _ = writeln!(io::stdout(), "{line}");
}

/// Becomes a process of a world if this process was started as one. Every program that verifies calls this first.
pub fn become_world() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    if arguments.next().is_none_or(|name| name != PROCESS) {
        return None;
    }
    let arguments: Vec<String> = arguments.map(|argument| argument.to_string_lossy().into_owned()).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let error = match arguments.as_slice() {
        ["place", token] => world::leave_network().and_then(|()| live(token, Role::Place)).err(),
        ["internet", token, place] => {
            let left = number(place).and_then(world::enter_network).and_then(|()| world::leave_network_again());
            left.and_then(|()| live(token, Role::Internet)).err()
        }
        ["enter", place, rest @ ..] => Some(enter(place, rest)),
        _ => Some(io::Error::from(io::ErrorKind::InvalidInput)),
    };
    Some(match error {
        None => ExitCode::SUCCESS,
        Some(error) => {
            tell(&format!("failed: {error}"));
            ExitCode::from(70)
        }
    })
}

fn number(text: &str) -> io::Result<u32> {
    text.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Goes to the runner's place and becomes something else there; returns only what prevented it.
fn enter(place: &str, rest: &[&str]) -> io::Error {
    if let Err(error) = number(place).and_then(world::enter_network) {
        return error;
    }
    match rest {
        ["gateway"] => egress::execute_gateway(),
        ["program", path] => std::process::Command::new(path).env_clear().exec(),
        _ => io::Error::from(io::ErrorKind::InvalidInput),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Place,
    Internet,
}

fn live(token: &str, role: Role) -> io::Result<()> {
    if role == Role::Internet {
        for address in internet_addresses() {
            let added = world::add_address("lo", address, if address.is_ipv4() { 32 } else { 128 });
            // A kernel without IPv6 has none of it.
            added.or_else(|error| if address.is_ipv6() { Ok(()) } else { Err(error) })?;
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        serve::listen(token, role == Role::Internet).await?;
        tell("alone");
        let mut lines = BufReader::new(tokio::io::stdin()).lines();
        // The end of its input is the end of it.
        while let Some(line) = lines.next_line().await? {
            match line.split_once(' ') {
                Some(("join", pid)) => {
                    world::join("world0", "world1", number(pid)?)?;
                    tell("joined");
                }
                None if line == "linked" => tell(&format!("linked {}", if link(role)? { "v6" } else { "v4" })),
                None if line == "sync" => {
                    // What is in the sockets comes first.
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    tell("synced");
                }
                _ => return Err(io::Error::from(io::ErrorKind::InvalidInput)),
            }
        }
        Ok(())
    })
}

/// Sets our end of the link up; true where IPv6 works too.
fn link(role: Role) -> io::Result<bool> {
    let (name, own, own_v6): (_, IpAddr, IpAddr) = match role {
        Role::Place => ("world0", PLACE.into(), PLACE_V6.into()),
        Role::Internet => ("world1", LINK.into(), LINK_V6.into()),
    };
    world::add_address(name, own, 30)?;
    world::set_up(name)?;
    let v6 = world::add_address(name, own_v6, 64);
    if role == Role::Internet {
        return Ok(v6.is_ok());
    }
    world::route_everything(name, LINK.into())?;
    Ok(v6.and_then(|()| world::route_everything(name, LINK_V6.into())).is_ok())
}
