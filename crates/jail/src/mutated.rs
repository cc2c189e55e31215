//! What only a build with mutations does: taking a control away may need more than leaving a step out.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{FromRawFd as _, OwnedFd};

use mutation::{Mutation, mutated};

use crate::{syscalls, world};

/// The sandbox's end of the cable, and the addresses of both ends: of a range for documentation.
const CABLE: &str = "uplink0";
const OUTSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
const INSIDE: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 2));
const PREFIX: u8 = 30;
/// Where a command finds the descriptor that leaked: a number that nobody else has.
const LEAKED: i32 = 64;

/// From the network namespace that this process is in to that of the process `pid`.
pub(crate) fn lay_cable(pid: i32) -> io::Result<()> {
    if !mutated(Mutation::Uplink) {
        return Ok(());
    }
    let name = format!("uplink{pid}");
    world::join(&name, CABLE, pid.cast_unsigned())?;
    world::add_address(&name, OUTSIDE, PREFIX)?;
    world::set_up(&name)
}

/// The other end of it.
pub(crate) fn take_cable() -> io::Result<()> {
    if !mutated(Mutation::Uplink) {
        return Ok(());
    }
    world::add_address(CABLE, INSIDE, PREFIX)?;
    world::set_up(CABLE)
}

/// Has the program that is executed next inherit a descriptor of the host's.
pub(crate) fn leak(descriptor: &OwnedFd) -> io::Result<()> {
    if mutated(Mutation::LeakedDescriptor) { syscalls::inherit_at(descriptor, LEAKED) } else { Ok(()) }
}

/// Puts a socket that sees every packet in the place of the last listener, which is for queries over IPv6. No other
/// socket tells where a datagram was meant to go.
pub(crate) fn watch_datagrams(listeners: &mut [OwnedFd]) -> io::Result<()> {
    let (Some(last), true) = (listeners.last_mut(), mutated(Mutation::UdpOpen)) else { return Ok(()) };
    let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let protocol = u16::try_from(libc::ETH_P_IP).unwrap_or(0).to_be();
    // WHY: rustix has no sockets of this family.
    // SAFETY: takes plain values.
    let number = unsafe { libc::socket(libc::AF_PACKET, kind, i32::from(protocol)) };
    if number == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor.
    *last = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(())
}
