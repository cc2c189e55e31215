//! Tokens: a registry's realm gives one for pulling one repository, and for nothing else.
//!
//! The scope is ours, not the challenge's: a registry that asks for more than is needed does not get it.

use std::sync::Arc;

use reqwest::StatusCode;
use reqwest::header::LOCATION;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use strangers::Shown;
use url::{Url, form_urlencoded};

use crate::authorization::{Authorization, Identity};
use crate::credentials::Login;
use crate::error::PullError;
use crate::places::{self, Unsafe};
use crate::reference::Reference;
use crate::refusal;
use crate::transport::{Answer, Question, Transport};

const MAX_TOKEN_ANSWER: u64 = 1 << 20;
const ACCEPT: &str = "application/json";
const CLIENT: &str = "ringfence";

/// Registries give the token under one of two names.
#[derive(Deserialize)]
struct Tokens {
    token: Option<String>,
    access_token: Option<String>,
}

/// Gets a token for pulling from a reference's repository.
pub(crate) async fn get(
    transport: &Transport,
    reference: &Reference,
    realm: &str,
    service: Option<&str>,
    login: Option<&Login>,
) -> Result<Arc<Authorization>, PullError> {
    let realm = find_realm(reference, realm)?;
    let scope = format!("repository:{}:pull", reference.repository());
    let service = service.map(|service| ("service", service));
    let parameters = service.into_iter().chain([("scope", scope.as_str())]);
    let token = match login {
        None => {
            let answer = transport.get(question(&asking(&realm, parameters), None)).await?;
            read(answer, reference, Identity::Nobody, &[]).await?
        }
        Some(Login::Password { name, password }) => {
            let proof = Authorization::basic(name, password).ok_or_else(|| unusable(&realm))?;
            let answer = transport.get(question(&asking(&realm, parameters), Some(&proof))).await?;
            read(answer, reference, Identity::Known, &proof.secrets()).await?
        }
        Some(Login::IdentityToken(token)) => {
            let encoded: String = form_urlencoded::byte_serialize(token.expose_secret().as_bytes()).collect();
            let form = form(&encoded, parameters);
            let answer = transport.post(question(&realm, None), &form).await?;
            read(answer, reference, Identity::Known, &[token.expose_secret(), &encoded]).await?
        }
    };
    Ok(Arc::new(token))
}

fn unusable(realm: &Url) -> PullError {
    PullError::Token { server: places::server(realm) }
}

fn find_realm(reference: &Reference, realm: &str) -> Result<Url, PullError> {
    places::realm(reference.origin(), realm).map_err(|why| {
        let realm = Url::parse(realm).map_or_else(|_| Shown::new(realm), |realm| places::server(&realm));
        PullError::Realm { registry: reference.registry().to_owned(), realm, why }
    })
}

fn asking<'a>(realm: &Url, parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Url {
    let mut url = realm.clone();
    url.query_pairs_mut().extend_pairs(parameters);
    url
}

/// The exchange of an identity token: <https://distribution.github.io/distribution/spec/auth/oauth/>.
fn form<'a>(encoded: &str, parameters: impl Iterator<Item = (&'a str, &'a str)>) -> SecretString {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "refresh_token").append_pair("client_id", CLIENT).extend_pairs(parameters);
    SecretString::from(format!("{}&refresh_token={encoded}", form.finish()))
}

fn question<'a>(url: &'a Url, authorization: Option<&'a Authorization>) -> Question<'a> {
    Question { url, accept: ACCEPT, authorization }
}

async fn read(
    answer: Answer,
    reference: &Reference,
    identity: Identity,
    secrets: &[&str],
) -> Result<Authorization, PullError> {
    let (server, status) = (answer.server(), answer.status());
    let registry = reference.registry().to_owned();
    match (status, identity) {
        (StatusCode::OK, _) => {
            let body = answer.whole(MAX_TOKEN_ANSWER).await?;
            // What the parser would say may have the token in it.
            let tokens = bounded::read(&body, &bounded::Budget::for_text(&body)).ok();
            let token = tokens.and_then(|tokens: Tokens| tokens.token.or(tokens.access_token));
            let token = token.and_then(|token| Authorization::bearer(token, identity));
            token.ok_or(PullError::Token { server })
        }
        (StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Identity::Known) => {
            let message = refusal::explanation(answer, secrets).await;
            Err(PullError::LoginRefused { registry, server, message })
        }
        (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, Identity::Nobody) => {
            Err(PullError::LoginNeeded { registry, image: reference.to_string() })
        }
        _ if status.is_redirection() => {
            // A realm was checked once; there is no reason for it to be elsewhere.
            let to = answer.header(LOCATION).and_then(|to| Url::parse(to).ok());
            let to = to.map_or_else(|| server.clone(), |to| places::server(&to));
            Err(PullError::Redirect { server, to, why: Unsafe::Realm })
        }
        _ => Err(refusal::understand(answer, reference.to_string(), secrets).await),
    }
}
