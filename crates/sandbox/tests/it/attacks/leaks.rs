//! What a sandbox must not know of the host: descriptors, paths, environment, files.

use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept, bind, listen, socket_with};
use sandbox::{Attempt, Attempted, Exec, LocalAddress, Outcome, Request, SecretMounts, SessionError, Tried, User};

use crate::common::{command, create, create_as, create_with_mount, engine, is_docker, perl, request, sh};

#[tokio::test]
async fn leaked_fds() {
    let sandbox = create().await;
    assert_eq!(
        sh(&sandbox, "for f in /proc/self/fd/*; do readlink $f; done | grep -v -E '^pipe:|^/proc/' || true").await,
        ""
    );
    let program = "for my $fd (3..1023) { open(my $h, '<&=', $fd) and print \"$fd \" }";
    assert_eq!(perl(&sandbox, program).await, "");
}

#[tokio::test]
async fn leaked_cwd() {
    let sandbox = create().await;
    assert_eq!(sh(&sandbox, "pwd; readlink /proc/self/cwd").await, "/root\n/root");
    assert_eq!(sh(&sandbox, "cat ../../../../../../etc/hostname").await, "sandbox");
    let exec = Exec { cwd: Some("/proc/self/fd/3/../..".into()), ..command(&["pwd"]) };
    assert!(matches!(crate::common::exec(&sandbox, exec).await, Err(SessionError::Failed { .. })));
}

#[tokio::test]
async fn mountinfo_leaks_paths() {
    let directory = tempfile::tempdir().unwrap();
    let sandbox = create_with_mount(directory.path(), "/data", false).await;
    for file in ["mountinfo", "mounts", "mountstats", "cgroup", "maps", "status"] {
        let text = sh(&sandbox, &format!("cat /proc/self/{file}")).await;
        for leak in [env!("CARGO_MANIFEST_DIR"), "/home/", "/dev/vd", "/dev/sd", "/dev/nvme"] {
            assert!(!text.contains(leak), "{file} has {leak}: {text}");
        }
    }
}

#[tokio::test]
async fn host_directory_as_image() {
    for path in ["/", "/etc", "/root", "/home", "/run"] {
        let image = jail::zygote::Image::Directory(path.into());
        let refused = engine().create(Request { image, ..request() }).await;
        assert!(matches!(&refused, Err(sandbox::StartError::Mount { .. })), "{path}: {refused:?}");
    }
}

#[tokio::test]
async fn other_commands_hold_nothing_of_ours() {
    let sandbox = create().await;
    let first = sandbox.start(command(&["cat"])).unwrap();
    let second = sandbox.start(command(&["sleep", "30"])).unwrap();
    first.input().end().await;
    let mut first = first;
    let ended = tokio::time::timeout(Duration::from_secs(5), first.next()).await.unwrap();
    assert!(matches!(ended, sandbox::Event::Ended(Outcome::Exited(0))), "{ended:?}");
    drop(second);
}

#[tokio::test]
async fn env_leak() {
    let sandbox = create().await;
    let exec = Exec { env: vec![("GRANTED".into(), "yes".into())], ..command(&["env"]) };
    let completed = crate::common::exec(&sandbox, exec).await.unwrap();
    let mut names: Vec<String> = String::from_utf8_lossy(&completed.stdout)
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0.to_owned()))
        .collect();
    names.sort();
    assert_eq!(names, ["GRANTED", "HOME", "PATH", "USER"]);
    assert_eq!(
        sh(&sandbox, "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c CARGO || true").await,
        "0"
    );
}

