//! A strict registry: it knows every request that it may get, word for word, and answers anything else with 400. What it
//! did not expect fails the test when it is dropped.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

const MAX_REQUEST: usize = 64 << 10;
/// The most that an answer without end has: enough to prove that nobody waits for it.
const MAX_REPEATS: usize = 100_000;

/// Who may ask.
#[derive(Debug, Clone)]
pub(crate) enum Access {
    /// Anybody, and nobody may say who they are.
    Open,
    /// Whoever has the key; without any, the challenge is the answer.
    Locked { challenge: String, key: String },
    /// As `Locked`, but the key, which must be this one, does not fit.
    Wrong { challenge: String, key: String },
    /// As `Locked`, but the old key is answered with the challenge.
    Changed { challenge: String, old: String, key: String },
    /// Whoever has the key, and it must be there at once.
    Known { key: String },
}

/// An answer, byte for byte.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
    then: Then,
}

/// What follows an answer.
#[derive(Debug, Clone)]
pub(crate) enum Then {
    Close,
    /// Nothing, until the client goes away.
    Stall,
    /// A byte now and then, until the client goes away.
    Trickle,
    /// These bytes, again and again, until the client goes away.
    Repeat(Vec<u8>),
}

/// What is asked, by whom, and what is answered: one after the other, the last for ever.
#[derive(Debug)]
struct Route {
    request: String,
    accept: String,
    access: Access,
    form: Option<String>,
    answers: VecDeque<Answer>,
}

pub(crate) struct Server {
    /// Host and port, as in a reference.
    pub(crate) host: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    host: String,
    routes: Mutex<Vec<Route>>,
    heard: Mutex<Vec<String>>,
    complaints: Mutex<Vec<String>>,
}

impl Answer {
    pub(crate) fn new(status: &str, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let length = body.len().to_string();
        let mut all = headers.to_vec();
        all.push(("Content-Length", &length));
        Self::raw(status, &all, body, Then::Close)
    }

    /// An answer whose headers are exactly these, but that the connection ends.
    pub(crate) fn raw(status: &str, headers: &[(&str, &str)], body: &[u8], then: Then) -> Self {
        let mut bytes = format!("HTTP/1.1 {status}\r\n").into_bytes();
        for (name, value) in headers.iter().chain(&[("Connection", "close")]) {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(body);
        Self { bytes, then }
    }

    pub(crate) fn ok(media_type: &str, body: &[u8]) -> Self {
        Self::new("200 OK", &[("Content-Type", media_type)], body)
    }

    pub(crate) fn redirect(location: &str) -> Self {
        Self::new("307 Temporary Redirect", &[("Location", location)], b"")
    }

    /// Not even an answer.
    pub(crate) fn nothing(then: Then) -> Self {
        Self { bytes: Vec::new(), then }
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::serve("127.0.0.1", None).await
    }

    /// A server for clients that call this machine `localhost`.
    pub(crate) async fn start_localhost() -> Self {
        Self::serve("localhost", None).await
    }

    pub(crate) async fn start_secure(name: &str, acceptor: TlsAcceptor) -> Self {
        Self::serve(name, Some(acceptor)).await
    }

    async fn serve(name: &str, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = format!("{name}:{}", listener.local_addr().unwrap().port());
        let (routes, heard, complaints) = (Mutex::default(), Mutex::default(), Mutex::default());
        let shared = Arc::new(Shared { host: host.clone(), routes, heard, complaints });
        let task = tokio::spawn(accept(listener, acceptor, Arc::clone(&shared)));
        Self { host, shared, task }
    }

    /// Expects a request: method and target, `Accept`, who may ask.
    pub(crate) fn expect(
        &self,
        request: &str,
        accept: &str,
        access: &Access,
        answers: impl IntoIterator<Item = Answer>,
    ) {
        self.add(request, accept, access, None, answers.into_iter().collect());
    }

    /// Expects a form.
    pub(crate) fn expect_form(&self, request: &str, accept: &str, form: &str, answer: Answer) {
        self.add(request, accept, &Access::Open, Some(form.to_owned()), [answer].into());
    }

    fn add(&self, request: &str, accept: &str, access: &Access, form: Option<String>, answers: VecDeque<Answer>) {
        let (request, accept, access) = (request.to_owned(), accept.to_owned(), access.clone());
        let mut routes = self.shared.routes.lock().unwrap();
        routes.retain(|route| route.request != request);
        routes.push(Route { request, accept, access, form, answers });
    }

    /// The requests that came, in their order.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.shared.heard.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            assert_eq!(*self.shared.complaints.lock().unwrap(), Vec::<String>::new());
        }
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, shared: Arc<Shared>) {
    // Connections end with the test's runtime.
    while let Ok((stream, _)) = listener.accept().await {
        let (shared, acceptor) = (Arc::clone(&shared), acceptor.clone());
        tokio::spawn(async move {
            let _ = match acceptor {
                None => converse(stream, &shared).await,
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => converse(stream, &shared).await,
                    Err(error) => Err(error),
                },
            };
        });
    }
}

