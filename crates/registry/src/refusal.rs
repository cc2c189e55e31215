//! Answers that are errors, understood.

use reqwest::StatusCode;
use serde::Deserialize;
use strangers::Shown;

use crate::error::PullError;
use crate::transport::Answer;

/// The most that is read of a server's explanation.
const MAX_EXPLANATION: u64 = 64 << 10;

/// The form of errors that the distribution specification has; realms say `message` or `error_description`.
#[derive(Deserialize)]
struct Explanation {
    errors: Option<Vec<Explained>>,
    details: Option<String>,
    message: Option<String>,
    error_description: Option<String>,
}

#[derive(Deserialize)]
struct Explained {
    code: Option<String>,
    message: Option<String>,
}

/// What an answer that is no success means for an image. `secrets` are what the server was told.
pub(crate) async fn understand(answer: Answer, image: String, secrets: &[&str]) -> PullError {
    let (server, status) = (answer.server(), answer.status());
    let message = explanation(answer, secrets).await;
    match status {
        StatusCode::NOT_FOUND => PullError::NotFound { image, message },
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => PullError::Denied { image, message },
        StatusCode::TOO_MANY_REQUESTS => PullError::RateLimited { server },
        _ => PullError::Status { server, image, status: status.as_u16(), message },
    }
}

/// What a server said, in a few words. Whatever hinders reading it is less important than the error itself.
pub(crate) async fn explanation(answer: Answer, secrets: &[&str]) -> Shown {
    let status = answer.status();
    let reason = Shown::new(status.canonical_reason().unwrap_or("no explanation"));
    let Ok(body) = answer.whole(MAX_EXPLANATION).await else { return reason };
    words(&body).map_or(reason, |words| Shown::without(&words, secrets))
}

/// The explanation in a body; pages for people are none.
fn words(body: &[u8]) -> Option<String> {
    let explanation: Explanation = bounded::read(body, &bounded::Budget::for_text(body)).ok()?;
    let first = explanation.errors.and_then(|errors| errors.into_iter().next());
    let words = match first {
        Some(Explained { code: Some(code), message: Some(message) }) => Some(format!("{code}: {message}")),
        Some(Explained { code, message }) => message.or(code),
        None => explanation.error_description.or(explanation.message).or(explanation.details),
    };
    words.filter(|words| !words.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_are_found_where_servers_put_them() {
        for (body, expected) in [
            (r#"{"errors":[{"code":"DENIED","message":"no","detail":{}}]}"#, Some("DENIED: no")),
            (r#"{"errors":[{"code":"DENIED"}]}"#, Some("DENIED")),
            (r#"{"errors":[],"message":"m"}"#, Some("m")),
            (r#"{"details":"incorrect username or password"}"#, Some("incorrect username or password")),
            (r#"{"error":"invalid_grant","error_description":"expired"}"#, Some("expired")),
            (r#"{"message":" "}"#, None),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(words(body.as_bytes()).as_deref(), expected, "{body}");
        }
    }
}
