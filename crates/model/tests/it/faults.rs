//! Servers that hang, drop, trickle, redirect, refuse and lie: every provider bears them in the same way.
#![expect(clippy::unwrap_used, reason = "a test may stop at its own set-up")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::fake::{Api, Fake, KEY, Next};
use log::message::ChatMessage;
use model::{Answer, Backoff, Fault, GenerateConfig, Model, ModelError, Request, Settings, Timing, ToolChoice, Wait};
use serde_json::json;

fn settings() -> Settings {
    let ms = Duration::from_millis;
    Settings {
        timing: Timing { connect: ms(2000), read: ms(10_000), attempt: ms(10_000), total: ms(20_000) },
        backoff: Backoff { first: ms(1), most: ms(2), retries: 2 },
        max_connections: 4,
        ..Settings::default()
    }
}

fn open_with(api: Api, fake: &Fake, settings: Settings, key: &str) -> Arc<dyn Model> {
    let (variable, base) = api.variables();
    let address = fake.base(api);
    let environment = |name: &str| match name {
        _ if name == variable => Some(key.to_owned()),
        _ if name == base => Some(address.clone()),
        _ => None,
    };
    model::open(&format!("{}/test", api.name()), &GenerateConfig::default(), settings, &environment).unwrap().model
}

async fn ask(model: &dyn Model) -> Result<Answer, ModelError> {
    let (config, tool_choice) = (GenerateConfig::default(), ToolChoice::Auto);
    let messages = [ChatMessage::user("hello")];
    model
        .generate(Request {
            messages: &messages,
            tools: &[],
            provider_tools: &[],
            tool_choice: &tool_choice,
            config: &config,
            scope: "",
        })
        .await
}

async fn after(api: Api, script: Vec<Next>, settings: Settings) -> (Result<Answer, ModelError>, usize) {
    let fake = Fake::start(api, script);
    let answer = ask(&*open_with(api, &fake, settings, KEY)).await;
    (answer, fake.requests().len())
}

/// Whether an error is what it should be.
type Expected = fn(&ModelError) -> bool;

fn status(status: u16) -> Next {
    Next::Status(status, Vec::new(), json!({"error": {"message": "no", "type": "t", "code": "c"}}))
}

