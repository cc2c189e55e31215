//! The way into a container that another engine made: from its first process to the guest.
//!
//! A container engine gives namespaces, a root and limits. What it does not give is ours to make, from inside, before
//! anything of the workload exists: the captured network, the system-call filter, the capabilities that are kept. Whatever
//! fails ends the container.
//!
//! The first process is given more rights than the guest will have: `NET_ADMIN` for rules and routes, and, where setuid
//! programs are to work, `SYS_ADMIN`, without which a filter cannot be loaded then; or where the engine leaves the control
//! groups' namespace to us. They leave all sets, the bounding one included, before the guest is executed.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags, open};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    connect, sendmsg, socket_with,
};

use crate::zygote::{During as _, Trouble, inside};
use crate::{capture, filter, syscalls};

/// The first argument that makes the zygote's program this one.
pub const ENTER: &str = "enter";
/// What the guest is told when its control stream is two descriptors: 3 to read from, 4 to write to.
pub const TWO_WAYS: &str = "two-ways";
/// The address that programs inside find as their name server.
pub const NAME_SERVER: std::net::Ipv4Addr = capture::NAME_SERVER;

/// What a container's own settings must say of its network before a capture: names below `net.netfilter`, with values.
/// An engine sets them, because inside they may not be written.
pub fn settings() -> impl Iterator<Item = (String, &'static str)> {
    capture::TIMEOUTS.into_iter().map(|(name, value)| (format!("net.netfilter.{name}"), value))
}

/// Where descriptors are out of the way of those that the guest is given.
const HIGH_UP: i32 = 10;

/// How a container's network is captured.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum Capturing {
    /// Not at all: there is only loopback.
    #[default]
    Nothing,
    /// Its listeners are sent to whoever listens at this socket.
    Passed(PathBuf),
    /// Its guest will listen, before any command, and relay.
    Relayed,
}

/// What an engine asks of the way in.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Orders {
    /// How its network is captured.
    pub capture: Capturing,
    /// Whether setuid programs work.
    pub allow_setuid: bool,
    /// Whether the engine may have left the container the host's namespace of control groups.
    pub own_cgroups: bool,
    /// Whether files of the host are written to, which must get no setuid bits.
    pub writes_outside: bool,
    /// The guest's program.
    pub guest: PathBuf,
}

impl Orders {
    /// As arguments of the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = vec![OsString::from(ENTER)];
        match &self.capture {
            Capturing::Nothing => {}
            Capturing::Passed(socket) => arguments.push(named("capture=", socket)),
            Capturing::Relayed => arguments.push("relayed".into()),
        }
        arguments.extend(self.allow_setuid.then(|| "allow-setuid".into()));
        arguments.extend(self.own_cgroups.then(|| "own-cgroups".into()));
        arguments.extend(self.writes_outside.then(|| "writes-outside".into()));
        arguments.push(named("guest=", &self.guest));
        arguments
    }

    /// Reads what [`Self::arguments`] wrote, without the first.
    fn read(arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut orders = Self::default();
        for argument in arguments {
            let bytes = argument.as_bytes();
            if let Some(path) = bytes.strip_prefix(b"capture=") {
                orders.capture = Capturing::Passed(OsString::from_vec(path.to_vec()).into());
            } else if bytes == b"relayed" {
                orders.capture = Capturing::Relayed;
            } else if let Some(path) = bytes.strip_prefix(b"guest=") {
                orders.guest = OsString::from_vec(path.to_vec()).into();
            } else if bytes == b"allow-setuid" {
                orders.allow_setuid = true;
            } else if bytes == b"own-cgroups" {
                orders.own_cgroups = true;
            } else if bytes == b"writes-outside" {
                orders.writes_outside = true;
            } else {
                return None;
            }
        }
        orders.guest.is_absolute().then_some(orders)
    }
}

fn named(name: &str, path: &Path) -> OsString {
    let mut argument = OsString::from(name);
    argument.push(path);
    argument
}

/// The program: becomes the guest, or says why not and ends.
pub(crate) fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(orders) = Orders::read(arguments) else { return ExitCode::from(64) };
    // A copy: the standard one leads nowhere when the guest is started.
    let Ok(complaints) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), HIGH_UP) else {
        return ExitCode::from(65);
    };
    let Trouble { step, error } = match become_guest(&orders) {
        Ok(error) => Trouble { step: "starting the guest", error },
        Err(trouble) => trouble,
    };
    // If nobody reads it, nobody waits for it.
    let _ = writeln!(std::fs::File::from(complaints), "{step}: {error}");
    ExitCode::FAILURE
}

