//! The phases around the agent: what prepares a sample's place, and what judges what was left there.

use std::collections::BTreeMap;
use std::time::Duration;

use log::event::{Score, What};
use profile::Phase;
use sandbox::{Exec, Outcome, Overflow, Sandbox, Snapshot, System, User};
use serde_json::json;

use crate::gone::Gone;
use crate::journal::{Journal, now};
use crate::place::{Place, PlaceError, Places, STAGE_TIMEOUT, Watched, chain};
use crate::sample::{Shared, scripted};
use crate::score::{self, Panel};
use crate::solve::{State, Stop};
use crate::task::{FileContent, HostFile, Sample, Scorer, of_service};

/// How long a setup script may take.
const SETUP: Duration = Duration::from_mins(5);
/// What a script's sandbox may take to be made and ended, beside the script itself.
const TIDYING_UP: Duration = Duration::from_secs(30);
/// The most time for ending a sandbox where a daemon does it: its agent can make that slow.
const ENDING: Duration = Duration::from_mins(1);
/// The most that is kept of what a setup script says.
const SAID: usize = 64 << 10;

/// The setup phase: files, then the script; what the script started is gone when the agent begins.
pub(crate) async fn set_up(
    places: &Places,
    sample: &Sample,
    name: &str,
    scripted: bool,
    journal: &Journal,
) -> Result<(Place, Option<Snapshot>), Stop> {
    let _span = journal.span("setup", "setup");
    let text = |error: PlaceError| places.stop(&error);
    let mut place = places.enter(Phase::Setup, name, None, System::AsLeft, journal).await.map_err(text)?;
    for (path, content) in &sample.files {
        let bytes = match content {
            FileContent::Text(text) => text.clone().into_bytes(),
            FileContent::Host(file) => read(file.clone()).await?,
        };
        let (service, inside) = of_service(path);
        let Some(sandbox) = place.sandbox_of(service) else {
            places.leave(place, journal).await;
            return Err(format!("{path}: there is no such service").into());
        };
        sandbox.write_file(inside, &bytes, 0o644).await.map_err(|error| format!("{path}: {error}"))?;
        journal.event(What::Sandbox {
            action: "write_file".into(),
            cmd: None,
            options: None,
            file: Some(path.clone()),
            input: Some(format!("({} bytes)", bytes.len())),
            result: None,
            output: None,
            completed: Some(now()),
        });
    }
    if let Some(script) = &sample.setup {
        let (sandbox, networks) = place.parts();
        let ran = watched(networks, run_setup(sandbox, script, journal)).await;
        if let Err(why) = ran.unwrap_or_else(|gone| Err(gone.to_string())) {
            places.leave(place, journal).await;
            return Err(why.into());
        }
    }
    // The scorer has programs, settings and files in `/` from before the agent, with what the task itself puts there.
    let is_kept = |path: &String| sandbox::is_kept_from_before(of_service(path).1);
    if places.has_snapshots() && (sample.setup.is_some() || sample.files.keys().any(is_kept)) {
        let prepared = places.freeze(place, journal).await.map_err(text)?;
        let place = places.enter(Phase::Agent, name, Some(&prepared), System::AsLeft, journal).await.map_err(text)?;
        return Ok((place, Some(prepared)));
    }
    if sample.setup.is_none() && places.is_untouched(&place).map_err(text)? {
        places.advance(&place, Phase::Agent, journal).await.map_err(text)?;
    } else if sample.setup.is_none() || places.clears_up() {
        places.clear(&mut place, Phase::Agent, journal).await.map_err(text)?;
    } else {
        journal.info(json!({"kind": "phase", "note": "a local process has no phases: what setup started lives on"}));
    }
    if scripted && places.clears_up() && (sample.setup.is_some() || sample.files.keys().any(is_kept)) {
        places.keep_system(&mut place).await.map_err(text)?;
    }
    Ok((place, None))
}

/// A file of the task's, which must be the one that was there when the task was read.
async fn read(file: HostFile) -> Result<Vec<u8>, String> {
    let name = file.relative().display().to_string();
    let read = tokio::task::spawn_blocking(move || file.read()).await.map_err(std::io::Error::other);
    read.and_then(|bytes| bytes).map_err(|error| format!("`{name}` cannot be read: {error}"))
}

