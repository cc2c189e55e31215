//! A model that is asked over the network.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use log::message::ChatMessage;
use secrecy::SecretString;
use strangers::Shown;
use tokio::time::{Instant, sleep};

use crate::Output;
use crate::cache::{self, Cache};
use crate::client::{Body, Client, Destination};
use crate::config::GenerateConfig;
use crate::error::ModelError;
use crate::keys::{self, Environment};
use crate::limiter::Limiter;
use crate::openai::Server;
use crate::output::Unreadable;
use crate::own_tools::{Granted, ProviderTool};
use crate::pause;
use crate::provider::Provider;
use crate::request::{Answer, Generating, Model, Request};
use crate::retry;
use crate::settings::Settings;

/// A model that can be asked, and what whoever asks should know.
pub struct Opened {
    /// The model: one for all who ask, so that connections and limits are shared.
    pub model: Arc<dyn Model>,
    /// Settings that its provider does not take.
    pub unsent: Vec<&'static str>,
    /// Where it is asked.
    pub address: String,
    /// Its key, for whoever must keep it out of logs.
    pub key: Option<SecretString>,
}

impl fmt::Debug for Opened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Opened").field("model", &self.model.name()).finish_non_exhaustive()
    }
}

/// Finds a model by its full name, such as `openai/gpt-5`. Nobody is asked yet, but a key must be there.
pub fn open(
    name: &str,
    config: &GenerateConfig,
    settings: Settings,
    environment: Environment<'_>,
) -> Result<Opened, ModelError> {
    let unknown = || ModelError::Unknown { name: Shown::new(name) };
    let (provider, model) = Provider::of(name).ok_or_else(unknown)?;
    let (url, server) = provider.address(model, environment)?;
    let found = keys::find(provider.key_variables(), environment)?;
    let first = provider.key_variables().first().copied().unwrap_or_default();
    let (variable, key) = match found {
        Some((variable, key)) => (variable, Some(key)),
        // Servers of one's own often want none.
        None if server == Server::Compatible => (first, None),
        None => return Err(ModelError::MissingKey { provider: provider.name(), variable: first }),
    };
    let headers = provider.headers(key.as_ref()).ok_or(ModelError::OddKey { variable })?;
    let settings = settings.with(config);
    let address = url.to_string();
    let to = Destination { url, headers, key: key.clone(), variable, model: model.to_owned() };
    let remote = Remote {
        name: name.to_owned(),
        model: model.to_owned(),
        provider,
        server,
        client: Client::new(to, &settings)?,
        limiter: Limiter::new(settings.max_connections),
        cache: settings.cache.clone().map(Cache::new),
        settings,
    };
    Ok(Opened { model: Arc::new(remote), unsent: provider.unsent(config), address, key })
}

/// The most calls that one answer may want. Each is made, and a message.
const MOST_CALLS: usize = 256;

struct Remote {
    name: String,
    model: String,
    provider: Provider,
    server: Server,
    client: Client,
    limiter: Limiter,
    cache: Option<Cache>,
    settings: Settings,
}

impl Remote {
    async fn answer(&self, request: &Request<'_>) -> Result<Answer, ModelError> {
        if let Some(tool) = request.provider_tools.iter().find(|tool| !self.provider_tools().contains(tool)) {
            return Err(ModelError::NoSuchTool { model: Shown::new(&self.name), tool: *tool });
        }
        let body = self.body(request)?;
        let Some(cache) = &self.cache else { return self.whole(request, &body).await };
        let key = cache::key(&[&self.name, self.client.url().as_str(), &body.text, request.scope]);
        if let Some(output) = cache.get(&key, SystemTime::now()) {
            return Ok(Answer { output: self.known(output), waited: Duration::ZERO, attempts: 0 });
        }
        let answer = self.whole(request, &body).await?;
        // An answer that cannot be kept is an answer all the same.
        let _ = cache.put(&key, &answer.output, SystemTime::now());
        Ok(answer)
    }