fn become_guest(orders: &Orders) -> Result<io::Error, Trouble> {
    let guest = open(&orders.guest, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let guest = guest.and_then(|guest| rustix::io::fcntl_dupfd_cloexec(guest, HIGH_UP)).during("starting the guest")?;
    leave_nothing_behind(&orders.guest);
    if orders.own_cgroups {
        syscalls::unshare(libc::CLONE_NEWCGROUP).during("making a namespace of control groups")?;
    }
    // Where there is only loopback, an engine may have left it down.
    syscalls::loopback_up().during("setting up loopback")?;
    match &orders.capture {
        Capturing::Nothing => {}
        Capturing::Passed(socket) => {
            let listeners = capture::Captor::new().set_up(Path::new("/proc")).during("capturing the network")?;
            send(socket, &listeners).during("handing the captured network over")?;
            // Ours are closed here: whoever holds one could shut it down.
        }
        Capturing::Relayed => capture::set_up_relayed(Path::new("/proc")).during("capturing the network")?,
    }
    inside::set_limits().during("setting limits")?;
    inside::narrow_bounding_set().during("dropping capabilities")?;
    if !orders.allow_setuid {
        rustix::thread::set_no_new_privs(true).during("dropping capabilities")?;
    }
    let bits = if orders.writes_outside { filter::SetIdBits::Refused } else { filter::SetIdBits::Allowed };
    // Before the capabilities go: with `allow_setuid`, one of them is what permits it. What follows is on the list.
    syscalls::load_filter(&filter::program(bits)).during("loading the system-call filter")?;
    inside::drop_capabilities().during("dropping capabilities")?;
    arrange_descriptors().during("arranging descriptors")?;
    Ok(syscalls::exec_descriptor(guest, c"ringfence-guest", Some(c"two-ways")))
}

/// Takes the two programs out of the container's files, where the workload would find them. Where they are mounted they
/// stay, and cannot be written.
fn leave_nothing_behind(guest: &Path) {
    for program in [std::env::current_exe().unwrap_or_default().as_path(), guest] {
        let _ = std::fs::remove_file(program);
    }
    if let Some(directory) = guest.parent() {
        let _ = std::fs::remove_dir(directory);
    }
}

/// Hands the listeners to whoever listens at `socket`.
fn send(socket: &Path, listeners: &capture::Listeners) -> io::Result<()> {
    let stream = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    connect(&stream, &SocketAddrUnix::new(socket)?)?;
    let handed: Vec<_> = listeners.iter().map(|listener| listener.as_fd()).collect();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&handed)) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let count = [u8::try_from(handed.len()).unwrap_or(0)];
    sendmsg(&stream, &[io::IoSlice::new(&count)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The control stream comes by standard input and output and goes to 3 and 4; nothing else survives the exec.
fn arrange_descriptors() -> io::Result<()> {
    let from = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), HIGH_UP)?;
    let to = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), HIGH_UP)?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    // It may be number 3 itself.
    drop(null);
    syscalls::close_on_exec_from(3)?;
    syscalls::inherit_at(&from, 3)?;
    syscalls::inherit_at(&to, 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_read_as_they_were_written() {
        let all = Orders {
            capture: Capturing::Passed("/a b/socket".into()),
            allow_setuid: true,
            own_cgroups: true,
            writes_outside: true,
            guest: "/x/guest".into(),
        };
        let least = Orders { guest: "/guest".into(), ..Orders::default() };
        let relayed = Orders { capture: Capturing::Relayed, guest: "/guest".into(), ..Orders::default() };
        for orders in [all, least, relayed] {
            let mut arguments = orders.arguments().into_iter();
            assert_eq!(arguments.next(), Some(ENTER.into()));
            assert_eq!(Orders::read(arguments), Some(orders));
        }
    }

    #[test]
    fn unknown_or_missing_orders_are_refused() {
        for arguments in [&["guest=/g", "privileged"][..], &["guest=g"], &[], &["capture=/s"]] {
            assert_eq!(Orders::read(arguments.iter().map(OsString::from)), None, "{arguments:?}");
        }
    }

    #[test]
    fn the_guest_is_told_of_two_ways() {
        assert_eq!(TWO_WAYS.as_bytes(), c"two-ways".to_bytes());
    }
}
