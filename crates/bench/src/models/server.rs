//! A model that takes 50 ms for every answer and gives 200 at the same time: `OpenAI`'s chat completions, in a process of its
//! own. So its limit is 4000 answers per second, less what this machine takes; whoever comes beyond that waits in line.

use std::error::Error;
use std::io::{self, Read as _, Write as _};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep_until;

use super::http::Wire;
use super::record::{Figures, Record};
use super::script;

const LATENCY: Duration = Duration::from_millis(50);
/// Answers at the same time.
pub(crate) const AT_ONCE: usize = 200;
/// Where it answers.
const PATH: &str = "/v1/chat/completions";

/// What all connections share.
pub(crate) struct Server {
    start: Instant,
    turns: usize,
    places: Semaphore,
    record: Mutex<Record>,
}

impl Server {
    /// One whose conversations have so many turns.
    pub(crate) fn new(turns: usize) -> Arc<Self> {
        let (places, record) = (Semaphore::new(AT_ONCE), Mutex::default());
        Arc::new(Self { start: Instant::now(), turns, places, record })
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it saw so far.
    pub(crate) fn figures(&self) -> Figures {
        self.record().figures()
    }

    /// Answers whoever comes.
    pub(crate) async fn accept(self: &Arc<Self>, listener: &TcpListener) -> io::Result<()> {
        loop {
            let (stream, _) = listener.accept().await?;
            let server = Arc::clone(self);
            tokio::spawn(async move {
                server.record().connected();
                // A client that goes away is the client's business; its figures show it.
                let _ = answer_all(stream, &server).await;
                server.record().disconnected();
            });
        }
    }
}

/// Says its port, serves until standard input ends, and says what it saw.
pub(crate) fn serve(turns: usize) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let server = Server::new(turns);
    writeln!(io::stdout(), "{}", listener.local_addr()?.port())?;
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        // Whatever ends it is the end.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    });
    runtime.block_on(async {
        tokio::select! {
            accepted = server.accept(&listener) => accepted,
            _ = end => Ok(()),
        }
    })?;
    writeln!(io::stdout(), "{}", serde_json::to_string(&server.figures())?)?;
    Ok(())
}

async fn answer_all(stream: TcpStream, server: &Server) -> io::Result<()> {
    let mut wire = Wire::new(stream)?;
    loop {
        let Some(message) = wire.read().await? else { return Ok(()) };
        let is_ours = message.line.strip_prefix("POST ").is_some_and(|rest| rest.starts_with(PATH));
        let asked = if is_ours { script::read(message.body) } else { Err("there is nothing here".to_owned()) };
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => {
                let body = serde_json::json!({"error": {"message": why}}).to_string();
                wire.write("HTTP/1.1 400 Bad Request", &body).await?;
                continue;
            }
        };
        server.record().asked(asked, server.start.elapsed());
        let place = server.places.acquire().await.map_err(io::Error::other)?;
        let until = tokio::time::Instant::now() + LATENCY;
        let reply = script::reply(asked, server.turns);
        sleep_until(until).await;
        // Before it is sent: the next question can be here before we run again.
        server.record().answered(asked, server.turns, server.start.elapsed());
        wire.write("HTTP/1.1 200 OK", &reply).await?;
        drop(place);
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    #[tokio::test]
    async fn conversations_of_twenty_turns_are_answered_to_their_end() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Server::new(20);
        let seen = Arc::clone(&server);
        let serving = tokio::spawn(async move { server.accept(&listener).await });
        load::talk(port, 5, 10, 20).await.unwrap();
        serving.abort();
        let figures = seen.figures();
        assert_eq!((figures.requests, figures.repeated, figures.conversations), (200, 0, 10));
        assert_eq!((figures.connections, figures.at_once), (5, 5));
    }
}
