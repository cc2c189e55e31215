//! Probes of the host's side: what is tried inside, held against what the runner or the witness sees.

use std::path::Path;
use std::time::Duration;

use sandbox::{Argument, Attempt, Attempted, LocalAddress, Sandbox, SessionError, Tried, User};

use crate::bytes;
use crate::probe::{Call, Finding, Target, Way};
use crate::scene::{Scene, secret};

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a canary of the host may take to answer.
const ANSWER: u64 = 500;

/// Tries something, as root inside.
pub(crate) async fn attempt(sandbox: &Sandbox, attempt: Attempt) -> Result<Tried, SessionError> {
    sandbox.attempt(attempt, User::Default, PATIENCE).await
}

/// An error number in words.
pub(crate) fn error(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

pub(crate) fn words(tried: &Tried) -> String {
    match tried {
        Tried::Answered(Attempted::Refused(errno)) => error(*errno),
        Tried::Answered(Attempted::Returned(value)) => format!("returned {value}"),
        Tried::Answered(Attempted::Read(bytes)) => format!("{} bytes", bytes.len()),
        Tried::Answered(Attempted::Listed(entries)) => format!("{} entries", entries.len()),
        Tried::Answered(Attempted::Exchanged { received, .. }) => format!("{} bytes back", received.len()),
        Tried::Answered(Attempted::Amount { amount, errno }) => {
            format!("{amount}{}", errno.map(|errno| format!(", then {}", error(errno))).unwrap_or_default())
        }
        Tried::Ended(outcome) => format!("{outcome:?}").to_lowercase(),
    }
}

/// Does one probe of the host. Those of limits and of the network are done elsewhere.
pub(crate) async fn probe(
    way: Way,
    inside: &Sandbox,
    witness: &Sandbox,
    scene: &Scene,
) -> Result<Finding, SessionError> {
    match way {
        Way::Namespace(kind) => namespace(kind, inside).await,
        Way::Shown(path, judge) => match attempt(inside, Attempt::Read { path: path.into() }).await? {
            Tried::Answered(Attempted::Read(bytes)) => Ok(judge(&String::from_utf8_lossy(&bytes), scene)),
            other => Ok(Finding::unknown(format!("{path}: {}", words(&other)))),
        },
        Way::Listing(path, judge) => match attempt(inside, Attempt::List { path: path.into() }).await? {
            Tried::Answered(Attempted::Listed(entries)) => Ok(judge(&entries, scene)),
            // An image need not have the directory.
            Tried::Answered(Attempted::Refused(libc::ENOENT)) => Ok(judge(&[], scene)),
            other => Ok(Finding::unknown(format!("{path}: {}", words(&other)))),
        },
        Way::Descriptors => match attempt(inside, Attempt::Descriptors).await? {
            Tried::Answered(Attempted::Listed(open)) => Ok(match open.first() {
                None => Finding::pass("none"),
                Some(entry) => Finding::fail(String::from_utf8_lossy(&entry.name).into_owned()),
            }),
            other => Ok(Finding::unknown(words(&other))),
        },
        Way::Calls(calls) => filtered(calls, inside, witness).await,
        Way::Hidden(paths) => hidden(paths, inside).await,
        Way::ReadOnly(paths) => read_only(paths, inside, witness).await,
        Way::HostRoot => host_root(inside, witness).await,
        Way::GuestFiles(paths) => guest_files(paths, inside).await,
        Way::GuestTrace => guest_trace(inside).await,
        Way::GuestSignals => guest_signals(inside).await,
        Way::Host(target) => reach(target, inside, witness, scene).await,
        Way::Offered(judge) => Ok(judge(scene)),
        Way::Bound(_) | Way::Network(_) | Way::Sibling => Ok(Finding::unknown("not a probe of the host")),
    }
}

/// Whether the namespace of this kind is another than the runner's.
pub(crate) async fn namespace(kind: &str, inside: &Sandbox) -> Result<Finding, SessionError> {
    let path = format!("/proc/self/ns/{kind}");
    let Ok(own) = std::fs::read_link(&path) else {
        return Ok(Finding::unknown("the runner's own namespace is not shown"));
    };
    let own = own.to_string_lossy().into_owned();
    Ok(match attempt(inside, Attempt::ReadLink { path }).await? {
        Tried::Answered(Attempted::Read(found)) if found == own.as_bytes() => {
            Finding::fail(format!("it is the runner's: {own}"))
        }
        Tried::Answered(Attempted::Read(found)) => {
            Finding::pass(format!("{}, not {own}", String::from_utf8_lossy(&found)))
        }
        other => Finding::unknown(words(&other)),
    })
}

fn as_attempt(call: &Call) -> Attempt {
    let arguments = call.arguments.iter().copied().map(Argument::Number).collect();
    Attempt::Call { number: call.number, arguments }
}

/// What the filter answers: not permitted, no such call, or no such family.
const FILTERED: [i32; 3] = [libc::EPERM, libc::ENOSYS, libc::EAFNOSUPPORT];
/// What it answers in the place of a kernel without the option. Kernels say the same of bad arguments, so it counts only
/// where the witness heard something else.
const ABSENT: [i32; 2] = [libc::EINVAL, libc::ENOPROTOOPT];

async fn filtered(calls: &[Call], inside: &Sandbox, witness: &Sandbox) -> Result<Finding, SessionError> {
    let (mut shown, mut alike) = (Vec::new(), Vec::new());
    for call in calls {
        let mut name = call.name.trim_start_matches("SYS_").to_owned();
        match (call.number, call.arguments) {
            (libc::SYS_socket, [family, ..]) => name = format!("{name} of family {family}"),
            (libc::SYS_setsockopt, [_, level, option, ..]) => name = format!("{name} {level}/{option}"),
            _ => {}
        }
        let (tried, without) = tokio::try_join!(attempt(inside, as_attempt(call)), attempt(witness, as_attempt(call)))?;
        let refused = match &tried {
            Tried::Answered(Attempted::Refused(errno)) if ABSENT.contains(errno) => tried != without,
            Tried::Answered(Attempted::Refused(errno)) => FILTERED.contains(errno),
            _ => false,
        };
        if !refused {
            return Ok(Finding::fail(format!("{name}: {}", words(&tried))));
        }
        if tried == without {
            alike.push(name);
        } else {
            shown.push(format!("{name}: {}, without: {}", words(&tried), words(&without)));
        }
    }
    if shown.is_empty() {
        return Ok(Finding::unknown(format!("{}: the same without a filter", alike.join(", "))));
    }
    Ok(Finding::pass(shown.join("; ")))
}

async fn hidden(paths: &[&str], inside: &Sandbox) -> Result<Finding, SessionError> {
    let mut shown = Vec::new();
    for path in paths {
        match attempt(inside, Attempt::Read { path: (*path).into() }).await? {
            Tried::Answered(Attempted::Read(bytes)) if !bytes.is_empty() => {
                return Ok(Finding::fail(format!("{path} has {} bytes or more", bytes.len())));
            }
            _ => {}
        }
        if is_there(path) {
            shown.push(*path);
        }
    }
    if shown.is_empty() {
        return Ok(Finding::unknown("the runner can read none of them either"));
    }
    Ok(Finding::pass(format!("empty or closed inside; the runner reads {}", shown.join(", "))))
}

/// Whether the runner can read something there.
fn is_there(path: &str) -> bool {
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let opened = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    opened.and_then(|mut file| file.read(&mut [0])).is_ok_and(|count| count > 0)
}

async fn read_only(paths: &[&str], inside: &Sandbox, witness: &Sandbox) -> Result<Finding, SessionError> {
    let mut shown = Vec::new();
    for path in paths {
        let open = || Attempt::OpenForWriting { path: (*path).into() };
        let (tried, without) = tokio::try_join!(attempt(inside, open()), attempt(witness, open()))?;
        match (&tried, &without) {
            (Tried::Answered(Attempted::Returned(_)), _) => {
                return Ok(Finding::fail(format!("{path} can be written")));
            }
            // A file system that is read-only says so itself.
            (Tried::Answered(Attempted::Refused(libc::EROFS)), _)
            | (Tried::Answered(Attempted::Refused(_)), Tried::Answered(Attempted::Returned(_))) => {
                shown.push(format!("{path}: {}", words(&tried)));
            }
            _ => {}
        }
    }
    if shown.is_empty() {
        return Ok(Finding::unknown("none of them opens outside either"));
    }
    Ok(Finding::pass(shown.join("; ")))
}

/// Devices that every sandbox has of the host, and the mode that they have on every system.
const DEVICES: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];
const DEVICE_MODE: u32 = 0o666;

