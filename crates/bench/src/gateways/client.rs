//! The client of every contender. It measures itself, so that starting it, in a sandbox or not, does not count.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tempfile::TempDir;

use super::origin;

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// One answer of `count` bytes.
    Download,
    /// `count` connections, each to the first byte of an answer, and over on all sides before the next begins.
    FirstByte,
    /// The same, but each begins while the one before is being taken apart behind it.
    BackToBack,
    /// `count` requests one after the other on one connection; the time of one.
    Requests,
    /// `count` connections at the same time, each with an answer behind it, until standard input ends.
    Hold,
}

/// How the server is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// As if nobody stood between.
    Straight,
    /// Through a tunnel that a proxy opens.
    Connect,
    /// Of a proxy that speaks HTTP itself.
    Forward,
}

/// What a client is sent out for.
#[derive(Debug, Args)]
pub(crate) struct Errand {
    #[arg(long)]
    pub(crate) task: Task,
    /// Where to connect to: an address or name, and a port
    #[arg(long)]
    pub(crate) at: String,
    #[arg(long)]
    pub(crate) way: Way,
    #[arg(long)]
    pub(crate) count: u32,
}

/// How this program is called in the directory that a sandbox sees.
pub(crate) const PROGRAM: &str = "bench";
/// Nobody is silent for this long unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(20);
const BUFFER: usize = 256 << 10;

/// A directory with this program and nothing else, that everybody may read.
pub(crate) fn copy() -> io::Result<TempDir> {
    let directory = tempfile::Builder::new().prefix("ringfence-bench-").tempdir()?;
    std::fs::copy(std::env::current_exe()?, directory.path().join(PROGRAM))?;
    std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755))?;
    Ok(directory)
}

impl Errand {
    /// The arguments by which a client gets this errand.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let name = |value: Option<clap::builder::PossibleValue>| value.map(|value| value.get_name().to_owned());
        let (task, way) = (name(self.task.to_possible_value()), name(self.way.to_possible_value()));
        let (task, way) = (task.unwrap_or_default(), way.unwrap_or_default());
        let words = ["egress-client", "--task", &task, "--at", &self.at, "--way", &way, "--count"];
        words.into_iter().map(str::to_owned).chain([self.count.to_string()]).collect()
    }

    /// Does it and prints nanoseconds, one time in a line.
    pub(crate) fn run(self) -> Result<(), Box<dyn Error>> {
        let address = self.at.to_socket_addrs()?.next().ok_or("no address")?;
        let mut client = Client { address, way: self.way, buffer: vec![0; BUFFER] };
        let times = match self.task {
            Task::Download => client.download(self.count)?,
            Task::FirstByte => client.first_bytes(self.count, Ending::Awaited)?,
            Task::BackToBack => client.first_bytes(self.count, Ending::Underway)?,
            Task::Requests => client.requests(self.count)?,
            Task::Hold => return client.hold(self.count).map_err(Into::into),
        };
        let lines: Vec<String> = times.iter().map(|time| time.as_nanos().to_string()).collect();
        writeln!(io::stdout(), "{}", lines.join("\n"))?;
        Ok(())
    }
}

/// What is known of a connection when the next one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Awaited,
    Underway,
}

struct Client {
    address: SocketAddr,
    way: Way,
    buffer: Vec<u8>,
}

impl Client {
    fn download(&mut self, bytes: u32) -> io::Result<Vec<Duration>> {
        let start = Instant::now();
        let mut stream = self.open()?;
        self.ask(&mut stream, &format!("/bytes/{bytes}"))?;
        let received = self.receive(&mut stream)?;
        let time = start.elapsed();
        if received == u64::from(bytes) { Ok(vec![time]) } else { Err(unexpected("a body of another length")) }
    }

    fn first_bytes(&mut self, count: u32, ending: Ending) -> io::Result<Vec<Duration>> {
        let mut times = Vec::new();
        // The first one warms up, and is not counted.
        for _ in 0..=count {
            let start = Instant::now();
            let mut stream = self.open()?;
            self.ask(&mut stream, "/bytes/2")?;
            let read = stream.read(&mut self.buffer)?;
            times.push(start.elapsed());
            check(&self.buffer[..read])?;
            if ending == Ending::Awaited {
                stream.shutdown(Shutdown::Write)?;
                stream.read_to_end(&mut Vec::new())?;
            }
        }
        Ok(times.split_off(1))
    }

    fn requests(&mut self, count: u32) -> io::Result<Vec<Duration>> {
        let mut stream = self.open()?;
        let mut start = Instant::now();
        for number in 0..=count {
            if number == 1 {
                start = Instant::now();
            }
            self.ask(&mut stream, "/bytes/2")?;
            self.receive(&mut stream)?;
        }
        Ok(vec![start.elapsed() / count])
    }

    fn hold(&mut self, count: u32) -> io::Result<()> {
        let mut held = Vec::new();
        for _ in 0..count {
            let mut stream = self.open()?;
            self.ask(&mut stream, origin::PARK)?;
            self.receive(&mut stream)?;
            held.push(stream);
        }
        writeln!(io::stdout(), "{}", held.len())?;
        io::stdin().read_to_end(&mut Vec::new())?;
        Ok(())
    }

    fn open(&mut self) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        if self.way == Way::Connect {
            let to = origin::address();
            stream.write_all(format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n\r\n").as_bytes())?;
            self.head(&mut stream)?;
        }
        Ok(stream)
    }

    fn ask(&self, stream: &mut TcpStream, path: &str) -> io::Result<()> {
        let server = if self.way == Way::Forward { format!("http://{}", origin::address()) } else { String::new() };
        stream.write_all(format!("GET {server}{path} HTTP/1.1\r\nHost: {}\r\n\r\n", origin::NAME).as_bytes())
    }

    /// Reads a head into the buffer; its length, and how much was read.
    fn head(&mut self, stream: &mut TcpStream) -> io::Result<(usize, usize)> {
        let mut filled = 0;
        loop {
            match stream.read(&mut self.buffer[filled..])? {
                0 => return Err(unexpected("an end within a head")),
                count => filled += count,
            }
            if let Some(at) = self.buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n") {
                check(&self.buffer[..filled])?;
                return Ok((at + 4, filled));
            }
        }
    }

    /// Reads an answer to its end; the length of its body.
    fn receive(&mut self, stream: &mut TcpStream) -> io::Result<u64> {
        let (head, filled) = self.head(stream)?;
        let text = String::from_utf8_lossy(&self.buffer[..head]).to_ascii_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let length: u64 = length.ok_or_else(|| unexpected("an answer without a length"))?;
        let mut left = length.saturating_sub(u64::try_from(filled - head).unwrap_or(u64::MAX));
        while left > 0 {
            match stream.read(&mut self.buffer)? {
                0 => return Err(unexpected("an end within a body")),
                count => left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX)),
            }
        }
        Ok(length)
    }
}

/// An answer that is no success would be a fast one.
fn check(answer: &[u8]) -> io::Result<()> {
    match answer.get(..12) {
        Some(b"HTTP/1.1 200" | b"HTTP/1.0 200") => Ok(()),
        _ => Err(unexpected(&String::from_utf8_lossy(&answer[..answer.len().min(200)]))),
    }
}

fn unexpected(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