#[tokio::test]
async fn home_files_visible() {
    let secret = format!("ringfence-secret-{}", std::process::id());
    let home = std::env::var("HOME").unwrap_or_else(|_| "/tmp".into());
    let mut planted = Vec::new();
    let places = [
        &home,
        "/tmp",
        "/var/tmp",
        "/opt",
        "/srv",
        "/mnt",
        "/home",
        "/root",
        "/usr/local/share",
        "/usr/local/bin",
        "/etc",
        "/etc/ssl/private",
        "/var/lib",
        "/dev/shm",
    ];
    for place in places {
        let path = std::path::Path::new(place).join(&secret);
        // Where the user may not write, there is nothing of the user's either.
        if !planted.contains(&path) && std::fs::write(&path, &secret).is_ok() {
            planted.push(path);
        }
    }
    let count = planted.len();
    let sandbox = create().await;
    let script = format!(
        "find / -name {secret} 2>/dev/null; grep -rl {secret} /etc /home /root /opt /srv /mnt /tmp /var /run /usr/local /dev/shm 2>/dev/null || true"
    );
    // All that the host has under /usr is read: that takes a while on a busy machine.
    let search = Exec { timeout_ms: Some(120_000), ..command(&["sh", "-c", &script]) };
    let found = crate::common::exec(&sandbox, search).await.unwrap();
    for path in planted {
        std::fs::remove_file(path).unwrap();
    }
    assert!(count >= 3, "only {count} secrets could be planted");
    assert_eq!((found.outcome, String::from_utf8_lossy(&found.stdout).trim()), (Outcome::Exited(0), ""));
}

#[tokio::test]
async fn mount_source_socket() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("deep")).unwrap();
    let mounts = |writable| {
        let source = directory.path().to_str().unwrap().to_owned();
        vec![jail::zygote::Mount { source, target: "/x".into(), writable }]
    };
    let path = directory.path().join("deep/daemon");
    for kind in [SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET] {
        for writable in [false, true] {
            let daemon = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
            bind(&daemon, &SocketAddrUnix::new(&path).unwrap()).unwrap();
            // Bound is enough: it may listen later.
            let refused = create_as(Request { mounts: mounts(writable), ..request() }).await;
            assert!(matches!(&refused, Err(sandbox::StartError::MountContents { .. })), "{kind:?} {refused:?}");
            if kind != SocketType::DGRAM {
                listen(&daemon, 1).unwrap();
                let refused = create_as(Request { mounts: mounts(writable), ..request() }).await;
                assert!(matches!(&refused, Err(sandbox::StartError::MountContents { .. })), "{kind:?} {refused:?}");
                rustix::io::ioctl_fionbio(&daemon, true).unwrap();
                assert_eq!(
                    accept(&daemon).unwrap_err(),
                    rustix::io::Errno::AGAIN,
                    "{kind:?}: the search connects to nothing"
                );
            }
            drop(daemon);
            // Once its process has closed it, it leads nowhere. The plan of a run refuses it all the same.
            assert!(sandbox::check_mounts(&mounts(writable), SecretMounts::Refused).is_err());
            // Another test's process that is being started holds a copy until its exec.
            let deadline = Instant::now() + Duration::from_secs(10);
            let sandbox = loop {
                match create_as(Request { mounts: mounts(writable), ..request() }).await {
                    Err(sandbox::StartError::MountContents { .. }) if Instant::now() < deadline => {}
                    created => break created.unwrap(),
                }
            };
            let call = "perl -MIO::Socket::UNIX -e 'exit(IO::Socket::UNIX->new(Peer => q(/x/deep/daemon)) ? 1 : $!{ECONNREFUSED} ? 0 : 2)'";
            sh(&sandbox, call).await;
            sandbox.stop().await.unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }
    // A link to what may not be mounted is what it leads to.
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/run", &link).unwrap();
    let mount = jail::zygote::Mount { source: link.to_str().unwrap().into(), target: "/x".into(), writable: false };
    assert!(matches!(
        create_as(Request { mounts: vec![mount], ..request() }).await,
        Err(sandbox::StartError::Mount { .. })
    ));
}