/// Does something in a place, unless nothing watches its network any more: then its result does not count.
async fn watched<T>(mut networks: Watched<'_>, work: impl Future<Output = T>) -> Result<T, Gone> {
    tokio::select! {
        biased;
        gone = networks.lost() => Err(gone),
        done = work => Ok(done),
    }
}

async fn run_setup(sandbox: &Sandbox, script: &str, journal: &Journal) -> Result<(), String> {
    let exec = Exec {
        argv: ["/bin/sh", "-euc", script].map(str::to_owned).to_vec(),
        env: vec![("LANG".into(), "C.UTF-8".into())],
        cwd: Some("/".into()),
        user: User::Default,
        pty: None,
        timeout_ms: Some(u64::try_from(SETUP.as_millis()).unwrap_or(u64::MAX)),
        max_output: None,
    };
    let completed = sandbox.exec(exec, b"", SAID, Overflow::KeepTail).await.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&[completed.stderr, completed.stdout].concat()).into_owned();
    let code = match completed.outcome {
        Outcome::Exited(code) => i64::from(code),
        _ => -1,
    };
    journal.event(What::Sandbox {
        action: "exec".into(),
        cmd: Some("setup".into()),
        options: None,
        file: None,
        input: None,
        result: Some(code),
        output: Some(said.clone()),
        completed: Some(now()),
    });
    if code == 0 { Ok(()) } else { Err(format!("the setup script failed ({:?}): {said}", completed.outcome)) }
}

/// How long a score script may take: never longer than a sample.
fn script_time(shared: &Shared, stated: u64) -> Duration {
    Duration::from_millis(stated.min(shared.plan.limits.time.amount.0))
}

/// How long judging may take: a sample's time once more for models, and beside it the time of each script, and of copying files to
/// the score phase's sandbox where the provider cannot keep them. A script that
/// takes longer is ended by its own time, and is a wrong answer; what takes longer than all of them is an error.
pub(crate) fn judging_time(shared: &Shared) -> Duration {
    let is_staged = shared.places.as_ref().is_some_and(Places::clears_up);
    let staging = if is_staged { STAGE_TIMEOUT + 2 * ENDING } else { Duration::ZERO };
    let scripts = shared.task.scorers.iter().map(|scorer| match scorer {
        Scorer::Script { timeout, .. } => script_time(shared, *timeout) + TIDYING_UP + staging,
        _ => Duration::ZERO,
    });
    Duration::from_millis(shared.plan.limits.time.amount.0) + scripts.sum::<Duration>()
}

/// Moves the agent's data to a new sandbox with the programs of before, where files cannot be kept. Else the score of a sample whose
/// data cannot be moved, if the agent can have caused that.
async fn stage(
    places: &Places,
    place: Place,
    name: &str,
    system: &System,
    state: &State,
    journal: &Journal,
) -> Result<Result<Place, Score>, Stop> {
    let declared = match system {
        System::Before { declared, .. } => declared.as_slice(),
        System::AsLeft => &[],
    };
    match places.stage(place, name, declared, journal).await {
        Ok(place) => Ok(Ok(place)),
        Err(error) if error.is_of_agent() => Ok(Err(score::lost(state, &chain(&error)))),
        Err(error) => match places.stop(&error) {
            Stop::Blocked(why) => Ok(Err(score::blocked(state, &why))),
            stop => Err(stop),
        },
    }
}