async fn converse<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, shared: &Shared) -> io::Result<()> {
    let mut request = Vec::new();
    let end = loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end;
        }
        // A client may connect and think better of it.
        if request.len() > MAX_REQUEST || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8(request[..end].to_vec()).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
    while request.len() < end + 4 + length {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let form = String::from_utf8(request[end + 4..].to_vec()).unwrap();
    let answer = shared.answer(&head, &form).unwrap_or_else(|complaint| {
        shared.complaints.lock().unwrap().push(format!("{complaint} in {head}"));
        Answer::new("400 Bad Request", &[], b"")
    });
    stream.write_all(&answer.bytes).await?;
    stream.flush().await?;
    match answer.then {
        Then::Close => stream.shutdown().await,
        Then::Stall => stream.read_u8().await.map(drop),
        Then::Trickle => {
            for _ in 0..MAX_REPEATS {
                tokio::time::sleep(Duration::from_millis(20)).await;
                stream.write_all(b" ").await?;
                stream.flush().await?;
            }
            Ok(())
        }
        Then::Repeat(bytes) => {
            for _ in 0..MAX_REPEATS {
                stream.write_all(&bytes).await?;
            }
            shared.complaints.lock().unwrap().push(format!("read without end: {head}"));
            Ok(())
        }
    }
}

impl Shared {
    /// The answer to a request, or what is wrong with it.
    fn answer(&self, head: &str, form: &str) -> Result<Answer, String> {
        let (line, headers) = head.split_once("\r\n").ok_or("no headers")?;
        let request = line.strip_suffix(" HTTP/1.1").ok_or("no HTTP/1.1")?;
        let headers: Vec<(&str, &str)> = headers.lines().filter_map(|line| line.split_once(": ")).collect();
        let mut routes = self.routes.lock().unwrap();
        let route = routes.iter_mut().find(|route| route.request == request).ok_or("unexpected request")?;
        let mut authorization = None;
        for (name, value) in headers {
            let good = match name {
                "host" => value == self.host,
                "accept" => value == route.accept,
                "user-agent" => value.starts_with("ringfence/"),
                "content-type" => route.form.is_some() && value == "application/x-www-form-urlencoded",
                "content-length" => route.form.is_some(),
                "authorization" => authorization.replace(value).is_none(),
                _ => false,
            };
            if !good {
                return Err(format!("unexpected `{name}`"));
            }
        }
        if form != route.form.as_deref().unwrap_or_default() {
            return Err(format!("unexpected form `{form}`"));
        }
        self.heard.lock().unwrap().push(request.to_owned());
        let asks = |challenge: &str| Answer::new("401 Unauthorized", &[("WWW-Authenticate", challenge)], b"");
        match (&route.access, authorization) {
            (Access::Open, None) => {}
            (Access::Locked { key, .. } | Access::Changed { key, .. } | Access::Known { key }, Some(given))
                if given == key => {}
            (Access::Locked { challenge, .. } | Access::Wrong { challenge, .. }, None) => return Ok(asks(challenge)),
            (Access::Wrong { challenge, key: old } | Access::Changed { challenge, old, .. }, Some(given))
                if given == old =>
            {
                return Ok(asks(challenge));
            }
            (_, given) => return Err(format!("unexpected authorization {given:?}")),
        }
        let last = route.answers.len() == 1;
        let answer = if last { route.answers.front().cloned() } else { route.answers.pop_front() };
        answer.ok_or_else(|| "no answer".to_owned())
    }
}
