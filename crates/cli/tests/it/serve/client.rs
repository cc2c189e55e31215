//! A server of this build, and a client that can also say what no client should.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) fn program() -> PathBuf {
    std::env::var_os("RINGFENCE").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_ringfence")), PathBuf::from)
}

/// A server; killed when it is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) place: TempDir,
    pub(crate) at: At,
    output: Option<BufReader<std::process::ChildStdout>>,
}

/// Where a server is, and who asks.
#[derive(Debug, Clone)]
pub(crate) enum At {
    Socket(PathBuf),
    Tcp(String, Option<String>),
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&self.body)))
    }

    /// Its body, having checked its status.
    #[track_caller]
    pub(crate) fn ok(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    /// Checks that it is a problem of this sort.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        assert!(self.headers.to_lowercase().contains("content-type: application/problem+json"), "{}", self.headers);
        let problem = self.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!(code), &json!(status)), "{problem}");
        assert!(problem["title"].is_string() && problem["detail"].is_string() && problem["type"].is_string());
        problem
    }
}

impl Server {
    pub(crate) fn socket(more: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("socket");
        Self::start(place, &["--socket", path.to_str().unwrap()], more, &[])
    }

    /// Over TCP with these tokens.
    pub(crate) fn tcp(tokens: &[&str], more: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let file = token_file(place.path(), &tokens.join("\n"), 0o600);
        let arguments = ["--listen", "127.0.0.1:0", "--token-file", file.to_str().unwrap()];
        let mut server = Self::start(place, &arguments, more, &[]);
        if let At::Tcp(_, token) = &mut server.at {
            *token = Some(tokens[0].to_owned());
        }
        server
    }

