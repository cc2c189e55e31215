//! Datagrams that nobody dropped: only a build with mutations has this, and only there does anything come here.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use mutation::{Mutation, mutated};
use tokio::net::UdpSocket;

const UDP: u8 = 17;
const MAX_PACKET: usize = 64 << 10;

/// Whether this is the socket that sees packets: it has no address of the internet.
pub(crate) fn is_watching(socket: &UdpSocket) -> bool {
    mutated(Mutation::UdpOpen) && socket.local_addr().is_err()
}

/// Sends on what the sandbox sends, to where it was meant to go; returns why no more.
pub(crate) async fn forward(socket: &UdpSocket) -> io::Error {
    let outside = match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await {
        Ok(outside) => outside,
        Err(error) => return error,
    };
    let mut buffer = vec![0; MAX_PACKET];
    loop {
        match socket.recv(&mut buffer).await {
            Ok(count) => {
                if let Some((to, payload)) = buffer.get(..count).and_then(datagram) {
                    // Who is not there gets nothing.
                    let _ = outside.send_to(payload, to).await;
                }
            }
            Err(error) => return error,
        }
    }
}

/// Where a packet of IPv4 with a datagram in it goes, and what is in that; `None` for anything else, and for what stays in
/// the sandbox.
fn datagram(packet: &[u8]) -> Option<(SocketAddr, &[u8])> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let [a, b, c, d] = *packet.get(16..20)? else { return None };
    let [high, low] = *packet.get(header + 2..header + 4)? else { return None };
    let to = SocketAddrV4::new(Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]));
    let stays = to.ip().is_loopback() || (a, b & 0xfe) == (198, 18);
    let payload = packet.get(header + 8..)?;
    (*packet.get(9)? == UDP && !stays).then_some((to.into(), payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_read_from_its_packet() {
        let mut packet = vec![0x45; 20];
        packet[9] = UDP;
        packet[16..].copy_from_slice(&[93, 184, 215, 66]);
        packet.extend([0, 1, 0x1b, 0x58, 0, 10, 0, 0]);
        packet.extend(b"hi");
        let to: SocketAddr = "93.184.215.66:7000".parse().unwrap();
        assert_eq!(datagram(&packet), Some((to, &b"hi"[..])));
        packet[16] = 127;
        assert_eq!(datagram(&packet), None);
        assert_eq!(datagram(&packet[..19]), None);
        assert_eq!(datagram(&[]), None);
    }
}