#[tokio::test]
async fn mount_target_through_a_link() {
    // An image whose target is a link to elsewhere must not lead the mount there.
    let image = tempfile::tempdir().unwrap();
    for name in ["proc", "dev", "sys", "tmp"] {
        std::fs::create_dir(image.path().join(name)).unwrap();
    }
    std::os::unix::fs::symlink("/proc", image.path().join("data")).unwrap();
    let source = tempfile::tempdir().unwrap();
    let mount =
        jail::zygote::Mount { source: source.path().to_str().unwrap().into(), target: "/data".into(), writable: false };
    let spec = Request {
        image: jail::zygote::Image::Directory(image.path().to_str().unwrap().into()),
        mounts: vec![mount],
        ..request()
    };
    assert!(engine().create(spec).await.is_err());
}

/// An agent that may write to one mount turns the source of another into a link, for the next sample.
#[tokio::test]
async fn mount_source_turned_into_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let work = directory.path().canonicalize().unwrap().join("work");
    std::fs::create_dir_all(work.join("inner")).unwrap();
    let mount = |source: &std::path::Path, target: &str, writable: bool| jail::zygote::Mount {
        source: source.to_str().unwrap().into(),
        target: target.into(),
        writable,
    };
    let refused = |mounts: Vec<jail::zygote::Mount>| async {
        match create_as(Request { mounts, ..request() }).await {
            Err(sandbox::StartError::Mount { why, .. }) => why,
            other => unreachable!("{other:?}"),
        }
    };
    // As long as nobody can turn it, or nobody did, it is a mount like any other.
    let nested = |writable| vec![mount(&work, "/work", writable), mount(&work.join("inner"), "/inner", false)];
    create_as(Request { mounts: nested(false), ..request() }).await.unwrap().stop().await.unwrap();
    assert!(refused(nested(true)).await.contains("mounted writable"));
    let sandbox = create_as(Request { mounts: vec![mount(&work, "/work", true)], ..request() }).await.unwrap();
    sh(&sandbox, "rmdir /work/inner && ln -s /usr /work/inner").await;
    sandbox.stop().await.unwrap();
    assert!(refused(vec![mount(&work.join("inner"), "/inner", true)]).await.contains("leads to /usr"));
}