    /// An answer from before, as one of its own: nothing was paid, and no two messages are the same.
    fn known(&self, mut output: Output) -> Output {
        for choice in &mut output.choices {
            if let ChatMessage::Assistant(reply) = &mut choice.message {
                reply.id = Some(uuid::Uuid::new_v4().simple().to_string());
            }
        }
        if let Some(usage) = &mut output.usage {
            usage.total_cost = self.settings.price.map(|_| 0.0);
        }
        output
    }

    fn body(&self, request: &Request<'_>) -> Result<Body, ModelError> {
        let text = self.provider.body(&self.model, request, self.server)?;
        Ok(Body { text, header: self.provider.tool_header(request.provider_tools) })
    }

    /// Asks, and goes on asking while the provider pauses.
    async fn whole(&self, request: &Request<'_>, body: &Body) -> Result<Answer, ModelError> {
        let granted = Granted(request.provider_tools);
        let (mut answer, mut paused) = self.ask(body, granted).await?;
        for _ in 0..pause::MOST {
            let Some(so_far) = answer.output.choices.first().filter(|_| paused) else { break };
            let messages = [request.messages, std::slice::from_ref(&so_far.message)].concat();
            let body = self.body(&Request { messages: &messages, ..*request })?;
            let (more, again) = self.ask(&body, granted).await?;
            paused = again;
            answer = pause::join(answer, more);
        }
        Ok(answer)
    }

    /// Asks until there is an answer, or no hope or no time is left. The truth is whether the provider has more to say.
    async fn ask(&self, body: &Body, granted: Granted<'_>) -> Result<(Answer, bool), ModelError> {
        let start = Instant::now();
        let (mut queued, mut waited, mut attempts) = (Duration::ZERO, Duration::ZERO, 0);
        loop {
            let came = Instant::now();
            let permit = self.limiter.acquire().await;
            // The queue is of our own making: whoever stands in it for long loses nothing of its time.
            queued += came.elapsed();
            let left = || (self.settings.timing.total + queued).saturating_sub(start.elapsed());
            attempts += 1;
            let sent = Instant::now();
            let error = match self.once(body, granted, left()).await {
                Ok((output, paused)) => {
                    permit.succeeded();
                    return Ok((Answer { output, waited: waited + queued, attempts }, paused));
                }
                Err(error) => error,
            };
            match error {
                ModelError::RateLimited { .. } => permit.refused(),
                // Waiting for a repetition is no reason to hold others up.
                _ => drop(permit),
            }
            match retry::next(&error, attempts, left(), &self.settings.backoff, retry::random()) {
                Some(wait) => {
                    waited += sent.elapsed() + wait;
                    sleep(wait).await;
                }
                None if attempts > 1 => return Err(ModelError::GaveUp { attempts, last: Box::new(error) }),
                None => return Err(error),
            }
        }
    }

    async fn once(&self, body: &Body, granted: Granted<'_>, within: Duration) -> Result<(Output, bool), ModelError> {
        let reply = self.client.post(body, within).await?;
        let server = || self.client.server();
        match self.provider.read(reply, granted) {
            Ok(reading) if reading.calls.len() > MOST_CALLS => {
                Err(self.client.malformed(&format!("it wants {} calls at once", reading.calls.len())))
            }
            Ok(reading) => {
                let paused = reading.paused;
                let mut output = reading.into_output(&self.name);
                // Nobody answers with nothing: a count that is not there is not one of zero.
                output.usage = output.usage.filter(|usage| usage.total_tokens > 0);
                if let (Some(price), Some(usage)) = (&self.settings.price, &mut output.usage) {
                    usage.total_cost = Some(price.cost(usage));
                }
                Ok((output, paused))
            }
            Err(Unreadable::Malformed(why)) => Err(self.client.malformed(why.as_str())),
            Err(Unreadable::Uninvited(tool)) => Err(ModelError::Uninvited { server: server(), tool }),
            Err(Unreadable::Filtered(said)) => Err(ModelError::ContentFilter { said }),
        }
    }
}

impl Model for Remote {
    fn name(&self) -> &str {
        &self.name
    }

    fn provider_tools(&self) -> &'static [ProviderTool] {
        self.provider.provider_tools()
    }

    fn generate<'a>(&'a self, request: Request<'a>) -> Generating<'a> {
        Box::pin(async move { self.answer(&request).await })
    }
}
