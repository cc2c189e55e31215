//! A model that is asked over the network.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use log::message::ChatMessage;
use secrecy::SecretString;
use tokio::time::{Instant, sleep};

use crate::Output;
use crate::cache::{self, Cache};
use crate::client::{Client, Destination};
use crate::config::GenerateConfig;
use crate::error::ModelError;
use crate::keys::{self, Environment};
use crate::limiter::Limiter;
use crate::openai::Server;
use crate::output::Unreadable;
use crate::provider::Provider;
use crate::request::{Answer, Generating, Model, Request};
use crate::retry;
use crate::settings::Settings;
use crate::shown::Shown;

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
        let body = self.provider.body(&self.model, request, self.server)?;
        let Some(cache) = &self.cache else { return self.ask(&body).await };
        let key = cache::key(&[&self.name, self.client.url().as_str(), &body, request.scope]);
        if let Some(output) = cache.get(&key, SystemTime::now()) {
            return Ok(Answer { output: self.known(output), waited: Duration::ZERO, attempts: 0 });
        }
        let answer = self.ask(&body).await?;
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

    /// Asks until there is an answer, or no hope or no time is left.
    async fn ask(&self, body: &str) -> Result<Answer, ModelError> {
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
            let error = match self.once(body, left()).await {
                Ok(output) => {
                    permit.succeeded();
                    return Ok(Answer { output, waited: waited + queued, attempts });
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

    async fn once(&self, body: &str, within: Duration) -> Result<Output, ModelError> {
        let reply = self.client.post(body, within).await?;
        let server = || self.client.server();
        match self.provider.read(reply) {
            Ok(reading) => {
                let mut output = reading.into_output(&self.name);
                if let (Some(price), Some(usage)) = (&self.settings.price, &mut output.usage) {
                    usage.total_cost = Some(price.cost(usage));
                }
                Ok(output)
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

    fn generate<'a>(&'a self, request: Request<'a>) -> Generating<'a> {
        Box::pin(async move { self.answer(&request).await })
    }
}