/// The score phase. A sample that failed is not judged; its place is left all the same.
pub(crate) async fn score_all(
    shared: &Shared,
    (sample, epoch): (&Sample, u32),
    name: &str,
    state: &mut State,
    journal: &Journal,
    (place, system): (Option<Place>, System),
    failed: bool,
) -> Result<BTreeMap<String, Score>, Stop> {
    let text = |error: PlaceError| chain(&error);
    let scripted = scripted(&shared.task);
    let mut scene: Option<Snapshot> = None;
    let mut kept: Option<Place> = None;
    // The score where there is nothing left to judge: the agent made it impossible to keep or to copy its files.
    let mut lost: Option<Score> = None;
    if let (Some(places), Some(place)) = (&shared.places, place) {
        if scripted && !failed && places.has_snapshots() {
            match places.freeze(place, journal).await {
                Ok(snapshot) => scene = Some(snapshot),
                Err(error) if error.is_of_agent() => lost = Some(score::lost(state, &chain(&error))),
                Err(error) => return Err(text(error).into()),
            }
        } else if scripted && !failed && places.clears_up() {
            match stage(places, place, name, &system, state, journal).await? {
                Ok(place) => kept = Some(place),
                Err(score) => lost = Some(score),
            }
        } else {
            places.leave(place, journal).await;
        }
    }
    let mut is_used = false;
    let mut scores = BTreeMap::new();
    if failed {
        return Ok(scores);
    }
    let _span = journal.span("scorers", "scorers");
    let mut panel = Panel {
        task: &shared.task,
        models: &shared.models,
        sample,
        epoch,
        journal,
        counters: &shared.counters,
        budget: &shared.budget,
        speakers: BTreeMap::new(),
    };
    for (scorer, scorer_name) in shared.task.scorers.iter().zip(&shared.scorers) {
        let _span = journal.span("scorer", scorer_name);
        let unjudged = lost.as_ref().filter(|_| matches!(scorer, Scorer::Script { .. }));
        let mut known = score::by_words(scorer, sample, state).or_else(|| unjudged.cloned());
        if let (Scorer::Script { .. }, None, Some(places)) = (scorer, &known, &shared.places)
            && let Some(place) = kept.take_if(|_| is_used)
        {
            // The agent's code, which an earlier script may have run, could have changed its programs.
            match stage(places, place, name, &system, state, journal).await? {
                Ok(place) => kept = Some(place),
                Err(score) => known = Some(lost.insert(score).clone()),
            }
        }
        let score = match (scorer, known, &shared.places) {
            (_, Some(score), _) => score,
            (Scorer::Script { script, timeout }, None, Some(places)) => {
                let system = system.clone();
                let entered = match kept.take() {
                    Some(place) => Ok(place),
                    None => places.enter(Phase::Score, name, scene.as_ref(), system, journal).await,
                };
                match entered.map_err(|error| places.stop(&error)) {
                    Ok(mut place) => {
                        let timeout = script_time(shared, *timeout);
                        let (sandbox, networks) = place.parts();
                        let judging = score::by_script(sandbox, script, timeout, sample, state);
                        let judged = match watched(networks, judging).await {
                            Ok(judged) => judged,
                            Err(Gone::Failed(why)) => Err(why),
                            Err(of_agent) => Ok(score::killed(state, &of_agent)),
                        };
                        if judged.is_ok() && places.clears_up() {
                            kept = Some(place);
                            is_used = true;
                        } else {
                            places.leave(place, journal).await;
                        }
                        judged?
                    }
                    Err(Stop::Blocked(why)) => score::blocked(state, &why),
                    Err(stop) => return Err(stop),
                }
            }
            (Scorer::Graded(graded), None, _) => {
                let mut spent = std::mem::take(&mut state.spent);
                let judged = panel.judge(graded, state, &mut spent).await;
                state.spent = spent;
                judged?
            }
            _ => return Err(Stop::Failed("a scoring script needs a sandbox".into())),
        };
        journal.event(What::Score { score: score.clone(), target: Some(sample.target.clone()), intermediate: false });
        scores.insert(scorer_name.clone(), score);
    }
    if let (Some(places), Some(place)) = (&shared.places, kept) {
        places.leave(place, journal).await;
    }
    Ok(scores)
}

/// The scores of a sample that had no place to be solved in, for what an agent may have left: wrong, by every scorer.
pub(crate) fn blocked(
    shared: &Shared,
    sample: &Sample,
    state: &State,
    journal: &Journal,
    why: &str,
) -> BTreeMap<String, Score> {
    let _span = journal.span("scorers", "scorers");
    let all = shared.scorers.iter().map(|name| {
        let score = score::blocked(state, why);
        journal.event(What::Score { score: score.clone(), target: Some(sample.target.clone()), intermediate: false });
        (name.clone(), score)
    });
    all.collect()
}
