//! The helper processes of one engine. One serves one request at a time, so there are more of them when many ask at once.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jail::cgroups::Limits;
use jail::zygote::{CreateError, Created, Network, Waiter, Zygote};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::oneshot;

use crate::programs::ZYGOTE;
use crate::sandbox::StartError;

/// One helper; whoever it made lives and dies with it.
pub(crate) type Helper = Arc<Mutex<Zygote>>;

/// More would only wait for each other in the kernel.
const MOST: usize = 8;

/// What is to be kept prepared, by every helper.
#[derive(Clone)]
pub(crate) struct Wanted {
    pub(crate) network: Network,
    pub(crate) limits: Option<Limits>,
    pub(crate) name: String,
    pub(crate) count: u32,
}

#[derive(Default)]
struct State {
    all: Vec<Helper>,
    wanted: Option<Wanted>,
}

/// All helpers of an engine. The first is there from the start; the others come when they are needed.
pub(crate) struct Helpers {
    state: Mutex<State>,
    most: usize,
}

/// Takes a helper for oneself. A panic elsewhere leaves it as it is.
pub(crate) fn lock(helper: &Helper) -> MutexGuard<'_, Zygote> {
    helper.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks a helper that is free, without a thread that waits for the answer; `None` where it is not free. What was asked for
/// happens also if nobody awaits this any more; a sandbox that nobody took is ended before the next request.
pub(crate) async fn ask_if_free(
    helper: &Helper,
    begin: impl FnOnce(&mut Zygote, Waiter) -> Result<(), CreateError>,
) -> Option<Result<Created, CreateError>> {
    let (sender, mut receiver) = oneshot::channel();
    // A copy: the helper's own may be used on other threads meanwhile.
    let (socket, patience) = {
        let mut zygote = helper.try_lock().ok()?;
        // An answer that nobody came for must not keep it busy.
        if !zygote.settle_if_answered() {
            return None;
        }
        let socket = zygote.socket().try_clone_to_owned().ok()?;
        let socket = UnixStream::from_std(socket.into()).ok()?;
        let waiter = Box::new(move |answer| sender.send(answer).is_ok());
        if let Err(error) = begin(&mut zygote, waiter) {
            return Some(Err(error));
        }
        (socket, zygote.patience())
    };
    // In steps, as the zygote's own client counts: a pause of the whole machine is one of them.
    let mut steps = tokio::time::interval_at(tokio::time::Instant::now() + STEP, STEP);
    steps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut waited = std::time::Duration::ZERO;
    loop {
        tokio::select! {
            biased;
            answer = &mut receiver => {
                let gone = |_| Err(CreateError::Gone(io::Error::from(io::ErrorKind::UnexpectedEof)));
                return Some(answer.unwrap_or_else(gone));
            }
            ready = socket.readable() => {
                if let Err(error) = ready {
                    return Some(Err(CreateError::Gone(error)));
                }
                // It was a false alarm unless the answer has been handed on now.
                let handed_on = socket.try_io(Interest::READABLE, || match settle(helper) {
                    Some(false) => Err(io::ErrorKind::WouldBlock.into()),
                    other => Ok(other),
                });
                if matches!(handed_on, Ok(None)) {
                    // Who has it hands our answer on, or will be done at once.
                    tokio::task::yield_now().await;
                }
            }
            _ = steps.tick() => {
                waited += STEP;
                // A thread that holds the helper waits for this answer too, and no longer than we.
                if waited >= patience && let Ok(mut zygote) = helper.try_lock() {
                    zygote.give_up();
                    return Some(Err(CreateError::Silent(patience)));
                }
            }
        }
    }
}

/// The steps in which an answer is waited for.
const STEP: std::time::Duration = std::time::Duration::from_secs(1);

/// Hands on an answer, and whether there was one; `None` where somebody else has the helper.
fn settle(helper: &Helper) -> Option<bool> {
    Some(helper.try_lock().ok()?.settle_if_answered())
}

fn start() -> Result<Helper, StartError> {
    Ok(Arc::new(Mutex::new(Zygote::start(ZYGOTE).map_err(StartError::Helper)?)))
}

impl Helpers {
    pub(crate) fn start() -> Result<Self, StartError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let state = State { all: vec![start()?], wanted: None };
        Ok(Self { state: Mutex::new(state), most: processors.min(MOST) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<Helper> {
        self.state().all.clone()
    }

    /// Has every helper, and those to come, keep sandboxes prepared.
    pub(crate) fn prepare(&self, wanted: &Wanted) -> Result<(), StartError> {
        self.state().wanted = Some(wanted.clone());
        self.all().iter().try_for_each(|helper| prepare(helper, wanted))
    }

    /// Does something with a helper that has nothing else to do: one that is there, or one more.
    pub(crate) fn with<T>(&self, number: u32, work: impl FnOnce(&mut Zygote) -> T) -> Result<(Helper, T), StartError> {
        let all = self.all();
        for helper in &all {
            if let Ok(mut free) = helper.try_lock()
                && free.settle_if_answered()
            {
                let done = work(&mut free);
                return Ok((Arc::clone(helper), done));
            }
        }
        let helper =
            if all.len() < self.most { self.another()? } else { Arc::clone(&all[number as usize % all.len()]) };
        let done = work(&mut lock(&helper));
        Ok((helper, done))
    }

    fn another(&self) -> Result<Helper, StartError> {
        let mut state = self.state();
        // Somebody else may have been first.
        if let Some(last) = state.all.last().filter(|_| state.all.len() >= self.most) {
            return Ok(Arc::clone(last));
        }
        let helper = start()?;
        if let Some(wanted) = &state.wanted {
            prepare(&helper, wanted)?;
        }
        state.all.push(Arc::clone(&helper));
        Ok(helper)
    }
}

fn prepare(helper: &Helper, wanted: &Wanted) -> Result<(), StartError> {
    let mut zygote = lock(helper);
    // Helpers count by themselves, and their groups lie side by side.
    let name = format!("{}-{}", wanted.name, zygote.pid());
    Ok(zygote.prepare(wanted.network, wanted.limits, name, wanted.count)?)
}
