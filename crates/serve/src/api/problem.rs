//! Errors as RFC 9457 has them: `application/problem+json`, with a stable word and a hint.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use profile::{Problems, Refusal};
use sandbox::{FailureKind, SessionError, StartError};
use serde::Serialize;
use serde_json::{Value, json};
use stack::StackError;
use utoipa::ToSchema;

use crate::workshop::Obstacle;

/// What went wrong, as a stable word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Code {
    BadRequest,
    Unauthorized,
    NotFound,
    MethodNotAllowed,
    Refused,
    SandboxGone,
    PermissionDenied,
    FileNotFound,
    IsADirectory,
    NotADirectory,
    TooLarge,
    Timeout,
    UnsupportedUser,
    Unavailable,
    Conflict,
    NoKey,
}

impl Code {
    fn status(self) -> StatusCode {
        match self {
            Self::BadRequest => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound | Self::FileNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::Refused | Self::UnsupportedUser => StatusCode::UNPROCESSABLE_ENTITY,
            Self::SandboxGone => StatusCode::GONE,
            Self::PermissionDenied => StatusCode::FORBIDDEN,
            Self::IsADirectory | Self::NotADirectory | Self::Conflict | Self::NoKey => StatusCode::CONFLICT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout => StatusCode::REQUEST_TIMEOUT,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "the request cannot be understood",
            Self::Unauthorized => "nobody knows who asks",
            Self::NotFound => "there is no such thing",
            Self::MethodNotAllowed => "that cannot be done here",
            Self::Refused => "the profile or its rules refuse it",
            Self::SandboxGone => "the sandbox is gone",
            Self::PermissionDenied => "permission denied",
            Self::FileNotFound => "no such file or program",
            Self::IsADirectory => "a directory, where a file was meant",
            Self::NotADirectory => "not a directory",
            Self::TooLarge => "too large",
            Self::Timeout => "it took too long",
            Self::UnsupportedUser => "that user cannot be had in the sandbox",
            Self::Unavailable => "the provider failed",
            Self::Conflict => "it cannot be done as things are",
            Self::NoKey => "there is no key that signs",
        }
    }
}

/// A request that was not answered with what it asked for.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// A name for this sort of problem.
    r#type: String,
    /// The sort in words.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What happened here, on what.
    detail: String,
    /// The sort as a stable word.
    code: Code,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// The guest's own word for why something failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// Everything that stands in the way of a profile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    unmet: Vec<Value>,
    /// The nearest profiles that could be had.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    nearest: Vec<Value>,
    /// Everything that is wrong with a text, with places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Object>)]
    problems: Vec<Value>,
}

/// A problem on its way out.
#[derive(Debug)]
pub(crate) struct Problem(Box<ProblemBody>);

/// What a handler gives.
pub(crate) type Answer<T> = Result<T, Problem>;

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Self {
        let word = json!(code);
        Self(Box::new(ProblemBody {
            r#type: format!("urn:ringfence:problem:{}", word.as_str().unwrap_or_default()),
            title: code.title(),
            status: code.status().as_u16(),
            detail: detail.into(),
            code,
            hint: None,
            failure: None,
            unmet: Vec::new(),
            nearest: Vec::new(),
            problems: Vec::new(),
        }))
    }

    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self::new(Code::BadRequest, detail)
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    pub(crate) fn refusal(refusal: &Refusal) -> Self {
        let first = refusal.unmet.first();
        let detail = match first {
            Some(unmet) => format!("{refusal}: {}", unmet.reason),
            None => refusal.to_string(),
        };
        let mut problem = Self::new(Code::Refused, detail);
        problem.0.hint = first.and_then(|unmet| unmet.hint.clone());
        problem.0.unmet = refusal.unmet.iter().map(|unmet| json!(unmet)).collect();
        problem.0.nearest = refusal.nearest.iter().map(|nearest| json!(nearest)).collect();
        problem
    }

    pub(crate) fn unmet(mut self, unmet: Vec<Value>) -> Self {
        self.0.unmet = unmet;
        self
    }

    pub(crate) fn problems(problems: &Problems) -> Self {
        let first = problems.problems.first();
        let detail = match first {
            Some(first) => match first.place {
                Some(place) => format!("{}:{place}: {}", problems.origin, first.message),
                None => format!("{}: {}", problems.origin, first.message),
            },
            None => problems.to_string(),
        };
        let mut problem = Self::bad(detail);
        problem.0.hint = first.and_then(|first| first.hint.clone());
        problem.0.problems = problems.problems.iter().map(|one| json!(one)).collect();
        problem
    }

    /// The body, for those who answer in another way than by a response.
    pub(crate) fn body(&self) -> &ProblemBody {
        &self.0
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

impl From<Obstacle> for Problem {
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Problems(problems) => Self::problems(&problems),
            Obstacle::Refused(refusal) => Self::refusal(&refusal),
            Obstacle::Unavailable(why) => Self::new(Code::Unavailable, why),
        }
    }
}

impl From<StartError> for Problem {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Mount { hint, .. } | StartError::MountContents { hint, .. } => {
                Self::bad(chain(&error)).hint(hint.unwrap_or("name a path that exists and is not the host's own"))
            }
            StartError::MountSource { .. } => Self::bad(chain(&error)).hint("name a path that exists"),
            error => Self::new(Code::Unavailable, chain(&error)).hint("`ringfence doctor` shows what this host can do"),
        }
    }
}

impl From<StackError> for Problem {
    fn from(error: StackError) -> Self {
        match error {
            StackError::Make { .. } | StackError::Network { .. } => {
                Self::new(Code::Unavailable, chain(&error)).hint("`ringfence doctor` shows what this host can do")
            }
            // What runs in it is the client's: asking again helps nobody.
            error => {
                Self::new(Code::Conflict, chain(&error)).hint("look at the service's command, image and health check")
            }
        }
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let (kind, message) = match error {
            SessionError::Died(_) | SessionError::Unresponsive(_) => {
                return Self::new(Code::SandboxGone, error.to_string());
            }
            SessionError::Failed { kind, message } => (kind, message),
        };
        let (code, word) = match kind {
            FailureKind::NotFound => (Code::FileNotFound, "not_found"),
            FailureKind::PermissionDenied => (Code::PermissionDenied, "permission_denied"),
            FailureKind::IsADirectory => (Code::IsADirectory, "is_a_directory"),
            FailureKind::NotADirectory => (Code::NotADirectory, "not_a_directory"),
            FailureKind::NotRegular => (Code::Conflict, "not_regular"),
            FailureKind::TooLarge => (Code::TooLarge, "too_large"),
            FailureKind::UnknownUser => (Code::UnsupportedUser, "unknown_user"),
            FailureKind::UnmappedUser => (Code::UnsupportedUser, "unmapped_user"),
            FailureKind::ProcessLimit => (Code::Conflict, "process_limit"),
            FailureKind::Exhausted => (Code::Conflict, "exhausted"),
            FailureKind::Invalid => (Code::BadRequest, "invalid"),
            FailureKind::Other => (Code::Conflict, "other"),
            FailureKind::Link => (Code::PermissionDenied, "link"),
            FailureKind::HardLink => (Code::PermissionDenied, "hard_link"),
            FailureKind::Conflict => (Code::Conflict, "conflict"),
        };
        let mut problem = Self::new(code, message);
        problem.0.failure = Some(word.to_owned());
        problem
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.0.code.status();
        let text = serde_json::to_vec(&*self.0).unwrap_or_default();
        let mut response = (status, text).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
