//! The server that all contenders reach: bodies of zeros as fast as the kernel takes them, and the DNS of its one name.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// Looks globally reachable, so that a gateway has no reason to refuse it.
pub(crate) const ADDRESS: Ipv4Addr = Ipv4Addr::new(93, 184, 214, 1);
/// What the rules of the sandbox list.
pub(crate) const NAME: &str = "bench.example.org";
/// Where an answer is followed by silence, from both sides.
pub(crate) const PARK: &str = "/park";
/// The line that says that it listens.
pub(crate) const READY: &str = "ready";
const HTTP: u16 = 80;
pub(crate) const DNS: u16 = 53;
/// Connections that are served at the same time, each by a thread that is there before it: starting one would count.
const THREADS: usize = 64;
const MAX_HEAD: usize = 8192;
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Where a client goes that needs no name.
pub(crate) fn address() -> String {
    format!("{ADDRESS}:{HTTP}")
}

/// Where a client in a sandbox goes.
pub(crate) fn name() -> String {
    format!("{NAME}:{HTTP}")
}

/// Serves until standard input ends.
pub(crate) fn serve() -> Result<(), Box<dyn Error>> {
    let listener = Arc::new(TcpListener::bind((Ipv4Addr::UNSPECIFIED, HTTP))?);
    let names = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, DNS))?;
    let parked = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..THREADS {
        let (listener, parked) = (Arc::clone(&listener), Arc::clone(&parked));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                // A client that goes away is the client's business.
                if let Ok(Some(stream)) = answer_all(stream) {
                    parked.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
                }
            }
        });
    }
    thread::spawn(move || answer_queries(&names));
    writeln!(io::stdout(), "{READY}")?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// Answers request after request; gives the connection back if it is to be parked.
fn answer_all(mut stream: TcpStream) -> io::Result<Option<TcpStream>> {
    stream.set_nodelay(true)?;
    let mut head = [0; MAX_HEAD];
    let mut filled = 0;
    loop {
        match stream.read(&mut head[filled..])? {
            0 => return Ok(None),
            count => filled += count,
        }
        if !head[..filled].ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&head[..filled]);
        let path = text.split(' ').nth(1).unwrap_or_default();
        let length = path.strip_prefix("/bytes/").and_then(|length| length.parse().ok()).unwrap_or(0);
        answer(&mut stream, length)?;
        if path == PARK {
            return Ok(Some(stream));
        }
        filled = 0;
    }
}

fn answer(stream: &mut TcpStream, length: usize) -> io::Result<()> {
    let first = length.min(1024);
    let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    bytes.resize(bytes.len() + first, 0);
    stream.write_all(&bytes)?;
    let mut left = length - first;
    while left > 0 {
        let part = left.min(ZEROS.len());
        stream.write_all(&ZEROS[..part])?;
        left -= part;
    }
    Ok(())
}

/// Answers every query (RFC 1035): an address to whoever wants one, else that there is none, to be remembered.
fn answer_queries(socket: &UdpSocket) {
    const HEADER: usize = 12;
    // The name of the question, class IN, an hour.
    let record = |kind: u8, data: &[u8]| {
        let length = u8::try_from(data.len()).unwrap_or(u8::MAX);
        [&[0xc0, 12, 0, kind, 0, 1, 0, 0, 0x0e, 0x10, 0, length], data].concat()
    };
    let (a, soa) = (record(1, &ADDRESS.octets()), record(6, &[&[0, 0][..], &[0, 0, 0x0e, 0x10].repeat(5)].concat()));
    let mut query = [0; 512];
    while let Ok((count, from)) = socket.recv_from(&mut query) {
        let Some(name) = query[..count].get(HEADER..).and_then(|rest| rest.iter().position(|&byte| byte == 0)) else {
            continue;
        };
        // After the name's end come its type and class.
        let end = (HEADER + name + 5).min(count);
        let wants_a = query[..end].ends_with(&[0, 1, 0, 1]);
        let (answers, authorities) = if wants_a { (1, 0) } else { (0, 1) };
        let header = [query[0], query[1], 0x85, 0x80, 0, 1, 0, answers, 0, authorities, 0, 0];
        let record = if wants_a { &a } else { &soa };
        // Whoever does not hear it asks again.
        let _ = socket.send_to(&[&header, &query[HEADER..end], record].concat(), from);
    }
}
