use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

use super::*;

/// Runs `attack` in a thread that is confined as the gateway is; the rest of the test's process stays as it was.
fn confined<T: Send + 'static>(attack: impl FnOnce() -> T + Send + 'static) -> T {
    let landlock = probe::landlock_version();
    let thread = std::thread::spawn(move || {
        assert_eq!(confine_thread().unwrap(), Confined { landlock });
        attack()
    });
    thread.join().unwrap()
}

/// A call by its number; its error.
fn call(number: c_long, arguments: [c_long; 5]) -> Option<i32> {
    let [first, second, third, fourth, fifth] = arguments;
    // WHY: attacks are made by hand.
    // SAFETY: every caller passes plain values, or null where the kernel expects a pointer: it reads nothing of ours.
    let result = unsafe { libc::syscall(number, first, second, third, fourth, fifth) };
    (result == -1).then(|| io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

#[test]
fn a_confined_process_opens_and_executes_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (readable, new) = (scratch.path().join("readable"), scratch.path().join("new"));
    fs::write(&readable, "secret").unwrap();
    let socket = scratch.path().join("socket");
    let _daemon = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    UnixStream::connect(&socket).unwrap();
    let refused = confined(move || {
        [
            ("open", fs::read(&readable).err()),
            ("passwd", fs::read("/etc/passwd").err()),
            ("create", fs::write(&new, "x").err()),
            ("list", fs::read_dir("/").err()),
            ("stat", fs::metadata(&readable).err()),
            ("unlink", fs::remove_file(&readable).err()),
            ("environment", fs::read("/proc/self/environ").err()),
            ("descriptors", fs::read_dir("/proc/self/fd").err()),
            ("memory", fs::read("/proc/self/maps").err()),
            ("execute", Command::new("/bin/true").status().err()),
            ("a daemon's socket", UnixStream::connect(&socket).err()),
        ]
    });
    for (what, error) in refused {
        let kind = error.as_ref().map(io::Error::kind);
        assert_eq!(kind, Some(io::ErrorKind::PermissionDenied), "{what}: {error:?}");
    }
    assert!(scratch.path().join("readable").exists() && !scratch.path().join("new").exists());
}

#[test]
fn a_confined_process_makes_no_call_that_it_does_not_need() {
    let own = c_long::from(std::process::id());
    let raw = c_long::from(libc::SOCK_RAW);
    let stream = c_long::from(libc::SOCK_STREAM);
    let datagram = c_long::from(libc::SOCK_DGRAM);
    let calls: Vec<(&str, c_long, [c_long; 5])> = vec![
        ("fork", libc::SYS_fork, [0; 5]),
        ("vfork", libc::SYS_vfork, [0; 5]),
        ("clone of a process", libc::SYS_clone, [c_long::from(libc::SIGCHLD), 0, 0, 0, 0]),
        ("execve", libc::SYS_execve, [0; 5]),
        ("execveat", libc::SYS_execveat, [-1, 0, 0, 0, 0]),
        ("openat", libc::SYS_openat, [-1, 0, 0, 0, 0]),
        ("openat2", libc::SYS_openat2, [-1, 0, 0, 0, 0]),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [-1, 0, 0, 0, 0]),
        ("memfd_create", libc::SYS_memfd_create, [0; 5]),
        ("ptrace", libc::SYS_ptrace, [0; 5]),
        ("process_vm_readv", libc::SYS_process_vm_readv, [own, 0, 0, 0, 0]),
        ("pidfd_open", libc::SYS_pidfd_open, [own, 0, 0, 0, 0]),
        ("kill", libc::SYS_kill, [own, 0, 0, 0, 0]),
        ("a signal to another process", libc::SYS_tgkill, [1, 1, 0, 0, 0]),
        ("mount", libc::SYS_mount, [0; 5]),
        ("unshare", libc::SYS_unshare, [0; 5]),
        ("setns", libc::SYS_setns, [-1, 0, 0, 0, 0]),
        ("chroot", libc::SYS_chroot, [0; 5]),
        ("bpf", libc::SYS_bpf, [-1, 0, 0, 0, 0]),
        ("perf_event_open", libc::SYS_perf_event_open, [0; 5]),
        ("userfaultfd", libc::SYS_userfaultfd, [-1, 0, 0, 0, 0]),
        ("keyctl", libc::SYS_keyctl, [-1, 0, 0, 0, 0]),
        ("add_key", libc::SYS_add_key, [0; 5]),
        ("io_uring_setup", libc::SYS_io_uring_setup, [0; 5]),
        ("io_setup", libc::SYS_io_setup, [0; 5]),
        ("setuid", libc::SYS_setuid, [-1, 0, 0, 0, 0]),
        ("capset", libc::SYS_capset, [0; 5]),
        ("seccomp", libc::SYS_seccomp, [-1, 0, 0, 0, 0]),
        ("prctl, a filter", libc::SYS_prctl, [c_long::from(libc::PR_SET_SECCOMP), 0, 0, 0, 0]),
        ("prctl, dumpable again", libc::SYS_prctl, [c_long::from(libc::PR_SET_DUMPABLE), 1, 0, 0, 0]),
        ("prlimit, another limit", libc::SYS_prlimit64, [0, 7, 8, 0, 0]),
        ("prlimit of another process", libc::SYS_prlimit64, [1, 7, 0, 0, 0]),
        ("listen", libc::SYS_listen, [-1, 0, 0, 0, 0]),
        ("a UNIX socket", libc::SYS_socket, [c_long::from(libc::AF_UNIX), stream, 0, 0, 0]),
        ("a raw socket", libc::SYS_socket, [c_long::from(libc::AF_INET), raw, 1, 0, 0]),
        ("ICMP", libc::SYS_socket, [c_long::from(libc::AF_INET), datagram, 1, 0, 0]),
        ("SCTP", libc::SYS_socket, [c_long::from(libc::AF_INET), stream, 132, 0, 0]),
        ("packets", libc::SYS_socket, [c_long::from(libc::AF_PACKET), raw, 0, 0, 0]),
        ("the host of a machine", libc::SYS_socket, [c_long::from(libc::AF_VSOCK), stream, 0, 0, 0]),
        ("the kernel's ciphers", libc::SYS_socket, [c_long::from(libc::AF_ALG), stream, 0, 0, 0]),
        ("netfilter", libc::SYS_socket, [c_long::from(libc::AF_NETLINK), raw, 12, 0, 0]),
        ("a pair of datagram sockets", libc::SYS_socketpair, [c_long::from(libc::AF_UNIX), datagram, 0, 0, 0]),
        ("a filter of a socket", libc::SYS_setsockopt, [-1, c_long::from(libc::SOL_SOCKET), 26, 0, 0]),
        ("code in memory", libc::SYS_mmap, [0, 4096, 7, 0x22, -1]),
        ("memory made code", libc::SYS_mprotect, [0, 0, 4, 0, 0]),
        ("typing into a terminal", libc::SYS_ioctl, [0, 0x5412, 0, 0, 0]),
    ];
    let outside: Vec<Option<i32>> = calls
        .iter()
        // Without the confinement these would act on the test itself.
        .filter(|(what, ..)| ["keyctl", "openat", "setns", "listen"].contains(what))
        .map(|(_, number, arguments)| call(*number, *arguments))
        .collect();
    assert!(outside.iter().all(|error| error.is_some_and(|error| error != libc::EPERM)), "{outside:?}");
    let said = confined(move || {
        let answers = calls.into_iter().map(|(what, number, arguments)| (what, call(number, arguments)));
        // What the kernel of tomorrow has is unknown, not forbidden; `clone3` too, so that threads are still started.
        let later = [call(libc::SYS_clone3, [0; 5]), call(10_000, [0; 5])];
        (answers.collect::<Vec<_>>(), later)
    });
    for (what, error) in said.0 {
        assert_eq!(error, Some(libc::EPERM), "{what}");
    }
    assert_eq!(said.1, [Some(libc::ENOSYS); 2]);
}