/// A device that is the host's root's: other programs may have given one away.
fn device_of_root() -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;
    let is_roots = |found: std::fs::Metadata| found.uid() == 0 && found.mode() & 0o7777 == DEVICE_MODE;
    DEVICES.into_iter().find(|path| std::fs::symlink_metadata(path).is_ok_and(is_roots))
}

/// Who is mapped to the host's root may change what is the host's root's.
async fn host_root(inside: &Sandbox, witness: &Sandbox) -> Result<Finding, SessionError> {
    let Some(device) = device_of_root() else {
        return Ok(Finding::unknown("no device belongs to the host's root"));
    };
    let path = Argument::Bytes([device.as_bytes(), b"\0"].concat());
    let change = || Attempt::Call {
        number: libc::SYS_chmod,
        arguments: vec![path.clone(), Argument::Number(DEVICE_MODE.into())],
    };
    let (tried, without) = tokio::try_join!(attempt(inside, change()), attempt(witness, change()))?;
    let is_root = rustix::process::geteuid().is_root();
    Ok(match (&tried, &without) {
        (Tried::Answered(Attempted::Returned(_)), _) => Finding::fail(format!("the mode of {device} was set")),
        (_, Tried::Answered(Attempted::Returned(_))) => {
            Finding::pass(format!("{device}: {}; the runner may", words(&tried)))
        }
        _ if !is_root => Finding::pass(format!("{device}: {}; the runner is not root either", words(&tried))),
        _ => Finding::unknown(format!("{}, without: {}", words(&tried), words(&without))),
    })
}

