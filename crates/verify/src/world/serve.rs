//! Canaries: they take whatever comes, say so, and answer with the run's own text.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use super::process::tell;
use super::{OUTSIDE_RESOLVER, RESOLVER, TCP_PORTS, UDP_PORTS, dns};

/// How long a canary waits for the first bytes.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most that is told of what came.
const MAX_TOLD: usize = 2048;

fn told(bytes: &[u8]) {
    let mut line = String::from("arrived ");
    for byte in bytes.iter().take(MAX_TOLD) {
        let _ = write!(line, "{byte:02x}");
    }
    tell(&line);
}

/// Opens every canary; name servers only in the internet.
pub(super) async fn listen(token: &str, with_names: bool) -> io::Result<()> {
    let token: Arc<[u8]> = token.as_bytes().into();
    for any in [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)] {
        for port in TCP_PORTS {
            match tcp(SocketAddr::new(any, port)) {
                Ok(listener) => drop(tokio::spawn(accept(listener, Arc::clone(&token)))),
                Err(error) if any.is_ipv4() => return Err(error),
                // Without IPv6 there is nobody to listen to.
                Err(_) => {}
            }
        }
        for port in UDP_PORTS {
            match udp(SocketAddr::new(any, port)) {
                Ok(socket) => drop(tokio::spawn(datagrams(socket, Arc::clone(&token)))),
                Err(error) if any.is_ipv4() => return Err(error),
                Err(_) => {}
            }
        }
    }
    if with_names {
        for address in [RESOLVER, OUTSIDE_RESOLVER] {
            let at = SocketAddr::new(address.into(), 53);
            tokio::spawn(names(UdpSocket::bind(at).await?));
            tokio::spawn(names_over_tcp(TcpListener::bind(at).await?));
        }
    }
    Ok(())
}

fn socket(at: SocketAddr, kind: rustix::net::SocketType) -> io::Result<std::os::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, bind, socket_with, sockopt};
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if at.is_ipv6() {
        // Both families listen on the same port, each for itself.
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &at)?;
    Ok(socket)
}

fn tcp(at: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(at, rustix::net::SocketType::STREAM)?;
    rustix::net::listen(&socket, 128)?;
    TcpListener::from_std(socket.into())
}

fn udp(at: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::from_std(socket(at, rustix::net::SocketType::DGRAM)?.into())
}

async fn accept(listener: TcpListener, token: Arc<[u8]>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(answer(stream, Arc::clone(&token)))),
            Err(_) => tokio::time::sleep(PATIENCE / 100).await,
        }
    }
}

async fn answer(mut stream: TcpStream, token: Arc<[u8]>) {
    let mut buffer = vec![0; 4096];
    let Ok(Ok(count)) = tokio::time::timeout(PATIENCE, stream.read(&mut buffer)).await else { return };
    told(buffer.get(..count).unwrap_or_default());
    // Good HTTP, and bytes to look for in anything else.
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", token.len());
    let _ = stream.write_all(&[head.as_bytes(), &token].concat()).await;
    let _ = stream.shutdown().await;
}

async fn datagrams(socket: UdpSocket, token: Arc<[u8]>) {
    let mut buffer = vec![0; 4096];
    loop {
        if let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            told(buffer.get(..count).unwrap_or_default());
            let _ = socket.send_to(&token, from).await;
        }
    }
}

async fn names(socket: UdpSocket) {
    let mut buffer = vec![0; 4096];
    loop {
        if let Ok((count, from)) = socket.recv_from(&mut buffer).await {
            let query = buffer.get(..count).unwrap_or_default();
            told(query);
            if let Some(answer) = dns::answer(query) {
                let _ = socket.send_to(&answer, from).await;
            }
        }
    }
}

async fn names_over_tcp(listener: TcpListener) {
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            let Ok(Ok(length)) = tokio::time::timeout(PATIENCE, stream.read_u16()).await else { return };
            let mut query = vec![0; usize::from(length)];
            let Ok(Ok(_)) = tokio::time::timeout(PATIENCE, stream.read_exact(&mut query)).await else { return };
            told(&query);
            if let Some(answer) = dns::answer(&query) {
                let length = u16::try_from(answer.len()).unwrap_or(u16::MAX);
                let _ = stream.write_all(&[&length.to_be_bytes()[..], &answer].concat()).await;
            }
        });
    }
}
