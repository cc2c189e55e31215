//! A server that speaks one provider's API strictly: every request is held against the published schema, and a reply is
//! scripted, or a fault.
#![allow(dead_code, unused_imports, reason = "every test program uses its own part of this")]
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

mod anthropic;
mod check;
mod google;
mod openai;
mod own;
mod replies;
mod responses;

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use own::{Own, used};
pub(crate) use replies::{called, said, stopped, thought, uninvited, wrong_arguments};

/// The key that every request must bring.
pub(crate) const KEY: &str = "sk-test-0123456789-abcdefghij";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    OpenAi,
    Responses,
    Anthropic,
    Google,
}

impl Api {
    pub(crate) const ALL: [Self; 4] = [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Google];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "openai-responses",
            Self::Anthropic => "anthropic",
            Self::Google => "google",
        }
    }

    /// The variables that lead here: of the key, and of the address.
    pub(crate) fn variables(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenAi | Self::Responses => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            Self::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            Self::Google => ("GOOGLE_API_KEY", "GOOGLE_BASE_URL"),
        }
    }
}

/// What the server does next.
#[derive(Debug, Clone)]
pub(crate) enum Next {
    Reply(Value),
    /// A reply that no sound server gives.
    Odd(Value),
    Status(u16, Vec<(&'static str, String)>, Value),
    /// These bytes as the body of a good reply.
    Body(Vec<u8>),
    /// Nothing, ever.
    Hang,
    /// The head and half of the body.
    DropInBody,
    /// The end of the connection, without a word.
    Drop,
    /// The head, and then a space now and then.
    Trickle,
    /// A reply as long as is wanted.
    Endless,
}

/// The server; it ends with the test program.
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    script: VecDeque<Next>,
    requests: Vec<Value>,
    granting: bool,
    complaints: Vec<String>,
    under_way: usize,
    most_under_way: usize,
}

impl Fake {
    /// Starts a server that goes through this script, one reply after the other.
    pub(crate) fn start(api: Api, script: impl IntoIterator<Item = Next>) -> Self {
        Self::with_pace(api, script, Duration::ZERO)
    }

    /// The same, for clients that may switch the provider's own tools on.
    pub(crate) fn granting(api: Api, script: impl IntoIterator<Item = Next>) -> Self {
        let fake = Self::start(api, script);
        lock(&fake.state).granting = true;
        fake
    }

    /// The same, where every reply takes a while.
    pub(crate) fn with_pace(api: Api, script: impl IntoIterator<Item = Next>, pace: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State { script: script.into_iter().collect(), ..State::default() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(api, stream, &shared, pace));
            }
        });
        Self { address, state }
    }

    /// Where clients find it.
    pub(crate) fn base(&self, api: Api) -> String {
        match api {
            Api::OpenAi | Api::Responses => format!("http://{}/v1", self.address),
            Api::Anthropic | Api::Google => format!("http://{}", self.address),
        }
    }

    /// The bodies that came, and nothing that was wrong with them.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let state = lock(&self.state);
        assert_eq!(state.complaints, Vec::<String>::new());
        state.requests.clone()
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        lock(&self.state).complaints.clone()
    }

    pub(crate) fn most_under_way(&self) -> usize {
        lock(&self.state).most_under_way
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request, as it came.
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
    /// Whether the provider's own tools may be switched on.
    pub(crate) granting: bool,
}

fn ask(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut headers = Vec::new();
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Some(Asked { line: line.trim_end().to_owned(), headers, body, granting: false })
}

fn serve(api: Api, mut stream: TcpStream, state: &Mutex<State>, pace: Duration) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(mut asked) = ask(&mut reader) {
        asked.granting = lock(state).granting;
        let complaints = match api {
            Api::OpenAi => openai::check(&asked),
            Api::Responses => responses::check(&asked),
            Api::Anthropic => anthropic::check(&asked),
            Api::Google => google::check(&asked),
        };
        let number = keep("requests", api, COUNT.fetch_add(1, Ordering::Relaxed), &asked.body);
        let next = {
            let mut state = lock(state);
            state.requests.push(asked.body);
            state.under_way += 1;
            state.most_under_way = state.most_under_way.max(state.under_way);
            if complaints.is_empty() {
                let silence = || Next::Status(500, Vec::new(), json!({"error": {"message": "nothing is scripted"}}));
                state.script.pop_front().unwrap_or_else(silence)
            } else {
                let told = json!({"error": {"message": complaints.join("; ")}});
                state.complaints.extend(complaints);
                Next::Status(400, Vec::new(), told)
            }
        };
        if let Next::Reply(body) = &next {
            keep("replies", api, number, body);
        }
        std::thread::sleep(pace);
        lock(state).under_way -= 1;
        if !answer(&mut stream, next) {
            return;
        }
    }
}

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Writes down what was said, for `sdk_types.py`, where the lane wants it.
fn keep(kind: &str, api: Api, number: usize, body: &Value) -> usize {
    let text = body.to_string();
    if let Some(place) = std::env::var_os("RINGFENCE_MODEL_DUMP").filter(|_| text.len() < 1 << 20) {
        let directory = std::path::Path::new(&place).join(kind);
        std::fs::create_dir_all(&directory).unwrap();
        let name = format!("{}-{}-{number}.json", api.name(), std::process::id());
        std::fs::write(directory.join(name), text).unwrap();
    }
    number
}

/// Whether the connection goes on.
fn answer(stream: &mut TcpStream, next: Next) -> bool {
    let head = |status: u16, length: usize, more: &str| {
        format!("HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n{more}\r\n")
    };
    let mut write = |bytes: &[u8]| stream.write_all(bytes).is_ok();
    match next {
        Next::Reply(body) | Next::Odd(body) => {
            let body = body.to_string();
            write(head(200, body.len(), "").as_bytes()) && write(body.as_bytes())
        }
        Next::Status(status, headers, body) => {
            let body = body.to_string();
            let more: Vec<String> = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            write(head(status, body.len(), &more.concat()).as_bytes()) && write(body.as_bytes())
        }
        Next::Body(body) => write(head(200, body.len(), "").as_bytes()) && write(&body),
        Next::Hang => {
            let _ = stream.read(&mut [0]);
            false
        }
        Next::DropInBody => {
            write(head(200, 1000, "").as_bytes());
            write(b"{\"choices\": [");
            false
        }
        Next::Drop => false,
        Next::Trickle => {
            write(head(200, 1 << 20, "").as_bytes());
            while write(b" ") {
                std::thread::sleep(Duration::from_millis(5));
            }
            false
        }
        Next::Endless => {
            write(b"HTTP/1.1 200 -\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
            let chunk = [b"10000\r\n".as_slice(), &vec![b' '; 0x10000], b"\r\n"].concat();
            while write(&chunk) {}
            false
        }
    }
}
