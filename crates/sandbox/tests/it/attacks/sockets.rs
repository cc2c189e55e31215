//! Attacks by sockets and terminals on whoever listens outside.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};

use sandbox::{Exec, WindowSize};

use crate::common::{command, create, perl, sh};

#[tokio::test]
async fn abstract_socket_to_host() {
    let name = format!("ringfence-canary-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    // Shown to work without the control.
    std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
    let sandbox = create().await;
    let program = format!(
        "use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0); print(connect($s, pack('S a*', 1, \"\\0{name}\")) ? 'reached' : 'refused')"
    );
    assert_eq!(perl(&sandbox, &program).await, "refused");
    drop(listener);
}

#[tokio::test]
async fn host_loopback() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let sandbox = create().await;
    let program = format!(
        "use Socket; socket(my $s, AF_INET, SOCK_STREAM, 0); print(connect($s, sockaddr_in({port}, inet_aton('127.0.0.1'))) ? 'reached' : 'refused')"
    );
    assert_eq!(perl(&sandbox, &program).await, "refused");
    assert_eq!(sh(&sandbox, "cat /proc/net/dev | grep -c :").await, "1", "only loopback");
    assert_eq!(sh(&sandbox, "wc -l < /proc/net/route").await, "1", "only the header");
}

#[tokio::test]
async fn own_loopback_works() {
    let sandbox = create().await;
    let program = "use Socket; socket(my $s, AF_INET, SOCK_STREAM, 0); bind($s, sockaddr_in(0, INADDR_LOOPBACK)); listen($s, 1); socket(my $c, AF_INET, SOCK_STREAM, 0); print connect($c, getsockname($s)) ? 'reached' : $!";
    assert_eq!(perl(&sandbox, program).await, "reached");
}

#[tokio::test]
async fn tiocsti() {
    let sandbox = create().await;
    let program = "my $c = 'x'; my $r = ioctl(STDIN, 0x5412, $c); print defined($r) ? 'typed' : $!+0";
    let exec = Exec { pty: Some(WindowSize { rows: 24, columns: 80 }), ..command(&["perl", "-e", program]) };
    let completed = crate::common::exec(&sandbox, exec).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&completed.stdout), "1");
}