async fn guest_files(paths: &[&str], inside: &Sandbox) -> Result<Finding, SessionError> {
    for path in paths {
        let look = if path.ends_with('/') {
            Attempt::List { path: (*path).into() }
        } else {
            Attempt::Read { path: (*path).into() }
        };
        match attempt(inside, look).await? {
            Tried::Answered(Attempted::Refused(libc::EACCES | libc::EPERM)) => {}
            other => return Ok(Finding::fail(format!("{path}: {}", words(&other)))),
        }
    }
    // The same files of one's own are open: what closes the guest's is the guest.
    let own = attempt(inside, Attempt::Read { path: "/proc/self/maps".into() }).await?;
    Ok(match own {
        Tried::Answered(Attempted::Read(bytes)) if !bytes.is_empty() => {
            Finding::pass(format!("{} closed; one's own are open", paths.join(", ")))
        }
        other => Finding::unknown(format!("one's own are closed too: {}", words(&other))),
    })
}

async fn guest_trace(inside: &Sandbox) -> Result<Finding, SessionError> {
    const SEIZE: u64 = 0x4206;
    let number = Argument::Number;
    let seize = Attempt::Call { number: libc::SYS_ptrace, arguments: vec![number(SEIZE), number(1)] };
    // One vector of one byte on each side.
    let vector = |address: u64| Argument::Bytes([address.to_ne_bytes(), 1_u64.to_ne_bytes()].concat());
    let arguments = vec![number(1), vector(4096), number(1), vector(4096), number(1), number(0)];
    let read = Attempt::Call { number: libc::SYS_process_vm_readv, arguments };
    for (name, call) in [("ptrace", seize), ("process_vm_readv", read)] {
        match attempt(inside, call).await? {
            Tried::Answered(Attempted::Refused(libc::EPERM)) => {}
            other => return Ok(Finding::fail(format!("{name}: {}", words(&other)))),
        }
    }
    // Reading oneself by the same call is permitted, and fails for the address only.
    let own = Attempt::Call {
        number: libc::SYS_process_vm_readv,
        arguments: vec![number(0), vector(4096), number(1), vector(4096), number(1), number(0)],
    };
    match attempt(inside, own).await? {
        Tried::Answered(Attempted::Refused(libc::EPERM | libc::ENOSYS)) => {
            Ok(Finding::pass("refused, for every process"))
        }
        _ => Ok(Finding::pass("ptrace and process_vm_readv of the guest: operation not permitted")),
    }
}

async fn guest_signals(inside: &Sandbox) -> Result<Finding, SessionError> {
    for signal in [1, 2, 6, 9, 11, 15, 19] {
        let arguments = vec![Argument::Number(1), Argument::Number(signal)];
        let tried = attempt(inside, Attempt::Call { number: libc::SYS_kill, arguments }).await;
        if let Err(error) = tried {
            return Ok(Finding::fail(format!("signal {signal} ended it: {error}")));
        }
    }
    inside.session().ping(PATIENCE).await?;
    Ok(Finding::pass("it answers after HUP, INT, ABRT, KILL, SEGV, TERM and STOP"))
}

/// Whether the run's own text came back.
fn has_token(tried: &Tried, token: &str) -> bool {
    match tried {
        Tried::Answered(Attempted::Read(found) | Attempted::Exchanged { received: found, .. }) => {
            bytes::contains(found, token.as_bytes())
        }
        _ => false,
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

async fn reach(target: Target, inside: &Sandbox, witness: &Sandbox, scene: &Scene) -> Result<Finding, SessionError> {
    let canary = &scene.canary;
    let aim = match target {
        Target::File => Attempt::Read { path: text(&canary.file()) },
        Target::PathSocket => Attempt::Local { to: LocalAddress::Path(text(&canary.socket())), timeout_ms: ANSWER },
        Target::AbstractSocket => {
            let to = LocalAddress::Abstract(canary.abstract_name.clone());
            Attempt::Local { to, timeout_ms: ANSWER }
        }
        Target::Loopback => {
            let to = std::net::SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, canary.port));
            Attempt::Tcp { to, send: Vec::new(), timeout_ms: ANSWER }
        }
        Target::Process => return process(inside).await,
        Target::SharedMemory => return shared_memory(inside, witness, canary.key).await,
        Target::Written => return written(inside).await,
    };
    let tried = attempt(inside, aim).await?;
    if has_token(&tried, &scene.token) {
        return Ok(Finding::fail("canary bytes arrived"));
    }
    // The runner reaches its own canary, by the same path.
    let without = canary_answers(target, scene).await;
    if !without {
        return Ok(Finding::unknown("the runner does not reach it either"));
    }
    Ok(Finding::pass(format!("{}; the runner reaches it", words(&tried))))
}

