//! The way into a container of another engine: here `unshare` is the engine, so that nothing else is needed.

#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::io::IoSliceMut;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use sandbox::enter::{Capturing, Orders};
use sandbox::{GUEST, Session, ZYGOTE};
use tokio::net::UnixListener;
use tokio::process::{Child, Command};

fn put(program: &[u8], path: &Path) {
    std::fs::write(path, program).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts the way in, in namespaces of its own.
fn start(directory: &Path, orders: &Orders) -> Child {
    // A child of the other test that is just being made would hold a file open for writing, and it could not be run.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock();
    let entry = directory.join("enter");
    put(ZYGOTE, &entry);
    put(GUEST, &orders.guest);
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child"]);
    command.arg(entry).args(orders.arguments());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

/// What is handed over at the socket, if anything is in time.
async fn descriptors(listener: &UnixListener) -> Option<Vec<OwnedFd>> {
    let (stream, _) = tokio::time::timeout(Duration::from_secs(10), listener.accept()).await.ok()?.unwrap();
    let mut count = [0];
    let receive = || {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut count)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let rights = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => rights.collect::<Vec<_>>(),
            _ => Vec::new(),
        });
        Ok(rights.collect::<Vec<OwnedFd>>())
    };
    let rights = stream.async_io(tokio::io::Interest::READABLE, receive).await.unwrap();
    assert_eq!(usize::from(count[0]), rights.len());
    Some(rights)
}

#[tokio::test]
async fn the_guest_has_a_captured_network_a_filter_and_few_rights() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let socket = directory.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let orders = Orders { capture: Capturing::Passed(socket), guest: inner.join("guest"), ..Orders::default() };
    let mut child = start(&inner, &orders);
    let Some(listeners) = descriptors(&listener).await else {
        child.start_kill().unwrap();
        panic!("nothing was handed over: {:?}", child.wait_with_output().await);
    };
    assert!(matches!(listeners.len(), 2 | 4), "{listeners:?}");
    let (output, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let session = Session::open_over(output, input).await.unwrap();
    assert!(!inner.exists(), "the programs are left behind");

    let status = script(&session, "cat /proc/self/status /proc/net/route").await;
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    // What is kept is a few; NET_ADMIN (12), SYS_ADMIN (21) and NET_RAW (13) are not among it.
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        let line = status.lines().find(|line| line.starts_with(set)).unwrap();
        let bits = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_eq!(bits & (1 << 12 | 1 << 21 | 1 << 13), 0, "{line}");
    }
    assert!(status.contains("\nlo\t00000000"), "no route to where the capture is: {status}");
    session.shutdown();
    let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn the_guest_of_a_container_elsewhere_relays_its_network() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let orders = Orders { capture: Capturing::Relayed, guest: inner.join("guest"), ..Orders::default() };
    let mut child = start(&inner, &orders);
    let (output, input) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let session = Session::open_over(output, input).await.unwrap();
    let relay = session.relay(sandbox::RELAY_TCP, sandbox::RELAY_UDP).await.unwrap();
    let accepted = async { relay.accept().await.unwrap().to };
    let connect = "perl -MIO::Socket::IP -e 'print IO::Socket::IP->new(PeerHost => q(93.184.215.10), PeerPort => 80) ? q(on) : $@'";
    let (to, said) = tokio::join!(accepted, script(&session, connect));
    assert_eq!((to, said.as_str()), (Some("93.184.215.10:80".parse().unwrap()), "on"));
    session.shutdown();
    let ended = tokio::time::timeout(Duration::from_secs(10), child.wait()).await.unwrap().unwrap();
    assert!(ended.success(), "{ended}");
}

#[tokio::test]
async fn without_anybody_to_take_the_network_there_is_no_guest() {
    let directory = tempfile::tempdir().unwrap();
    let inner = directory.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    let missing = Capturing::Passed(directory.path().join("nobody"));
    let child = start(&inner, &Orders { capture: missing, guest: inner.join("guest"), ..Orders::default() });
    let output = tokio::time::timeout(Duration::from_secs(10), child.wait_with_output()).await.unwrap().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(complaint.starts_with("handing the captured network over: No such file"), "{complaint}");
}

/// Runs a script by somebody who ends nothing.
async fn script(session: &Session, script: &str) -> String {
    struct Nothing;
    impl sandbox::Backing for Nothing {
        fn stop(&mut self) -> Result<(), sandbox::StartError> {
            Ok(())
        }
    }
    let sandbox = sandbox::Sandbox::new(session.clone(), Box::new(Nothing));
    // Without an engine's root there is no home of the user's own.
    let command = sandbox::Exec { cwd: Some("/".into()), ..crate::common::command(&["sh", "-c", script]) };
    let done = crate::common::exec(&sandbox, command).await.unwrap();
    assert_eq!(done.outcome, sandbox::Outcome::Exited(0), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}
