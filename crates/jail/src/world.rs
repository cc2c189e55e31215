//! A world of our own: network namespaces that are joined with each other and with nothing else.
//!
//! For proofs. Whoever may have sandboxes may have this: a plain user makes the namespaces in a user namespace of their
//! own, root makes them as they are.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::path::PathBuf;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::netlink::{self, Answer, Batch, CREATE, NESTED, attributes, text};
use crate::syscalls;

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

/// Enters a network namespace that has nothing but loopback; a plain user enters a user namespace first, as its root.
/// Only for a process with one thread that does nothing else.
pub fn leave_network() -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        syscalls::unshare(libc::CLONE_NEWNET)?;
    } else {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        syscalls::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    }
    syscalls::loopback_up()
}

/// Enters another network namespace with nothing but loopback, in the user namespace that this process is in.
pub fn leave_network_again() -> io::Result<()> {
    syscalls::unshare(libc::CLONE_NEWNET)?;
    syscalls::loopback_up()
}

/// Enters the network namespace of a process of ours that [left the network](leave_network).
pub fn enter_network(pid: u32) -> io::Result<()> {
    let open = |kind: &str| fs::File::open(format!("/proc/{pid}/ns/{kind}"));
    let link = |kind: &str| -> io::Result<PathBuf> { fs::read_link(format!("/proc/{pid}/ns/{kind}")) };
    // Both are opened first: behind the user namespace we may not look there any more.
    let (user, network) = (open("user")?, open("net")?);
    if link("user")? != fs::read_link("/proc/self/ns/user")? {
        move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
    }
    Ok(move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn send(batch: &Batch) -> io::Result<()> {
    let number = netlink::open(libc::NETLINK_ROUTE)?;
    // WHY: closed when done.
    // SAFETY: the kernel just gave us this descriptor.
    let _socket = unsafe { OwnedFd::from_raw_fd(number) };
    netlink::exchange(number, batch)
}

/// The head of a message about a link.
fn link_head(flags: i32) -> Vec<u8> {
    let mut head = vec![0; 8];
    head.extend(flags.to_ne_bytes());
    head.extend(flags.to_ne_bytes());
    head
}

/// Makes a pair of interfaces: `name` here, `theirs` in the network namespace of the process `pid`.
pub fn join(name: &str, theirs: &str, pid: u32) -> io::Result<()> {
    let mut peer = link_head(0);
    peer.extend(attributes(&[(3, text(theirs)), (19, pid.to_ne_bytes().to_vec())]));
    let data = attributes(&[(1 | NESTED, peer)]);
    let info = attributes(&[(1, b"veth".to_vec()), (2 | NESTED, data)]);
    let mut batch = Batch::default();
    let link = attributes(&[(3, text(name)), (0x12 | NESTED, info)]);
    batch.message(NEW_LINK, CREATE, Answer::Acknowledged, &link_head(0), &link);
    send(&batch)
}

fn index_of(name: &str) -> io::Result<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(rustix::net::netdevice::name_to_index(socket, name)?)
}

fn octets(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(v4) => (u8::try_from(libc::AF_INET).unwrap_or(0), v4.octets().to_vec()),
        IpAddr::V6(v6) => (u8::try_from(libc::AF_INET6).unwrap_or(0), v6.octets().to_vec()),
    }
}

/// Gives an interface an address.
pub fn add_address(interface: &str, address: IpAddr, prefix: u8) -> io::Result<()> {
    /// Duplicate address detection would make the address wait.
    const NO_DAD: u8 = 2;
    let (family, bytes) = octets(address);
    let mut head = vec![family, prefix, if address.is_ipv6() { NO_DAD } else { 0 }, 0];
    head.extend(index_of(interface)?.to_ne_bytes());
    let mut batch = Batch::default();
    let payload = attributes(&[(1, bytes.clone()), (2, bytes)]);
    batch.message(NEW_ADDRESS, CREATE, Answer::Acknowledged, &head, &payload);
    send(&batch)
}

/// Sets an interface up.
pub fn set_up(interface: &str) -> io::Result<()> {
    let mut batch = Batch::default();
    batch.message(NEW_LINK, 0, Answer::Acknowledged, &link_head(libc::IFF_UP), &attributes(&[(3, text(interface))]));
    send(&batch)
}

/// Sends everything that is not here by this way.
pub fn route_everything(interface: &str, by: IpAddr) -> io::Result<()> {
    const MAIN_TABLE: u8 = 254;
    const STATIC: u8 = 4;
    const UNICAST: u8 = 1;
    let (family, gateway) = octets(by);
    let mut head = vec![family, 0, 0, 0, MAIN_TABLE, STATIC, 0, UNICAST];
    head.extend(0_u32.to_ne_bytes());
    let mut batch = Batch::default();
    let payload = attributes(&[(5, gateway), (4, index_of(interface)?.to_ne_bytes().to_vec())]);
    batch.message(NEW_ROUTE, CREATE, Answer::Acknowledged, &head, &payload);
    send(&batch)
}