/// Who can change directories above a source exchanges it between its check and the mount.
#[test]
fn mount_source_exchanged_after_its_check() {
    use std::os::unix::fs::MetadataExt as _;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    for name in ["checked", "other"] {
        std::fs::create_dir(directory.join(name)).unwrap();
    }
    std::os::unix::fs::symlink("checked", directory.join("link")).unwrap();
    let metadata = std::fs::metadata(directory.join("checked")).unwrap();
    let mut zygote = jail::zygote::Zygote::start(sandbox::ZYGOTE).unwrap();
    let mut create = |id: u32, path: &str| {
        let mount = jail::zygote::Mount {
            source: directory.join(path).to_str().unwrap().into(),
            target: "/data".into(),
            writable: true,
        };
        let spec = jail::zygote::Spec {
            id,
            name: format!("ringfence-exchanged-{}-{id}", std::process::id()),
            image: jail::zygote::Image::Host,
            directory: None,
            limits: None,
            disk: 1 << 20,
            inodes: 1024,
            mounts: vec![jail::zygote::Shown { mount, device: metadata.dev(), inode: metadata.ino() }],
            allow_setuid: false,
            network: jail::zygote::Network::Loopback,
        };
        let (_ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        match zygote.create(spec, &theirs.into()) {
            Ok(_) => None,
            Err(jail::zygote::CreateError::Refused { source, .. }) => source.raw_os_error(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(create(1, "checked"), None);
    assert_eq!(create(2, "other"), Some(rustix::io::Errno::STALE.raw_os_error()), "another directory");
    assert_eq!(create(3, "link"), Some(rustix::io::Errno::LOOP.raw_os_error()), "by now a link to it");
}

/// The directory of an image is replaced between the caller's check and the helper's mount.
#[test]
fn image_directory_exchanged_after_its_check() {
    use std::os::unix::fs::MetadataExt as _;
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path().canonicalize().unwrap();
    for name in ["proc", "dev", "sys", "tmp"] {
        std::fs::create_dir_all(directory.join("checked").join(name)).unwrap();
        std::fs::create_dir_all(directory.join("other").join(name)).unwrap();
    }
    let metadata = std::fs::metadata(directory.join("checked")).unwrap();
    let numbers = (metadata.dev(), metadata.ino());
    // A sandbox ends with its control stream, and the directory is held while one lives.
    let mut streams = Vec::new();
    let start = || jail::zygote::Zygote::start(sandbox::ZYGOTE).unwrap();
    let mut create = |zygote: &mut jail::zygote::Zygote, id: u32, path: &str, directory_numbers: Option<(u64, u64)>| {
        let spec = jail::zygote::Spec {
            id,
            name: format!("ringfence-image-{}-{id}", std::process::id()),
            image: jail::zygote::Image::Directory(directory.join(path).to_str().unwrap().into()),
            directory: directory_numbers,
            limits: None,
            disk: 1 << 20,
            inodes: 1024,
            mounts: Vec::new(),
            allow_setuid: false,
            network: jail::zygote::Network::Loopback,
        };
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        streams.push(ours);
        match zygote.create(spec, &theirs.into()) {
            Ok(_) => None,
            Err(jail::zygote::CreateError::Refused { source, .. }) => source.raw_os_error(),
            Err(error) => panic!("{error}"),
        }
    };
    let mut zygote = start();
    assert_eq!(create(&mut zygote, 1, "checked", None), Some(rustix::io::Errno::INVAL.raw_os_error()), "not checked");
    assert_eq!(create(&mut zygote, 2, "other", Some(numbers)), Some(rustix::io::Errno::STALE.raw_os_error()));
    std::os::unix::fs::symlink("checked", directory.join("link")).unwrap();
    assert_eq!(create(&mut zygote, 3, "link", Some(numbers)), Some(rustix::io::Errno::LOOP.raw_os_error()));
    assert_eq!(create(&mut zygote, 4, "checked", Some(numbers)), None);
    // Held from now on: what has its name later is not looked at.
    std::fs::rename(directory.join("checked"), directory.join("moved")).unwrap();
    std::os::unix::fs::symlink("other", directory.join("checked")).unwrap();
    assert_eq!(create(&mut zygote, 5, "checked", Some(numbers)), None);
    // Another directory of the same file system, for a new helper.
    assert_eq!(create(&mut start(), 6, "checked", Some(numbers)), Some(rustix::io::Errno::LOOP.raw_os_error()));
}

/// A program of the host listens on a socket that lies in the directory of an image.
#[tokio::test]
async fn socket_of_the_host_in_an_image() {
    if is_docker() {
        // No directory of the host is an image there.
        return;
    }
    let image = tempfile::tempdir().unwrap();
    for name in ["proc", "dev", "sys", "tmp"] {
        std::fs::create_dir(image.path().join(name)).unwrap();
    }
    let listener = std::os::unix::net::UnixListener::bind(image.path().join("socket")).unwrap();
    std::os::unix::net::UnixStream::connect(image.path().join("socket")).unwrap();
    listener.accept().unwrap();
    listener.set_nonblocking(true).unwrap();
    let image = jail::zygote::Image::Directory(image.path().to_str().unwrap().into());
    let sandbox = create_as(Request { image, ..request() }).await.unwrap();
    let connect = Attempt::Local { to: LocalAddress::Path("/socket".into()), timeout_ms: 1000 };
    let tried = sandbox.attempt(connect, User::Default, Duration::from_secs(5)).await.unwrap();
    let refused = rustix::io::Errno::CONNREFUSED.raw_os_error();
    assert_eq!(tried, Tried::Answered(Attempted::Refused(refused)), "it is there, and nothing listens");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}