fn last(error: ModelError) -> ModelError {
    match error {
        ModelError::GaveUp { last, .. } => *last,
        other => other,
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again() {
    for api in Api::ALL {
        let limited = Next::Status(429, vec![("retry-after", "0".into())], json!({"error": {"message": "slow"}}));
        for fault in
            [status(500), status(429), limited, status(529), status(503), status(408), Next::Drop, Next::DropInBody]
        {
            let script = vec![fault.clone(), fault.clone(), Next::Reply(crate::fake::said(api, "at last"))];
            let (answer, asked) = after(api, script, settings()).await;
            let answer = answer.unwrap();
            assert_eq!((answer.output.completion.as_str(), answer.attempts, asked), ("at last", 3, 3), "{fault:?}");
            assert!(answer.waited > Duration::ZERO);
            // Three attempts are all there are.
            let (answer, asked) = after(api, vec![fault.clone(); 9], settings()).await;
            let error = answer.unwrap_err();
            assert!(matches!(error, ModelError::GaveUp { attempts: 3, .. }), "{error:?}");
            assert_eq!(asked, 3);
            assert!(matches!(error.fault(), Fault::Provider | Fault::Network), "{error:?}");
        }
    }
}

#[tokio::test]
async fn what_does_not_pass_is_not_tried_again() {
    for api in Api::ALL {
        let told = |status, message: &str, code: &str| {
            Next::Status(status, Vec::new(), json!({"error": {"message": message, "code": code}}))
        };
        let long = told(400, "This model's maximum context length is 8 tokens", "context_length_exceeded");
        let cases: Vec<(Next, Expected)> = vec![
            (status(400), |error| matches!(error, ModelError::Refused { status: 400, .. })),
            (status(401), |error| matches!(error, ModelError::Unauthorised { .. })),
            (status(403), |error| matches!(error, ModelError::Unauthorised { .. })),
            (status(404), |error| matches!(error, ModelError::NoSuchModel { .. })),
            (long, |error| matches!(error, ModelError::ContextLength { .. })),
            (told(400, "prompt is too long: 9 > 8", ""), |error| matches!(error, ModelError::ContextLength { .. })),
            (told(400, "filtered", "content_filter"), |error| matches!(error, ModelError::ContentFilter { .. })),
            (told(429, "pay", "insufficient_quota"), |error| matches!(error, ModelError::Quota { .. })),
            (Next::Body(b"<html>".to_vec()), |error| matches!(error, ModelError::Malformed { .. })),
            (Next::Body(b"{}".to_vec()), |error| matches!(error, ModelError::Malformed { .. })),
            (Next::Body(b"{\"choices\": [], \"output\": 7, \"content\": 7}".to_vec()), |error| {
                matches!(error, ModelError::Malformed { .. })
            }),
        ];
        for (next, expected) in cases {
            let (answer, asked) = after(api, vec![next.clone()], settings()).await;
            let error = answer.unwrap_err();
            assert!(expected(&error), "{api:?} {next:?}: {error:?}");
            assert_eq!(asked, 1, "{error}");
            assert!(!error.hint().is_empty() && !error.is_retried());
        }
    }
}

#[tokio::test]
async fn nobody_is_followed_elsewhere() {
    for api in Api::ALL {
        let other = Fake::start(api, [Next::Reply(crate::fake::said(api, "stolen"))]);
        for code in [301, 302, 307, 308] {
            let to = format!("http://{}/v1/chat/completions", other.address);
            let (answer, _) = after(api, vec![Next::Status(code, vec![("location", to)], json!({}))], settings()).await;
            assert!(matches!(answer, Err(ModelError::Redirected { .. })), "{answer:?}");
        }
        assert_eq!(other.requests().len(), 0);
    }
}

#[tokio::test]
async fn a_server_that_says_nothing_is_left() {
    let ms = Duration::from_millis;
    for api in Api::ALL {
        let timing = Timing { read: ms(60), ..settings().timing };
        let backoff = Backoff { retries: 1, ..settings().backoff };
        let (answer, _) = after(api, vec![Next::Hang, Next::Hang], Settings { timing, backoff, ..settings() }).await;
        let error = answer.unwrap_err();
        assert!(matches!(error, ModelError::GaveUp { attempts: 2, .. }), "{error:?}");
        assert!(matches!(last(error), ModelError::TimedOut { wait: Wait::Head, .. }));
        // A trickle never stops for long, but has an end.
        let timing = Timing { attempt: ms(120), ..settings().timing };
        let backoff = Backoff { retries: 0, ..settings().backoff };
        let begun = Instant::now();
        let (answer, _) = after(api, vec![Next::Trickle], Settings { timing, backoff, ..settings() }).await;
        assert!(matches!(answer, Err(ModelError::TimedOut { wait: Wait::Whole, .. })), "{answer:?}");
        assert!(begun.elapsed() < Duration::from_secs(8));
    }
}

#[tokio::test]
async fn all_attempts_together_have_an_end() {
    let ms = Duration::from_millis;
    let timing = Timing { read: ms(40), total: ms(100), ..settings().timing };
    let backoff = Backoff { retries: 1000, ..settings().backoff };
    let (answer, asked) = after(Api::OpenAi, vec![Next::Hang; 50], Settings { timing, backoff, ..settings() }).await;
    assert!(matches!(last(answer.unwrap_err()), ModelError::TimedOut { .. }));
    assert!(asked < 20, "{asked}");
    // Who is told to come back after the end gives up now.
    let later = Next::Status(429, vec![("retry-after", "3600".into())], json!({}));
    let begun = Instant::now();
    let (answer, asked) = after(Api::OpenAi, vec![later], settings()).await;
    assert!(matches!(answer, Err(ModelError::RateLimited { retry_after: Some(_), .. })), "{answer:?}");
    assert!(asked == 1 && begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn long_replies_are_read_and_endless_ones_are_not() {
    for api in Api::ALL {
        let text = "a".repeat(10 << 20);
        let (answer, _) = after(api, vec![Next::Reply(crate::fake::said(api, &text))], settings()).await;
        assert_eq!(answer.unwrap().output.completion.len(), 10 << 20, "{api:?}");
        let small = Settings { max_reply: 1 << 20, ..settings() };
        for next in [Next::Endless, Next::Body(vec![b' '; (1 << 20) + 1])] {
            let (answer, asked) = after(api, vec![next], small.clone()).await;
            assert!(matches!(answer, Err(ModelError::TooLarge { limit: 0x10_0000, .. })), "{answer:?}");
            assert_eq!(asked, 1);
        }
    }
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_not_shown() {
    for api in Api::ALL {
        for code in [400, 401, 404, 429, 500] {
            let told = format!("Incorrect API key provided: {KEY}\u{1b}[31m, see {}", "long ".repeat(1000));
            let next = Next::Status(code, Vec::new(), json!({"error": {"message": told}}));
            let settings = Settings { backoff: Backoff { retries: 0, ..settings().backoff }, ..settings() };
            let (answer, _) = after(api, vec![next], settings).await;
            let error = answer.unwrap_err();
            let shown = format!("{error} {error:?} {}", error.hint());
            assert!(!shown.contains(KEY) && !shown.contains('\u{1b}') && shown.len() < 3000, "{shown}");
            assert!(shown.contains("[REDACTED]"), "{shown}");
        }
        let to = format!("http://elsewhere.example/?key={KEY}");
        let (answer, _) = after(api, vec![Next::Status(302, vec![("location", to)], json!({}))], settings()).await;
        assert!(!format!("{answer:?}").contains(KEY));
    }
}

#[tokio::test]
async fn keys_that_cannot_be_sent_and_missing_ones_are_named_by_their_variable() {
    for api in Api::ALL {
        let (variable, _) = api.variables();
        let name = format!("{}/test", api.name());
        let config = GenerateConfig::default();
        let error = model::open(&name, &config, settings(), &|_| None).unwrap_err();
        assert!(matches!(error, ModelError::MissingKey { .. }) && error.hint().contains(variable), "{error:?}");
        let odd = |wanted: &str| (wanted == variable).then(|| "sk-a\nb".to_owned());
        let error = model::open(&name, &config, settings(), &odd).unwrap_err();
        assert!(matches!(error, ModelError::OddKey { .. }), "{error:?}");
        assert!(!format!("{error:?} {error} {}", error.hint()).contains("sk-a"));
    }
    let error = model::open("opnai/x", &GenerateConfig::default(), settings(), &|_| None).unwrap_err();
    assert!(error.hint().contains("openai/…, openai-responses/…, anthropic/…, google/…"), "{}", error.hint());
}

#[tokio::test]
async fn many_requests_share_the_connections_there_are() {
    let api = Api::OpenAi;
    let script = std::iter::repeat_n(Next::Reply(crate::fake::said(api, "yes")), 40);
    let fake = Fake::with_pace(api, script, Duration::from_millis(10));
    let model = open_with(api, &fake, settings(), KEY);
    let asked = (0..40).map(|_| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { ask(&*model).await })
    });
    let mut waited = Duration::ZERO;
    for answer in asked.collect::<Vec<_>>() {
        waited = waited.max(answer.await.unwrap().unwrap().waited);
    }
    assert!((2..=4).contains(&fake.most_under_way()), "{}", fake.most_under_way());
    // Whoever came last waited for the others, which is not its own time.
    assert!(waited >= Duration::from_millis(40), "{waited:?}");
}

#[tokio::test]
async fn whoever_stands_in_the_queue_loses_nothing_of_its_time() {
    let api = Api::OpenAi;
    let script = std::iter::repeat_n(Next::Reply(crate::fake::said(api, "yes")), 16);
    let fake = Fake::with_pace(api, script, Duration::from_millis(150));
    let timing = Timing { total: Duration::from_secs(2), ..settings().timing };
    let model = open_with(api, &fake, Settings { timing, max_connections: 1, ..settings() }, KEY);
    // The last of them waits for longer than all its attempts may take.
    let asked = (0..16).map(|_| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { ask(&*model).await })
    });
    for answer in asked.collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap().unwrap().attempts, 1);
    }
}

#[tokio::test]
async fn a_server_that_bears_less_is_asked_less() {
    let api = Api::Anthropic;
    // Eight refusals in a row, then answers.
    let refused = std::iter::repeat_n(status(529), 8);
    let script = refused.chain(std::iter::repeat_n(Next::Reply(crate::fake::said(api, "yes")), 20));
    let fake = Fake::with_pace(api, script, Duration::from_millis(5));
    let backoff = Backoff { retries: 20, ..settings().backoff };
    let model = open_with(api, &fake, Settings { backoff, ..settings() }, KEY);
    let asked = (0..20).map(|_| {
        let model = Arc::clone(&model);
        tokio::spawn(async move { ask(&*model).await })
    });
    for answer in asked.collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap().unwrap().output.completion, "yes");
    }
    assert_eq!(fake.requests().len(), 28);
}