async fn canary_answers(target: Target, scene: &Scene) -> bool {
    use tokio::io::AsyncReadExt as _;
    let canary = &scene.canary;
    let mut found = Vec::new();
    let reading = async {
        match target {
            Target::File => found = std::fs::read(canary.file())?,
            Target::Loopback => {
                tokio::net::TcpStream::connect(("127.0.0.1", canary.port)).await?.read_to_end(&mut found).await?;
            }
            Target::PathSocket => {
                tokio::net::UnixStream::connect(canary.socket()).await?.read_to_end(&mut found).await?;
            }
            _ => {
                use std::os::linux::net::SocketAddrExt as _;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(&canary.abstract_name)?;
                let stream = std::os::unix::net::UnixStream::connect_addr(&address)?;
                stream.set_nonblocking(true)?;
                tokio::net::UnixStream::from_std(stream)?.read_to_end(&mut found).await?;
            }
        }
        std::io::Result::Ok(())
    };
    let read = tokio::time::timeout(PATIENCE, reading).await;
    matches!(read, Ok(Ok(()))) && bytes::contains(&found, scene.token.as_bytes())
}

async fn process(inside: &Sandbox) -> Result<Finding, SessionError> {
    let own = rustix::process::getpid();
    let number = u64::from(std::process::id());
    let kill = Attempt::Call { number: libc::SYS_kill, arguments: vec![Argument::Number(number), Argument::Number(0)] };
    let tried = attempt(inside, kill).await?;
    Ok(match &tried {
        Tried::Answered(Attempted::Refused(libc::ESRCH)) if rustix::process::test_kill_process(own).is_ok() => {
            Finding::pass(format!("process {number}: {}; it is there outside", words(&tried)))
        }
        Tried::Answered(Attempted::Refused(libc::ESRCH)) => Finding::unknown("the runner does not see it either"),
        // A small number may be a process of the sandbox's own.
        Tried::Answered(Attempted::Returned(0)) if number < 64 => Finding::unknown("the number is in use inside"),
        _ => Finding::fail(format!("process {number}: {}", words(&tried))),
    })
}

async fn shared_memory(inside: &Sandbox, witness: &Sandbox, key: u32) -> Result<Finding, SessionError> {
    const CREATE: u64 = 0o1600;
    const REMOVE: u64 = 0;
    let call = |number, arguments: &[u64]| Attempt::Call {
        number,
        arguments: arguments.iter().copied().map(Argument::Number).collect(),
    };
    let key = u64::from(key);
    let made = attempt(witness, call(libc::SYS_shmget, &[key, 4096, CREATE])).await?;
    let Tried::Answered(Attempted::Returned(id)) = made else {
        return Ok(Finding::unknown(format!("none could be made outside: {}", words(&made))));
    };
    let tried = attempt(inside, call(libc::SYS_shmget, &[key, 0, 0])).await;
    attempt(witness, call(libc::SYS_shmctl, &[id.cast_unsigned(), REMOVE, 0])).await?;
    Ok(match tried? {
        Tried::Answered(Attempted::Refused(libc::ENOENT)) => Finding::pass("no such segment; it is there outside"),
        other => Finding::fail(format!("the host's segment: {}", words(&other))),
    })
}

async fn written(inside: &Sandbox) -> Result<Finding, SessionError> {
    let mut seen = Vec::new();
    // An image need not have the first.
    for directory in ["/tmp", ""] {
        let path = format!("{directory}/ringfence-written-{}", secret());
        let tried = attempt(inside, Attempt::Create { path: path.clone(), bytes: b"inside".to_vec() }).await?;
        if Path::new(&path).exists() {
            let _ = std::fs::remove_file(&path);
            return Ok(Finding::fail(format!("{path} is there outside")));
        }
        match tried {
            Tried::Answered(Attempted::Returned(_)) => {
                return Ok(Finding::pass("written inside, not there outside"));
            }
            other => seen.push(format!("{directory}/: {}", words(&other))),
        }
    }
    Ok(Finding::unknown(format!("it could not be written: {}", seen.join(", "))))
}
