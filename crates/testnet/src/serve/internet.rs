//! Which server listens where, and the addresses that this takes.

use std::net::{IpAddr, SocketAddr};
use std::process::Stdio;
use std::sync::Arc;

use testnet::addresses::{
    DEAD, DNS, DNS_OVER_TLS, DOMAIN, ECHO, EVIL, EVIL_V6, HTTP, HTTPS, METADATA, PRIVATE, PRIVATE2, PUBLIC_RESOLVER,
    SHARED, SSH, WEB, WEB_V6,
};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, UdpSocket};
use tokio::process::Command;

use super::dns::{self, Resolver};
use super::journal::{Server, Witness};
use super::tcp::{self, Speaks};
use super::{ServeError, World, echo};

/// Ports and what is spoken there over TCP.
const WEB_TCP: &[(u16, Speaks)] =
    &[(HTTP, Speaks::Http), (HTTPS, Speaks::Https), (SSH, Speaks::Echo), (ECHO, Speaks::Echo)];
const WEB_UDP: &[u16] = &[HTTPS, ECHO];
const PRIVATE_TCP: &[(u16, Speaks)] = &[(HTTP, Speaks::Http), (HTTPS, Speaks::Https), (ECHO, Speaks::Echo)];
const RESOLVER_TCP: &[(u16, Speaks)] = &[(HTTP, Speaks::Http), (HTTPS, Speaks::Https), (DNS_OVER_TLS, Speaks::Echo)];
const METADATA_TCP: &[(u16, Speaks)] = &[(HTTP, Speaks::Http)];

/// One address with everything on it but DNS.
struct Host {
    address: IpAddr,
    tcp: &'static [(u16, Speaks)],
    udp: &'static [u16],
}

fn hosts() -> Vec<Host> {
    let web = WEB.map(IpAddr::from).into_iter().chain(WEB_V6.map(IpAddr::from)).chain([EVIL.into(), EVIL_V6.into()]);
    let mut hosts: Vec<Host> = web.map(|address| Host { address, tcp: WEB_TCP, udp: WEB_UDP }).collect();
    hosts.extend([PRIVATE, PRIVATE2, SHARED].map(|address| Host {
        address: address.into(),
        tcp: PRIVATE_TCP,
        udp: &[],
    }));
    hosts.push(Host { address: METADATA.into(), tcp: METADATA_TCP, udp: &[] });
    hosts.push(Host { address: PUBLIC_RESOLVER.into(), tcp: RESOLVER_TCP, udp: &[] });
    hosts.push(Host { address: DNS.into(), tcp: &[], udp: &[] });
    hosts
}

/// The lines of `ip` that give the namespace its addresses.
fn wardrobe() -> String {
    let addresses = hosts().into_iter().map(|host| match host.address {
        IpAddr::V4(address) => format!("addr add {address}/32 dev lo"),
        // Without duplicate address detection the address is usable at once.
        IpAddr::V6(address) => format!("addr add {address}/128 dev lo nodad"),
    });
    // Silence, where the kernel might otherwise answer that there is no such host.
    let silence = format!("route add blackhole {DEAD}/32\n");
    let lines = ["link set lo up".to_owned()].into_iter().chain(addresses).chain([silence]);
    lines.collect::<Vec<_>>().join("\n")
}

/// Gives this namespace the addresses of every server.
pub(crate) async fn dress() -> Result<(), ServeError> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(ServeError::Ip)?;
    if let Some(mut input) = child.stdin.take() {
        // An `ip` that does not take its lines says why.
        let _ = input.write_all(wardrobe().as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(ServeError::Ip)?;
    if output.status.success() {
        return Ok(());
    }
    Err(ServeError::Addresses { said: String::from_utf8_lossy(&output.stderr).trim().to_owned() })
}

/// Starts every server. All listen when this returns.
pub(crate) async fn listen(world: &Arc<World>) -> Result<(), ServeError> {
    for Host { address, tcp, udp } in hosts() {
        for &(port, speaks) in tcp {
            listen_tcp(world, SocketAddr::new(address, port), speaks).await?;
        }
        for &port in udp {
            let (socket, witness) = bind_udp(world, SocketAddr::new(address, port), Server::Udp).await?;
            tokio::spawn(echo::datagrams(socket, witness));
        }
    }
    for (address, resolver) in [(DNS, Resolver::honest()), (PUBLIC_RESOLVER, Resolver::Lying)] {
        let (address, resolver) = (SocketAddr::new(address.into(), DOMAIN), Arc::new(resolver));
        let (socket, witness) = bind_udp(world, address, Server::Dns).await?;
        tokio::spawn(dns::datagrams(socket, witness.clone(), Arc::clone(&resolver)));
        let listener = bind_tcp(address).await?;
        tokio::spawn(tcp::accept(listener, witness, Arc::clone(world), move |stream, witness, _| {
            dns::stream(stream, witness, Arc::clone(&resolver))
        }));
    }
    Ok(())
}

async fn listen_tcp(world: &Arc<World>, address: SocketAddr, speaks: Speaks) -> Result<(), ServeError> {
    let listener = bind_tcp(address).await?;
    let witness = Witness::new(&world.journal, speaks.server(), address);
    tokio::spawn(tcp::accept(listener, witness, Arc::clone(world), move |stream, witness, world| {
        tcp::converse(speaks, stream, witness, world)
    }));
    Ok(())
}

async fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })
}

async fn bind_udp(world: &Arc<World>, address: SocketAddr, server: Server) -> Result<(UdpSocket, Witness), ServeError> {
    let socket = UdpSocket::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
    Ok((socket, Witness::new(&world.journal, server, address)))
}