#[test]
fn a_confined_process_still_talks_and_starts_threads() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"hello").unwrap();
    });
    let (said, bound, threaded, listening) = confined(move || {
        let mut said = String::new();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.read_to_string(&mut said).unwrap();
        let bound = UdpSocket::bind("127.0.0.1:0").is_ok();
        let threaded = std::thread::Builder::new().spawn(|| 7).unwrap().join().unwrap();
        (said, bound, threaded, TcpListener::bind("127.0.0.1:0").err())
    });
    server.join().unwrap();
    assert_eq!((said.as_str(), bound, threaded), ("hello", true, 7));
    assert_eq!(listening.unwrap().kind(), io::ErrorKind::PermissionDenied, "a listener of its own");
}

#[test]
fn every_jump_of_the_filter_stays_in_its_block() {
    for (call, tests) in checked(1) {
        let block = alternatives(&tests);
        assert!(u8::try_from(block.len()).is_ok(), "{call}: {} instructions", block.len());
    }
    let program = program(1);
    assert!(program.len() < 4096, "{}", program.len());
    // The last instruction answers, and jumps nowhere.
    for (at, instruction) in program.iter().enumerate().take(program.len() - 1) {
        assert!(at + 1 + usize::from(instruction.jf.max(instruction.jt)) < program.len(), "{at}");
    }
}