    pub(crate) fn start(place: TempDir, arguments: &[&str], more: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program());
        command.env("RINGFENCE_STORE", place.path().join("store")).env("XDG_CONFIG_HOME", place.path().join("config"));
        command.env_remove("RINGFENCE_SIGNING_KEY").envs(env.iter().copied());
        command.arg("serve").args(arguments).args(more).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(ready["pid"], json!(child.id()));
        let at = match ready["socket"].as_str() {
            Some(path) => At::Socket(path.into()),
            None => At::Tcp(ready["address"].as_str().unwrap().into(), None),
        };
        Self { child, place, at, output: Some(output) }
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: &[u8]) -> Response {
        self.at.request(method, path, &[], body)
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path, b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Response {
        self.request("POST", path, body.to_string().as_bytes())
    }

    /// A sandbox without network.
    pub(crate) fn sandbox(&self) -> String {
        let made = self.post("/v1/sandboxes", &json!({"profile": "T0.H1.N2"})).ok(201);
        made["id"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn exec(&self, id: &str, body: &Value) -> (i64, String, String) {
        let done = self.post(&format!("/v1/sandboxes/{id}/exec"), body).ok(200);
        assert_eq!(done["outcome"], "exited", "{done}");
        let text = |name: &str| String::from_utf8(STANDARD.decode(done[name].as_str().unwrap()).unwrap()).unwrap();
        (done["code"].as_i64().unwrap(), text("stdout_base64"), text("stderr_base64"))
    }

    /// Waits for it to end by itself, or by a signal that was sent.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// What it said after its first line.
    pub(crate) fn said(&mut self) -> String {
        let mut text = String::new();
        self.output.take().unwrap().read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

pub(crate) fn token_file(place: &Path, text: &str, mode: u32) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = place.join("tokens");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

/// A stream of either sort.
pub(crate) trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

impl At {
    pub(crate) fn as_token(&self, token: &str) -> Self {
        match self {
            Self::Tcp(address, _) => Self::Tcp(address.clone(), Some(token.to_owned())),
            Self::Socket(_) => self.clone(),
        }
    }

    pub(crate) fn connect(&self) -> Box<dyn Duplex> {
        match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
            Self::Tcp(address, _) => {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                Box::new(stream)
            }
        }
    }

    /// The head of a request, without the empty line.
    pub(crate) fn head(&self, method: &str, path: &str, more: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {path} HTTP/1.1\r\n");
        let (mut host, mut token) = ("localhost".to_owned(), None);
        if let Self::Tcp(address, stated) = self {
            host.clone_from(address);
            token.clone_from(stated);
        }
        if !more.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.push_str(&format!("Host: {host}\r\n"));
        }
        if let Some(token) = token {
            head.push_str(&format!("Authorization: Bearer {token}\r\n"));
        }
        for (name, value) in more {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head
    }

    pub(crate) fn request(&self, method: &str, path: &str, more: &[(&str, &str)], body: &[u8]) -> Response {
        let head = self.head(method, path, more);
        let head = format!("{head}Connection: close\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        // Who answers before it has read everything may close its side.
        let _ = stream.write_all(body);
        answer(&mut stream).unwrap()
    }
}

/// Reads one answer to the end of the connection.
pub(crate) fn answer(stream: &mut dyn Duplex) -> io::Result<Response> {
    let mut bytes = Vec::new();
    // A server that has not read everything resets the connection after its answer.
    let _ = stream.read_to_end(&mut bytes);
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> io::Result<Response> {
    let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, String::from_utf8_lossy(bytes).into_owned());
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(broken)?;
    let headers = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let status = headers.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or_else(broken)?;
    let mut rest = &bytes[end + 4..];
    let mut body = rest.to_vec();
    if headers.to_lowercase().contains("transfer-encoding: chunked") {
        body.clear();
        loop {
            let line = rest.windows(2).position(|window| window == b"\r\n").ok_or_else(broken)?;
            let size = std::str::from_utf8(&rest[..line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
            let size = size.ok_or_else(broken)?;
            rest = &rest[line + 2..];
            if size == 0 {
                break;
            }
            body.extend(rest.get(..size).ok_or_else(broken)?);
            rest = &rest[size + 2..];
        }
    }
    Ok(Response { status, headers, body })
}

/// A WebSocket.
pub(crate) struct WebSocket(pub(crate) Box<dyn Duplex>);

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Message {
    Text(String),
    Binary(Vec<u8>),
    Closed,
}

impl WebSocket {
    pub(crate) fn open(at: &At, path: &str) -> Self {
        Self::try_open(at, path).unwrap()
    }

    /// An error is the head of an answer that is no upgrade.
    pub(crate) fn try_open(at: &At, path: &str) -> Result<Self, String> {
        let key = STANDARD.encode([7; 16]);
        let more = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &key),
        ];
        let mut stream = at.connect();
        stream.write_all(format!("{}\r\n", at.head("GET", path, &more)).as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        if head.starts_with(b"HTTP/1.1 101") {
            Ok(Self(stream))
        } else {
            Err(String::from_utf8_lossy(&head).into_owned())
        }
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            short @ 0..=125 => frame.push(0x80 | u8::try_from(short).unwrap()),
            middle @ 126..=65535 => {
                frame.push(0x80 | 0x7e);
                frame.extend(u16::try_from(middle).unwrap().to_be_bytes());
            }
            long => {
                frame.push(0x80 | 127);
                frame.extend(u64::try_from(long).unwrap().to_be_bytes());
            }
        }
        // A mask of zeros is a mask.
        frame.extend([0; 4]);
        frame.extend(payload);
        self.0.write_all(&frame).unwrap();
    }

    pub(crate) fn text(&mut self, value: &Value) {
        self.send(1, value.to_string().as_bytes());
    }

    pub(crate) fn input(&mut self, bytes: &[u8]) {
        self.send(2, &[&[0], bytes].concat());
    }

    pub(crate) fn next(&mut self) -> Message {
        loop {
            let mut head = [0; 2];
            if self.0.read_exact(&mut head).is_err() {
                return Message::Closed;
            }
            let length = match head[1] & 0x7f {
                126 => {
                    let mut bytes = [0; 2];
                    self.0.read_exact(&mut bytes).unwrap();
                    u64::from(u16::from_be_bytes(bytes))
                }
                127 => {
                    let mut bytes = [0; 8];
                    self.0.read_exact(&mut bytes).unwrap();
                    u64::from_be_bytes(bytes)
                }
                short => u64::from(short),
            };
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            self.0.read_exact(&mut payload).unwrap();
            match head[0] & 0x0f {
                1 => return Message::Text(String::from_utf8(payload).unwrap()),
                2 => return Message::Binary(payload),
                8 => return Message::Closed,
                _ => {}
            }
        }
    }

    /// Everything to the last message: output, errors, and how it ended.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, Vec<u8>, Value) {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match self.next() {
                Message::Binary(bytes) if bytes[0] == 1 => out.extend(&bytes[1..]),
                Message::Binary(bytes) => err.extend(&bytes[1..]),
                Message::Text(text) => return (out, err, serde_json::from_str(&text).unwrap()),
                Message::Closed => panic!("it closed without an end; {}", String::from_utf8_lossy(&out)),
            }
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How many processes have this word among their arguments: commands in sandboxes are processes of the host.
pub(crate) fn processes(word: &str) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        count += usize::from(line.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes()));
    }
    count
}
